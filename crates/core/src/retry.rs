//! Back-off: how long after a failed attempt the next fire of its shard is due.
//!
//! Invariant: a delay lies within its policy, is never shorter than [`DELAY_MIN`] nor than what the task asked
//! for, and is the same for every leader who computes it.

use std::time::Duration;

use cronstream_schemas::duration::Span;
use cronstream_schemas::event::RetryPolicy;
use cronstream_schemas::id::ShardId;
use xxhash_rust::xxh3::xxh3_64;

/// The shortest delay between a failure and the next fire.
pub const DELAY_MIN: Duration = Duration::from_millis(100);
/// The longest first back-off (`design.md` §5).
pub const BASE: Span = Span::from_secs(1);
/// The longest back-off (`design.md` §5).
pub const CAP: Span = Span::from_secs(300);

/// The default policy with `max_attempts` starts.
#[must_use]
pub const fn policy(max_attempts: u32) -> RetryPolicy {
    RetryPolicy { max_attempts, base: BASE, cap: CAP }
}

/// The delay after the `attempt`-th start (from 1) has failed: full jitter over the exponential ceiling,
/// drawn from a hash of the shard and the fire.
#[must_use]
pub fn delay(
    policy: &RetryPolicy,
    attempt: u32,
    shard: ShardId,
    fire_no: u32,
    retry_after: Option<Span>,
) -> Duration {
    let ceiling = ceiling(policy, attempt).as_millis();
    let draw = u128::from(xxh3_64(format!("{shard}.{fire_no}.retry").as_bytes()));
    let millis = (ceiling * draw) >> 64;
    let jittered = Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
    let asked = retry_after.map_or(Duration::ZERO, Span::to_duration);
    jittered.max(DELAY_MIN) + asked
}

/// The sum of the longest back-offs of a policy.
#[must_use]
pub fn longest_total(policy: &RetryPolicy) -> Duration {
    (1..policy.max_attempts).map(|attempt| ceiling(policy, attempt).max(DELAY_MIN)).sum()
}

fn ceiling(policy: &RetryPolicy, attempt: u32) -> Duration {
    let factor = 1_u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX);
    let millis = policy.base.as_millis().saturating_mul(factor.max(1));
    Duration::from_millis(millis.min(policy.cap.as_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cronstream_schemas::id::{Incarnation, RunId, RunSeed};
    use cronstream_schemas::time::Timestamp;

    fn shard(n: i64) -> ShardId {
        let (at, job) = (Timestamp::from_millis(n), "a/b".parse().unwrap());
        ShardId { run: RunId::derive(at, &job, Incarnation(1), RunSeed::Slot(at)), shard: 0 }
    }

    #[test]
    fn the_four_hundredth_attempt_does_not_overflow() {
        let policy = policy(400);
        assert!(delay(&policy, 400, shard(1), 400, None) <= CAP.to_duration());
        assert!(longest_total(&policy) < Duration::from_secs(400 * 300));
    }

    #[test]
    fn a_thousand_failures_at_once_do_not_retry_in_step() {
        let delays: Vec<_> =
            (0..1_000).map(|n| delay(&policy(9), 7, shard(n), 1, None).as_millis()).collect();
        let early = delays.iter().filter(|delay| **delay < 32_000).count();
        assert!((400..600).contains(&early), "{early} of 1000 in the first half of 64 s");
    }

    #[test]
    fn no_retry_comes_before_the_task_allows_it() {
        let asked = Span::from_secs(60);
        for n in 0..1_000 {
            let delay = delay(&policy(3), 1, shard(n), 1, Some(asked));
            assert!((60_100..=61_100).contains(&delay.as_millis()), "{delay:?}");
        }
    }
}
