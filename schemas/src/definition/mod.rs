//! The job definition, version 1: what a user publishes to `cron.define.<namespace>.<job>`.
//!
//! Invariant: a [`JobDefinition`] is within every bound named here. Reading one lists every fault of the
//! document at once; a field that is not known is a fault, never ignored.

mod draft;
mod read;
mod schedule;
mod timing;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::draft::Draft;
pub(crate) use self::read::{read, read_address, read_fields};
pub use self::schedule::{
    CALENDARS_MAX, CalendarUse, DailyWindow, DailyWindowError, Dialect, EXPRESSIONS_MAX,
    Expressions, ExpressionsError, Fold, Gap, LocalTime, Misfire, MisfirePolicy, Schedule, Shift,
    WINDOWS_MAX, When, WhenError,
};
use crate::duration::Span;
use crate::json::Json;
use crate::name::Name;
use crate::time::Timestamp;

/// The most bytes of a definition in all.
pub const DEFINITION_MAX_BYTES: usize = 256 * 1024;
/// The most starts of a shard, retries and crashes together.
pub const MAX_ATTEMPTS_MAX: u32 = 100;
/// The shortest `every`.
pub const EVERY_MIN: Span = Span::from_millis(100);
/// The longest `every`.
pub const EVERY_MAX: Span = Span::from_secs(366 * 86_400);
/// The shortest fixed delay.
pub const FIXED_DELAY_MIN: Span = Span::from_secs(1);
/// The longest jitter.
pub const JITTER_MAX: Span = Span::from_secs(86_400);
/// The shortest and the longest misfire threshold.
pub const THRESHOLD_RANGE: (Span, Span) = (Span::from_secs(1), Span::from_secs(86_400));
/// The most missed slots that `fire_all` fires.
pub const MISFIRE_LIMIT_MAX: u32 = 1_000;
/// The shortest and the longest misfire window.
pub const MISFIRE_WINDOW_RANGE: (Span, Span) = (Span::from_secs(1), Span::from_secs(30 * 86_400));
/// The shortest timeout and start_within.
pub const TIMEOUT_MIN: Span = Span::from_millis(100);
/// The longest timeout and start_within.
pub const TIMEOUT_MAX: Span = Span::from_secs(30 * 86_400);
/// The shortest retention.
pub const RETENTION_MIN: Span = Span::from_secs(60);
/// The longest retention, and the longest that a run may live with it (`run_by` + retention).
pub const RETENTION_MAX: Span = Span::from_secs(400 * 86_400);
/// The most characters of a title.
pub const TITLE_MAX_CHARS: usize = 200;
/// The most labels.
pub const LABELS_MAX: usize = 32;
/// The most bytes of a label's key, and of its value.
pub const LABEL_MAX_BYTES: (usize, usize) = (64, 256);

/// A job: what runs, when, and by which policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct JobDefinition {
    /// The task that executors know by this name.
    pub task: Name,
    /// The pool of executors. Default `default`.
    #[serde(default = "defaults::queue")]
    pub queue: Name,
    /// Handed to the task bit for bit; any JSON, at most 128 KiB. Default `{}`.
    #[serde(default = "Json::empty")]
    pub params: Json,
    /// When it is due.
    pub schedule: Schedule,
    /// IANA name of the zone that expressions, local times, windows and calendar days are read in. Default `UTC`.
    #[serde(default = "defaults::time_zone")]
    pub time_zone: String,
    /// Whose rules the expressions follow. Default `crontab`.
    #[serde(default, skip_serializing_if = "Dialect::is_crontab")]
    pub dialect: Dialect,
    /// What becomes of a wall time that a clock change leaves out. Default, as Debian cron: fixed times are due at the
    /// gap's end, those that begin with a star follow elapsed time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// What becomes of a wall time that a clock change shows twice. Default, as Debian cron: fixed times are due the
    /// first time, those that begin with a star both times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<Fold>,
    /// On which days of named calendars it may be due. Default: on any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendars: Option<CalendarUse>,
    /// No slot before this instant. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Timestamp>,
    /// No slot at or after this instant. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
    /// Slots count only within one of these stretches of the day, at most 24. Default: the whole day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 24))]
    pub windows: Vec<DailyWindow>,
    /// Every slot of the job is due later by one delay below this, the same for all its slots and stable by its name:
    /// 0s–24h. Default `0s`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub jitter: Span,
    /// What becomes of missed slots.
    #[serde(default, skip_serializing_if = "Misfire::is_default")]
    pub misfire: Misfire,
    /// How long one attempt may take, 100ms–30d. Default `1h`.
    #[serde(default = "defaults::timeout")]
    pub timeout: Span,
    /// How long after its fire a run may start for the first time, 100ms–30d. Default `24h`.
    #[serde(default = "defaults::start_within")]
    pub start_within: Span,
    /// Starts of a run, retries and crashes together, 1–100. Default 3.
    #[serde(default = "defaults::max_attempts")]
    #[schemars(range(min = 1, max = 100))]
    pub max_attempts: u32,
    /// What a slot does while an earlier run is live. Default `skip`.
    #[serde(default)]
    pub overlap: Overlap,
    /// How long results are kept after a run's hard end, 1m–400d. Default `7d`.
    #[serde(default = "defaults::retention")]
    pub retention: Span,
    /// Free text for people, at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub title: Option<String>,
    /// At most 32 texts of at most 256 bytes under keys of at most 64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub labels: BTreeMap<String, String>,
}

/// What a slot does while an earlier run of the job is live.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// The slot is skipped.
    #[default]
    Skip,
    /// The slot fires beside the live run.
    Allow,
}

fn is_zero(span: &Span) -> bool {
    span.as_millis() == 0
}

/// The defaults of `design.md` §5.
pub mod defaults {
    use super::{Name, Span};

    /// `default`.
    #[must_use]
    pub fn queue() -> Name {
        Name::parse("default").expect("a legal name")
    }

    /// `UTC`.
    #[must_use]
    pub fn time_zone() -> String {
        "UTC".into()
    }

    /// One hour.
    #[must_use]
    pub const fn timeout() -> Span {
        Span::from_secs(3_600)
    }

    /// 24 hours.
    #[must_use]
    pub const fn start_within() -> Span {
        Span::from_secs(86_400)
    }

    /// Three.
    #[must_use]
    pub const fn max_attempts() -> u32 {
        3
    }

    /// Seven days.
    #[must_use]
    pub const fn retention() -> Span {
        Span::from_secs(7 * 86_400)
    }
}
