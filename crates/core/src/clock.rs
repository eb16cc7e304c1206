//! The clock guard: how far the wall clock may be trusted, measured against the broker's timestamps.
//!
//! Invariant: no slot is decided beyond the last broker timestamp read back, plus the monotonic time since, plus
//! `max_clock_error`. Without a fresh sample nothing is decided.

use std::time::Duration;

use cronstream_schemas::time::Timestamp;

/// A sample older than this is renewed before the next batch.
pub const SAMPLE_FOR: Duration = Duration::from_secs(10);

/// One reading of the broker's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    broker: Timestamp,
    monotonic: Duration,
}

/// The guard of one node.
#[derive(Debug, Clone)]
pub struct Guard {
    max_error: Duration,
    sample: Option<Sample>,
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
        Self { max_error, sample: None }
    }

    /// Takes a broker timestamp that was read back; `monotonic` is the time at which the answer was there, so
    /// that the estimate never runs ahead of the broker.
    pub fn sample(&mut self, broker: Timestamp, monotonic: Duration) {
        self.sample = Some(Sample { broker, monotonic });
    }

    /// Whether a new sample is due.
    #[must_use]
    pub fn is_stale(&self, monotonic: Duration) -> bool {
        self.sample.is_none_or(|sample| monotonic.saturating_sub(sample.monotonic) > SAMPLE_FOR)
    }

    /// The instant beyond which nothing may be decided.
    #[must_use]
    pub fn limit(&self, monotonic: Duration) -> Timestamp {
        self.broker_now(monotonic).map_or(Timestamp::MIN, |now| now.plus(self.max_error))
    }

    /// How far the wall clock is ahead of the broker's, in milliseconds.
    #[must_use]
    pub fn ahead_ms(&self, wall: Timestamp, monotonic: Duration) -> Option<i64> {
        self.broker_now(monotonic).map(|broker| wall.as_millis() - broker.as_millis())
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

    fn broker_now(&self, monotonic: Duration) -> Option<Timestamp> {
        self.sample.map(|s| s.broker.plus(monotonic.saturating_sub(s.monotonic)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_an_hour_ahead_decides_nothing_early() {
        let mut guard = Guard::new(Duration::from_millis(500));
        let at = Timestamp::from_millis(10_000_000);
        assert_eq!(guard.limit(Duration::ZERO), Timestamp::MIN);
        assert_eq!(guard.verdict(at, Duration::ZERO), Verdict::Unknown);
        guard.sample(at, Duration::from_secs(100));
        let later = Duration::from_secs(103);
        assert_eq!(guard.limit(later), at.plus(Duration::from_millis(3_500)));
        let hour_ahead = at.plus(Duration::from_secs(3_603));
        assert_eq!(guard.verdict(hour_ahead, later), Verdict::Off(3_600_000));
        assert_eq!(guard.verdict(at.plus(Duration::from_millis(3_499)), later), Verdict::Good);
        assert_eq!(
            guard.verdict(at.plus(Duration::from_secs(60)), Duration::from_secs(160)),
            Verdict::Unknown
        );
    }
}
