//! Executors that are asked to stop: they finish, or give back what does not end in time, and no attempt is lost.

use std::time::Duration;

use anyhow::{Result, ensure};
use cronstream_tests::world::{Brokers, now};

use crate::stage::{ACK_WAIT, Launch, PATIENCE, Stage, gone, play};

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_while_draining_keeps_its_fire_until_then() -> Result<()> {
    play(Brokers::One, async |stage| {
        let job = stage.job("work/drained", "ask", "").await?;
        let mut responder = stage.responder().await?;
        stage.launch(&Launch { drain: PATIENCE, concurrency: 4, ..Launch::new("a") })?;
        let run = stage.trigger(&job).await?.run;
        let only = responder.next().await?;
        stage.world.process("a")?.terminate()?;
        stage.reports("a", "that it drains", |status| status.draining).await?;
        stage.launch(&Launch { concurrency: 4, ..Launch::new("b") })?;
        // Another executor that works is no reason to take this one away.
        let other = stage.trigger(&job).await?.run;
        let by_b = responder.next().await?;
        ensure!(by_b.run == other, "{by_b:?} in place of run {other}");
        responder.answer(&by_b, "ok", "").await?;
        stage.pass(ACK_WAIT * 2).await?;
        responder.answer(&only, "ok", "").await?;
        stage.transcript(run, &["started 1.1.1", "succeeded 1.1.1"]).await?;
        let status = stage.world.process("a")?.ended(PATIENCE).await?;
        ensure!(status.success(), "it ended with {status}");
        stage.settled().await?;
        stage.transcript(run, &["started 1.1.1", "succeeded 1.1.1"]).await
    })
    .await
}

async fn hand_back(stage: &mut Stage<'_>) -> Result<()> {
    // Far longer than the test: only being handed back brings the fire to the other executor.
    const NEVER: Duration = Duration::from_secs(600);
    let job = stage.job("work/handed-back", "hold", r#""max_attempts":1"#).await?;
    let drain = Duration::from_secs(1);
    stage.launch(&Launch { ack_wait: NEVER, drain, ..Launch::new("a") })?;
    let run = stage.trigger(&job).await?.run;
    let held = stage.held(run, 1).await?;
    stage.launch(&Launch { ack_wait: NEVER, ..Launch::new("b") })?;
    stage.reports("b", "its start", |_| true).await?;
    let asked = now();
    stage.world.process("a")?.terminate()?;
    stage.transcript(run, &["started 1.1.1", "interrupted 1.1.0", "started 1.2.1"]).await?;
    let stopped = stage.event(run, 2).await?.at.since(asked);
    ensure!(stopped >= drain, "handed back after {stopped:?}, before the drain was over");
    for pid in held {
        gone(pid).await?;
    }
    let status = stage.world.process("a")?.ended(PATIENCE).await?;
    ensure!(status.success(), "it ended with {status}");
    stage.let_go(run, 1)?;
    let expected = ["started 1.1.1", "interrupted 1.1.0", "started 1.2.1", "succeeded 1.2.1"];
    stage.transcript(run, &expected).await?;
    stage.settled().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_end_is_handed_back_at_once_and_does_not_count() -> Result<()> {
    play(Brokers::One, async |stage| hand_back(stage).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_end_is_handed_back_at_once_on_three_brokers() -> Result<()> {
    play(Brokers::Three, async |stage| hand_back(stage).await).await
}
