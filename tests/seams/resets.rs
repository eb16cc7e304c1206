//! A stream is purged, made anew or put back from a backup, under a running cluster and before a cold start: the
//! partitions stop and say why, and nothing that has fired fires again.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::LogEvent;
use cronstream_schemas::id::{FireId, Partition};
use cronstream_schemas::name::JobId;
use cronstream_tests::backup::Backup;
use cronstream_tests::crew::fired_after;
use cronstream_tests::nats::Nats;
use cronstream_tests::world::{Brokers, World, now};
use serde_json::{Value, json};

use crate::stage::{
    EVERY_SECOND, NOBODY_RUNS, PATIENCE, PERIOD, kill, publish, reached, read_log, restart, said,
    setup, stopped, ticking_in, until, until_folded,
};

const PARTITIONS: [Partition; 2] = [Partition(0), Partition(1)];
const TICKERS: [&str; 2] = ["t1", "t2"];

/// Two tickers, an executor, and a job of one second in each partition.
async fn muster(world: &mut World) -> Result<Vec<JobId>> {
    for node in TICKERS {
        world.ticker(node, &[])?;
    }
    world.executor("e1", "default", 8)?;
    world.led().await?;
    let mut jobs = Vec::new();
    for partition in PARTITIONS {
        jobs.push(ticking_in(world, partition, EVERY_SECOND).await?);
    }
    Ok(jobs)
}

/// Waits until each job has fired for two slots from now on, and executors have told of it.
async fn go_on(world: &World, jobs: &[JobId]) -> Result<()> {
    let begun = now();
    for job in jobs {
        fired_after(world, job, begun.plus(PERIOD), PATIENCE).await?;
    }
    until_folded(world).await
}

fn fires(world: &World) -> BTreeSet<FireId> {
    world.recorder().now().log.values().filter_map(|stored| fire(&stored.event)).collect()
}

fn fire(event: &LogEvent) -> Option<FireId> {
    match event {
        LogEvent::Fired(fired) => Some(fired.id()),
        _ => None,
    }
}

/// Nothing behind `behind` in the log is a fire that was known before.
async fn nothing_fired_again(world: &World, known: &BTreeSet<FireId>, behind: u64) -> Result<()> {
    let log = read_log(world).await?;
    let again: Vec<_> = log
        .range(behind + 1..)
        .filter_map(|(sequence, event)| Some((sequence, fire(event)?)))
        .filter(|(_, id)| known.contains(id))
        .collect();
    ensure!(again.is_empty(), "fired again: {again:?}");
    Ok(())
}

/// Waits until every ticker has stopped every partition for this reason. A fire that goes by itself may find another one
/// a moment before the follower tells.
async fn all_stopped(world: &World, why: &str) -> Result<()> {
    for partition in PARTITIONS {
        let what = format!("partition {} stopped for {why:?}", partition.0);
        until(&what, async || Ok(stopped(world, partition).await?.contains(why))).await?;
    }
    Ok(())
}

/// Kills the tickers, starts them again, and waits until they have stopped every partition once more.
async fn stopped_after_a_cold_start(world: &mut World, why: &str) -> Result<()> {
    kill(world, &TICKERS).await?;
    restart(world, &TICKERS).await?;
    all_stopped(world, why).await
}

async fn init(world: &World) -> Result<()> {
    let made = world.call("init", &["--partitions", "2", "--lease-ttl", "2s"]).await?;
    ensure!(made.status.success(), "init failed: {made:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purged_log_stops_the_partitions() -> Result<()> {
    World::with(setup(Brokers::One, 2), async |world| {
        let jobs = muster(world).await?;
        go_on(world, &jobs).await?;
        let nats = Nats::connect(&world.urls()).await?;
        nats.ask("STREAM.PURGE.CRON_LOG", &Value::Null).await?;
        let (known, ends) = (fires(world), nats.ends("CRON_LOG").await?);
        for node in TICKERS {
            said(world, node, "partition stopped", PARTITIONS.len()).await?;
            said(world, node, "it was purged", PARTITIONS.len()).await?;
        }
        nothing_fired_again(world, &known, ends.last).await?;
        // Without settings no ticker starts; with them again, it still does not take the purged log for a new one.
        kill(world, &TICKERS).await?;
        restart(world, &TICKERS).await?;
        for node in TICKERS {
            let status = world.process(node)?.ended(PATIENCE).await?;
            ensure!(status.code() == Some(7), "{node} ended with {status}");
        }
        init(world).await?;
        restart(world, &TICKERS).await?;
        all_stopped(world, "the log was purged").await?;
        nothing_fired_again(world, &known, ends.last).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recreated_log_stops_the_partitions() -> Result<()> {
    World::with(setup(Brokers::One, 2), async |world| {
        let jobs = muster(world).await?;
        go_on(world, &jobs).await?;
        let nats = Nats::connect(&world.urls()).await?;
        nats.ask("STREAM.DELETE.CRON_LOG", &Value::Null).await?;
        init(world).await?;
        let known = fires(world);
        all_stopped(world, "recreated").await?;
        nothing_fired_again(world, &known, 0).await?;
        stopped_after_a_cold_start(world, "recreated").await?;
        nothing_fired_again(world, &known, 0).await
    })
    .await
}

async fn log_put_back(brokers: Brokers) -> Result<()> {
    World::with(setup(brokers, 2), async |world| {
        let jobs = muster(world).await?;
        let nats = Nats::connect(&world.urls()).await?;
        let backup = Backup::take(&nats, "CRON_LOG").await?;
        go_on(world, &jobs).await?;
        let known = fires(world);
        backup.put_back(&nats).await?;
        all_stopped(world, "recreated or restored").await?;
        nothing_fired_again(world, &known, backup.last()?).await?;
        stopped_after_a_cold_start(world, "the log was set back").await?;
        nothing_fired_again(world, &known, backup.last()?).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_put_back_from_a_backup_stops_the_partitions() -> Result<()> {
    log_put_back(Brokers::One).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_put_back_from_a_backup_stops_the_partitions_on_three_brokers() -> Result<()> {
    log_put_back(Brokers::Three).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_put_back_while_no_ticker_runs_stops_the_partitions() -> Result<()> {
    World::with(setup(Brokers::One, 2), async |world| {
        let jobs = muster(world).await?;
        let nats = Nats::connect(&world.urls()).await?;
        let backup = Backup::take(&nats, "CRON_LOG").await?;
        go_on(world, &jobs).await?;
        kill(world, &TICKERS).await?;
        let known = fires(world);
        backup.put_back(&nats).await?;
        restart(world, &TICKERS).await?;
        all_stopped(world, "the log was set back").await?;
        nothing_fired_again(world, &known, backup.last()?).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_purged_before_they_are_applied_stop_the_partitions() -> Result<()> {
    World::with(setup(Brokers::One, 2), async |world| {
        let jobs = muster(world).await?;
        kill(world, &TICKERS).await?;
        let known = fires(world);
        for job in &jobs {
            publish(world, Verb::Pause, job, "").await?;
        }
        let nats = Nats::connect(&world.urls()).await?;
        nats.ask("STREAM.PURGE.CRON_COMMANDS", &Value::Null).await?;
        let ends = nats.ends("CRON_LOG").await?;
        restart(world, &TICKERS).await?;
        all_stopped(world, "are gone before they were applied").await?;
        nothing_fired_again(world, &known, ends.last).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn recreated_commands_stop_the_partitions() -> Result<()> {
    World::with(setup(Brokers::One, 2), async |world| {
        muster(world).await?;
        let nats = Nats::connect(&world.urls()).await?;
        nats.ask("STREAM.DELETE.CRON_COMMANDS", &Value::Null).await?;
        init(world).await?;
        let known = fires(world);
        for node in TICKERS {
            said(world, node, "partition stopped", 1).await?;
        }
        stopped_after_a_cold_start(world, "recreated or set back").await?;
        nothing_fired_again(world, &known, nats.ends("CRON_LOG").await?.last).await
    })
    .await
}

/// Sequences alone do not tell a new stream that has grown past the old one.
#[tokio::test(flavor = "multi_thread")]
async fn recreated_commands_that_outgrew_the_old_ones_stop_the_partitions() -> Result<()> {
    World::with(setup(Brokers::One, 2), async |world| {
        let jobs = muster(world).await?;
        kill(world, &TICKERS).await?;
        let nats = Nats::connect(&world.urls()).await?;
        let old = nats.ends("CRON_COMMANDS").await?.last;
        // Beyond what clocks may differ.
        reached(now().plus(PERIOD)).await;
        nats.ask("STREAM.DELETE.CRON_COMMANDS", &Value::Null).await?;
        init(world).await?;
        for _ in 0..=old {
            let headers = Vec::new();
            nats.store(
                &format!("cron.pause.{}.{}", jobs[0].namespace, jobs[0].name),
                &headers,
                b"",
            )
            .await?;
        }
        restart(world, &TICKERS).await?;
        all_stopped(world, "recreated").await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn recreated_runs_stop_the_partitions() -> Result<()> {
    World::with(setup(Brokers::One, 2), async |world| {
        let jobs = muster(world).await?;
        go_on(world, &jobs).await?;
        kill(world, &["e1"]).await?;
        let nats = Nats::connect(&world.urls()).await?;
        nats.ask("STREAM.DELETE.CRON_RUNS", &Value::Null).await?;
        init(world).await?;
        all_stopped(world, "the runs stream was recreated or set back").await?;
        let known = fires(world);
        let behind = nats.ends("CRON_LOG").await?.last;
        stopped_after_a_cold_start(world, "the runs stream ends at 0").await?;
        nothing_fired_again(world, &known, behind).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_that_was_purged_alone_stops_its_partition_only() -> Result<()> {
    World::with(setup(Brokers::One, 2), async |world| {
        for node in TICKERS {
            world.ticker(node, &[])?;
        }
        world.led().await?;
        let mut jobs = Vec::new();
        for partition in PARTITIONS {
            jobs.push(ticking_in(world, partition, NOBODY_RUNS).await?);
        }
        let nats = Nats::connect(&world.urls()).await?;
        nats.ask("STREAM.PURGE.CRON_LOG", &json!({ "filter": "cron.cursor.0" })).await?;
        let why = stopped(world, PARTITIONS[0]).await?;
        ensure!(why.contains("the cursor is gone"), "stopped for {why:?}");
        let known = fires(world);
        fired_after(world, &jobs[1], now(), PATIENCE).await?;
        kill(world, &TICKERS).await?;
        restart(world, &TICKERS).await?;
        let why = stopped(world, PARTITIONS[0]).await?;
        ensure!(why.contains("no cursor"), "stopped for {why:?}");
        fired_after(world, &jobs[1], now(), PATIENCE).await?;
        nothing_fired_again(world, &known, nats.ends("CRON_LOG").await?.last).await
    })
    .await
}
