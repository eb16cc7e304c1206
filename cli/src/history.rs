//! Runs as the log and the run events tell of them.
//!
//! Invariant: a reading begins at the run's own instant, less what clocks may differ, and is bounded.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::time::Duration;

use cronstream_bus::{Bus, Error as BusError, StoredMessage};
use cronstream_schemas::event::{Decoded, Event as _, Fired, LogEvent, Place, RunEvent};
use cronstream_schemas::id::RunId;
use cronstream_schemas::name::JobId;
use cronstream_schemas::subject::RunKey;
use cronstream_schemas::time::Timestamp;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::error::Error;
use crate::{follow, jobs};

/// How far before a run's instant its fire may have been stored.
const CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(60);
/// The most fires that are looked at for one run.
const FIRES_READ_MAX: u64 = 2_000_000;
/// How far back the newest runs are looked for at first; each further look goes [`LOOK_GROWS`] times as far.
const LOOK_FIRST: Duration = Duration::from_secs(10);
const LOOK_GROWS: u32 = 6;
/// The farthest look; no fire is kept longer.
const LOOK_LAST: Duration = Duration::from_secs(3 * 366 * 86_400);
/// Shards whose last event is read at the same time.
const READS_IN_FLIGHT: usize = 16;

/// A fire with the place it was stored at.
#[derive(Debug, Clone)]
pub(crate) struct Fire {
    /// Its broker timestamp.
    pub(crate) at: Timestamp,
    /// The order.
    pub(crate) fired: Fired,
}

/// An event of a run.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// Its broker timestamp.
    pub(crate) at: Timestamp,
    /// Its sequence: an attempt's fencing token where it is the start.
    pub(crate) seq: u64,
    /// The shard.
    pub(crate) key: RunKey,
    /// What happened; the kind alone where a later version wrote it.
    pub(crate) event: Decoded<RunEvent>,
}

impl Step {
    /// Where in the shard's life it stands, if this version knows.
    pub(crate) fn place(&self) -> Option<Place> {
        match &self.event {
            Decoded::Known(event) => Some(event.place()),
            Decoded::Unknown { .. } => None,
        }
    }

    /// Whether it ends its shard.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(&self.event, Decoded::Known(event) if event.is_terminal())
    }
}

/// A run, from the newest fire of each of its shards.
#[derive(Debug)]
pub(crate) struct Found {
    /// The newest fire by shard.
    pub(crate) fires: BTreeMap<u16, Fire>,
    /// When the first one was stored.
    pub(crate) first_at: Timestamp,
}

/// The newest runs, at most `count`, of one job or of all, by their instants.
///
/// # Errors
/// When the log cannot be read.
pub(crate) async fn newest(
    bus: &Bus,
    job: Option<&JobId>,
    count: usize,
) -> Result<BTreeMap<RunId, Found>, Error> {
    let filter = fires_filter(bus, job);
    let now = jobs::now();
    let mut look = LOOK_FIRST;
    loop {
        let mut runs: BTreeMap<RunId, Found> = BTreeMap::new();
        let mut left_out = false;
        follow::since(bus, &bus.names().log, (&filter, now.minus(look)), |message| {
            if let Some(fire) = read_fire(message) {
                note(&mut runs, fire);
                if runs.len() > count {
                    runs.pop_first();
                    left_out = true;
                }
            }
            ControlFlow::Continue(())
        })
        .await?;
        if left_out || runs.len() >= count || look >= LOOK_LAST {
            return Ok(runs);
        }
        look = (look * LOOK_GROWS).min(LOOK_LAST);
    }
}

fn note(runs: &mut BTreeMap<RunId, Found>, fire: Fire) {
    let found = runs
        .entry(fire.fired.run)
        .or_insert_with(|| Found { fires: BTreeMap::new(), first_at: fire.at });
    let newest = found.fires.get(&fire.fired.shard);
    if newest.is_none_or(|newest| newest.fired.fire_no <= fire.fired.fire_no) {
        found.fires.insert(fire.fired.shard, fire);
    }
}

/// Every event of a run that is kept, in order.
///
/// # Errors
/// When the run events cannot be read.
pub(crate) async fn steps(bus: &Bus, run: RunId) -> Result<Vec<Step>, Error> {
    let prefix = bus.names().prefix();
    let filter = format!("{prefix}.run.*.*.*.{run}.*");
    let mut steps = Vec::new();
    let from = run.at().minus(CLOCKS_DIFFER_MAX);
    follow::since(bus, &bus.names().runs, (&filter, from), |message| {
        steps.extend(read_step(bus, message));
        ControlFlow::Continue(())
    })
    .await?;
    Ok(steps)
}

/// The fires of a run that are kept, in order; all of a finished run are before `until`.
///
/// # Errors
/// When the log cannot be read.
pub(crate) async fn fires(
    bus: &Bus,
    run: RunId,
    job: Option<&JobId>,
    until: Option<Timestamp>,
) -> Result<Vec<Fire>, Error> {
    let (mut fires, mut looked_at) = (Vec::new(), 0_u64);
    let mut end = until.unwrap_or(Timestamp::MAX);
    let from = run.at().minus(CLOCKS_DIFFER_MAX);
    follow::since(bus, &bus.names().log, (&fires_filter(bus, job), from), |message| {
        looked_at += 1;
        if looked_at > FIRES_READ_MAX || Timestamp::from_millis(message.timestamp_ms) > end {
            return ControlFlow::Break(());
        }
        if let Some(fire) = read_fire(message).filter(|fire| fire.fired.run == run) {
            end = end.min(fire.fired.run_by.plus(CLOCKS_DIFFER_MAX));
            fires.push(fire);
        }
        ControlFlow::Continue(())
    })
    .await?;
    Ok(fires)
}

/// The first fire of a run.
///
/// # Errors
/// [`Error::NoRun`] when none is kept.
pub(crate) async fn first_fire(bus: &Bus, run: RunId, job: Option<&JobId>) -> Result<Fire, Error> {
    let (mut first, mut looked_at) = (None, 0_u64);
    let from = run.at().minus(CLOCKS_DIFFER_MAX);
    follow::since(bus, &bus.names().log, (&fires_filter(bus, job), from), |message| {
        looked_at += 1;
        first = read_fire(message).filter(|fire| fire.fired.run == run);
        if first.is_some() || looked_at >= FIRES_READ_MAX {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
    .await?;
    first.ok_or(Error::NoRun(run))
}

/// The job of a run.
///
/// # Errors
/// [`Error::NoRun`] when no event of it is kept.
pub(crate) async fn job_of(bus: &Bus, run: RunId) -> Result<JobId, Error> {
    match steps(bus, run).await?.into_iter().next() {
        Some(step) => Ok(step.key.job),
        None => Ok(first_fire(bus, run, None).await?.fired.job),
    }
}

/// The last event of each shard, in the order asked for; `None` where nothing has started it.
///
/// # Errors
/// When the run events cannot be read.
pub(crate) async fn last_steps(
    bus: &Bus,
    keys: impl IntoIterator<Item = RunKey>,
) -> Result<Vec<Option<Step>>, Error> {
    let reads = stream::iter(keys).map(|key| async move {
        let subject = bus.names().prefix().run(&key);
        let last = match bus.last_from_leader(&bus.names().runs, &subject).await {
            Err(BusError::Denied { .. }) => bus.last_direct(&bus.names().runs, &subject).await?,
            other => other?,
        };
        Ok::<_, Error>(last.and_then(|message| read_step(bus, &message)))
    });
    reads.buffered(READS_IN_FLIGHT).try_collect().await
}

/// The address of the events that a fire brings about.
pub(crate) fn key_of(fired: &Fired) -> RunKey {
    RunKey { queue: fired.queue.clone(), job: fired.job.clone(), shard: fired.shard_id() }
}

/// How a run stands, from the last event of each of its shards.
pub(crate) fn standing<'a>(shards: impl IntoIterator<Item = Option<&'a Step>>) -> String {
    let words: HashSet<&str> = shards.into_iter().map(shard_standing).collect();
    // What is worst, or goes on, says more than what is done.
    let order = ["failed", "lost", "expired", "cancelled", "retrying", "running", "waiting"];
    let first = order.into_iter().find(|word| words.contains(word));
    first.or_else(|| words.into_iter().next()).unwrap_or("waiting").to_owned()
}

fn shard_standing(step: Option<&Step>) -> &str {
    match step.map(|step| &step.event) {
        None => "waiting",
        Some(Decoded::Known(event)) => match event {
            RunEvent::Started(_) => "running",
            RunEvent::Interrupted(_) => "waiting",
            RunEvent::AttemptFailed(_) => "retrying",
            RunEvent::Succeeded(_)
            | RunEvent::Failed(_)
            | RunEvent::Expired(_)
            | RunEvent::Cancelled(_)
            | RunEvent::Lost(_) => event.kind(),
        },
        Some(Decoded::Unknown { kind }) => kind,
    }
}

fn fires_filter(bus: &Bus, job: Option<&JobId>) -> String {
    let prefix = bus.names().prefix();
    match job {
        Some(job) => format!("{prefix}.fire.*.{}.{}", job.namespace, job.name),
        None => format!("{prefix}.fire.>"),
    }
}

fn read_fire(message: &StoredMessage) -> Option<Fire> {
    match LogEvent::decode(&message.payload) {
        Ok(Decoded::Known(LogEvent::Fired(fired))) => {
            Some(Fire { at: Timestamp::from_millis(message.timestamp_ms), fired })
        }
        Ok(_) | Err(_) => {
            tracing::warn!(message.subject, message.seq, "not a fire that this version knows");
            None
        }
    }
}

pub(crate) fn read_step(bus: &Bus, message: &StoredMessage) -> Option<Step> {
    let key = bus.names().prefix().parse_run(&message.subject);
    match (key, RunEvent::decode(&message.payload)) {
        (Some(key), Ok(event)) => {
            let at = Timestamp::from_millis(message.timestamp_ms);
            Some(Step { at, seq: message.seq, key, event })
        }
        (None, _) | (_, Err(_)) => {
            tracing::warn!(message.subject, message.seq, "not a run event");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use cronstream_schemas::event::{Executor, Started, Succeeded};
    use cronstream_schemas::id::{Instance, ShardId};
    use cronstream_schemas::name::Name;

    use super::*;

    fn step(event: Decoded<RunEvent>) -> Step {
        let run = "01a31bbc-507b-8dab-b5ee-be7b4b3cf84b".parse().unwrap();
        let queue = Name::parse("q").unwrap();
        let key = RunKey { queue, job: "a/b".parse().unwrap(), shard: ShardId { run, shard: 0 } };
        Step { at: Timestamp::MIN, seq: 1, key, event }
    }

    #[test]
    fn a_run_stands_as_its_worst_or_slowest_shard() {
        let node = Name::parse("n").unwrap();
        let instance: Instance =
            serde_json::from_str("\"01a31bbc-507b-8dab-b5ee-be7b4b3cf84b\"").unwrap();
        let (place, executor) = (Place::default(), Executor { node, instance });
        let started =
            step(Decoded::Known(RunEvent::Started(Started { place, executor: executor.clone() })));
        let done = Succeeded { place, executor, result: None, output: None };
        let done = step(Decoded::Known(RunEvent::Succeeded(done)));
        let unknown = step(Decoded::Unknown { kind: "suspended".into() });
        assert_eq!(standing([None]), "waiting");
        assert_eq!(standing([Some(&done), Some(&started)]), "running");
        assert_eq!(standing([Some(&done), Some(&done)]), "succeeded");
        assert_eq!(standing([Some(&done), None]), "waiting");
        assert_eq!(standing([Some(&unknown)]), "suspended");
    }
}
