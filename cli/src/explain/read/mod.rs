//! What the streams say of one instant of a job, read by subject and time.
//!
//! ```text
//!   cron.job ─► state ─► revision of then ─► slot ─┬─► cron.run… of the slot's own run id     (one subject)
//!                                                  ├─► cron.held… of the slot                 (one subject)
//!                                                  ├─► cron.fire…    from the slot's instant on
//!                                                  └─► cron.skipped… from the slot's instant on
//! ```
//!
//! `slot` finds what became of a slot, `runs` what its run did and which one was before, `leaders` who decided before and
//! behind it, `commands` whose pause or request it was.
//!
//! Invariant: no stream is scanned. Each read names one subject of the job, begins at an instant, and is bounded in
//! number: a log of ten million events answers as fast as an empty one.

mod commands;
mod leaders;
mod runs;
mod slot;

use std::time::Duration;

use cronstream_bus::{Bus, StoredMessage};
use cronstream_core::calendar::Calendars;
use cronstream_core::plan::Plan;
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::{Decoded, Event as _, HeldReason, JobState, LogEvent, SkipReason};
use cronstream_schemas::id::Partition;
use cronstream_schemas::name::Name;
use cronstream_schemas::time::Timestamp;

use super::facts::{Decided, Facts, Record, SECOND, Stored, TICK, in_force, slot_meant, slot_of};
use crate::error::Error;
use crate::{calendars, jobs};

/// How far clocks may differ.
const CLOCKS_DIFFER: Duration = Duration::from_secs(2);
/// The most messages that are looked at for one question.
const READS_MAX: usize = 64;
/// The most messages of one subject that are read.
const SUBJECT_MAX: usize = 256;
/// A run that began within this long of its due instant needs no reason.
const ON_TIME: Duration = SECOND;

/// The streams of an installation, for one job.
pub(super) struct Reader<'a> {
    bus: &'a Bus,
    newest: &'a JobState,
}

/// Everything that was read, as it is handed to the decision.
pub(super) struct Read {
    pub(super) newest: JobState,
    pub(super) history: Vec<JobState>,
    pub(super) calendars: Calendars,
}

/// The job's states that an instant may belong to, with the calendars of the one that it does.
///
/// # Errors
/// [`Error::NoJob`] when it was never defined; otherwise when the log cannot be read.
pub(super) async fn states(bus: &Bus, newest: JobState, at: Timestamp) -> Result<Read, Error> {
    let history = match newest.effective_after < at {
        true => Vec::new(),
        false => Reader { bus, newest: &newest }.revisions(at).await?,
    };
    let then = in_force(&history, &newest, at).and_then(|state| state.definition.as_ref());
    let calendars = calendars::of(bus, then).await?;
    Ok(Read { newest, history, calendars })
}

/// Everything that is known of an instant.
///
/// # Errors
/// When the streams cannot be read.
pub(super) async fn facts<'a>(
    bus: &Bus,
    read: &'a Read,
    asked: Timestamp,
) -> Result<Facts<'a>, Error> {
    let reader = Reader { bus, newest: &read.newest };
    let then = in_force(&read.history, &read.newest, asked);
    let mut facts = Facts {
        asked,
        now: jobs::now(),
        newest: &read.newest,
        then,
        calendars: &read.calendars,
        record: Record::Nothing,
        held_until: None,
        before: None,
        takeover: None,
        pause: None,
        request: None,
        decided: None,
        pool: None,
        run: Vec::new(),
    };
    let Some(definition) = then.and_then(|state| state.definition.as_ref()) else {
        return Ok(facts);
    };
    let plan = then.and_then(|state| jobs::plan(state, &read.calendars));
    let slot = plan.as_ref().and_then(|plan| slot_meant(plan, asked));
    let asked_for = slot.and_then(|slot| read.newest.overrides.iter().find(|it| it.slot == slot));
    let to_come = slot.is_some_and(|slot| slot > facts.now);
    facts.record = match slot {
        Some(slot) if !to_come || asked_for.is_some_and(|it| it.to.is_some()) => {
            reader.record(&definition.queue, slot, then).await?
        }
        Some(_) => Record::Nothing,
        None => {
            let has_delay = plan.as_ref().is_some_and(Plan::is_fixed_delay);
            reader.run_at(&definition.queue, asked, has_delay).await?
        }
    };
    if let Record::Fired(fires) = &facts.record
        && let Some(first) = fires.first()
    {
        facts.run = reader.run_events(first).await?;
        if facts.run.is_empty() {
            facts.pool = reader.pool(&first.what).await;
        }
    }
    let slot = slot.unwrap_or(asked);
    reader.reasons(&mut facts, (slot, to_come), &definition.queue).await?;
    Ok(facts)
}

impl Reader<'_> {
    /// What stands behind a record that is not a run on time.
    async fn reasons(
        &self,
        facts: &mut Facts<'_>,
        (slot, to_come): (Timestamp, bool),
        queue: &Name,
    ) -> Result<(), Error> {
        let late = match &facts.record {
            Record::Fired(fires) => fires.first().is_some_and(|it| {
                slot_of(&it.what).is_some()
                    && it.what.fired_at.since(it.what.scheduled_at) > ON_TIME
            }),
            Record::Skipped(_) | Record::Held(_) | Record::Nothing => true,
        };
        if !late {
            return Ok(());
        }
        facts.pause = self.pause_at(slot).await?;
        facts.request = self.request_for(slot).await?;
        facts.before = match &facts.record {
            _ if to_come => self.last_fire(queue).await?,
            Record::Skipped(skipped) if skipped.what.reason == SkipReason::Overlap => {
                self.run_before(queue, skipped.at.plus(TICK)).await?
            }
            Record::Held(held) if held.what.why == HeldReason::Queued => {
                self.last_fire(queue).await?
            }
            Record::Skipped(_) | Record::Held(_) | Record::Fired(_) | Record::Nothing => None,
        };
        let decided_late = match &facts.record {
            Record::Fired(_) => true,
            Record::Skipped(Stored { what, .. }) => {
                let by_time = matches!(what.reason, SkipReason::Misfire | SkipReason::Overlap);
                by_time && what.at.since(slot) > ON_TIME
            }
            Record::Held(_) | Record::Nothing => false,
        };
        if decided_late {
            facts.takeover = self.takeover(queue, slot).await?;
        }
        match &facts.record {
            Record::Nothing => facts.decided = self.decided().await?,
            Record::Fired(_) => {
                facts.held_until = self.held_until(slot).await?;
                if facts.held_until.is_some() {
                    facts.before = self.run_before(queue, slot).await?;
                }
            }
            Record::Skipped(stored) if stored.what.reason != SkipReason::Requested => {
                facts.request = None;
            }
            Record::Skipped(_) | Record::Held(_) => {}
        }
        Ok(())
    }

    /// The revisions of the job that an instant may belong to, oldest first.
    async fn revisions(&self, at: Timestamp) -> Result<Vec<JobState>, Error> {
        let subject = self.bus.names().prefix().history(&self.newest.job);
        let log = &self.bus.names().log;
        let last = self.bus.last_from_leader(log, &subject).await?;
        let last = last.as_ref().and_then(revision);
        if let Some(last) = last.filter(|state| state.effective_after < at) {
            return Ok(vec![last]);
        }
        // A revision is stored right behind the command that defined it.
        let defines = self.commands(Verb::Define).await?;
        for message in defines.iter().rev().filter(|it| it.timestamp_ms <= at.as_millis()) {
            let from = message.timestamp_ms - millis(CLOCKS_DIFFER);
            let found = self.bus.next_since(log, from, &subject).await?;
            let found = found.as_ref().and_then(revision);
            if let Some(state) = found.filter(|state| state.effective_after < at) {
                return Ok(vec![state]);
            }
        }
        let mut states = Vec::new();
        let mut next = self.bus.next_from_leader(log, 1, Some(&subject)).await?;
        while let Some(message) = next.filter(|_| states.len() < SUBJECT_MAX) {
            let Some(state) = revision(&message) else { break };
            if state.effective_after >= at {
                break;
            }
            states.push(state);
            next = self.bus.next_from_leader(log, message.seq + 1, Some(&subject)).await?;
        }
        Ok(states)
    }

    /// How far the job's partition is.
    async fn decided(&self) -> Result<Option<Decided>, Error> {
        let names = self.bus.names();
        let meta = self.bus.last_from_leader(&names.log, &names.prefix().meta()).await?;
        let Some(LogEvent::Meta(meta)) = meta.as_ref().and_then(decode) else { return Ok(None) };
        let partition = Partition::of(&self.newest.job, meta.partitions);
        let subject = names.prefix().cursor(partition);
        let last = self.bus.last_from_leader(&names.log, &subject).await?;
        Ok(last.and_then(|message| {
            let LogEvent::Cursor(cursor) = decode(&message)? else { return None };
            Some(Decided {
                through: cursor.position.due,
                at: Timestamp::from_millis(message.timestamp_ms),
                leader: (cursor.node, cursor.epoch),
            })
        }))
    }

    /// Hands the messages of a subject from an instant on to `each`, until it has seen enough.
    async fn each(
        &self,
        stream: &str,
        (subject, from_ms): (&str, i64),
        most: usize,
        mut each: impl FnMut(&StoredMessage) -> bool,
    ) -> Result<(), Error> {
        let mut next = self.bus.next_since(stream, from_ms, subject).await?;
        for _ in 0..most {
            let Some(message) = next else { return Ok(()) };
            if each(&message) {
                return Ok(());
            }
            next = self.bus.next_from_leader(stream, message.seq + 1, Some(subject)).await?;
        }
        Ok(())
    }
}

fn decode(message: &StoredMessage) -> Option<LogEvent> {
    match LogEvent::decode(&message.payload) {
        Ok(Decoded::Known(event)) => Some(event),
        Ok(Decoded::Unknown { .. }) | Err(_) => {
            tracing::warn!(message.subject, message.seq, "not an event that this version knows");
            None
        }
    }
}

fn revision(message: &StoredMessage) -> Option<JobState> {
    let LogEvent::JobRevised(state) = decode(message)? else { return None };
    Some(state)
}

fn stored<T>(message: &StoredMessage, what: T) -> Stored<T> {
    Stored { at: Timestamp::from_millis(message.timestamp_ms), what }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
