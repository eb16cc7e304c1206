//! The guarantees of `design.md` §6, checked on every message that is stored.
//!
//! Invariant: nothing here asks the core; slots are counted again by `slots.rs`, from the definitions alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cronstream_core::live::Bounds;
use cronstream_schemas::definition::Overlap;
use cronstream_schemas::duration::Span;
use cronstream_schemas::event::{
    Cause, Cursor, Fired, Held, HeldReason, JobState, LogEvent, RunEvent, SkipReason, Skipped,
    SkippedWhat, TriggerCause,
};
use cronstream_schemas::id::{Incarnation, Instance, Revision, RunId, ShardId};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use crate::run_order::fault;
use crate::slots::{between, fixed_delay, is_slot, jitter};
use crate::store::{LogMessage, RunMessage};
use crate::world::MAX_CLOCK_ERROR;

/// What is known of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobHistory {
    pub(crate) states: Vec<Arc<JobState>>,
    /// Slots that have their outcome.
    pub(crate) decided: BTreeSet<(Incarnation, Timestamp)>,
    /// Slots that are, or were, held.
    pub(crate) held: BTreeSet<(Incarnation, Timestamp)>,
    /// Slots that are to run again, by the command that asked for it.
    pub(crate) asked: BTreeSet<(u64, Timestamp)>,
    /// Those of them that have their outcome.
    pub(crate) answered: BTreeSet<(u64, Timestamp)>,
    /// The slots that wait in each range.
    ranges: BTreeMap<String, Vec<Timestamp>>,
    last_decided: Timestamp,
}

/// What is known of a shard.
#[derive(Debug, Clone)]
pub(crate) struct ShardHistory {
    pub(crate) fired: Arc<Fired>,
    pub(crate) fires: u32,
    /// Its run events so far.
    pub(crate) last: Option<(u64, Timestamp, RunEvent)>,
    pub(crate) ended: bool,
    pub(crate) failed: bool,
    /// From when each failed fire may be fired again.
    retry_from: BTreeMap<u32, Timestamp>,
}

impl JobHistory {
    /// A slot that was decided ahead says nothing of those before it.
    fn decide_through(&mut self, slot: Timestamp) {
        if !self.states.last().is_some_and(|state| is_done(state, slot)) {
            self.last_decided = self.last_decided.max(slot);
        }
    }
}

fn is_done(state: &JobState, slot: Timestamp) -> bool {
    state.overrides.iter().any(|it| it.is_done() && it.slot == slot)
}

/// The checker.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checker {
    pub(crate) jobs: BTreeMap<JobId, Arc<JobHistory>>,
    pub(crate) shards: BTreeMap<ShardId, Arc<ShardHistory>>,
    pub(crate) effects: BTreeSet<u64>,
    pub(crate) cursor: Option<Arc<Cursor>>,
    bounds: Bounds,
    keys: BTreeSet<(JobId, Incarnation, String)>,
    tokens: BTreeMap<u64, Instance>,
    newest: Option<ShardId>,
    broken: Option<String>,
}

impl Checker {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// Whether everything stored so far keeps the guarantees.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn newest_run(&self) -> Option<(JobId, RunId)> {
        let shard = self.newest?;
        Some((self.shards.get(&shard)?.fired.job.clone(), shard.run))
    }

    fn must(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds && self.broken.is_none() {
            self.broken = Some(otherwise());
        }
    }

    /// A task begins to run under a fencing token.
    pub(crate) fn begin(&mut self, token: u64, shard: ShardId, instance: Instance) {
        let before = self.tokens.insert(token, instance);
        self.must(before.is_none(), || format!("token {token} of {shard} was used twice"));
    }

    /// A message is stored in CRON_LOG.
    pub(crate) fn log(&mut self, message: &LogMessage) {
        let at = message.at;
        match &message.event {
            LogEvent::JobDefined(state)
            | LogEvent::JobPaused(state)
            | LogEvent::JobResumed(state)
            | LogEvent::JobDeleted(state) => {
                let resumed = matches!(message.event, LogEvent::JobResumed(_));
                self.state(state, resumed);
            }
            LogEvent::JobOverridden(state) => self.overridden(state),
            LogEvent::Fired(fired) if fired.fire_no == 1 => self.first_fire(at, fired),
            LogEvent::Fired(fired) => self.retry(at, fired),
            LogEvent::Held(held) => self.held(held),
            LogEvent::HeldEnded(ended) => {
                let job = Arc::make_mut(self.jobs.entry(ended.job.clone()).or_default());
                ended.range.as_ref().map(|range| job.ranges.remove(range));
            }
            LogEvent::Skipped(skipped) => self.skipped(at, skipped),
            LogEvent::Rejected(rejected) => self.effect(rejected.command),
            LogEvent::Cursor(cursor) => self.cursor(at, cursor),
            LogEvent::JobRevised(_)
            | LogEvent::CalendarDefined(_)
            | LogEvent::CalendarDeleted(_)
            | LogEvent::CalendarRevised(_)
            | LogEvent::Meta(_) => {}
        }
    }

    /// A slot waits, or many of one revision: what has left a range has its outcome.
    fn held(&mut self, held: &Held) {
        let job = Arc::make_mut(self.jobs.entry(held.job.clone()).or_default());
        let state = job.states.iter().rfind(|state| state.revision == held.revision).cloned();
        let (slots, told) = match (&held.range, &state) {
            (Some(range), Some(state)) => (between(state, held.slot, range.through), range.left),
            (Some(_), None) | (None, _) => (vec![held.slot], 1),
        };
        let mut wrong = Vec::new();
        if slots.len() as u64 != told || slots.first() != Some(&held.slot) {
            wrong.push(format!("{} slots, not {told}", slots.len()));
        }
        let command = held.range.as_ref().and_then(|range| range.command);
        let before = held.range.as_ref().map(|it| job.ranges.insert(it.id.clone(), slots.clone()));
        match (before.flatten(), command) {
            (Some(before), _) => {
                let gone = before.iter().filter(|slot| !slots.contains(slot));
                let has_outcome = |slot: &&Timestamp| match command {
                    Some(command) => job.answered.contains(&(command, **slot)),
                    None => job.decided.contains(&(held.incarnation, **slot)),
                };
                if let Some(lost) = gone.clone().find(|slot| !has_outcome(slot)) {
                    wrong.push(format!("slot {lost} left its range without an outcome"));
                }
                if slots.iter().any(|slot| !before.contains(slot)) {
                    wrong.push("a range has grown".to_owned());
                }
            }
            (None, Some(command)) => {
                let fresh = slots.iter().all(|slot| job.asked.insert((command, *slot)));
                wrong.extend((!fresh).then(|| format!("backfill {command} asks twice")));
            }
            (None, None) => {
                for slot in slots.iter().map(|slot| (held.incarnation, *slot)) {
                    // A slot whose wait for an instant is over may wait for a run to end.
                    let again = held.why == HeldReason::Queued;
                    if job.decided.contains(&slot) || !(job.held.insert(slot) || again) {
                        wrong.push(format!("slot {} held twice", slot.1));
                    }
                }
                job.decide_through(slots.last().copied().unwrap_or(held.slot));
            }
        }
        let id = &held.job;
        self.must(wrong.is_empty(), || format!("{id}: {wrong:?}"));
    }

    /// A slot that runs again, or does not.
    fn answer(&mut self, id: &JobId, command: u64, slots: impl IntoIterator<Item = Timestamp>) {
        let job = Arc::make_mut(self.jobs.entry(id.clone()).or_default());
        let wrong = slots
            .into_iter()
            .map(|slot| (command, slot))
            .find(|slot| !(job.asked.contains(slot) && job.answered.insert(*slot)));
        self.must(wrong.is_none(), || format!("{id}: {wrong:?} not asked for, or twice"));
    }

    fn effect(&mut self, command: u64) {
        let fresh = self.effects.insert(command);
        self.must(fresh, || format!("command {command} took effect twice"));
    }

    fn state(&mut self, state: &JobState, resumed: bool) {
        self.effect(state.command);
        let job = Arc::make_mut(self.jobs.entry(state.job.clone()).or_default());
        let before = job.states.last();
        // A new life begins at its command, whatever became of a former one.
        let begins = before.is_none_or(|before| before.incarnation != state.incarnation);
        if begins {
            job.last_decided = Timestamp::MIN;
        }
        let same_life = before.filter(|_| !begins);
        let floor = same_life.map_or(Timestamp::MIN, |before| before.effective_after);
        let newer = before.is_none_or(|before| before.command < state.command);
        let most = floor.max(job.last_decided).max(if resumed { floor } else { state.at });
        // Of a fixed delay whose records have vanished nothing but the position tells what was decided.
        let delays = before.is_some_and(|before| fixed_delay(before).is_some());
        let cursor = self.cursor.as_ref().filter(|_| delays);
        let most = most.max(cursor.map_or(Timestamp::MIN, |cursor| cursor.position.due));
        let least = job.last_decided.max(if resumed { floor } else { state.at });
        let after = state.effective_after;
        // The position may have passed a slot that had fired ahead of its instant: nothing is owed up to it.
        let ahead =
            before.filter(|before| !begins && is_done(before, after)).is_some_and(|before| {
                let mut owed = between(before, most.plus(Duration::from_millis(1)), after);
                owed.retain(|slot| !is_done(before, *slot));
                owed.is_empty()
            });
        let right = (least..=most).contains(&after) || (ahead && after >= least);
        job.states.push(Arc::new(state.clone()));
        self.must(newer, || format!("{}: command {} came late", state.job, state.command));
        self.must(right, || {
            format!("{}: effective after {after}, not in {least}..={most}", state.job)
        });
    }

    /// A command has overridden a slot, or one that it shifted is decided ahead of its instant: then the slot is the
    /// next one, and the state says that it is decided.
    fn overridden(&mut self, state: &JobState) {
        let job = Arc::make_mut(self.jobs.entry(state.job.clone()).or_default());
        let Some(before) = job.states.last().cloned() else {
            return self.must(false, || format!("{}: overridden before it was defined", state.job));
        };
        let moved = before.command == state.command;
        let after = state.effective_after;
        let decided = job.last_decided.max(before.effective_after);
        let mut owed = between(&before, decided.plus(Duration::from_millis(1)), after);
        owed.retain(|slot| !is_done(&before, *slot));
        let shifted = before.overrides.iter().any(|it| it.slot == after && it.to.is_some());
        let delays = fixed_delay(&before).is_some();
        // Of a fixed delay whose records have vanished nothing but the position tells what was decided.
        // What the batch decides before it may be told of behind it.
        let most = decided.max(state.at);
        // The position may have passed a slot that had fired ahead of its instant: nothing is owed up to it.
        let ahead = is_done(&before, after) && owed.is_empty();
        let right =
            if moved { owed == [after] && shifted } else { after <= most || delays || ahead };
        let same = (before.revision, before.paused) == (state.revision, state.paused);
        job.states.push(Arc::new(state.clone()));
        if !moved {
            self.effect(state.command);
        }
        self.must(right && same && before.command <= state.command, || {
            format!("{}: {state:?} after {before:?}, decided through {decided}", state.job)
        });
    }

    fn first_fire(&mut self, at: Timestamp, fired: &Fired) {
        match &fired.cause {
            Cause::Slot(slot) => {
                self.must(fired.scheduled_at == *slot, || format!("{fired:?}"));
                let whose = (&fired.job, fired.revision, fired.incarnation);
                self.decide((at, true), whose, (*slot, *slot), 1);
            }
            Cause::Trigger(cause) => self.trigger(&fired.job, fired.incarnation, cause, true),
            Cause::Backfill(it) => self.answer(&fired.job, it.command, [it.slot]),
        }
        if let Cause::Slot(slot) = fired.cause {
            self.after_the_run_before(at, fired, slot);
        }
        let id = fired.shard_id();
        let overlap = self.jobs.get(&fired.job).and_then(|job| {
            let state = job.states.iter().rfind(|state| state.revision == fired.revision)?;
            Some(state.definition.as_ref()?.overlap)
        });
        if overlap == Some(Overlap::Skip) {
            let beside = self.shards.values().find(|other| {
                other.fired.job == fired.job
                    && !other.ended
                    && other.fired.keep_until > at.plus(MAX_CLOCK_ERROR)
            });
            let beside = beside.map(|other| other.fired.id());
            self.must(beside.is_none(), || format!("{} fired beside {beside:?}", fired.id()));
        }
        self.within_bounds(at, fired);
        let history = ShardHistory {
            fired: Arc::new(fired.clone()),
            fires: 1,
            last: None,
            ended: false,
            failed: false,
            retry_from: BTreeMap::new(),
        };
        let fresh = self.shards.insert(id, Arc::new(history)).is_none();
        self.newest = Some(id);
        self.must(fresh, || format!("{} fired twice", fired.id()));
    }

    /// A leader begins no run beyond the bounds: it knows of every run that is live, and of some that no longer are.
    fn within_bounds(&mut self, at: Timestamp, fired: &Fired) {
        let live = self
            .shards
            .values()
            .filter(|shard| !shard.ended && shard.fired.keep_until > at.plus(MAX_CLOCK_ERROR));
        let (mut all, mut of_job) = (0, 0);
        for shard in live {
            all += 1;
            of_job += u32::from(shard.fired.job == fired.job);
        }
        let Bounds { of_job: most, of_partition, .. } = self.bounds;
        let within = of_job < most && (of_job == 0 || all < of_partition);
        self.must(within, || format!("{} beside {of_job} of its job, {all} in all", fired.id()));
    }

    /// A slot of a fixed delay lies that long behind the end of every run of a slot before it.
    fn after_the_run_before(&mut self, at: Timestamp, fired: &Fired, slot: Timestamp) {
        let Some(job) = self.jobs.get(&fired.job) else { return };
        let state = job.states.iter().rfind(|state| state.revision == fired.revision);
        let Some(delay) = state.and_then(|state| fixed_delay(state)) else { return };
        let runs = self.shards.values().filter(|shard| {
            let of_slot = matches!(shard.fired.cause, Cause::Slot(_));
            let kept = shard.fired.keep_until > at.plus(MAX_CLOCK_ERROR);
            shard.fired.job == fired.job && of_slot && kept
        });
        let ended = |shard: &ShardHistory| match &shard.last {
            Some((_, at, _)) if shard.ended => Some(*at),
            Some(_) | None => None,
        };
        let is_held = job.held.contains(&(fired.incarnation, slot));
        let early = runs
            .filter(|shard| !is_held || !shard.ended)
            .find(|shard| ended(shard).is_none_or(|ended| slot < ended.plus(delay)));
        let early = early.map(|shard| (shard.fired.id(), ended(shard)));
        self.must(early.is_none(), || format!("{} at {slot}, but {early:?}", fired.job));
    }

    fn retry(&mut self, at: Timestamp, fired: &Fired) {
        let Some(shard) = self.shards.get_mut(&fired.shard_id()).map(Arc::make_mut) else {
            self.must(false, || format!("{} without a first fire", fired.id()));
            return;
        };
        let next = fired.fire_no == shard.fires + 1;
        shard.fires = shard.fires.max(fired.fire_no);
        let from = shard.retry_from.get(&(fired.fire_no - 1)).copied();
        let waited = from.is_some_and(|from| at.plus(MAX_CLOCK_ERROR) >= from);
        self.must(next, || format!("{} fired out of its turn", fired.id()));
        self.must(waited, || format!("{} fired at {at}, not after {from:?}", fired.id()));
    }

    fn trigger(&mut self, job: &JobId, life: Incarnation, cause: &TriggerCause, fires: bool) {
        self.effect(cause.command);
        if let (true, Some(key)) = (fires, cause.key.clone()) {
            let fresh = self.keys.insert((job.clone(), life, key.clone()));
            self.must(fresh, || format!("key {key} of {job} fired twice"));
        }
    }

    fn skipped(&mut self, at: Timestamp, skipped: &Skipped) {
        match &skipped.what {
            SkippedWhat::Trigger(cause) => {
                self.trigger(&skipped.job, skipped.incarnation, cause, false);
            }
            SkippedWhat::Slots { first, last, count: told } => match skipped.backfill {
                None => {
                    let whose = (&skipped.job, skipped.revision, skipped.incarnation);
                    let waits = matches!(
                        skipped.reason,
                        // A new revision ends what was asked of slots whose jitter has not passed.
                        SkipReason::Paused | SkipReason::Deleted | SkipReason::Requested
                    );
                    if skipped.reason == SkipReason::Misfire {
                        self.forget_vanished(at, skipped);
                    }
                    self.decide((at, !waits), whose, (*first, *last), *told);
                }
                Some(command) => {
                    let job = self.jobs.get(&skipped.job);
                    let state = job.and_then(|job| {
                        job.states.iter().rfind(|state| state.revision == skipped.revision).cloned()
                    });
                    let slots = state.map(|state| between(&state, *first, *last));
                    let slots = slots.unwrap_or_default();
                    // It was asked for and ended in one batch.
                    let job = Arc::make_mut(self.jobs.entry(skipped.job.clone()).or_default());
                    job.asked.extend(slots.iter().map(|slot| (command, *slot)));
                    self.answer(&skipped.job, command, slots);
                }
            },
        }
    }

    fn decide(
        &mut self,
        (at, has_waited): (Timestamp, bool),
        (id, revision, life): (&JobId, Revision, Incarnation),
        (first, last): (Timestamp, Timestamp),
        told: u64,
    ) {
        let job = Arc::make_mut(self.jobs.entry(id.clone()).or_default());
        let begun = job.states.iter().find(|state| state.revision == revision).cloned();
        let jitter = begun.as_deref().filter(|_| has_waited).map_or(Duration::ZERO, jitter);
        let shifts = job.states.iter().flat_map(|state| &state.overrides);
        let shifted = shifts.filter(|it| it.slot == last && first == last).filter_map(|it| it.to);
        let due = shifted.chain([last.plus(jitter)]).min().unwrap_or(last);
        let early = due > at.plus(MAX_CLOCK_ERROR);
        let end = job
            .states
            .iter()
            .find(|state| state.command > revision.0 && state.revision != revision);
        let end = end.map_or(Timestamp::MAX, |next| next.effective_after);
        let deleted = job
            .states
            .iter()
            .find(|state| state.command > revision.0 && state.definition.is_none());
        let end = deleted.map_or(end, |state| end.min(state.effective_after));
        let mut wrong = Vec::new();
        if let Some(state) = begun.filter(|state| state.incarnation == life) {
            let all = between(&state, first, last);
            if all.len() as u64 != told || !is_slot(&state, first) || !is_slot(&state, last) {
                wrong.push(format!("{} slots, not {told}", all.len()));
            }
            for slot in all {
                let was_held = job.held.contains(&(life, slot));
                if !job.decided.insert((life, slot)) {
                    wrong.push(format!("slot {slot} decided twice"));
                }
                if !(slot > state.effective_after && (slot <= end || was_held)) {
                    wrong.push(format!("slot {slot} is not one of revision {revision:?}"));
                }
            }
        } else {
            wrong.push(format!("no revision {revision:?}"));
        }
        job.decide_through(last);
        if early {
            wrong.push(format!("slot {last} decided at {at}"));
        }
        self.must(wrong.is_empty(), || format!("{id}: {wrong:?}"));
    }

    fn cursor(&mut self, at: Timestamp, cursor: &Cursor) {
        if let Some(old) = &self.cursor {
            let place =
                |c: &Cursor| (c.position.due, c.position.job.is_none(), c.position.job.clone());
            let rises = (cursor.epoch, cursor.tick) > (old.epoch, old.tick)
                && cursor.tick > old.tick
                && place(cursor) >= place(old)
                && cursor.commands_through >= old.commands_through
                && cursor.dead_through >= old.dead_through;
            let text = format!("{cursor:?} after {old:?}");
            self.must(rises, || text);
        }
        let limit = at.plus(MAX_CLOCK_ERROR);
        self.must(cursor.position.due <= limit, || format!("{at}: ahead of time: {cursor:?}"));
        self.cursor = Some(Arc::new(cursor.clone()));
    }

    /// A message is stored in CRON_RUNS.
    pub(crate) fn run(&mut self, message: &RunMessage) {
        let id = message.key.shard;
        let Some(shard) = self.shards.get_mut(&id).map(Arc::make_mut) else {
            self.must(false, || format!("{:?} of a shard that was not fired", message.event));
            return;
        };
        let last = shard.last.as_ref().map(|(_, _, event)| event.clone());
        let fault = fault(shard, message.at, last.as_ref(), &message.event);
        if let RunEvent::AttemptFailed(failed) = &message.event {
            let asked = failed.retry_after.map_or(Duration::ZERO, Span::to_duration);
            let from = message.at.plus(asked + cronstream_core::retry::DELAY_MIN);
            shard.retry_from.insert(failed.place.fire_no, from);
        }
        shard.ended |= message.event.is_terminal();
        shard.failed |= matches!(message.event, RunEvent::Failed(_));
        shard.last = Some((message.seq, message.at, message.event.clone()));
        self.must(fault.is_none(), || {
            format!(
                "{id}: {} {:?} after {last:?}: {}",
                message.event.kind(),
                message.event.place(),
                fault.unwrap_or_default()
            )
        });
    }
}
