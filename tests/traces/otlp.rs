//! The relay against a collector that refuses, hangs and restarts, and nodes without anybody who takes spans.

use anyhow::{Context, Result, ensure};
use cronstream_schemas::event::RunEvent;
use cronstream_schemas::id::RunId;
use cronstream_schemas::name::JobId;
use cronstream_schemas::status::{NodeStatus, RelayStatus, Role};
use cronstream_tests::nats::Nats;
use serde_json::Value;

use crate::collector::{Collector, Mood};
use crate::seen::{Trace, labels};
use crate::stage::{Stage, look, play};

const WHOLE: [&str; 4] = ["attempt 1.1 succeeded", "fire 1", "handler 1.1", "queue wait 1.1"];

async fn whole(collector: &Collector, run: RunId) -> Result<Trace> {
    let spans = look("the trace", async || {
        let spans = collector.spans(run);
        ensure!(labels(&spans) == WHOLE, "{:?}", labels(&spans));
        Ok(spans)
    });
    Trace::whole(&spans.await?)
}

/// Runs the job once and returns when it has succeeded.
async fn run(stage: &Stage<'_>, job: &JobId) -> Result<RunId> {
    let run = stage.trigger(job, None).await?.run;
    ensure!(matches!(stage.ended(run).await?, RunEvent::Succeeded(_)), "{run} has failed");
    Ok(run)
}

/// The relay's report, once it is as expected.
async fn reports(
    stage: &Stage<'_>,
    what: &str,
    expected: impl Fn(&NodeStatus, &RelayStatus) -> bool,
) -> Result<()> {
    look(what, async || {
        let status = stage.world.ask("status", &[]).await?;
        let relays: Vec<NodeStatus> = serde_json::from_value(status["relays"].clone())?;
        let node = relays.first().context("a relay")?;
        let Role::Relay(relay) = &node.role else { anyhow::bail!("{node:?}") };
        ensure!(expected(node, relay), "{node:?}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_reach_a_collector_that_refuses_hangs_and_restarts() -> Result<()> {
    let mut collector = Collector::start(Mood::Refuse(503)).await?;
    play(async |stage| {
        stage.relay(&collector.url())?;
        stage.crew(&[], &[]).await?;
        let job = stage.job("traces/told", "told", "").await?;

        let refused = run(stage, &job).await?;
        collector.asked(2).await?;
        ensure!(collector.spans(refused).is_empty(), "what was refused was taken");
        reports(stage, "a relay that is not ready", |node, relay| {
            node.not_ready.iter().any(|why| why.contains("503")) && relay.counters.failures > 0
        })
        .await?;
        collector.mood(Mood::Hang);
        let hung = run(stage, &job).await?;
        collector.asked(1).await?;
        collector.mood(Mood::Accept);
        whole(&collector, refused).await?;
        whole(&collector, hung).await?;

        collector.leave().await;
        let away = run(stage, &job).await?;
        let failures = |_: &NodeStatus, relay: &RelayStatus| relay.counters.failures > 2;
        reports(stage, "failures", failures).await?;
        collector.listen().await?;
        whole(&collector, away).await?;
        reports(stage, "a relay that is ready", |node, relay| {
            node.not_ready.is_empty() && relay.counters.dropped_batches == 0
        })
        .await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_a_collector_does_not_want_is_counted_and_does_not_hold_up_others()
-> Result<()> {
    let collector = Collector::start(Mood::Refuse(400)).await?;
    play(async |stage| {
        stage.relay(&collector.url())?;
        stage.crew(&[], &[]).await?;
        let job = stage.job("traces/told", "told", "").await?;
        run(stage, &job).await?;
        let dropped = |_: &NodeStatus, relay: &RelayStatus| relay.counters.dropped_batches > 0;
        reports(stage, "a dropped batch", dropped).await?;
        collector.mood(Mood::Partly(1));
        let taken = run(stage, &job).await?;
        whole(&collector, taken).await?;
        let rejected = |_: &NodeStatus, relay: &RelayStatus| relay.counters.rejected_spans > 0;
        reports(stage, "a rejected span", rejected).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_go_on_and_lost_spans_are_counted_when_nobody_takes_spans() -> Result<()> {
    play(async |stage| {
        let nats = Nats::connect(&stage.world.urls()).await?;
        nats.ask("STREAM.DELETE.CRON_TRACES", &Value::Null).await?;
        stage.crew(&[], &[]).await?;
        let job = stage.job("traces/told", "told", "").await?;
        run(stage, &job).await?;
        look("lost spans in the status", async || {
            let status = stage.world.ask("status", &[]).await?;
            let dropped = &status["executors"][0]["role"]["executor"]["spans"]["dropped"];
            ensure!(dropped.as_u64() >= Some(3), "{dropped}");
            Ok(())
        })
        .await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_not_sampled_says_so_to_its_task_and_leaves_no_span() -> Result<()> {
    let collector = Collector::start(Mood::Accept).await?;
    play(async |stage| {
        stage.relay(&collector.url())?;
        stage.crew(&["--trace-ratio", "0"], &[]).await?;
        let job = stage.job("traces/told", "told", "").await?;
        let fired = stage.trigger(&job, None).await?;
        let told = stage.result(fired.run).await?;
        ensure!(
            told.ends_with("-00") && told.contains(&fired.run.0.simple().to_string()),
            "{told}"
        );
        let counted = async || {
            let status = stage.world.ask("status", &[]).await?;
            let spans = &status["executors"][0]["role"]["executor"]["spans"];
            ensure!(spans["published"] == 0 && spans["dropped"] == 0, "{spans}");
            Ok(())
        };
        counted().await?;
        // Its executor hands out what it has when it stops.
        stage.world.process("e1")?.terminate()?;
        stage.world.process("e1")?.ended(crate::stage::PATIENCE).await?;
        ensure!(collector.spans(fired.run).is_empty(), "{:?}", collector.spans(fired.run));
        Ok(())
    })
    .await
}
