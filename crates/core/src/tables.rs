//! What a draft looks things up in while it is planned.
//!
//! Invariant: a table has what the batch changes, and nothing else; it is empty between drafts.

use std::collections::HashMap;

use cronstream_schemas::event::{Cause, Fired};
use cronstream_schemas::name::JobId;

use crate::draft::Draft;
use crate::held::Live;
use crate::job::Job;
use crate::turn::EVENTS_MAX;

/// As much room is taken at once for the bodies of many events.
const BODIES_BYTES: usize = 64 * 1024;

/// The tables of a draft. One draft leaves them to the next: to make large ones anew each time took a tenth of what a
/// node does in a burst, for memory that the system clears first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tables {
    /// The jobs that the batch touches.
    pub(crate) jobs: HashMap<JobId, Job>,
    /// The runs that it begins.
    pub(crate) fired: HashMap<JobId, Live>,
}

impl Tables {
    /// Leaves them to the next draft.
    pub(crate) fn emptied(mut self) -> Self {
        self.jobs.clear();
        self.fired.clear();
        self
    }
}

impl Draft<'_> {
    pub(crate) fn job(&self, id: &JobId) -> Option<&Job> {
        self.tables.jobs.get(id).or_else(|| self.base.job(id))
    }

    pub(crate) fn is_live(&self, id: &JobId) -> bool {
        self.tables.fired.contains_key(id) || self.base.live.of(id).is_some()
    }

    /// Makes room for as many events as a batch may have.
    pub(crate) fn make_room(&mut self) {
        let more = EVENTS_MAX - self.plans.events.len();
        self.plans.events.reserve_exact(more);
        self.tables.jobs.reserve(more);
        self.tables.fired.reserve(more);
        self.room.reserve(BODIES_BYTES);
    }

    pub(crate) fn count_fired(&mut self, fired: &Fired) {
        if fired.fire_no > 1 {
            return;
        }
        self.begin(fired);
        let of_range = self.held(&fired.job).is_some_and(|waiting| waiting.is_of_range(fired))
            || matches!(fired.cause, Cause::Backfill(_));
        let live = self.tables.fired.entry(fired.job.clone()).or_default();
        live.all += 1;
        live.of_range += u32::from(of_range);
    }

    pub(crate) fn with_job(&mut self, id: &JobId, change: impl FnOnce(&mut Job)) {
        if let Some(job) = self.tables.jobs.get_mut(id) {
            change(job);
        } else if let Some(mut job) = self.base.job(id).cloned() {
            change(&mut job);
            self.tables.jobs.insert(id.clone(), job);
        }
    }
}
