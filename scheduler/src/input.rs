//! Everything that can happen to a node.

use std::time::Duration;

use cronstream_bus::{FollowEvent, LeaseAnswer, LeaseEvent, StoredMessage, StreamState};
use cronstream_core::backfill::Unread;
use cronstream_core::turn::RunAppend;
use cronstream_schemas::event::JobState;
use cronstream_schemas::id::{Instance, Partition};
use cronstream_schemas::time::Timestamp;

use crate::readers::Reader;

/// Answers that wait for the loop, at most; a task that finds it full waits.
pub(crate) const INPUTS_MAX: usize = 1_024;

#[derive(Debug)]
pub(crate) enum Input {
    /// CRON_LOG went on.
    Log(FollowEvent),
    /// CRON_RUNS went on.
    Runs(FollowEvent),
    /// CRON_COMMANDS went on.
    Commands(FollowEvent),
    /// The lease bucket went on.
    Lease(LeaseEvent),
    /// A task has ended.
    Answer(Answer),
    /// A timer has ended.
    Wake,
    /// The end of a hold.
    Release(cronstream_bus::Release),
    /// The node is to end.
    Stop,
}

/// What a task found.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A write to a key of the lease bucket.
    Claim { key: String, sent: Duration, operation: Operation, answer: LeaseAnswer },
    /// What a candidate must know before it takes over.
    Survey { partition: Partition, instance: Instance, survey: Option<Box<Survey>> },
    /// What became of a batch.
    Batch { partition: Partition, instance: Instance, fate: Fate },
    /// The head of CRON_LOG after a command was read; `None` when it must be asked for again.
    LogHead { partition: Partition, command: u64, head: Option<u64> },
    /// The head of CRON_COMMANDS behind a gap, by the number of its question; `None` when it must be asked for again.
    CommandsHead { question: u64, head: Option<u64> },
    /// An append to CRON_RUNS, and what stands last on its subject now.
    Appended { partition: Partition, append: Box<RunAppend>, last: Option<Box<StoredMessage>> },
    /// A dead letter; `false` when it must be written again.
    Dead { partition: Partition, seq: u64, written: bool },
    /// The history that a command waits for, or why there is none.
    History { partition: Partition, command: u64, history: Result<Vec<JobState>, Unread> },
    /// A reading of the broker's clock.
    Clock { broker: Timestamp, sent: Duration, received: Duration },
    /// A stream that is followed from another place now; `None` when it must be tried again.
    Opened { which: Which, reader: Option<Box<Reader>> },
    /// The lease bucket, looked for after it was lost.
    Bucket { recreated: bool },
}

/// A stream that is followed anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// CRON_RUNS, last event of each shard.
    Runs,
    /// CRON_COMMANDS, behind this sequence.
    Commands { through: u64 },
}

/// What was done to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Renew,
    Delete,
}

/// The heads of the streams, as their leaders know them.
#[derive(Debug)]
pub(crate) struct Survey {
    /// The last message on the cursor's subject.
    pub(crate) cursor: Option<StoredMessage>,
    pub(crate) log: StreamState,
    pub(crate) runs: StreamState,
    pub(crate) commands: StreamState,
    /// When the oldest command was stored.
    pub(crate) oldest_command: Option<Timestamp>,
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is stored; its cursor has this sequence.
    Stored { seq: u64 },
    /// Its one event is stored by itself, at this sequence; the cursor has not moved.
    StoredAlone { seq: u64 },
    /// Its one event went by itself and is stored before this sequence, at which a cursor stands now, or never will
    /// be: the log tells.
    Closed { seq: u64 },
    /// Another cursor stands there: this node leads no longer.
    Fenced,
    /// It could not be stored for too long, and what it says is of then: to be decided anew, by a new leader.
    Abandoned { why: String },
    /// It cannot be stored for now; the task goes on trying.
    Stuck { why: String },
}
