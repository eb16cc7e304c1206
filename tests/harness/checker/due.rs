//! Which slots a job owes, from the states it went through.
//!
//! A state of a job owns the slots after its own `effective_after` up to that of the next state, unless it is
//! deleted. What a pause holds back is decided by what ends it: a resume takes it over, an edit or a delete skips it,
//! and until then it is not owed.

use std::collections::BTreeMap;

use cronstream_core::schedule::{Cron, Zone};
use cronstream_schemas::definition::{JobDefinition, Schedule, When};
use cronstream_schemas::event::{JobState, LogEvent};
use cronstream_schemas::id::Revision;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use crate::history::Stored;

/// The most slots of one job that are worked out.
const SLOTS_MAX: usize = 200_000;

/// Slots of a job and the revision each is due under.
pub(super) type Due = BTreeMap<Timestamp, Revision>;

/// The states of every job, in order.
pub(super) fn states(log: &[Stored<LogEvent>]) -> BTreeMap<JobId, Vec<&JobState>> {
    let mut states: BTreeMap<JobId, Vec<&JobState>> = BTreeMap::new();
    for state in log.iter().filter_map(|stored| state_of(&stored.event)) {
        let known = states.entry(state.job.clone()).or_default();
        // A revision stands twice, on `cron.job` and on `cron.history`; a slot that is decided ahead of its instant
        // moves the same state on.
        let same = |last: &&JobState| {
            (last.command, last.effective_after) == (state.command, state.effective_after)
        };
        if !known.last().is_some_and(same) {
            known.push(state);
        }
    }
    states
}

fn state_of(event: &LogEvent) -> Option<&JobState> {
    match event {
        LogEvent::JobDefined(state)
        | LogEvent::JobPaused(state)
        | LogEvent::JobResumed(state)
        | LogEvent::JobDeleted(state)
        | LogEvent::JobOverridden(state)
        | LogEvent::JobRevised(state) => Some(state),
        LogEvent::Fired(_)
        | LogEvent::Held(_)
        | LogEvent::HeldEnded(_)
        | LogEvent::Skipped(_)
        | LogEvent::Rejected(_)
        | LogEvent::Cursor(_)
        | LogEvent::CalendarDefined(_)
        | LogEvent::CalendarDeleted(_)
        | LogEvent::CalendarRevised(_)
        | LogEvent::Meta(_) => None,
    }
}

/// The earliest instants to which slots were shifted.
pub(super) fn shifted(log: &[Stored<LogEvent>]) -> BTreeMap<(&JobId, Timestamp), Timestamp> {
    let mut shifted = BTreeMap::new();
    for state in log.iter().filter_map(|stored| state_of(&stored.event)) {
        for (slot, to) in state.overrides.iter().filter_map(|it| Some((it.slot, it.to?))) {
            let first = shifted.entry((&state.job, slot)).or_insert(to);
            *first = to.min(*first);
        }
    }
    shifted
}

/// The slots that a job owes up to `through`.
///
/// # Errors
/// Why they cannot be worked out.
pub(super) fn slots(states: &[&JobState], through: Timestamp) -> Result<Due, String> {
    let mut due = Due::new();
    for (index, state) in states.iter().enumerate() {
        let next = states.get(index + 1);
        let ends = next.map_or(through, |next| next.effective_after.min(through));
        let waits = state.paused.is_some() && next.is_none();
        let Some(definition) = state.definition.as_ref().filter(|_| !waits) else {
            continue;
        };
        for slot in slots_between(definition, state.anchor, state.effective_after, ends)? {
            due.insert(slot, state.revision);
        }
    }
    Ok(due)
}

/// The slots after `after` and up to `through`.
fn slots_between(
    definition: &JobDefinition,
    anchor: Timestamp,
    after: Timestamp,
    through: Timestamp,
) -> Result<Vec<Timestamp>, String> {
    let mut slots = Vec::new();
    let mut last = after.as_millis();
    while let Some(next) = next_slot(definition, anchor, last)? {
        if next > through.as_millis() {
            break;
        }
        if slots.len() == SLOTS_MAX {
            return Err(format!("more than {SLOTS_MAX} slots between {after} and {through}"));
        }
        slots.push(Timestamp::from_millis(next));
        last = next;
    }
    Ok(slots)
}

fn next_slot(
    definition: &JobDefinition,
    anchor: Timestamp,
    after: i64,
) -> Result<Option<i64>, String> {
    match &*definition.schedule {
        Schedule::At(When::Instant(at)) => Ok(Some(at.as_millis()).filter(|at| *at > after)),
        Schedule::At(When::Local(_)) | Schedule::FixedDelay(_) => {
            Err(format!("the checker does not know {:?}", definition.schedule))
        }
        Schedule::Every(span) => {
            let anchor = anchor.as_millis();
            let span = i64::try_from(span.as_millis().max(1)).map_err(|e| e.to_string())?;
            Ok(Some(anchor + ((after - anchor).div_euclid(span) + 1).max(1) * span))
        }
        Schedule::Cron(expressions) => {
            let [text] = expressions.as_slice() else { return Err("several expressions".into()) };
            let cron = Cron::parse(text).map_err(|e| e.to_string())?;
            let zone = Zone::get(&definition.time_zone).map_err(|e| e.to_string())?;
            Ok(cron.next(zone, after))
        }
    }
}
