//! Events of CRON_RUNS and CRON_DEAD: what became of a shard.
//!
//! Invariant: every event repeats fire_no, delivery and attempt, so that the last one of a shard tells its whole
//! standing. The first terminal event wins.

use serde::{Deserialize, Serialize};

use super::{Event, Fired};
use crate::duration::Span;
use crate::id::{Epoch, Instance};
use crate::json::Json;
use crate::name::Name;
use crate::time::Timestamp;

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
    #[serde(
        default,
        deserialize_with = "crate::json::present",
        skip_serializing_if = "Option::is_none"
    )]
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

impl Event for RunEvent {
    const KNOWN: &'static [&'static str] = &Self::KINDS;
}
