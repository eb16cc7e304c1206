//! Three brokers are restarted one after the other, as an upgrade does it.

use std::time::Duration;

use anyhow::{Result, ensure};
use cronstream_schemas::command::Verb;
use cronstream_schemas::name::JobId;
use cronstream_tests::client::Client;
use cronstream_tests::crew::judge;
use cronstream_tests::exclusive::Exclusive;
use cronstream_tests::world::{Brokers, Setup, World, now};

use crate::stage::{
    EVERY_SECOND, PATIENCE, consumer_counts, copies_are_current, lead_from, no_leaked_consumers,
    run_after,
};

/// How long a restart may keep runs from their results: an election takes 4 to 9 s.
const GAP_MAX: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn brokers_restarted_one_after_the_other_lose_nothing() -> Result<()> {
    let _turn = Exclusive::acquire().await?;
    World::with(Setup::new(Brokers::Three), async |world| {
        for ticker in ["t1", "t2"] {
            world.ticker(ticker, &[])?;
        }
        for executor in ["e1", "e2"] {
            world.executor(executor, "default", 8)?;
        }
        world.led().await?;
        let client = Client::new(&world.urls());
        let mut jobs = Vec::new();
        for number in 0..4 {
            let job: JobId = format!("rolling/j{number}").parse()?;
            let begun = now();
            client.change(world.recorder(), Verb::Define, &job, EVERY_SECOND).await?;
            run_after(world, &job, begun, PATIENCE).await?;
            jobs.push(job);
        }
        let before = consumer_counts(world).await?;
        let begun = now();
        for index in 0..3 {
            // The one that goes leads everything, every second time without a farewell.
            lead_from(world, &format!("n{index}")).await?;
            let gone = now();
            let broker = world.broker(index)?;
            if index == 1 {
                broker.kill().await?
            } else {
                broker.stop().await?
            }
            let mut last = gone;
            for job in &jobs {
                last = last.max(run_after(world, job, gone, PATIENCE).await?);
            }
            let gap = last.since(gone);
            println!("results again {gap:?} after broker n{index} went");
            ensure!(gap <= GAP_MAX, "{gap:?} without n{index}");
            world.restart_broker(index).await?;
            copies_are_current(world).await?;
        }
        no_leaked_consumers(world, &before).await?;
        judge(world, &jobs, begun).await.map(drop)
    })
    .await
}
