//! What became of a slot: held, fired, skipped, or nothing that is known.
//!
//! Invariant: the newest message of each subject is looked at first, as it often tells that there is nothing to look for.

use cronstream_bus::{Error as BusError, StoredMessage};
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::{Cause, Fired, Held, JobState, LogEvent, SkippedWhat};
use cronstream_schemas::id::{RunId, RunSeed, ShardId};
use cronstream_schemas::name::Name;
use cronstream_schemas::subject::RunKey;
use cronstream_schemas::time::Timestamp;

use super::runs::fire;
use super::{CLOCKS_DIFFER, READS_MAX, Reader, decode, stored};
use crate::error::Error;
use crate::explain::facts::{Record, SECOND, Stored, covers};

/// A slot, and from when on its outcome is looked for.
struct Decision {
    slot: Timestamp,
    from: Vec<Timestamp>,
    /// Whether it has run: then its fire is there, be it behind those of later slots, as in a catch-up.
    has_run: bool,
}

/// What a message is to a search.
enum Seen<T> {
    /// What is looked for.
    It(T),
    /// The outcome of a later slot.
    Later,
    /// Something else.
    Other,
}

impl Reader<'_> {
    /// What the log says of a slot.
    pub(super) async fn record(
        &self,
        queue: &Name,
        slot: Timestamp,
        then: Option<&JobState>,
    ) -> Result<Record, Error> {
        let names = self.bus.names();
        let job = &self.newest.job;
        let subject = names.prefix().held(job, slot);
        let last = self.bus.last_from_leader(&names.log, &subject).await?;
        if let Some(message) = &last
            && let Some(LogEvent::Held(held)) = decode(message)
        {
            return Ok(Record::Held(Box::new(stored(message, held))));
        }
        let released = last.map(|message| Timestamp::from_millis(message.timestamp_ms));
        let incarnation = then.map_or(self.newest.incarnation, |state| state.incarnation);
        let run = RunId::derive(slot, job, incarnation, RunSeed::Slot(slot));
        let shard = ShardId { run, shard: 0 };
        let key = RunKey { queue: queue.clone(), job: job.clone(), shard };
        let started = self.bus.last_from_leader(&names.runs, &names.prefix().run(&key)).await?;
        let newest =
            self.bus.last_from_leader(&names.log, &names.prefix().fire(queue, job)).await?;
        if let Some(fire) = newest.as_ref().and_then(fire).filter(|fire| is_first_of(fire, slot)) {
            return Ok(Record::Fired(vec![fire]));
        }
        let from = self.begin(slot, released).await?;
        let decided = Decision { slot, from, has_run: started.is_some() };
        // A run that began, or expired, has told so. Without a word of one the slot is most likely skipped, and where it
        // is not, it waits in a queue: the search for what is not there may go far, so it comes last.
        let outcome = match started {
            Some(_) => self.fired(queue, &decided).await?,
            None => match self.skipped(&decided).await? {
                Record::Nothing => self.fired(queue, &decided).await?,
                skipped => skipped,
            },
        };
        match outcome {
            Record::Nothing => Ok(self
                .held_in_range(slot)
                .await?
                .map_or(Record::Nothing, |held| Record::Held(Box::new(held)))),
            found => Ok(found),
        }
    }

    async fn held(&self, subject: &str) -> Result<Option<Stored<Held>>, Error> {
        let last = self.bus.last_from_leader(&self.bus.names().log, subject).await?;
        Ok(last.and_then(|message| {
            let LogEvent::Held(held) = decode(&message)? else { return None };
            Some(stored(&message, held))
        }))
    }

    /// A catch-up or a backfill that waits and holds the slot.
    async fn held_in_range(&self, slot: Timestamp) -> Result<Option<Stored<Held>>, Error> {
        let names = self.bus.names();
        let job = &self.newest.job;
        let filter = format!("{}.held.{}.{}.*", names.prefix(), job.namespace, job.name);
        let mut subjects = Vec::new();
        self.bus
            .subjects(&names.log, &filter, |subject, _| {
                if subjects.len() < READS_MAX {
                    subjects.push(subject.to_owned());
                }
            })
            .await?;
        for subject in subjects {
            let held = self.held(&subject).await?;
            let holds = |held: &Held| {
                held.range.as_ref().is_some_and(|range| (held.slot..=range.through).contains(&slot))
            };
            if let Some(held) = held.filter(|held| holds(&held.what)) {
                return Ok(Some(held));
            }
        }
        Ok(None)
    }

    /// Where the outcome of a slot is looked for: from when it was released or the job resumed; else from the slot on,
    /// and a little before, should the leader's clock have been ahead of the broker's.
    async fn begin(
        &self,
        slot: Timestamp,
        released: Option<Timestamp>,
    ) -> Result<Vec<Timestamp>, Error> {
        let resumed = self.pause_at(slot).await?.and_then(|pause| pause.ended).map(|end| end.at);
        Ok(match released.or(resumed) {
            Some(late) => vec![late.minus(CLOCKS_DIFFER), slot.minus(CLOCKS_DIFFER)],
            None => vec![slot, slot.minus(CLOCKS_DIFFER)],
        })
    }

    /// The event by which a slot is skipped. The newest one tells at once whether there can be one.
    async fn skipped(&self, decision: &Decision) -> Result<Record, Error> {
        let slot = decision.slot;
        let subject = self.bus.names().prefix().skipped(&self.newest.job);
        let found = self.outcome(&subject, decision, |message| {
            let Some(LogEvent::Skipped(skipped)) = decode(message) else { return Seen::Other };
            let first = match &skipped.what {
                SkippedWhat::Slots { first, .. } => *first,
                SkippedWhat::Trigger(_) => return Seen::Other,
            };
            if covers(&skipped, slot) {
                Seen::It(stored(message, skipped))
            } else if first > slot {
                Seen::Later
            } else {
                Seen::Other
            }
        });
        Ok(found.await?.map_or(Record::Nothing, Record::Skipped))
    }

    /// The first fire of a slot.
    async fn fired(&self, queue: &Name, decision: &Decision) -> Result<Record, Error> {
        let slot = decision.slot;
        let subject = self.bus.names().prefix().fire(queue, &self.newest.job);
        let found = self.outcome(&subject, decision, |message| {
            let Some(fire) = fire(message) else { return Seen::Other };
            let Cause::Slot(of) = fire.what.cause else { return Seen::Other };
            if is_first_of(&fire, slot) {
                Seen::It(fire)
            } else if of > slot {
                Seen::Later
            } else {
                Seen::Other
            }
        });
        Ok(found.await?.map_or(Record::Nothing, |fire| Record::Fired(vec![fire])))
    }

    /// Looks for an outcome on a subject from each beginning. Slots are decided in their order, so a later one ends the
    /// look from that beginning.
    async fn outcome<T>(
        &self,
        subject: &str,
        decision: &Decision,
        see: impl Fn(&StoredMessage) -> Seen<T>,
    ) -> Result<Option<T>, Error> {
        let log = &self.bus.names().log;
        let Some(last) = self.bus.last_from_leader(log, subject).await? else { return Ok(None) };
        if last.timestamp_ms < decision.slot.minus(CLOCKS_DIFFER).as_millis() {
            return Ok(None);
        }
        if let Seen::It(found) = see(&last) {
            return Ok(Some(found));
        }
        let mut found = None;
        for from in &decision.from {
            let from = from.as_millis();
            self.each(log, (subject, from), READS_MAX, |message| match see(message) {
                Seen::It(it) => {
                    found = Some(it);
                    true
                }
                Seen::Later => !decision.has_run,
                Seen::Other => false,
            })
            .await?;
            if found.is_some() {
                break;
            }
        }
        Ok(found)
    }

    /// A run at an instant that is no slot: of a trigger, or of a job without fixed times.
    pub(super) async fn run_at(
        &self,
        queue: &Name,
        asked: Timestamp,
        has_delay: bool,
    ) -> Result<Record, Error> {
        let names = self.bus.names();
        let subject = names.prefix().fire(queue, &self.newest.job);
        let Some(last) = self.bus.last_from_leader(&names.log, &subject).await? else {
            return Ok(Record::Nothing);
        };
        let second = Timestamp::from_millis(asked.as_millis().div_euclid(1_000) * 1_000);
        if last.timestamp_ms < second.as_millis()
            || !(has_delay || self.is_triggered(second).await?)
        {
            return Ok(Record::Nothing);
        }
        let within = second..second.plus(SECOND);
        let mut found = None;
        self.each(&names.log, (&subject, second.as_millis()), READS_MAX, |message| {
            let fire = fire(message);
            let passed = fire.as_ref().is_none_or(|it| it.at >= within.end);
            found = fire.filter(|it| {
                within.contains(&it.what.scheduled_at) || within.contains(&it.what.fired_at)
            });
            found.is_some() || passed
        })
        .await?;
        Ok(found.map_or(Record::Nothing, |fire| Record::Fired(vec![fire])))
    }

    /// Whether a trigger was sent in a second. Without one the next fire may be far, and the way there long.
    async fn is_triggered(&self, second: Timestamp) -> Result<bool, Error> {
        let names = self.bus.names();
        let subject = names.prefix().command(Verb::Trigger, &self.newest.job);
        let from = second.as_millis();
        match self.bus.next_since(&names.commands, from, &subject).await {
            Err(BusError::Denied { .. }) => Ok(false),
            found => Ok(found?.is_some_and(|it| it.timestamp_ms < second.plus(SECOND).as_millis())),
        }
    }

    /// When a slot that was held got its outcome.
    pub(super) async fn held_until(&self, slot: Timestamp) -> Result<Option<Timestamp>, Error> {
        let names = self.bus.names();
        let subject = names.prefix().held(&self.newest.job, slot);
        let last = self.bus.last_from_leader(&names.log, &subject).await?;
        Ok(last.and_then(|message| {
            let LogEvent::HeldEnded(_) = decode(&message)? else { return None };
            Some(Timestamp::from_millis(message.timestamp_ms))
        }))
    }
}

/// Whether it is the first fire of a slot. What a backfill runs again is another run, and no word on the slot itself.
fn is_first_of(fire: &Stored<Fired>, slot: Timestamp) -> bool {
    fire.what.cause == Cause::Slot(slot) && fire.what.fire_no == 1
}
