//! `next`: when a job is due, in UTC and on the clocks of its zone.

use cronstream_core::schedule::Zone;
use cronstream_schemas::time::Timestamp;
use serde::Serialize;

use crate::args;
use crate::error::Error;
use crate::jobs;
use crate::output::distance;
use crate::session::Session;
use crate::words;

#[derive(Debug, Serialize)]
struct Row {
    slot: Timestamp,
    local: String,
    time_zone: String,
}

pub(crate) async fn next(session: &Session, wanted: &args::Next) -> Result<(), Error> {
    let bus = session.bus().await?;
    let mut state = jobs::require(&bus, &wanted.job).await?;
    if let Some(since) = state.paused.take() {
        session.out.talk(&format!(
            "{} is paused since {since}: none of these fires until it is resumed",
            wanted.job
        ));
    }
    let zone =
        state.definition.as_ref().and_then(|d| Zone::get(&d.time_zone).ok()).unwrap_or(Zone::UTC);
    let now = jobs::now();
    let count = usize::try_from(wanted.number).unwrap_or(usize::MAX);
    let rows: Vec<Row> = jobs::next_slots(&state, now, count)
        .into_iter()
        .map(|slot| Row {
            slot,
            local: words::local(slot, zone),
            time_zone: zone.name().to_owned(),
        })
        .collect();
    if rows.is_empty() {
        session.out.talk(&format!("{} is never due again", wanted.job));
    }
    session.out.rows(["SLOT", "LOCAL", "ZONE", "WHEN"], &rows, |row| {
        [row.slot.to_string(), row.local.clone(), row.time_zone.clone(), distance(row.slot, now)]
    })?;
    Ok(())
}
