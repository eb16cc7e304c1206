//! How the values of the contract read in a sentence or a column.

use chrono::{FixedOffset, SecondsFormat};
use cronstream_core::schedule::Zone;
use cronstream_schemas::definition::{JobDefinition, Overlap, Schedule};
use cronstream_schemas::event::{Cause, FailureKind, JobState, SkipReason};
use cronstream_schemas::time::Timestamp;

/// Whether a job fires.
pub(crate) const fn job_state(state: &JobState) -> &'static str {
    match (&state.definition, state.paused) {
        (None, _) => "deleted",
        (Some(_), Some(_)) => "paused",
        (Some(_), None) => "active",
    }
}

/// A schedule with the zone it is read in.
pub(crate) fn schedule(definition: &JobDefinition) -> String {
    match &definition.schedule {
        Schedule::Cron(expression) => format!("{expression} ({})", definition.time_zone),
        Schedule::Every(interval) => format!("every {interval}"),
        Schedule::At(at) => format!("at {at}"),
    }
}

/// What a slot does while an earlier run is live.
pub(crate) const fn overlap(overlap: Overlap) -> &'static str {
    match overlap {
        Overlap::Skip => "skip",
        Overlap::Allow => "allow",
    }
}

/// Why a slot does not fire.
pub(crate) const fn skip_reason(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Misfire => "missed (misfire policy)",
        SkipReason::Overlap => "an earlier run is live (overlap policy)",
        SkipReason::Paused => "the job is paused",
        SkipReason::Deleted => "the job is deleted",
    }
}

/// Why an attempt failed.
pub(crate) const fn failure_kind(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Error => "error",
        FailureKind::Timeout => "timeout",
        FailureKind::Crashed => "crashed",
    }
}

/// Why a run exists.
pub(crate) fn cause(cause: &Cause) -> String {
    match cause {
        Cause::Slot(slot) => format!("slot {slot}"),
        Cause::Trigger(trigger) => match &trigger.key {
            Some(key) => format!("trigger {key:?}"),
            None => format!("trigger by command {}", trigger.command),
        },
    }
}

/// An instant on the clocks of a zone.
pub(crate) fn local(at: Timestamp, zone: Zone) -> String {
    let offset = FixedOffset::east_opt(zone.offset_seconds(at.as_millis()));
    let offset = offset.expect("an offset of the zone database is less than a day");
    at.to_datetime().with_timezone(&offset).to_rfc3339_opts(SecondsFormat::Secs, false)
}
