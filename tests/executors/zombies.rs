//! Executors that stop and go on: the store refuses what they bring, and they settle nothing that another one runs.

use std::time::Duration;

use anyhow::{Result, ensure};
use cronstream_schemas::event::RunEvent;
use cronstream_tests::world::Brokers;
use serde_json::Value;

use crate::stage::{Launch, Stage, gone, lives, play};

async fn zombie_executor(stage: &mut Stage<'_>) -> Result<()> {
    let job = stage.job("work/zombie", "ask", "").await?;
    let mut responder = stage.responder().await?;
    stage.launch(&Launch::new("a"))?;
    let run = stage.trigger(&job).await?.run;
    let first = responder.next().await?;
    stage.world.process("a")?.pause()?;
    stage.launch(&Launch::new("b"))?;
    let second = responder.next().await?;
    ensure!(second.token > first.token, "{second:?} has no newer token than {first:?}");
    responder.answer(&second, "ok", r#""alive""#).await?;
    let expected = ["started 1.1.1", "started 1.2.2", "succeeded 1.2.2"];
    stage.transcript(run, &expected).await?;
    responder.answer(&first, "ok", r#""from the dead""#).await?;
    stage.world.process("a")?.resume()?;
    let counters = stage.counts("a", "the refusal", |counters| counters.refused > 0).await?;
    ensure!(counters.refused == 1 && counters.succeeded == 0, "{counters:?}");
    stage.settled().await?;
    stage.transcript(run, &expected).await?;
    let RunEvent::Succeeded(succeeded) = stage.event(run, 3).await?.event else {
        anyhow::bail!("no result")
    };
    let result = succeeded.result.map(|json| json.as_str().to_owned());
    ensure!(result.as_deref() == Some(r#""alive""#), "the result is {result:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombies_result_is_refused_and_counted() -> Result<()> {
    play(Brokers::One, async |stage| zombie_executor(stage).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombies_result_is_refused_and_counted_on_three_brokers() -> Result<()> {
    play(Brokers::Three, async |stage| zombie_executor(stage).await).await
}

async fn zombie_ack_then_second_crash(stage: &mut Stage<'_>) -> Result<()> {
    let job = stage.job("work/third", "ask", r#""max_attempts":5"#).await?;
    let mut responder = stage.responder().await?;
    stage.launch(&Launch::new("a"))?;
    let run = stage.trigger(&job).await?.run;
    let first = responder.next().await?;
    stage.world.process("a")?.pause()?;
    stage.launch(&Launch::new("b"))?;
    responder.next().await?;
    stage.transcript(run, &["started 1.1.1", "started 1.2.2"]).await?;
    responder.answer(&first, "ok", "1").await?;
    stage.world.process("a")?.resume()?;
    stage.counts("a", "the refusal", |counters| counters.refused == 1).await?;
    stage.world.process("b")?.kill().await?;
    let third = responder.next().await?;
    ensure!((third.run, third.attempt) == (run, 3), "{third:?}");
    responder.answer(&third, "ok", "3").await?;
    let expected = ["started 1.1.1", "started 1.2.2", "started 1.3.3", "succeeded 1.3.3"];
    stage.transcript(run, &expected).await?;
    stage.settled().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_zombie_settles_nothing_so_the_fire_comes_a_third_time() -> Result<()> {
    play(Brokers::One, async |stage| zombie_ack_then_second_crash(stage).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_zombie_settles_nothing_on_three_brokers() -> Result<()> {
    play(Brokers::Three, async |stage| zombie_ack_then_second_crash(stage).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombies_process_is_killed_when_it_finds_itself_replaced() -> Result<()> {
    play(Brokers::One, async |stage| {
        let job = stage.job("work/hold", "hold", "").await?;
        stage.launch(&Launch::new("a"))?;
        let run = stage.trigger(&job).await?.run;
        let zombies = stage.held(run, 1).await?;
        stage.world.process("a")?.pause()?;
        stage.launch(&Launch::new("b"))?;
        stage.held(run, 2).await?;
        ensure!(zombies.iter().all(|pid| lives(*pid)), "nobody may have killed {zombies:?} yet");
        stage.world.process("a")?.resume()?;
        for pid in zombies {
            gone(pid).await?;
        }
        stage.counts("a", "the refusal", |counters| counters.refused == 1).await?;
        stage.let_go(run, 2)?;
        let expected = ["started 1.1.1", "started 1.2.2", "succeeded 1.2.2"];
        stage.transcript(run, &expected).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_executor_is_frozen_for_good_is_lost_at_its_hard_end() -> Result<()> {
    play(Brokers::One, async |stage| {
        let more = r#""start_within":"3s","timeout":"2s","max_attempts":1"#;
        let job = stage.job("work/lost", "ask", more).await?;
        let mut responder = stage.responder().await?;
        stage.launch(&Launch::new("a"))?;
        let fired = stage.trigger(&job).await?;
        responder.next().await?;
        stage.world.process("a")?.pause()?;
        stage.transcript(fired.run, &["started 1.1.1", "lost 1.1.1"]).await?;
        let lost = stage.event(fired.run, 2).await?.at;
        ensure!(lost >= fired.run_by, "lost at {lost}, before {}", fired.run_by);
        stage.world.process("a")?.resume()?;
        let late = stage.counts("a", "the late end", |counters| counters.late == 1).await?;
        ensure!(late.refused == 1, "{late:?}");
        stage.settled().await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_lay_in_a_frozen_executor_disturbs_nobody() -> Result<()> {
    // Longer than a pull, so that a pull of a frozen executor is over when the fire comes again.
    let ack_wait = Duration::from_secs(5);
    play(Brokers::One, async |stage| {
        let job = stage.job("work/asleep", "ask", r#""max_attempts":1"#).await?;
        let mut responder = stage.responder().await?;
        stage.launch(&Launch { ack_wait, ..Launch::new("a") })?;
        stage.consumer_tells("a pull that waits", |it| it["num_waiting"] == 1).await?;
        stage.world.process("a")?.pause()?;
        let run = stage.trigger(&job).await?.run;
        let delivered = |it: &Value| it["num_ack_pending"] == 1;
        stage.consumer_tells("that the fire lies in the frozen one", delivered).await?;
        stage.launch(&Launch { ack_wait, ..Launch::new("b") })?;
        let working = responder.next().await?;
        stage.transcript(run, &["started 1.1.1"]).await?;
        stage.world.process("a")?.resume()?;
        // With room for one, it takes this fire when it is done with the one that lay there.
        let other = stage.trigger(&job).await?.run;
        let by_a = responder.next().await?;
        ensure!(by_a.run == other, "{by_a:?} in place of run {other}");
        responder.answer(&by_a, "ok", "").await?;
        responder.answer(&working, "ok", "").await?;
        stage.transcript(run, &["started 1.1.1", "succeeded 1.1.1"]).await?;
        stage.settled().await
    })
    .await
}
