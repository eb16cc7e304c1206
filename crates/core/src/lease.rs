//! Who should lead which partition: rendezvous hashing over the nodes that are alive and ready.
//!
//! Invariant: a lease only saves wasted work. Nothing here proves leadership; the cursor does. Two nodes with
//! the same view agree on every owner, and a partition whose owner does not act is taken by the next in rank.

use std::time::Duration;

use cronstream_schemas::id::{Instance, Partition};
use cronstream_schemas::name::Name;
use cronstream_schemas::time::Timestamp;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

/// The value of a key of CRON_LEASES.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who holds it.
    pub node: Name,
    /// Which process, new at every takeover attempt.
    pub instance: Instance,
    /// When it expires by the holder's clock; for people, never compared.
    pub expires_at: Timestamp,
    /// Whether a node can lead: it has read the streams to their heads and trusts its clock.
    pub ready: bool,
    /// Partitions that the node has stopped and leaves to others.
    pub stopped: Vec<Partition>,
}

impl Claim {
    /// The claim's JSON.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self { node, instance, expires_at, ready, stopped } = self;
        let stopped: Vec<u8> = stopped.iter().map(|partition| partition.0).collect();
        serde_json::json!({
            "node": node.as_str(),
            "instance": instance.to_string(),
            "expires_at": expires_at.to_string(),
            "ready": ready,
            "stopped": stopped,
        })
        .to_string()
        .into_bytes()
    }

    /// Reads a claim; `None` when it is none of ours.
    #[must_use]
    pub fn decode(body: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(body).ok()?;
        let stopped = value.get("stopped").and_then(Value::as_array).into_iter().flatten();
        let number = |value: &Value| Some(Partition(u8::try_from(value.as_u64()?).ok()?));
        Some(Self {
            node: Name::parse(value.get("node")?.as_str()?).ok()?,
            instance: Instance(uuid::Uuid::parse_str(value.get("instance")?.as_str()?).ok()?),
            expires_at: value.get("expires_at")?.as_str()?.parse().ok()?,
            ready: value.get("ready")?.as_bool()?,
            stopped: stopped.filter_map(number).collect(),
        })
    }
}

/// The key of a partition's lease.
#[must_use]
pub fn partition_key(partition: Partition) -> String {
    format!("partition.{}", partition.0)
}

/// The key of a node's claim to its name.
#[must_use]
pub fn node_key(node: &Name) -> String {
    format!("node.{node}")
}

/// The place of `me` in the order in which the ready nodes should lead `partition`; 0 is its owner.
#[must_use]
pub fn rank(partition: Partition, me: &Name, ready: &[Name]) -> usize {
    let weight =
        |node: &Name| (xxh3_64(format!("{node}/{}", partition.0).as_bytes()), node.clone());
    let mine = weight(me);
    ready.iter().filter(|node| *node != me && weight(node) > mine).count()
}

/// How long a node of this rank waits before it takes a free partition.
#[must_use]
pub fn patience(rank: usize, lease_ttl: Duration) -> Duration {
    lease_ttl / 2 * u32::try_from(rank.min(64)).expect("at most 64")
}

/// How long after a renewal was sent its holder may act on it: two thirds of the TTL.
#[must_use]
pub fn trust(lease_ttl: Duration) -> Duration {
    lease_ttl / 3 * 2
}

/// How often a lease is renewed: a third of the TTL.
#[must_use]
pub fn renewal(lease_ttl: Duration) -> Duration {
    lease_ttl / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<Name> {
        (0..count).map(|n| Name::parse(&format!("ticker-{n}")).unwrap()).collect()
    }

    #[test]
    fn every_partition_has_exactly_one_owner_and_a_full_order() {
        let nodes = names(5);
        for p in 0..32 {
            let mut ranks: Vec<_> =
                nodes.iter().map(|node| rank(Partition(p), node, &nodes)).collect();
            ranks.sort_unstable();
            assert_eq!(ranks, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn a_node_that_leaves_moves_only_its_own_partitions() {
        let (before, after) = (names(4), names(3));
        let owner = |p, nodes: &[Name]| {
            nodes.iter().find(|node| rank(Partition(p), node, nodes) == 0).unwrap().clone()
        };
        for p in 0..32 {
            if owner(p, &before) != before[3] {
                assert_eq!(owner(p, &before), owner(p, &after));
            }
        }
    }

    #[test]
    fn a_claim_survives_its_json_and_foreign_values_are_no_claims() {
        let claim = Claim {
            node: Name::parse("a").unwrap(),
            instance: Instance(uuid::Uuid::from_u128(7)),
            expires_at: Timestamp::from_millis(1),
            ready: true,
            stopped: vec![Partition(0), Partition(31)],
        };
        assert_eq!(Claim::decode(&claim.encode()), Some(claim));
        for foreign in ["", "{}", "[]", r#"{"node":"a.b"}"#, "\u{0}"] {
            assert_eq!(Claim::decode(foreign.as_bytes()), None);
        }
    }
}
