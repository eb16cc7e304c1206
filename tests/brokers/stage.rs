//! What the scenarios share: looks at runs, consumers and nodes, each with a deadline.
//!
//! Invariant: nothing waits without a deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cronstream_schemas::event::RunEvent;
use cronstream_schemas::id::RunId;
use cronstream_schemas::name::JobId;
use cronstream_schemas::status::NodeStatus;
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::time::Timestamp;
use cronstream_tests::checker::{Held, Terms, check};
use cronstream_tests::crew::{fires, settle};
use cronstream_tests::nats::Nats;
use cronstream_tests::ports;
use cronstream_tests::record::{Record, Stream};
use cronstream_tests::world::{World, now};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// How long anything may take that is not measured.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at what has no signal.
const LOOK: Duration = Duration::from_millis(50);
/// Every stream of the installation.
const STREAMS: [&str; 6] =
    ["CRON_COMMANDS", "CRON_LOG", "CRON_RUNS", "CRON_DEAD", "CRON_TRACES", "KV_CRON_LEASES"];
/// The consumers of the recorder are named so.
const OURS: &str = "tests-";

/// A job of one second whose runs may overlap.
pub(crate) const EVERY_SECOND: &str = r#"{"task":"effect","schedule":{"every":"1s"},"overlap":"allow","timeout":"20s","max_attempts":10}"#;

/// Looks again and again until something is found.
pub(crate) async fn look<T>(
    what: &str,
    within: Duration,
    mut found: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + within;
    loop {
        let last = match found().await {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => "not there".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        if Instant::now() >= deadline {
            bail!("not in {within:?}: {what} (at last: {last})");
        }
        sleep(LOOK).await;
    }
}

/// Waits until a run of a slot after an instant has succeeded, and returns when it did.
pub(crate) async fn run_after(
    world: &World,
    job: &JobId,
    after: Timestamp,
    within: Duration,
) -> Result<Timestamp> {
    let what = format!("a result of {job} for a slot after {after}");
    let done = |record: &Record| {
        let new: BTreeSet<RunId> = fires(record)
            .take_while(|(stored, _)| stored.at > after)
            .filter(|(_, fired)| fired.job == *job && fired.scheduled_at > after)
            .map(|(_, fired)| fired.run)
            .collect();
        let succeeded = |stored: &&_| matches!(event(stored), RunEvent::Succeeded(_));
        let of_new = |subject: &str| {
            let key = Prefix::default().parse_run(subject);
            key.is_some_and(|key| new.contains(&key.shard.run))
        };
        let mut results = record.runs.values().filter(succeeded);
        results.find(|stored| of_new(&stored.subject)).map(|stored| stored.at)
    };
    world.recorder().until(&what, within, done).await
}

fn event(stored: &cronstream_tests::history::Stored<RunEvent>) -> &RunEvent {
    &stored.event
}

/// The consumers of each stream that are not the recorder's.
pub(crate) async fn consumers(world: &World) -> Result<BTreeMap<&'static str, BTreeSet<String>>> {
    let mut found = BTreeMap::new();
    for stream in STREAMS {
        // One that comes or goes between the two answers makes them differ.
        let agreed = async || consumers_of(world, stream).await.map(Some);
        let names = look(&format!("the consumers of {stream}"), PATIENCE, agreed).await?;
        found.insert(stream, names.into_iter().filter(|name| !name.starts_with(OURS)).collect());
    }
    Ok(found)
}

async fn consumers_of(world: &World, stream: &str) -> Result<BTreeSet<String>> {
    let nats = Nats::connect(&world.urls()).await?;
    let answer = nats.ask(&format!("CONSUMER.NAMES.{stream}"), &Value::Null).await?;
    let names: BTreeSet<String> = serde_json::from_value(answer["consumers"].clone())?;
    let info = nats.ask(&format!("STREAM.INFO.{stream}"), &Value::Null).await?;
    let count = info["state"]["consumer_count"].as_u64().context("a count")?;
    ensure!(count == names.len() as u64, "{stream} counts {count}, not {names:?}");
    Ok(names)
}

/// How many consumers each stream has.
pub(crate) async fn consumer_counts(world: &World) -> Result<BTreeMap<&'static str, usize>> {
    Ok(consumers(world).await?.into_iter().map(|(stream, names)| (stream, names.len())).collect())
}

/// Waits until each stream has as many consumers as it had.
pub(crate) async fn no_leaked_consumers(
    world: &World,
    before: &BTreeMap<&'static str, usize>,
) -> Result<()> {
    let what = format!("the consumers to be {before:?} again");
    let same = async || Ok((consumer_counts(world).await? == *before).then_some(()));
    let looked = look(&what, PATIENCE, same).await;
    let left = consumers(world).await?;
    looked.with_context(|| format!("the consumers are {left:?}"))
}

/// What a node says of itself, where it answers.
pub(crate) async fn node(world: &World, node: &str) -> Result<Option<NodeStatus>> {
    let status = world.ask("status", &[]).await?;
    let read = |role: &str| serde_json::from_value::<Vec<NodeStatus>>(status[role].clone());
    let mut nodes = read("tickers")?.into_iter().chain(read("executors")?);
    Ok(nodes.find(|found| found.node.as_str() == node))
}

/// Waits until a node says why it is not ready.
pub(crate) async fn not_ready(world: &World, name: &str, why: &str) -> Result<()> {
    let what = format!("{name} not to be ready because of {why:?}");
    let mut said = Vec::new();
    let told = async || {
        let Some(status) = node(world, name).await? else { return Ok(None) };
        said = status.not_ready;
        Ok(said.iter().any(|reason| reason.contains(why)).then_some(()))
    };
    let looked = look(&what, PATIENCE, told).await;
    looked.with_context(|| format!("{name} says {said:?}"))
}

/// Waits until a node is ready.
pub(crate) async fn ready(world: &World, name: &str) -> Result<()> {
    let ready = async || {
        let Some(status) = node(world, name).await? else { return Ok(None) };
        ensure!(status.not_ready.is_empty(), "it says {:?}", status.not_ready);
        Ok(Some(()))
    };
    look(&format!("{name} to be ready"), PATIENCE, ready).await
}

/// Makes a broker the leader of every stream and of the consumers of the log.
pub(crate) async fn lead_from(world: &World, broker: &str) -> Result<()> {
    let wish = json!({ "placement": { "preferred": broker } });
    for stream in STREAMS {
        let moved = async || {
            let nats = Nats::connect(&world.urls()).await?;
            let info = nats.ask(&format!("STREAM.INFO.{stream}"), &Value::Null).await?;
            if info["cluster"]["leader"] == broker {
                return Ok(Some(()));
            }
            nats.ask(&format!("STREAM.LEADER.STEPDOWN.{stream}"), &wish).await?;
            Ok(None)
        };
        look(&format!("{broker} to lead {stream}"), PATIENCE, moved).await?;
    }
    Ok(())
}

/// Waits until every copy of every stream is up to date.
pub(crate) async fn copies_are_current(world: &World) -> Result<()> {
    for stream in STREAMS {
        let current = async || {
            let nats = Nats::connect(&world.urls()).await?;
            let info = nats.ask(&format!("STREAM.INFO.{stream}"), &Value::Null).await?;
            let copies = info["cluster"]["replicas"].as_array().context("no replicas")?;
            let current = copies.iter().all(|copy| copy["current"] == true);
            ensure!(copies.len() == 2 && current, "{copies:?}");
            Ok(Some(()))
        };
        look(&format!("three current copies of {stream}"), PATIENCE, current).await?;
    }
    Ok(())
}

/// Pauses the jobs, waits for the last results, and holds the history against every guarantee.
pub(crate) async fn verify(
    world: &World,
    jobs: &[JobId],
    faults_since: Option<Timestamp>,
) -> Result<()> {
    settle(world, jobs).await?;
    let terms = Terms {
        through: now(),
        max_clock_error: Duration::from_millis(500),
        faults_since,
        held_at_end: Held::Undecided,
    };
    check(&world.history().await?, &terms).passed()
}

/// Three free loopback ports.
pub(crate) fn free_ports() -> Result<[u16; 3]> {
    Ok([ports::free()?, ports::free()?, ports::free()?])
}

/// Asks for a pause by the command line, which must fail, and returns what it says.
pub(crate) async fn refused_by_cli(world: &World, job: &JobId) -> Result<String> {
    let output = world.call("pause", &[&job.to_string(), "--timeout", "6s"]).await?;
    ensure!(!output.status.success(), "the pause of {job} was acknowledged");
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Every acknowledged command is stored as it was sent.
pub(crate) async fn stored_commands(world: &World, acknowledged: &[(u64, String)]) -> Result<()> {
    world.recorder().caught_up(Stream::Commands, PATIENCE).await?;
    let record = world.recorder().now();
    for (sequence, body) in acknowledged {
        let stored = record.commands.get(sequence).map(|entry| entry.message.body.as_slice());
        ensure!(stored == Some(body.as_bytes()), "command {sequence} is not what was acknowledged");
    }
    Ok(())
}
