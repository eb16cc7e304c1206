//! What a stored batch adds to the counters.
//!
//! Invariant: counted once, when the batch's fate is certain.

use std::collections::BTreeMap;

use cronstream_core::turn::Batch;
use cronstream_schemas::event::{LogEvent, SkipReason, SkippedWhat};
use cronstream_schemas::name::{JobId, Name};
use cronstream_telemetry::metrics::TickerMetrics;

/// Orders by queue, and slots that do not fire.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    fires: BTreeMap<Name, u64>,
    skips: Vec<(JobId, SkipReason, u64)>,
}

impl Tally {
    pub(crate) fn of(batch: &Batch) -> Self {
        let mut tally = Self::default();
        for planned in &batch.events {
            if let LogEvent::Fired(fired) = &planned.event {
                *tally.fires.entry(fired.queue.clone()).or_default() += 1;
            } else if let LogEvent::Skipped(skipped) = &planned.event
                && let SkippedWhat::Slots { count, .. } = skipped.what
            {
                tally.skips.push((skipped.job.clone(), skipped.reason, count));
            }
        }
        tally
    }

    pub(crate) fn count(&self, metrics: &TickerMetrics) {
        self.fires.iter().for_each(|(queue, count)| metrics.fired(queue, *count));
        self.skips.iter().for_each(|(job, reason, count)| metrics.skipped(job, *reason, *count));
    }
}
