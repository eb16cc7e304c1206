//! Retries: what an attempt's end leaves behind is one retry, after its back-off, whoever dies meanwhile.

use std::time::Duration;

use anyhow::{Result, ensure};
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::{LogEvent, RunEvent};
use cronstream_schemas::id::RunId;
use cronstream_schemas::time::Timestamp;
use cronstream_tests::proxy::{Proxy, Traffic};
use cronstream_tests::world::Brokers;

use crate::stage::{Launch, Stage, play};
use crate::web::Web;

/// The shortest back-off.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
/// How much later than due a retry may be fired on a machine that is busy.
const LATE_MAX: Duration = Duration::from_secs(5);

/// When a fire was decided.
async fn fired_at(stage: &Stage<'_>, run: RunId, fire_no: u32) -> Result<Timestamp> {
    match stage.fire(run, fire_no).await?.event {
        LogEvent::Fired(fired) => Ok(fired.fired_at),
        other => anyhow::bail!("no fire: {other:?}"),
    }
}

/// Executor `a` dies after its `AttemptFailed` is stored and before it can know that, or acknowledge the fire.
async fn die_before_the_ack(stage: &mut Stage<'_>, web: &Web, retry_after: &str) -> Result<RunId> {
    stage.add_tasks(&web.task("web")?)?;
    let job = stage.job("work/retried", "web", "").await?;
    let proxy = Proxy::start(&stage.world.urls()[0]).await?;
    stage.launch(&Launch { url: Some(proxy.url()), ..Launch::new("a") })?;
    let run = stage.trigger(&job).await?.run;
    let call = web.next().await?;
    proxy.set(Traffic::LoseReplies);
    call.answer("429 Too Many Requests", retry_after, "").await?;
    stage.transcript(run, &["started 1.1.1", "attempt_failed 1.1.1"]).await?;
    stage.world.process("a")?.kill().await?;
    Ok(run)
}

async fn retry_meets_redelivery(stage: &mut Stage<'_>) -> Result<()> {
    let web = Web::start().await?;
    let run = die_before_the_ack(stage, &web, "").await?;
    stage.launch(&Launch { concurrency: 2, ..Launch::new("b") })?;
    // The retry runs until the old fire has come again beside it.
    let retry = web.next().await?;
    let met = stage.counts("b", "the old fire", |counters| counters.stale == 1).await?;
    ensure!(met.started == 1, "{met:?}");
    retry.answer("200 OK", "", "").await?;
    let expected = ["started 1.1.1", "attempt_failed 1.1.1", "started 2.1.2", "succeeded 2.1.2"];
    stage.transcript(run, &expected).await?;
    let waited = fired_at(stage, run, 2).await?.since(stage.event(run, 2).await?.at);
    ensure!(waited >= BACKOFF_MIN, "the retry came after {waited:?}");
    stage.settled().await?;
    stage.transcript(run, &expected).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_meets_the_old_fire_again_runs_once() -> Result<()> {
    play(Brokers::One, async |stage| retry_meets_redelivery(stage).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_meets_the_old_fire_again_runs_once_on_three_brokers() -> Result<()> {
    play(Brokers::Three, async |stage| retry_meets_redelivery(stage).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_fire_that_comes_before_the_retry_does_not_shorten_its_back_off() -> Result<()> {
    play(Brokers::One, async |stage| {
        let web = Web::start().await?;
        let run = die_before_the_ack(stage, &web, "retry-after: 8\r\n").await?;
        stage.launch(&Launch { concurrency: 2, ..Launch::new("b") })?;
        stage.counts("b", "the old fire", |counters| counters.stale == 1).await?;
        web.next().await?.answer("200 OK", "", "").await?;
        let expected =
            ["started 1.1.1", "attempt_failed 1.1.1", "started 2.1.2", "succeeded 2.1.2"];
        stage.transcript(run, &expected).await?;
        let waited = fired_at(stage, run, 2).await?.since(stage.event(run, 2).await?.at);
        ensure!(waited >= Duration::from_secs(8), "the retry came after {waited:?}");
        stage.settled().await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_misses_the_answer_to_its_result_reads_it_back() -> Result<()> {
    play(Brokers::One, async |stage| {
        let web = Web::start().await?;
        stage.add_tasks(&web.task("web")?)?;
        let job = stage.job("work/unsure", "web", "").await?;
        let proxy = Proxy::start(&stage.world.urls()[0]).await?;
        stage.launch(&Launch { url: Some(proxy.url()), ..Launch::new("a") })?;
        let run = stage.trigger(&job).await?.run;
        let call = web.next().await?;
        proxy.set(Traffic::LoseReplies);
        call.answer("200 OK", "", "7").await?;
        stage.transcript(run, &["started 1.1.1", "succeeded 1.1.1"]).await?;
        proxy.set(Traffic::Pass);
        let known = stage.counts("a", "the result", |counters| counters.succeeded == 1).await?;
        ensure!(known.refused == 0, "{known:?}");
        stage.settled().await?;
        stage.transcript(run, &["started 1.1.1", "succeeded 1.1.1"]).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn three_attempts_with_growing_back_off_then_the_dead_letter() -> Result<()> {
    play(Brokers::One, async |stage| {
        let job = stage.job("work/failing", "ask", "").await?;
        let mut responder = stage.responder().await?;
        stage.launch(&Launch::new("a"))?;
        let run = stage.trigger(&job).await?.run;
        for attempt in 1..=3 {
            let request = responder.next().await?;
            ensure!(request.attempt == attempt, "{request:?}");
            responder.answer(&request, "retry", &format!("no {attempt}")).await?;
        }
        let expected = [
            "started 1.1.1",
            "attempt_failed 1.1.1",
            "started 2.1.2",
            "attempt_failed 2.1.2",
            "started 3.1.3",
            "failed 3.1.3",
        ];
        stage.transcript(run, &expected).await?;
        for (failed, fire_no, ceiling) in [(2, 2, 1), (4, 3, 2)] {
            let waited = fired_at(stage, run, fire_no).await?;
            let waited = waited.since(stage.event(run, failed).await?.at);
            let most = Duration::from_secs(ceiling) + LATE_MAX;
            ensure!((BACKOFF_MIN..=most).contains(&waited), "fire {fire_no} after {waited:?}");
        }
        let dead = stage.until("the dead letter", |record| {
            record.dead.values().find(|it| it.event.fired.run == run).map(|it| it.event.clone())
        });
        let dead = dead.await?;
        ensure!((dead.attempts, dead.failure.message.as_str()) == (3, "no 3"), "{dead:?}");
        let counters = stage.counts("a", "the end", |counters| counters.failed == 1).await?;
        ensure!((counters.started, counters.attempt_failed) == (3, 2), "{counters:?}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_for_good_is_not_tried_again() -> Result<()> {
    play(Brokers::One, async |stage| {
        let job = stage.job("work/fatal", "ask", "").await?;
        let mut responder = stage.responder().await?;
        stage.launch(&Launch::new("a"))?;
        let run = stage.trigger(&job).await?.run;
        let request = responder.next().await?;
        responder.answer(&request, "fail", "never").await?;
        stage.transcript(run, &["started 1.1.1", "failed 1.1.1"]).await?;
        let RunEvent::Failed(failed) = stage.event(run, 2).await?.event else { unreachable!() };
        ensure!(failed.failure.message == "never", "{failed:?}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_during_the_back_off_neither_loses_nor_doubles_the_retry() -> Result<()> {
    play(Brokers::One, async |stage| {
        let web = Web::start().await?;
        stage.add_tasks(&web.task("web")?)?;
        let job = stage.job("work/paused", "web", "").await?;
        stage.launch(&Launch { concurrency: 4, ..Launch::new("a") })?;
        let run = stage.trigger(&job).await?.run;
        web.next().await?.answer("503 Service Unavailable", "retry-after: 3\r\n", "").await?;
        stage.transcript(run, &["started 1.1.1", "attempt_failed 1.1.1"]).await?;
        let recorder = stage.world.recorder();
        stage.client.change(recorder, Verb::Pause, &job, "").await?;
        stage.client.change(recorder, Verb::Resume, &job, "").await?;
        web.next().await?.answer("200 OK", "", "").await?;
        let expected =
            ["started 1.1.1", "attempt_failed 1.1.1", "started 2.1.2", "succeeded 2.1.2"];
        stage.transcript(run, &expected).await?;
        let waited = fired_at(stage, run, 2).await?.since(stage.event(run, 2).await?.at);
        ensure!(waited >= Duration::from_secs(3), "the retry came after {waited:?}");
        stage.settled().await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_of_many_that_fail_at_once_do_not_come_in_step() -> Result<()> {
    const RUNS: usize = 100;
    play(Brokers::One, async |stage| {
        let job = stage.job("work/together", "ask", r#""max_attempts":2"#).await?;
        let mut responder = stage.responder().await?;
        stage.launch(&Launch { concurrency: 100, ..Launch::new("a") })?;
        stage.trigger_many(&[job], RUNS).await?;
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            runs.push(responder.next().await?);
        }
        for request in &runs {
            responder.answer(request, "retry", "all at once").await?;
        }
        let mut tenths = std::collections::BTreeSet::new();
        for request in &runs {
            let waited = fired_at(stage, request.run, 2).await?;
            let waited = waited.since(stage.event(request.run, 2).await?.at);
            ensure!(waited >= BACKOFF_MIN, "{request:?} is retried after {waited:?}");
            tenths.insert(waited.as_millis() / 100);
        }
        ensure!(tenths.len() >= 5, "{RUNS} retries in these tenths of a second: {tenths:?}");
        for _ in 0..RUNS {
            let request = responder.next().await?;
            responder.answer(&request, "ok", "").await?;
        }
        stage.settled().await
    })
    .await
}
