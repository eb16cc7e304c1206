//! Run events that are read before the fire they belong to.
//!
//! Invariant: at most [`EARLY_MAX`] entries once the log is read to its head; while it is being read, one for
//! each shard that CRON_RUNS still tells of.

use std::collections::HashMap;
use std::time::Duration;

use cronstream_schemas::id::ShardId;
use cronstream_schemas::name::JobId;
use cronstream_schemas::subject::RunKey;
use cronstream_schemas::time::Timestamp;

use crate::shard::LastEvent;

/// The most entries that are kept once the log is read to its head.
pub(crate) const EARLY_MAX: usize = 100_000;
/// How long an event may wait for its fire: the two streams are read side by side, never this far apart.
pub(crate) const EARLY_FOR: Duration = Duration::from_secs(60);

/// How often a full table looks for what has waited too long: a look walks all of it.
const PRUNE_EVERY: Duration = Duration::from_secs(1);

/// The newest event of each shard whose fire is not folded yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Early {
    events: HashMap<ShardId, (JobId, LastEvent)>,
    bounded: bool,
    newest: Timestamp,
    pruned: Timestamp,
}

impl Early {
    pub(crate) fn insert(&mut self, key: &RunKey, event: LastEvent) {
        self.newest = self.newest.max(event.at);
        if self.bounded && self.events.len() >= EARLY_MAX {
            if self.newest.since(self.pruned) >= PRUNE_EVERY {
                self.prune(self.newest);
            }
            if self.events.len() >= EARLY_MAX {
                return;
            }
        }
        match self.events.get(&key.shard) {
            Some((_, old)) if old.seq >= event.seq => {}
            Some(_) | None => {
                self.events.insert(key.shard, (key.job.clone(), event));
            }
        }
    }

    pub(crate) fn shards(&self) -> impl Iterator<Item = (&JobId, ShardId)> {
        self.events.iter().map(|(shard, (job, _))| (job, *shard))
    }

    pub(crate) fn take(&mut self, shard: ShardId) -> Option<LastEvent> {
        self.events.remove(&shard).map(|(_, event)| event)
    }

    /// Drops what has waited too long at `now`.
    pub(crate) fn prune(&mut self, now: Timestamp) {
        self.bounded = true;
        self.pruned = now;
        self.events.retain(|_, (_, event)| now.since(event.at) < EARLY_FOR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::LastKind;
    use cronstream_schemas::definition::defaults;
    use cronstream_schemas::event::Place;
    use cronstream_schemas::id::RunId;

    fn event(seq: u64, at: Timestamp) -> (RunKey, LastEvent) {
        let run = RunId(uuid::Uuid::from_u128(u128::from(seq)));
        let shard = ShardId { run, shard: 0 };
        let key = RunKey { queue: defaults::queue(), job: "a/b".parse().unwrap(), shard };
        (key, LastEvent { seq, at, place: Place::default(), kind: LastKind::Running })
    }

    #[test]
    fn forged_run_ids_do_not_grow_the_fold_without_bound() {
        let mut early = Early::default();
        early.prune(Timestamp::MIN);
        let at = Timestamp::from_millis(1);
        for n in 0..2 * EARLY_MAX as u64 {
            let (key, event) = event(n, at);
            early.insert(&key, event);
        }
        assert_eq!(early.events.len(), EARLY_MAX);
        // Once the flood has waited too long there is room again.
        let (key, event) = event(u64::MAX, at.plus(EARLY_FOR));
        early.insert(&key, event.clone());
        assert_eq!(early.events.len(), 1);
        assert_eq!(early.take(key.shard), Some(event));
    }
}
