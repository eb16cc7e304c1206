//! When a job is due: the schedule and everything that moves, filters or delays its slots.
//!
//! Invariant: a value of these types is within its bounds; whether an expression, a zone or a calendar means
//! anything is for `core` to say.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use chrono::{NaiveDateTime, NaiveTime, Timelike};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::duration::Span;
use crate::name::JobId;
use crate::time::Timestamp;

/// The most expressions of one job.
pub const EXPRESSIONS_MAX: usize = 8;
/// The most daily windows of one job.
pub const WINDOWS_MAX: usize = 24;
/// The most calendars that a job may name, of each kind.
pub const CALENDARS_MAX: usize = 8;

/// When a job is due.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// A cron expression, or up to eight of them (due when any of them is), read in the job's time zone.
    Cron(Expressions),
    /// A fixed interval, 100ms–366d, counted from `start`, or from when the interval was first defined.
    Every(Span),
    /// This long after the end of the run before, 1s–366d; the first time, after the definition.
    FixedDelay(Span),
    /// Once: an instant with an offset, or a local time in the job's time zone.
    At(When),
}

/// One to eight cron expressions; a text on the wire when there is one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Expressions(Vec<String>);

/// A number of expressions that a job may not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} expressions, not 1 to {EXPRESSIONS_MAX}")]
pub struct ExpressionsError(usize);

impl Expressions {
    /// One to [`EXPRESSIONS_MAX`] expressions.
    ///
    /// # Errors
    /// When there are none or too many.
    pub fn new(expressions: Vec<String>) -> Result<Self, ExpressionsError> {
        match expressions.len() {
            1..=EXPRESSIONS_MAX => Ok(Self(expressions)),
            other => Err(ExpressionsError(other)),
        }
    }

    /// The expressions, in their order.
    #[must_use]
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }
}

impl From<&str> for Expressions {
    fn from(expression: &str) -> Self {
        Self(vec![expression.to_owned()])
    }
}

impl fmt::Display for Expressions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl Serialize for Expressions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => serializer.serialize_str(one),
            many => many.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Expressions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            One(String),
            Many(Vec<String>),
        }
        let expressions = match Form::deserialize(deserializer)? {
            Form::One(one) => vec![one],
            Form::Many(many) => many,
        };
        Self::new(expressions).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Expressions {
    fn schema_name() -> Cow<'static, str> {
        "Expressions".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "a cron expression, or one to eight of them",
            "oneOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": EXPRESSIONS_MAX },
            ],
        })
    }
}

/// The one instant of `at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum When {
    /// An instant with an offset.
    Instant(Timestamp),
    /// A wall time in the job's zone.
    Local(LocalTime),
}

/// A wall time without a zone, to the millisecond: `2027-01-31T03:00:00`, `2027-01-31T03:00`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalTime(NaiveDateTime);

/// A text that is neither an instant nor a local time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an RFC 3339 instant nor a local time such as 2027-01-31T03:00:00")]
pub struct WhenError(String);

impl When {
    /// What would be right.
    pub const HINT: &'static str = "an RFC 3339 instant with an offset, such as \"2027-01-31T03:00:00Z\", or a local time in `time_zone`, such as \"2027-01-31T03:00:00\"";
}

impl LocalTime {
    /// Milliseconds since 1970-01-01T00:00:00 on the wall.
    #[must_use]
    pub fn civil_millis(self) -> i64 {
        self.0.and_utc().timestamp_millis()
    }
}

impl fmt::Display for LocalTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.format("%Y-%m-%dT%H:%M:%S%.f"))
    }
}

impl FromStr for LocalTime {
    type Err = WhenError;

    fn from_str(text: &str) -> Result<Self, WhenError> {
        ["%Y-%m-%dT%H:%M:%S%.3f", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"]
            .into_iter()
            .find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())
            .filter(|at| {
                (0..=Timestamp::MAX.as_millis()).contains(&at.and_utc().timestamp_millis())
            })
            .map(Self)
            .ok_or_else(|| WhenError(text.chars().take(64).collect()))
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instant(at) => at.fmt(f),
            Self::Local(at) => at.fmt(f),
        }
    }
}

impl FromStr for When {
    type Err = WhenError;

    fn from_str(text: &str) -> Result<Self, WhenError> {
        text.parse().map(Self::Instant).or_else(|_| text.parse().map(Self::Local))
    }
}

impl From<Timestamp> for When {
    fn from(at: Timestamp) -> Self {
        Self::Instant(at)
    }
}

impl Serialize for When {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for When {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::read(deserializer)
    }
}

impl schemars::JsonSchema for When {
    fn schema_name() -> Cow<'static, str> {
        "When".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "description": Self::HINT })
    }
}

/// Whose rules the expressions of a job follow.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Five fields, six with seconds first, seven with a year; 0 and 7 are Sunday.
    #[default]
    Crontab,
    /// Quartz: seconds first, 1 is Sunday, `?` in one of the day fields.
    Quartz,
}

impl Dialect {
    /// Whether it is the default.
    #[must_use]
    pub fn is_crontab(&self) -> bool {
        *self == Self::Crontab
    }
}

/// What becomes of a wall time that a clock change leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// It is due at the end of the gap.
    End,
    /// It is not due that day.
    Skip,
    /// It is read with the offset in force before the gap: 02:30 becomes 03:30.
    Before,
}

/// What becomes of a wall time that a clock change shows twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fold {
    /// It is due the first time.
    First,
    /// It is due the second time.
    Last,
    /// It is due both times.
    Both,
}

/// Where a slot on a day that the calendars leave out goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shift {
    /// To the same wall time of the next day that they have.
    Next,
    /// To the same wall time of the last day before that they have.
    Previous,
}

/// Which days of named calendars a job's slots may lie on; the date is the one in the job's time zone.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct CalendarUse {
    /// Only on days that each of these calendars (`<namespace>/<name>`) has, at most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 8))]
    pub only: Vec<JobId>,
    /// Never on a day that one of these has, at most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 8))]
    pub except: Vec<JobId>,
    /// Move such slots instead of leaving them out; for cron expressions alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<Shift>,
}

impl CalendarUse {
    /// Every calendar it names.
    pub fn names(&self) -> impl Iterator<Item = &JobId> {
        self.only.iter().chain(&self.except)
    }
}

/// A stretch of every day: `09:00-17:30`; one that ends before it begins goes over midnight: `22:00-02:00`.
/// The end does not belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DailyWindow {
    from: u32,
    to: u32,
}

/// A text that is no [`DailyWindow`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a daily window such as 09:00-17:30")]
pub struct DailyWindowError(String);

impl DailyWindow {
    /// What would be right.
    pub const HINT: &'static str = "two different wall times, such as \"09:00-17:30\", or over midnight \"22:00-02:00\"; 24:00 is the end of the day";

    /// The first second of the day that belongs to it, 0–86,399.
    #[must_use]
    pub const fn from_second(self) -> u32 {
        self.from
    }

    /// The first second of the day that no longer belongs to it, 0–86,400; at or before
    /// [`Self::from_second`] when the window goes over midnight.
    #[must_use]
    pub const fn to_second(self) -> u32 {
        self.to
    }
}

impl FromStr for DailyWindow {
    type Err = DailyWindowError;

    fn from_str(text: &str) -> Result<Self, DailyWindowError> {
        let error = || DailyWindowError(text.chars().take(64).collect());
        let (from, to) = text.split_once('-').ok_or_else(error)?;
        let from = second_of_day(from).filter(|from| *from < 86_400).ok_or_else(error)?;
        let to = second_of_day(to).ok_or_else(error)?;
        if from == to { Err(error()) } else { Ok(Self { from, to }) }
    }
}

fn second_of_day(text: &str) -> Option<u32> {
    if matches!(text, "24:00" | "24:00:00") {
        return Some(86_400);
    }
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    let form = match text.len() {
        5 => "%H:%M",
        8 => "%H:%M:%S",
        _ => return None,
    };
    let time = NaiveTime::parse_from_str(text, form).ok().filter(|_| digits(text))?;
    Some(time.num_seconds_from_midnight()).filter(|_| time.nanosecond() < 1_000_000_000)
}

impl fmt::Display for DailyWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |second: u32| {
            let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
            if second == 0 {
                format!("{hour:02}:{minute:02}")
            } else {
                format!("{hour:02}:{minute:02}:{second:02}")
            }
        };
        write!(f, "{}-{}", time(self.from), time(self.to))
    }
}

impl Serialize for DailyWindow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DailyWindow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::read(deserializer)
    }
}

impl schemars::JsonSchema for DailyWindow {
    fn schema_name() -> Cow<'static, str> {
        "DailyWindow".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let time = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?";
        schemars::json_schema!({
            "type": "string",
            "pattern": format!("^{time}-({time}|24:00(:00)?)$"),
            "description": Self::HINT,
        })
    }
}

/// What becomes of slots that were missed: by downtime, a pause, a stalled or suspended process, a clock jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Misfire {
    /// What fires of the slots that are older than `threshold`. Default `fire_once`.
    #[serde(default)]
    pub policy: MisfirePolicy,
    /// A slot up to this old is only late, and fires: 1s–24h. Default `1m`.
    #[serde(default = "Misfire::default_threshold")]
    pub threshold: Span,
    /// How many missed slots `fire_all` fires, the latest ones: 1–1,000. Default 100.
    #[serde(default = "Misfire::default_limit")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: u32,
    /// The oldest missed slot that may fire: 1s–30d. Default for `fire_once` the job's period, at most 24h; for
    /// `fire_all` 24h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Span>,
}

impl Misfire {
    /// One minute.
    #[must_use]
    pub const fn default_threshold() -> Span {
        Span::from_secs(60)
    }

    /// A hundred.
    #[must_use]
    pub const fn default_limit() -> u32 {
        100
    }

    /// Whether every setting is the default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Misfire {
    fn default() -> Self {
        Self {
            policy: MisfirePolicy::default(),
            threshold: Self::default_threshold(),
            limit: Self::default_limit(),
            window: None,
        }
    }
}

/// Which missed slots fire.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MisfirePolicy {
    /// The latest one.
    #[default]
    FireOnce,
    /// The latest ones, up to `limit`, in their order.
    FireAll,
    /// None.
    Skip,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_and_a_local_time_are_told_apart_by_the_offset() {
        let when = |text: &str| text.parse::<When>().unwrap();
        assert!(matches!(when("2027-01-31T03:00:00Z"), When::Instant(_)));
        for text in ["2027-01-31T03:00", "2027-01-31T03:00:00", "2027-01-31T03:00:00.000"] {
            assert_eq!(when(text).to_string(), "2027-01-31T03:00:00", "{text}");
        }
        for text in ["2027-01-31", "2027-02-29T00:00", "1969-12-31T23:00", "2027-01-31T24:00", "x"]
        {
            assert!(text.parse::<When>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_daily_window_is_two_different_wall_times() {
        let window: DailyWindow = "22:00-02:00".parse().unwrap();
        assert_eq!((window.from_second(), window.to_second()), (79_200, 7_200));
        for text in ["09:00-17:30", "22:00-02:00", "00:00-24:00", "09:00:30-09:01"] {
            assert_eq!(text.parse::<DailyWindow>().unwrap().to_string(), text);
        }
        for text in
            ["", "9-17", "09:00", "09:00-09:00", "24:00-01:00", "09:60-10:00", "+9:00-10:00"]
        {
            assert!(text.parse::<DailyWindow>().is_err(), "{text}");
        }
    }

    #[test]
    fn one_expression_is_a_text_and_several_are_a_list() {
        let read = |text: &str| serde_json::from_str::<Expressions>(text);
        assert_eq!(serde_json::to_string(&read("[\"@daily\"]").unwrap()).unwrap(), "\"@daily\"");
        assert_eq!(read("[\"a\",\"b\"]").unwrap().to_string(), "a; b");
        assert!(read("[]").is_err() && read("7").is_err());
        assert!(read(&serde_json::to_string(&vec!["x"; 9]).unwrap()).is_err());
    }
}
