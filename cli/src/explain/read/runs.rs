//! What a run did, and which run of the job was before a slot.
//!
//! Invariant: a run is found by its subject, and the one before an instant by halving the time in which it lies: no log
//! is walked for it.

use std::time::{Duration, Instant};

use cronstream_bus::StoredMessage;
use cronstream_schemas::event::{Decoded, Event as _, Fired, LogEvent, RunEvent};
use cronstream_schemas::name::Name;
use cronstream_schemas::time::Timestamp;

use super::{CLOCKS_DIFFER, Reader, SUBJECT_MAX, decode, stored};
use crate::cluster::Nodes;
use crate::error::Error;
use crate::explain::facts::{Before, Pool, Stored};
use crate::history::key_of;

/// How long executors have to answer, with so many rounds to the broker.
const ANSWERS_WITHIN: Duration = Duration::from_millis(100);
const ROUNDS: u32 = 5;

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

    /// The executors that could start a run; none where this user may not ask, or nobody could be asked.
    pub(super) async fn pool(&self, fired: &Fired) -> Option<Pool> {
        let asked = Instant::now();
        self.bus.flush().await.ok()?;
        let nodes = Nodes::ask(self.bus, ANSWERS_WITHIN + ROUNDS * asked.elapsed()).await.ok()?;
        let here = || nodes.executors.iter().filter(|(_, it)| it.queue == fired.queue);
        let knowing = here().filter(|(_, it)| it.tasks.contains(&fired.task)).count();
        Some(Pool { here: here().count(), knowing })
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

    /// The run that was ordered last before an instant, with its end.
    pub(super) async fn run_before(
        &self,
        queue: &Name,
        at: Timestamp,
    ) -> Result<Option<Before>, Error> {
        let names = self.bus.names();
        let subject = names.prefix().fire(queue, &self.newest.job);
        let last = self.newest_before(&subject, at).await?;
        match last.as_ref().and_then(fire) {
            Some(fire) => self.before(&fire.what).await.map(Some),
            None => Ok(None),
        }
    }

    async fn before(&self, fired: &Fired) -> Result<Before, Error> {
        let names = self.bus.names();
        let subject = names.prefix().run(&key_of(fired));
        let last = self.bus.last_from_leader(&names.runs, &subject).await?;
        Ok(Before {
            run: fired.run,
            cause: fired.cause.clone(),
            slot: fired.scheduled_at,
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
