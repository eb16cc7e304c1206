//! Messages in CRON_LOG that no leader wrote: an id that a coming fire will have, noise on a cursor's subject.

use anyhow::{Result, ensure};
use cronstream_schemas::header;
use cronstream_schemas::id::{FireId, Partition, RunId, RunSeed, ShardId};
use cronstream_tests::crew::fired_after;
use cronstream_tests::jetstream::StoreAnswer;
use cronstream_tests::nats::Nats;
use cronstream_tests::world::{Brokers, World, now};

use crate::stage::{
    NOBODY_RUNS, PATIENCE, PERIOD, coming_slot, define, fire_of, fires_of, kill, once_each_second,
    reached, restart, said, setup, stopped, ticking,
};

const FIRST: Partition = Partition(0);

async fn known_id(brokers: Brokers) -> Result<()> {
    World::with(setup(brokers, 1), async |world| {
        world.ticker("t1", &[])?;
        world.led().await?;
        let state = define(world, "seams/clock", NOBODY_RUNS).await?;
        let job = state.job;
        fired_after(world, &job, state.at, PATIENCE).await?;
        let before = world.leader(FIRST)?;
        let slot = coming_slot(world, &job)?;
        let run = RunId::derive(slot, &job, state.incarnation, RunSeed::Slot(slot));
        let id = FireId { shard: ShardId { run, shard: 0 }, fire_no: 1 };
        let headers = vec![(header::MSG_ID.to_owned(), id.to_string())];
        let nats = Nats::connect(&world.urls()).await?;
        let answer = nats.store("cron.rejected.some.body", &headers, b"{}").await?;
        ensure!(matches!(answer, StoreAnswer::At(_)), "not stored: {answer:?}");
        fire_of(world, &job, slot).await?;
        said(world, "t1", "a known fire id met an unmoved cursor", 1).await?;
        fired_after(world, &job, slot.plus(PERIOD), PATIENCE).await?;
        let after = world.leader(FIRST)?;
        ensure!(after.epoch == before.epoch, "a new term: {after:?}");
        once_each_second(&fires_of(&world.recorder().now(), &job))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fire_whose_id_is_known_and_whose_cursor_is_not_moved_goes_out_without_ids() -> Result<()>
{
    known_id(Brokers::One).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fire_whose_id_is_known_goes_out_without_ids_on_three_brokers() -> Result<()> {
    known_id(Brokers::Three).await
}

async fn noise_on_the_cursor(brokers: Brokers) -> Result<()> {
    World::with(setup(brokers, 1), async |world| {
        for node in ["t1", "t2"] {
            world.ticker(node, &[])?;
        }
        world.led().await?;
        let job = ticking(world, "seams/clock", NOBODY_RUNS).await?;
        let nats = Nats::connect(&world.urls()).await?;
        let noises =
            [&b"noise"[..], b"", br#"{"cursor":{"partition":0}}"#, br#"{"meta":{"partitions":7}}"#];
        for noise in noises {
            // On a slot: the batch is about to be sent, or out.
            let slot = coming_slot(world, &job)?;
            reached(slot).await;
            let answer = nats.store("cron.cursor.0", &Vec::new(), noise).await?;
            ensure!(matches!(answer, StoreAnswer::At(_)), "not stored: {answer:?}");
            fired_after(world, &job, slot, PATIENCE).await?;
        }
        once_each_second(&fires_of(&world.recorder().now(), &job))?;
        // The noise is still there when the log is read from its beginning.
        kill(world, &["t1", "t2"]).await?;
        nats.store("cron.cursor.0", &Vec::new(), b"noise").await?;
        restart(world, &["t1", "t2"]).await?;
        fired_after(world, &job, now(), PATIENCE).await?;
        once_each_second(&fires_of(&world.recorder().now(), &job))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn noise_on_a_cursors_subject_loses_and_doubles_no_slot() -> Result<()> {
    noise_on_the_cursor(Brokers::One).await
}

#[tokio::test(flavor = "multi_thread")]
async fn noise_on_a_cursors_subject_loses_and_doubles_no_slot_on_three_brokers() -> Result<()> {
    noise_on_the_cursor(Brokers::Three).await
}

#[tokio::test(flavor = "multi_thread")]
async fn noise_that_rolls_the_cursor_up_stops_the_partition_at_a_cold_start() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        world.ticker("t1", &[])?;
        world.led().await?;
        let job = ticking(world, "seams/clock", NOBODY_RUNS).await?;
        kill(world, &["t1"]).await?;
        let nats = Nats::connect(&world.urls()).await?;
        let rollup = vec![("Nats-Rollup".to_owned(), "sub".to_owned())];
        nats.store("cron.cursor.0", &rollup, b"noise").await?;
        restart(world, &["t1"]).await?;
        let why = stopped(world, FIRST).await?;
        ensure!(why.contains("no cursor"), "stopped for {why:?}");
        once_each_second(&fires_of(&world.recorder().now(), &job))
    })
    .await
}
