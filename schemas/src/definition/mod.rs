//! The job definition, version 1: what a user publishes to `cron.define.<namespace>.<job>`.
//!
//! Invariant: a [`JobDefinition`] is within every bound named here. Reading one lists every fault of the
//! document at once; a field that is not known is a fault, never ignored.

mod draft;
mod read;
mod schedule;
mod timing;
mod written;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};

pub use self::draft::Draft;
pub(crate) use self::read::{read, read_address, read_fields};
pub use self::schedule::{
    CALENDARS_MAX, CalendarUse, DailyWindow, DailyWindowError, Dialect, EXPRESSIONS_MAX,
    Expressions, ExpressionsError, Fold, Gap, LocalTime, Misfire, MisfirePolicy, Schedule, Shift,
    WINDOWS_MAX, When, WhenError,
};
use self::written::Written;
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
///
/// It reads and changes like one record; cloning it is cheap. What most jobs have alike is in [`Terms`], which it gives
/// as its own, so that a ticker can keep it once for all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct JobDefinition {
    /// Handed to the task bit for bit.
    pub params: Json,
    /// When it is due.
    pub schedule: Arc<Schedule>,
    /// Free text for people.
    pub title: Option<Arc<String>>,
    /// Everything else.
    pub terms: Arc<Terms>,
}

/// What a definition says beside its params, its schedule and its title.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The task that executors know by this name.
    pub task: Name,
    /// The pool of executors.
    pub queue: Name,
    /// IANA name of the zone that wall times are read in.
    pub time_zone: String,
    /// Whose rules the expressions follow.
    pub dialect: Dialect,
    /// What becomes of a wall time that a clock change leaves out.
    pub gap: Option<Gap>,
    /// What becomes of a wall time that a clock change shows twice.
    pub fold: Option<Fold>,
    /// On which days of named calendars it may be due.
    pub calendars: Option<CalendarUse>,
    /// No slot before this instant.
    pub start: Option<Timestamp>,
    /// No slot at or after this instant.
    pub end: Option<Timestamp>,
    /// Slots count only within one of these stretches of the day.
    pub windows: Vec<DailyWindow>,
    /// Every slot is due later by one delay below this.
    pub jitter: Span,
    /// What becomes of missed slots.
    pub misfire: Misfire,
    /// How long one attempt may take.
    pub timeout: Span,
    /// How long after its fire a run may start for the first time.
    pub start_within: Span,
    /// Starts of a run, retries and crashes together.
    pub max_attempts: u32,
    /// What a slot does while an earlier run is live.
    pub overlap: Overlap,
    /// How long results are kept after a run's hard end.
    pub retention: Span,
    /// Texts under keys, for people and their tools.
    pub labels: BTreeMap<String, String>,
}

impl Deref for JobDefinition {
    type Target = Terms;

    fn deref(&self) -> &Terms {
        &self.terms
    }
}

impl DerefMut for JobDefinition {
    /// The terms of this definition alone: others that shared them keep theirs.
    fn deref_mut(&mut self) -> &mut Terms {
        Arc::make_mut(&mut self.terms)
    }
}

impl JsonSchema for JobDefinition {
    fn schema_name() -> Cow<'static, str> {
        Written::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> schemars::Schema {
        Written::json_schema(generator)
    }
}

/// What a slot does while an earlier run of the job is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Hash, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// The slot is skipped.
    #[default]
    Skip,
    /// The slot fires beside the live run.
    Allow,
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
