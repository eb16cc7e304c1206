//! Durations on the wire: texts such as `90s`, `1h30m`, `7d`.
//!
//! Invariant: a duration is whole milliseconds, and its text parses back to the same value.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest span that can be written: 10,000 days.
pub const SPAN_MAX: Duration = Duration::from_secs(10_000 * 86_400);

/// A duration as it is written in definitions and events, to the millisecond, at most [`SPAN_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span(u64);

/// Why a text is no [`Span`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    /// The text is not numbers with units.
    #[error("{text:?} is not a duration{}", with_unit(.0), text = .0)]
    Form(String),
    /// The span is longer than [`SPAN_MAX`].
    #[error("{0:?} is longer than 10000d")]
    TooLong(String),
}

/// What a number without a unit lacks.
fn with_unit(text: &str) -> String {
    let number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if number { format!(": it has no unit, such as {text}s") } else { String::new() }
}

impl SpanError {
    /// What would be right.
    pub const HINT: &'static str = "write numbers with units d, h, m, s, ms, largest first, such as \"90s\", \"1h30m\", \"7d\"";
}

const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Span {
    /// From whole milliseconds, clamped to [`SPAN_MAX`].
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        let max = SPAN_MAX.as_secs() * 1_000;
        Self(if millis > max { max } else { millis })
    }

    /// From whole seconds, clamped to [`SPAN_MAX`].
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self::from_millis(secs.saturating_mul(1_000))
    }

    /// Whole milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The span as the standard type.
    #[must_use]
    pub const fn to_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let shown = || text.chars().take(64).collect::<String>();
        let (mut rest, mut total, mut next_unit) = (text, 0_u64, 0);
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let letters = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
            let (number, unit) = (&rest[..digits], &rest[digits..digits + letters]);
            let place = UNITS.iter().skip(next_unit).position(|(name, _)| *name == unit);
            let (Some(place), false) = (place, number.is_empty()) else {
                return Err(SpanError::Form(shown()));
            };
            next_unit += place;
            let number: u64 = number.parse().map_err(|_| SpanError::TooLong(shown()))?;
            total = total.saturating_add(number.saturating_mul(UNITS[next_unit].1));
            next_unit += 1;
            rest = &rest[digits + letters..];
        }
        if text.is_empty() {
            return Err(SpanError::Form(shown()));
        }
        if u128::from(total) > SPAN_MAX.as_millis() {
            return Err(SpanError::TooLong(shown()));
        }
        Ok(Self(total))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut rest = self.0;
        for (unit, millis) in UNITS {
            if rest >= millis {
                write!(f, "{}{unit}", rest / millis)?;
                rest %= millis;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::read(deserializer)
    }
}

impl schemars::JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$",
            "description": "numbers with units d, h, m, s, ms, largest first, such as 90s, 1h30m, 7d",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_the_sum_of_its_units() {
        for (text, millis) in [
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("7d", 604_800_000),
            ("1s250ms", 1_250),
            ("0s", 0),
        ] {
            assert_eq!(text.parse::<Span>().unwrap().as_millis(), millis, "{text}");
        }
        assert_eq!(Span::from_millis(90_000).to_string(), "1m30s");
    }

    #[test]
    fn bare_numbers_fractions_signs_and_disorder_are_refused() {
        for text in ["90", "", "1.5h", "-1s", "s", "1m1h", "1h1h", "1 h", "1w", "９s"] {
            assert!(matches!(text.parse::<Span>(), Err(SpanError::Form(_))), "{text}");
        }
        let error = "5".parse::<Span>().unwrap_err();
        assert_eq!(error.to_string(), "\"5\" is not a duration: it has no unit, such as 5s");
        for text in ["10001d", "99999999999999999999s", "18446744073709551615d"] {
            assert!(matches!(text.parse::<Span>(), Err(SpanError::TooLong(_))), "{text}");
        }
    }
}
