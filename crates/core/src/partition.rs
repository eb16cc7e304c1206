//! A partition: the fold of its jobs, runs and cursor, from which its leader decides.
//!
//! ```text
//!   CRON_LOG  ──apply_log──►┌───────────┐
//!   CRON_RUNS ──apply_run──►│ Partition │──turn(now)──► Batch [events, Cursor] ──stored──► commit ─┐
//!   CRON_COMMANDS ──offer──►└───────────┘──turn(now)──► run events to append                      │
//!                                 ▲                                                               │
//!                                 └───────────────────────── apply_log (the same function) ◄──────┘
//! ```
//!
//! Invariant: the fold changes only by stored events, each taken once by its sequence. A turn plans on copies
//! and changes nothing, so a batch that is refused leaves no trace.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use cronstream_schemas::event::{
    Cause, Cursor, DeadLetter, Fired, Held, JobState, LogEvent, Position, RunEvent, Skipped,
    SkippedWhat,
};
use cronstream_schemas::id::{Incarnation, Instance, Partition as Number, RunId, RunSeed, ShardId};
use cronstream_schemas::name::JobId;
use cronstream_schemas::subject::RunKey;
use cronstream_schemas::time::Timestamp;

use crate::early::Early;
use crate::job::Job;
use crate::keys::Keys;
use crate::position;
use crate::shard::{LastEvent, LastKind, Shard};

/// A command that is read and not applied yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCommand {
    /// Its sequence in CRON_COMMANDS.
    pub seq: u64,
    /// Its broker timestamp.
    pub at: Timestamp,
    /// Its subject.
    pub subject: String,
    /// Its body.
    pub body: Vec<u8>,
    /// The inbox its sender listens on.
    pub reply: Option<String>,
    /// `Cron-Expected-Revision`, as sent.
    pub expected_revision: Option<String>,
    /// `traceparent`, as sent.
    pub traceparent: Option<String>,
}

/// A dead letter that is not known to be in CRON_DEAD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDead {
    /// Its address.
    pub key: RunKey,
    /// Its content.
    pub letter: DeadLetter,
}

/// The most commands that wait in a partition; the reader pauses there.
pub const COMMANDS_WAITING_MAX: usize = 10_000;

/// The most cancels that are kept as carried out and not yet passed by a cursor. A leader has one under way at a
/// time, and it is the oldest that waits; whatever is beyond it was forged.
const CANCELLED_MAX: usize = 1_000;

/// The state of one partition.
#[derive(Debug, Clone)]
pub struct Partition {
    /// Its number.
    pub number: Number,
    pub(crate) cursor: Option<Cursor>,
    pub(crate) cursor_seq: u64,
    pub(crate) log_through: u64,
    pub(crate) runs_through: u64,
    pub(crate) commands_seen: u64,
    pub(crate) commands: VecDeque<PendingCommand>,
    pub(crate) jobs: HashMap<JobId, Job>,
    pub(crate) defined: usize,
    pub(crate) held: BTreeMap<JobId, Arc<Held>>,
    pub(crate) live: HashMap<JobId, Vec<ShardId>>,
    pub(crate) shards: HashMap<ShardId, Shard>,
    pub(crate) early: Early,
    pub(crate) keys: Keys,
    pub(crate) dead: BTreeMap<u64, PendingDead>,
    pub(crate) cancelled: BTreeMap<u64, RunId>,
    pub(crate) ending: HashSet<ShardId>,
    /// The holder of the cursor under which this fold leads.
    pub(crate) leading: Option<Instance>,
    pub(crate) due: BTreeSet<(Timestamp, JobId)>,
    pub(crate) timers: BTreeSet<(Timestamp, ShardId)>,
    pub(crate) unknown: Option<String>,
    unfired: Option<ShardId>,
}

impl Partition {
    /// A partition of which nothing is known yet.
    #[must_use]
    pub fn new(number: Number) -> Self {
        Self {
            number,
            cursor: None,
            cursor_seq: 0,
            log_through: 0,
            runs_through: 0,
            commands_seen: 0,
            commands: VecDeque::new(),
            jobs: HashMap::new(),
            defined: 0,
            held: BTreeMap::new(),
            live: HashMap::new(),
            shards: HashMap::new(),
            early: Early::default(),
            keys: Keys::default(),
            dead: BTreeMap::new(),
            cancelled: BTreeMap::new(),
            ending: HashSet::new(),
            leading: None,
            due: BTreeSet::new(),
            timers: BTreeSet::new(),
            unknown: None,
            unfired: None,
        }
    }

    /// Folds one message of CRON_LOG. A sequence that was folded before changes nothing.
    pub fn apply_log(&mut self, seq: u64, event: &LogEvent) {
        if seq <= self.log_through {
            return;
        }
        self.log_through = seq;
        match event {
            LogEvent::JobDefined(state)
            | LogEvent::JobPaused(state)
            | LogEvent::JobResumed(state)
            | LogEvent::JobDeleted(state) => self.apply_state(&Arc::new(state.clone())),
            LogEvent::Fired(fired) => self.apply_fired(&Arc::new(fired.clone())),
            LogEvent::Held(held) => {
                self.decide_through(&held.job, held.incarnation, held.slot);
                self.held.insert(held.job.clone(), Arc::new(held.clone()));
            }
            LogEvent::HeldEnded(ended) => {
                if self.held.get(&ended.job).is_some_and(|held| held.slot == ended.slot) {
                    self.held.remove(&ended.job);
                }
            }
            LogEvent::Skipped(skipped) => self.apply_skipped(skipped),
            LogEvent::Cursor(cursor) => self.apply_cursor(seq, cursor),
            LogEvent::JobRevised(_) | LogEvent::Rejected(_) | LogEvent::Meta(_) => {}
        }
    }

    /// Notes a message on the cursor's subject that is no cursor: the lock's sequence moves all the same.
    pub fn apply_foreign_cursor(&mut self, seq: u64) {
        self.log_through = self.log_through.max(seq);
        self.cursor_seq = self.cursor_seq.max(seq);
    }

    /// Notes an event of a kind that only a later version knows: this binary may not lead the partition.
    pub fn apply_unknown(&mut self, seq: u64, kind: &str) {
        self.log_through = self.log_through.max(seq);
        self.unknown = Some(kind.to_owned());
    }

    /// Folds the next message of CRON_RUNS, in the order of the stream. A sequence that was folded before changes
    /// nothing.
    pub fn apply_run(&mut self, seq: u64, at: Timestamp, key: &RunKey, event: &RunEvent) {
        self.runs_through = self.runs_through.max(seq);
        self.read_run(seq, at, key, event);
    }

    /// Folds a message of CRON_RUNS that was read back out of turn: others before it may still be to come, so it
    /// says nothing of how far the stream is folded.
    pub fn read_run(&mut self, seq: u64, at: Timestamp, key: &RunKey, event: &RunEvent) {
        let last = LastEvent::of(seq, at, event);
        if let LastKind::Cancelled { command: Some(command) } = last.kind
            && command > self.commands_through()
        {
            self.cancelled.insert(command, key.shard.run);
            if self.cancelled.len() > CANCELLED_MAX {
                self.cancelled.pop_last();
            }
        }
        let Some(shard) = self.shards.get_mut(&key.shard) else {
            self.early.insert(key, last);
            return;
        };
        if shard.apply_event(last) {
            self.end_shard(key.shard);
        } else {
            self.index_shard(key.shard);
        }
    }

    /// Offers one command of this partition, in the order of the stream. One that is applied or waits already
    /// changes nothing.
    pub fn offer(&mut self, command: PendingCommand) {
        let known = self.commands.back().map_or(self.commands_through(), |last| last.seq);
        self.commands_seen = self.commands_seen.max(command.seq);
        if command.seq > known {
            self.commands.push_back(command);
        }
    }

    /// Notes that every command up to `seq` is another partition's or was offered.
    pub fn saw_commands(&mut self, seq: u64) {
        self.commands_seen = self.commands_seen.max(seq);
    }

    /// Whether the reader of commands must pause.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.commands.len() >= COMMANDS_WAITING_MAX
    }

    /// Drops run events whose fire is not in the log, once the log is read to its head.
    pub fn caught_up(&mut self, now: Timestamp) {
        let unfired = self.early.shards().find(|(job, shard)| self.owes(job, shard.run));
        self.unfired = unfired.map(|(_, shard)| shard).or(self.unfired);
        self.early.prune(now);
    }

    /// A run that executors tell of, and whose slot this fold still owes: the log was set back behind them.
    /// Only what stands after the log was read to its head once more counts.
    #[must_use]
    pub fn set_back(&self) -> Option<RunId> {
        self.unfired.map(|shard| shard.run)
    }

    /// Whether `run` is the true id of an undecided slot of `job`; nobody else's id is evidence.
    fn owes(&self, job: &JobId, run: RunId) -> bool {
        let slot = run.at();
        self.jobs.get(job).is_some_and(|state| {
            let position = position::decided_through(&self.position(), job);
            let incarnation = state.state.incarnation;
            slot > state.decided_through.max(position)
                && run == RunId::derive(slot, job, incarnation, RunSeed::Slot(slot))
        })
    }

    /// Begins to lead after a cursor of ours is stored: builds the indices.
    pub fn lead(&mut self) {
        self.leading = self.cursor.as_ref().map(|cursor| cursor.holder);
        self.ending.clear();
        self.due.clear();
        self.timers.clear();
        self.shards.values_mut().for_each(|shard| shard.indexed = None);
        self.jobs.values_mut().for_each(|job| job.indexed = None);
        self.shards
            .keys()
            .copied()
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|id| self.index_shard(id));
        self.jobs.keys().cloned().collect::<Vec<_>>().iter().for_each(|id| self.index_job(id));
    }

    /// Goes on as a standby: keeps the fold, forgets what only a leader needs.
    pub fn follow(&mut self) {
        self.leading = None;
        self.ending.clear();
        self.due.clear();
        self.timers.clear();
        self.commands.clear();
        self.commands_seen = 0;
    }

    /// Notes that a dead letter is in CRON_DEAD.
    pub fn dead_written(&mut self, seq: u64) {
        self.dead.remove(&seq);
    }

    /// Notes that an append to CRON_RUNS has been answered, and its subject's last event folded.
    pub fn append_done(&mut self, shard: ShardId) {
        self.ending.remove(&shard);
    }

    pub(crate) fn position(&self) -> Position {
        self.cursor
            .as_ref()
            .map_or(Position { due: Timestamp::MIN, job: None }, |cursor| cursor.position.clone())
    }

    fn apply_cursor(&mut self, seq: u64, cursor: &Cursor) {
        self.cursor_seq = self.cursor_seq.max(seq);
        let newer = self
            .cursor
            .as_ref()
            .is_none_or(|old| (cursor.epoch, cursor.tick) > (old.epoch, old.tick));
        if newer {
            self.dead = self.dead.split_off(&(cursor.dead_through + 1));
            self.cancelled = self.cancelled.split_off(&(cursor.commands_through + 1));
            while self.commands.front().is_some_and(|c| c.seq <= cursor.commands_through) {
                self.commands.pop_front();
            }
            self.keys.forget_before(cursor.at);
            self.cursor = Some(cursor.clone());
            if self.leading.is_some_and(|holder| holder != cursor.holder) {
                self.follow();
            }
        }
    }

    fn apply_state(&mut self, state: &Arc<JobState>) {
        let job = self.jobs.entry(state.job.clone()).or_insert_with(|| {
            self.defined += 1;
            Job::new(state)
        });
        let (was, ()) = (job.is_deleted(), job.apply_state(state));
        match (was, job.is_deleted()) {
            (false, true) => self.defined -= 1,
            (true, false) => self.defined += 1,
            (true, true) | (false, false) => {}
        }
        self.index_job(&state.job);
    }

    fn apply_skipped(&mut self, skipped: &Skipped) {
        if let SkippedWhat::Slots { last, .. } = &skipped.what {
            self.decide_through(&skipped.job, skipped.incarnation, *last);
        }
    }

    fn apply_fired(&mut self, fired: &Arc<Fired>) {
        match &fired.cause {
            Cause::Slot(slot) => self.decide_through(&fired.job, fired.incarnation, *slot),
            Cause::Trigger(trigger) => {
                if let Some(key) = &trigger.key {
                    self.keys.insert(&fired.job, fired.incarnation, key, fired);
                }
            }
        }
        let id = fired.shard_id();
        if let Some(shard) = self.shards.get_mut(&id) {
            shard.apply_fired(fired);
            self.index_shard(id);
            return;
        }
        if fired.fire_no > 1 {
            // Its shard has ended: nothing is live. Where the end was folded before the fire it ended, the
            // dead letter still names an older one.
            let dead = self.dead.values_mut().find(|dead| dead.key.shard == id);
            if let Some(dead) = dead.filter(|dead| dead.letter.fired.fire_no < fired.fire_no) {
                dead.letter.fired = Fired::clone(fired);
            }
            return;
        }
        if self.unfired == Some(id) {
            self.unfired = None;
        }
        let mut shard = Shard::new(Arc::clone(fired));
        let ended = self.early.take(id).is_some_and(|last| shard.apply_event(last));
        self.live.entry(fired.job.clone()).or_default().push(id);
        self.shards.insert(id, shard);
        if ended {
            self.end_shard(id);
        } else {
            self.index_shard(id);
        }
    }

    fn end_shard(&mut self, id: ShardId) {
        let Some(shard) = self.shards.get(&id) else { return };
        if let Some(LastEvent { seq, at, place, kind: LastKind::Failed(failure) }) = &shard.last {
            let dead_through = self.cursor.as_ref().map_or(0, |cursor| cursor.dead_through);
            if *seq > dead_through {
                let fired = Fired::clone(&shard.fired);
                let (queue, job) = (fired.queue.clone(), fired.job.clone());
                let letter = DeadLetter {
                    fired,
                    attempts: place.attempt,
                    failure: failure.clone(),
                    at: *at,
                };
                let key = RunKey { queue, job, shard: id };
                self.dead.insert(*seq, PendingDead { key, letter });
            }
        }
        self.drop_shard(id);
    }

    pub(crate) fn drop_shard(&mut self, id: ShardId) {
        let Some(shard) = self.shards.remove(&id) else { return };
        if let Some(at) = shard.indexed {
            self.timers.remove(&(at, id));
        }
        let job = &shard.fired.job;
        if let Some(live) = self.live.get_mut(job) {
            live.retain(|other| *other != id);
            if live.is_empty() {
                self.live.remove(job);
            }
        }
    }

    fn decide_through(&mut self, job: &JobId, incarnation: Incarnation, through: Timestamp) {
        if let Some(state) = self.jobs.get_mut(job)
            && state.state.incarnation == incarnation
        {
            state.decide_through(through);
            self.index_job(job);
        }
    }

    fn index_job(&mut self, id: &JobId) {
        let position = self.cursor.as_ref().map(|cursor| &cursor.position);
        let (true, Some(job)) = (self.is_leading(), self.jobs.get_mut(id)) else { return };
        let decided = position.map_or(Timestamp::MIN, |p| position::decided_through(p, id));
        let due = job.next_due(decided);
        if due == job.indexed {
            return;
        }
        if let Some(old) = job.indexed {
            self.due.remove(&(old, id.clone()));
        }
        job.indexed = due;
        if let Some(due) = due {
            self.due.insert((due, id.clone()));
        }
    }

    fn index_shard(&mut self, id: ShardId) {
        let (true, Some(shard)) = (self.is_leading(), self.shards.get_mut(&id)) else { return };
        if let Some(old) = shard.indexed {
            self.timers.remove(&(old, id));
        }
        let (at, _) = shard.timer();
        shard.indexed = Some(at);
        self.timers.insert((at, id));
    }
}
