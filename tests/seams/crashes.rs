//! The leader dies, or its wire does, at the worst moments of a batch.

use std::time::Duration;

use anyhow::{Result, ensure};
use cronstream_schemas::id::Partition;
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::time::Timestamp;
use cronstream_tests::crew::{fired_after, reign, taken_over};
use cronstream_tests::proxy::{Proxy, Traffic};
use cronstream_tests::world::{Brokers, Setup, World, now};

use crate::stage::{
    EVERY_SECOND, PATIENCE, PERIOD, coming_slot, fire_of, owner_and_other, reached, said, setup,
    ticking, verify,
};

const FIRST: Partition = Partition(0);
/// How long before a slot the wire is damaged.
const BEFORE: Duration = Duration::from_millis(100);

/// A leader that reaches the broker through a proxy, and a standby that reaches it by itself.
struct Pair {
    proxy: Proxy,
    leader: Name,
    job: JobId,
}

impl Pair {
    async fn muster(world: &mut World) -> Result<Self> {
        let (leader, standby) = owner_and_other()?;
        let (proxy, job) = lead_through_proxy(world, &leader).await?;
        world.ticker(standby.as_str(), &[])?;
        said(world, standby.as_str(), "ticker started", 1).await?;
        Ok(Self { proxy, leader, job })
    }

    /// Waits until just before a slot, damages the wire, and returns the slot.
    async fn damage(&self, world: &World, traffic: Traffic) -> Result<Timestamp> {
        damage(world, &self.proxy, &self.job, traffic).await
    }
}

async fn lead_through_proxy(world: &mut World, leader: &Name) -> Result<(Proxy, JobId)> {
    let proxy = Proxy::start(&world.urls()[0]).await?;
    world.serve(leader.as_str(), "ticker", &[proxy.url()], &["--verbose"])?;
    world.executor("e1", "default", 8)?;
    world.led().await?;
    let job = ticking(world, "seams/clock", EVERY_SECOND).await?;
    Ok((proxy, job))
}

async fn damage(world: &World, proxy: &Proxy, job: &JobId, traffic: Traffic) -> Result<Timestamp> {
    loop {
        let slot = coming_slot(world, job)?;
        reached(slot.minus(BEFORE)).await;
        // On a busy machine this may wake up when the slot has fired: then the next one is taken.
        if now() < slot.minus(BEFORE / 2) {
            proxy.set(traffic);
            return Ok(slot);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_killed_before_its_batch_leaves_the_slot_to_the_next() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        let pair = Pair::muster(world).await?;
        let before = reign(world, FIRST)?;
        let slot = pair.damage(world, Traffic::Stall).await?;
        reached(slot.plus(BEFORE)).await;
        world.process(pair.leader.as_str())?.kill().await?;
        let fired = fire_of(world, &pair.job, slot).await?;
        let was = before.partitions[0].1;
        ensure!(fired.epoch > was, "{slot} was fired by the dead leader's term {was:?}");
        verify(world, &[pair.job]).await
    })
    .await
}

async fn killed_between_batch_and_answer(brokers: Brokers) -> Result<()> {
    World::with(setup(brokers, 1), async |world| {
        let pair = Pair::muster(world).await?;
        let before = reign(world, FIRST)?;
        let slot = pair.damage(world, Traffic::LoseReplies).await?;
        let fired = fire_of(world, &pair.job, slot).await?;
        world.process(pair.leader.as_str())?.kill().await?;
        let was = before.partitions[0].1;
        ensure!(fired.epoch == was, "{slot} was fired by another term than {was:?}");
        taken_over(world, &before, PATIENCE).await?;
        fired_after(world, &pair.job, slot.plus(PERIOD), PATIENCE).await?;
        verify(world, &[pair.job]).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_killed_between_batch_and_answer_has_fired_once() -> Result<()> {
    killed_between_batch_and_answer(Brokers::One).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_killed_between_batch_and_answer_has_fired_once_on_three_brokers() -> Result<()> {
    killed_between_batch_and_answer(Brokers::Three).await
}

async fn batch_arrives_late(brokers: Brokers) -> Result<()> {
    World::with(setup(brokers, 1), async |world| {
        let pair = Pair::muster(world).await?;
        let before = reign(world, FIRST)?;
        let slot = pair.damage(world, Traffic::Stall).await?;
        taken_over(world, &before, PATIENCE).await?;
        let fired = fire_of(world, &pair.job, slot).await?;
        pair.proxy.set(Traffic::Pass);
        said(world, pair.leader.as_str(), "batch not acknowledged; reading the cursor back", 1)
            .await?;
        let was = before.partitions[0].1;
        ensure!(fired.epoch > was, "{slot} was fired by the late term {was:?}");
        verify(world, &[pair.job]).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_arrives_after_the_lease_is_lost_is_refused() -> Result<()> {
    batch_arrives_late(Brokers::One).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_arrives_after_the_lease_is_lost_is_refused_by_three_brokers() -> Result<()> {
    batch_arrives_late(Brokers::Three).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_frozen_past_its_lease_adds_nothing_when_it_wakes() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        let pair = Pair::muster(world).await?;
        for _ in 0..2 {
            let before = reign(world, FIRST)?;
            let slot = coming_slot(world, &pair.job)?;
            // On a slot: the batch may be out, its answer unread.
            reached(slot).await;
            world.process(before.node.as_str())?.pause()?;
            taken_over(world, &before, PATIENCE).await?;
            world.process(before.node.as_str())?.resume()?;
            fired_after(world, &pair.job, slot.plus(PERIOD), PATIENCE).await?;
        }
        verify(world, &[pair.job]).await
    })
    .await
}

/// The only ticker there is loses the answer to a batch that is stored, and nothing else.
async fn answer_dropped(brokers: Brokers) -> Result<()> {
    let setup = Setup { lease_ttl: Duration::from_secs(20), ..setup(brokers, 1) };
    World::with(setup, async |world| {
        let (proxy, job) = lead_through_proxy(world, &"t1".parse()?).await?;
        let before = reign(world, FIRST)?;
        // Behind the first run comes a cursor, and the fires of the next seconds go by themselves. A client that is cut
        // off from one of three brokers goes to another, and loses no second answer.
        let begun = coming_slot(world, &job)?;
        fired_after(world, &job, begun.plus(PERIOD), PATIENCE).await?;
        for _ in 0..3 {
            let slot = damage(world, &proxy, &job, Traffic::LoseReplies).await?;
            fire_of(world, &job, slot).await?;
            proxy.until_lost(0, PATIENCE).await?;
            // The connection that has lost bytes is cut.
            proxy.set(Traffic::Pass);
            fired_after(world, &job, slot.plus(PERIOD), PATIENCE).await?;
        }
        said(world, "t1", "the log tells what no answer told of a fire", 1).await?;
        let after = world.leader(FIRST)?;
        ensure!(after.epoch == before.partitions[0].1, "a new term: {after:?}");
        verify(world, &[job]).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_answer_is_lost_reads_the_cursor_back_and_goes_on() -> Result<()> {
    answer_dropped(Brokers::One).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_answer_is_lost_reads_the_cursor_back_from_three_brokers() -> Result<()> {
    answer_dropped(Brokers::Three).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_resigns_and_returns_leads_in_a_new_term() -> Result<()> {
    World::with(setup(Brokers::One, 1), async |world| {
        world.ticker("t1", &[])?;
        world.executor("e1", "default", 8)?;
        world.led().await?;
        let job = ticking(world, "seams/clock", EVERY_SECOND).await?;
        for _ in 0..4 {
            let before = reign(world, FIRST)?;
            let ticker = world.process("t1")?;
            ticker.terminate()?;
            let status = ticker.ended(PATIENCE).await?;
            ensure!(status.success(), "t1 ended with {status}");
            ticker.restart().await?;
            taken_over(world, &before, PATIENCE).await?;
        }
        verify(world, &[job]).await
    })
    .await
}
