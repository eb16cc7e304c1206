//! Histories that a test makes up: one job, as its leaders and an executor would write of it.
//!
//! Invariant: what is made here decodes; run ids and epochs agree with their job and batch.

use std::time::Duration;

use cronstream_schemas::definition::Draft;
use cronstream_schemas::event::{
    AttemptFailed, Cause, Cursor, DeadLetter, Executor, Failed, Failure, FailureKind, Fired,
    JobState, LogEvent, Meta, Overrides, Place, Position, RetryPolicy, RunEvent, SkipReason,
    Skipped, SkippedWhat, Started, Succeeded,
};
use cronstream_schemas::id::{
    Epoch, Incarnation, Instance, Partition, Revision, RunId, RunSeed, Tick,
};
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::subject::{Prefix, RunKey};
use cronstream_schemas::time::Timestamp;

use crate::history::{Effect, History, Mark, Stored};

/// The job of every sample.
#[must_use]
pub fn job() -> JobId {
    "a/b".parse().expect("a legal job id")
}

/// The state that a define makes: due by `schedule` (JSON), counted from `anchor`, in force from `from` on.
#[must_use]
pub fn state(revision: u64, schedule: &str, anchor: Timestamp, from: Timestamp) -> JobState {
    let body = format!(r#"{{"task":"effect","schedule":{schedule}}}"#);
    let definition = Draft::decode(body.as_bytes()).finish().expect("a legal schedule");
    JobState {
        job: job(),
        revision: Revision(revision),
        incarnation: Incarnation(1),
        definition: Some(definition),
        anchor,
        effective_after: from,
        paused: None,
        overrides: Overrides::default(),
        tzdb: None,
        command: revision,
        at: from,
    }
}

/// The order to run a slot.
#[must_use]
pub fn fired(slot: Timestamp, revision: u64, fire_no: u32, epoch: Epoch) -> Fired {
    let run = RunId::derive(slot, &job(), Incarnation(1), RunSeed::Slot(slot));
    let definition = state(revision, r#"{"every":"1s"}"#, slot, slot).definition;
    let definition = definition.expect("a define makes a definition");
    Fired {
        job: job(),
        revision: Revision(revision),
        incarnation: Incarnation(1),
        run,
        shard: 0,
        shards: 1,
        fire_no,
        cause: Cause::Slot(slot),
        scheduled_at: slot,
        fired_at: slot,
        queue: definition.queue.clone(),
        task: definition.task.clone(),
        params: definition.params.clone(),
        timeout: definition.timeout,
        start_by: slot,
        run_by: slot,
        keep_until: slot,
        retry: RetryPolicy { max_attempts: 2, base: definition.timeout, cap: definition.timeout },
        epoch,
        traceparent: run.trace_context("fire", true).to_string(),
        node: None,
        tzdb: None,
    }
}

/// The first define; slots are due every second after it.
pub const BEGIN: Timestamp = Timestamp::from_millis(1_800_000_000_000);
/// The slots of a history.
pub const SLOTS: u64 = 8;

/// The instant so many seconds after [`BEGIN`].
#[must_use]
pub fn at(seconds: u64) -> Timestamp {
    BEGIN.plus(Duration::from_secs(seconds))
}

/// Writes a history as two leaders, one after the other, and one executor would.
#[derive(Debug)]
pub struct Story {
    /// The history so far.
    pub history: History,
    epoch: Epoch,
    tick: Tick,
    holder: Instance,
    /// The broker's clock.
    pub now: Timestamp,
}

impl Story {
    /// An installation of one partition, led by the first leader.
    #[must_use]
    pub fn begin() -> Self {
        let holder = Instance(uuid::Uuid::from_u128(1));
        let history = History { partitions: 1, ..History::default() };
        let mut story = Self { history, epoch: Epoch(1), tick: Tick(0), holder, now: BEGIN };
        story.append("cron.meta".into(), None, LogEvent::Meta(Meta { partitions: 1 }));
        story
    }

    fn append(&mut self, subject: String, tick: Option<(Epoch, Tick)>, event: LogEvent) {
        let sequence = self.history.log.len() as u64 + 1;
        self.history.log.push(Stored { sequence, at: self.now, subject, tick, event });
    }

    /// One batch: the events and the cursor.
    pub fn batch(&mut self, events: Vec<LogEvent>) {
        self.tick.0 += 1;
        let tick = Some((self.epoch, self.tick));
        let cursor = LogEvent::Cursor(Cursor {
            partition: Partition(0),
            epoch: self.epoch,
            tick: self.tick,
            node: "t1".parse().expect("a legal name"),
            holder: self.holder,
            position: Position { due: self.now, job: None },
            commands_through: 1,
            dead_through: 0,
            at: self.now,
            doubt_before: None,
        });
        for event in events {
            self.append("cron.of.a.job".into(), tick, event);
        }
        self.append("cron.cursor.0".into(), tick, cursor);
    }

    fn take_over(&mut self) {
        self.epoch.0 += 1;
        self.holder = Instance(uuid::Uuid::from_u128(self.epoch.0.into()));
        self.batch(Vec::new());
    }

    fn run_event(&mut self, fired: &Fired, event: RunEvent) -> u64 {
        let sequence = self.history.runs.len() as u64 + 1;
        let key =
            RunKey { queue: fired.queue.clone(), job: fired.job.clone(), shard: fired.shard_id() };
        let subject = Prefix::default().run(&key);
        self.history.runs.push(Stored { sequence, at: self.now, subject, tick: None, event });
        sequence
    }

    /// An executor's part: the attempt starts, does its work and ends with `outcome`.
    pub fn attempt(&mut self, fired: &Fired, outcome: impl FnOnce(Started) -> RunEvent) {
        let place = Place { fire_no: fired.fire_no, delivery: 1, attempt: fired.fire_no };
        let instance = Instance(uuid::Uuid::from_u128(9));
        let started = Started { place, executor: Executor { node: name("e1"), instance } };
        let token = self.run_event(fired, RunEvent::Started(started.clone()));
        for mark in [Mark::Start, Mark::End] {
            self.history.effects.push(Effect {
                run: fired.run,
                slot: fired.scheduled_at,
                shard: fired.shard,
                attempt: fired.fire_no,
                token,
                mark,
                at: self.now,
            });
        }
        self.run_event(fired, outcome(started));
    }
}

fn name(text: &str) -> Name {
    text.parse().expect("a legal name")
}

fn failure() -> Failure {
    Failure { kind: FailureKind::Error, message: "no".into() }
}

/// Slots from `first` through `last` that were missed.
#[must_use]
pub fn skipped(first: u64, last: u64, revision: u64) -> LogEvent {
    LogEvent::Skipped(Skipped {
        job: job(),
        revision: Revision(revision),
        incarnation: Incarnation(1),
        reason: SkipReason::Misfire,
        what: SkippedWhat::Slots { first: at(first), last: at(last), count: last - first + 1 },
        at: at(last),
        epoch: None,
        node: None,
        backfill: None,
    })
}

/// Slot 1 succeeds, 2 fails twice and is dead, 3–4 are missed while the leader changes, 5 fires late, then the job
/// is edited and 6–8 fire under the new revision.
#[must_use]
pub fn good() -> History {
    let mut story = Story::begin();
    story.batch(vec![LogEvent::JobDefined(state(1, r#"{"every":"1s"}"#, BEGIN, BEGIN))]);
    let succeed = |started: Started| {
        let Started { place, executor } = started;
        RunEvent::Succeeded(Succeeded { place, executor, result: None, output: None })
    };
    let fire = |story: &mut Story, second: u64, revision: u64, fire_no: u32| {
        let fired = fired(at(second), revision, fire_no, story.epoch);
        story.batch(vec![LogEvent::Fired(fired.clone())]);
        fired
    };
    story.now = at(1);
    let first = fire(&mut story, 1, 1, 1);
    story.attempt(&first, succeed);
    story.now = at(2);
    let second = fire(&mut story, 2, 1, 1);
    story.attempt(&second, |Started { place, executor }| {
        let failure = failure();
        RunEvent::AttemptFailed(AttemptFailed {
            place,
            executor,
            failure,
            retry_after: None,
            output: None,
        })
    });
    let again = fire(&mut story, 2, 1, 2);
    story.attempt(&again, |Started { place, executor }| {
        RunEvent::Failed(Failed { place, executor, failure: failure(), output: None })
    });
    let letter = DeadLetter { fired: again, attempts: 2, failure: failure(), at: at(2) };
    story.history.dead.push(Stored {
        sequence: 1,
        at: at(2),
        subject: "cron.dead".into(),
        tick: None,
        event: letter,
    });
    story.now = at(5);
    story.take_over();
    let fifth = fired(at(5), 1, 1, story.epoch);
    story.batch(vec![skipped(3, 4, 1), LogEvent::Fired(fifth.clone())]);
    story.attempt(&fifth, succeed);
    let edited = state(2, r#"{"cron":"* * * * * *"}"#, BEGIN, at(5));
    story.batch(vec![LogEvent::JobDefined(edited.clone()), LogEvent::JobRevised(edited)]);
    for second in 6..=SLOTS {
        story.now = at(second);
        let fired = fire(&mut story, second, 2, 1);
        story.attempt(&fired, succeed);
    }
    story.history
}
