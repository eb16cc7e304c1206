//! Instants on the wire: UTC, to the millisecond, as RFC 3339 text.
//!
//! Invariant: a [`Timestamp`] lies in the years 1970–9999, so it prints as RFC 3339 and its
//! milliseconds fit the 48 bits of a run id.

mod rfc3339;

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Milliseconds since 1970-01-01T00:00:00Z, clamped to the years 1970–9999.
///
/// Kept as one more than that, so that an `Option` of it is as small as itself: a ticker holds several for each job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(NonZeroU64);

/// A text that is no RFC 3339 instant with an offset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an RFC 3339 instant with an offset, such as 2027-01-31T03:00:00Z")]
pub struct TimestampError(String);

impl Timestamp {
    /// The first instant, 1970-01-01T00:00:00Z.
    pub const MIN: Self = Self(NonZeroU64::MIN);
    /// The last instant, 9999-12-31T23:59:59.999Z.
    pub const MAX: Self = Self(NonZeroU64::new(253_402_300_800_000).expect("not zero"));

    /// From milliseconds since the Unix epoch; values out of range are clamped.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        if millis < 0 {
            Self::MIN
        } else if millis > Self::MAX.as_millis() {
            Self::MAX
        } else {
            Self(NonZeroU64::MIN.saturating_add(millis as u64))
        }
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0.get() as i64 - 1
    }

    /// This instant as chrono's type.
    #[must_use]
    pub fn to_datetime(self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.as_millis()).expect("the range is 1970-9999")
    }

    /// Later by `duration`, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.as_millis().saturating_add(millis))
    }

    /// Earlier by `duration`, at least [`Timestamp::MIN`].
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.as_millis().saturating_sub(millis))
    }

    /// How long after `earlier` this is; zero when it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(
            u64::try_from(self.as_millis().saturating_sub(earlier.as_millis())).unwrap_or(0),
        )
    }
}

impl Default for Timestamp {
    fn default() -> Self {
        Self::MIN
    }
}

impl From<DateTime<Utc>> for Timestamp {
    fn from(at: DateTime<Utc>) -> Self {
        Self::from_millis(at.timestamp_millis())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(rfc3339::write(*self, &mut [0; rfc3339::BYTES]))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        if let Some(at) = rfc3339::read(text) {
            return Ok(at);
        }
        let error = || TimestampError(text.chars().take(64).collect());
        let at = DateTime::parse_from_rfc3339(text).map_err(|_| error())?.timestamp_millis();
        let range = Self::MIN.as_millis()..=Self::MAX.as_millis();
        if range.contains(&at) { Ok(Self::from_millis(at)) } else { Err(error()) }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(rfc3339::write(*self, &mut [0; rfc3339::BYTES]))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::read(deserializer)
    }
}

impl schemars::JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_keeps_its_milliseconds_and_loses_its_offset() {
        let at: Timestamp = "2027-01-31T03:00:00.125+01:00".parse().unwrap();
        assert_eq!(at.to_string(), "2027-01-31T02:00:00.125Z");
    }

    #[test]
    fn every_day_of_the_range_is_written_as_rfc_3339() {
        let millis = (0..=Timestamp::MAX.as_millis()).step_by(86_400_000 + 3_661_001);
        for at in millis.chain([Timestamp::MAX.as_millis()]).map(Timestamp::from_millis) {
            let expected = at.to_datetime().to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
            assert_eq!(at.to_string(), expected);
        }
    }

    #[test]
    fn a_local_time_is_refused() {
        for text in ["2027-01-31T03:00:00", "2027-01-31", "1969-12-31T23:59:59Z", "now"] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::MAX.plus(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.minus(Duration::MAX), Timestamp::MIN);
        assert_eq!(Timestamp::MIN.since(Timestamp::MAX), Duration::ZERO);
    }
}
