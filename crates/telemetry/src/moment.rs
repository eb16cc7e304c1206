//! Instants as OTLP counts them.

use std::time::{SystemTime, UNIX_EPOCH};

use cronstream_schemas::time::Timestamp;

/// Nanoseconds since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The machine's clock.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Milliseconds since 1970, as the broker stamps messages.
    #[must_use]
    pub fn from_millis(millis: i64) -> Self {
        Self(u64::try_from(millis).unwrap_or(0).saturating_mul(1_000_000))
    }

    pub(crate) const fn nanos(self) -> u64 {
        self.0
    }
}

impl From<Timestamp> for Moment {
    fn from(at: Timestamp) -> Self {
        Self::from_millis(at.as_millis())
    }
}
