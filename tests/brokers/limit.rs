//! Streams reach a limit that an operator has set: the server refuses with a word, everybody repeats it, and the work
//! goes on by itself as soon as the limit is raised. `docs/operating/disk-full.md` says so.

use anyhow::{Context, Result, bail, ensure};
use cronstream_schemas::command::Verb;
use cronstream_schemas::name::JobId;
use cronstream_schemas::subject::Prefix;
use cronstream_tests::client::Client;
use cronstream_tests::jetstream::StoreAnswer;
use cronstream_tests::nats::Nats;
use cronstream_tests::world::{Brokers, Setup, World, now};
use serde_json::{Value, json};

use crate::stage::{
    EVERY_SECOND, PATIENCE, not_ready, ready, refused_by_cli, run_after, stored_commands, verify,
};

/// Triggers that certainly do not fit.
const TRIGGERS_MAX: usize = 100;
/// What the server says of a stream that is full.
const FULL: &str = "maximum bytes exceeded (10077)";
/// Its triggers are large, and nobody runs them.
const JOB: &str = r#"{"task":"none","queue":"nobody","schedule":{"at":"2199-01-01T00:00:00Z"},"overlap":"allow","start_within":"1s","timeout":"1s","max_attempts":1}"#;

/// Leaves a stream so many bytes, or any number.
async fn limit(world: &World, stream: &str, more: Option<u64>) -> Result<()> {
    let nats = Nats::connect(&world.urls()).await?;
    let info = nats.ask(&format!("STREAM.INFO.{stream}"), &Value::Null).await?;
    let bytes = info["state"]["bytes"].as_u64().context("a stream without bytes")?;
    let mut config = info["config"].clone();
    config["max_bytes"] = more.map_or(json!(-1), |more| json!(bytes + more));
    nats.ask(&format!("STREAM.UPDATE.{stream}"), &config).await.map(drop)
}

/// Stores triggers with large params until one is refused; returns those which were acknowledged.
async fn fill(world: &World, job: &JobId) -> Result<Vec<(u64, String)>> {
    let nats = Nats::connect(&world.urls()).await?;
    let subject = Prefix::default().command(Verb::Trigger, job);
    let mut acknowledged = Vec::new();
    for number in 0..TRIGGERS_MAX {
        let body = format!(r#"{{"params":"{number} {}"}}"#, "x".repeat(100_000));
        match nats.store(&subject, &Vec::new(), body.as_bytes()).await? {
            StoreAnswer::At(sequence) => acknowledged.push((sequence, body)),
            StoreAnswer::Refused { code, description } => {
                ensure!(format!("{description} ({code})") == FULL, "{description} ({code})");
                return Ok(acknowledged);
            }
            StoreAnswer::Duplicate(_) => bail!("a trigger without an id is known"),
        }
    }
    bail!("{TRIGGERS_MAX} triggers were stored")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_named_everywhere_and_raising_it_is_enough() -> Result<()> {
    World::with(Setup::new(Brokers::One), async |world| {
        world.ticker("t1", &[])?;
        world.executor("e1", "default", 4)?;
        world.led().await?;
        let (clock, large): (JobId, JobId) = ("limit/clock".parse()?, "limit/large".parse()?);
        let client = Client::new(&world.urls());
        client.change(world.recorder(), Verb::Define, &clock, EVERY_SECOND).await?;
        client.change(world.recorder(), Verb::Define, &large, JOB).await?;
        run_after(world, &clock, now(), PATIENCE).await?;
        limit(world, "CRON_COMMANDS", Some(1_500_000)).await?;
        limit(world, "CRON_LOG", Some(500_000)).await?;
        let acknowledged = fill(world, &large).await?;
        not_ready(world, "t1", FULL).await?;
        limit(world, "CRON_COMMANDS", Some(0)).await?;
        let said = refused_by_cli(world, &clock).await?;
        ensure!(said.contains(FULL), "{said}");
        for stream in ["CRON_COMMANDS", "CRON_LOG"] {
            limit(world, stream, None).await?;
        }
        run_after(world, &clock, now(), PATIENCE).await?;
        for node in ["t1", "e1"] {
            ready(world, node).await?;
        }
        stored_commands(world, &acknowledged).await?;
        verify(world, &[clock], None).await
    })
    .await
}
