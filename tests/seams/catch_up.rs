//! Catch-ups and backfills by real processes whose leader is killed in the middle: every slot has its one outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cronstream_schemas::event::{Cause, LogEvent};
use cronstream_schemas::id::Partition;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use cronstream_tests::crew::{reign, taken_over};
use cronstream_tests::record::Record;
use cronstream_tests::world::{Brokers, World, now};

use crate::stage::{PATIENCE, fires_of, kill, reached, restart, setup, ticking, verify};

const FIRST: Partition = Partition(0);
/// A run takes a third of the time between two slots: there is time to catch up, and a run to be met.
const ALL_MISSED: &str = r#"{"task":"working","schedule":{"every":"1s"},"timeout":"20s","max_attempts":10,
    "misfire":{"policy":"fire_all","threshold":"1s","limit":50}}"#;
/// How long nobody works, in the first case.
const OUTAGE: Duration = Duration::from_secs(8);
const TICKERS: [&str; 2] = ["t1", "t2"];

/// How many slots are left in each open range of a job, and how many each had.
fn ranges(record: &Record, job: &JobId) -> BTreeMap<String, (u64, u64)> {
    let mut ranges = BTreeMap::new();
    for stored in record.log.values() {
        match &stored.event {
            LogEvent::Held(held) if held.job == *job => {
                if let Some(range) = &held.range {
                    ranges.entry(range.id.clone()).or_insert((0, range.left)).0 = range.left;
                }
            }
            LogEvent::HeldEnded(ended) if ended.job == *job => {
                if let Some((left, _)) =
                    ended.range.as_ref().and_then(|range| ranges.get_mut(range))
                {
                    *left = 0;
                }
            }
            _ => {}
        }
    }
    ranges
}

/// Waits until a range is begun, and not at its end.
async fn half_way(world: &World, job: &JobId, kind: char) -> Result<()> {
    let under_way = |record: &Record| {
        let open = ranges(record, job);
        open.iter()
            .any(|(id, (left, all))| id.starts_with(kind) && (1..all - 1).contains(left))
            .then_some(())
    };
    world.recorder().until("a range half way", PATIENCE, under_way).await
}

/// Waits until nothing of a job waits any more; returns how many slots waited in ranges of a kind.
async fn all_ended(world: &World, job: &JobId, kind: char) -> Result<u64> {
    let ended = |record: &Record| {
        let ranges = ranges(record, job);
        let all = ranges.iter().filter(|(id, _)| id.starts_with(kind)).map(|(_, (_, all))| all);
        ranges.values().all(|(left, _)| *left == 0).then(|| all.sum())
    };
    world.recorder().until("the end of every range", PATIENCE, ended).await
}

async fn muster(world: &mut World) -> Result<JobId> {
    for ticker in TICKERS {
        world.ticker(ticker, &[])?;
    }
    world.executor("e1", "default", 8)?;
    world.led().await?;
    ticking(world, "seams/missed", ALL_MISSED).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_killed_during_a_catch_up_leaves_the_rest_of_it_to_the_next() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        let job = muster(world).await?;
        let down = now();
        kill(world, &TICKERS).await?;
        reached(now().plus(OUTAGE)).await;
        restart(world, &TICKERS).await?;
        half_way(world, &job, 'c').await?;
        let victim = reign(world, FIRST)?;
        kill(world, &[victim.node.as_str()]).await?;
        taken_over(world, &victim, PATIENCE).await?;
        let caught_up = all_ended(world, &job, 'c').await?;
        ensure!(caught_up >= 5, "{caught_up} slots of {OUTAGE:?} were caught up");
        let fires = fires_of(&world.recorder().now(), &job);
        let slots: BTreeSet<_> = fires.iter().map(|fired| fired.scheduled_at).collect();
        let missed = slots.range(down..down.plus(OUTAGE)).count();
        ensure!(missed >= 6, "{missed} slots of {OUTAGE:?} have fired");
        restart(world, &[victim.node.as_str()]).await?;
        verify(world, &[job]).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_killed_during_a_backfill_leaves_the_rest_of_it_to_the_next() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        let job = muster(world).await?;
        let from = fires_of(&world.recorder().now(), &job)
            .first()
            .map(|fired| fired.scheduled_at)
            .context("it has fired")?;
        let to = from.plus(OUTAGE);
        reached(to.plus(Duration::from_millis(100))).await;
        let stretch = [job.to_string(), format!("--from={from}"), format!("--to={to}")];
        let [name, from_option, to_option] = stretch.each_ref().map(String::as_str);
        let shown = world.ask("backfill", &[name, from_option, to_option, "--dry-run"]).await?;
        ensure!(shown["slots"] == 9, "{shown:#}");
        let told = world.ask("backfill", &[name, from_option, to_option, "--yes"]).await?;
        ensure!(told["outcome"]["backfilling"]["slots"] == 9, "{told:#}");
        let command = told["command"].as_u64().context("a verdict names its command")?;
        half_way(world, &job, 'b').await?;
        let victim = reign(world, FIRST)?;
        kill(world, &[victim.node.as_str()]).await?;
        taken_over(world, &victim, PATIENCE).await?;
        let asked = all_ended(world, &job, 'b').await?;
        let fires = fires_of(&world.recorder().now(), &job);
        let again: Vec<Timestamp> = fires
            .iter()
            .filter(|fired| fired.fire_no == 1)
            .filter_map(|fired| match &fired.cause {
                Cause::Backfill(it) if it.command == command => Some(it.slot),
                Cause::Backfill(_) | Cause::Slot(_) | Cause::Trigger(_) => None,
            })
            .collect();
        let distinct: BTreeSet<_> = again.iter().collect();
        ensure!(asked == 9, "{asked} slots from {from} through {to}");
        ensure!(again.len() == 9 && distinct.len() == 9, "backfilled: {again:?}");
        ensure!(again.is_sorted(), "in their order: {again:?}");
        restart(world, &[victim.node.as_str()]).await?;
        verify(world, &[job]).await
    })
    .await
}
