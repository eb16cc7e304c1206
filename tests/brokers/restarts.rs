//! One nats-server, restarted under everything, and connections that break again and again.

use std::time::Duration;

use anyhow::{Result, ensure};
use cronstream_schemas::command::Verb;
use cronstream_schemas::id::Partition;
use cronstream_schemas::name::JobId;
use cronstream_tests::client::Client;
use cronstream_tests::crew::{EXECUTORS, TICKERS, judge, reign, restored};
use cronstream_tests::exclusive::Exclusive;
use cronstream_tests::proxy::Proxy;
use cronstream_tests::world::{Brokers, Setup, World, now};

use crate::stage::{
    EVERY_SECOND, PATIENCE, consumer_counts, consumers, look, no_leaked_consumers, ready,
    run_after, verify,
};

/// How often the server is restarted.
const ROUNDS: usize = 10;
/// In this round the leader of the first partition is frozen while the server is away.
const FROZEN_ROUND: usize = 5;
/// How long after its return everything works again.
const BACK_MAX: Duration = Duration::from_secs(5);
/// Its runs take 3 s, so an executor with room for one has none to pull for.
const BUSY: &str = r#"{"task":"slow","queue":"busy","schedule":{"every":"2s"},"overlap":"skip","timeout":"30s","max_attempts":10}"#;
/// How often connections are cut.
const CUTS: usize = 10;
/// Connections that are cut at a time.
const NODES: usize = TICKERS.len() + EXECUTORS.len();

async fn muster(world: &mut World) -> Result<Vec<JobId>> {
    for ticker in TICKERS {
        world.ticker(ticker, &[])?;
    }
    world.executor("e1", "default", 16)?;
    world.executor("busy", "busy", 1)?;
    world.led().await?;
    let mut jobs = jobs(world).await?;
    let busy: JobId = "brokers/busy".parse()?;
    Client::new(&world.urls()).change(world.recorder(), Verb::Define, &busy, BUSY).await?;
    run_after(world, &busy, now(), PATIENCE).await?;
    jobs.push(busy);
    Ok(jobs)
}

/// Defines jobs of one second in every partition and waits for their first results.
async fn jobs(world: &World) -> Result<Vec<JobId>> {
    let client = Client::new(&world.urls());
    let mut jobs = Vec::new();
    for number in 0..world.setup().partitions * 2 {
        let job: JobId = format!("brokers/j{number}").parse()?;
        let begun = now();
        client.change(world.recorder(), Verb::Define, &job, EVERY_SECOND).await?;
        run_after(world, &job, begun, PATIENCE).await?;
        jobs.push(job);
    }
    Ok(jobs)
}

/// Restarts the server and returns how long after its return the last of the jobs had a result.
async fn restart(world: &mut World, round: usize, jobs: &[JobId]) -> Result<Duration> {
    let frozen = (round == FROZEN_ROUND).then(|| reign(world, Partition(0))).transpose()?;
    if let Some(reign) = &frozen {
        world.process(reign.node.as_str())?.pause()?;
    }
    let broker = world.broker(0)?;
    if round.is_multiple_of(2) {
        broker.kill().await?
    } else {
        broker.stop().await?
    }
    broker.restart().await?;
    let back = now();
    if let Some(reign) = &frozen {
        world.process(reign.node.as_str())?.resume()?;
    }
    let mut last = back;
    for job in jobs {
        last = last.max(run_after(world, job, back, PATIENCE).await?);
    }
    if let Some(reign) = &frozen {
        restored(world, reign, PATIENCE).await?;
    }
    Ok(last.since(back))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_restarted_ten_times_is_worked_with_again_within_five_seconds() -> Result<()> {
    let _turn = Exclusive::acquire().await?;
    World::with(Setup::new(Brokers::One), async |world| {
        let jobs = muster(world).await?;
        let quick = &jobs[..jobs.len() - 1];
        let before = consumer_counts(world).await?;
        let begun = now();
        let mut gaps = Vec::with_capacity(ROUNDS);
        for round in 0..ROUNDS {
            gaps.push(restart(world, round, quick).await?);
        }
        println!("back at work after a restart: {gaps:?}");
        let worst = gaps.iter().max();
        ensure!(worst.is_some_and(|worst| *worst <= BACK_MAX), "{gaps:?}");
        for node in ["t1", "t2", "t3", "e1", "busy"] {
            ready(world, node).await?;
        }
        no_leaked_consumers(world, &before).await?;
        judge(world, &jobs, begun).await.map(drop)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_break_again_and_again_leave_no_consumer_behind() -> Result<()> {
    let _turn = Exclusive::acquire().await?;
    World::with(Setup::new(Brokers::One), async |world| {
        let proxy = Proxy::start(&world.urls()[0]).await?;
        let tasks = world.effects().tasks().display().to_string();
        for ticker in TICKERS {
            world.serve(ticker, "ticker", &[proxy.url()], &[])?;
        }
        for executor in EXECUTORS {
            world.serve(executor, "executor", &[proxy.url()], &["--tasks", &tasks])?;
        }
        world.led().await?;
        let jobs = jobs(world).await?;
        let before = consumer_counts(world).await?;
        for _ in 0..CUTS {
            let old = consumers(world).await?;
            // An executor makes no consumer of its own by which it could be seen.
            let connected = async || Ok((proxy.open().len() == NODES).then_some(()));
            look("everybody to be connected", PATIENCE, connected).await?;
            proxy.cut();
            // The moment everybody has made its consumers again is the worst one for the next cut.
            look("consumers of everybody", PATIENCE, async || {
                let new = consumers(world).await?;
                let fresh = |stream: &str| new[stream].difference(&old[stream]).count();
                let followed = ["CRON_LOG", "CRON_RUNS", "KV_CRON_LEASES"].map(fresh);
                Ok((followed.iter().all(|count| *count >= TICKERS.len())).then_some(()))
            })
            .await?;
        }
        let back = now();
        for job in &jobs {
            run_after(world, job, back, PATIENCE).await?;
        }
        no_leaked_consumers(world, &before).await?;
        verify(world, &jobs, None).await
    })
    .await
}
