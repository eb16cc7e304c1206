//! Overrides: slots to come that a command lets be skipped, or due at another instant.
//!
//! ```text
//!            skip                      shift to later                    shift to earlier
//!   slot     Skipped{requested}        Held{shifted, due} ─► Fired       (decided by then)
//!   earlier                                                              JobOverridden + Fired
//! ```
//!
//! A slot that is shifted to an earlier instant is decided there, in front of the position that slots have. So that
//! no later leader takes it for undecided, the same batch writes the job's state anew, with the slot as the last
//! one decided: a state never expires. The override stays, as done: a new revision begins where its command was
//! given, behind which such a slot may be one of its own, and is no slot to come.
//!
//! Invariant: slots are decided in their order whatever is overridden: none is shifted before the one ahead of it.
//! An override is part of the job's state, so it is totally ordered with the slots: it is accepted only while its
//! slot is undecided, and what is due at the command's broker timestamp is decided first.

use std::time::Duration;

use cronstream_schemas::command::{Shift, Skip, Verb};
use cronstream_schemas::definition::{Misfire, MisfirePolicy};
use cronstream_schemas::event::{Held, HeldReason, JobState, LogEvent, Override, SkipReason};
use cronstream_schemas::fault::Fault;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use cronstream_schemas::verdict::Outcome;

use crate::apply::unexpected;
use crate::draft::{Draft, Progress, room_of};
use crate::misfire::{self, Range};
use crate::partition::PendingCommand;
use crate::plan::Plan;
use crate::release::{HOLD_EVENTS, held};

/// The most slots of a job that are overridden at a time.
pub const OVERRIDES_MAX: usize = 100;

/// One millisecond: instants are no finer.
const TICK: Duration = Duration::from_millis(1);

/// When `slot` is due, which without an override would be at `regular`. A slot that is shifted to a later instant is
/// due at its own, and held from there.
pub(crate) fn due(overrides: &[Override], slot: Timestamp, regular: Timestamp) -> Timestamp {
    let shifted = overrides.iter().find(|it| it.slot == slot).and_then(|it| it.to);
    shifted.map_or(regular, |to| to.min(regular))
}

/// The overrides that stay when a state comes into force that decides slots after `after`, and those that are done
/// of slots behind `passed`: whatever the schedule is meanwhile, they may be slots of it again.
pub(crate) fn kept(
    overrides: &[Override],
    plan: Option<&Plan>,
    after: Timestamp,
    passed: Timestamp,
) -> Vec<Override> {
    let is_to_come = |it: &Override, plan: &Plan| {
        it.slot > after && is_slot(plan, it.slot) && !(plan.is_fixed_delay() && it.to.is_some())
    };
    let stays = |it: &&Override| match it.is_done() {
        true => it.slot > passed,
        false => plan.is_some_and(|plan| is_to_come(it, plan)),
    };
    overrides.iter().filter(stays).copied().collect()
}

/// Whether a slot was decided ahead.
pub(crate) fn is_done(overrides: &[Override], slot: Timestamp) -> bool {
    overrides.iter().any(|it| it.is_done() && it.slot == slot)
}

/// The first slot behind `after` that was not decided ahead.
pub(crate) fn next(overrides: &[Override], plan: &Plan, after: Timestamp) -> Option<Timestamp> {
    let mut slots = std::iter::successors(plan.next(after), |slot| plan.next(*slot));
    slots.find(|slot| !is_done(overrides, *slot))
}

/// The last slot before `before` that was not decided ahead.
fn prev(overrides: &[Override], plan: &Plan, before: Timestamp) -> Option<Timestamp> {
    let mut slots = std::iter::successors(plan.prev(before), |slot| plan.prev(*slot));
    slots.find(|slot| !is_done(overrides, *slot))
}

/// All slots in (`after`, `through`] that were not decided ahead, each range with the instant that it lies behind. None
/// reaches over a slot that was, of whatever revision.
pub(crate) fn ranges(
    overrides: &[Override],
    plan: &Plan,
    after: Timestamp,
    through: Timestamp,
) -> Vec<(Timestamp, Range)> {
    let is_here = |it: &&Override| it.is_done() && it.slot > after && it.slot <= through;
    let done = overrides.iter().filter(is_here);
    let begins = std::iter::once(after).chain(done.clone().map(|it| it.slot));
    let ends = done.map(|it| it.slot.minus(TICK)).chain([through]);
    let ranges = begins.zip(ends);
    ranges.filter_map(|(begin, end)| Some((begin, misfire::range(plan, begin, end)?))).collect()
}

/// A stretch of slots between overridden ones, and how it is decided.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) after: Timestamp,
    pub(crate) through: Timestamp,
    pub(crate) misfire: Misfire,
}

/// Slots in (`after`, `through`] whose override has an effect there, or had one before, each behind the stretch before
/// it, and the stretch behind the last. Of missed slots that `fire_once` decides, the latest of all stretches fires,
/// and of those that `fire_all` decides the latest of all as far as its limit goes.
pub(crate) fn stretches(
    state: &JobState,
    plan: &Plan,
    (after, through): (Timestamp, Timestamp),
    misfire: Misfire,
    now: Timestamp,
) -> (Vec<(Stretch, Override)>, Stretch) {
    let missed_through = misfire::missed_through(plan, &misfire, now);
    let is_early = |it: &Override| it.to.is_some_and(|to| to < it.slot.plus(plan.jitter()));
    let reached = |it: &&Override| it.slot > after && it.slot <= through;
    let here = state.overrides.iter().filter(reached);
    let is_apart = |it: &&Override| it.is_done() || !is_early(it) && is_slot(plan, it.slot);
    let here: Vec<Override> = here.filter(is_apart).copied().collect();
    let mut begin = after;
    let mut found = Vec::with_capacity(here.len());
    for (index, it) in here.iter().enumerate() {
        let left = |through: Timestamp| {
            let later = here[index + 1..].iter().filter(|it| it.slot <= through);
            let others = later.filter(|it| is_slot(plan, it.slot)).count() as u64;
            plan.count(it.slot, through).saturating_sub(others)
        };
        let once = misfire.policy == MisfirePolicy::FireOnce;
        let policy = if once && left(through) > 0 { MisfirePolicy::Skip } else { misfire.policy };
        let missed = left(through.min(missed_through)).try_into().unwrap_or(u32::MAX);
        let limit = misfire.limit.saturating_sub(missed);
        let misfire = Misfire { policy, limit, ..misfire };
        found.push((Stretch { after: begin, through: it.slot.minus(TICK), misfire }, *it));
        begin = it.slot;
    }
    (found, Stretch { after: begin, through, misfire })
}

fn is_slot(plan: &Plan, slot: Timestamp) -> bool {
    plan.next(slot.minus(TICK)) == Some(slot)
}

impl Draft<'_> {
    /// Lets a slot not fire.
    pub(crate) fn skip_slot(
        &mut self,
        command: &PendingCommand,
        job: &JobId,
        skip: &Skip,
    ) -> Progress {
        self.override_slot(command, (Verb::Skip, job), skip.slot, None)
    }

    /// Lets a slot be due at another instant; at its own again, when that is asked for.
    pub(crate) fn shift_slot(
        &mut self,
        command: &PendingCommand,
        job: &JobId,
        shift: &Shift,
    ) -> Progress {
        self.override_slot(command, (Verb::Shift, job), shift.slot, Some(shift.to))
    }

    fn override_slot(
        &mut self,
        command: &PendingCommand,
        (verb, job): (Verb, &JobId),
        wanted: Option<Timestamp>,
        to: Option<Timestamp>,
    ) -> Progress {
        let address = Some((verb, job));
        let Some(state) = self.existing(job) else {
            return self.reject_missing(command, verb, job);
        };
        if let Some(fault) = unexpected(command, Some(state.revision)) {
            return self.reject(command, address, vec![fault], None);
        }
        if state.paused.is_none() && self.decide_before(command, job) == Progress::Full {
            return Progress::Full;
        }
        let slot = match self.slot_to_come(command, &state, wanted) {
            Ok(slot) => slot,
            Err(fault) => return self.reject(command, address, vec![fault], None),
        };
        if let Some(fault) = to.and_then(|to| self.cannot_shift(command, &state, slot, to)) {
            return self.reject(command, address, vec![fault], None);
        }
        let decided = self.last_decided(job);
        let stays =
            |it: &&Override| it.slot > if it.is_done() { decided.min(command.at) } else { decided };
        let others = state.overrides.iter().filter(stays).filter(|it| it.slot != slot);
        let new = Override { slot, to, command: command.seq, done: None };
        let new = Some(new).filter(|_| to != Some(slot));
        let mut overrides: Vec<Override> = others.copied().chain(new).collect();
        overrides.sort_unstable_by_key(|it| it.slot);
        // What passes undecided while a job is paused is for its resume, as far as it finds room.
        let passed =
            overrides.iter().take_while(|it| state.paused.is_some() && it.slot <= command.at);
        let beyond = overrides.len().saturating_sub(OVERRIDES_MAX).min(passed.count());
        overrides.drain(..beyond);
        if overrides.len() > OVERRIDES_MAX {
            let problem =
                format!("{OVERRIDES_MAX} slots of this job are skipped or shifted already");
            let expected = "fewer; define another schedule, or pause the job";
            let fault = Fault::new("$", "", problem, expected);
            return self.reject(command, address, vec![fault], None);
        }
        self.emit(LogEvent::JobOverridden(JobState {
            overrides: overrides.into(),
            effective_after: decided,
            command: command.seq,
            at: command.at,
            ..JobState::clone(&state)
        }));
        self.reply(command, address, Outcome::Overridden { slot, to })
    }

    /// The slot that a command means: the one it names, or the next undecided one.
    fn slot_to_come(
        &self,
        command: &PendingCommand,
        state: &JobState,
        wanted: Option<Timestamp>,
    ) -> Result<Timestamp, Fault> {
        let path = if wanted.is_some() { "$.slot" } else { "$" };
        let value = wanted.map(|slot| slot.to_string()).unwrap_or_default();
        let undecided = self.job(&state.job).and_then(|job| job.undecided(self.passed(&state.job)));
        let Some((plan, after)) = undecided else {
            let problem = "the next slot follows from the end of the run that is live";
            return Err(Fault::new(path, &value, problem, "wait for that, or cancel the run"));
        };
        // While a job is paused its slots pass undecided.
        let after = state.paused.map_or(after, |_| after.max(command.at));
        let next = next(&state.overrides, &plan, after);
        let expected = match next {
            Some(next) => format!("a slot to come; the next one is {next}"),
            None => "a job with slots to come".to_owned(),
        };
        match (wanted, next) {
            (Some(slot), _) if !is_slot(&plan, slot) => {
                Err(Fault::new(path, &value, "no slot of this job", expected))
            }
            (Some(slot), _) if slot <= after || is_done(&state.overrides, slot) => {
                let problem = "too late: this slot is decided already";
                Err(Fault::new(path, &value, problem, expected))
            }
            (Some(slot), _) | (None, Some(slot)) => Ok(slot),
            (None, None) => Err(Fault::new(path, "", "the job has no slot to come", expected)),
        }
    }

    /// Why `slot` cannot be due at `to`.
    fn cannot_shift(
        &self,
        command: &PendingCommand,
        state: &JobState,
        slot: Timestamp,
        to: Timestamp,
    ) -> Option<Fault> {
        let fault = |problem: String, expected: String| {
            Some(Fault::new("$.to", &to.to_string(), problem, expected))
        };
        if to <= command.at {
            return fault("has passed".into(), format!("an instant after {}", command.at));
        }
        let (plan, after) = self.job(&state.job)?.undecided(self.passed(&state.job))?;
        if plan.is_fixed_delay() {
            let expected = "a job whose slots do not follow from the end of the run before";
            return fault("a fixed delay has no slots to shift".into(), expected.into());
        }
        let before = prev(&state.overrides, &plan, slot).filter(|before| *before > after)?;
        let regular = before.plus(plan.jitter());
        let first = due(&state.overrides, before, regular);
        if to >= first {
            return None;
        }
        let expected =
            format!("an instant from {first} on; before it, trigger the job and skip this slot");
        fault(format!("the slot before it is due at {first}"), expected)
    }

    /// Gives a slot that is reached the outcome that was asked for.
    pub(crate) fn overridden(&mut self, state: &JobState, plan: &Plan, it: &Override) {
        match it.to {
            _ if it.is_done() => {}
            None => {
                let range = Range { first: it.slot, last: it.slot, count: 1 };
                self.skip(state, SkipReason::Requested, range);
            }
            Some(to) => {
                if let Some(held) = held(state, plan, it.slot, HeldReason::Shifted) {
                    self.hold(Held { due: Some(to), ..held });
                }
            }
        }
    }

    /// Holds the slots that a state leaves undecided at its end, the overridden ones as was asked for. What finds no
    /// room goes on in the next batch, and the command with it.
    pub(crate) fn hold_undecided(&mut self, id: &JobId, through: Timestamp) -> Progress {
        let Some(job) = self.job(id) else { return Progress::Done };
        let state = std::sync::Arc::clone(&job.state);
        let Some((plan, after)) = job.undecided(self.passed(id)) else { return Progress::Done };
        let Some(definition) = &state.definition else { return Progress::Done };
        let plan = plan.into_owned();
        let here = state.overrides.iter().filter(|it| it.slot > after && it.slot <= through);
        for it in here.filter(|it| !it.is_done() && is_slot(&plan, it.slot)) {
            if self.hold_jittered(id, it.slot.minus(TICK)) == Progress::Full
                || !self.has_room(HOLD_EVENTS, room_of(definition))
            {
                return Progress::Full;
            }
            self.overridden(&state, &plan, it);
        }
        self.hold_jittered(id, through)
    }

    /// Decides the next slot of `id` where it is shifted to an instant up to `through` that lies before its own.
    pub(crate) fn decide_early(
        &mut self,
        id: &JobId,
        passed: Timestamp,
        through: Timestamp,
    ) -> Progress {
        // A job's state is written once at most in a batch; the slot stays owed, and is decided by the next one.
        let Some(job) = self.job(id).filter(|_| !self.changed.contains(id)) else {
            return Progress::Done;
        };
        let state = std::sync::Arc::clone(&job.state);
        let (Some(definition), Some((plan, after))) = (&state.definition, job.undecided(passed))
        else {
            return Progress::Done;
        };
        let plan = plan.into_owned();
        if state.overrides.is_empty() {
            return Progress::Done;
        }
        let Some(slot) = next(&state.overrides, &plan, after) else { return Progress::Done };
        let regular = slot.plus(plan.jitter());
        let due = due(&state.overrides, slot, regular);
        if due > through || due == regular {
            return Progress::Done;
        }
        if !self.has_room(6, 3 * room_of(definition)) {
            return Progress::Full;
        }
        let ahead = state.overrides.iter().find(|it| it.slot == after);
        let by_then = ahead.and_then(|it| it.done).unwrap_or(after);
        let mut overrides = kept(&state.overrides, Some(&plan), slot.minus(TICK), Timestamp::MIN);
        overrides.iter_mut().filter(|it| it.slot == slot).for_each(|it| it.done = Some(by_then));
        self.emit(LogEvent::JobOverridden(JobState {
            overrides: overrides.into(),
            effective_after: slot,
            ..JobState::clone(&state)
        }));
        let late = self.now.wall.since(due);
        let misfire = &definition.misfire;
        let within = match misfire.policy {
            MisfirePolicy::Skip => misfire.threshold.to_duration(),
            MisfirePolicy::FireOnce | MisfirePolicy::FireAll => {
                misfire::fire_within(&plan, misfire, slot).max(misfire.threshold.to_duration())
            }
        };
        if late > within {
            self.skip(&state, SkipReason::Misfire, Range { first: slot, last: slot, count: 1 });
        } else {
            self.due_slot(&state, &plan, slot, due);
        }
        Progress::Done
    }

    /// Behind which instant a new revision decides, that a command of `at` puts in force: behind what is decided, but
    /// for what was decided ahead.
    pub(crate) fn decided_regularly(&self, id: &JobId, at: Timestamp) -> Timestamp {
        let decided = self.last_decided(id);
        let ahead = self
            .job(id)
            .and_then(|job| job.state.overrides.iter().find(|it| it.slot == decided)?.done);
        ahead.unwrap_or(decided).max(at)
    }
}
