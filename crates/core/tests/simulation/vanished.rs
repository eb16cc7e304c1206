//! Fires that vanished with their lifetime before a cursor passed them.
//!
//! Invariant: such a slot is never fired again; that it is told to be skipped instead is the one contradiction that
//! a log may hold (`docs/adr/0007-a-fire-by-itself.md`).

use std::sync::Arc;
use std::time::Duration;

use cronstream_schemas::event::{Cause, Skipped, SkippedWhat};
use cronstream_schemas::time::Timestamp;

use crate::checker::Checker;

/// How far clocks and whole seconds may move the end of a lifetime.
const ERROR: Duration = Duration::from_secs(5);

impl Checker {
    /// Forgets the outcome of slots whose fires are gone and that are skipped as missed.
    pub(crate) fn forget_vanished(&mut self, at: Timestamp, skipped: &Skipped) {
        let fires = self.shards.values().map(|shard| &shard.fired);
        let whose = (&skipped.job, skipped.incarnation);
        let gone = fires.filter(|fired| {
            (&fired.job, fired.incarnation) == whose && fired.keep_until <= at.plus(ERROR)
        });
        let SkippedWhat::Slots { first, last, .. } = skipped.what else { return };
        let slots = gone.filter_map(|fired| match fired.cause {
            Cause::Slot(slot) if (first..=last).contains(&slot) => Some((fired.incarnation, slot)),
            Cause::Slot(_) | Cause::Trigger(_) | Cause::Backfill(_) => None,
        });
        if let Some(job) = self.jobs.get_mut(&skipped.job).map(Arc::make_mut) {
            slots.for_each(|slot| {
                job.decided.remove(&slot);
            });
        }
    }
}
