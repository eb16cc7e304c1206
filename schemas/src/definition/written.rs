//! A definition as it stands on the wire: one object of all fields, in the order in which they are written.
//!
//! Invariant: nothing is lost or added on the way between the two forms.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    CalendarUse, DailyWindow, Dialect, Fold, Gap, JobDefinition, Misfire, Overlap, Schedule, Terms,
    defaults,
};
use crate::duration::Span;
use crate::json::Json;
use crate::name::Name;
use crate::time::Timestamp;

/// A job: what runs, when, and by which policies.
#[derive(Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "JobDefinition")]
pub(super) struct Written {
    /// The task that executors know by this name.
    task: Name,
    /// The pool of executors. Default `default`.
    #[serde(default = "defaults::queue")]
    queue: Name,
    /// Handed to the task bit for bit; any JSON, at most 128 KiB. Default `{}`.
    #[serde(default = "Json::empty")]
    params: Json,
    /// When it is due.
    schedule: Arc<Schedule>,
    /// IANA name of the zone that expressions, local times, windows and calendar days are read in. Default `UTC`.
    #[serde(default = "defaults::time_zone")]
    time_zone: String,
    /// Whose rules the expressions follow. Default `crontab`.
    #[serde(default, skip_serializing_if = "Dialect::is_crontab")]
    dialect: Dialect,
    /// What becomes of a wall time that a clock change leaves out. Default, as Debian cron: fixed times are due at the
    /// gap's end, those that begin with a star follow elapsed time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gap: Option<Gap>,
    /// What becomes of a wall time that a clock change shows twice. Default, as Debian cron: fixed times are due the
    /// first time, those that begin with a star both times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fold: Option<Fold>,
    /// On which days of named calendars it may be due. Default: on any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calendars: Option<CalendarUse>,
    /// No slot before this instant. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<Timestamp>,
    /// No slot at or after this instant. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<Timestamp>,
    /// Slots count only within one of these stretches of the day, at most 24. Default: the whole day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 24))]
    windows: Vec<DailyWindow>,
    /// Every slot of the job is due later by one delay below this, the same for all its slots and stable by its name:
    /// 0s–24h. Default `0s`.
    #[serde(default, skip_serializing_if = "is_zero")]
    jitter: Span,
    /// What becomes of missed slots.
    #[serde(default, skip_serializing_if = "Misfire::is_default")]
    misfire: Misfire,
    /// How long one attempt may take, 100ms–30d. Default `1h`.
    #[serde(default = "defaults::timeout")]
    timeout: Span,
    /// How long after its fire a run may start for the first time, 100ms–30d. Default `24h`.
    #[serde(default = "defaults::start_within")]
    start_within: Span,
    /// Starts of a run, retries and crashes together, 1–100. Default 3.
    #[serde(default = "defaults::max_attempts")]
    #[schemars(range(min = 1, max = 100))]
    max_attempts: u32,
    /// What a slot does while an earlier run is live. Default `skip`.
    #[serde(default)]
    overlap: Overlap,
    /// How long results are kept after a run's hard end, 1m–400d. Default `7d`.
    #[serde(default = "defaults::retention")]
    retention: Span,
    /// Free text for people, at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    title: Option<Arc<String>>,
    /// At most 32 texts of at most 256 bytes under keys of at most 64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    labels: BTreeMap<String, String>,
}

fn is_zero(span: &Span) -> bool {
    span.as_millis() == 0
}

impl From<Written> for JobDefinition {
    fn from(written: Written) -> Self {
        let Written {
            task,
            queue,
            params,
            schedule,
            time_zone,
            dialect,
            gap,
            fold,
            calendars,
            start,
            end,
            windows,
            jitter,
            misfire,
            timeout,
            start_within,
            max_attempts,
            overlap,
            retention,
            title,
            labels,
        } = written;
        let terms = Terms {
            task,
            queue,
            time_zone,
            dialect,
            gap,
            fold,
            calendars,
            start,
            end,
            windows,
            jitter,
            misfire,
            timeout,
            start_within,
            max_attempts,
            overlap,
            retention,
            labels,
        };
        Self { params, schedule, title, terms: Arc::new(terms) }
    }
}

impl From<JobDefinition> for Written {
    fn from(definition: JobDefinition) -> Self {
        let JobDefinition { params, schedule, title, terms } = definition;
        let Terms {
            task,
            queue,
            time_zone,
            dialect,
            gap,
            fold,
            calendars,
            start,
            end,
            windows,
            jitter,
            misfire,
            timeout,
            start_within,
            max_attempts,
            overlap,
            retention,
            labels,
        } = Arc::unwrap_or_clone(terms);
        Self {
            task,
            queue,
            params,
            schedule,
            time_zone,
            dialect,
            gap,
            fold,
            calendars,
            start,
            end,
            windows,
            jitter,
            misfire,
            timeout,
            start_within,
            max_attempts,
            overlap,
            retention,
            title,
            labels,
        }
    }
}
