//! What a run did, and which run of the job was before a slot.
//!
//! Invariant: ids of runs are made of their slots, so a run is found by its subject and no log is walked for it.

use cronstream_bus::StoredMessage;
use cronstream_core::plan::Plan;
use cronstream_schemas::event::{Decoded, Event as _, Fired, LogEvent, RunEvent};
use cronstream_schemas::id::{Incarnation, RunId, RunSeed, ShardId};
use cronstream_schemas::name::Name;
use cronstream_schemas::subject::RunKey;
use cronstream_schemas::time::Timestamp;

use super::{CLOCKS_DIFFER, READS_MAX, Reader, SUBJECT_MAX, decode, stored};
use crate::error::Error;
use crate::explain::facts::{Before, Stored};
use crate::history::key_of;

impl Reader<'_> {
    /// The events of the shard that a fire orders.
    pub(super) async fn run_events(
        &self,
        first: &Stored<Fired>,
    ) -> Result<Vec<Stored<RunEvent>>, Error> {
        let names = self.bus.names();
        let subject = names.prefix().run(&key_of(&first.what));
        let mut events = Vec::new();
        let from = first.at.minus(CLOCKS_DIFFER).as_millis();
        let Some(last) = self.bus.last_from_leader(&names.runs, &subject).await? else {
            return Ok(events);
        };
        // From one event of the shard to the next lies what others did meanwhile: the last one is known already.
        let mut total = 0;
        self.bus.subjects(&names.runs, &subject, |_, count| total = count).await?;
        let mut read = 0;
        self.each(&names.runs, (&subject, from), SUBJECT_MAX, |message| {
            read += 1;
            if message.seq < last.seq {
                events.extend(run_event(message));
            }
            message.seq >= last.seq || read + 1 >= total
        })
        .await?;
        events.extend(run_event(&last));
        Ok(events)
    }

    /// The newest fire of the job, with the end of its run.
    pub(super) async fn last_fire(&self, queue: &Name) -> Result<Option<Before>, Error> {
        let names = self.bus.names();
        let subject = names.prefix().fire(queue, &self.newest.job);
        let last = self.bus.last_from_leader(&names.log, &subject).await?;
        match last.as_ref().and_then(fire) {
            Some(fire) => self.before(&fire.what).await.map(Some),
            None => Ok(None),
        }
    }

    /// The run that a slot found live. Ids of runs are made of their slots, so each earlier slot is one look.
    pub(super) async fn run_before(
        &self,
        queue: &Name,
        slot: Timestamp,
        (plan, incarnation): (&Plan, Incarnation),
    ) -> Result<Option<Before>, Error> {
        let names = self.bus.names();
        let job = &self.newest.job;
        let mut earlier = slot;
        for _ in 0..READS_MAX {
            let Some(before) = plan.prev(earlier) else { return Ok(None) };
            earlier = before;
            let run = RunId::derive(earlier, job, incarnation, RunSeed::Slot(earlier));
            let shard = ShardId { run, shard: 0 };
            let key = RunKey { queue: queue.clone(), job: job.clone(), shard };
            let last = self.bus.last_from_leader(&names.runs, &names.prefix().run(&key)).await?;
            if let Some(last) = last {
                return Ok(Some(Before { run, slot: earlier, leader: None, ended: end(&last) }));
            }
        }
        Ok(None)
    }

    /// The run before a slot with the leader that ordered it: its fire lies right behind its own slot.
    pub(super) async fn fire_before(
        &self,
        queue: &Name,
        slot: Timestamp,
        (plan, incarnation): (&Plan, Incarnation),
    ) -> Result<Option<Before>, Error> {
        let names = self.bus.names();
        let found = self.run_before(queue, slot, (plan, incarnation)).await?;
        let Some(mut before) = found else { return Ok(None) };
        let subject = names.prefix().fire(queue, &self.newest.job);
        for from in [before.slot, before.slot.minus(CLOCKS_DIFFER)] {
            let from = from.as_millis();
            let next = self.bus.next_since(&names.log, from, &subject).await?;
            let fire = next.as_ref().and_then(fire).filter(|it| it.what.run == before.run);
            if let Some(fire) = fire {
                before.leader = Some((fire.what.node, fire.what.epoch));
                break;
            }
        }
        Ok(Some(before))
    }

    async fn before(&self, fired: &Fired) -> Result<Before, Error> {
        let names = self.bus.names();
        let subject = names.prefix().run(&key_of(fired));
        let last = self.bus.last_from_leader(&names.runs, &subject).await?;
        Ok(Before {
            run: fired.run,
            slot: fired.scheduled_at,
            leader: Some((fired.node.clone(), fired.epoch)),
            ended: last.as_ref().and_then(end),
        })
    }
}

pub(super) fn fire(message: &StoredMessage) -> Option<Stored<Fired>> {
    let LogEvent::Fired(fired) = decode(message)? else { return None };
    Some(stored(message, fired))
}

fn run_event(message: &StoredMessage) -> Option<Stored<RunEvent>> {
    match RunEvent::decode(&message.payload) {
        Ok(Decoded::Known(event)) => Some(stored(message, event)),
        Ok(Decoded::Unknown { .. }) | Err(_) => None,
    }
}

/// When a run ended, from its last event.
fn end(last: &StoredMessage) -> Option<Timestamp> {
    run_event(last).filter(|event| event.what.is_terminal()).map(|event| event.at)
}
