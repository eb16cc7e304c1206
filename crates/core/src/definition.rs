//! A definition that may come into force: its shape is right and so are its calendar and its bounds.
//!
//! Invariant: what [`check`] accepts can always be planned and fired, and is in normal form: no expression names a
//! zone or is an interval, and the zone has its canonical name.

mod normal;
mod past;
mod warnings;

use std::time::Duration;

use cronstream_schemas::definition::{
    Dialect, Draft, JobDefinition, RETENTION_MAX, Schedule, defaults,
};
use cronstream_schemas::fault::Fault;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use self::normal::normalise;
pub use self::past::past;
pub use self::warnings::{WARNINGS_MAX, Warning, coded_warnings, warnings};
use crate::calendar::Calendars;
use crate::plan::{Plan, expression_path, zone};
use crate::retry;
use crate::schedule::Windows;

/// Checks a draft against the calendar and the bounds that span fields, and brings it into normal form. A calendar
/// that is not known is no fault here: see [`unknown_calendars`].
///
/// # Errors
/// Every fault of the shape, the expressions, the zone and the bounds at once.
pub fn check(
    mut draft: Draft,
    job: &JobId,
    calendars: &Calendars,
) -> Result<JobDefinition, Vec<Fault>> {
    normalise(&mut draft, job);
    if let Err(fault) = zone(&draft.time_zone.clone().unwrap_or_else(defaults::time_zone)) {
        draft.faults.push(fault);
    }
    let definition = draft.finish()?;
    let plan = Plan::compile(&definition, job, Timestamp::MIN, calendars)?;
    let mut faults = misplaced(&definition);
    faults.extend(outside_windows(&definition, &plan));
    if faults.is_empty() {
        faults.extend(never(&definition, &plan, job, calendars));
    }
    faults.extend(outlives(&definition));
    if faults.is_empty() { Ok(definition) } else { Err(faults) }
}

/// A fault for each calendar that the definition names and that is not known.
#[must_use]
pub fn unknown_calendars(definition: &JobDefinition, calendars: &Calendars) -> Vec<Fault> {
    let Some(wanted) = &definition.calendars else { return Vec::new() };
    let lists = [("only", &wanted.only), ("except", &wanted.except)];
    let named = lists.into_iter().flat_map(|(list, ids)| {
        ids.iter().enumerate().map(move |(at, id)| (format!("$.calendars.{list}[{at}]"), id))
    });
    named
        .filter(|(_, id)| calendars.days(id).is_none())
        .map(|(path, id)| {
            let expected = "a calendar that is defined";
            Fault::new(path, &id.to_string(), "no such calendar", expected)
        })
        .collect()
}

/// Fields that belong to schedules of another kind.
fn misplaced(definition: &JobDefinition) -> Vec<Fault> {
    let mut faults = Vec::new();
    let is_cron = matches!(*definition.schedule, Schedule::Cron(_));
    if definition.dialect == Dialect::Quartz && !is_cron {
        let expected = "no `dialect`, or a schedule of `cron`";
        faults.push(Fault::new("$.dialect", "quartz", "the schedule has no expression", expected));
    }
    let shift = definition.calendars.as_ref().and_then(|wanted| wanted.shift);
    if shift.is_some() && !is_cron {
        let expected = "no `shift`, or a schedule of `cron`";
        let problem = "only the slots of expressions can be moved to another day";
        faults.push(Fault::new("$.calendars.shift", "", problem, expected));
    }
    if let Schedule::FixedDelay(delay) = *definition.schedule
        && delay > definition.retention
    {
        let problem = "is longer than `retention`: nobody would remember the run before";
        let expected = format!("at most the retention, {}", definition.retention);
        faults.push(Fault::new("$.schedule.fixed_delay", &delay.to_string(), problem, expected));
    }
    faults
}

/// Expressions that have no time within the windows.
fn outside_windows(definition: &JobDefinition, plan: &Plan) -> Vec<Fault> {
    let (Schedule::Cron(all), Some(windows)) =
        (&*definition.schedule, Windows::of(&definition.windows))
    else {
        return Vec::new();
    };
    let all = all.as_slice();
    let outside = plan.crons().enumerate().filter(|(_, cron)| !cron.meets(&windows));
    outside
        .map(|(at, _)| {
            let problem = "has no time within `windows`, and would never fire";
            let expected = "a time within a window, or a window around it";
            Fault::new(expression_path(at, all.len()), &all[at], problem, expected)
        })
        .collect()
}

/// A schedule of which its own limits leave no slot at all. Where an interval counts from is not known yet, so it is
/// looked at only when it has a `start`.
fn never(
    definition: &JobDefinition,
    plan: &Plan,
    job: &JobId,
    calendars: &Calendars,
) -> Option<Fault> {
    let is_open = |definition: &JobDefinition| match *definition.schedule {
        Schedule::FixedDelay(_) => true,
        Schedule::Every(_) => definition.start.is_none(),
        Schedule::Cron(_) | Schedule::At(_) => false,
    };
    let has_slot = |definition: &JobDefinition| {
        is_open(definition)
            || Plan::compile(definition, job, Timestamp::MIN, calendars)
                .is_ok_and(|plan| plan.next(Timestamp::MIN).is_some() || is_due_first(&plan))
    };
    if is_open(definition) || plan.next(Timestamp::MIN).is_some() || is_due_first(plan) {
        return None;
    }
    let mut freed = definition.clone();
    let mut is_cause = |free: fn(&mut JobDefinition)| {
        free(&mut freed);
        has_slot(&freed)
    };
    let text = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
    let (path, value, expected) = if is_cause(|it| it.end = None) {
        ("$.end", text(definition.end), "an instant after a slot of the schedule")
    } else if is_cause(|it| it.windows.clear()) {
        ("$.windows", String::new(), "a window that a slot lies in")
    } else if is_cause(|it| it.calendars = None) {
        ("$.calendars", String::new(), "calendars that leave a day of the schedule")
    } else if is_cause(|it| it.start = None) {
        ("$.start", text(definition.start), "an instant before a slot of the schedule")
    } else {
        ("$.schedule", String::new(), "a schedule with a slot before the year 2240")
    };
    Some(Fault::new(path, &value, "leaves no slot: the job would never run", expected))
}

/// Whether the first instant of all is a slot; none is after it.
fn is_due_first(plan: &Plan) -> bool {
    plan.prev(Timestamp::MIN.plus(Duration::from_millis(1))).is_some()
}

fn outlives(definition: &JobDefinition) -> Option<Fault> {
    let life = lifetime(definition) + definition.retention.to_duration();
    (life > RETENTION_MAX.to_duration()).then(|| {
        Fault::new(
            "$.retention",
            &definition.retention.to_string(),
            format!(
                "start_within + max_attempts × timeout + back-offs + retention is {} days",
                life.as_secs() / 86_400
            ),
            format!("at most {RETENTION_MAX} in all"),
        )
    })
}

/// From a run's first fire to its hard end: `start_within`, every attempt at its timeout, every back-off at
/// its longest.
#[must_use]
pub fn lifetime(definition: &JobDefinition) -> Duration {
    let attempts = definition.timeout.to_duration() * definition.max_attempts;
    let policy = retry::policy(definition.max_attempts);
    definition.start_within.to_duration() + attempts + retry::longest_total(&policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(body: &str) -> Vec<String> {
        let faults =
            check(Draft::decode(body.as_bytes()), &"a/b".parse().unwrap(), &Calendars::default())
                .unwrap_err();
        faults.into_iter().map(|fault| fault.path).collect()
    }

    #[test]
    fn calendar_faults_are_listed_beside_those_of_the_shape() {
        let body = r#"{"task":"a b","schedule":{"cron":"60 * * * *"},"time_zone":"Local"}"#;
        assert_eq!(faults(body), ["$.task", "$.schedule.cron", "$.time_zone"]);
    }

    #[test]
    fn a_run_that_outlives_its_records_is_refused() {
        let body = r#"{"task":"a","schedule":{"every":"1h"},"timeout":"30d","max_attempts":20}"#;
        assert_eq!(faults(body), ["$.retention"]);
    }

    #[test]
    fn a_zone_is_checked_even_where_the_schedule_needs_none() {
        let body = r#"{"task":"a","schedule":{"every":"1h"},"time_zone":"Mars/Olympus"}"#;
        assert_eq!(faults(body), ["$.time_zone"]);
    }
}
