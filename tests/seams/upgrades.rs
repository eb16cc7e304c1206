//! Two versions side by side, and an event that only the newer one knows.

use anyhow::{Context, Result, ensure};
use cronstream_schemas::header;
use cronstream_schemas::id::Partition;
use cronstream_schemas::name::JobId;
use cronstream_schemas::subject::Prefix;
use cronstream_tests::crew::fired_after;
use cronstream_tests::jetstream::StoreAnswer;
use cronstream_tests::nats::Nats;
use cronstream_tests::process::program;
use cronstream_tests::world::{Brokers, World, now};

use crate::stage::{
    EVERY_SECOND, PATIENCE, fires_of, kill, once_each_second, restart, setup, stopped, ticking_in,
    verify,
};

const PARTITIONS: [Partition; 2] = [Partition(0), Partition(1)];

#[tokio::test(flavor = "multi_thread")]
async fn old_and_new_tickers_side_by_side_lose_and_double_nothing() -> Result<()> {
    World::with(setup(Brokers::One, 2), async |world| {
        let folder = world.effects().tasks().parent().context("a folder")?.join("new");
        std::fs::create_dir(&folder)?;
        let new = folder.join("cronstream");
        std::fs::copy(program()?, &new)?;
        for node in ["old1", "old2"] {
            world.ticker(node, &[])?;
        }
        world.executor("e1", "default", 8)?;
        world.led().await?;
        let mut jobs = Vec::new();
        for partition in PARTITIONS {
            jobs.push(ticking_in(world, partition, EVERY_SECOND).await?);
        }
        for (old, next) in [("old1", "new1"), ("old2", "new2")] {
            world.ticker_as(next, next, Some(&new), &[])?;
            for job in &jobs {
                fired_after(world, job, now(), PATIENCE).await?;
            }
            let process = world.process(old)?;
            process.terminate()?;
            let status = process.ended(PATIENCE).await?;
            ensure!(status.success(), "{old} ended with {status}");
            for job in &jobs {
                fired_after(world, job, now(), PATIENCE).await?;
            }
        }
        for partition in PARTITIONS {
            let leader = world.leader(partition)?;
            ensure!(leader.node.as_str().starts_with("new"), "{leader:?}");
        }
        verify(world, &jobs).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_a_later_version_stops_its_partition_and_nothing_else() -> Result<()> {
    let later = r#"{"job_hibernated":{"job":"seams/later","until":"spring"}}"#;
    stops_one_partition(Prefix::job, "job_hibernated", later).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reason_of_a_later_version_stops_its_partition_and_nothing_else() -> Result<()> {
    let golden = include_str!("../../schemas/golden/v1/log/skipped-job_backlog.json");
    let later = golden.replace("job_backlog", "weather");
    stops_one_partition(Prefix::skipped, "skipped", &later).await
}

async fn stops_one_partition(
    subject: fn(&Prefix, &JobId) -> String,
    kind: &str,
    later: &str,
) -> Result<()> {
    World::with(setup(Brokers::One, 2), async |world| {
        for node in ["t1", "t2"] {
            world.ticker(node, &[])?;
        }
        world.executor("e1", "default", 8)?;
        world.led().await?;
        let mut jobs = Vec::new();
        for partition in PARTITIONS {
            jobs.push(ticking_in(world, partition, EVERY_SECOND).await?);
        }
        let [given_up, goes_on] = &jobs[..] else { unreachable!("two jobs") };
        let nats = Nats::connect(&world.urls()).await?;
        let mut later_jobs = (0..1_000).filter_map(|n| format!("seams/later-{n}").parse().ok());
        let in_first = |job: &JobId| world.partition(job) == PARTITIONS[0];
        let job = later_jobs.find(in_first).context("no name falls into it")?;
        let subject = subject(&Prefix::default(), &job);
        // A leader's event bears the number of its batch.
        let headers = vec![(header::TICK.to_owned(), "9.99".to_owned())];
        let answer = nats.store(&subject, &headers, later.as_bytes()).await?;
        ensure!(matches!(answer, StoreAnswer::At(_)), "not stored: {answer:?}");
        for start in ["running", "cold"] {
            if start == "cold" {
                kill(world, &["t1", "t2"]).await?;
                restart(world, &["t1", "t2"]).await?;
            }
            let why = stopped(world, PARTITIONS[0]).await?;
            let version = env!("CARGO_PKG_VERSION");
            ensure!(why.contains(kind) && why.contains(version), "{start}: {why:?}");
            ensure!(why.contains("upgrade"), "{start}: {why:?}");
            fired_after(world, goes_on, now(), PATIENCE).await?;
        }
        let told = String::from_utf8(world.call("list", &[]).await?.stdout)?;
        for job in &jobs {
            ensure!(told.contains(&job.to_string()), "list passes {job} over: {told}");
        }
        let runs = world.call("runs", &[&given_up.to_string()]).await?;
        ensure!(runs.status.success() && !runs.stdout.is_empty(), "{runs:?}");
        for job in &jobs {
            once_each_second(&fires_of(&world.recorder().now(), job))?;
        }
        Ok(())
    })
    .await
}
