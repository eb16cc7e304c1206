//! Waiting for the end of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use cronstream_bus::{Bus, Error as BusError, FollowEvent, FollowOptions, From};
use cronstream_schemas::event::{Decoded, Failure, RunEvent};
use cronstream_schemas::id::RunId;
use cronstream_schemas::json::Json;
use cronstream_schemas::name::JobId;
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::error::Error;
use crate::history::{self, Step};
use crate::output::{printable, printable_json};
use crate::session::Session;
use crate::words;

/// How a run ended.
#[derive(Debug, Serialize)]
struct Ended {
    run: RunId,
    job: JobId,
    outcome: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    results: Vec<Option<Json>>,
    /// Why shards failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<Failure>,
}

/// Waits until every shard of the run has ended, and prints how.
///
/// # Errors
/// [`Error::NotEnded`] when it has not ended in time, [`Error::RunFailed`] when it did not succeed.
pub(crate) async fn until_ended(
    session: &Session,
    bus: &Bus,
    (job, run): (&JobId, RunId),
    within: Duration,
) -> Result<(), Error> {
    let deadline = Instant::now() + within;
    let shards = history::first_fire(bus, run, Some(job)).await?.fired.shards;
    let prefix = bus.names().prefix();
    let options = FollowOptions {
        stream: bus.names().runs.clone(),
        filter: Some(prefix.runs_of(job, Some(run))),
        from: From::LastPerSubject,
    };
    let mut follow = bus.follow(options).await?;
    let mut ends: BTreeMap<u16, Step> = BTreeMap::new();
    while ends.len() < usize::from(shards.max(1)) {
        let event = timeout_at(deadline, follow.next()).await.map_err(|_| Error::NotEnded {
            run,
            job: job.clone(),
            within: format!("{}s", within.as_secs_f64()),
        })?;
        match event {
            Some(FollowEvent::Messages(messages)) => {
                let steps = messages.iter().filter_map(|message| history::read_step(bus, message));
                ends.extend(
                    steps.filter(Step::is_terminal).map(|step| (step.key.shard.shard, step)),
                );
            }
            Some(FollowEvent::CaughtUp { .. } | FollowEvent::Reset { .. }) => {}
            None => return Err(BusError::Unavailable { what: "the connection".into() }.into()),
        }
    }
    follow.close().await;
    let outcome = history::standing(ends.values().map(Some));
    let results: Vec<Option<Json>> = ends.values().map(result).collect();
    let failures = ends.values().filter_map(failure).collect();
    let ended = Ended { run, job: job.clone(), outcome: outcome.clone(), results, failures };
    session.out.object(&ended, || ended.describe())?;
    if outcome == "succeeded" { Ok(()) } else { Err(Error::RunFailed { run, outcome }) }
}

fn result(step: &Step) -> Option<Json> {
    match &step.event {
        Decoded::Known(RunEvent::Succeeded(done)) => done.result.clone(),
        Decoded::Known(_) | Decoded::Unknown { .. } => None,
    }
}

fn failure(step: &Step) -> Option<Failure> {
    match &step.event {
        Decoded::Known(RunEvent::Failed(failed)) => Some(failed.failure.clone()),
        Decoded::Known(_) | Decoded::Unknown { .. } => None,
    }
}

impl Ended {
    fn describe(&self) -> String {
        let results = self.results.iter().flatten();
        let results = results.map(|json| format!("\n{}", printable_json(json.as_str())));
        let failures = self.failures.iter().map(|failure| {
            let kind = words::failure_kind(failure.kind);
            format!("\n{kind}: {}", printable(&failure.message))
        });
        let said: String = results.chain(failures).collect();
        format!("run {} of {} {}{said}", self.run, self.job, self.outcome)
    }
}
