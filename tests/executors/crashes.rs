//! Executors that are killed: the fire comes again, the crash counts, and no slot or run is lost.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use cronstream_schemas::event::{FailureKind, LogEvent, RunEvent, SkipReason};
use cronstream_schemas::id::RunId;
use cronstream_schemas::name::JobId;
use cronstream_tests::crew::fires;
use cronstream_tests::record::Record;
use cronstream_tests::world::Brokers;

use crate::stage::{Launch, PATIENCE, lives, play};

/// A slot of a job that was skipped because of a live run, after a sequence of the log.
fn overlap_skipped(record: &Record, job: &JobId, after: u64) -> Option<u64> {
    record.log.range(after + 1..).find_map(|(sequence, stored)| match &stored.event {
        LogEvent::Skipped(skipped) => {
            (skipped.job == *job && skipped.reason == SkipReason::Overlap).then_some(*sequence)
        }
        _ => None,
    })
}

fn runs_of(record: &Record, job: &JobId) -> Vec<RunId> {
    let mut runs: Vec<_> =
        fires(record).filter(|(_, fired)| fired.job == *job).map(|(_, fired)| fired.run).collect();
    runs.reverse();
    runs
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_executors_run_goes_on_elsewhere_and_its_job_does_not_overlap() -> Result<()> {
    play(Brokers::One, async |stage| {
        stage.launch(&Launch::new("a"))?;
        let body = r#"{"task":"hold","queue":"work","schedule":{"every":"1s"}}"#;
        let job = stage.ticking_job("work/alone", body).await?;
        let first = |record: &Record| runs_of(record, &job).first().copied();
        let run = stage.until("the first run", first).await?;
        let orphans = stage.held(run, 1).await?;
        stage.world.process("a")?.kill().await?;
        stage.launch(&Launch::new("b"))?;
        let killed = stage.world.recorder().now().log.keys().last().copied().unwrap_or(0);
        stage.until("a skipped slot", |record| overlap_skipped(record, &job, killed)).await?;
        stage.held(run, 2).await?;
        // What the dead executor started does not know of it and ends with a result that nobody stores.
        ensure!(lives(orphans[0]), "the task of the killed executor is gone");
        stage.let_go(run, 1)?;
        let redelivered = stage.world.recorder().now().log.keys().last().copied().unwrap_or(0);
        stage.until("a skipped slot", |record| overlap_skipped(record, &job, redelivered)).await?;
        ensure!(runs_of(&stage.world.recorder().now(), &job) == [run], "a second run began");
        stage.let_go(run, 2)?;
        let expected = ["started 1.1.1", "started 1.2.2", "succeeded 1.2.2"];
        stage.transcript(run, &expected).await?;
        let next = |record: &Record| runs_of(record, &job).get(1).copied();
        let next = stage.until("the next run", next).await?;
        stage.held(next, 1).await?;
        stage.let_go(next, 1)?;
        stage.transcript(next, &["started 1.1.1", "succeeded 1.1.1"]).await?;
        // What has begun meanwhile ends too.
        stage.pause().await?;
        let begun = runs_of(&stage.world.recorder().now(), &job);
        begun.into_iter().try_for_each(|run| stage.let_go(run, 1))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_kills_its_executor_ends_as_dead_letter_and_other_jobs_go_on() -> Result<()> {
    const LIVES: usize = 3;
    play(Brokers::One, async |stage| {
        let healthy = r#"{"task":"echo","queue":"work","schedule":{"every":"1s"},"overlap":"allow","max_attempts":50}"#;
        let healthy = stage.ticking_job("work/healthy", healthy).await?;
        let poison = stage.job("work/poison", "murder", "").await?;
        stage.launch(&Launch { concurrency: 4, ..Launch::new("a") })?;
        let run = stage.trigger(&poison).await?.run;
        for _ in 0..LIVES {
            stage.world.process("a")?.ended(PATIENCE).await?;
            stage.world.process("a")?.restart().await?;
        }
        let expected = ["started 1.1.1", "started 1.2.2", "started 1.3.3", "failed 1.4.3"];
        stage.transcript(run, &expected).await?;
        let RunEvent::Failed(failed) = stage.event(run, 4).await?.event else { bail!("not failed") };
        ensure!(failed.failure.kind == FailureKind::Crashed, "{failed:?}");
        ensure!(failed.failure.message == "a was lost during attempt 3 of 3", "{failed:?}");
        let dead = stage.until("the dead letter", |record| {
            record.dead.values().find(|it| it.event.fired.run == run).map(|it| it.event.attempts)
        });
        ensure!(dead.await? == 3);
        let last = |record: &Record| runs_of(record, &healthy).last().copied();
        let last = stage.until("a healthy run", last).await?;
        ensure!(stage.world.process("a")?.is_running()?, "the executor died once more");
        let succeeds = stage.until("its result", |record| {
            crate::stage::events(record, last).find(|it| it.event.is_terminal()).cloned()
        });
        ensure!(succeeds.await?.event.kind() == "succeeded");
        stage.settled().await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_restarts_under_a_dead_executors_run_loses_nothing() -> Result<()> {
    play(Brokers::One, async |stage| {
        let job = stage.job("work/both", "ask", "").await?;
        stage.launch(&Launch::new("a"))?;
        let mut responder = stage.responder().await?;
        let run = stage.trigger(&job).await?.run;
        responder.next().await?;
        stage.world.process("a")?.kill().await?;
        let broker = stage.world.kill_broker_leader().await?;
        stage.world.restart_broker(broker).await?;
        let mut responder = stage.responder().await?;
        stage.launch(&Launch::new("b"))?;
        let second = responder.next().await?;
        responder.answer(&second, "ok", "2").await?;
        let expected = ["started 1.1.1", "started 1.2.2", "succeeded 1.2.2"];
        stage.transcript(run, &expected).await?;
        stage.settled().await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn executors_that_come_back_leave_alone_what_lives() -> Result<()> {
    play(Brokers::One, async |stage| {
        let job = stage.job("work/long", "ask", "").await?;
        let mut responder = stage.responder().await?;
        stage.launch(&Launch::new("a"))?;
        let run = stage.trigger(&job).await?.run;
        let only = responder.next().await?;
        stage.launch(&Launch::new("b"))?;
        for _ in 0..3 {
            stage.pass(Duration::from_secs(2)).await?;
            stage.world.process("b")?.restart().await?;
            stage.reports("b", "its start", |_| true).await?;
        }
        responder.answer(&only, "ok", "").await?;
        stage.transcript(run, &["started 1.1.1", "succeeded 1.1.1"]).await?;
        stage.settled().await
    })
    .await
}
