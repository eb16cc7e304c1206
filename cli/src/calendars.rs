//! Calendars as the log tells of them: the last message on `cron.object.calendar.<namespace>.<name>` is a calendar's
//! whole state.
//!
//! Invariant: for one job only the calendars that it uses are read, each by its subject, however large the log is.

use std::collections::BTreeSet;
use std::sync::Arc;

use cronstream_bus::{Bus, Error as BusError, StoredMessage};
use cronstream_core::calendar::{CALENDARS_KNOWN_MAX, Calendars};
use cronstream_schemas::calendar::CalendarId;
use cronstream_schemas::definition::JobDefinition;
use cronstream_schemas::event::{CalendarState, Decoded, Event as _, LogEvent};

use crate::error::Error;
use crate::follow;

/// The calendars that a definition uses, and those that they are built of.
///
/// # Errors
/// When the log cannot be read, or a later version wrote one of them.
pub(crate) async fn of(bus: &Bus, definition: Option<&JobDefinition>) -> Result<Calendars, Error> {
    let used = definition.and_then(|definition| definition.calendars.as_ref());
    with_parts(bus, used.map(|used| used.names().cloned().collect()).unwrap_or_default()).await
}

/// These calendars, as far as they are defined, and those that they are built of.
///
/// # Errors
/// When the log cannot be read, or a later version wrote one of them.
pub(crate) async fn with_parts(bus: &Bus, mut wanted: Vec<CalendarId>) -> Result<Calendars, Error> {
    let mut seen: BTreeSet<CalendarId> = BTreeSet::new();
    let mut calendars = Calendars::default();
    while let Some(id) = wanted.pop() {
        if seen.len() >= CALENDARS_KNOWN_MAX || !seen.insert(id.clone()) {
            continue;
        }
        let Some(state) = find(bus, &id).await? else { continue };
        wanted.extend(state.definition.iter().flat_map(|it| it.parts().cloned()));
        calendars.apply(&Arc::new(state));
    }
    Ok(calendars)
}

/// Every calendar of the installation; what a later version wrote is passed over.
///
/// # Errors
/// When the log cannot be read.
pub(crate) async fn all(bus: &Bus) -> Result<Calendars, Error> {
    let mut calendars = Calendars::default();
    let filter = format!("{}.object.calendar.>", bus.names().prefix());
    follow::last_of_each(bus, &bus.names().log, &filter, |message| match decode(message) {
        Ok(state) => {
            calendars.apply(&Arc::new(state));
        }
        Err(problem) => tracing::warn!(message.subject, problem, "calendar passed over"),
    })
    .await?;
    Ok(calendars)
}

async fn find(bus: &Bus, id: &CalendarId) -> Result<Option<CalendarState>, Error> {
    let subject = bus.names().prefix().calendar(id);
    let found = match bus.last_from_leader(&bus.names().log, &subject).await {
        // A user who may read one namespace only has the direct get, which names the subject.
        // It may not read a calendar of another namespace: to it, that one is not known.
        Err(BusError::Denied { .. }) => match bus.last_direct(&bus.names().log, &subject).await {
            Err(BusError::Denied { .. }) => None,
            other => other?,
        },
        other => other?,
    };
    let unreadable = |problem| Error::Unreadable { what: format!("calendar {id}"), problem };
    found.map(|message| decode(&message).map_err(unreadable)).transpose()
}

fn decode(message: &StoredMessage) -> Result<CalendarState, String> {
    match LogEvent::decode(&message.payload).map_err(|error| error.to_string())? {
        Decoded::Known(LogEvent::CalendarDefined(state) | LogEvent::CalendarDeleted(state)) => {
            Ok(state)
        }
        Decoded::Known(_) => Err("it is no state of a calendar".into()),
        Decoded::Unknown { kind } => {
            Err(format!("a later version of cronstream wrote {kind:?}; use that version"))
        }
    }
}
