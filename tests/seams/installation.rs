//! What belongs to the installation and not to a job: the lease bucket, the nodes' names, the number of partitions.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cronstream_schemas::id::Partition;
use cronstream_tests::crew::fired_after;
use cronstream_tests::nats::Nats;
use cronstream_tests::world::{Brokers, World, now};
use serde_json::Value;

use crate::stage::{
    EVERY_SECOND, PATIENCE, fires_of, kill, restart, said, setup, ticking, ticking_in, until,
    verify,
};

const BUCKET: &str = "KV_CRON_LEASES";
/// The exit code of a verb that failed, and of one that found no installation or another one.
const FAILED: i32 = 1;
const NOT_INITIALISED: i32 = 7;

async fn lose_the_bucket(world: &World) -> Result<()> {
    let nats = Nats::connect(&world.urls()).await?;
    nats.ask(&format!("STREAM.DELETE.{BUCKET}"), &Value::Null).await?;
    Ok(())
}

async fn bucket_lost(brokers: Brokers) -> Result<()> {
    World::with(setup(brokers, 2), async |world| {
        for node in ["t1", "t2"] {
            world.ticker(node, &[])?;
        }
        world.executor("e1", "default", 8)?;
        world.led().await?;
        let mut jobs = Vec::new();
        for partition in [Partition(0), Partition(1)] {
            jobs.push(ticking_in(world, partition, EVERY_SECOND).await?);
        }
        for _ in 0..2 {
            let lost = now();
            lose_the_bucket(world).await?;
            let nats = Nats::connect(&world.urls()).await?;
            until("the lease bucket is made again with both leases", async || {
                let info = nats.ask(&format!("STREAM.INFO.{BUCKET}"), &Value::Null).await;
                Ok(info.is_ok_and(|info| info["state"]["num_subjects"].as_u64() >= Some(4)))
            })
            .await?;
            for job in &jobs {
                fired_after(world, job, lost.plus(Duration::from_secs(2)), PATIENCE).await?;
            }
        }
        verify(world, &jobs).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_bucket_is_made_again_and_firing_goes_on() -> Result<()> {
    bucket_lost(Brokers::One).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_bucket_is_made_again_on_three_brokers() -> Result<()> {
    bucket_lost(Brokers::Three).await
}

#[tokio::test(flavor = "multi_thread")]
async fn tickers_that_find_no_lease_bucket_refuse_to_start() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        lose_the_bucket(world).await?;
        for node in ["t1", "t2"] {
            world.ticker(node, &[])?;
        }
        for node in ["t1", "t2"] {
            let status = world.process(node)?.ended(PATIENCE).await?;
            ensure!(status.code() == Some(NOT_INITIALISED), "{node} ended with {status}");
            said(world, node, "cronstream init", 1).await?;
        }
        ensure!(world.call("init", &[]).await?.status.success(), "init does not repair it");
        restart(world, &["t1", "t2"]).await?;
        world.led().await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_node_of_a_name_waits_and_then_refuses() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        world.ticker("t1", &[])?;
        world.executor("e1", "default", 8)?;
        world.led().await?;
        let job = ticking(world, "seams/clock", EVERY_SECOND).await?;
        let before = world.leader(Partition(0))?;
        world.ticker_as("second", "t1", None, &[])?;
        let status = world.process("second")?.ended(PATIENCE).await?;
        ensure!(status.code() == Some(FAILED), "the second t1 ended with {status}");
        said(world, "second", "node name t1 is taken by a live node", 1).await?;
        fired_after(world, &job, now(), PATIENCE).await?;
        let after = world.leader(Partition(0))?;
        ensure!(after.epoch == before.epoch, "the first t1 was disturbed: {after:?}");
        verify(world, &[job]).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_killed_gets_its_name_back() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        world.ticker("t1", &[])?;
        world.executor("e1", "default", 8)?;
        world.led().await?;
        let job = ticking(world, "seams/clock", EVERY_SECOND).await?;
        for _ in 0..2 {
            kill(world, &["t1"]).await?;
            let killed = now();
            restart(world, &["t1"]).await?;
            fired_after(world, &job, killed, PATIENCE).await?;
        }
        verify(world, &[job]).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn another_number_of_partitions_is_refused_and_tickers_use_the_stored_one() -> Result<()> {
    World::with(setup(Brokers::One, 8), async |world| {
        let refused = world.call("init", &["--partitions", "4"]).await?;
        ensure!(refused.status.code() == Some(NOT_INITIALISED), "init ended with {refused:?}");
        let errors = String::from_utf8(refused.stderr)?;
        ensure!(errors.contains("8 partitions, not 4") && errors.contains("hint: "), "{errors}");
        world.ticker("t1", &[])?;
        world.led().await?;
        let status = world.ask("status", &[]).await?;
        let partitions = status["partitions"].as_array().context("partitions")?.len();
        ensure!(partitions == 8, "{partitions} partitions: {status:#}");
        let job = ticking(world, "seams/clock", EVERY_SECOND).await?;
        ensure!(!fires_of(&world.recorder().now(), &job).is_empty(), "it does not fire");
        Ok(())
    })
    .await
}
