//! The slots of the definitions that the simulation uses, counted in the plainest way.
//!
//! Invariant: shares no code with the core's calendar.

use std::time::Duration;

use cronstream_core::calendar::Calendars;
use cronstream_core::plan::Plan;
use cronstream_schemas::definition::{Expressions, Schedule, When};
use cronstream_schemas::event::JobState;
use cronstream_schemas::time::Timestamp;

/// Whether `at` is a slot of the state's definition.
pub(crate) fn is_slot(state: &JobState, at: Timestamp) -> bool {
    let Some(definition) = &state.definition else { return false };
    match &*definition.schedule {
        Schedule::At(slot) => *slot == When::Instant(at),
        Schedule::Every(interval) => {
            let (since, step) = (at.since(state.anchor).as_millis(), interval.as_millis());
            since > 0 && since % u128::from(step) == 0
        }
        Schedule::Cron(text) => at.as_millis() % (1_000 * seconds(text)) == 0,
        // Its slots follow from the ends of runs: the checker has them.
        Schedule::FixedDelay(_) => true,
    }
}

/// The interval of an expression of the form `*/N * * * * *`, where N divides 60.
fn seconds(expressions: &Expressions) -> i64 {
    let [text] = expressions.as_slice() else { panic!("an expression of the simulation") };
    let every = text.strip_prefix("*/").and_then(|rest| rest.strip_suffix(" * * * * *"));
    every.and_then(|every| every.parse().ok()).expect("an expression of the simulation")
}

/// Every slot from `first` through `last`.
pub(crate) fn between(state: &JobState, first: Timestamp, last: Timestamp) -> Vec<Timestamp> {
    let Some(definition) = &state.definition else { return Vec::new() };
    let (begin, step) = match &*definition.schedule {
        Schedule::FixedDelay(delay) => {
            (first.as_millis(), i64::try_from(delay.as_millis()).expect("a short delay"))
        }
        Schedule::At(slot) => {
            let When::Instant(slot) = slot else { unreachable!("no schedule of the simulation") };
            return Some(*slot).filter(|slot| (first..=last).contains(slot)).into_iter().collect();
        }
        Schedule::Every(interval) => {
            let step = i64::try_from(interval.as_millis()).expect("an interval of the simulation");
            (state.anchor.as_millis() + step, step)
        }
        Schedule::Cron(text) => (0, 1_000 * seconds(text)),
    };
    let passed = (first.as_millis() - begin).max(0);
    let mut slot = begin + (passed + step - 1) / step * step;
    let mut slots = Vec::new();
    while slot <= last.as_millis() {
        slots.push(Timestamp::from_millis(slot));
        slot += step;
    }
    slots
}

/// The delay of a state whose slots count from the end of the run before.
pub(crate) fn fixed_delay(state: &JobState) -> Option<Duration> {
    match &*state.definition.as_ref()?.schedule {
        Schedule::FixedDelay(delay) => Some(delay.to_duration()),
        Schedule::Cron(_) | Schedule::Every(_) | Schedule::At(_) => None,
    }
}

/// How long after its slots the state's job is due; only this is asked of the core.
pub(crate) fn jitter(state: &JobState) -> Duration {
    let Some(definition) = &state.definition else { return Duration::ZERO };
    let plan = Plan::compile(definition, &state.job, state.anchor, &Calendars::default());
    let jitter = plan.expect("a definition of the simulation").jitter();
    assert!(jitter <= definition.jitter.to_duration(), "{jitter:?} of {:?}", definition.jitter);
    jitter
}
