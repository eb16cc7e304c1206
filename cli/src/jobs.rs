//! Jobs as the log tells of them: the last message on `cron.job.<namespace>.<job>` is a job's whole state.

use std::time::SystemTime;

use cronstream_bus::{Bus, Error as BusError, StoredMessage};
use cronstream_core::calendar::Calendars;
use cronstream_core::plan::Plan;
use cronstream_core::schedule::Zone;
use cronstream_schemas::event::{Decoded, Event as _, JobState, LogEvent};
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::time::Timestamp;

use crate::error::Error;
use crate::follow;

/// The state of a job, of its tombstone when it is deleted; `None` when it was never defined.
///
/// # Errors
/// When the log cannot be read, or a later version wrote the state.
pub(crate) async fn find(bus: &Bus, job: &JobId) -> Result<Option<JobState>, Error> {
    let subject = bus.names().prefix().job(job);
    let found = match bus.last_from_leader(&bus.names().log, &subject).await {
        // A user who may read one namespace only has the direct get, which names the subject.
        Err(BusError::Denied { .. }) => bus.last_direct(&bus.names().log, &subject).await?,
        other => other?,
    };
    match found {
        None => Ok(None),
        Some(message) => decode(&message).map(Some).map_err(|problem| Error::Unreadable {
            what: format!("the state of job {job}"),
            problem,
        }),
    }
}

/// The state of a job that exists.
///
/// # Errors
/// [`Error::NoJob`] when it was never defined or is deleted.
pub(crate) async fn require(bus: &Bus, job: &JobId) -> Result<JobState, Error> {
    let state = find(bus, job).await?.filter(|state| state.definition.is_some());
    state.ok_or_else(|| Error::NoJob(job.clone()))
}

/// The state of a job that exists, for a verb that works without it; `None` where this user may not read it.
///
/// # Errors
/// [`Error::NoJob`] when it was never defined or is deleted.
pub(crate) async fn if_readable(bus: &Bus, job: &JobId) -> Result<Option<JobState>, Error> {
    match require(bus, job).await {
        Ok(state) => Ok(Some(state)),
        Err(Error::Bus(BusError::Denied { .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Hands every job's state, those of deleted jobs too, to `each`; what a later version wrote is passed over.
///
/// # Errors
/// When the log cannot be read.
pub(crate) async fn for_each(
    bus: &Bus,
    namespace: Option<&Name>,
    mut each: impl FnMut(JobState),
) -> Result<(), Error> {
    let prefix = bus.names().prefix();
    let filter = match namespace {
        Some(namespace) => format!("{prefix}.job.{namespace}.*"),
        None => format!("{prefix}.job.>"),
    };
    follow::last_of_each(bus, &bus.names().log, &filter, |message| match decode(message) {
        Ok(state) => each(state),
        Err(problem) => tracing::warn!(message.subject, problem, "job passed over"),
    })
    .await
}

fn decode(message: &StoredMessage) -> Result<JobState, String> {
    match LogEvent::decode(&message.payload).map_err(|error| error.to_string())? {
        Decoded::Known(
            LogEvent::JobDefined(state)
            | LogEvent::JobPaused(state)
            | LogEvent::JobResumed(state)
            | LogEvent::JobOverridden(state)
            | LogEvent::JobDeleted(state),
        ) => Ok(state),
        Decoded::Known(
            LogEvent::JobRevised(_)
            | LogEvent::CalendarDefined(_)
            | LogEvent::CalendarDeleted(_)
            | LogEvent::CalendarRevised(_)
            | LogEvent::Fired(_)
            | LogEvent::Held(_)
            | LogEvent::HeldEnded(_)
            | LogEvent::Skipped(_)
            | LogEvent::Rejected(_)
            | LogEvent::Cursor(_)
            | LogEvent::Meta(_),
        ) => Err("it is no state of a job".into()),
        Decoded::Unknown { kind } => {
            Err(format!("a later version of cronstream wrote {kind:?}; use that version"))
        }
    }
}

/// When the slots after `after` are due that are to fire, at most `count`, a shifted one at its new instant; none for a
/// job that is paused or deleted.
pub(crate) fn next_slots(
    state: &JobState,
    calendars: &Calendars,
    after: Timestamp,
    count: usize,
) -> Vec<Timestamp> {
    let Some(plan) = plan(state, calendars).filter(|_| state.paused.is_none()) else {
        return Vec::new();
    };
    let first = plan.next(after.max(state.effective_after));
    let slots = std::iter::successors(first, |slot| plan.next(*slot));
    let overrides = &state.overrides;
    let regular = slots.filter(|slot| overrides.iter().all(|asked| asked.slot != *slot));
    let shifted = overrides.iter().filter(|asked| !asked.is_done()).filter_map(|asked| asked.to);
    let mut due: Vec<Timestamp> =
        regular.take(count).chain(shifted.filter(|to| *to > after)).collect();
    due.sort_unstable();
    due.truncate(count);
    due
}

/// The zone that a job is read in; UTC for a deleted one.
pub(crate) fn zone(state: &JobState) -> Zone {
    let definition = state.definition.as_ref();
    definition.and_then(|it| Zone::get(&it.time_zone).ok()).unwrap_or(Zone::UTC)
}

/// The job's schedule, compiled; none for a deleted job, or one whose calendar a later version wrote.
pub(crate) fn plan(state: &JobState, calendars: &Calendars) -> Option<Plan> {
    let definition = state.definition.as_ref()?;
    Plan::compile(definition, &state.job, state.anchor, calendars).ok()
}

/// This machine's clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::MIN.plus(since)
}
