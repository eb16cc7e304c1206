//! All tickers start from nothing but the streams, when everything in them that expires has expired.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cronstream_schemas::command::Verb;
use cronstream_schemas::id::Partition;
use cronstream_schemas::name::JobId;
use cronstream_tests::crew::fired_after;
use cronstream_tests::nats::Nats;
use cronstream_tests::world::{Brokers, World, newest_cursor, now};
use serde_json::{Value, json};

use crate::stage::{
    EVERY_SECOND, PATIENCE, PERIOD, change, define, fires_of, kill, last_slot, name_in, restart,
    setup, ticking, ticking_in, until, until_folded,
};

/// What has a TTL in CRON_LOG.
const EXPIRING: [&str; 4] = ["cron.fire.>", "cron.history.>", "cron.skipped.>", "cron.rejected.>"];

async fn let_everything_expire(world: &World) -> Result<()> {
    let nats = Nats::connect(&world.urls()).await?;
    for filter in EXPIRING {
        nats.ask("STREAM.PURGE.CRON_LOG", &json!({ "filter": filter })).await?;
    }
    for stream in ["CRON_RUNS", "CRON_COMMANDS"] {
        nats.ask(&format!("STREAM.PURGE.{stream}"), &Value::Null).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_and_a_delete_hold_when_only_rolled_up_state_is_left() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        for node in ["t1", "t2"] {
            world.ticker(node, &[])?;
        }
        world.executor("e1", "default", 8)?;
        world.led().await?;
        let mut jobs = Vec::new();
        for name in ["seams/goes-on", "seams/paused", "seams/deleted"] {
            jobs.push(ticking(world, name, EVERY_SECOND).await?);
        }
        let [goes_on, paused, deleted] = &jobs[..] else { unreachable!("three jobs") };
        change(world, Verb::Pause, paused, "").await?;
        change(world, Verb::Delete, deleted, "").await?;
        let count = |world: &World, job: &JobId| fires_of(&world.recorder().now(), job).len();
        let before = (count(world, paused), count(world, deleted));
        until_folded(world).await?;
        for _ in 0..2 {
            kill(world, &["t1", "t2"]).await?;
            let_everything_expire(world).await?;
            let started = now();
            restart(world, &["t1", "t2"]).await?;
            fired_after(world, goes_on, started.plus(2 * PERIOD), PATIENCE).await?;
            ensure!(count(world, paused) == before.0, "{paused} has fired");
            ensure!(count(world, deleted) == before.1, "{deleted} has fired");
        }
        let told = world.ask("get", &[&paused.to_string()]).await?;
        ensure!(told.to_string().contains("paused"), "{told:#}");
        let listed = String::from_utf8(world.call("list", &[]).await?.stdout)?;
        ensure!(listed.contains("seams/paused") && !listed.contains("seams/deleted"), "{listed}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_another_partition_that_aged_out_stop_nobody() -> Result<()> {
    World::with(setup(Brokers::One, 2), async |world| {
        let options = ["--cursor-refresh", "1s"];
        world.ticker("t1", &options)?;
        world.executor("e1", "default", 8)?;
        world.led().await?;
        let idle = ticking_in(world, Partition(0), EVERY_SECOND).await?;
        // Nothing of the first partition moves its cursor any more.
        change(world, Verb::Pause, &idle, "").await?;
        until_folded(world).await?;
        let busy = name_in(world, Partition(1))?;
        let mut last = 0;
        for _ in 0..3 {
            last = define(world, &busy.to_string(), EVERY_SECOND).await?.command;
        }
        let refreshed = |record: &_| {
            let cursor = newest_cursor(record, Partition(0))?;
            (cursor.commands_through >= last).then_some(())
        };
        world.recorder().until("the idle partition's cursor", PATIENCE, refreshed).await?;
        kill(world, &["t1"]).await?;
        let nats = Nats::connect(&world.urls()).await?;
        let info = nats.ask("STREAM.INFO.CRON_COMMANDS", &Value::Null).await?;
        let mut config = info["config"].clone();
        let span = u64::try_from(Duration::from_secs(1).as_nanos())?;
        (config["max_age"], config["duplicate_window"]) = (json!(span), json!(span));
        nats.ask("STREAM.UPDATE.CRON_COMMANDS", &config).await?;
        until("the commands to age out", async || {
            let ends = nats.ends("CRON_COMMANDS").await?;
            Ok(ends.first > ends.last)
        })
        .await?;
        let started = now();
        restart(world, &["t1"]).await?;
        fired_after(world, &busy, started, PATIENCE).await?;
        let state = change(world, Verb::Resume, &idle, "").await?;
        fired_after(world, &idle, state.at, PATIENCE).await?;
        last_slot(world, &idle).context("the idle partition").map(drop)
    })
    .await
}
