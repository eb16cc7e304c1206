//! The node's view of the lease bucket, and the keys it holds there.
//!
//! Invariant: a key is trusted only for two thirds of the TTL after its last successful write was sent, by the
//! monotonic clock. One write of a key is in flight at a time.

use std::collections::HashMap;
use std::time::Duration;

use cronstream_bus::{LeaseAnswer, LeaseEvent};
use cronstream_core::lease::{self, Claim};
use cronstream_schemas::id::{Instance, Partition};
use cronstream_schemas::name::Name;
use cronstream_schemas::time::Timestamp;

use crate::desk::{Desk, Write};
use crate::input::Operation;

/// How long a key rests after a write that did not succeed.
const REST: Duration = Duration::from_millis(200);

/// A key that this node holds, or wants.
#[derive(Debug, Clone)]
struct Key {
    instance: Instance,
    /// The revision, while it is held.
    revision: Option<u64>,
    /// When its last successful write was sent.
    sent: Duration,
    busy: bool,
    rest_until: Duration,
    ready: bool,
}

/// What a claim's answer means to its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The key is ours.
    Won,
    /// The key is not ours any more, or somebody else's.
    Lost,
    /// Nothing is known: the bucket may be gone.
    Unclear,
}

#[derive(Debug)]
pub(crate) struct Claims {
    pub(crate) ttl: Duration,
    node: Name,
    view: HashMap<String, (Claim, u64)>,
    synced: bool,
    keys: HashMap<String, Key>,
    /// Partitions that this node has stopped.
    pub(crate) stopped: Vec<Partition>,
}

/// The nodes that are alive and ready, and what each of them has stopped.
#[derive(Debug)]
pub(crate) struct Candidates(Vec<(Name, Vec<Partition>)>);

impl Candidates {
    /// The place of `me` among those that may lead `partition`; 0 is its owner.
    pub(crate) fn rank(&self, partition: Partition, me: &Name) -> usize {
        let may = self.0.iter().filter(|(_, stopped)| !stopped.contains(&partition));
        let names: Vec<Name> = may.map(|(node, _)| node.clone()).collect();
        lease::rank(partition, me, &names)
    }
}

impl Claims {
    pub(crate) fn new(node: Name, ttl: Duration) -> Self {
        Self {
            ttl,
            node,
            view: HashMap::new(),
            synced: false,
            keys: HashMap::new(),
            stopped: Vec::new(),
        }
    }

    /// Folds what the watch tells.
    pub(crate) fn observe(&mut self, event: LeaseEvent) {
        match event {
            LeaseEvent::Restarted => {
                self.view.clear();
                self.synced = false;
            }
            LeaseEvent::Synced => self.synced = true,
            LeaseEvent::Gone { key, revision, .. } => {
                if self.view.get(&key).is_some_and(|(_, held)| *held < revision) {
                    self.view.remove(&key);
                }
            }
            LeaseEvent::Put { key, value, revision } => match Claim::decode(&value) {
                Some(claim) => {
                    self.view.insert(key, (claim, revision));
                }
                None => tracing::warn!(key, "foreign value among the leases"),
            },
        }
    }

    /// Whether the view is complete.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced
    }

    /// Who holds a key, as the watch tells, with its revision.
    pub(crate) fn holder(&self, key: &str) -> Option<&(Claim, u64)> {
        self.view.get(key)
    }

    /// The nodes that may lead.
    pub(crate) fn candidates(&self) -> Candidates {
        let nodes = self
            .view
            .iter()
            .filter(|(key, (claim, _))| claim.ready && **key == lease::node_key(&claim.node));
        let told = |claim: &Claim| (claim.node.clone(), claim.stopped.clone());
        Candidates(nodes.map(|(_, (claim, _))| told(claim)).collect())
    }

    /// Whether this node may act on a key at `now`.
    pub(crate) fn is_trusted(&self, key: &str, now: Duration) -> bool {
        self.keys.get(key).is_some_and(|held| {
            held.revision.is_some() && now.saturating_sub(held.sent) < lease::trust(self.ttl)
        })
    }

    /// Whether a key is held, trusted or not.
    pub(crate) fn holds(&self, key: &str) -> bool {
        self.keys.get(key).is_some_and(|held| held.revision.is_some())
    }

    /// The claim under which a key was asked for last.
    pub(crate) fn instance(&self, key: &str) -> Option<Instance> {
        self.keys.get(key).map(|held| held.instance)
    }

    /// Takes a key that looks free, or does nothing while it rests or a write of it is out.
    pub(crate) fn take(&mut self, desk: &Desk, key: &str, instance: Instance, now: Moment) {
        let rest_until = Duration::ZERO;
        let fresh = Key {
            instance,
            revision: None,
            sent: now.monotonic,
            busy: false,
            rest_until,
            ready: now.ready,
        };
        let held = self.keys.entry(key.to_owned()).or_insert(fresh);
        if held.busy || held.revision.is_some() || held.rest_until > now.monotonic {
            return;
        }
        held.instance = instance;
        held.busy = true;
        held.ready = now.ready;
        let value = self.claim(instance, now).encode();
        desk.claim(Write {
            operation: Operation::Create,
            key: key.to_owned(),
            value,
            revision: 0,
            sent: now.monotonic,
        });
    }

    /// Renews what is due, or what says something else about readiness.
    pub(crate) fn renew(&mut self, desk: &Desk, now: Moment) {
        let due = lease::renewal(self.ttl);
        let mut writes = Vec::new();
        for (name, key) in &mut self.keys {
            let Some(revision) = key.revision.filter(|_| !key.busy) else { continue };
            let stale = now.monotonic.saturating_sub(key.sent) >= due || key.ready != now.ready;
            if stale && key.rest_until <= now.monotonic {
                key.busy = true;
                key.ready = now.ready;
                writes.push((name.clone(), key.instance, revision));
            }
        }
        for (name, instance, revision) in writes {
            let value = self.claim(instance, now).encode();
            desk.claim(Write {
                operation: Operation::Renew,
                key: name,
                value,
                revision,
                sent: now.monotonic,
            });
        }
    }

    /// Gives up a key.
    pub(crate) fn give_up(&mut self, desk: &Desk, key: &str, now: Moment) {
        if let Some(held) = self.keys.get_mut(key).filter(|held| !held.busy) {
            match held.revision.take() {
                Some(revision) => {
                    held.busy = true;
                    desk.claim(Write {
                        operation: Operation::Delete,
                        key: key.to_owned(),
                        value: Vec::new(),
                        revision,
                        sent: now.monotonic,
                    });
                }
                None => {
                    self.keys.remove(key);
                }
            }
        }
    }

    /// Whether no key is held and no write is out.
    pub(crate) fn is_idle(&self) -> bool {
        self.keys.values().all(|key| key.revision.is_none() && !key.busy)
    }

    /// Folds the answer to a write.
    pub(crate) fn answered(
        &mut self,
        key: &str,
        (operation, sent): (Operation, Duration),
        answer: &LeaseAnswer,
        now: Duration,
    ) -> Outcome {
        let Some(held) = self.keys.get_mut(key) else { return Outcome::Lost };
        held.busy = false;
        match (operation, answer) {
            (Operation::Delete, _) => {
                self.keys.remove(key);
                Outcome::Lost
            }
            (_, LeaseAnswer::Won { revision }) => {
                held.revision = Some(*revision);
                held.sent = sent;
                held.rest_until = Duration::ZERO;
                Outcome::Won
            }
            (Operation::Renew, LeaseAnswer::Lost) => {
                held.revision = None;
                Outcome::Lost
            }
            (Operation::Create, LeaseAnswer::Lost) => {
                held.rest_until = now + REST;
                self.adopt(key);
                if self.holds(key) { Outcome::Won } else { Outcome::Lost }
            }
            (Operation::Create | Operation::Renew, answer) => {
                tracing::debug!(key, ?answer, "lease not written");
                held.rest_until = now + REST;
                Outcome::Unclear
            }
        }
    }

    /// A create whose answer was lost may have succeeded: the watch tells.
    fn adopt(&mut self, key: &str) {
        let Some((claim, revision)) = self.view.get(key) else { return };
        if let Some(held) = self.keys.get_mut(key).filter(|held| held.instance == claim.instance) {
            held.revision = Some(*revision);
        }
    }

    fn claim(&self, instance: Instance, now: Moment) -> Claim {
        Claim {
            node: self.node.clone(),
            instance,
            expires_at: now.wall.plus(self.ttl),
            ready: now.ready,
            stopped: self.stopped.clone(),
        }
    }
}

/// When a claim is written, and what it says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) wall: Timestamp,
    pub(crate) monotonic: Duration,
    pub(crate) ready: bool,
}
