//! How the values of the contract read in a sentence or a column.

use chrono::{FixedOffset, SecondsFormat};
use cronstream_core::schedule::{Rule, Seed, Zone, parse};
use cronstream_schemas::definition::{Dialect, Fold, Gap, JobDefinition, Overlap, Schedule, When};
use cronstream_schemas::event::{Cause, FailureKind, JobState, SkipReason};
use cronstream_schemas::name::JobId;
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
    match &*definition.schedule {
        Schedule::Cron(expression) => format!("{expression} ({})", definition.time_zone),
        Schedule::Every(interval) => format!("every {interval}"),
        Schedule::FixedDelay(delay) => format!("{delay} after the end of the run before"),
        Schedule::At(When::Instant(at)) => format!("at {at}"),
        Schedule::At(When::Local(at)) => format!("at {at} ({})", definition.time_zone),
    }
}

/// When a job is due, in a sentence: `at 02:30 on Monday to Friday (Europe/Berlin)`.
pub(crate) fn spoken(job: &JobId, definition: &JobDefinition) -> String {
    let Schedule::Cron(all) = &*definition.schedule else { return schedule(definition) };
    let each = all.as_slice().iter().map(|text| expression(job, definition.dialect, text));
    format!("{} ({})", each.collect::<Vec<_>>().join("; and "), definition.time_zone)
}

/// A cron expression of a job in words; as it stands where it is none.
fn expression(job: &JobId, dialect: Dialect, text: &str) -> String {
    parse(text, dialect, Seed::of(job)).map_or_else(|_| text.to_owned(), |it| rule(&it.rule))
}

/// A rule in words.
pub(crate) fn rule(rule: &Rule) -> String {
    match rule {
        Rule::Cron(cron) => cron.describe(),
        Rule::Every(interval) => format!("every {interval}"),
    }
}

/// What becomes of a wall time that a clock change leaves out, where the job says so.
pub(crate) const fn gap(gap: Option<Gap>) -> &'static str {
    match gap {
        None => "",
        Some(Gap::End) => "end",
        Some(Gap::Skip) => "skip",
        Some(Gap::Before) => "before",
    }
}

/// What becomes of a wall time that a clock change shows twice, where the job says so.
pub(crate) const fn fold(fold: Option<Fold>) -> &'static str {
    match fold {
        None => "",
        Some(Fold::First) => "first",
        Some(Fold::Last) => "last",
        Some(Fold::Both) => "both",
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
        SkipReason::Requested => "it was asked to be skipped",
        SkipReason::JobBacklog => "as many runs of the job are live as may be",
        SkipReason::PartitionBacklog => "as many runs of its partition are live as may be",
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
        Cause::Backfill(it) => format!("backfill of {} by command {}", it.slot, it.command),
    }
}

/// Which second of its minute an instant lies in, as `:07`.
pub(crate) fn second_of(at: Timestamp) -> String {
    format!(":{:02}", at.as_millis() / 1_000 % 60)
}

/// An instant on the clocks of a zone, with milliseconds where it has some.
pub(crate) fn local(at: Timestamp, zone: Zone) -> String {
    let offset = FixedOffset::east_opt(zone.offset_seconds(at.as_millis()));
    let offset = offset.expect("an offset of the zone database is less than a day");
    at.to_datetime().with_timezone(&offset).to_rfc3339_opts(SecondsFormat::AutoSi, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_time_has_milliseconds_where_the_instant_has_some() {
        let zone = Zone::get("Asia/Kolkata").unwrap();
        for (at, text) in [
            ("2027-01-01T00:00:00.5Z", "2027-01-01T05:30:00.500+05:30"),
            ("2027-01-01T00:00:00Z", "2027-01-01T05:30:00+05:30"),
        ] {
            assert_eq!(local(at.parse().unwrap(), zone), text);
        }
    }
}
