//! The crew of a failover test: tickers, executors and jobs of one second, and what is asked of them at the end.
//!
//! Invariant: [`settle`] leaves nothing undecided, so the checker may ask for an outcome of every slot and a
//! result of every run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, ensure};
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::{Fired, LogEvent};
use cronstream_schemas::id::{Epoch, Partition, ShardId};
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::time::Timestamp;

use crate::checker::{Held, Terms, check};
use crate::client::Client;
use crate::history::{History, Mark, Stored};
use crate::record::Record;
use crate::world::{World, cursors, newest_cursor, now};

/// The tickers of a crew.
pub const TICKERS: [&str; 3] = ["t1", "t2", "t3"];
/// The executors of a crew.
pub const EXECUTORS: [&str; 2] = ["e1", "e2"];
/// How many jobs run every second.
pub const JOBS: usize = 20;
/// How long the last runs may take: a fire whose executor died comes again after its ack-wait of 30 s.
const SETTLE_MAX: Duration = Duration::from_secs(120);
/// The clock error that tickers are allowed by default.
const MAX_CLOCK_ERROR: Duration = Duration::from_millis(500);

/// Starts tickers, executors and jobs, and waits until every partition is led and every job has fired.
///
/// # Errors
/// When something of it does not come up in time.
pub async fn muster(world: &mut World, task: &str) -> Result<Vec<JobId>> {
    for node in TICKERS {
        world.ticker(node, &[])?;
    }
    for node in EXECUTORS {
        world.executor(node, "default", 32)?;
    }
    world.led().await?;
    let definition = format!(
        r#"{{"task":"{task}","schedule":{{"every":"1s"}},"overlap":"allow","max_attempts":10}}"#
    );
    let client = Client::new(&world.urls());
    let mut jobs = Vec::with_capacity(JOBS);
    for number in 0..JOBS {
        let job: JobId = format!("crew/j{number}").parse()?;
        client.change(world.recorder(), Verb::Define, &job, &definition).await?;
        jobs.push(job);
    }
    let begun = now();
    for job in &jobs {
        fired_after(world, job, begun, SETTLE_MAX).await?;
    }
    Ok(jobs)
}

/// Waits for a fire of a slot after an instant.
///
/// # Errors
/// When there is none in time.
pub async fn fired_after(
    world: &World,
    job: &JobId,
    after: Timestamp,
    within: Duration,
) -> Result<Timestamp> {
    let what = format!("a fire of {job} for a slot after {after}");
    let fires = |record: &Record| {
        fires(record)
            .find(|(_, fired)| fired.job == *job && fired.scheduled_at > after)
            .map(|(stored, _)| stored.at)
    };
    world.recorder().until(&what, within, fires).await
}

/// The fires of a record, newest first.
pub fn fires(record: &Record) -> impl Iterator<Item = (&Stored<LogEvent>, &Fired)> {
    record.log.values().rev().filter_map(|stored| match &stored.event {
        LogEvent::Fired(fired) => Some((stored, fired)),
        LogEvent::JobDefined(_)
        | LogEvent::JobPaused(_)
        | LogEvent::JobResumed(_)
        | LogEvent::JobDeleted(_)
        | LogEvent::JobOverridden(_)
        | LogEvent::CalendarDefined(_)
        | LogEvent::CalendarDeleted(_)
        | LogEvent::CalendarRevised(_)
        | LogEvent::JobRevised(_)
        | LogEvent::Held(_)
        | LogEvent::HeldEnded(_)
        | LogEvent::Skipped(_)
        | LogEvent::Rejected(_)
        | LogEvent::Cursor(_)
        | LogEvent::Meta(_) => None,
    })
}

/// Partitions of one leader, with the terms it leads them in.
#[derive(Debug, Clone)]
pub struct Reign {
    /// The leader.
    pub node: Name,
    /// What it leads, and since which epoch.
    pub partitions: Vec<(Partition, Epoch)>,
}

/// What the leader of a partition leads.
///
/// # Errors
/// When nobody leads it.
pub fn reign(world: &World, partition: Partition) -> Result<Reign> {
    let node = world.leader(partition)?.node;
    let epoch = |p| Ok((p, world.leader(p)?.epoch));
    let partitions = world.led_by(&node).into_iter().map(epoch).collect::<Result<_>>()?;
    Ok(Reign { node, partitions })
}

/// Waits until another term has fired in each partition of a reign, and returns when the last of them first did.
///
/// # Errors
/// When one has not in time.
pub async fn succeeded(world: &World, reign: &Reign, within: Duration) -> Result<Timestamp> {
    let mut last = Timestamp::MIN;
    for (partition, epoch) in &reign.partitions {
        let what = format!("a fire of partition {} after {}'s", partition.0, reign.node);
        let first = |record: &Record| {
            fires(record)
                .filter(|(_, fired)| world.partition(&fired.job) == *partition)
                .take_while(|(_, fired)| fired.epoch > *epoch)
                .last()
                .map(|(stored, _)| stored.at)
        };
        last = last.max(world.recorder().until(&what, within, first).await?);
    }
    Ok(last)
}

/// Waits until another term has begun in each partition of a reign, and returns when the last of them did.
///
/// # Errors
/// When one has not in time.
pub async fn taken_over(world: &World, reign: &Reign, within: Duration) -> Result<Timestamp> {
    let mut last = Timestamp::MIN;
    for (partition, epoch) in &reign.partitions {
        let what = format!("a new leader of partition {} after {}", partition.0, reign.node);
        let first = |record: &Record| {
            cursors(record)
                .filter(|(_, cursor)| cursor.partition == *partition)
                .take_while(|(_, cursor)| cursor.epoch > *epoch)
                .last()
                .map(|(stored, _)| stored.at)
        };
        last = last.max(world.recorder().until(&what, within, first).await?);
    }
    Ok(last)
}

/// Waits until a node leads again what it led.
///
/// # Errors
/// When it does not in time.
pub async fn restored(world: &World, reign: &Reign, within: Duration) -> Result<()> {
    let what = format!("{} to lead again what it led", reign.node);
    let leads = |record: &Record| {
        reign
            .partitions
            .iter()
            .all(|(p, _)| newest_cursor(record, *p).is_some_and(|it| it.node == reign.node))
            .then_some(())
    };
    world.recorder().until(&what, within, leads).await
}

/// Pauses the jobs and waits until every run has its result.
///
/// # Errors
/// When a pause is not applied, or a run has no result, in time.
pub async fn settle(world: &World, jobs: &[JobId]) -> Result<()> {
    let client = Client::new(&world.urls());
    for job in jobs {
        client.change(world.recorder(), Verb::Pause, job, "").await?;
    }
    let settled = |record: &Record| unfinished(record).is_empty().then_some(());
    let outcome = world.recorder().until("every run's result", SETTLE_MAX, settled).await;
    let left = unfinished(&world.recorder().now());
    outcome.map_err(|error| error.context(format!("runs without a result: {left:?}")))
}

fn unfinished(record: &Record) -> BTreeSet<ShardId> {
    let prefix = Prefix::default();
    let mut shards: BTreeSet<_> = fires(record).map(|(_, fired)| fired.shard_id()).collect();
    for stored in record.runs.values().filter(|stored| stored.event.is_terminal()) {
        if let Some(key) = prefix.parse_run(&stored.subject) {
            shards.remove(&key.shard);
        }
    }
    shards
}

/// How much a history tells.
#[derive(Debug, Clone, Copy)]
pub struct Evidence {
    /// First fires of slots and triggers.
    pub fired: usize,
    /// The longest time from a slot to its first fire.
    pub latest: Duration,
    /// Events of slots that did not fire.
    pub skipped: usize,
    /// Fires beyond the first of a shard.
    pub retries: usize,
    /// Changes of a leader.
    pub takeovers: usize,
    /// Broken connections.
    pub breaks: usize,
    /// Attempts that began, as their tasks tell it.
    pub attempts: usize,
}

impl Evidence {
    fn of(history: &History) -> Self {
        let mut evidence = Self {
            fired: 0,
            latest: Duration::ZERO,
            skipped: 0,
            retries: 0,
            takeovers: 0,
            breaks: history.breaks.len(),
            attempts: history.effects.iter().filter(|it| it.mark == Mark::Start).count(),
        };
        let mut epochs = BTreeMap::new();
        for stored in &history.log {
            match &stored.event {
                LogEvent::Fired(fired) if fired.fire_no == 1 => {
                    evidence.fired += 1;
                    evidence.latest = evidence.latest.max(stored.at.since(fired.scheduled_at));
                }
                LogEvent::Fired(_) => evidence.retries += 1,
                LogEvent::Skipped(_) => evidence.skipped += 1,
                LogEvent::Cursor(cursor) => {
                    let before = epochs.insert(cursor.partition, cursor.epoch);
                    let changed = before.is_some_and(|before| before != cursor.epoch);
                    evidence.takeovers += usize::from(changed);
                }
                LogEvent::JobDefined(_)
                | LogEvent::JobPaused(_)
                | LogEvent::JobResumed(_)
                | LogEvent::JobDeleted(_)
                | LogEvent::JobOverridden(_)
                | LogEvent::CalendarDefined(_)
                | LogEvent::CalendarDeleted(_)
                | LogEvent::CalendarRevised(_)
                | LogEvent::JobRevised(_)
                | LogEvent::Held(_)
                | LogEvent::HeldEnded(_)
                | LogEvent::Rejected(_)
                | LogEvent::Meta(_) => {}
            }
        }
        evidence
    }
}

/// Settles, reads the history, and holds it against every guarantee.
///
/// # Errors
/// The violations, or why nothing was tested.
pub async fn judge(world: &World, jobs: &[JobId], faults_since: Timestamp) -> Result<Evidence> {
    settle(world, jobs).await?;
    let terms = Terms {
        through: now(),
        max_clock_error: MAX_CLOCK_ERROR,
        faults_since: Some(faults_since),
        held_at_end: Held::Undecided,
    };
    let history = world.history().await?;
    ensure!(!history.effects.is_empty(), "no task has left an effect");
    check(&history, &terms).passed()?;
    Ok(Evidence::of(&history))
}

/// The middle one of some durations.
///
/// # Errors
/// When there are none.
pub fn median(mut durations: Vec<Duration>) -> Result<Duration> {
    ensure!(!durations.is_empty(), "no trials");
    durations.sort();
    Ok(durations[durations.len() / 2])
}
