//! `--hold`: a cluster that folds and accounts but fires nothing until it is released.

use anyhow::{Result, ensure};
use cronstream_schemas::event::LogEvent;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use cronstream_tests::crew::fired_after;
use cronstream_tests::record::Record;
use cronstream_tests::world::{Brokers, World, now};

use crate::stage::{
    EVERY_SECOND, PATIENCE, PERIOD, define, fires_of, kill, last_slot, reached, setup, ticking,
    verify,
};

/// Waits until a slot after an instant is held.
async fn held_after(world: &World, job: &JobId, after: Timestamp) -> Result<()> {
    let held = |record: &Record| {
        record.log.values().rev().find_map(|stored| match &stored.event {
            LogEvent::Held(held) if held.job == *job && held.slot > after => Some(()),
            _ => None,
        })
    };
    world.recorder().until("a held slot", PATIENCE, held).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_on_hold_accounts_for_owed_slots_and_fires_none_until_it_is_released()
-> Result<()> {
    World::with(setup(Brokers::One, 2), async |world| {
        world.ticker("before", &[])?;
        world.executor("e1", "default", 8)?;
        world.led().await?;
        let old = ticking(world, "seams/old", EVERY_SECOND).await?;
        kill(world, &["before"]).await?;
        let fired = last_slot(world, &old)?;
        reached(fired.plus(3 * PERIOD)).await;
        for node in ["t1", "t2"] {
            world.ticker(node, &["--hold"])?;
        }
        let new = define(world, "seams/new", EVERY_SECOND).await?.job;
        let begun = now();
        for job in [&old, &new] {
            held_after(world, job, begun.plus(PERIOD)).await?;
        }
        ensure!(last_slot(world, &old)? == fired, "{old} has fired on hold");
        ensure!(fires_of(&world.recorder().now(), &new).is_empty(), "{new} has fired on hold");
        let released = world.call("release", &[]).await?;
        ensure!(released.status.success(), "{released:?}");
        let at = now();
        for job in [&old, &new] {
            fired_after(world, job, at, PATIENCE).await?;
        }
        verify(world, &[old, new]).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_ends_with_its_tickers_leaves_the_held_slots_to_the_next() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        world.ticker("held", &["--hold"])?;
        world.executor("e1", "default", 8)?;
        world.led().await?;
        let job = define(world, "seams/clock", EVERY_SECOND).await?.job;
        held_after(world, &job, now()).await?;
        kill(world, &["held"]).await?;
        world.ticker("free", &[])?;
        fired_after(world, &job, now(), PATIENCE).await?;
        verify(world, &[job]).await
    })
    .await
}
