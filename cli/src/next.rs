//! `next`: when a job is due, on the clocks of its zone and on yours.
//!
//! Invariant: the job and what it uses are read each by its subject, so the answer takes as long on a log of ten
//! million events as on an empty one; the zone of this machine has no say.

use std::time::Duration;

use cronstream_bus::Bus;
use cronstream_schemas::definition::Schedule;
use cronstream_schemas::event::{Cause, Decoded, Event as _, JobState, LogEvent};
use cronstream_schemas::time::Timestamp;
use serde::Serialize;

use crate::args;
use crate::error::Error;
use crate::history;
use crate::output::{distance, table};
use crate::session::Session;
use crate::slots::{Fate, Moment, Timetable};
use crate::{calendars, jobs, words};

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    moment: Moment,
    /// When it is due, in the job's zone and in the viewer's.
    local: String,
    time_zone: String,
    yours: String,
    your_zone: &'static str,
    /// The schedule in words.
    words: String,
}

pub(crate) async fn next(session: &Session, wanted: &args::Next) -> Result<(), Error> {
    let bus = session.bus().await?;
    let job = &wanted.job;
    let state = jobs::require(&bus, job).await?;
    let known = calendars::of(&bus, state.definition.as_ref()).await?;
    let mut timetable = Timetable::of(&state, known).ok_or_else(|| Error::Unreadable {
        what: format!("the schedule of {job}"),
        problem: "a later version of cronstream wrote it; use that version".into(),
    })?;
    let now = jobs::now();
    let mut count = usize::try_from(wanted.number).unwrap_or(usize::MAX);
    if timetable.plan.is_fixed_delay() {
        let base = end_of_last_run(&bus, &state).await?;
        timetable.plan = timetable.plan.rebased(base.unwrap_or(state.effective_after));
        // Later slots depend on when this one's run ends.
        count = 1;
    }
    let after = now.minus(timetable.plan.jitter()).max(state.effective_after);
    let from = after.plus(Duration::from_millis(1));
    let mut moments = timetable.ahead((from, Timestamp::MAX), count, &state.overrides);
    if let Some(since) = state.paused {
        session.out.talk(&format!(
            "{job} is paused since {since}: none of these fires until it is resumed"
        ));
        moments.iter_mut().for_each(|moment| {
            moment.state = Fate::Paused;
            moment.notes.insert(0, "paused".into());
        });
    }
    if moments.is_empty() {
        session.out.talk(&format!("{job} is never due again"));
    }
    let words = words::spoken(job, &timetable.definition);
    let (zone, yours) = (timetable.zone(), wanted.zone);
    let rows: Vec<Row> = moments
        .into_iter()
        .map(|moment| Row {
            local: words::local(moment.due, zone),
            time_zone: timetable.definition.time_zone.clone(),
            yours: words::local(moment.due, yours),
            your_zone: yours.name(),
            words: words.clone(),
            moment,
        })
        .collect();
    if session.json {
        return Ok(session.out.rows([], &rows, |_| [])?);
    }
    let job_zone = format!("JOB ({})", timetable.definition.time_zone);
    let your_zone = format!("YOURS ({})", yours.name());
    let cells = rows.iter().map(|row| {
        let note = row.moment.notes.join("; ");
        [row.yours.clone(), row.local.clone(), distance(row.moment.due, now), note]
    });
    let listed = table([your_zone.as_str(), job_zone.as_str(), "WHEN", "NOTE"], cells);
    let repeat = match &*timetable.definition.schedule {
        Schedule::FixedDelay(_) => "; later slots depend on the end of that run",
        Schedule::Cron(_) | Schedule::Every(_) | Schedule::At(_) => "",
    };
    session.out.text(&format!("{job}: {words}{repeat}\n{listed}"))?;
    Ok(())
}

/// When the last run of a slot ended, by the newest fire on the job's queue; `None` where that is not told.
async fn end_of_last_run(bus: &Bus, state: &JobState) -> Result<Option<Timestamp>, Error> {
    let Some(definition) = &state.definition else { return Ok(None) };
    let subject = bus.names().prefix().fire(&definition.queue, &state.job);
    let Some(message) = bus.last_from_leader(&bus.names().log, &subject).await? else {
        return Ok(None);
    };
    let Ok(Decoded::Known(LogEvent::Fired(fired))) = LogEvent::decode(&message.payload) else {
        return Ok(None);
    };
    if !matches!(fired.cause, Cause::Slot(_)) {
        return Ok(None);
    }
    let steps = history::last_steps(bus, [history::key_of(&fired)]).await?;
    let ends = steps.iter().flatten().filter(|step| step.is_terminal());
    Ok(ends.map(|step| step.at).max().map(|end| end.max(state.effective_after)))
}
