//! Events of CRON_LOG: what the leader of a partition has decided.
//!
//! Invariant: a job's state and a fire are self-contained: whoever reads one message needs no other.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Event, Override, Overrides};
use crate::calendar::{CalendarDefinition, CalendarId};
use crate::command::Verb;
use crate::definition::JobDefinition;
use crate::duration::Span;
use crate::fault::Fault;
use crate::id::{Epoch, FireId, Incarnation, Instance, Partition, Revision, RunId, ShardId, Tick};
use crate::json::Json;
use crate::name::{JobId, Name};
use crate::time::Timestamp;
use crate::trace::TraceContext;

/// An event of CRON_LOG.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogEvent {
    /// A revision is in force. On `cron.job`.
    JobDefined(JobState),
    /// No slot fires until the job is resumed. On `cron.job`.
    JobPaused(JobState),
    /// The pause has ended. On `cron.job`.
    JobResumed(JobState),
    /// The job's life has ended; a tombstone. On `cron.job`.
    JobDeleted(JobState),
    /// A slot to come is to be skipped or shifted, or no longer. On `cron.job`.
    JobOverridden(JobState),
    /// A revision that was accepted, for the record. On `cron.history`.
    JobRevised(JobState),
    /// The order to run one shard. On `cron.fire`.
    Fired(Fired),
    /// A due slot that may not fire yet. On `cron.held`.
    Held(Held),
    /// A held slot has got its outcome, in the same batch; a tombstone. On `cron.held`.
    HeldEnded(HeldEnded),
    /// Slots, or a trigger, that do not fire. On `cron.skipped`.
    Skipped(Skipped),
    /// A command that was refused. On `cron.rejected`.
    Rejected(Rejected),
    /// How far the partition is; the lock of its leader. On `cron.cursor`.
    Cursor(Cursor),
    /// The installation's settings. On `cron.meta`.
    Meta(Meta),
    /// A version of a calendar is in force. On `cron.object.calendar`.
    CalendarDefined(CalendarState),
    /// The calendar's life has ended; a tombstone. On `cron.object.calendar`.
    CalendarDeleted(CalendarState),
    /// A version of a calendar that was accepted, for the record. On `cron.object-history.calendar`.
    CalendarRevised(CalendarState),
}

/// A calendar's whole state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CalendarState {
    /// The calendar.
    pub calendar: CalendarId,
    /// The version in force: the sequence of the command that defined it.
    pub revision: Revision,
    /// Its days; absent once it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<CalendarDefinition>,
    /// Sequence of the command that made the change.
    pub command: u64,
    /// Broker timestamp of that command.
    pub at: Timestamp,
}

/// A job's whole state; each change repeats all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct JobState {
    /// The job.
    pub job: JobId,
    /// The revision in force.
    pub revision: Revision,
    /// The life of the name that it belongs to.
    pub incarnation: Incarnation,
    /// The definition in force; absent once the job is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<JobDefinition>,
    /// What `every` counts from.
    pub anchor: Timestamp,
    /// Slots up to here are not this state's to decide.
    pub effective_after: Timestamp,
    /// Since when the job is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Timestamp>,
    /// Slots to come that are to be skipped or shifted, or were shifted and are decided ahead; at most 100.
    #[serde(default, skip_serializing_if = "Overrides::is_none")]
    #[schemars(with = "Vec<Override>")]
    pub overrides: Overrides,
    /// The version of the zone data that the leader reads zones by, such as `2026f`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tzdb: Option<Arc<String>>,
    /// Sequence of the command that made the change.
    pub command: u64,
    /// Broker timestamp of that command.
    pub at: Timestamp,
}

/// Why a run exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A slot of the schedule.
    Slot(Timestamp),
    /// A trigger command.
    Trigger(TriggerCause),
    /// A slot that a backfill runs again.
    Backfill(BackfillCause),
}

/// The backfill that made a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BackfillCause {
    /// The slot.
    pub slot: Timestamp,
    /// Sequence of the command.
    pub command: u64,
}

/// The trigger that made a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TriggerCause {
    /// Sequence of the command.
    pub command: u64,
    /// The client's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// W3C Trace Context of whoever sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// How failed attempts are retried: after `base`, twice that, … at most `cap`, each with full jitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RetryPolicy {
    /// Starts in all, retries and crashes together.
    pub max_attempts: u32,
    /// The longest first back-off.
    pub base: Span,
    /// The longest back-off.
    pub cap: Span,
}

/// The order to run one shard once more; self-contained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Fired {
    /// The job.
    pub job: JobId,
    /// The revision it runs under.
    pub revision: Revision,
    /// The life of the name that it belongs to.
    pub incarnation: Incarnation,
    /// The run, and its trace id.
    pub run: RunId,
    /// The shard, from 0.
    pub shard: u16,
    /// How many shards the run has.
    pub shards: u16,
    /// Which fire of the shard this is, from 1.
    pub fire_no: u32,
    /// Why the run exists.
    pub cause: Cause,
    /// The slot, or the trigger's broker timestamp.
    pub scheduled_at: Timestamp,
    /// When the leader decided this fire.
    pub fired_at: Timestamp,
    /// The pool of executors.
    pub queue: Name,
    /// The task.
    pub task: Name,
    /// Handed to the task bit for bit.
    pub params: Json,
    /// How long one attempt may take.
    pub timeout: Span,
    /// When the run expires if nothing has started it.
    pub start_by: Timestamp,
    /// The run's hard end.
    pub run_by: Timestamp,
    /// How long its events are kept at least.
    pub keep_until: Timestamp,
    /// How failed attempts are retried.
    pub retry: RetryPolicy,
    /// The leader's term: a fencing token.
    pub epoch: Epoch,
    /// W3C Trace Context of this fire.
    pub traceparent: String,
    /// The leader's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Name>,
    /// The version of the zone data that the slot was computed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tzdb: Option<Cow<'static, str>>,
}

/// How long a `traceparent` of version 00 is, whose flags are its end.
const TRACEPARENT_BYTES: usize = 55;

impl Fired {
    /// The shard.
    #[must_use]
    pub const fn shard_id(&self) -> ShardId {
        ShardId { run: self.run, shard: self.shard }
    }

    /// The message id of this fire.
    #[must_use]
    pub const fn id(&self) -> FireId {
        FireId { shard: self.shard_id(), fire_no: self.fire_no }
    }

    /// The place of its span, if its run is traced.
    #[must_use]
    pub fn traced(&self) -> Option<TraceContext> {
        self.traceparent.parse().ok().filter(|context: &TraceContext| context.sampled)
    }

    /// Whether its run is traced.
    #[must_use]
    pub fn is_traced(&self) -> bool {
        // What most fires of a large installation say in so many bytes needs no reading.
        let says_no =
            self.traceparent.len() == TRACEPARENT_BYTES && self.traceparent.ends_with("-00");
        !says_no && self.traced().is_some()
    }
}

/// Why a due slot waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeldReason {
    /// The cluster was started with `--hold` and is not released yet.
    Hold,
    /// Its jitter has not passed, and a new revision is in force.
    Jitter,
    /// It was shifted to a later instant.
    Shifted,
    /// It is one of many missed slots that fire one after the other.
    CatchUp,
    /// It is one of many past slots that were asked to run again.
    Backfill,
    /// A run of the job's catch-up or backfill is live.
    Queued,
    /// A calendar that the job uses is gone.
    CalendarMissing,
}

/// A due slot that may not fire yet; it keeps its revision whatever is defined meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Held {
    /// The job.
    pub job: JobId,
    /// The revision it is due under.
    pub revision: Revision,
    /// The life of the name that it belongs to.
    pub incarnation: Incarnation,
    /// That revision's definition.
    pub definition: JobDefinition,
    /// The slot.
    pub slot: Timestamp,
    /// Why it waits.
    pub why: HeldReason,
    /// How far the misfire policy lets it be late.
    pub fire_within: Span,
    /// It fires no earlier than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// The slots that wait behind it in the same message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<HeldRange>,
}

/// Many slots of one revision that wait together, the first of them in [`Held::slot`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HeldRange {
    /// The last token of its subject, the same until all of its slots have their outcome.
    pub id: String,
    /// The last slot.
    pub through: Timestamp,
    /// How many slots are left.
    pub left: u64,
    /// Sequence of the backfill that asked for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<u64>,
    /// What the revision's `every` counts from.
    pub anchor: Timestamp,
    /// Slots up to here are not this revision's.
    pub after: Timestamp,
}

/// A held slot that has got its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HeldEnded {
    /// The job.
    pub job: JobId,
    /// The slot.
    pub slot: Timestamp,
    /// The range that has ended with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
}

/// Why a slot does not fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// It was missed, and the misfire policy fires a later one or none.
    Misfire,
    /// An earlier run of the job was live.
    Overlap,
    /// The job was paused when the slot was due, or while it was held.
    Paused,
    /// The job was deleted while the slot was held.
    Deleted,
    /// It was asked to be skipped.
    Requested,
    /// As many runs of the job were live as may be.
    JobBacklog,
    /// As many runs of the job's partition were live as may be, or they held as much, and one was the job's.
    PartitionBacklog,
}

impl SkipReason {
    /// The reason as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Misfire => "misfire",
            Self::Overlap => "overlap",
            Self::Paused => "paused",
            Self::Deleted => "deleted",
            Self::Requested => "requested",
            Self::JobBacklog => "job_backlog",
            Self::PartitionBacklog => "partition_backlog",
        }
    }
}

/// Slots, or a trigger, that do not fire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Skipped {
    /// The job.
    pub job: JobId,
    /// The revision it was due under.
    pub revision: Revision,
    /// The life of the name that it belongs to.
    pub incarnation: Incarnation,
    /// Why.
    pub reason: SkipReason,
    /// What does not fire.
    pub what: SkippedWhat,
    /// When the leader decided it.
    pub at: Timestamp,
    /// The leader's term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// The leader's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Name>,
    /// Sequence of the backfill that asked for these slots to run again; the schedule's own outcome of each of them
    /// stands elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backfill: Option<u64>,
}

/// What does not fire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkippedWhat {
    /// Every slot from `first` through `last`.
    Slots {
        /// The first slot.
        first: Timestamp,
        /// The last slot.
        last: Timestamp,
        /// How many there are.
        count: u64,
    },
    /// A trigger.
    Trigger(TriggerCause),
}

/// A command that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Rejected {
    /// Sequence of the command.
    pub command: u64,
    /// Its subject, cut to 256 bytes.
    pub subject: String,
    /// The job, where one could be made out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// What was asked for, where it could be made out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verb: Option<Verb>,
    /// Every fault, at most 50.
    pub faults: Vec<Fault>,
    /// The run that the same trigger key already made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<RunId>,
    /// When the leader decided it.
    pub at: Timestamp,
}

/// A place in the total order of due instants: everything up to it is decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Position {
    /// The due instant.
    pub due: Timestamp,
    /// The last job decided at that instant; absent when all of them are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
}

/// How far a partition is. The last message of every batch, and the only lock there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Cursor {
    /// The partition.
    pub partition: Partition,
    /// The leader's term.
    pub epoch: Epoch,
    /// The batch's number.
    pub tick: Tick,
    /// The leader's node name.
    pub node: Name,
    /// The leader's claim, new at every takeover.
    pub holder: Instance,
    /// Every slot up to here is decided.
    pub position: Position,
    /// Every command up to this sequence of CRON_COMMANDS is applied.
    pub commands_through: u64,
    /// Every final failure up to this sequence of CRON_RUNS is in CRON_DEAD.
    pub dead_through: u64,
    /// The leader's clock.
    pub at: Timestamp,
    /// Slots that are due before this instant may have been fired by an earlier leader without a cursor behind them
    /// (`docs/adr/0007-a-fire-by-itself.md`); absent once the position has passed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt_before: Option<Timestamp>,
}

/// The installation's settings, stored once by `init`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Meta {
    /// How many partitions there are, 1–32.
    pub partitions: u8,
}

impl LogEvent {
    /// The kinds this binary knows.
    pub const KINDS: [&str; 16] = [
        "job_defined",
        "job_paused",
        "job_resumed",
        "job_deleted",
        "job_overridden",
        "job_revised",
        "fired",
        "held",
        "held_ended",
        "skipped",
        "rejected",
        "cursor",
        "meta",
        "calendar_defined",
        "calendar_deleted",
        "calendar_revised",
    ];
}

impl Event for LogEvent {
    const KNOWN: &'static [&'static str] = &Self::KINDS;
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::event::Decoded;

    #[test]
    fn a_fire_is_traced_where_its_context_says_so_in_any_version() {
        let golden = include_bytes!("../../golden/v1/log/fired.json");
        let Ok(Decoded::Known(LogEvent::Fired(fired))) = LogEvent::decode(golden) else {
            panic!("no fire");
        };
        let ids = format!("{}-{}", "1".repeat(32), "2".repeat(16));
        for (traceparent, expected) in [
            (format!("00-{ids}-01"), true),
            (format!("00-{ids}-00"), false),
            (format!("01-{ids}-01-00"), true),
            (format!("01-{ids}-00-01"), false),
            ("-00".into(), false),
            (format!("{}-00", "x".repeat(TRACEPARENT_BYTES - 3)), false),
            (String::new(), false),
        ] {
            let fired = Fired { traceparent, ..fired.clone() };
            assert_eq!(fired.is_traced(), expected, "{}", fired.traceparent);
        }
    }
}
