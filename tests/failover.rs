//! Whatever dies: no slot fires twice, none is without an outcome, none is early, and another ticker takes over in
//! time. Three tickers, two executors and twenty jobs of one second, by real processes.

#![expect(clippy::print_stdout, reason = "measurements and seeds are the point of these tests")]

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cronstream_schemas::id::Partition;
use cronstream_tests::checker::{Held, Terms, Verdict, Violation, check};
use cronstream_tests::crew::{
    EXECUTORS, Reign, TICKERS, fired_after, fires, judge, median, muster, reign, restored, settle,
    succeeded, taken_over,
};
use cronstream_tests::effect::{TASK, WORKING_TASK};
use cronstream_tests::exclusive::Exclusive;
use cronstream_tests::faults::{SEED_VARIABLE, Scope, Step, plan, seed};
use cronstream_tests::jetstream::StoreAnswer;
use cronstream_tests::nats::Nats;
use cronstream_tests::world::{Brokers, Setup, World, now};

/// How often each takeover is measured.
const TRIALS: usize = 10;
/// How long a takeover may take before the test gives up.
const GIVE_UP: Duration = Duration::from_secs(30);
/// How long the random faults last, on one broker and again on three.
const FAULTS_LAST: Duration = Duration::from_secs(60);
const FIRST: Partition = Partition(0);

/// How long the partitions of a leader that was taken away were without one.
#[derive(Debug, Clone, Copy)]
struct Gap {
    /// Until another one had taken over the last of them.
    leader: Duration,
    /// Until it had fired in the last of them, which may wait for the next slot.
    fire: Duration,
}

/// Takes the leader of the first partition away by `end`, and brings it back.
async fn without_its_leader(
    world: &mut World,
    end: impl AsyncFnOnce(&mut World, &Reign) -> Result<()>,
) -> Result<Gap> {
    let victim = reign(world, FIRST)?;
    let begun = now();
    end(world, &victim).await?;
    let leader = taken_over(world, &victim, GIVE_UP).await?.since(begun);
    let fire = succeeded(world, &victim, GIVE_UP).await?.since(begun);
    let node = victim.node.to_string();
    world.process(&node)?.restart().await?;
    restored(world, &victim, GIVE_UP).await?;
    Ok(Gap { leader, fire })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_ticker_is_replaced_within_its_lease_and_two_seconds() -> Result<()> {
    let _turn = Exclusive::acquire().await?;
    World::with(Setup::new(Brokers::One), async |world| {
        let jobs = muster(world, TASK).await?;
        let begun = now();
        let mut gaps = Vec::with_capacity(TRIALS);
        for _ in 0..TRIALS {
            let gap = without_its_leader(world, async |world, victim| {
                world.process(victim.node.as_str())?.kill().await
            });
            gaps.push(gap.await?);
        }
        println!("after a ticker's death: {gaps:?}");
        let median = median(gaps.iter().map(|gap| gap.fire).collect())?;
        let bound = world.setup().lease_ttl + Duration::from_secs(2);
        ensure!(median <= bound, "median {median:?}, at most {bound:?} is promised");
        println!("{:?}", judge(world, &jobs, begun).await?);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_ticker_hands_over_within_half_a_second() -> Result<()> {
    let _turn = Exclusive::acquire().await?;
    World::with(Setup::new(Brokers::One), async |world| {
        let jobs = muster(world, TASK).await?;
        let begun = now();
        let mut gaps = Vec::with_capacity(TRIALS);
        for _ in 0..TRIALS {
            let gap = without_its_leader(world, async |world, victim| {
                let ticker = world.process(victim.node.as_str())?;
                ticker.terminate()?;
                let status = ticker.ended(GIVE_UP).await?;
                ensure!(status.success(), "{} ended with {status}", victim.node);
                Ok(())
            });
            gaps.push(gap.await?);
        }
        println!("after a ticker was stopped: {gaps:?}");
        let median = median(gaps.iter().map(|gap| gap.leader).collect())?;
        ensure!(median <= Duration::from_millis(500), "median {median:?}, at most 500 ms");
        println!("{:?}", judge(world, &jobs, begun).await?);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticker_frozen_past_its_lease_wakes_up_as_nobody() -> Result<()> {
    let _turn = Exclusive::acquire().await?;
    World::with(Setup::new(Brokers::One), async |world| {
        let jobs = muster(world, TASK).await?;
        let begun = now();
        for _ in 0..3 {
            let victim = reign(world, FIRST)?;
            world.process(victim.node.as_str())?.pause()?;
            succeeded(world, &victim, GIVE_UP).await?;
            world.process(victim.node.as_str())?.resume()?;
            restored(world, &victim, GIVE_UP).await?;
        }
        println!("{:?}", judge(world, &jobs, begun).await?);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticker_whose_clock_is_off_gives_up_its_partitions_and_loses_nothing() -> Result<()> {
    let _turn = Exclusive::acquire().await?;
    World::with(Setup::new(Brokers::One), async |world| {
        let jobs = muster(world, TASK).await?;
        let begun = now();
        for ahead_ms in [3_000, -3_000, 3_600_000, -3_600_000] {
            let victim = reign(world, FIRST)?;
            let set = now();
            world.set_clock(victim.node.as_str(), ahead_ms)?;
            let gap = succeeded(world, &victim, GIVE_UP).await?.since(set);
            println!("clock off by {ahead_ms} ms: others fire after {gap:?}");
            world.set_clock(victim.node.as_str(), 0)?;
            restored(world, &victim, GIVE_UP).await?;
        }
        println!("{:?}", judge(world, &jobs, begun).await?);
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_broker_that_leads_the_log_is_killed_and_nothing_is_lost() -> Result<()> {
    let _turn = Exclusive::acquire().await?;
    World::with(Setup::new(Brokers::Three), async |world| {
        let jobs = muster(world, TASK).await?;
        let begun = now();
        for _ in 0..2 {
            let killed = now();
            let broker = world.kill_broker_leader().await?;
            let mut gap = Duration::ZERO;
            for job in &jobs {
                gap = gap.max(fired_after(world, job, killed, GIVE_UP).await?.since(killed));
            }
            println!("first fire of every job after a broker's death: {gap:?}");
            world.restart_broker(broker).await?;
        }
        println!("{:?}", judge(world, &jobs, begun).await?);
        Ok(())
    })
    .await
}

fn told(steps: &[Step]) -> String {
    steps.iter().map(|step| format!("{step}\n")).collect()
}

async fn random_faults(setup: Setup) -> Result<()> {
    let _turn = Exclusive::acquire().await?;
    let seed = seed()?;
    println!("replay with {SEED_VARIABLE}={seed}");
    let scope = Scope {
        tickers: TICKERS.map(str::to_owned).to_vec(),
        executors: EXECUTORS.map(str::to_owned).to_vec(),
        lease_ttl: setup.lease_ttl,
        lasting: FAULTS_LAST,
    };
    let steps = plan(seed, &scope);
    World::with(setup, async |world| {
        let jobs = muster(world, WORKING_TASK).await?;
        let begun = world.endure(&steps).await?;
        let evidence = judge(world, &jobs, begun).await?;
        println!("{} faults endured, {evidence:?}", steps.len());
        Ok(())
    })
    .await
    .with_context(|| format!("replay with {SEED_VARIABLE}={seed}\n{}", told(&steps)))
}

#[tokio::test(flavor = "multi_thread")]
async fn random_faults_break_no_guarantee_on_one_broker() -> Result<()> {
    random_faults(Setup::new(Brokers::One)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn random_faults_break_no_guarantee_on_three_brokers() -> Result<()> {
    random_faults(Setup::new(Brokers::Three)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fire_that_bypasses_the_cursor_is_caught() -> Result<()> {
    let _turn = Exclusive::acquire().await?;
    World::with(Setup::new(Brokers::One), async |world| {
        let jobs = muster(world, TASK).await?;
        let fire = fires(&world.recorder().now()).next().map(|(stored, _)| stored.clone());
        let Some(fire) = fire else { bail!("nothing has fired") };
        let body = cronstream_schemas::event::Event::encode(&fire.event);
        let nats = Nats::connect(&world.urls()).await?;
        let answer = nats.store(&fire.subject, &Vec::new(), &body).await?;
        ensure!(matches!(answer, StoreAnswer::At(_)), "not stored: {answer:?}");
        settle(world, &jobs).await?;
        let terms = Terms {
            through: now(),
            max_clock_error: Duration::from_millis(500),
            faults_since: None,
            held_at_end: Held::Undecided,
        };
        match check(&world.history().await?, &terms) {
            Verdict::Fail(found) => {
                let twice = |it: &Violation| matches!(it, Violation::FiredTwice { .. });
                let alone = |it: &Violation| matches!(it, Violation::Unfenced { .. });
                ensure!(found.iter().any(twice), "not seen as a second fire: {found:?}");
                let others = found.iter().find(|it| !twice(it) && !alone(it));
                ensure!(others.is_none(), "what is not so: {others:?}");
                Ok(())
            }
            other => bail!("not caught: {other:?}"),
        }
    })
    .await
}
