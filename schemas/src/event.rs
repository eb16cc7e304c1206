//! Events: what tickers append to CRON_LOG and CRON_DEAD, and executors to CRON_RUNS.
//!
//! Invariant: an event is written `{"<kind>": {…}}`; a field or kind that was shipped is never reused. A kind
//! this binary does not know decodes to [`Decoded::Unknown`], never to an error.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::command::Verb;
use crate::definition::JobDefinition;
use crate::duration::Span;
use crate::fault::Fault;
use crate::id::{Epoch, FireId, Incarnation, Instance, Partition, Revision, RunId, ShardId, Tick};
use crate::json::{Fields, Json};
use crate::name::{JobId, Name};
use crate::time::Timestamp;

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
}

/// An event of CRON_RUNS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunEvent {
    /// An executor begins an attempt.
    Started(Started),
    /// An executor that shuts down gives the attempt back; it does not count.
    Interrupted(Started),
    /// The attempt failed and another one is left.
    AttemptFailed(AttemptFailed),
    /// The shard's result. Terminal.
    Succeeded(Succeeded),
    /// The last attempt failed, or failed for good. Terminal.
    Failed(Failed),
    /// No executor started it in time. Terminal, by the leader.
    Expired(Ended),
    /// A cancel ended it. Terminal, by the leader.
    Cancelled(Ended),
    /// Its hard end passed without a result. Terminal, by the leader.
    Lost(Ended),
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
}

/// The trigger that made a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TriggerCause {
    /// Sequence of the command.
    pub command: u64,
    /// The client's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
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
}

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
}

/// Why a due slot waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeldReason {
    /// The cluster was started with `--hold` and is not released yet.
    Hold,
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
}

/// A held slot that has got its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HeldEnded {
    /// The job.
    pub job: JobId,
    /// The slot.
    pub slot: Timestamp,
}

/// Why a slot does not fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// It was missed, and the misfire policy fires a later one or none.
    Misfire,
    /// An earlier run of the job was live.
    Overlap,
    /// The job was paused while the slot was held.
    Paused,
    /// The job was deleted while the slot was held.
    Deleted,
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
}

/// The installation's settings, stored once by `init`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Meta {
    /// How many partitions there are, 1–32.
    pub partitions: u8,
}

/// Where in a shard's life an event stands.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Place {
    /// The fire; 0 where the leader ends a shard that nothing has started.
    pub fire_no: u32,
    /// Which delivery of that fire.
    pub delivery: u32,
    /// Starts of this shard so far that count.
    pub attempt: u32,
}

/// Who runs an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Executor {
    /// The node's name.
    pub node: Name,
    /// The process.
    pub instance: Instance,
}

/// An executor begins, or gives back, an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Started {
    /// Where it stands.
    pub place: Place,
    /// Who.
    pub executor: Executor,
}

/// What kind of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The task said so.
    Error,
    /// The task took longer than its timeout and was killed.
    Timeout,
    /// The executor died, or lost the attempt, while the task ran.
    Crashed,
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Failure {
    /// What kind.
    pub kind: FailureKind,
    /// In words, at most 4 KiB.
    pub message: String,
}

/// The last bytes of what a task printed, bounded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Output {
    /// The end of standard output.
    pub stdout: String,
    /// The end of standard error.
    pub stderr: String,
    /// Bytes that were dropped from both.
    pub dropped: u64,
}

/// The attempt failed and another one is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AttemptFailed {
    /// Where it stands.
    pub place: Place,
    /// Who ran it.
    pub executor: Executor,
    /// Why.
    pub failure: Failure,
    /// The task asks for no retry before this has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Span>,
    /// What it printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
}

/// The shard's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Succeeded {
    /// Where it stands.
    pub place: Place,
    /// Who ran it.
    pub executor: Executor,
    /// What the task returned, bit for bit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    /// What it printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
}

/// The shard has failed for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Failed {
    /// Where it stands.
    pub place: Place,
    /// Who ran it, or found it crashed.
    pub executor: Executor,
    /// Why.
    pub failure: Failure,
    /// What it printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
}

/// The leader has ended a shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Ended {
    /// Where it stands: that of the event before.
    pub place: Place,
    /// The leader's term.
    pub epoch: Epoch,
    /// The cancel's sequence in CRON_COMMANDS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<u64>,
}

/// A run that ended in a final failure; in CRON_DEAD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DeadLetter {
    /// The order that failed.
    pub fired: Fired,
    /// How often it was started.
    pub attempts: u32,
    /// Why it failed.
    pub failure: Failure,
    /// Broker timestamp of the failure.
    pub at: Timestamp,
}

impl LogEvent {
    /// The kinds this binary knows.
    pub const KINDS: [&str; 12] = [
        "job_defined",
        "job_paused",
        "job_resumed",
        "job_deleted",
        "job_revised",
        "fired",
        "held",
        "held_ended",
        "skipped",
        "rejected",
        "cursor",
        "meta",
    ];
}

impl RunEvent {
    /// The kinds this binary knows.
    pub const KINDS: [&str; 8] = [
        "started",
        "interrupted",
        "attempt_failed",
        "succeeded",
        "failed",
        "expired",
        "cancelled",
        "lost",
    ];

    /// Where in the shard's life it stands.
    #[must_use]
    pub const fn place(&self) -> Place {
        match self {
            Self::Started(e) | Self::Interrupted(e) => e.place,
            Self::AttemptFailed(e) => e.place,
            Self::Succeeded(e) => e.place,
            Self::Failed(e) => e.place,
            Self::Expired(e) | Self::Cancelled(e) | Self::Lost(e) => e.place,
        }
    }

    /// Whether it ends its shard, whatever its fire_no.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        match self {
            Self::Started(_) | Self::Interrupted(_) | Self::AttemptFailed(_) => false,
            Self::Succeeded(_) | Self::Failed(_) => true,
            Self::Expired(_) | Self::Cancelled(_) | Self::Lost(_) => true,
        }
    }

    /// The kind, as it is written.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Started(_) => "started",
            Self::Interrupted(_) => "interrupted",
            Self::AttemptFailed(_) => "attempt_failed",
            Self::Succeeded(_) => "succeeded",
            Self::Failed(_) => "failed",
            Self::Expired(_) => "expired",
            Self::Cancelled(_) => "cancelled",
            Self::Lost(_) => "lost",
        }
    }
}

/// An event, or the kind of one that a later version wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded<E> {
    /// An event this binary knows.
    Known(E),
    /// One it does not.
    Unknown {
        /// Its kind, cut to 64 characters.
        kind: String,
    },
}

/// A body that is no event of any version.
#[derive(Debug, thiserror::Error)]
#[error("not an event: {0}")]
pub struct DecodeError(#[from] serde_json::Error);

/// An event as it is stored: one object whose only field is named by the kind.
pub trait Event: Serialize + DeserializeOwned {
    /// The kinds this binary knows.
    const KNOWN: &'static [&'static str];

    /// The event's JSON.
    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("events have string keys only")
    }

    /// Reads an event.
    ///
    /// # Errors
    /// When the body is not an object of one field, or its kind is known and its body is not.
    fn decode(body: &[u8]) -> Result<Decoded<Self>, DecodeError> {
        let error = match serde_json::from_slice(body) {
            Ok(event) => return Ok(Decoded::Known(event)),
            Err(error) => error,
        };
        match &serde_json::from_slice::<Fields<'_>>(body).map(|fields| fields.0).as_deref() {
            Ok([(kind, _)]) if !Self::KNOWN.contains(&kind.as_str()) => {
                Ok(Decoded::Unknown { kind: kind.chars().take(64).collect() })
            }
            _ => Err(error.into()),
        }
    }
}

impl Event for LogEvent {
    const KNOWN: &'static [&'static str] = &Self::KINDS;
}

impl Event for RunEvent {
    const KNOWN: &'static [&'static str] = &Self::KINDS;
}
