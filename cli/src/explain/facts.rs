//! What is known of one instant of a job, and which of its revisions and slots the instant belongs to.
//!
//! Invariant: pure; a revision owns the slots after its `effective_after` up to that of the next one.

use std::time::Duration;

use cronstream_core::calendar::Calendars;
use cronstream_core::plan::Plan;
use cronstream_schemas::event::{Cause, Fired, Held, JobState, RunEvent, Skipped, SkippedWhat};
use cronstream_schemas::id::{Epoch, RunId};
use cronstream_schemas::name::Name;
use cronstream_schemas::time::Timestamp;

pub(super) const TICK: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// An event with its broker timestamp.
#[derive(Debug, Clone)]
pub(super) struct Stored<T> {
    /// When the broker stored it.
    pub(super) at: Timestamp,
    /// The event.
    pub(super) what: T,
}

/// What the log says of a slot.
#[derive(Debug, Clone, Default)]
pub(super) enum Record {
    /// Nothing.
    #[default]
    Nothing,
    /// It has fired: the first fire, then those of its retries.
    Fired(Vec<Stored<Fired>>),
    /// It did not fire.
    Skipped(Stored<Skipped>),
    /// It waits.
    Held(Box<Stored<Held>>),
}

/// A command of a person or a program.
#[derive(Debug, Clone)]
pub(super) struct Command {
    /// Its sequence.
    pub(super) seq: u64,
    /// Its broker timestamp.
    pub(super) at: Timestamp,
    /// Who sent it, as its sender says.
    pub(super) author: Option<String>,
}

/// A pause of the job.
#[derive(Debug, Clone)]
pub(super) struct Pause {
    /// The command that began it.
    pub(super) begun: Command,
    /// The command that ended it.
    pub(super) ended: Option<Command>,
}

/// A command that names a slot, to skip it or to shift it.
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// The command.
    pub(super) command: Command,
    /// When the slot is due instead; absent when it is to be skipped.
    pub(super) to: Option<Timestamp>,
}

/// How far the job's partition is.
#[derive(Debug, Clone)]
pub(super) struct Decided {
    /// Every slot before then is decided.
    pub(super) through: Timestamp,
    /// When that was written.
    pub(super) at: Timestamp,
    /// The leader then, and its term.
    pub(super) leader: (Name, Epoch),
}

/// The last run of the job that was ordered before an instant.
#[derive(Debug, Clone)]
pub(super) struct Before {
    /// The run.
    pub(super) run: RunId,
    /// Its slot, its trigger, or the backfill that asked for it.
    pub(super) cause: Cause,
    /// Its slot, or the instant of its trigger.
    pub(super) slot: Timestamp,
    /// When it ended, as far as is known.
    pub(super) ended: Option<Timestamp>,
}

/// A leader's decision on the job: whose it was, and when it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    /// The node, if it is named.
    pub(super) node: Option<Name>,
    /// Its term.
    pub(super) epoch: Epoch,
    /// When it was stored.
    pub(super) at: Timestamp,
}

/// The decisions on the job between which a slot lies, of two terms: in between nobody decided anything of it.
#[derive(Debug, Clone)]
pub(super) struct Takeover {
    /// The last one before the slot.
    pub(super) last: Decision,
    /// The first one behind it.
    pub(super) first: Decision,
}

/// The executors of a queue that answer now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pool {
    /// How many there are.
    pub(super) here: usize,
    /// How many of them know the task.
    pub(super) knowing: usize,
}

/// Everything that [`super::verdict::explain`] looks at.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    /// The instant in question.
    pub(super) asked: Timestamp,
    /// The clock.
    pub(super) now: Timestamp,
    /// The job's newest state.
    pub(super) newest: &'a JobState,
    /// The state whose slots those of the instant are; none where the job did not exist.
    pub(super) then: Option<&'a JobState>,
    /// The calendars that `then` uses, as they are now.
    pub(super) calendars: &'a Calendars,
    /// What the log says of the slot.
    pub(super) record: Record,
    /// When the slot was released, where it had been held.
    pub(super) held_until: Option<Timestamp>,
    /// The last run before: the one that a slot to come, or one that was held or skipped, meets or met.
    pub(super) before: Option<Before>,
    /// The change of leader that the slot fell into.
    pub(super) takeover: Option<Takeover>,
    /// The pause that the slot fell into.
    pub(super) pause: Option<Pause>,
    /// The command that skipped or shifted the slot.
    pub(super) request: Option<Request>,
    /// How far the partition is.
    pub(super) decided: Option<Decided>,
    /// Who could start the run, where nobody has.
    pub(super) pool: Option<Pool>,
    /// What executors and the leader say of the run, in order.
    pub(super) run: Vec<Stored<RunEvent>>,
}

/// The state that decides the slots of an instant: the newest one, or the revision in force then, oldest first in
/// `history`.
pub(super) fn in_force<'a>(
    history: &'a [JobState],
    newest: &'a JobState,
    at: Timestamp,
) -> Option<&'a JobState> {
    if newest.effective_after < at {
        return newest.definition.is_some().then_some(newest);
    }
    let then = history.iter().rev().find(|state| state.effective_after < at);
    let then = then.filter(|state| state.definition.is_some());
    // A pause or an override rewrites the state and keeps the revision.
    let begun = newest.definition.is_some() && newest.at <= at && history.is_empty();
    then.or_else(|| begun.then_some(newest))
}

/// The slot that is meant by an instant: that very instant, or the second or the jittered fire that it names. A job by
/// delay has none that the plan alone tells.
pub(super) fn slot_meant(plan: &Plan, asked: Timestamp) -> Option<Timestamp> {
    if plan.is_fixed_delay() {
        return None;
    }
    let second = Timestamp::from_millis(asked.as_millis().div_euclid(1_000) * 1_000);
    let is_slot = |at: &Timestamp| plan.prev(at.plus(TICK)) == Some(*at);
    // The first slot whose own instant, or whose due instant, lies in the second.
    let within = |later: Duration| {
        let slot = plan.next(second.minus(later).minus(TICK))?;
        (slot.plus(later) < second.plus(SECOND)).then_some(slot)
    };
    let whole = || if asked == second { within(Duration::ZERO) } else { None };
    let due = || if asked == second { within(plan.jitter()) } else { None };
    let jittered = || {
        let slot = plan.prev(asked.plus(TICK))?;
        let late = asked.since(slot.plus(plan.jitter()));
        (slot.plus(plan.jitter()) <= asked && late < SECOND && !plan.jitter().is_zero())
            .then_some(slot)
    };
    let exact = [asked, second].into_iter().find(is_slot);
    exact.or_else(whole).or_else(jittered).or_else(due)
}

/// The slot that a run is of; none for a trigger.
pub(super) const fn slot_of(fired: &Fired) -> Option<Timestamp> {
    match &fired.cause {
        Cause::Slot(slot) => Some(*slot),
        Cause::Backfill(backfill) => Some(backfill.slot),
        Cause::Trigger(_) => None,
    }
}

/// Whether a slot is among those that do not fire.
pub(super) fn covers(skipped: &Skipped, slot: Timestamp) -> bool {
    match &skipped.what {
        SkippedWhat::Slots { first, last, .. } => (*first..=*last).contains(&slot),
        SkippedWhat::Trigger(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, plan, state};
    use super::*;

    #[test]
    fn an_instant_belongs_to_the_revision_that_owns_its_slots() {
        let old = state("2027-01-01T00:00:00Z", 1, r#"{"cron":"0 3 * * *"}"#);
        let new = state("2027-02-01T00:00:00Z", 2, r#"{"cron":"0 4 * * *"}"#);
        let history = [old.clone(), new.clone()];
        let revision = |text: &str| in_force(&history, &new, at(text)).map(|it| it.revision.0);
        assert_eq!(revision("2026-12-31T00:00:00Z"), None);
        assert_eq!(revision("2027-01-01T00:00:00Z"), None);
        assert_eq!(revision("2027-01-01T03:00:00Z"), Some(1));
        assert_eq!(revision("2027-02-01T00:00:00Z"), Some(1));
        assert_eq!(revision("2027-02-01T00:00:00.001Z"), Some(2));
        let deleted = JobState { definition: None, ..state("2027-03-01T00:00:00Z", 3, "{}") };
        assert!(in_force(&history, &deleted, at("2027-03-02T00:00:00Z")).is_none());
        let then = in_force(&history, &deleted, at("2027-02-15T04:00:00Z"));
        assert_eq!(then.map(|it| it.revision.0), Some(2));
    }

    #[test]
    fn a_slot_is_meant_by_its_instant_its_second_and_its_jittered_fire() {
        let daily = plan(&state("2027-01-01T00:00:00Z", 1, r#"{"cron":"0 3 * * *"}"#));
        let meant = |text: &str| slot_meant(&daily, at(text)).map(|slot| slot.to_string());
        let slot = Some("2027-01-05T03:00:00.000Z".to_owned());
        assert_eq!(meant("2027-01-05T03:00:00Z"), slot);
        assert_eq!(meant("2027-01-05T03:00:00.007Z"), slot);
        assert_eq!(meant("2027-01-05T03:00:01Z"), None);
        assert_eq!(meant("2027-01-05T02:59:59.999Z"), None);
        let fast = plan(&state("2027-01-01T00:00:00Z", 1, r#"{"every":"100ms"}"#));
        let asked = at("2027-01-05T03:00:00.700Z");
        assert_eq!(slot_meant(&fast, asked), Some(asked));
        let odd = plan(&state("2027-01-01T00:00:00.136Z", 1, r#"{"every":"1m"}"#));
        let slot = Some(at("2027-01-05T03:00:00.136Z"));
        assert_eq!(slot_meant(&odd, at("2027-01-05T03:00:00Z")), slot);
        assert_eq!(slot_meant(&odd, at("2027-01-05T03:00:01Z")), None);
        assert_eq!(slot_meant(&odd, at("2027-01-05T02:59:59Z")), None);
    }
}
