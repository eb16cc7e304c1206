//! What a history can do wrong, one variant for each broken guarantee.

use cronstream_schemas::event::Place;
use cronstream_schemas::id::{Epoch, FireId, Partition, Revision, RunId, ShardId, Tick};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use crate::history::Oddity;

/// A broken guarantee, with what is needed to find it in the streams.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant says what its fields are of")]
pub enum Violation {
    /// A message of a stream is unreadable, has changed or has vanished.
    Odd(Oddity),
    /// One (job, slot or trigger, shard, fire_no) stands twice in CRON_LOG.
    FiredTwice { job: JobId, slot: Timestamp, fire: FireId, sequences: (u64, u64) },
    /// A slot is both fired and skipped, or skipped twice.
    TwoOutcomes { job: JobId, slot: Timestamp, sequences: Vec<u64> },
    /// A due slot, or a shard of it, has no outcome.
    NoOutcome { job: JobId, slot: Timestamp, revision: Revision },
    /// A slot has an outcome, though the schedule in force has no such slot.
    NotDue { job: JobId, slot: Timestamp, sequence: u64 },
    /// A slot was decided under another revision than the one in force at it.
    WrongRevision { job: JobId, slot: Timestamp, found: Revision, expected: Revision },
    /// A skipped range counts other slots than there are.
    WrongCount { job: JobId, sequence: u64, found: u64, expected: u64 },
    /// A fire was stored before its slot less the clock error.
    FiredEarly { job: JobId, slot: Timestamp, stored: Timestamp },
    /// A shard's fire has no fire before it.
    FireGap { fire: FireId, sequence: u64 },
    /// A cursor's epoch or tick did not rise.
    CursorFell { partition: Partition, sequence: u64, from: (Epoch, Tick), to: (Epoch, Tick) },
    /// Two leaders wrote in one epoch.
    TwoHolders { partition: Partition, epoch: Epoch, sequence: u64 },
    /// An event was stored outside a batch of the partition's leader.
    Unfenced { subject: String, sequence: u64, tick: Option<(Epoch, Tick)> },
    /// A shard has two terminal events.
    TwoTerminals { shard: ShardId, sequences: (u64, u64) },
    /// An event stands behind a shard's terminal event.
    AfterTerminal { shard: ShardId, place: Place, sequence: u64 },
    /// A shard that was fired has no result at the end.
    NoTerminal { shard: ShardId, job: JobId, slot: Timestamp },
    /// A shard has events and was never fired.
    RunWithoutFire { shard: ShardId, sequence: u64 },
    /// A final failure has no dead letter.
    NoDeadLetter { shard: ShardId },
    /// A dead letter is of a shard that has not failed, or is one of two.
    WrongDeadLetter { shard: ShardId, sequence: u64 },
    /// A task began before its slot less the clock error.
    EffectEarly { run: RunId, slot: Timestamp, at: Timestamp },
    /// One attempt began or ended twice.
    EffectTwice { run: RunId, attempt: u32, token: u64 },
    /// A task ran without a Started event of its run, attempt and token.
    EffectWithoutStart { run: RunId, attempt: u32, token: u64 },
    /// A backfill has run a slot twice.
    BackfilledTwice { job: JobId, command: u64, slot: Timestamp },
    /// A backfill has run or skipped other slots than it asked for.
    BackfillMiscounted { job: JobId, command: u64, asked: u64, answered: u64 },
}
