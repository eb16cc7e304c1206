//! Backfills: which past slots run again, each under the revision that was in force then.
//!
//! A revision owns the slots after its `effective_after` up to and including that of the next one, so an expression
//! that is new since yesterday says nothing of yesterday's slots. The leader and the command line compute the same
//! from the same history.
//!
//! Invariant: a backfill is answered whole: all of its slots are put to wait in the batch that answers it, or none.

use std::time::Duration;

use cronstream_schemas::command::{Backfill, Verb};
use cronstream_schemas::event::{Held, HeldRange, HeldReason, JobState};
use cronstream_schemas::fault::Fault;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use cronstream_schemas::verdict::Outcome;

use crate::calendar::Calendars;
use crate::draft::{Draft, Progress, room_of};
use crate::held::HELD_MAX;
use crate::misfire::{self, Range};
use crate::partition::{Partition, PendingCommand};
use crate::plan::Plan;
use crate::release::Slots;
use crate::turn::HistoryRead;

/// The most slots of a backfill.
pub const SLOTS_MAX: u64 = 10_000;
/// The most revisions that a backfill may span.
pub const REVISIONS_MAX: usize = 50;
/// The most bytes that the definitions of those revisions may have in all: they are stored in one batch.
const BYTES_MAX: usize = 4 * 1024 * 1024;

const TICK: Duration = Duration::from_millis(1);

/// The slots of one revision that run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The revision.
    pub state: JobState,
    /// Slots up to here are an earlier revision's, or were not asked for.
    pub after: Timestamp,
    /// The first slot.
    pub first: Timestamp,
    /// The last slot.
    pub last: Timestamp,
    /// How many slots there are.
    pub count: u64,
}

/// Takes a job's history in its order and keeps what a backfill needs of it.
#[derive(Debug, Clone)]
pub struct Collector {
    from: Timestamp,
    to: Timestamp,
    states: Vec<JobState>,
}

impl Collector {
    /// For the slots from `from` through `to`.
    #[must_use]
    pub const fn new(from: Timestamp, to: Timestamp) -> Self {
        Self { from, to, states: Vec::new() }
    }

    /// Takes the next revision; whether further ones may matter.
    pub fn take(&mut self, state: JobState) -> bool {
        if state.effective_after >= self.to {
            return false;
        }
        if state.effective_after < self.from {
            self.states.clear();
        }
        self.states.push(state);
        self.states.len() <= REVISIONS_MAX
    }

    /// The revisions that may own a slot that is asked for, at most one more than a backfill may span.
    #[must_use]
    pub fn finish(self) -> Vec<JobState> {
        self.states
    }
}

/// The revisions of a job as a [`Collector`] leaves them, or why they are not told.
pub type History = Result<Vec<JobState>, Unread>;

/// Why a job's history is not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// More messages than a leader reads lie before what is asked for.
    TooLong,
    /// The log does not answer.
    NoAnswer,
}

impl Unread {
    /// What the sender may do about it.
    fn fault(self, current: &JobState, from: Timestamp) -> Fault {
        let begin = current.effective_after;
        match self {
            Self::TooLong => {
                let problem = "too many revisions lie about it to be read";
                let expected =
                    format!("another begin; after {begin}, say, when the revision in force began");
                Fault::new("$.from", &from.to_string(), problem, expected)
            }
            Self::NoAnswer => {
                let problem = "the job's history could not be read in time";
                let expected = format!("the same command again, or a begin after {begin}");
                Fault::new("$subject", &current.job.to_string(), problem, expected)
            }
        }
    }
}

/// The slots from `from` through `to` of the life that `current` belongs to, by revision, oldest first. `history`
/// has its revisions as a [`Collector`] leaves them.
///
/// # Errors
/// What is in the way of such a backfill, and what to do about it.
pub fn segments(
    history: &[JobState],
    current: &JobState,
    calendars: &Calendars,
    (from, to): (Timestamp, Timestamp),
) -> Result<Vec<Segment>, Fault> {
    let states = of_life(history, current, to);
    if states.len() > REVISIONS_MAX {
        let problem = format!("more than {REVISIONS_MAX} revisions were in force by then");
        return Err(Fault::new("$.to", &to.to_string(), problem, "shorter stretches, one by one"));
    }
    reaches_back(&states, from)?;
    let ends = states.iter().skip(1).map(|next| next.effective_after).chain([to]);
    let mut segments = Vec::new();
    for (state, end) in states.iter().zip(ends) {
        let after = state.effective_after.max(from.minus(TICK));
        let plan = plan(state, calendars)?;
        if let Some(Range { first, last, count }) = misfire::range(&plan, after, end.min(to)) {
            segments.push(Segment { state: JobState::clone(state), after, first, last, count });
        }
    }
    within_bounds(&segments, current, (from, to))?;
    Ok(segments)
}

/// The revisions of the life that `current` belongs to. The one in force may be older than its record is kept.
fn of_life<'a>(history: &'a [JobState], current: &'a JobState, to: Timestamp) -> Vec<&'a JobState> {
    let mine = |state: &&JobState| state.incarnation == current.incarnation;
    let mut states: Vec<&JobState> = history.iter().filter(mine).collect();
    let is_known = states.iter().any(|state| state.revision >= current.revision);
    if !is_known && current.effective_after < to && states.len() <= REVISIONS_MAX {
        states.push(current);
    }
    states
}

fn reaches_back(states: &[&JobState], from: Timestamp) -> Result<(), Fault> {
    let Some(first) = states.first() else { return Ok(()) };
    let is_begin = first.revision.0 == first.incarnation.0;
    if is_begin || first.effective_after < from {
        return Ok(());
    }
    let expected = format!("an instant after {}", first.effective_after);
    Err(Fault::new("$.from", &from.to_string(), "the job's history does not reach back", expected))
}

fn plan(state: &JobState, calendars: &Calendars) -> Result<Plan, Fault> {
    let revision = state.revision.0;
    let fault = |problem: String, expected: &str| {
        Err(Fault::new("$.from", &format!("revision {revision}"), problem, expected))
    };
    let Some(definition) = &state.definition else {
        return fault(format!("revision {revision} has no definition"), "a later begin");
    };
    let Ok(plan) = Plan::compile(definition, &state.job, state.anchor, calendars) else {
        let problem = format!("this version cannot read the schedule of revision {revision}");
        return fault(problem, "a later begin");
    };
    if plan.is_fixed_delay() {
        let problem = format!("revision {revision} has a fixed delay, which has no slots before");
        return fault(problem, "a stretch under a schedule, or triggers");
    }
    if let Some(calendar) = plan.missing_calendar() {
        let problem = format!("calendar {calendar} of revision {revision} is not there");
        return fault(problem, "publish the calendar again first");
    }
    Ok(plan)
}

fn within_bounds(
    segments: &[Segment],
    current: &JobState,
    (from, to): (Timestamp, Timestamp),
) -> Result<(), Fault> {
    let slots: u64 = segments.iter().map(|segment| segment.count).sum();
    if slots == 0 {
        let problem = format!("{} had no slot from {from} through {to}", current.job);
        return Err(Fault::new("$.from", &from.to_string(), problem, "a stretch with slots"));
    }
    if slots > SLOTS_MAX {
        let expected = format!("at most {SLOTS_MAX} slots; shorter stretches, one by one");
        return Err(Fault::new("$.to", &to.to_string(), format!("{slots} slots"), expected));
    }
    let definitions = segments.iter().filter_map(|segment| segment.state.definition.as_ref());
    if definitions.map(room_of).sum::<usize>() > BYTES_MAX {
        let problem = "the definitions of those revisions are too large together";
        return Err(Fault::new("$.to", &to.to_string(), problem, "shorter stretches, one by one"));
    }
    Ok(())
}

impl Partition {
    /// Takes the history that a turn has asked for, or why there is none.
    pub fn history_read(&mut self, command: u64, history: History) {
        if self.history.as_ref().is_some_and(|(asked, _)| *asked == command) {
            self.history = Some((command, Some(history)));
        }
    }

    /// The history that was read for a command.
    pub(crate) fn history_of(&self, command: u64) -> Option<Result<&[JobState], Unread>> {
        let (asked, history) = self.history.as_ref()?;
        let history = history.as_ref().filter(|_| *asked == command)?;
        Some(history.as_deref().map_err(|unread| *unread))
    }

    /// Notes what a turn asks for; whether it was not asked for before.
    pub(crate) fn asks(&mut self, read: &HistoryRead) -> bool {
        let asked = self.history.as_ref().is_some_and(|(command, _)| *command == read.command);
        if !asked {
            self.history = Some((read.command, None));
        }
        !asked
    }
}

impl Draft<'_> {
    /// Answers a backfill, once the job's history is read.
    pub(crate) fn backfill(
        &mut self,
        command: &PendingCommand,
        job: &JobId,
        backfill: &Backfill,
    ) -> Progress {
        let address = Some((Verb::Backfill, job));
        let Some(state) = self.existing(job) else {
            return self.reject_missing(command, Verb::Backfill, job);
        };
        let Backfill { from, to } = *backfill;
        if to > command.at {
            let expected = format!("an instant that has passed; it is {}", command.at);
            let fault = Fault::new("$.to", &to.to_string(), "lies in the future", expected);
            return self.reject(command, address, vec![fault], None);
        }
        if state.paused.is_none() && self.decide_before(command, job) == Progress::Full {
            return Progress::Full;
        }
        let history = if state.effective_after < from {
            // All of it is the slots of the revision in force.
            Some(Ok(&[][..]))
        } else {
            self.base.history_of(command.seq)
        };
        let Some(history) = history else {
            let (command, job, incarnation) = (command.seq, job.clone(), state.incarnation);
            self.plans.history = Some(HistoryRead { command, job, incarnation, from, to });
            return Progress::Full;
        };
        let found = history
            .map_err(|unread| unread.fault(&state, from))
            .and_then(|history| segments(history, &state, &self.base.calendars, (from, to)));
        match found {
            Ok(segments) => self.hold_backfill(command, job, &segments),
            Err(fault) => self.reject(command, address, vec![fault], None),
        }
    }

    fn hold_backfill(
        &mut self,
        command: &PendingCommand,
        job: &JobId,
        segments: &[Segment],
    ) -> Progress {
        let address = Some((Verb::Backfill, job));
        let waits = self.held(job).map_or(0, |waiting| waiting.entries.len());
        if waits + segments.len() > HELD_MAX {
            let problem = format!("{waits} catch-ups and backfills of this job wait already");
            let expected = "try again when some of them have ended, or pause the job to end them";
            let fault = Fault::new("$subject", &job.to_string(), problem, expected);
            return self.reject(command, address, vec![fault], None);
        }
        let mut held = Vec::new();
        for segment in segments {
            match held_segment(segment, command.seq, &self.base.calendars) {
                Ok(range) => held.push(range),
                Err(fault) => return self.reject(command, address, vec![fault], None),
            }
        }
        let room = held.iter().map(|held| room_of(&held.definition)).sum();
        if !self.has_room(held.len(), room) {
            return Progress::Full;
        }
        held.into_iter().for_each(|held| self.hold(held));
        let slots = segments.iter().map(|segment| segment.count).sum();
        self.reply(command, address, Outcome::Backfilling { slots })
    }
}

fn held_segment(segment: &Segment, command: u64, calendars: &Calendars) -> Result<Held, Fault> {
    let plan = plan(&segment.state, calendars)?;
    let Segment { state, after, first, last, count } = segment;
    let range = Range { first: *first, last: *last, count: *count };
    let id = format!("b{command}-{}", state.revision.0);
    let slots = Slots { plan: &plan, after: *after, range };
    let held = slots.held(state, HeldReason::Backfill, id);
    let mut held = held.expect("a plan comes from a definition");
    if let Some(range) = held.range.take() {
        held.range = Some(HeldRange { command: Some(command), ..range });
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cronstream_schemas::definition::Draft as Definition;
    use cronstream_schemas::event::Overrides;
    use cronstream_schemas::id::{Incarnation, Revision};

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000).plus(Duration::from_secs(seconds))
    }

    /// A revision of `every 10s`, in force from an instant on.
    fn revision(number: u64, life: u64, after: u64) -> JobState {
        let body = br#"{"task":"t","schedule":{"every":"10s"}}"#;
        JobState {
            job: "a/b".parse().unwrap(),
            revision: Revision(number),
            incarnation: Incarnation(life),
            definition: Some(Definition::decode(body).finish().unwrap()),
            anchor: at(0),
            effective_after: at(after),
            paused: None,
            overrides: Overrides::default(),
            tzdb: None,
            command: number,
            at: at(after),
        }
    }

    fn asked(
        history: &[JobState],
        current: &JobState,
        (from, to): (u64, u64),
    ) -> Result<Vec<(u64, u64)>, String> {
        let mut collector = Collector::new(at(from), at(to));
        let _all = history.iter().all(|state| collector.take(state.clone()));
        let kept = collector.finish();
        let found = segments(&kept, current, &Calendars::default(), (at(from), at(to)));
        let short = |segment: &Segment| (segment.state.revision.0, segment.count);
        found.map(|found| found.iter().map(short).collect()).map_err(|fault| fault.problem)
    }

    #[test]
    fn each_slot_is_the_revision_s_that_was_in_force_and_both_ends_count() {
        let history = [revision(1, 1, 0), revision(2, 1, 30), revision(3, 1, 55)];
        let check = |stretch, expected: &[(u64, u64)]| {
            assert_eq!(asked(&history, &history[2], stretch), Ok(expected.to_vec()), "{stretch:?}");
        };
        check((0, 100), &[(1, 3), (2, 2), (3, 5)]);
        check((30, 40), &[(1, 1), (2, 1)]);
        check((31, 49), &[(2, 1)]);
        check((60, 60), &[(3, 1)]);
    }

    #[test]
    fn a_record_that_has_expired_is_not_guessed() {
        // Revision 1 has vanished; so has, at last, that of the revision in force.
        let history = [revision(2, 1, 30)];
        let problem = "the job's history does not reach back".to_owned();
        assert_eq!(asked(&history, &history[0], (20, 60)), Err(problem));
        assert_eq!(asked(&history, &history[0], (31, 60)), Ok(vec![(2, 3)]));
        assert_eq!(asked(&[], &history[0], (31, 60)), Ok(vec![(2, 3)]));
    }

    #[test]
    fn a_former_life_has_no_slots() {
        let history = [revision(1, 1, 0), revision(5, 5, 30)];
        assert_eq!(asked(&history, &history[1], (0, 60)), Ok(vec![(5, 3)]));
        let none = asked(&history, &history[1], (0, 20)).unwrap_err();
        assert!(none.starts_with("a/b had no slot"), "{none}");
    }

    #[test]
    fn fifty_revisions_are_the_most() {
        let history: Vec<_> = (1..=60).map(|n| revision(n, 1, 10 * n - 5)).collect();
        let current = &history[59];
        assert_eq!(asked(&history, current, (6, 500)).map(|found| found.len()), Ok(50));
        let problem = "more than 50 revisions were in force by then".to_owned();
        assert_eq!(asked(&history, current, (6, 520)), Err(problem));
        // What came before does not count.
        assert_eq!(asked(&history, current, (300, 600)).map(|found| found.len()), Ok(31));
    }
}
