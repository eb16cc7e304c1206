//! Timeouts and start limits: what takes too long is ended, whole.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use cronstream_schemas::event::{FailureKind, RunEvent};
use cronstream_tests::crew::fires;
use cronstream_tests::record::Record;
use cronstream_tests::world::Brokers;

use crate::stage::{Launch, gone, play};

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_ends_the_tasks_whole_process_group() -> Result<()> {
    play(Brokers::One, async |stage| {
        let more = r#""timeout":"3s","max_attempts":1"#;
        let job = stage.job("work/slow", "hold", more).await?;
        stage.launch(&Launch::new("a"))?;
        let run = stage.trigger(&job).await?.run;
        let held = stage.held(run, 1).await?;
        stage.transcript(run, &["started 1.1.1", "failed 1.1.1"]).await?;
        for pid in held {
            gone(pid).await?;
        }
        let (started, failed) = (stage.event(run, 1).await?.at, stage.event(run, 2).await?);
        let took = failed.at.since(started);
        ensure!(took >= Duration::from_secs(3), "it was ended after {took:?}");
        let RunEvent::Failed(failed) = failed.event else { bail!("{failed:?}") };
        ensure!(failed.failure.kind == FailureKind::Timeout, "{failed:?}");
        let printed = failed.output.map(|output| output.stdout);
        ensure!(printed.as_deref() == Some("holding\n"), "it printed {printed:?}");
        stage.settled().await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_nobody_starts_expires_and_lets_the_next_slot_fire() -> Result<()> {
    play(Brokers::One, async |stage| {
        let body =
            r#"{"task":"ask","queue":"work","schedule":{"every":"1s"},"start_within":"1500ms"}"#;
        let job = stage.ticking_job("work/unstarted", body).await?;
        let third = |record: &Record| {
            let mut runs = fires(record).filter(|(_, fired)| fired.job == job);
            (runs.by_ref().count() >= 3).then_some(())
        };
        stage.until("three fires of a job that nobody runs", third).await?;
        let record = stage.world.recorder().now();
        let ours: Vec<_> =
            fires(&record).map(|(_, fired)| fired).filter(|fired| fired.job == job).collect();
        let [.., second, first] = ours[..] else { bail!("{} fires", ours.len()) };
        let gap = second.fired_at.since(first.fired_at);
        ensure!(gap >= Duration::from_millis(1_500), "the second run was fired {gap:?} later");
        let (first, second) = (first.run, second.run);
        drop(record);
        for run in [first, second] {
            let ended = stage.event(run, 1).await?;
            ensure!(ended.event.kind() == "expired", "{ended:?}");
        }
        Ok(())
    })
    .await
}
