//! The orders of a run: what a slot, a trigger or a backfill fires, and its retries.
//!
//! Invariant: a fire is self-contained, and its run id follows from the job's life and the cause alone.

use std::fmt::Write as _;

use cronstream_schemas::definition::JobDefinition;
use cronstream_schemas::event::{Cause, Fired, JobState, LogEvent};
use cronstream_schemas::id::{RunId, RunSeed};

use crate::definition::lifetime;
use crate::draft::{Draft, Order};
use crate::retry;
use crate::schedule::Zone;
use crate::shard::Due;

impl Draft<'_> {
    /// The first fire of a run.
    pub(crate) fn fired(
        &self,
        state: &JobState,
        definition: &JobDefinition,
        order: Order,
    ) -> Fired {
        let Order { cause, scheduled_at, params } = order;
        let seed = match &cause {
            Cause::Slot(slot) => RunSeed::Slot(*slot),
            Cause::Backfill(it) => RunSeed::Backfill(it.slot, it.command),
            Cause::Trigger(trigger) => match &trigger.key {
                Some(key) => RunSeed::Trigger(key),
                None => RunSeed::Command(trigger.command),
            },
        };
        let run = RunId::derive(scheduled_at, &state.job, state.incarnation, seed);
        let now = self.now.wall;
        let run_by = now.plus(lifetime(definition));
        let mut fired = Fired {
            job: state.job.clone(),
            revision: state.revision,
            incarnation: state.incarnation,
            run,
            shard: 0,
            shards: 1,
            fire_no: 1,
            cause,
            scheduled_at,
            fired_at: now,
            queue: definition.queue.clone(),
            task: definition.task.clone(),
            params: params.unwrap_or_else(|| definition.params.clone()),
            timeout: definition.timeout,
            start_by: now.plus(definition.start_within.to_duration()),
            run_by,
            keep_until: run_by.plus(definition.retention.to_duration()),
            retry: retry::policy(definition.max_attempts),
            epoch: self.epoch,
            traceparent: String::new(),
            node: self.node(),
            tzdb: Some(Zone::tzdb_version().into()),
        };
        fired.traceparent = traceparent(&fired, self.settings.trace_ratio.samples(run));
        fired
    }

    /// Fires every shard whose back-off has passed.
    pub(crate) fn retry(&mut self) {
        if self.settings.hold {
            return;
        }
        let base = self.base;
        for (at, id) in &base.timers {
            if *at > self.now.horizon() {
                break;
            }
            let Some(shard) = base.shards.get(id).filter(|_| !base.ending.contains(id)) else {
                continue;
            };
            let (_, Due::Retry) = shard.timer() else { continue };
            if !self.has_room(1, shard.fired.params.as_str().len() + 4 * 1024) {
                break;
            }
            let mut fired = Fired::clone(&shard.fired);
            fired.fire_no += 1;
            fired.fired_at = self.now.wall;
            fired.epoch = self.epoch;
            fired.node = self.node();
            fired.traceparent = traceparent(&fired, shard.fired.is_traced());
            self.emit(LogEvent::Fired(fired));
        }
    }
}

/// The place of a fire's span; whether a run is traced is decided by its first fire.
pub(crate) fn traceparent(fired: &Fired, traced: bool) -> String {
    let context = fired.run.trace_context(fired.id(), traced);
    let mut text = String::with_capacity(64);
    write!(text, "{context}").expect("a string grows");
    text
}
