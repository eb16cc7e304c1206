//! Cancels: the leader ends the run, and the executor that runs it stops within ten seconds.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cronstream_schemas::command::Verb;
use cronstream_schemas::time::Timestamp;
use cronstream_tests::world::Brokers;

use crate::stage::{Launch, gone, play};

/// Within this a cancelled task is stopped.
const SEEN_MAX: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_task_is_stopped_within_ten_seconds() -> Result<()> {
    play(Brokers::One, async |stage| {
        let job = stage.job("work/cancelled", "hold", "").await?;
        // The default, whose third part would be too long between two looks.
        stage.launch(&Launch { ack_wait: Duration::from_secs(30), ..Launch::new("a") })?;
        let run = stage.trigger(&job).await?.run;
        let held = stage.held(run, 1).await?;
        let id = run.to_string();
        ensure!(stage.world.run("cancel", &[&id, "--yes"]).await?, "cancel failed");
        stage.transcript(run, &["started 1.1.1", "cancelled 1.1.1"]).await?;
        let stopped = stage.written(&format!("stopped.{run}.1")).await?;
        let stopped: i64 = stopped.trim().parse().context("when it stopped")?;
        let seen = Timestamp::from_millis(stopped).since(stage.event(run, 2).await?.at);
        ensure!(seen <= SEEN_MAX, "the task was stopped {seen:?} after its cancel");
        for pid in held {
            gone(pid).await?;
        }
        let counters = stage.counts("a", "the refusal", |it| it.refused == 1).await?;
        ensure!((counters.failed, counters.attempt_failed) == (0, 0), "{counters:?}");
        stage.settled().await?;
        stage.transcript(run, &["started 1.1.1", "cancelled 1.1.1"]).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cancelled_before_it_starts_never_does() -> Result<()> {
    play(Brokers::One, async |stage| {
        let job = stage.job("work/in-time", "ask", "").await?;
        let run = stage.trigger(&job).await?.run;
        let body = format!(r#"{{"run":"{run}"}}"#);
        stage.client.send(Verb::Cancel, &job, &body).await?;
        let ended = stage.event(run, 1).await?;
        ensure!(ended.event.kind() == "cancelled", "{ended:?}");
        stage.launch(&Launch::new("a"))?;
        let stale = stage.counts("a", "the ended fire", |it| it.stale == 1).await?;
        ensure!(stale.started == 0, "{stale:?}");
        stage.settled().await
    })
    .await
}
