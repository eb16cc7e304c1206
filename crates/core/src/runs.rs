//! Fires and the ends of their shards, as the fold has them.
//!
//! Invariant: a shard is live from its first fire until its terminal event, or until its records have vanished; the
//! counts and the indices that depend on live runs move with it.

use std::sync::Arc;

use cronstream_schemas::event::{Cause, DeadLetter, Fired, JobState};
use cronstream_schemas::id::ShardId;
use cronstream_schemas::name::JobId;
use cronstream_schemas::subject::RunKey;
use cronstream_schemas::time::Timestamp;

use crate::job::Job;
use crate::live::OfJob;
use crate::partition::{Partition, PendingDead};
use crate::plan::Plan;
use crate::shard::{LastEvent, LastKind, Shard};

impl Partition {
    pub(crate) fn apply_fired(&mut self, mut fired: Fired) {
        self.unpassed = self.unpassed.max(Some(fired.fired_at));
        let state = self.jobs.get(&fired.job).map(|job| &*job.state);
        self.live.share(&mut fired, state);
        let fired = &Arc::new(fired);
        match &fired.cause {
            Cause::Backfill(_) => {}
            Cause::Slot(slot) => self.decide_through(&fired.job, fired.incarnation, *slot),
            Cause::Trigger(trigger) => {
                if let Some(key) = &trigger.key {
                    self.keys.insert(&fired.job, fired.incarnation, key, fired);
                }
            }
        }
        let id = fired.shard_id();
        if let Some(shard) = self.shards.get_mut(&id) {
            let before = Arc::clone(&shard.fired);
            shard.apply_fired(fired);
            let newest = Arc::clone(&shard.fired);
            let params = self.params_in_force(&fired.job).cloned();
            self.live.fire_again(&before, &newest, params.as_ref());
            self.index_shard(id);
            return;
        }
        if fired.fire_no > 1 {
            // Its shard has ended: nothing is live. Where the end was folded before the fire it ended, the
            // dead letter still names an older one.
            let dead = self.dead.values_mut().find(|dead| dead.key.shard == id);
            if let Some(dead) = dead.filter(|dead| dead.letter.fired.fire_no < fired.fire_no) {
                dead.letter.fired = Fired::clone(fired);
            }
            return;
        }
        if self.unfired == Some(id) {
            self.unfired = None;
        }
        self.serve(fired);
        let mut shard = Box::new(Shard::new(Arc::clone(fired)));
        let ended = self.early.take(id).is_some_and(|last| shard.apply_event(last));
        let job = self.jobs.get_mut(&fired.job);
        let definition = job.as_ref().and_then(|job| job.state.definition.as_ref());
        self.live.begin(fired, definition.map(|definition| &definition.params));
        let counts = job.is_some_and(|job| {
            job.running += u32::from(is_of_slot(&shard));
            job.plan.as_ref().is_some_and(Plan::is_fixed_delay)
        });
        self.shards.insert(id, shard);
        if ended {
            self.end_shard(id);
            return;
        }
        self.index_shard(id);
        self.index_held(&fired.job);
        if counts {
            self.index_job(&fired.job);
        }
    }

    pub(crate) fn end_shard(&mut self, id: ShardId) {
        let Some(shard) = self.shards.get(&id) else { return };
        if let Some(LastEvent { seq, at, place, kind: LastKind::Failed(failure) }) = &shard.last {
            let dead_through = self.cursor.as_ref().map_or(0, |cursor| cursor.dead_through);
            if *seq > dead_through {
                let fired = Fired::clone(&shard.fired);
                let (queue, job) = (fired.queue.clone(), fired.job.clone());
                let letter = DeadLetter {
                    fired,
                    attempts: place.attempt,
                    failure: failure.clone(),
                    at: *at,
                };
                let key = RunKey { queue, job, shard: id };
                self.dead.insert(*seq, PendingDead { key, letter });
            }
        }
        if let (true, Some(LastEvent { at, .. })) = (is_of_slot(shard), &shard.last) {
            let ended = match self.jobs.get_mut(&shard.fired.job) {
                Some(job) => &mut job.ended,
                None => self.ends.entry(shard.fired.job.clone()).or_insert(*at),
            };
            *ended = (*ended).max(*at);
        }
        self.drop_shard(id);
    }

    pub(crate) fn drop_shard(&mut self, id: ShardId) {
        let Some(shard) = self.shards.remove(&id) else { return };
        if let Some(at) = shard.indexed {
            self.timers.remove(&(at, id));
        }
        let job = &shard.fired.job;
        self.live.end(&shard.fired);
        if let (true, Some(job)) = (is_of_slot(&shard), self.jobs.get_mut(job)) {
            job.running = job.running.saturating_sub(1);
        }
        self.index_runs(job);
    }

    /// What a job's runs may let go on: what waits for their end, and a fixed delay.
    fn index_runs(&mut self, job: &JobId) {
        self.index_held(job);
        let counts = |job: &Job| job.plan.as_ref().is_some_and(Plan::is_fixed_delay);
        if self.job(job).is_some_and(counts) {
            self.index_job(job);
        }
    }

    pub(crate) fn index_shard(&mut self, id: ShardId) {
        let (true, Some(shard)) = (self.is_leading(), self.shards.get_mut(&id)) else { return };
        if let Some(old) = shard.indexed {
            self.timers.remove(&(old, id));
        }
        let (at, _) = shard.timer();
        shard.indexed = Some(at);
        self.timers.insert((at, id));
    }

    /// A job whose newest state may stand behind fires that it owes nothing for any more.
    pub(crate) fn first_state(&mut self, state: &Arc<JobState>) -> Job {
        let shards = self.live.of(&state.job).map_or(&[][..], OfJob::shards).iter();
        let of_slots =
            shards.filter_map(|id| self.shards.get(id)).filter(|shard| is_of_slot(shard));
        let running = u32::try_from(of_slots.count()).unwrap_or(u32::MAX);
        let ended = self.ends.remove(&state.job).unwrap_or(Timestamp::MIN);
        Job { running, ended, ..Job::new(state, &self.calendars) }
    }
}

fn is_of_slot(shard: &Shard) -> bool {
    matches!(shard.fired.cause, Cause::Slot(_))
}
