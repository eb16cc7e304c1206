//! What happened, as the streams and the tasks themselves tell it: the checker's only input.

use cronstream_schemas::event::{DeadLetter, LogEvent, RunEvent};
use cronstream_schemas::id::{Epoch, RunId, Tick};
use cronstream_schemas::time::Timestamp;

/// An event with what the broker knows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored<E> {
    /// Its sequence in the stream.
    pub sequence: u64,
    /// When the broker stored it.
    pub at: Timestamp,
    /// Its subject.
    pub subject: String,
    /// The batch that its header names.
    pub tick: Option<(Epoch, Tick)>,
    /// The event.
    pub event: E,
}

/// What a task wrote of itself into the effect file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// Its run.
    pub run: RunId,
    /// The slot it was told.
    pub slot: Timestamp,
    /// The shard it was told.
    pub shard: u16,
    /// The attempt it was told.
    pub attempt: u32,
    /// The fencing token it was given.
    pub token: u64,
    /// Whether it began or ended.
    pub mark: Mark,
    /// When, by the clock of the machine.
    pub at: Timestamp,
}

/// Which end of an attempt an [`Effect`] tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The task has begun.
    Start,
    /// The task is about to exit.
    End,
}

/// A message that should not be, or should not be as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Oddity {
    /// It is no event that this binary knows.
    Unreadable {
        /// Its subject.
        subject: String,
        /// Its sequence.
        sequence: u64,
        /// Why.
        why: String,
    },
    /// It was seen, and later another one stood under its sequence.
    Changed {
        /// Its subject.
        subject: String,
        /// Its sequence.
        sequence: u64,
    },
    /// It was seen, nothing may have removed it yet, and it is gone.
    Vanished {
        /// Its subject.
        subject: String,
        /// Its sequence.
        sequence: u64,
    },
}

/// All that is known of one test run; every list of events is in the order of the sequences.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// How many partitions the installation has.
    pub partitions: u8,
    /// CRON_LOG, with what was rolled up meanwhile.
    pub log: Vec<Stored<LogEvent>>,
    /// CRON_RUNS.
    pub runs: Vec<Stored<RunEvent>>,
    /// CRON_DEAD.
    pub dead: Vec<Stored<DeadLetter>>,
    /// The effect file.
    pub effects: Vec<Effect>,
    /// Messages that should not be so.
    pub oddities: Vec<Oddity>,
    /// When, by the broker, each connection to it broke, as far as the harness has seen or done it.
    pub breaks: Vec<Timestamp>,
}
