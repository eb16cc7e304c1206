//! Runs that nobody takes, with params of their own: what a partition holds of them is bounded, and only who adds to it
//! is refused.

use anyhow::{Context, Result, bail, ensure};
use cronstream_core::live::OWN_PARAMS_MAX_BYTES;
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::LogEvent;
use cronstream_schemas::fault::Fault;
use cronstream_schemas::id::{Partition, RunId};
use cronstream_schemas::json::OPAQUE_MAX_BYTES;
use cronstream_schemas::name::JobId;
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::verdict::Outcome;
use cronstream_tests::client::Client;
use cronstream_tests::crew::fired_after;
use cronstream_tests::jetstream::StoreAnswer;
use cronstream_tests::nats::Nats;
use cronstream_tests::record::Record;
use cronstream_tests::world::{Brokers, World, now};

use crate::stage::{
    EVERY_SECOND, PATIENCE, define, fires_of, kill, restart, setup, ticking_in, verify,
};

/// A job whose slots lie far ahead, and whose queue has no executor yet.
const TRIGGERED: &str = r#"{"task":"effect","queue":"late","schedule":{"every":"300d"},"overlap":"allow","timeout":"20s","max_attempts":10}"#;

/// Params of the largest size, the `n`th.
fn params(n: usize) -> String {
    let name = n.to_string();
    format!("\"{name}{}\"", " ".repeat(OPAQUE_MAX_BYTES - 2 - name.len()))
}

/// Sends one trigger and hears what came of it.
async fn trigger(world: &World, job: &JobId, body: &str) -> Result<Outcome> {
    let subject = Prefix::default().command(Verb::Trigger, job);
    let client = Client::new(&world.urls());
    Ok(client.ask(&subject, Vec::new(), body.as_bytes(), PATIENCE).await?.outcome)
}

async fn fires(world: &World, job: &JobId, body: &str) -> Result<RunId> {
    match trigger(world, job, body).await? {
        Outcome::Fired { run } => Ok(run),
        other => bail!("a trigger of {job} made no run: {other:?}"),
    }
}

async fn refused(world: &World, job: &JobId, body: &str) -> Result<Fault> {
    match trigger(world, job, body).await? {
        Outcome::Rejected { faults, .. } => faults.into_iter().next().context("no fault"),
        other => bail!("a trigger of {job} is not rejected: {other:?}"),
    }
}

/// Fills the partition of a job, as far as its bound lets it.
async fn fill(world: &World, job: &JobId) -> Result<()> {
    let nats = Nats::connect(&world.urls()).await?;
    let subject = Prefix::default().command(Verb::Trigger, job);
    let most = OWN_PARAMS_MAX_BYTES / OPAQUE_MAX_BYTES;
    for n in 0..most {
        let body = format!(r#"{{"params":{}}}"#, params(n));
        let answer = nats.store(&subject, &Vec::new(), body.as_bytes()).await?;
        ensure!(matches!(answer, StoreAnswer::At(_)), "not stored: {answer:?}");
    }
    let all = |record: &Record| (fires_of(record, job).len() == most).then_some(());
    world.recorder().until("the runs that fill the partition", PATIENCE, all).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_full_of_params_refuses_more_of_them_and_fires_everything_else() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        world.ticker("t1", &[])?;
        world.executor("e1", "default", 4)?;
        world.led().await?;
        let clock = ticking_in(world, Partition(0), EVERY_SECOND).await?;
        let full = define(world, "seams/full", TRIGGERED).await?.job;
        let other = define(world, "seams/other", TRIGGERED).await?.job;
        fill(world, &full).await?;
        let more = format!(r#"{{"params":{}}}"#, params(usize::MAX));
        for leader in ["t1", "a cold one"] {
            if leader != "t1" {
                kill(world, &["t1"]).await?;
                restart(world, &["t1"]).await?;
            }
            for job in [&full, &other] {
                let fault = refused(world, job, &more).await?;
                let held = format!("hold 67108864 bytes of own params, {full} 67108864 of them");
                ensure!(fault.path == "$.params" && fault.problem.contains(&held), "{fault}");
                ensure!(fault.expected.contains("executors for queue late"), "{leader}: {fault}");
            }
            fires(world, &other, "").await?;
            fires(world, &full, "").await?;
            fires(world, &full, &format!(r#"{{"params":{}}}"#, params(7))).await?;
            fired_after(world, &clock, now(), PATIENCE).await?;
        }
        // One run less, and there is room for one.
        let first = fires_of(&world.recorder().now(), &full)[0].run;
        let cancelled =
            world.call("cancel", &[&full.to_string(), &first.to_string(), "--yes"]).await?;
        ensure!(cancelled.status.success(), "{cancelled:?}");
        fires(world, &other, &more).await?;
        refused(world, &full, &format!(r#"{{"params":{}}}"#, params(0))).await?;
        // And for all of it again once somebody has run them.
        world.executor("e2", "late", 8)?;
        let runs = fires_of(&world.recorder().now(), &full).len();
        let ended = |record: &Record| {
            let ends = record.runs.values().filter(|stored| stored.event.is_terminal());
            (ends.filter(|stored| stored.subject.contains(".seams.full.")).count() == runs)
                .then_some(())
        };
        world.recorder().until("the ends of all runs", 2 * PATIENCE, ended).await?;
        fires(world, &full, &format!(r#"{{"params":{}}}"#, params(0))).await?;
        let rejected = |event: &LogEvent| matches!(event, LogEvent::Rejected(_));
        let rejected = world.recorder().now().log.values().filter(|it| rejected(&it.event)).count();
        ensure!(rejected == 5, "{rejected} commands are rejected");
        verify(world, &[clock, full, other]).await
    })
    .await
}
