//! `runs`: the newest runs, newest first.

use cronstream_schemas::event::Cause;
use cronstream_schemas::id::RunId;
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::time::Timestamp;
use serde::Serialize;

use crate::args;
use crate::error::Error;
use crate::history::{self, Found, Step};
use crate::jobs;
use crate::output::short;
use crate::session::Session;
use crate::words;

#[derive(Debug, Serialize)]
struct Row {
    run: RunId,
    job: JobId,
    queue: Name,
    task: Name,
    state: String,
    cause: Cause,
    scheduled_at: Timestamp,
    fired_at: Timestamp,
    /// Starts so far of the shard that had the most.
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Timestamp>,
}

pub(crate) async fn runs(session: &Session, wanted: &args::Runs) -> Result<(), Error> {
    let bus = session.bus().await?;
    let count = usize::try_from(wanted.number).unwrap_or(usize::MAX);
    let found = history::newest(&bus, wanted.job.as_ref(), count).await?;
    let keys: Vec<_> = found
        .values()
        .flat_map(|run| run.fires.values().map(|fire| history::key_of(&fire.fired)))
        .collect();
    let mut lasts = history::last_steps(&bus, keys).await?.into_iter();
    let mut rows: Vec<Row> = Vec::with_capacity(found.len());
    for (run, found) in found {
        let shards: Vec<Option<Step>> = lasts.by_ref().take(found.fires.len()).collect();
        rows.extend(row(run, &found, &shards));
    }
    rows.reverse();
    if let Some(job) = wanted.job.as_ref().filter(|_| rows.is_empty()) {
        jobs::if_readable(&bus, job).await?;
    }
    let header = ["RUN", "JOB", "STATE", "CAUSE", "LATE", "ATTEMPTS", "TOOK"];
    session.out.rows(header, &rows, cells)?;
    Ok(())
}

fn row(run: RunId, found: &Found, shards: &[Option<Step>]) -> Option<Row> {
    let fired = &found.fires.values().next()?.fired;
    let known: Vec<&Step> = shards.iter().flatten().collect();
    let places = known.iter().filter_map(|step| step.place());
    let all_ended = known.len() == shards.len() && known.iter().all(|step| step.is_terminal());
    Some(Row {
        run,
        job: fired.job.clone(),
        queue: fired.queue.clone(),
        task: fired.task.clone(),
        state: history::standing(shards.iter().map(Option::as_ref)),
        cause: fired.cause.clone(),
        scheduled_at: fired.scheduled_at,
        fired_at: found.first_at,
        attempts: places.map(|place| place.attempt).max().unwrap_or(0),
        ended_at: known.iter().map(|step| step.at).max().filter(|_| all_ended),
    })
}

fn cells(row: &Row) -> [String; 7] {
    [
        row.run.to_string(),
        row.job.to_string(),
        row.state.clone(),
        words::cause(&row.cause),
        short(row.fired_at.since(row.scheduled_at)),
        row.attempts.to_string(),
        row.ended_at.map(|at| short(at.since(row.fired_at))).unwrap_or_default(),
    ]
}
