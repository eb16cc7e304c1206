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

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use cronstream_schemas::calendar::CalendarId;
use cronstream_schemas::event::{
    CalendarState, Cursor, DeadLetter, JobState, LogEvent, Position, RunEvent, Skipped, SkippedWhat,
};
use cronstream_schemas::id::{Incarnation, Instance, Partition as Number, RunId, RunSeed, ShardId};
use cronstream_schemas::name::JobId;
use cronstream_schemas::subject::RunKey;
use cronstream_schemas::time::Timestamp;

use crate::backfill::History;
use crate::calendar::Calendars;
use crate::due::Due;
use crate::early::Early;
use crate::held::Waiting;
use crate::jobs::Jobs;
use crate::keys::Keys;
use crate::live::LiveRuns;
use crate::overrides;
use crate::position;
use crate::shard::{LastEvent, LastKind, Shard};
use crate::shared::Shared;
use crate::tables::Tables;
use crate::uses::{self, Uses};

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
    /// When the latest of the fires behind the newest cursor was decided, if there are some.
    pub(crate) unpassed: Option<Timestamp>,
    pub(crate) log_through: u64,
    pub(crate) runs_through: u64,
    pub(crate) commands_seen: u64,
    pub(crate) commands: VecDeque<PendingCommand>,
    pub(crate) jobs: Jobs,
    pub(crate) shared: Shared,
    pub(crate) calendars: Calendars,
    pub(crate) uses: Uses,
    /// Jobs that are to go by other days, and from when on.
    pub(crate) replans: Vec<(Timestamp, BTreeSet<JobId>)>,
    pub(crate) log_read: u64,
    pub(crate) defined: usize,
    pub(crate) held: BTreeMap<JobId, Waiting>,
    /// Where the leader finds what waits: from when on something may be done, and whose it is.
    pub(crate) waiting: BTreeSet<(Timestamp, JobId)>,
    pub(crate) paced_until: Timestamp,
    /// The command for which a job's history is read, and the history, or why there is none, once it is.
    pub(crate) history: Option<(u64, Option<History>)>,
    /// When runs of slots ended whose job is not folded yet: its newest state stands behind them.
    pub(crate) ends: HashMap<JobId, Timestamp>,
    pub(crate) live: LiveRuns,
    /// Boxed: the table of a burst's runs grows as they are folded.
    pub(crate) shards: HashMap<ShardId, Box<Shard>>,
    pub(crate) early: Early,
    pub(crate) keys: Keys,
    pub(crate) dead: BTreeMap<u64, PendingDead>,
    pub(crate) cancelled: BTreeMap<u64, RunId>,
    pub(crate) ending: HashSet<ShardId>,
    /// The holder of the cursor under which this fold leads.
    pub(crate) leading: Option<Instance>,
    /// When it began to lead.
    pub(crate) led_since: Timestamp,
    /// Since when commands are left that slots wait for.
    pub(crate) behind_since: Option<Timestamp>,
    pub(crate) due: Due,
    pub(crate) timers: BTreeSet<(Timestamp, ShardId)>,
    pub(crate) unknown: Option<String>,
    pub(crate) unfired: Option<ShardId>,
    /// Empty, for the next draft.
    pub(crate) tables: Tables,
}

impl Partition {
    /// A partition of which nothing is known yet.
    #[must_use]
    pub fn new(number: Number) -> Self {
        Self {
            number,
            cursor: None,
            cursor_seq: 0,
            unpassed: None,
            log_through: 0,
            runs_through: 0,
            commands_seen: 0,
            commands: VecDeque::new(),
            jobs: Jobs::default(),
            shared: Shared::default(),
            calendars: Calendars::default(),
            uses: Uses::default(),
            replans: Vec::new(),
            log_read: 0,
            defined: 0,
            held: BTreeMap::new(),
            waiting: BTreeSet::new(),
            paced_until: Timestamp::MIN,
            history: None,
            ends: HashMap::new(),
            live: LiveRuns::default(),
            shards: HashMap::new(),
            early: Early::default(),
            keys: Keys::default(),
            dead: BTreeMap::new(),
            cancelled: BTreeMap::new(),
            ending: HashSet::new(),
            leading: None,
            led_since: Timestamp::MIN,
            behind_since: None,
            due: Due::default(),
            timers: BTreeSet::new(),
            unknown: None,
            unfired: None,
            tables: Tables::default(),
        }
    }

    /// Folds one message of CRON_LOG. A sequence that was folded before changes nothing.
    pub fn apply_log(&mut self, seq: u64, event: &LogEvent) {
        self.fold_log(seq, Cow::Borrowed(event));
    }

    /// Folds an event, and keeps one that it is given for good as it is.
    pub(crate) fn fold_log(&mut self, seq: u64, event: Cow<'_, LogEvent>) {
        if seq <= self.log_through {
            return;
        }
        self.log_through = seq;
        match event {
            Cow::Owned(LogEvent::Fired(fired)) => self.apply_fired(fired),
            Cow::Owned(event) => self.fold(&event),
            Cow::Borrowed(event) => self.fold(event),
        }
    }

    fn fold(&mut self, event: &LogEvent) {
        match event {
            LogEvent::JobDefined(state)
            | LogEvent::JobPaused(state)
            | LogEvent::JobResumed(state)
            | LogEvent::JobOverridden(state)
            | LogEvent::JobDeleted(state) => self.apply_state(state.clone()),
            LogEvent::Fired(fired) => self.apply_fired(fired.clone()),
            LogEvent::Held(held) => self.apply_held(held),
            LogEvent::HeldEnded(ended) => self.apply_held_ended(ended),
            LogEvent::Skipped(skipped) => self.apply_skipped(skipped),
            LogEvent::Cursor(cursor) => self.apply_cursor(self.log_through, cursor),
            LogEvent::CalendarDefined(state) | LogEvent::CalendarDeleted(state) => {
                self.apply_calendar(&Arc::new(state.clone()));
            }
            LogEvent::JobRevised(_)
            | LogEvent::CalendarRevised(_)
            | LogEvent::Rejected(_)
            | LogEvent::Meta(_) => {}
        }
    }

    /// Folds a calendar's state, whichever partition owns it. An older state than the one that is known changes
    /// nothing. The jobs that go by it do so from the command's instant on: what they owe by then, a leader decides
    /// by the days from before.
    pub fn apply_calendar(&mut self, state: &Arc<CalendarState>) {
        let touched = self.calendars.apply(state);
        let jobs: BTreeSet<JobId> =
            touched.iter().flat_map(|calendar| self.uses.of(calendar)).cloned().collect();
        if !jobs.is_empty() {
            self.replans.push((state.at, jobs));
            self.plan_again();
        }
        if !touched.is_empty() {
            self.index_missing();
        }
    }

    /// Lets jobs go by new days whose slots are decided by the days from before up to where the new ones begin.
    fn plan_again(&mut self) {
        let position = self.position().due;
        let (due, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.replans)
            .into_iter()
            .partition(|(from, _)| !self.is_leading() || position >= *from);
        self.replans = left;
        for id in due.iter().flat_map(|(_, jobs)| jobs) {
            if let Some(job) = self.jobs.get_mut(id) {
                job.plan_again(&self.calendars);
                job.share(&mut self.shared);
                self.shared.let_go();
                self.index_job(id);
                self.index_held(id);
            }
        }
    }

    /// Notes which calendars of this partition a job of another one names now.
    pub fn used_by(&mut self, job: &JobId, calendars: BTreeSet<CalendarId>) {
        self.uses.set(job, calendars);
    }

    /// Notes that the log was read to the head that it had after `command` was read.
    pub fn read_log(&mut self, command: u64) {
        self.log_read = self.log_read.max(command);
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
            state.undecided(position).is_some_and(|(_, after)| slot > after)
                && !overrides::is_done(&state.state.overrides, slot)
                && run == RunId::derive(slot, job, incarnation, RunSeed::Slot(slot))
        })
    }

    /// Begins to lead after a cursor of ours is stored: builds the indices.
    pub fn lead(&mut self) {
        self.leading = self.cursor.as_ref().map(|cursor| cursor.holder);
        self.led_since = self.cursor.as_ref().map_or(Timestamp::MIN, |cursor| cursor.at);
        self.behind_since = None;
        self.ending.clear();
        self.due.clear();
        self.timers.clear();
        self.shards.values_mut().for_each(|shard| shard.indexed = None);
        self.shards
            .keys()
            .copied()
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|id| self.index_shard(id));
        let position = self.position();
        for job in self.jobs.iter_mut().filter(|_| self.leading.is_some()) {
            let id = &job.state.job;
            job.indexed = job.next_due(position::decided_through(&position, id));
            if let Some(due) = job.indexed {
                self.due.insert(due, id, job.hash);
            }
        }
        self.index_all_held();
    }

    /// Goes on as a standby: keeps the fold, forgets what only a leader needs.
    pub fn follow(&mut self) {
        self.leading = None;
        self.ending.clear();
        self.due.clear();
        self.timers.clear();
        self.waiting.clear();
        self.history = None;
        self.commands.clear();
        self.commands_seen = 0;
        self.plan_again();
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
        self.unpassed = None;
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
            self.history = self.history.take_if(|(command, _)| *command > cursor.commands_through);
            self.keys.forget_before(cursor.at);
            self.cursor = Some(cursor.clone());
            self.plan_again();
            if self.leading.is_some_and(|holder| holder != cursor.holder) {
                self.follow();
            }
        }
    }

    fn apply_state(&mut self, state: JobState) {
        let mut state = self.shared.state(state);
        let before = self.params_in_force(&state.job).cloned();
        self.live.share_state(&mut state, before.as_ref());
        let (was, job) = if let Some(job) = self.jobs.get_mut(&state.job) {
            // The indices have this id.
            state.job = job.state.job.clone();
            self.shared.let_go();
            let was = job.is_deleted();
            job.apply_state(&Arc::new(state), &self.calendars);
            (was, job)
        } else {
            self.defined += 1;
            let job = self.first_state(&Arc::new(state));
            (false, self.jobs.insert(job))
        };
        job.share(&mut self.shared);
        match (was, job.is_deleted()) {
            (false, true) => self.defined -= 1,
            (true, false) => self.defined += 1,
            (true, true) | (false, false) => {}
        }
        let id = job.state.job.clone();
        let names = uses::names(&job.state);
        let after = job.state.definition.as_ref().map(|definition| definition.params.clone());
        self.live.redefined(&id, before.as_ref(), after.as_ref());
        self.uses.set(&id, names);
        self.index_job(&id);
        self.index_held(&id);
    }

    fn apply_skipped(&mut self, skipped: &Skipped) {
        if let (SkippedWhat::Slots { last, .. }, None) = (&skipped.what, skipped.backfill) {
            self.decide_through(&skipped.job, skipped.incarnation, *last);
        }
    }

    pub(crate) fn decide_through(
        &mut self,
        job: &JobId,
        incarnation: Incarnation,
        through: Timestamp,
    ) {
        if let Some(state) = self.jobs.get_mut(job)
            && state.state.incarnation == incarnation
        {
            state.decide_through(through);
            self.index_job(job);
        }
    }

    pub(crate) fn index_job(&mut self, id: &JobId) {
        if !self.is_leading() {
            return;
        }
        let position = self.cursor.as_ref().map(|cursor| &cursor.position);
        let Some(job) = self.jobs.get_mut(id) else { return };
        let decided = position.map_or(Timestamp::MIN, |p| position::decided_through(p, id));
        let due = job.next_due(decided);
        if due == job.indexed {
            return;
        }
        if let Some(old) = job.indexed {
            self.due.remove(old, id);
        }
        job.indexed = due;
        if let Some(due) = due {
            self.due.insert(due, id, job.hash);
        }
    }
}
