//! `backfill`: past slots run again, each under the revision that was in force then.
//!
//! Invariant: what is shown is computed by the same function as what the leader does; nothing is sent before it was
//! shown and agreed to.

use cronstream_bus::Bus;
use cronstream_core::backfill::{Collector, Segment, segments};
use cronstream_schemas::command::{Backfill, Verb};
use cronstream_schemas::event::JobState;
use cronstream_schemas::id::Revision;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use cronstream_schemas::verdict::Outcome;
use serde::Serialize;

use crate::error::Error;
use crate::output::{confirm, count, table};
use crate::send::{Order, granted};
use crate::session::Session;
use crate::{args, calendars, instants, jobs, revisions, words};

#[derive(Debug, Serialize)]
struct Shown<'a> {
    job: &'a JobId,
    from: Timestamp,
    to: Timestamp,
    slots: u64,
    revisions: Vec<Part>,
}

/// What of a backfill runs under one revision.
#[derive(Debug, Serialize)]
struct Part {
    revision: Revision,
    slots: u64,
    first: Timestamp,
    last: Timestamp,
}

pub(crate) async fn backfill(session: &Session, wanted: &args::Backfill) -> Result<(), Error> {
    let job = &wanted.job;
    let what = format!("backfill {job}");
    let bus = session.bus().await?;
    let current = jobs::require(&bus, job).await?;
    let zone = jobs::zone(&current);
    let from = instants::on_clock(wanted.from, zone, "--from")?;
    let to = instants::on_clock(wanted.to, zone, "--to")?;
    let segments = preview(&bus, &current, (from, to), &what).await?;
    let slots = segments.iter().map(|segment| segment.count).sum();
    if wanted.dry_run {
        let revisions = segments.iter().map(part).collect();
        let shown = Shown { job, from, to, slots, revisions };
        session.out.object(&shown, || describe(job, slots, &segments))?;
        return Ok(());
    }
    session.out.talk(&describe(job, slots, &segments));
    confirm(&format!("run {} of {job} again", count(slots, "slot")), wanted.yes)?;
    let body = serde_json::to_vec(&Backfill { from, to }).map_err(std::io::Error::other)?;
    let order = Order { body, ..Order::plain(Verb::Backfill, job) };
    let verdict = order.send(&bus, session.timeout).await?;
    granted(&verdict, &what)?;
    session.out.object(&verdict, || {
        let slots = match verdict.outcome {
            Outcome::Backfilling { slots } => slots,
            _ => 0,
        };
        let slots = count(slots, "slot");
        format!("{job} runs {slots} again, paced; `cronstream pause {job}` ends what is left")
    })?;
    Ok(())
}

/// What the leader would do.
async fn preview(
    bus: &Bus,
    current: &JobState,
    (from, to): (Timestamp, Timestamp),
    what: &str,
) -> Result<Vec<Segment>, Error> {
    let refused = |problem: String| Error::Rejected(format!("{what}: {problem}"));
    if to < from {
        return Err(refused(format!("--to {to} lies before --from {from}")));
    }
    let now = jobs::now();
    if to > now {
        return Err(refused(format!("--to {to} lies in the future; it is {now}")));
    }
    let mut collector = Collector::new(from, to);
    for state in revisions::read(bus, &current.job).await? {
        if !collector.take(state) {
            break;
        }
    }
    let history = collector.finish();
    let definitions = history.iter().chain([current]).filter_map(|it| it.definition.as_ref());
    let used = definitions.filter_map(|definition| definition.calendars.as_ref());
    let names = used.flat_map(|used| used.names().cloned()).collect();
    let known = calendars::with_parts(bus, names).await?;
    segments(&history, current, &known, (from, to))
        .map_err(|fault| refused(format!("rejected\n  {fault}")))
}

fn part(segment: &Segment) -> Part {
    let Segment { state, first, last, count, .. } = segment;
    Part { revision: state.revision, slots: *count, first: *first, last: *last }
}

fn describe(job: &JobId, slots: u64, segments: &[Segment]) -> String {
    let rows = segments.iter().map(|segment| {
        let Segment { state, first, last, count, .. } = segment;
        let schedule = state.definition.as_ref().map(words::schedule).unwrap_or_default();
        let revision = state.revision.0.to_string();
        [revision, count.to_string(), first.to_string(), last.to_string(), schedule]
    });
    let parts = table(["REVISION", "SLOTS", "FIRST", "LAST", "SCHEDULE"], rows);
    format!("{parts}\n{} of {job} in all", count(slots, "slot"))
}
