//! What the node says of itself when `status` asks.

use cronstream_schemas::id::{Epoch, Tick};
use cronstream_schemas::status::{NodeStatus, PartitionStatus, Role, TickerStatus};
use cronstream_schemas::time::Timestamp;

use crate::node::Node;
use crate::seat::{Seat, Stage};

/// The node's status now.
pub(crate) fn status(node: &Node) -> NodeStatus {
    let now = node.clock.wall();
    NodeStatus {
        node: node.options.node.clone(),
        instance: node.instance,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        not_ready: not_ready(node),
        role: Role::Ticker(TickerStatus {
            hold: node.settings.hold,
            clock_ahead_ms: node.guard.ahead_ms(now, node.clock.monotonic()),
            partitions: node.seats.iter().map(|seat| partition(seat, now)).collect(),
            spans: Some(node.spans.counters()),
        }),
    }
}

/// A status as it is answered.
pub(crate) fn encode(status: &NodeStatus) -> Vec<u8> {
    serde_json::to_vec(status).unwrap_or_default()
}

fn not_ready(node: &Node) -> Vec<String> {
    let mut reasons: Vec<String> = node.unready().map(str::to_owned).into_iter().collect();
    for seat in &node.seats {
        let number = seat.partition.number.0;
        if let Stage::Stopped { why } = &seat.stage {
            reasons.push(format!("partition {number} is stopped: {why}"));
        }
        if let Some(why) = &seat.stuck {
            reasons.push(format!("partition {number} cannot write: {why}"));
        }
        let leads = matches!(seat.stage, Stage::Leading(_));
        if leads && !node.claims.is_trusted(&seat.key(), node.clock.monotonic()) {
            reasons.push(format!("partition {number} waits: its lease is not renewed"));
        }
    }
    reasons
}

fn partition(seat: &Seat, now: Timestamp) -> PartitionStatus {
    let partition = &seat.partition;
    let cursor = partition.cursor();
    let stopped = match &seat.stage {
        Stage::Stopped { why } => Some(why.clone()),
        Stage::Standby | Stage::Surveying { .. } | Stage::TakingOver { .. } | Stage::Leading(_) => {
            None
        }
    };
    PartitionStatus {
        partition: partition.number,
        leading: matches!(seat.stage, Stage::Leading(_)),
        epoch: cursor.map_or(Epoch(0), |cursor| cursor.epoch),
        tick: cursor.map_or(Tick(0), |cursor| cursor.tick),
        decided_through: partition.decided_through(now),
        commands_through: partition.commands_through(),
        commands_waiting: partition.commands_waiting() as u64,
        jobs: partition.defined() as u64,
        live_runs: partition.shards().count() as u64,
        stopped,
    }
}
