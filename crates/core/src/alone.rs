//! A fire that is stored by itself: one message that expects the cursor before it and leaves it where it is.
//!
//! ```text
//!   [event, cursor 7]   fire   fire   cursor 8   fire   …   cursor 9   fire       the first two expect cursor 7
//!                    └─ 5 s at most ─┘   └ renewed 1 s before, or written 1 s before a slot that is alone
//! ```
//!
//! A small atomic batch costs a broker with one replica five times what a single message does
//! (`docs/adr/0007-a-fire-by-itself.md`), so a cursor that is needed leaves by itself as well, before a fire has to
//! wait for it.
//!
//! Invariant: the slot of such a fire is due before [`ALONE_FOR`] has passed since the cursor that it expects. So a
//! leader that finds the cursor, and whose log may have lost the fire to its lifetime, knows the slots that it may
//! not fire again: they are skipped.

use std::time::Duration;

use cronstream_schemas::event::{Cause, Cursor, Fired, JobState, LogEvent, Position, SkipReason};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use crate::definition::lifetime;
use crate::draft::{Draft, SMALL_BYTES};
use crate::overrides;
use crate::partition::Partition;
use crate::plan::Plan;
use crate::turn::{Now, Planned};

/// How long after its newest cursor a leader lets fires go by themselves; then another cursor passes them.
pub const ALONE_FOR: Duration = Duration::from_secs(5);
/// How long before that a cursor is renewed behind which fires stand, and how long before a slot that is due by itself
/// one is written that lets its fire go.
pub const AHEAD: Duration = Duration::from_secs(1);
/// So many jobs that are due leave one by one, each by itself: a batch of so few takes longer. More are a batch's.
const FEW: usize = 3;
const TICK: Duration = Duration::from_millis(1);

/// Before which instant slots are in doubt for whoever takes over behind `cursor`. None goes by itself behind one whose
/// own doubt stands.
pub(crate) fn doubt_behind(cursor: &Cursor) -> Option<Timestamp> {
    let before = cursor.doubt_before.unwrap_or_else(|| cursor.at.plus(ALONE_FOR));
    Some(before).filter(|before| !has_passed(&cursor.position, *before))
}

/// Whether a position is behind everything that is due before an instant.
fn has_passed(position: &Position, before: Timestamp) -> bool {
    match position.job {
        Some(_) => before <= position.due,
        None => before <= position.due.plus(TICK),
    }
}

impl Partition {
    /// Whether what a turn has planned is the first fire of one slot and nothing else, soon enough behind the cursor.
    /// A job of which slots were moved, or whose slots depend on its runs, needs a cursor.
    pub(crate) fn may_go_alone(&self, events: &[Planned], cursor: &Cursor, now: Timestamp) -> bool {
        let [Planned { event: LogEvent::Fired(fired), .. }] = events else { return false };
        let Fired { job, cause: Cause::Slot(_), fire_no: 1, .. } = fired else { return false };
        // The cursor tells of runs, should their stream be recreated.
        let tells_of_runs = cursor.dead_through > 0 || self.runs_through == 0;
        let is_fresh = cursor.doubt_before.is_none() && now < cursor.at.plus(ALONE_FOR);
        self.is_plain(job) && tells_of_runs && is_fresh
    }

    /// The cursor that ends a batch, and the one that closes it where its event went by itself and may not be
    /// stored: `next`, which is still at the position before, at `position` and where it is.
    pub(crate) fn next_cursors(&self, next: Cursor, position: Position) -> (Cursor, Cursor) {
        let closing = Cursor { doubt_before: doubt_behind(&next), ..next.clone() };
        // A clock that was set back may leave the position before what was fired.
        let fired = self.unpassed.map(|at| at.plus(TICK));
        let doubt_before = next.doubt_before.max(fired);
        let doubt_before = doubt_before.filter(|before| !has_passed(&position, *before));
        (Cursor { position, doubt_before, ..next }, closing)
    }

    /// Whether none of a job's slots was moved or depends on its runs.
    fn is_plain(&self, job: &JobId) -> bool {
        self.jobs.get(job).is_some_and(|job| {
            let fixed_delay = job.plan.as_ref().is_some_and(Plan::is_fixed_delay);
            job.state.overrides.is_empty() && !fixed_delay
        })
    }

    /// Whether a cursor at `position` is due though nothing else is decided: to pass the fires that stand behind the
    /// newest one or what is in doubt behind it, or to let the next slot's fire go by itself.
    pub(crate) fn wants_cursor(&self, position: &Position, now: Now) -> bool {
        let Some(cursor) = &self.cursor else { return false };
        let passes_fires = self.unpassed.is_some() && renewed_by(cursor) <= now.wall;
        let passes_doubt = cursor.doubt_before.is_some_and(|before| has_passed(position, before));
        // Looked for last, and not behind a fresh cursor: in a burst much that is due lies before the next slot.
        let (over, ahead) = (cursor.at.plus(ALONE_FOR), now.horizon().plus(AHEAD));
        let lets_go = || {
            let due = self.due_by_itself(now.horizon());
            due.is_some_and(|due| (over..=ahead).contains(&due))
        };
        passes_fires || passes_doubt || (over <= ahead && lets_go())
    }

    /// When the next slot is due, if it is the only one at that instant and its fire may go by itself.
    fn due_by_itself(&self, horizon: Timestamp) -> Option<Timestamp> {
        let mut due = self.due.iter().skip_while(|(due, _)| *due <= horizon);
        let (first, job) = due.next()?;
        let is_alone = due.next().is_none_or(|(second, _)| first < second);
        let may_fire = self.jobs.get(job).is_some_and(|job| job.state.paused.is_none());
        (is_alone && may_fire && self.is_plain(job)).then_some(first)
    }

    /// When the next cursor is due that [`Self::wants_cursor`] asks for, behind `now`.
    pub(crate) fn cursor_by(&self, now: Timestamp) -> Option<Timestamp> {
        let cursor = self.cursor.as_ref()?;
        let fires = self.unpassed.map(|_| renewed_by(cursor));
        let ahead = self.due.first().filter(|due| cursor.at.plus(ALONE_FOR) <= *due);
        let ahead = ahead.map(|due| due.minus(AHEAD)).filter(|ahead| now < *ahead);
        fires.into_iter().chain(cursor.doubt_before).chain(ahead).min()
    }
}

/// When a cursor is renewed behind which fires stand.
fn renewed_by(cursor: &Cursor) -> Timestamp {
    cursor.at.plus(ALONE_FOR.saturating_sub(AHEAD))
}

impl Draft<'_> {
    /// Whether so few jobs are due up to `through`, and nothing else is planned, that each had better go by itself.
    pub(crate) fn goes_one_by_one(&self, through: Timestamp) -> bool {
        let due = self.base.due.iter().take_while(|(due, _)| *due <= through).take(FEW + 1).count();
        self.plans.events.is_empty() && self.plans.applied == 0 && (2..=FEW).contains(&due)
    }

    /// Whether what is planned so far may go by itself.
    pub(crate) fn is_alone(&self) -> bool {
        let (events, now) = (&self.plans.events, self.now.wall);
        self.base.cursor().is_some_and(|cursor| self.base.may_go_alone(events, cursor, now))
    }

    /// Skips the slots after `after` that an earlier leader may have fired by themselves, and whose fires the log may
    /// have lost since; gives the instant behind which slots are undecided then, or none without room. They are judged
    /// by the state under which they were fired: whatever a command that waits makes of the job comes behind them.
    pub(crate) fn skip_doubtful(
        &mut self,
        state: &JobState,
        plan: &Plan,
        after: Timestamp,
    ) -> Option<Timestamp> {
        let doubt = self.base.cursor().and_then(|cursor| cursor.doubt_before);
        let (Some(before), Some(definition)) = (doubt, &state.definition) else {
            return Some(after);
        };
        if plan.is_fixed_delay() || !state.overrides.is_empty() {
            return Some(after);
        }
        let kept = lifetime(definition) + definition.retention.to_duration();
        // The clocks by which the lifetime began and is judged, and whole seconds.
        let error = 2 * self.settings.max_clock_error + Duration::from_secs(1);
        let lost = self.now.wall.plus(error).minus(kept);
        let through = before.minus(TICK).min(lost).minus(plan.jitter());
        let ranges = overrides::ranges(&state.overrides, plan, after, through);
        if !self.has_room(ranges.len(), ranges.len() * SMALL_BYTES) {
            return None;
        }
        for (_, range) in ranges {
            self.skip(state, SkipReason::Misfire, range);
        }
        Some(after.max(through))
    }
}
