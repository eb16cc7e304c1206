//! The slots of the definitions that the simulation uses, counted in the plainest way.
//!
//! Invariant: shares no code with the core's calendar.

use cronstream_schemas::definition::Schedule;
use cronstream_schemas::event::JobState;
use cronstream_schemas::time::Timestamp;

/// Whether `at` is a slot of the state's definition.
pub(crate) fn is_slot(state: &JobState, at: Timestamp) -> bool {
    let Some(definition) = &state.definition else { return false };
    match &definition.schedule {
        Schedule::At(slot) => *slot == at,
        Schedule::Every(interval) => {
            let (since, step) = (at.since(state.anchor).as_millis(), interval.as_millis());
            since > 0 && since % u128::from(step) == 0
        }
        Schedule::Cron(text) => at.as_millis() % (1_000 * seconds(text)) == 0,
    }
}

/// The interval of an expression of the form `*/N * * * * *`, where N divides 60.
fn seconds(text: &str) -> i64 {
    let every = text.strip_prefix("*/").and_then(|rest| rest.strip_suffix(" * * * * *"));
    every.and_then(|every| every.parse().ok()).expect("an expression of the simulation")
}

/// Every slot from `first` through `last`.
pub(crate) fn between(state: &JobState, first: Timestamp, last: Timestamp) -> Vec<Timestamp> {
    let Some(definition) = &state.definition else { return Vec::new() };
    let (begin, step) = match &definition.schedule {
        Schedule::At(slot) => {
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
