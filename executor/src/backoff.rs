//! How long to wait before trying again, with jitter so that many do not try in step.

use std::time::Duration;

use uuid::Uuid;

/// The first and the longest wait of a delivery whose task is not known.
const UNKNOWN_TASK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// Waits that double up to a bound, each shortened by up to a half.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    next: Duration,
    max: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, max: Duration) -> Self {
        Self { first, next: first, max }
    }

    /// Starts over after a success.
    pub(crate) const fn reset(&mut self) {
        self.next = self.first;
    }

    /// The next wait.
    pub(crate) fn delay(&mut self) -> Duration {
        let delay = self.next.mul_f64(1.0 - random() / 2.0);
        self.next = self.next.saturating_mul(2).min(self.max);
        delay
    }
}

/// How long a delivery stays away whose task is not known here: 1 s doubled with each delivery up to 5 min, and
/// up to a half more as long as that is below the bound.
pub(crate) fn unknown_task(delivered: u64) -> Duration {
    let doublings = u32::try_from(delivered.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    let (first, max) = UNKNOWN_TASK;
    let delay = first.saturating_mul(1 << doublings).min(max);
    delay.mul_f64(1.0 + random() / 2.0).min(max)
}

/// From 0 up to 1.
fn random() -> f64 {
    let (_, bits) = Uuid::new_v4().as_u64_pair();
    f64::from((bits & 0xFFFF_FFFF) as u32) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_within_their_bounds() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(400));
        for millis in [100, 200, 400, 400] {
            let delay = backoff.delay().as_millis();
            assert!((millis / 2..=millis).contains(&delay), "{delay} for {millis}");
        }
        backoff.reset();
        assert!(backoff.delay() <= Duration::from_millis(100));
    }

    #[test]
    fn an_unknown_task_comes_back_after_one_second_to_five_minutes() {
        for (delivered, least, most) in [
            (0, 1, 2),
            (1, 1, 2),
            (2, 2, 3),
            (5, 16, 24),
            (9, 256, 300),
            (10, 300, 300),
            (u64::MAX, 300, 300),
        ] {
            let delay = unknown_task(delivered);
            let range = Duration::from_secs(least)..=Duration::from_secs(most);
            assert!(range.contains(&delay), "{delay:?} for delivery {delivered}");
        }
    }
}
