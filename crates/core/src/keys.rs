//! Trigger keys: which run a client's key has already made.
//!
//! Invariant: a key is known for at least max(retention, 7 days) after its run was fired (`design.md` §4).

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use cronstream_schemas::event::Fired;
use cronstream_schemas::id::{Incarnation, RunId};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use xxhash_rust::xxh3::xxh3_128;

/// The shortest time that a key is known.
pub(crate) const KEY_MIN: Duration = Duration::from_secs(7 * 86_400);

/// Until when the record of a trigger must be kept.
#[must_use]
pub(crate) fn keep_until(fired: &Fired) -> Timestamp {
    fired.keep_until.max(fired.fired_at.plus(KEY_MIN))
}

/// A key's place in the table.
pub(crate) type KeyHash = u128;

/// The hash of a job's key in one incarnation.
pub(crate) fn hash(job: &JobId, incarnation: Incarnation, key: &str) -> KeyHash {
    xxh3_128(format!("{job}/{}/{key}", incarnation.0).as_bytes())
}

/// The keys of a partition.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keys {
    runs: HashMap<KeyHash, RunId>,
    expiry: BTreeSet<(Timestamp, KeyHash)>,
}

impl Keys {
    pub(crate) fn insert(
        &mut self,
        job: &JobId,
        incarnation: Incarnation,
        key: &str,
        fired: &Fired,
    ) {
        let hash = hash(job, incarnation, key);
        if self.runs.insert(hash, fired.run).is_none() {
            self.expiry.insert((keep_until(fired), hash));
        }
    }

    pub(crate) fn get(&self, hash: KeyHash) -> Option<RunId> {
        self.runs.get(&hash).copied()
    }

    pub(crate) fn forget_before(&mut self, now: Timestamp) {
        while let Some((until, hash)) = self.expiry.first().copied().filter(|(at, _)| *at < now) {
            self.expiry.remove(&(until, hash));
            self.runs.remove(&hash);
        }
    }
}
