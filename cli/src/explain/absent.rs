//! Instants without a slot: what leaves them out, and the slots nearest to them.

use cronstream_core::plan::Plan;
use cronstream_schemas::definition::{CalendarUse, JobDefinition, Schedule, Terms};
use cronstream_schemas::event::JobState;
use cronstream_schemas::time::Timestamp;

use super::facts::{Facts, slot_meant};
use super::verdict::{Explanation, Outcome};
use crate::{clock_changes, words};

/// How far from a clock change an instant is told of it.
pub(super) const NEAR: std::time::Duration = std::time::Duration::from_secs(3 * 3_600);

pub(super) fn explain(facts: &Facts<'_>, plan: Option<&Plan>) -> Explanation {
    let Some(state) = facts.then else { return no_job(facts) };
    let Some(definition) = &state.definition else { return no_job(facts) };
    if let Schedule::FixedDelay(delay) = &*definition.schedule {
        let mut told = Explanation::new(Outcome::NoSlot, "no run of it began then");
        told.because(format!(
            "it is due {delay} after the end of the run before, at no fixed time"
        ));
        return told;
    }
    if plan.is_none() {
        let why = "the schedule of then cannot be read by this version";
        return Explanation::new(Outcome::NoSlot, why);
    }
    let mut told = Explanation::new(
        Outcome::NoSlot,
        if facts.asked > facts.now {
            "it will not run: the job has no slot then"
        } else {
            "it did not run: the job had no slot then"
        },
    );
    let reasons = left_out(facts, state, definition);
    if reasons.is_empty() {
        told.because(format!(
            "revision {}: {}",
            state.revision.0,
            words::spoken(&state.job, definition)
        ));
    }
    told.because.extend(reasons);
    let stretch = (facts.asked.minus(NEAR), facts.asked.plus(NEAR));
    for change in clock_changes::of(&state.job, definition, facts.calendars, stretch) {
        told.because(format!(
            "the clocks of {} change at {}: {}",
            definition.time_zone, change.at, change.words
        ));
    }
    told
}

fn no_job(facts: &Facts<'_>) -> Explanation {
    let newest = facts.newest;
    let deleted = newest.definition.is_none() && newest.at <= facts.asked;
    if deleted {
        let mut told = Explanation::new(Outcome::NoJob, "it did not run: the job was deleted");
        told.because(format!("deleted at {} by command {}", newest.at, newest.command));
        return told;
    }
    let mut told = Explanation::new(
        Outcome::NoJob,
        "it did not run: the job did not exist, or its revision of then is no longer kept",
    );
    told.because(
        "a definition owns the slots after the instant at which it was accepted".to_owned(),
    );
    told
}

/// Which parts of the definition leave the instant out; none where the schedule itself does not have it.
fn left_out(facts: &Facts<'_>, state: &JobState, definition: &JobDefinition) -> Vec<String> {
    let with = |of: &JobDefinition, change: &dyn Fn(&mut Terms)| {
        let mut changed = of.clone();
        change(&mut changed);
        changed
    };
    let plain = with(definition, &|terms| {
        (terms.calendars, terms.windows) = (None, Vec::new());
        (terms.start, terms.end) = (None, None);
    });
    let has = |definition: &JobDefinition| {
        let plan = Plan::compile(definition, &state.job, state.anchor, facts.calendars).ok();
        plan.and_then(|plan| slot_meant(&plan, facts.asked)).is_some()
    };
    // An interval counts from `start`, so leaving that out would move its slots.
    let plain = match &*definition.schedule {
        Schedule::Every(_) => with(&plain, &|terms| terms.start = definition.start),
        Schedule::Cron(_) | Schedule::FixedDelay(_) | Schedule::At(_) => plain,
    };
    let mut reasons = Vec::new();
    if let Some(start) = definition.start.filter(|start| facts.asked < *start) {
        reasons.push(format!("it starts at {start}"));
    }
    if let Some(end) = definition.end.filter(|end| facts.asked >= *end) {
        reasons.push(format!("it ended at {end}"));
    }
    if !has(&plain) {
        return reasons;
    }
    if !definition.windows.is_empty()
        && !has(&with(&plain, &|terms| terms.windows.clone_from(&definition.windows)))
    {
        let windows: Vec<String> = definition.windows.iter().map(ToString::to_string).collect();
        let (windows, zone) = (windows.join(", "), &definition.time_zone);
        reasons.push(format!(
            "the schedule has it, and it lies outside of the windows {windows} ({zone})"
        ));
    }
    let used = definition.calendars.clone().unwrap_or_default();
    let without = |calendars: CalendarUse| {
        !has(&with(&plain, &|terms| terms.calendars = Some(calendars.clone())))
    };
    for name in &used.only {
        if without(CalendarUse { only: vec![name.clone()], ..CalendarUse::default() }) {
            reasons
                .push(format!("the schedule has it, and calendar {name} (only) has not that day"));
        }
    }
    for name in &used.except {
        if without(CalendarUse { except: vec![name.clone()], ..CalendarUse::default() }) {
            reasons.push(format!("the schedule has it, and calendar {name} (except) has that day"));
        }
    }
    if let (Some(shift), false) = (used.shift, reasons.is_empty()) {
        let way = serde_json::to_string(&shift).unwrap_or_default();
        reasons
            .push(format!("such a slot is shifted to the {} working day", way.trim_matches('"')));
    }
    reasons
}

/// The slots right before and after an instant, among those that the state of then decides.
pub(super) fn nearest(
    facts: &Facts<'_>,
    plan: &Plan,
    at: Timestamp,
) -> (Option<Timestamp>, Option<Timestamp>) {
    let after = facts.then.map_or(Timestamp::MIN, |state| state.effective_after);
    (plan.prev(at).filter(|slot| *slot > after), plan.next(at))
}
