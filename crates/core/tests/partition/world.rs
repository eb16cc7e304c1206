//! Three streams in memory and one leader over them.
//!
//! Invariant: every batch obeys the laws of `laws.rs` before it is stored, and run events are appended by
//! compare-and-set, as the store does it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use cronstream_core::attempt::{self, Decision, Last, Retry, TaskOutcome};
use cronstream_core::backfill::Collector;
use cronstream_core::live::Bounds;
use cronstream_core::partition::{Partition, PendingCommand};
use cronstream_core::turn::{Batch, HistoryRead, Now, RunAppend, Settings, Turn};
use cronstream_schemas::calendar::CalendarId;
use cronstream_schemas::event::{
    CalendarState, DeadLetter, Executor, Failure, FailureKind, Fired, LogEvent, RunEvent,
};
use cronstream_schemas::id::{Instance, Partition as Number, ShardId};
use cronstream_schemas::name::Name;
use cronstream_schemas::subject::{Prefix, RunKey};
use cronstream_schemas::time::Timestamp;
use cronstream_schemas::trace::TraceRatio;
use uuid::Uuid;

use crate::laws;

/// One message of CRON_RUNS.
#[derive(Debug, Clone)]
pub(crate) struct RunRecord {
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
    pub(crate) key: RunKey,
    pub(crate) event: RunEvent,
}

/// The streams, and the partition's leader.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) log: Vec<LogEvent>,
    pub(crate) runs: Vec<RunRecord>,
    pub(crate) commands: Vec<PendingCommand>,
    pub(crate) dead: HashMap<ShardId, DeadLetter>,
    pub(crate) leader: Partition,
    pub(crate) settings: Settings,
    pub(crate) now: Timestamp,
    pub(crate) limit: Option<Timestamp>,
    terms: u128,
}

/// How a task ends, for [`World::end`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Success,
    Failure(Retry),
}

/// The most turns that one input may take.
const TURNS_MAX: usize = 10_000;

impl World {
    /// An installation whose first leader takes over at `now`.
    pub(crate) fn new(now: Timestamp) -> Self {
        let mut world = Self {
            log: Vec::new(),
            runs: Vec::new(),
            commands: Vec::new(),
            dead: HashMap::new(),
            leader: Partition::new(Number(0)),
            settings: Settings {
                prefix: Prefix::default(),
                hold: false,
                max_clock_error: Duration::from_millis(500),
                cursor_refresh: Duration::from_secs(6 * 3_600),
                trace_ratio: TraceRatio::default(),
                bounds: Bounds::default(),
            },
            now,
            limit: None,
            terms: 0,
        };
        world.take_over();
        world
    }

    pub(crate) fn clock(&self) -> Now {
        Now { wall: self.now, limit: self.limit.unwrap_or(Timestamp::MAX) }
    }

    /// Another leader: a cold fold of the streams, then its first cursor.
    pub(crate) fn take_over(&mut self) {
        let mut next = Partition::new(Number(0));
        self.fold_log(&mut next);
        self.fold_runs(&mut next);
        self.lead(next);
    }

    /// `next` has folded everything and begins its term.
    pub(crate) fn lead(&mut self, mut next: Partition) {
        self.terms += 1;
        next.caught_up(self.now);
        let holder = Instance(Uuid::from_u128(self.terms));
        let cursor = next.takeover(self.now, &Name::parse("t").unwrap(), holder);
        let cursor = LogEvent::Cursor(cursor);
        self.log.push(cursor.clone());
        next.apply_log(self.log.len() as u64, &cursor);
        next.lead();
        self.leader = next;
        let through = self.leader.commands_through();
        for command in self.commands.iter().filter(|command| command.seq > through) {
            self.leader.offer(command.clone());
        }
    }

    pub(crate) fn fold_log(&self, partition: &mut Partition) {
        for (seq, event) in (1..).zip(&self.log) {
            partition.apply_log(seq, event);
        }
    }

    pub(crate) fn fold_runs(&self, partition: &mut Partition) {
        for RunRecord { seq, at, key, event } in &self.runs {
            partition.apply_run(*seq, *at, key, event);
        }
    }

    /// Publishes a command; its broker timestamp is `at`.
    pub(crate) fn publish(
        &mut self,
        at: Timestamp,
        subject: &str,
        body: &str,
        expected_revision: Option<&str>,
    ) {
        let command = PendingCommand {
            seq: self.commands.len() as u64 + 1,
            at,
            subject: subject.to_owned(),
            body: body.as_bytes().to_vec(),
            reply: Some("_INBOX.x".to_owned()),
            expected_revision: expected_revision.map(str::to_owned),
            traceparent: None,
        };
        self.commands.push(command.clone());
        self.leader.offer(command);
    }

    pub(crate) fn turn(&mut self) -> Turn {
        let clock = self.clock();
        self.leader.turn(clock, &self.settings, true)
    }

    /// Takes turns until nothing is left to do; `seen` gets each of them, as it is stored.
    pub(crate) fn settle(&mut self, mut seen: impl FnMut(&Self, &Turn, &[(u64, DeadLetter)])) {
        for _ in 0..TURNS_MAX {
            let turn = self.turn();
            if let Some(command) = turn.read_log {
                // The leader has folded all of this log.
                self.leader.read_log(command);
                if turn.batch.is_none() && turn.appends.is_empty() {
                    continue;
                }
            }
            if let Some(read) = &turn.history {
                self.read_history(read);
            } else if turn.batch.is_none() && turn.appends.is_empty() {
                return;
            }
            if let Some(batch) = &turn.batch {
                self.store(batch);
            }
            for append in &turn.appends {
                self.append_leaders(append);
            }
            let buried = self.bury();
            seen(self, &turn, &buried);
        }
        panic!("no end after {TURNS_MAX} turns");
    }

    /// Another partition's leader, or nobody any more, has ended a calendar: its tombstone is in the log.
    pub(crate) fn lose_calendar(&mut self, id: &CalendarId) {
        let state = self.log.iter().rev().find_map(|event| match event {
            LogEvent::CalendarDefined(state) if state.calendar == *id => Some(state.clone()),
            _ => None,
        });
        let state = state.expect("the calendar was defined");
        let command = state.command + 1;
        self.log.push(LogEvent::CalendarDeleted(CalendarState {
            definition: None,
            command,
            ..state
        }));
        let seq = self.log.len() as u64;
        self.leader.apply_log(seq, &self.log[self.log.len() - 1]);
    }

    fn read_history(&mut self, read: &HistoryRead) {
        let mut collector = Collector::new(read.from, read.to);
        for event in &self.log {
            if let LogEvent::JobRevised(state) = event
                && state.job == read.job
                && !collector.take(state.clone())
            {
                break;
            }
        }
        self.leader.history_read(read.command, Ok(collector.finish()));
    }

    /// Stores a batch and folds it.
    pub(crate) fn store(&mut self, batch: &Batch) {
        laws::check_batch(self, batch);
        self.log.extend(batch.events.iter().map(|planned| planned.event.clone()));
        self.log.push(LogEvent::Cursor(batch.cursor.clone()));
        self.leader.commit(batch.clone(), self.log.len() as u64);
    }

    /// Appends what the leader handed out, unless an executor was first.
    pub(crate) fn append_leaders(&mut self, append: &RunAppend) -> bool {
        let stored = self.append(&append.key, &append.event, append.expected_seq);
        self.leader.append_done(append.key.shard);
        stored
    }

    fn append(&mut self, key: &RunKey, event: &RunEvent, expected_seq: u64) -> bool {
        if self.last(key.shard).map_or(0, |last| last.seq) != expected_seq {
            return false;
        }
        let seq = self.runs.len() as u64 + 1;
        let record = RunRecord { seq, at: self.now, key: key.clone(), event: event.clone() };
        self.leader.apply_run(record.seq, record.at, &record.key, &record.event);
        self.runs.push(record);
        true
    }

    /// Writes the dead letters that the leader asks for, each once.
    pub(crate) fn bury(&mut self) -> Vec<(u64, DeadLetter)> {
        let due: Vec<_> = self.leader.dead().map(|(seq, dead)| (seq, dead.clone())).collect();
        let mut buried = Vec::new();
        for (seq, dead) in due {
            self.leader.dead_written(seq);
            if self.dead.insert(dead.key.shard, dead.letter.clone()).is_none() {
                buried.push((seq, dead.letter));
            }
        }
        buried
    }

    fn last(&self, shard: ShardId) -> Option<&RunRecord> {
        self.runs.iter().rev().find(|record| record.key.shard == shard)
    }

    /// The newest fire of a shard.
    pub(crate) fn fire(&self, shard: ShardId) -> Fired {
        let fires = self.log.iter().rev().filter_map(|event| match event {
            LogEvent::Fired(fired) if fired.shard_id() == shard => Some(fired.clone()),
            _ => None,
        });
        fires.max_by_key(|fired| fired.fire_no).expect("the shard was fired")
    }

    /// An executor starts the newest fire of a shard.
    pub(crate) fn start(&mut self, shard: ShardId) {
        let fire = self.fire(shard);
        let last =
            self.last(shard).map(|record| Last { seq: record.seq, event: record.event.clone() });
        match attempt::decide(&fire, last.as_ref(), &executor(), self.now) {
            Decision::Start { place, expected_seq } => {
                let started = attempt::started(place, executor());
                assert!(self.append(&key(&fire), &started, expected_seq));
            }
            decision => panic!("an executor does not start it: {decision:?}"),
        }
    }

    /// The attempt that runs ends, or is given back.
    pub(crate) fn end(&mut self, shard: ShardId, end: Option<End>) {
        let fire = self.fire(shard);
        let last = self.last(shard).expect("the shard was started");
        let (seq, place) = (last.seq, last.event.place());
        let event = match end {
            None => attempt::interrupted(place, executor()),
            Some(End::Success) => {
                let task = TaskOutcome::Success { result: None, output: None };
                attempt::outcome(&fire, place, executor(), task)
            }
            Some(End::Failure(retry)) => {
                let failure = Failure { kind: FailureKind::Error, message: "no".into() };
                let task = TaskOutcome::Failure { failure, retry, output: None };
                attempt::outcome(&fire, place, executor(), task)
            }
        };
        assert!(self.append(&key(&fire), &event, seq));
    }

    /// Every job, as the leader sees it.
    pub(crate) fn jobs(&self) -> BTreeMap<String, Timestamp> {
        self.leader.jobs().map(|(id, job)| (id.to_string(), job.decided_through)).collect()
    }
}

fn executor() -> Executor {
    Executor { node: Name::parse("e").unwrap(), instance: Instance(Uuid::from_u128(7)) }
}

pub(crate) fn key(fire: &Fired) -> RunKey {
    RunKey { queue: fire.queue.clone(), job: fire.job.clone(), shard: fire.shard_id() }
}
