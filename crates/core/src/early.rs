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

/// The newest event of each shard whose fire is not folded yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Early {
    events: HashMap<ShardId, (JobId, LastEvent)>,
    bounded: bool,
    newest: Timestamp,
}

impl Early {
    pub(crate) fn insert(&mut self, key: &RunKey, event: LastEvent) {
        self.newest = self.newest.max(event.at);
        if self.bounded && self.events.len() >= EARLY_MAX {
            self.prune(self.newest);
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

    #[test]
    fn forged_run_ids_do_not_grow_the_fold_without_bound() {
        let mut early = Early::default();
        early.prune(Timestamp::MIN);
        let job: JobId = "a/b".parse().unwrap();
        for n in 0..(EARLY_MAX as u64 + 1_000) {
            let run = RunId(uuid::Uuid::from_u128(u128::from(n)));
            let at = Timestamp::from_millis(1);
            let event = LastEvent { seq: n, at, place: Place::default(), kind: LastKind::Running };
            let key = RunKey {
                queue: defaults::queue(),
                job: job.clone(),
                shard: ShardId { run, shard: 0 },
            };
            early.insert(&key, event);
        }
        assert_eq!(early.events.len(), EARLY_MAX);
    }
}
