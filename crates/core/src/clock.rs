//! The clock guard: how far the wall clock may be trusted, measured against the broker's timestamps.
//!
//! Invariant: no slot is decided beyond the last broker timestamp read back, plus the monotonic time since, plus
//! `max_clock_error`. Without a fresh sample nothing is decided.

use std::time::Duration;

use cronstream_schemas::time::Timestamp;

/// A sample older than this is renewed before the next batch.
pub const SAMPLE_FOR: Duration = Duration::from_secs(10);

/// By how much the rate of two clocks may differ: 1 ms in 4 s is far more than any of them drifts.
const DRIFT_PARTS: u32 = 4_000;

/// The broker's clock is between `low` and `high` at the monotonic time `at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Estimate {
    at: Duration,
    low: Timestamp,
    high: Timestamp,
}

impl Estimate {
    fn on(self, monotonic: Duration) -> Self {
        let passed = monotonic.saturating_sub(self.at);
        let drift = passed / DRIFT_PARTS;
        Self {
            at: monotonic,
            low: self.low.plus(passed.saturating_sub(drift)),
            high: self.high.plus(passed + drift),
        }
    }
}

/// The guard of one node.
#[derive(Debug, Clone)]
pub struct Guard {
    max_error: Duration,
    estimate: Option<Estimate>,
    sampled: Duration,
}

/// Why a node may not lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The clocks agree.
    Good,
    /// There is no fresh sample.
    Unknown,
    /// The wall clock is off by more than is allowed: ahead by this many milliseconds (behind if negative).
    Off(i64),
}

impl Guard {
    /// A guard that allows `max_error`.
    #[must_use]
    pub const fn new(max_error: Duration) -> Self {
        Self { max_error, estimate: None, sampled: Duration::ZERO }
    }

    /// Takes a reading of the broker's clock that was asked for at `sent` and there at `received`, both
    /// monotonic. A slow answer narrows nothing; one that contradicts what was known replaces it.
    pub fn sample(&mut self, broker: Timestamp, sent: Duration, received: Duration) {
        let high = broker.plus(received.saturating_sub(sent));
        let new = Estimate { at: received, low: broker, high };
        let known = self.estimate.map_or(new, |old| {
            let old = old.on(received);
            let (low, high) = (old.low.max(new.low), old.high.min(new.high));
            if low <= high { Estimate { at: received, low, high } } else { new }
        });
        self.estimate = Some(known);
        self.sampled = received;
    }

    /// Whether a new sample is due.
    #[must_use]
    pub fn is_stale(&self, monotonic: Duration) -> bool {
        self.estimate.is_none() || monotonic.saturating_sub(self.sampled) > SAMPLE_FOR
    }

    /// The instant beyond which nothing may be decided.
    #[must_use]
    pub fn limit(&self, monotonic: Duration) -> Timestamp {
        let low = self.estimate.map(|estimate| estimate.on(monotonic).low);
        low.map_or(Timestamp::MIN, |low| low.plus(self.max_error))
    }

    /// How far the wall clock is at least ahead of the broker's, in milliseconds; negative when it is behind, zero
    /// when the two may be equal.
    #[must_use]
    pub fn ahead_ms(&self, wall: Timestamp, monotonic: Duration) -> Option<i64> {
        let Estimate { low, high, .. } = self.estimate?.on(monotonic);
        let behind = (wall.as_millis() - low.as_millis()).min(0);
        Some((wall.as_millis() - high.as_millis()).max(0) + behind)
    }

    /// Whether the node may lead.
    #[must_use]
    pub fn verdict(&self, wall: Timestamp, monotonic: Duration) -> Verdict {
        let max = i64::try_from(self.max_error.as_millis()).unwrap_or(i64::MAX);
        match self.ahead_ms(wall, monotonic) {
            None => Verdict::Unknown,
            Some(_) if self.is_stale(monotonic) => Verdict::Unknown,
            Some(ahead) if ahead.abs() > max => Verdict::Off(ahead),
            Some(_) => Verdict::Good,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::from_millis(10_000_000);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn guard() -> Guard {
        let mut guard = Guard::new(ms(500));
        guard.sample(AT, ms(100_000), ms(100_002));
        guard
    }

    #[test]
    fn without_a_sample_nothing_may_be_decided() {
        let guard = Guard::new(ms(500));
        assert_eq!(guard.limit(ms(5)), Timestamp::MIN);
        assert_eq!(guard.verdict(AT, ms(5)), Verdict::Unknown);
    }

    #[test]
    fn a_clock_an_hour_off_is_told_from_a_good_one() {
        let (guard, now) = (guard(), ms(103_002));
        let broker = AT.plus(ms(3_000));
        let limit = guard.limit(now);
        assert!((broker.plus(ms(498))..=broker.plus(ms(500))).contains(&limit), "{limit}");
        assert_eq!(guard.verdict(broker.plus(ms(499)), now), Verdict::Good);
        assert!(matches!(
            guard.verdict(broker.plus(ms(3_600_000)), now),
            Verdict::Off(3_599_000..)
        ));
        assert!(matches!(
            guard.verdict(broker.minus(ms(3_600_000)), now),
            Verdict::Off(..-3_599_000)
        ));
        assert_eq!(guard.verdict(broker.plus(ms(60_000)), ms(163_002)), Verdict::Unknown);
    }

    #[test]
    fn an_answer_that_takes_a_second_does_not_look_like_a_wrong_clock() {
        let mut guard = guard();
        // Read at 104,000, there at 105,000: the reading alone would say 1 s ahead.
        guard.sample(AT.plus(ms(4_000)), ms(104_000), ms(105_002));
        let wall = AT.plus(ms(5_000));
        assert_eq!(guard.verdict(wall, ms(105_002)), Verdict::Good);
        assert!(guard.limit(ms(105_002)) >= wall.plus(ms(490)));
    }

    #[test]
    fn a_broker_clock_that_is_set_back_is_believed() {
        let mut guard = guard();
        guard.sample(AT.minus(ms(60_000)), ms(104_000), ms(104_002));
        assert_eq!(guard.limit(ms(104_002)), AT.minus(ms(59_500)));
    }
}
