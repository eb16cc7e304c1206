//! Slots that wait, as a batch treats them: what is put to wait, what is let go, and what is ended.
//!
//! Every batch first takes what is on time; then what waited for an instant or for a release; then, paced, the slots
//! of catch-ups and backfills:
//!
//! - at most [`CATCH_UP_PER_TURN`] a turn and 100 a second in a partition, the job that has waited longest first;
//! - of a job whose runs may not overlap the next one when the run before has ended, of the others as long as
//!   fewer than [`crate::held::CATCH_UP_LIVE_MAX`] of its runs from catch-ups and backfills are live, and as there is
//!   room for a run at all (`live`).
//!
//! Invariant: a message that waits is written, rolled up or ended at most once in a batch. Each slot of a range
//! ends in one `Fired` or in one `Skipped`, whose batch also moves the range past it.

use std::sync::Arc;

use cronstream_schemas::definition::{Overlap, Schedule};
use cronstream_schemas::event::{
    BackfillCause, Cause, Held, HeldEnded, HeldRange, HeldReason, JobState, LogEvent, Overrides,
    SkipReason,
};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use crate::draft::{Draft, OVERHEAD_BYTES, Order, Progress, SMALL_BYTES, room_of};
use crate::held::{
    CATCH_UP_PER_TURN, HELD_MAX, Key, given_up_at, is_backfill, last_slot, may_go_on, slots_left,
};
use crate::job::Job;
use crate::misfire::{self, Range};
use crate::overrides;
use crate::plan::Plan;
use crate::turn::Planned;

/// One millisecond: instants are no finer.
const TICK: std::time::Duration = std::time::Duration::from_millis(1);

/// How many events it takes to put an entry to wait: the oldest one may have to make room.
pub(crate) const HOLD_EVENTS: usize = 3;

impl Draft<'_> {
    /// Puts an entry to wait; the oldest ones of its job make room for it.
    pub(crate) fn hold(&mut self, held: Held) {
        let key = Key::of(&held);
        while let Some(waiting) = self.held(&held.job)
            && waiting.entries.len() >= HELD_MAX
            && !waiting.entries.contains_key(&key)
            && let Some(oldest) = waiting.entries.values().min_by_key(|it| it.slot).cloned()
        {
            self.end_held(&oldest, SkipReason::Misfire);
        }
        self.held_changed.insert(held.job.clone());
        self.emit(LogEvent::Held(held));
    }

    /// Why no slot of a job may fire for now, for a reason that only the latest outlives.
    pub(crate) fn waits_for(&self, plan: &Plan) -> Option<HeldReason> {
        match plan.missing_calendar() {
            Some(_) => Some(HeldReason::CalendarMissing),
            None => self.settings.hold.then_some(HeldReason::Hold),
        }
    }

    /// Holds the one slot that fires once the cluster's hold is released, or its calendar is back: the latest.
    pub(crate) fn hold_latest(&mut self, held: Held) {
        let waiting = self.held(&held.job).into_iter().flat_map(|it| it.entries.values());
        let earlier: Vec<Arc<Held>> = waiting
            .filter(|held| matches!(held.why, HeldReason::Hold | HeldReason::CalendarMissing))
            .cloned()
            .collect();
        earlier.iter().for_each(|held| self.end_held(held, SkipReason::Misfire));
        self.hold(held);
    }

    /// Whether a slot of the job goes first when the run that is live has ended: one is enough.
    pub(crate) fn has_queued(&self, id: &JobId) -> bool {
        let waiting = self.held(id).into_iter().flat_map(|waiting| waiting.entries.values());
        waiting.into_iter().any(|held| held.why == HeldReason::Queued)
    }

    /// Holds missed slots that are to fire one after the other.
    pub(crate) fn hold_catch_up(&mut self, state: &JobState, slots: &Slots<'_>) {
        let id = format!("c{}", slots.range.first.as_millis());
        if let Some(held) = slots.held(state, HeldReason::CatchUp, id) {
            self.hold(held);
        }
    }

    /// Holds the slots that a state leaves undecided though they lie at or before `through`, until their jitter has
    /// passed; the oldest beyond [`HELD_MAX`] are skipped.
    pub(crate) fn hold_jittered(&mut self, id: &JobId, through: Timestamp) -> Progress {
        let Some(job) = self.job(id) else { return Progress::Done };
        let state = Arc::clone(&job.state);
        let Some((plan, after)) = job.undecided(self.passed(id)) else { return Progress::Done };
        let plan = plan.into_owned();
        for (after, range) in overrides::ranges(&state.overrides, &plan, after, through) {
            if !self.has_room(1 + HOLD_EVENTS, state.definition.as_ref().map_or(0, room_of)) {
                return Progress::Full;
            }
            self.hold_range(&state, &plan, after, range);
        }
        Progress::Done
    }

    fn hold_range(
        &mut self,
        state: &JobState,
        plan: &Plan,
        mut after: Timestamp,
        mut range: Range,
    ) {
        if let Some(beyond) = range.count.checked_sub(HELD_MAX as u64).filter(|many| *many > 0) {
            let earlier = |slot: &Timestamp| plan.prev(*slot);
            let kept = std::iter::successors(Some(range.last), earlier).take(HELD_MAX);
            let first = kept.last().unwrap_or(range.first);
            after = first.minus(TICK);
            let last = plan.prev(first).unwrap_or(range.first);
            self.skip(
                state,
                SkipReason::Misfire,
                Range { first: range.first, last, count: beyond },
            );
            range = Range { first, count: HELD_MAX as u64, ..range };
        }
        let slots = Slots { plan, after, range };
        let held = if range.count == 1 {
            held(state, plan, range.first, HeldReason::Jitter)
        } else {
            let id = format!("j{}", range.first.as_millis());
            slots.held(state, HeldReason::Jitter, id)
        };
        let due = Some(range.first.plus(plan.jitter()));
        if let Some(held) = held {
            self.hold(Held { due, ..held });
        }
    }

    /// Gives everything of a job that waits its outcome: skipped for `reason`.
    pub(crate) fn end_all_held(&mut self, id: &JobId, reason: SkipReason) {
        let waiting = self.held(id).into_iter().flat_map(|waiting| waiting.entries.values());
        let all: Vec<Arc<Held>> = waiting.cloned().collect();
        all.iter().for_each(|held| self.end_held(held, reason));
    }

    /// How many events it takes to end everything of a job that waits or is undecided.
    pub(crate) fn room_to_end(&self, id: &JobId) -> usize {
        2 * self.held(id).map_or(0, |waiting| waiting.entries.len()) + self.room_to_skip(id)
    }

    /// Gives the slots of an entry their outcome: skipped for `reason`.
    pub(crate) fn end_held(&mut self, held: &Held, reason: SkipReason) {
        let key = Key::of(held);
        let is_stored =
            self.base.held.get(&held.job).is_some_and(|waiting| waiting.entries.contains_key(&key));
        self.take_back(held);
        if is_stored {
            self.end_entry(held);
        } else {
            self.held_mut(&held.job).entries.remove(&key);
        }
        let range = Range { first: held.slot, last: last_slot(held), count: slots_left(held) };
        let backfill = held.range.as_ref().and_then(|range| range.command);
        self.skip_of(&held_state(held), reason, range, backfill);
    }

    fn end_entry(&mut self, held: &Held) {
        self.held_changed.insert(held.job.clone());
        self.emit(LogEvent::HeldEnded(HeldEnded {
            job: held.job.clone(),
            slot: held.slot,
            range: held.range.as_ref().map(|range| range.id.clone()),
        }));
    }

    /// Takes a message that waits out of this very batch again: a batch may not roll up what it writes (nats-server
    /// 10111).
    fn take_back(&mut self, held: &Held) {
        let is_it = |planned: &Planned| matches!(&planned.event, LogEvent::Held(it) if it == held);
        if let Some(index) = self.plans.events.iter().rposition(is_it) {
            let planned = self.plans.events.remove(index);
            self.bytes -= planned.body.len() + OVERHEAD_BYTES;
        }
    }

    /// Gives slots that waited for an instant, or for the end of a run or of the hold, their outcome, as far as there is
    /// room.
    pub(crate) fn release_held(&mut self) {
        let (base, horizon) = (self.base, self.now.horizon());
        for (_, id) in base.waiting.iter().take_while(|(at, _)| *at <= horizon) {
            if self.release_of(id, horizon) == Progress::Full {
                return;
            }
        }
    }

    fn is_untouched(&self, id: &JobId) -> bool {
        !(self.changed.contains(id) || self.held_changed.contains(id))
    }

    /// Does so for one job, oldest first.
    pub(crate) fn release_of(&mut self, id: &JobId, horizon: Timestamp) -> Progress {
        if self.settings.hold || !self.is_untouched(id) {
            return Progress::Done;
        }
        let waiting = self.held(id).into_iter().flat_map(|waiting| waiting.entries.values());
        let is_due = |held: &&Arc<Held>| match held.why {
            HeldReason::CatchUp | HeldReason::Backfill => false,
            HeldReason::Hold
            | HeldReason::Jitter
            | HeldReason::Shifted
            | HeldReason::Queued
            | HeldReason::CalendarMissing => held.due.is_none_or(|due| due <= horizon),
        };
        let mut entries: Vec<Arc<Held>> = waiting.filter(is_due).cloned().collect();
        entries.sort_by_key(|held| held.slot);
        for held in entries {
            if !self.has_room(4, 2 * room_of(&held.definition)) {
                return Progress::Full;
            }
            match (held.why, &held.range) {
                (HeldReason::Queued, _) if self.is_live(id) && !self.is_too_late(&held) => {}
                (HeldReason::CalendarMissing, _) => self.release_missed(&held),
                (_, Some(range)) => self.release_range(&held, range, horizon),
                (_, None) => self.release(&held),
            }
        }
        Progress::Done
    }

    /// Releases a slot whose calendar is back: one that is no slot by the days that it has now is missed.
    fn release_missed(&mut self, held: &Held) {
        let period = match &*held.definition.schedule {
            Schedule::Every(period) | Schedule::FixedDelay(period) => period.to_duration(),
            Schedule::Cron(_) | Schedule::At(_) => TICK,
        };
        let anchor = held.slot.minus(period);
        let plan = Plan::compile(&held.definition, &held.job, anchor, &self.base.calendars).ok();
        let plan = plan.filter(|plan| plan.missing_calendar().is_none());
        match plan.map(|plan| plan.next(held.slot.minus(TICK)) == Some(held.slot)) {
            Some(true) => self.release(held),
            Some(false) => self.give_up(held),
            None if self.is_given_up(held) => self.give_up(held),
            None => {}
        }
    }

    fn give_up(&mut self, held: &Held) {
        if self.has_room(2, 2 * SMALL_BYTES) {
            self.end_held(held, SkipReason::Misfire);
        }
    }

    /// Whether what waits for a calendar has waited for long enough, or the job's revision in force needs none that is
    /// gone: it may never come back.
    fn is_given_up(&self, held: &Held) -> bool {
        let misses = self.job(&held.job).is_some_and(Job::misses_calendar);
        !misses || self.is_too_late(held)
    }

    fn is_too_late(&self, held: &Held) -> bool {
        given_up_at(held).is_some_and(|at| at <= self.now.horizon())
    }

    fn release(&mut self, held: &Held) {
        self.end_entry(held);
        let (state, slot) = (held_state(held), held.slot);
        match self.in_the_way(held, held.due.unwrap_or(slot)) {
            Some(reason) => self.skip(&state, reason, Range { first: slot, last: slot, count: 1 }),
            None => self.fire_held(&state, held, slot),
        }
    }

    /// Why a slot that has waited does not fire.
    fn in_the_way(&self, held: &Held, due: Timestamp) -> Option<SkipReason> {
        if self.now.wall.since(due) > held.fire_within.to_duration() {
            return Some(SkipReason::Misfire);
        }
        let overlaps = held.definition.overlap == Overlap::Skip && self.is_live(&held.job);
        let is_delay = matches!(*held.definition.schedule, Schedule::FixedDelay(_));
        let runs = self.job(&held.job).is_some_and(|job| job.running > 0);
        if overlaps || is_delay && runs {
            return Some(SkipReason::Overlap);
        }
        self.backlog(&held.job, &held.definition.params)
    }

    fn fire_held(&mut self, state: &JobState, held: &Held, slot: Timestamp) {
        let fired = self.fired(state, &held.definition, Order::slot(slot));
        self.emit(LogEvent::Fired(fired));
    }

    fn release_range(&mut self, held: &Held, range: &HeldRange, horizon: Timestamp) {
        let Some(plan) = self.plan_of(held, range) else { return };
        let state = held_state(held);
        let mut next = Some(held.slot);
        let mut skipped: Option<(SkipReason, Range)> = None;
        let mut decided = false;
        while let Some(slot) = next.filter(|slot| slot.plus(plan.jitter()) <= horizon)
            && self.has_room(4, 2 * room_of(&held.definition))
        {
            let reason = self.in_the_way(held, slot.plus(plan.jitter()));
            match (&mut skipped, reason) {
                (Some((before, range)), Some(reason)) if *before == reason => {
                    *range = Range { last: slot, count: range.count + 1, ..*range };
                }
                (_, reason) => {
                    if let Some((before, range)) = skipped.take() {
                        self.skip(&state, before, range);
                    }
                    let one = Range { first: slot, last: slot, count: 1 };
                    skipped = reason.map(|reason| (reason, one));
                    if skipped.is_none() {
                        self.fire_held(&state, held, slot);
                    }
                }
            }
            decided = true;
            next = plan.next(slot).filter(|next| *next <= range.through);
        }
        if let Some((reason, range)) = skipped {
            self.skip(&state, reason, range);
        }
        if decided {
            self.go_on(held, range, &plan, next);
        }
    }

    /// Writes how far a range has come.
    fn go_on(&mut self, held: &Held, range: &HeldRange, plan: &Plan, next: Option<Timestamp>) {
        let Some(slot) = next else { return self.end_entry(held) };
        let left = plan.count(slot.minus(TICK), range.through);
        let range = HeldRange { left, ..range.clone() };
        let due = held.due.map(|_| slot.plus(plan.jitter()));
        self.hold(Held { slot, due, range: Some(range), ..held.clone() });
    }

    /// The plan of a range's revision; none while a calendar that it needs is gone. A range that waits in vain ends
    /// here, and so does one whose slots a calendar has moved: which of them were meant is not known any more.
    fn plan_of(&mut self, held: &Held, range: &HeldRange) -> Option<Plan> {
        let calendars = &self.base.calendars;
        let plan = Plan::compile(&held.definition, &held.job, range.anchor, calendars).ok();
        let plan = plan.filter(|plan| plan.missing_calendar().is_none());
        let before = held.slot.minus(TICK);
        let is_whole = |plan: &Plan| {
            let first = plan.next(before) == Some(held.slot);
            first && plan.count(before, range.through) == range.left
        };
        let over = plan.as_ref().map_or_else(|| self.is_given_up(held), |plan| !is_whole(plan));
        if over {
            self.give_up(held);
        }
        plan.filter(|_| !over)
    }

    /// Fires slots of catch-ups and backfills, as many as their pace and their jobs' runs allow.
    pub(crate) fn catch_up(&mut self) {
        let base = self.base;
        if self.settings.hold || base.paced_until(self.now.wall).is_some() {
            return;
        }
        let (horizon, mut left) = (self.now.horizon(), CATCH_UP_PER_TURN);
        for (_, id) in base.waiting.iter().take_while(|(at, _)| *at <= horizon) {
            if left == 0 {
                return;
            }
            if self.is_untouched(id) && !self.has_queued(id) {
                left -= self.catch_up_of(id, left);
            }
        }
    }

    fn catch_up_of(&mut self, id: &JobId, most: usize) -> usize {
        let waiting = self.held(id).into_iter().flat_map(|waiting| waiting.entries.values());
        let of_range = |held: &&Arc<Held>| match held.why {
            HeldReason::CatchUp | HeldReason::Backfill => true,
            HeldReason::Hold
            | HeldReason::Jitter
            | HeldReason::Shifted
            | HeldReason::Queued
            | HeldReason::CalendarMissing => false,
        };
        let mut ranges: Vec<Arc<Held>> = waiting.filter(of_range).cloned().collect();
        ranges.sort_by_key(|held| held.slot);
        let mut fired = 0;
        for held in &ranges {
            if let Some(range) = &held.range {
                fired += self.step(held, range, most - fired);
            }
        }
        fired
    }

    /// Fires the next slots of a range, at most `most`.
    fn step(&mut self, held: &Held, range: &HeldRange, most: usize) -> usize {
        let may_end = held.definition.calendars.is_some();
        if most == 0 || !(may_end || may_go_on(held, self.live(&held.job))) {
            return 0;
        }
        let Some(plan) = self.plan_of(held, range) else { return 0 };
        let state = held_state(held);
        let (mut next, mut fired) = (Some(held.slot), 0);
        while let Some(slot) = next
            && fired < most
            && may_go_on(held, self.live(&held.job))
            && self.backlog(&held.job, &held.definition.params).is_none()
            && self.has_room(2, 2 * room_of(&held.definition))
        {
            let cause = match range.command {
                Some(command) if is_backfill(held) => {
                    Cause::Backfill(BackfillCause { slot, command })
                }
                Some(_) | None => Cause::Slot(slot),
            };
            let order = Order { cause, scheduled_at: slot, params: None };
            let order = self.fired(&state, &held.definition, order);
            self.emit(LogEvent::Fired(order));
            fired += 1;
            next = plan.next(slot).filter(|next| *next <= range.through);
        }
        if fired > 0 {
            self.go_on(held, range, &plan, next);
        }
        fired
    }
}

/// Slots of one revision that are to wait together.
#[derive(Debug)]
pub(crate) struct Slots<'a> {
    pub(crate) plan: &'a Plan,
    /// Slots up to here are not among them.
    pub(crate) after: Timestamp,
    pub(crate) range: Range,
}

impl Slots<'_> {
    pub(crate) fn held(&self, state: &JobState, why: HeldReason, id: String) -> Option<Held> {
        let held = held(state, self.plan, self.range.first, why)?;
        let anchor = if self.plan.is_fixed_delay() { self.after } else { state.anchor };
        let range = HeldRange {
            id,
            through: self.range.last,
            left: self.range.count,
            command: None,
            anchor,
            after: self.after,
        };
        Some(Held { range: Some(range), ..held })
    }
}

/// One slot that is to wait.
pub(crate) fn held(
    state: &JobState,
    plan: &Plan,
    slot: Timestamp,
    why: HeldReason,
) -> Option<Held> {
    let definition = state.definition.as_ref()?;
    Some(Held {
        job: state.job.clone(),
        revision: state.revision,
        incarnation: state.incarnation,
        definition: definition.clone(),
        slot,
        why,
        fire_within: misfire::fire_within(plan, &definition.misfire, slot).into(),
        due: None,
        range: None,
    })
}

/// The state that a held slot keeps, whatever was defined since.
fn held_state(held: &Held) -> JobState {
    JobState {
        job: held.job.clone(),
        revision: held.revision,
        incarnation: held.incarnation,
        definition: Some(held.definition.clone()),
        anchor: Timestamp::MIN,
        effective_after: Timestamp::MIN,
        paused: None,
        overrides: Overrides::default(),
        tzdb: None,
        command: 0,
        at: Timestamp::MIN,
    }
}
