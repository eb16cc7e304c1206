//! A batch while it is planned: copies of the jobs it touches, and the events so far.
//!
//! Invariant: a later decision of the same batch sees the earlier ones; the fold below stays as it was.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cronstream_schemas::definition::{JobDefinition, Overlap};
use cronstream_schemas::event::JobState;
use cronstream_schemas::event::{
    Cause, Fired, Held, HeldEnded, HeldReason, LogEvent, Position, SkipReason, Skipped, SkippedWhat,
};
use cronstream_schemas::id::{Epoch, RunId, RunSeed};
use cronstream_schemas::json::Json;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use crate::definition::lifetime;
use crate::job::Job;
use crate::keys::{self, KeyHash};
use crate::misfire::{self, Range};
use crate::partition::Partition;
use crate::plan::Plan;
use crate::position;
use crate::retry;
use crate::shard::Due;
use crate::turn::{BYTES_MAX, EVENTS_MAX, Now, Planned, Reply, RunAppend, Settings};

/// What an event costs beside its body: subject, headers, framing.
const OVERHEAD_BYTES: usize = 600;

/// The planned batch, without its cursor.
#[derive(Debug)]
pub(crate) struct Plans {
    pub(crate) events: Vec<Planned>,
    pub(crate) replies: Vec<Reply>,
    pub(crate) appends: Vec<RunAppend>,
    pub(crate) commands_through: u64,
    pub(crate) applied: usize,
    pub(crate) wake_at: Option<Timestamp>,
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
    fn slot(slot: Timestamp) -> Self {
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
    jobs: HashMap<JobId, Job>,
    fired: HashMap<JobId, usize>,
    held: HashMap<JobId, Option<Arc<Held>>>,
    keys: HashMap<KeyHash, RunId>,
    bytes: usize,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(base: &'a Partition, now: Now, settings: &'a Settings, epoch: Epoch) -> Self {
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
                commands_through: base.commands_through(),
                applied: 0,
                wake_at: None,
            },
            jobs: HashMap::new(),
            fired: HashMap::new(),
            held: HashMap::new(),
            keys: HashMap::new(),
            bytes: 0,
        }
    }

    pub(crate) fn finish(self) -> Plans {
        self.plans
    }

    pub(crate) fn job(&self, id: &JobId) -> Option<&Job> {
        self.jobs.get(id).or_else(|| self.base.jobs.get(id))
    }

    pub(crate) fn held(&self, id: &JobId) -> Option<Arc<Held>> {
        match self.held.get(id) {
            Some(held) => held.clone(),
            None => self.base.held.get(id).cloned(),
        }
    }

    pub(crate) fn known_key(&self, state: &JobState, key: &str) -> Option<RunId> {
        let hash = keys::hash(&state.job, state.incarnation, key);
        self.keys.get(&hash).copied().or_else(|| self.base.keys.get(hash))
    }

    pub(crate) fn is_live(&self, id: &JobId) -> bool {
        self.fired.contains_key(id) || self.base.live.contains_key(id)
    }

    pub(crate) fn has_room(&self, events: usize, bytes: usize) -> bool {
        self.plans.events.len() + events <= EVENTS_MAX
            && self.bytes + bytes + events * OVERHEAD_BYTES <= BYTES_MAX
    }

    pub(crate) fn emit(&mut self, event: LogEvent) {
        match &event {
            LogEvent::JobDefined(state)
            | LogEvent::JobPaused(state)
            | LogEvent::JobResumed(state)
            | LogEvent::JobDeleted(state) => {
                let state = Arc::new(state.clone());
                let job = match self.job(&state.job) {
                    Some(job) => {
                        let mut job = job.clone();
                        job.apply_state(&state);
                        job
                    }
                    None => Job::new(&state),
                };
                self.jobs.insert(state.job.clone(), job);
                self.changed.insert(state.job.clone());
            }
            LogEvent::Fired(fired) => {
                *self.fired.entry(fired.job.clone()).or_default() += 1;
                match &fired.cause {
                    Cause::Slot(slot) => self.decide_through(&fired.job, *slot),
                    Cause::Trigger(trigger) => {
                        if let Some(key) = &trigger.key {
                            let hash = keys::hash(&fired.job, fired.incarnation, key);
                            self.keys.insert(hash, fired.run);
                        }
                    }
                }
            }
            LogEvent::Held(held) => {
                self.decide_through(&held.job, held.slot);
                self.held.insert(held.job.clone(), Some(Arc::new(held.clone())));
            }
            LogEvent::HeldEnded(ended) => {
                self.held.insert(ended.job.clone(), None);
            }
            LogEvent::Skipped(skipped) => {
                if let SkippedWhat::Slots { last, .. } = &skipped.what {
                    self.decide_through(&skipped.job, *last);
                }
            }
            LogEvent::JobRevised(_)
            | LogEvent::Rejected(_)
            | LogEvent::Cursor(_)
            | LogEvent::Meta(_) => {}
        }
        let planned = Planned::new(event);
        self.bytes += planned.body.len() + OVERHEAD_BYTES;
        self.plans.events.push(planned);
    }

    fn decide_through(&mut self, id: &JobId, through: Timestamp) {
        if let Some(mut job) = self.job(id).cloned() {
            job.decide_through(through);
            self.jobs.insert(id.clone(), job);
        }
    }

    /// Fires every job that is due up to the horizon, in the order of (due, job); returns how far it came.
    pub(crate) fn fire_due(&mut self) -> Position {
        let horizon = self.now.horizon();
        let base = self.base;
        let mut position = base.position();
        for (due, id) in &base.due {
            if *due > horizon {
                break;
            }
            let decided = position::decided_through(&base.position(), id);
            let owes = self.job(id).and_then(|job| job.next_due(decided));
            if owes.is_some_and(|next| next <= horizon)
                && self.decide(id, Some(decided), horizon) == Progress::Full
            {
                return position;
            }
            position = Position { due: *due, job: Some(id.clone()) };
        }
        Position { due: horizon, job: None }
    }

    /// Decides every slot of `id` up to `through`. Slots at or before `decided` are somebody else's.
    pub(crate) fn decide(
        &mut self,
        id: &JobId,
        decided: Option<Timestamp>,
        through: Timestamp,
    ) -> Progress {
        let Some((state, plan, after)) = self.owing(id) else { return Progress::Done };
        let after = decided.map_or(after, |decided| decided.max(after));
        if state.paused.is_some() {
            return self.skip_paused(&state, &plan, through);
        }
        let Some(definition) = &state.definition else { return Progress::Done };
        let owed = misfire::owed(&plan, after, through, self.now.wall);
        if let Some(range) = owed.skipped {
            if !self.has_room(1, 1024) {
                return Progress::Full;
            }
            self.skip(&state, SkipReason::Misfire, range);
        }
        for slot in owed.due {
            if !self.has_room(3, 2 * definition.params.as_str().len() + 8 * 1024) {
                return Progress::Full;
            }
            self.due_slot(&state, &plan, slot);
        }
        Progress::Done
    }

    /// Decides the slots of a state that came into force in this batch and were due before it. They must not
    /// wait for another batch, so those that find no room are skipped.
    pub(crate) fn decide_at_once(&mut self, id: &JobId) {
        let horizon = self.now.horizon();
        if self.decide(id, None, horizon) == Progress::Full {
            let Some((state, plan, after)) = self.owing(id) else { return };
            if let Some(range) = misfire::range(&plan, after, horizon) {
                self.skip(&state, SkipReason::Misfire, range);
            }
        }
    }

    fn owing(&self, id: &JobId) -> Option<(Arc<JobState>, Plan, Timestamp)> {
        let job = self.job(id)?;
        Some((Arc::clone(&job.state), job.plan?, job.decided_through))
    }

    fn skip_paused(&mut self, state: &JobState, plan: &Plan, through: Timestamp) -> Progress {
        let after = self.job(&state.job).map_or(through, |job| job.decided_through);
        if !self.has_room(1, 1024) {
            return Progress::Full;
        }
        if let Some(range) = misfire::range(plan, after, through) {
            self.skip(state, SkipReason::Paused, range);
        }
        Progress::Done
    }

    fn skip(&mut self, state: &JobState, reason: SkipReason, range: Range) {
        let Range { first, last, count } = range;
        self.emit(LogEvent::Skipped(Skipped {
            job: state.job.clone(),
            revision: state.revision,
            incarnation: state.incarnation,
            reason,
            what: SkippedWhat::Slots { first, last, count },
            at: self.now.wall,
        }));
    }

    fn due_slot(&mut self, state: &JobState, plan: &Plan, slot: Timestamp) {
        let Some(definition) = &state.definition else { return };
        if self.settings.hold {
            self.end_held(&state.job, SkipReason::Misfire);
            self.emit(LogEvent::Held(Held {
                job: state.job.clone(),
                revision: state.revision,
                incarnation: state.incarnation,
                definition: definition.clone(),
                slot,
                why: HeldReason::Hold,
                fire_within: misfire::fire_within(plan, slot).into(),
            }));
        } else if definition.overlap == Overlap::Skip && self.is_live(&state.job) {
            self.skip(state, SkipReason::Overlap, Range { first: slot, last: slot, count: 1 });
        } else {
            let fired = self.fired(state, definition, Order::slot(slot));
            self.emit(LogEvent::Fired(fired));
        }
    }

    /// Gives a held slot its outcome: skipped for `reason`.
    pub(crate) fn end_held(&mut self, id: &JobId, reason: SkipReason) {
        let Some(held) = self.held(id) else { return };
        let slot = held.slot;
        if self.take_back(&held) {
            self.held.insert(id.clone(), None);
        } else {
            self.emit(LogEvent::HeldEnded(HeldEnded { job: id.clone(), slot }));
        }
        let state = held_state(&held);
        self.skip(&state, reason, Range { first: slot, last: slot, count: 1 });
    }

    /// Takes a held slot of this very batch out of it again: a batch may not roll up what it writes (nats-server
    /// 10111).
    fn take_back(&mut self, held: &Held) -> bool {
        let is_it = |planned: &Planned| matches!(&planned.event, LogEvent::Held(it) if it == held);
        let Some(index) = self.plans.events.iter().rposition(is_it) else { return false };
        let planned = self.plans.events.remove(index);
        self.bytes -= planned.body.len() + OVERHEAD_BYTES;
        true
    }

    /// Gives every held slot its outcome, once nothing holds it.
    pub(crate) fn release_held(&mut self) {
        if self.settings.hold {
            return;
        }
        for (id, held) in &self.base.held {
            let bytes = 2 * held.definition.params.as_str().len() + 8 * 1024;
            if !self.has_room(2, bytes) || self.changed.contains(id) {
                continue;
            }
            let late = self.now.wall.since(held.slot) > held.fire_within.to_duration();
            let busy = held.definition.overlap == Overlap::Skip && self.is_live(id);
            if late || busy {
                let reason = if late { SkipReason::Misfire } else { SkipReason::Overlap };
                self.end_held(id, reason);
                continue;
            }
            let state = held_state(held);
            self.emit(LogEvent::HeldEnded(HeldEnded { job: id.clone(), slot: held.slot }));
            let fired = self.fired(&state, &held.definition, Order::slot(held.slot));
            self.emit(LogEvent::Fired(fired));
        }
    }

    /// Fires every shard whose back-off has passed.
    pub(crate) fn retry(&mut self) {
        if self.settings.hold {
            return;
        }
        let base = self.base;
        for (at, id) in &base.timers {
            if *at > self.now.horizon() {
                break;
            }
            let Some(shard) = base.shards.get(id).filter(|_| !base.ending.contains(id)) else {
                continue;
            };
            let (_, Due::Retry) = shard.timer() else { continue };
            if !self.has_room(1, shard.fired.params.as_str().len() + 4 * 1024) {
                break;
            }
            let mut fired = Fired::clone(&shard.fired);
            fired.fire_no += 1;
            fired.fired_at = self.now.wall;
            fired.epoch = self.epoch;
            fired.traceparent = traceparent(&fired, shard.fired.is_traced());
            self.emit(LogEvent::Fired(fired));
        }
    }

    /// The first fire of a run.
    pub(crate) fn fired(
        &self,
        state: &JobState,
        definition: &JobDefinition,
        order: Order,
    ) -> Fired {
        let Order { cause, scheduled_at, params } = order;
        let seed = match &cause {
            Cause::Slot(slot) => RunSeed::Slot(*slot),
            Cause::Trigger(trigger) => match &trigger.key {
                Some(key) => RunSeed::Trigger(key),
                None => RunSeed::Command(trigger.command),
            },
        };
        let run = RunId::derive(scheduled_at, &state.job, state.incarnation, seed);
        let now = self.now.wall;
        let run_by = now.plus(lifetime(definition));
        let mut fired = Fired {
            job: state.job.clone(),
            revision: state.revision,
            incarnation: state.incarnation,
            run,
            shard: 0,
            shards: 1,
            fire_no: 1,
            cause,
            scheduled_at,
            fired_at: now,
            queue: definition.queue.clone(),
            task: definition.task.clone(),
            params: params.unwrap_or_else(|| definition.params.clone()),
            timeout: definition.timeout,
            start_by: now.plus(definition.start_within.to_duration()),
            run_by,
            keep_until: run_by.plus(definition.retention.to_duration()),
            retry: retry::policy(definition.max_attempts),
            epoch: self.epoch,
            traceparent: String::new(),
        };
        fired.traceparent = traceparent(&fired, self.settings.trace_ratio.samples(run));
        fired
    }
}

/// The place of a fire's span; whether a run is traced is decided by its first fire.
fn traceparent(fired: &Fired, traced: bool) -> String {
    fired.run.trace_context(&fired.span_name(), traced).to_string()
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
        command: 0,
        at: Timestamp::MIN,
    }
}
