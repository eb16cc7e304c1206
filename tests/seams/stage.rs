//! What the scenarios share: jobs, waits with a deadline, and what must be true at the end.
//!
//! Invariant: nothing waits without a deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cronstream_core::lease;
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::{Fired, JobState, LogEvent};
use cronstream_schemas::id::Partition;
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::time::Timestamp;
use cronstream_tests::checker::{Held, Terms, check};
use cronstream_tests::client::Client;
use cronstream_tests::crew::{fired_after, fires, settle};
use cronstream_tests::nats::Nats;
use cronstream_tests::record::{Record, Stream};
use cronstream_tests::world::{Brokers, Setup, World, now};
use serde_json::Value;
use tokio::time::{Instant, sleep};

/// How long anything may take that is not measured.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two slots of most jobs.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);
/// Between two looks at what has no signal: a log file, the answer of `status`.
const LOOK: Duration = Duration::from_millis(50);

/// A job of one second whose runs may overlap.
pub(crate) const EVERY_SECOND: &str = r#"{"task":"effect","schedule":{"every":"1s"},"overlap":"allow","timeout":"20s","max_attempts":10}"#;
/// The same without an executor: only its fires matter.
pub(crate) const NOBODY_RUNS: &str =
    r#"{"task":"none","queue":"nobody","schedule":{"every":"1s"},"overlap":"allow"}"#;

/// An installation with so many partitions and a lease of two seconds.
pub(crate) const fn setup(brokers: Brokers, partitions: u8) -> Setup {
    Setup { brokers, partitions, lease_ttl: Duration::from_secs(2) }
}

/// Defines a job and waits until it is in force.
pub(crate) async fn define(world: &World, job: &str, body: &str) -> Result<JobState> {
    change(world, Verb::Define, &job.parse()?, body).await
}

/// Changes a job and waits until the change is in force.
pub(crate) async fn change(world: &World, verb: Verb, job: &JobId, body: &str) -> Result<JobState> {
    Client::new(&world.urls()).change(world.recorder(), verb, job, body).await
}

/// Publishes a command that is applied when a ticker comes; returns its sequence and broker timestamp.
pub(crate) async fn publish(
    world: &World,
    verb: Verb,
    job: &JobId,
    body: &str,
) -> Result<(u64, Timestamp)> {
    let seq = Client::new(&world.urls()).send(verb, job, body).await?;
    world.recorder().caught_up(Stream::Commands, PATIENCE).await?;
    let at = world.recorder().now().commands.get(&seq).map(|entry| entry.at);
    Ok((seq, at.context("a command that is not recorded")?))
}

/// Defines a job of one second whose partition is this one, and waits for its first fire.
pub(crate) async fn ticking_in(world: &World, partition: Partition, body: &str) -> Result<JobId> {
    let job = name_in(world, partition)?;
    ticking(world, &job.to_string(), body).await
}

/// Defines a job of one second and waits for its first fire.
pub(crate) async fn ticking(world: &World, job: &str, body: &str) -> Result<JobId> {
    let state = define(world, job, body).await?;
    fired_after(world, &state.job, state.at, PATIENCE).await?;
    Ok(state.job)
}

/// A name whose partition is this one.
pub(crate) fn name_in(world: &World, partition: Partition) -> Result<JobId> {
    let names = (0..1_000).filter_map(|n| format!("seams/j{n}").parse().ok());
    let found = names.into_iter().find(|job: &JobId| world.partition(job) == partition);
    found.context("no name falls into the partition")
}

/// Two node names: the owner of the first partition while both live, and the other.
pub(crate) fn owner_and_other() -> Result<(Name, Name)> {
    let pair: [Name; 2] = ["t1".parse()?, "t2".parse()?];
    let [one, two] = pair.clone();
    let first = lease::rank(Partition(0), &one, &pair) == 0;
    Ok(if first { (one, two) } else { (two, one) })
}

/// The fires of a job, oldest first.
pub(crate) fn fires_of(record: &Record, job: &JobId) -> Vec<Fired> {
    all_fires(record).into_iter().filter(|fired| fired.job == *job).collect()
}

/// The fires of all jobs, oldest first.
pub(crate) fn all_fires(record: &Record) -> Vec<Fired> {
    let mut fires: Vec<_> = fires(record).map(|(_, fired)| fired.clone()).collect();
    fires.reverse();
    fires
}

/// The last slot of a job that has fired.
pub(crate) fn last_slot(world: &World, job: &JobId) -> Result<Timestamp> {
    let fires = fires_of(&world.recorder().now(), job);
    fires.iter().map(|fired| fired.scheduled_at).max().context("it has not fired")
}

/// The first slot of a job of one second that is far enough ahead to prepare for.
pub(crate) fn coming_slot(world: &World, job: &JobId) -> Result<Timestamp> {
    const AHEAD: Duration = Duration::from_millis(600);
    let (mut slot, soon) = (last_slot(world, job)?, now().plus(AHEAD));
    while slot <= soon {
        slot = slot.plus(PERIOD);
    }
    Ok(slot)
}

/// Waits until the wall clock shows an instant.
pub(crate) async fn reached(instant: Timestamp) {
    let left = instant.since(now());
    tokio::time::sleep_until(Instant::now() + left).await;
}

/// Waits until the slot of a job has fired, and returns the fire.
pub(crate) async fn fire_of(world: &World, job: &JobId, slot: Timestamp) -> Result<Fired> {
    let what = format!("the fire of {job} for {slot}");
    let fire = |record: &Record| {
        fires_of(record, job).into_iter().find(|fired| fired.scheduled_at == slot)
    };
    world.recorder().until(&what, PATIENCE, fire).await
}

/// Each slot from the first to the last fire of a job of one second fired exactly once.
pub(crate) fn once_each_second(fires: &[Fired]) -> Result<()> {
    let mut slots: Vec<_> = fires.iter().map(|fired| fired.scheduled_at).collect();
    slots.sort();
    ensure!(!slots.is_empty(), "nothing has fired");
    for pair in slots.windows(2) {
        ensure!(pair[1] == pair[0].plus(PERIOD), "{} is followed by {}", pair[0], pair[1]);
    }
    Ok(())
}

/// Pauses the jobs, waits for the last results, and holds the history against every guarantee.
pub(crate) async fn verify(world: &World, jobs: &[JobId]) -> Result<()> {
    settle(world, jobs).await?;
    let terms = Terms {
        through: now(),
        max_clock_error: Duration::from_millis(500),
        faults_since: None,
        held_at_end: Held::Undecided,
    };
    check(&world.history().await?, &terms).passed()
}

/// Waits until the log of a process contains a text, `times` times.
pub(crate) async fn said(world: &mut World, process: &str, text: &str, times: usize) -> Result<()> {
    let log = world.process(process)?.log().to_owned();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = String::from_utf8_lossy(&std::fs::read(&log)?).matches(text).count();
        if found >= times {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{process} said {text:?} {found} times, not {times}");
        sleep(LOOK).await;
    }
}

/// Waits until every ticker says that the partition is stopped, and returns why.
pub(crate) async fn stopped(world: &World, partition: Partition) -> Result<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = world.ask("status", &[]).await?;
        let tickers = status["tickers"].as_array().context("a status without tickers")?;
        let seats = tickers.iter().map(|ticker| {
            &ticker["role"]["ticker"]["partitions"][usize::from(partition.0)]["stopped"]
        });
        let why: Vec<&str> = seats.filter_map(Value::as_str).collect();
        if let (true, Some(why)) = (why.len() == tickers.len(), why.first()) {
            return Ok((*why).to_owned());
        }
        if Instant::now() >= deadline {
            bail!("partition {} is not stopped everywhere: {status:#}", partition.0);
        }
        sleep(LOOK).await;
    }
}

/// Reads CRON_LOG as it is now.
pub(crate) async fn read_log(world: &World) -> Result<BTreeMap<u64, LogEvent>> {
    use cronstream_schemas::event::{Decoded, Event};
    let nats = Nats::connect(&world.urls()).await?;
    let mut events = BTreeMap::new();
    let ends = nats.ends("CRON_LOG").await?;
    let mut follow = nats.follow("CRON_LOG", 1).await?;
    while let Some(entry) = follow.next_or_idle().await? {
        if let Ok(Decoded::Known(event)) = LogEvent::decode(&entry.message.body) {
            events.insert(entry.sequence, event);
        }
        if entry.sequence >= ends.last {
            break;
        }
    }
    Ok(events)
}

/// Kills processes as a crash would.
pub(crate) async fn kill(world: &mut World, processes: &[&str]) -> Result<()> {
    for process in processes {
        world.process(process)?.kill().await?;
    }
    Ok(())
}

/// Starts processes again by the command lines they had.
pub(crate) async fn restart(world: &mut World, processes: &[&str]) -> Result<()> {
    for process in processes {
        world.process(process)?.restart().await?;
    }
    Ok(())
}

/// Waits until something that has no signal is so.
pub(crate) async fn until(what: &str, so: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !so().await? {
        ensure!(Instant::now() < deadline, "not in {PATIENCE:?}: {what}");
        sleep(LOOK).await;
    }
    Ok(())
}

/// Waits until each fire so far has its result, so that executors have told of all of them.
pub(crate) async fn until_folded(world: &World) -> Result<()> {
    let due: Vec<_> = all_fires(&world.recorder().now());
    let prefix = Prefix::default();
    let ended = |record: &Record| {
        let mut left: BTreeSet<_> = due.iter().map(Fired::shard_id).collect();
        for stored in record.runs.values().filter(|stored| stored.event.is_terminal()) {
            if let Some(key) = prefix.parse_run(&stored.subject) {
                left.remove(&key.shard);
            }
        }
        left.is_empty().then_some(())
    };
    world.recorder().until("the results of all fires", PATIENCE, ended).await
}
