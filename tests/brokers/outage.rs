//! NATS is away for half a minute under two hundred jobs: every slot of that time is decided when it is back.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::LogEvent;
use cronstream_schemas::header;
use cronstream_schemas::id::{Epoch, Partition};
use cronstream_schemas::name::JobId;
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::time::Timestamp;
use cronstream_tests::crew::fires;
use cronstream_tests::jetstream::StoreAnswer;
use cronstream_tests::nats::Nats;
use cronstream_tests::record::Record;
use cronstream_tests::world::{Brokers, Setup, World, now};
use tokio::time::{Instant, sleep_until};

use crate::stage::{PATIENCE, ready, verify};

const JOBS: usize = 200;
/// Shorter than the minute up to which late slots fire.
const OUTAGE: Duration = Duration::from_secs(30);
/// How long after the return the last late slot may be decided.
const CAUGHT_UP_MAX: Duration = Duration::from_secs(10);
/// Nobody serves the queue: only the decisions matter, and they are many.
const DEFINITION: &str = r#"{"task":"none","queue":"nobody","schedule":{"every":"10s"},"overlap":"allow","start_within":"1s","timeout":"1s","max_attempts":1}"#;

async fn define(world: &World) -> Result<Vec<JobId>> {
    let nats = Nats::connect(&world.urls()).await?;
    let mut jobs = Vec::with_capacity(JOBS);
    for number in 0..JOBS {
        let job: JobId = format!("outage/j{number}").parse()?;
        let subject = Prefix::default().command(Verb::Define, &job);
        let id = vec![(header::MSG_ID.to_owned(), job.to_string())];
        let stored = nats.store(&subject, &id, DEFINITION.as_bytes()).await?;
        ensure!(matches!(stored, StoreAnswer::At(_)), "{job}: {stored:?}");
        jobs.push(job);
    }
    all_fired(world, Timestamp::MIN, PATIENCE).await?;
    Ok(jobs)
}

/// Waits until every job has fired a slot after an instant, and returns when the last one did.
async fn all_fired(world: &World, after: Timestamp, within: Duration) -> Result<Timestamp> {
    let all = |record: &Record| {
        let new = fires(record).filter(|(_, fired)| fired.scheduled_at > after);
        let (jobs, at): (BTreeSet<_>, Vec<_>) =
            new.map(|(stored, fired)| (fired.job.clone(), stored.at)).unzip();
        (jobs.len() == JOBS).then(|| at.into_iter().max()).flatten()
    };
    world.recorder().until(&format!("fires of {JOBS} jobs after {after}"), within, all).await
}

fn epochs(world: &World) -> Result<Vec<Epoch>> {
    (0..world.setup().partitions).map(|p| Ok(world.leader(Partition(p))?.epoch)).collect()
}

/// When the last slot of the outage was decided.
fn last_late_fire(record: &Record, gone: Timestamp, back: Timestamp) -> Result<Timestamp> {
    let late = fires(record)
        .filter(|(_, fired)| fired.scheduled_at > gone && fired.scheduled_at < back)
        .map(|(stored, _)| stored.at);
    late.max().context("no slot of the outage has fired")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_slot_of_an_outage_is_decided_by_the_leader_that_was() -> Result<()> {
    World::with(Setup::new(Brokers::One), async |world| {
        // Alone, so that nobody else may be back first and take the partitions over.
        world.ticker("t1", &[])?;
        world.led().await?;
        ready(world, "t1").await?;
        let jobs = define(world).await?;
        let before = epochs(world)?;
        let (begun, gone) = (now(), Instant::now());
        world.broker(0)?.kill().await?;
        sleep_until(gone + OUTAGE).await;
        world.restart_broker(0).await?;
        let back = now();
        all_fired(world, back, PATIENCE).await?;
        let caught_up = last_late_fire(&world.recorder().now(), begun, back)?.since(back);
        println!("the last slot of an outage of {OUTAGE:?} is decided {caught_up:?} after it");
        ensure!(caught_up <= CAUGHT_UP_MAX, "{caught_up:?}");
        ensure!(epochs(world)? == before, "new terms: {:?} after {before:?}", epochs(world)?);
        let skipped =
            world.recorder().now().log.values().any(|s| matches!(&s.event, LogEvent::Skipped(_)));
        ensure!(!skipped, "slots less than a minute old are skipped");
        verify(world, &jobs, Some(begun)).await
    })
    .await
}
