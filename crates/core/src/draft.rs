//! A batch while it is planned: copies of the jobs it touches, and the events so far.
//!
//! Invariant: a later decision of the same batch sees the earlier ones; the fold below stays as it was.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::BytesMut;
use cronstream_schemas::calendar::CalendarId;
use cronstream_schemas::definition::{JobDefinition, Overlap};
use cronstream_schemas::event::{
    Cause, Held, HeldReason, JobState, LogEvent, Position, SkipReason, Skipped, SkippedWhat,
};
use cronstream_schemas::id::{Epoch, RunId};
use cronstream_schemas::json::Json;
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::time::Timestamp;

use crate::behind::Changes;
use crate::calendar::Calendars;
use crate::held::{Key, Waiting, is_backfill, last_slot};
use crate::job::Job;
use crate::keys::{self, KeyHash};
use crate::live::Begun;
use crate::misfire::{self, Range};
use crate::overrides::{self, Stretch};
use crate::partition::Partition;
use crate::plan::Plan;
use crate::position;
use crate::release::{Slots, held};
use crate::tables::Tables;
use crate::turn::{BYTES_MAX, EVENTS_MAX, HistoryRead, Now, Planned, Reply, RunAppend, Settings};

/// What an event costs beside its body: subject, headers, framing.
pub(crate) const OVERHEAD_BYTES: usize = 600;
/// A batch that has so many events gets room for as many as it may have: it would grow there step by step, and so
/// would what is kept beside them.
const MANY_EVENTS: usize = 64;
/// The most bytes of an event that repeats neither a definition nor params.
pub(crate) const SMALL_BYTES: usize = 1024;

/// The planned batch, without its cursor.
#[derive(Debug)]
pub(crate) struct Plans {
    pub(crate) events: Vec<Planned>,
    pub(crate) replies: Vec<Reply>,
    pub(crate) appends: Vec<RunAppend>,
    /// What must be read before the command that waits can be answered.
    pub(crate) history: Option<HistoryRead>,
    pub(crate) commands_through: u64,
    pub(crate) applied: usize,
    pub(crate) wake_at: Option<Timestamp>,
    /// The command that waits until the log is read to its head.
    pub(crate) read_log: Option<u64>,
}

/// Why a run begins, and with what.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) cause: Cause,
    pub(crate) scheduled_at: Timestamp,
    /// In place of the job's own.
    pub(crate) params: Option<Json>,
}

impl Order {
    pub(crate) fn slot(slot: Timestamp) -> Self {
        Self { cause: Cause::Slot(slot), scheduled_at: slot, params: None }
    }
}

/// Whether a decision was made whole or must go on in the next batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Progress {
    Done,
    Full,
}

#[derive(Debug)]
pub(crate) struct Draft<'a> {
    pub(crate) base: &'a Partition,
    pub(crate) now: Now,
    pub(crate) settings: &'a Settings,
    pub(crate) epoch: Epoch,
    /// Jobs whose state changed in this batch: their subject is rolled up once at most.
    pub(crate) changed: HashSet<JobId>,
    pub(crate) plans: Plans,
    /// Jobs of which a message that waits was written or ended in this batch: it is left alone until the batch is
    /// stored, for a batch may not roll up what it writes (nats-server 10111).
    pub(crate) held_changed: HashSet<JobId>,
    pub(crate) held: HashMap<JobId, Waiting>,
    pub(crate) bytes: usize,
    /// Room for so many events without a definition is kept for what must be decided in this batch.
    pub(crate) reserved: usize,
    pub(crate) tables: Tables,
    pub(crate) begun: Begun,
    keys: HashMap<KeyHash, RunId>,
    /// Where bodies are written, one behind the other.
    pub(crate) room: BytesMut,
    /// All calendars, and those whose state changed in this batch; none while nothing did.
    pub(crate) calendars: Option<(Calendars, HashSet<CalendarId>)>,
    /// Which commands change which job, once it is asked.
    pub(crate) changes: Option<Changes>,
    /// Up to where the states that came into force in this batch have decided their slots.
    pub(crate) in_force_through: Timestamp,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(
        base: &'a Partition,
        (now, settings): (Now, &'a Settings),
        epoch: Epoch,
        tables: Tables,
    ) -> Self {
        Self {
            base,
            now,
            settings,
            epoch,
            changed: HashSet::new(),
            plans: Plans {
                events: Vec::new(),
                replies: Vec::new(),
                appends: Vec::new(),
                history: None,
                commands_through: base.commands_through(),
                applied: 0,
                wake_at: None,
                read_log: None,
            },
            held_changed: HashSet::new(),
            held: HashMap::new(),
            bytes: 0,
            reserved: 0,
            tables,
            begun: Begun::default(),
            keys: HashMap::new(),
            room: BytesMut::new(),
            calendars: None,
            changes: None,
            in_force_through: now.horizon(),
        }
    }

    /// What was planned, and the tables for the next draft.
    pub(crate) fn finish(self) -> (Plans, Tables) {
        (self.plans, self.tables.emptied())
    }

    pub(crate) fn known_key(&self, state: &JobState, key: &str) -> Option<RunId> {
        let hash = keys::hash(&state.job, state.incarnation, key);
        self.keys.get(&hash).copied().or_else(|| self.base.keys.get(hash))
    }

    /// The leader.
    pub(crate) fn node(&self) -> Option<Name> {
        self.base.cursor().map(|cursor| cursor.node.clone())
    }

    pub(crate) fn has_room(&self, events: usize, bytes: usize) -> bool {
        let events = events + self.reserved;
        let bytes = bytes + self.reserved * SMALL_BYTES;
        self.plans.events.len() + events <= EVENTS_MAX
            && self.bytes + bytes + events * OVERHEAD_BYTES <= BYTES_MAX
    }

    pub(crate) fn emit(&mut self, event: LogEvent) {
        match &event {
            LogEvent::JobDefined(state)
            | LogEvent::JobPaused(state)
            | LogEvent::JobResumed(state)
            | LogEvent::JobOverridden(state)
            | LogEvent::JobDeleted(state) => {
                let state = Arc::new(state.clone());
                let job = match self.job(&state.job) {
                    Some(job) => {
                        let mut job = job.clone();
                        job.apply_state(&state, &self.base.calendars);
                        job
                    }
                    None => Job::new(&state, &self.base.calendars),
                };
                self.tables.jobs.insert(state.job.clone(), job);
                self.changed.insert(state.job.clone());
            }
            LogEvent::Fired(fired) => {
                self.count_fired(fired);
                match &fired.cause {
                    Cause::Backfill(_) => {}
                    Cause::Slot(slot) => {
                        let starts = u32::from(fired.fire_no == 1);
                        self.with_job(&fired.job, |job| {
                            job.decide_through(*slot);
                            job.running += starts;
                        });
                    }
                    Cause::Trigger(trigger) => {
                        if let Some(key) = &trigger.key {
                            let hash = keys::hash(&fired.job, fired.incarnation, key);
                            self.keys.insert(hash, fired.run);
                        }
                    }
                }
            }
            LogEvent::Held(held) => {
                if !is_backfill(held) {
                    let through = last_slot(held);
                    self.with_job(&held.job, |job| job.decide_through(through));
                }
                let held = Arc::new(held.clone());
                self.held_mut(&held.job).entries.insert(Key::of(&held), Arc::clone(&held));
            }
            LogEvent::HeldEnded(ended) => {
                self.held_mut(&ended.job).entries.remove(&Key::ended(ended));
            }
            LogEvent::Skipped(skipped) => {
                if let (SkippedWhat::Slots { last, .. }, None) = (&skipped.what, skipped.backfill) {
                    let last = *last;
                    self.with_job(&skipped.job, |job| job.decide_through(last));
                }
            }
            LogEvent::CalendarDefined(state) | LogEvent::CalendarDeleted(state) => {
                let base = &self.base.calendars;
                let (calendars, changed) =
                    self.calendars.get_or_insert_with(|| (base.clone(), HashSet::new()));
                calendars.apply(&Arc::new(state.clone()));
                changed.insert(state.calendar.clone());
            }
            LogEvent::JobRevised(_)
            | LogEvent::CalendarRevised(_)
            | LogEvent::Rejected(_)
            | LogEvent::Cursor(_)
            | LogEvent::Meta(_) => {}
        }
        let planned = Planned::new(event, &mut self.room);
        self.push(planned);
    }

    fn push(&mut self, planned: Planned) {
        self.bytes += planned.body.len() + OVERHEAD_BYTES;
        self.plans.events.push(planned);
        if self.plans.events.len() == MANY_EVENTS {
            self.make_room();
        }
    }

    /// Fires every job that is due up to `through`, in the order of (due, job); returns how far it came.
    pub(crate) fn fire_due(&mut self, through: Timestamp) -> Position {
        let base = self.base;
        let mut position = base.position();
        if base.due.iter().nth(MANY_EVENTS).is_some_and(|(due, _)| due <= through) {
            self.make_room();
        }
        let one_by_one = self.goes_one_by_one(through);
        for (due, id) in base.due.iter() {
            if due > through {
                break;
            }
            if one_by_one && self.is_alone() {
                return position;
            }
            let decided = position::decided_through(&base.position(), id);
            let owes = self.job(id).and_then(|job| job.next_due(decided));
            // What waits of the job lies before what is due of it.
            if owes.is_some_and(|next| next <= through)
                && (self.release_of(id, through) == Progress::Full
                    || self.decide(id, Some(decided), through) == Progress::Full)
            {
                return position;
            }
            position = Position { due, job: Some(id.clone()) };
        }
        Position { due: through, job: None }
    }

    /// Decides every slot of `id` that is due up to `through`. What was due up to `decided` is somebody else's.
    pub(crate) fn decide(
        &mut self,
        id: &JobId,
        decided: Option<Timestamp>,
        through: Timestamp,
    ) -> Progress {
        let Some(job) = self.job(id) else { return Progress::Done };
        let state = Arc::clone(&job.state);
        if state.paused.is_some() {
            let plan = job.plan.clone();
            return plan.map_or(Progress::Done, |plan| self.skip_paused(&state, &plan, through));
        }
        let Some((plan, after)) = job.undecided(decided.unwrap_or(Timestamp::MIN)) else {
            return Progress::Done;
        };
        let Some(definition) = &state.definition else { return Progress::Done };
        let decided = decided.unwrap_or(Timestamp::MIN);
        let (plan, after) = self.beyond_records(definition, plan.into_owned(), after, decided);
        let Some(after) = self.skip_doubtful(&state, &plan, after) else { return Progress::Full };
        let slots = (after, through.minus(plan.jitter()).max(after));
        let misfire = misfire::in_effect(definition, &plan);
        let (overridden, last) = overrides::stretches(&state, &plan, slots, misfire, self.now.wall);
        for (before, it) in &overridden {
            if self.decide_stretch(&state, &plan, before) == Progress::Full
                || !self.has_room(4, room_of(definition))
            {
                return Progress::Full;
            }
            self.overridden(&state, &plan, it);
        }
        if self.decide_stretch(&state, &plan, &last) == Progress::Full {
            return Progress::Full;
        }
        self.decide_early(id, decided, through)
    }

    /// A fixed delay counts from the job's own records for as long as they are kept. Of an older slot that the
    /// position has passed nothing may be left, whatever still older ones say: it is decided.
    pub(crate) fn beyond_records(
        &self,
        definition: &JobDefinition,
        plan: Plan,
        after: Timestamp,
        decided: Timestamp,
    ) -> (Plan, Timestamp) {
        let passed = decided.minus(plan.jitter());
        let kept_for = definition.retention.to_duration();
        let is_gone = |first: Timestamp| first <= passed && self.now.wall.since(first) > kept_for;
        if plan.is_fixed_delay() && plan.next(after).is_some_and(is_gone) {
            return (plan, passed);
        }
        (plan, after)
    }

    /// Decides slots of which none is overridden.
    fn decide_stretch(
        &mut self,
        state: &Arc<JobState>,
        plan: &Plan,
        stretch: &Stretch,
    ) -> Progress {
        let Some(definition) = &state.definition else { return Progress::Done };
        let Stretch { after, through, misfire } = *stretch;
        let owed = misfire::owed(plan, &misfire, after, through, self.now.wall);
        let owed = if definition.overlap == Overlap::Skip { owed.in_a_row() } else { owed };
        if let Some(range) = owed.skipped {
            if !self.has_room(1, 1024) {
                return Progress::Full;
            }
            self.skip(state, SkipReason::Misfire, range);
        }
        if let Some(range) = owed.catch_up {
            if !self.has_room(4, room_of(definition)) {
                return Progress::Full;
            }
            self.hold_catch_up(state, &Slots { plan, after, range });
        }
        for slot in owed.due {
            if !self.has_room(5, room_of(definition)) {
                return Progress::Full;
            }
            self.due_slot(state, plan, slot, slot.plus(plan.jitter()));
        }
        Progress::Done
    }

    /// Decides the slots of a state that came into force in this batch and were due before it. They must not
    /// wait for another batch, so those that find no room are skipped.
    pub(crate) fn decide_at_once(&mut self, id: &JobId, command: u64) {
        let through = self.through_next_change(id, command);
        self.reserved = self.room_to_skip(id);
        let progress = self.decide(id, None, through);
        self.reserved = 0;
        if progress == Progress::Full {
            let Some(job) = self.job(id) else { return };
            let state = Arc::clone(&job.state);
            let Some((plan, after)) = job.undecided(Timestamp::MIN) else { return };
            let through = through.minus(plan.jitter());
            for (_, range) in overrides::ranges(&state.overrides, &plan, after, through) {
                self.skip(&state, SkipReason::Misfire, range);
            }
        }
    }

    /// How many events it takes at most to skip slots of a job, whatever of them was decided ahead.
    pub(crate) fn room_to_skip(&self, id: &JobId) -> usize {
        let overrides = self.job(id).map_or(&[][..], |job| &job.state.overrides);
        1 + overrides.iter().filter(|it| it.is_done()).count()
    }

    fn skip_paused(&mut self, state: &JobState, plan: &Plan, through: Timestamp) -> Progress {
        let after = self.job(&state.job).map_or(through, |job| job.decided_through);
        let ranges = overrides::ranges(&state.overrides, plan, after, through);
        if !self.has_room(ranges.len(), ranges.len() * SMALL_BYTES) {
            return Progress::Full;
        }
        for (_, range) in ranges {
            self.skip(state, SkipReason::Paused, range);
        }
        Progress::Done
    }

    pub(crate) fn skip(&mut self, state: &JobState, reason: SkipReason, range: Range) {
        self.skip_of(state, reason, range, None);
    }

    pub(crate) fn skip_of(
        &mut self,
        state: &JobState,
        reason: SkipReason,
        range: Range,
        backfill: Option<u64>,
    ) {
        let Range { first, last, count } = range;
        self.emit(LogEvent::Skipped(Skipped {
            job: state.job.clone(),
            revision: state.revision,
            incarnation: state.incarnation,
            reason,
            what: SkippedWhat::Slots { first, last, count },
            at: self.now.wall,
            epoch: Some(self.epoch),
            node: self.node(),
            backfill,
        }));
    }

    pub(crate) fn due_slot(
        &mut self,
        state: &JobState,
        plan: &Plan,
        slot: Timestamp,
        due: Timestamp,
    ) {
        let Some(definition) = &state.definition else { return };
        let waits = |why| {
            let due = Some(due).filter(|due| *due != slot);
            held(state, plan, slot, why).map(|held| Held { due, ..held })
        };
        if let Some(why) = self.waits_for(plan) {
            if let Some(held) = waits(why) {
                self.hold_latest(held);
            }
            return;
        }
        let live = self.live(&state.job);
        // Of several late slots of a fixed delay the first one's run moves all the others.
        let runs = self.job(&state.job).is_some_and(|job| job.running > 0);
        let busy = definition.overlap == Overlap::Skip && live.all > 0;
        let one = Range { first: slot, last: slot, count: 1 };
        if !(busy || plan.is_fixed_delay() && runs) {
            match self.backlog(&state.job, &definition.params) {
                Some(reason) => self.skip(state, reason, one),
                None => {
                    let fired = self.fired(state, definition, Order::slot(slot));
                    self.emit(LogEvent::Fired(fired));
                }
            }
        } else if live.all == live.of_range && !self.has_queued(&state.job) {
            if let Some(held) = waits(HeldReason::Queued) {
                self.hold(held);
            }
        } else {
            self.skip(state, SkipReason::Overlap, one);
        }
    }
}

/// Room for an event that repeats a definition and one that repeats its params.
pub(crate) fn room_of(definition: &JobDefinition) -> usize {
    2 * definition.params.as_str().len() + 8 * 1024
}
