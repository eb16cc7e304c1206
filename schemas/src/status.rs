//! What a node says of itself when `status` and `doctor` ask.
//!
//! Invariant: a status is a report, never a base for decisions; it holds no secret.

use serde::{Deserialize, Serialize};

use crate::id::{Epoch, Instance, Partition, Tick};
use crate::name::Name;
use crate::time::Timestamp;

/// One node's report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NodeStatus {
    /// The node's name.
    pub node: Name,
    /// The process.
    pub instance: Instance,
    /// The version of the binary.
    pub version: String,
    /// Why it cannot do its work; empty when it is ready.
    pub not_ready: Vec<String>,
    /// What it does.
    pub role: Role,
}

/// What a node does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It leads partitions, or stands by.
    Ticker(TickerStatus),
    /// It runs tasks.
    Executor(ExecutorStatus),
    /// It hands spans on to a collector.
    Relay(RelayStatus),
}

/// What a node counts of the spans it makes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct SpanCounters {
    /// Spans that are stored in CRON_TRACES.
    pub published: u64,
    /// Spans that are lost: the queue was full, or the broker did not take them.
    pub dropped: u64,
}

/// A relay's report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RelayStatus {
    /// The collector, without a login.
    pub collector: String,
    /// Batches that wait in CRON_TRACES; absent before they were counted first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// Counted since its start.
    pub counters: RelayCounters,
}

/// What a relay counts.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct RelayCounters {
    /// Batches that the collector took.
    pub batches: u64,
    /// Spans in them.
    pub spans: u64,
    /// Spans that the collector took the batch of, but not these.
    pub rejected_spans: u64,
    /// Batches that are lost: the collector refused them for good, or they were none.
    pub dropped_batches: u64,
    /// Tries that failed and are made again.
    pub failures: u64,
}

/// A ticker's report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TickerStatus {
    /// Whether it folds and accounts but fires nothing.
    pub hold: bool,
    /// How far its clock is ahead of the broker's, in milliseconds; absent before the first sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead_ms: Option<i64>,
    /// Every partition as this node sees it.
    pub partitions: Vec<PartitionStatus>,
    /// Its spans; absent where an older version tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spans: Option<SpanCounters>,
}

/// A partition as one ticker sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PartitionStatus {
    /// The partition.
    pub partition: Partition,
    /// Whether this node leads it.
    pub leading: bool,
    /// The newest term folded.
    pub epoch: Epoch,
    /// The newest batch folded.
    pub tick: Tick,
    /// Every slot up to here is decided.
    pub decided_through: Timestamp,
    /// Every command up to this sequence is applied.
    pub commands_through: u64,
    /// Commands of this partition that are read and not applied.
    pub commands_waiting: u64,
    /// Jobs that are not deleted.
    pub jobs: u64,
    /// Runs without a result.
    pub live_runs: u64,
    /// Why the partition is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

/// An executor's report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ExecutorStatus {
    /// Its queue.
    pub queue: Name,
    /// The tasks it knows.
    pub tasks: Vec<Name>,
    /// How many attempts it runs at once.
    pub concurrency: u32,
    /// How many it runs now.
    pub running: u32,
    /// Whether it is finishing and takes nothing new.
    pub draining: bool,
    /// Counted since its start.
    pub counters: ExecutorCounters,
    /// Its spans; absent where an older version tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spans: Option<SpanCounters>,
}

/// What an executor counts.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct ExecutorCounters {
    /// Attempts begun.
    pub started: u64,
    /// Shards ended with a result.
    pub succeeded: u64,
    /// Attempts that failed with another one left.
    pub attempt_failed: u64,
    /// Shards ended in a final failure.
    pub failed: u64,
    /// Attempts given back by a drain.
    pub interrupted: u64,
    /// Starts and results the store refused because another executor, or the leader, was first.
    pub refused: u64,
    /// Fires that were already over when they were delivered.
    pub stale: u64,
    /// Attempts that ended after their run's hard end.
    pub late: u64,
    /// Deliveries whose task this executor does not know.
    pub unknown_task: u64,
}
