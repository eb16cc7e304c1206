//! A real Jaeger is asked for the traces of runs by their ids. Without one, and without Go to build it, the test says
//! that it is skipped.

use anyhow::{Context, Result, ensure};
use cronstream_schemas::event::{Fired, RunEvent};
use cronstream_schemas::id::RunId;
use cronstream_server::{Error as ServerError, Jaeger, Locator};
use serde_json::Value;

use crate::seen::{Seen, Trace, labels};
use crate::stage::{Stage, look, play};

/// A place in somebody else's trace.
const SENDER: &str = "00-11111111111111111111111111111111-2222222222222222-01";

async fn start() -> Result<Option<(Jaeger, tempfile::TempDir)>> {
    let program = match Locator::from_env()?.ensure_jaeger(&mut |line| tell(line)).await {
        Ok(program) => program,
        Err(error @ ServerError::NoJaeger { .. }) if !has_go() => {
            tell(&format!("SKIPPED(go): {error}"));
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    let dir = tempfile::tempdir()?;
    Ok(Some((Jaeger::start_anywhere(&program, dir.path()).await?, dir)))
}

fn has_go() -> bool {
    std::process::Command::new("go").arg("version").output().is_ok()
}

#[expect(clippy::print_stderr, reason = "the reader of a test run is to know that it was skipped")]
fn tell(line: &str) {
    eprintln!("{line}");
}

/// The spans that Jaeger has of a run.
async fn spans(jaeger: &Jaeger, run: RunId) -> Result<Vec<Seen>> {
    let path = format!("/api/traces/{}", run.0.simple());
    let answer: Value = serde_json::from_str(&jaeger.query(&path).await?)?;
    let spans = answer["data"][0]["spans"].as_array().context("spans")?;
    spans.iter().map(Seen::of_jaeger).collect()
}

/// Waits until Jaeger has exactly these spans of a run, and checks that they are one trace.
async fn whole(jaeger: &Jaeger, fired: &Fired, expected: &[&str]) -> Result<Trace> {
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    let found = look("the trace", async || {
        let spans = spans(jaeger, fired.run).await?;
        ensure!(labels(&spans) == expected, "{:?} in place of {expected:?}", labels(&spans));
        Ok(spans)
    });
    let trace = Trace::whole(&found.await?)?;
    let root = trace.at("fire 1")?;
    ensure!(root.parent.is_none(), "the first fire is no root");
    ensure!(
        root.trace == fired.run.0.simple().to_string(),
        "trace {} of {}",
        root.trace,
        fired.run
    );
    for attribute in
        ["cronstream.job", "cronstream.slot", "cronstream.lateness_ms", "cronstream.epoch"]
    {
        ensure!(!root.get(attribute).is_empty(), "no {attribute} in {root:#?}");
    }
    ensure!(fired.traceparent.contains(&root.id), "{} is not {}", root.id, fired.traceparent);
    Ok(trace)
}

#[tokio::test(flavor = "multi_thread")]
async fn jaeger_shows_whole_traces_of_runs_with_a_retry_and_with_crashes() -> Result<()> {
    let Some((jaeger, _dir)) = start().await? else { return Ok(()) };
    play(async |stage| {
        stage.relay(&jaeger.otlp())?;
        stage.crew(&[], &[]).await?;
        retried(stage, &jaeger).await?;
        crashed(stage, &jaeger).await?;
        leader_crashed(stage, &jaeger).await
    })
    .await?;
    Ok(jaeger.end().await?)
}

async fn retried(stage: &mut Stage<'_>, jaeger: &Jaeger) -> Result<()> {
    let job = stage.job("traces/flaky", "flaky", "").await?;
    let fired = stage.trigger(&job, Some(SENDER)).await?;
    let expected = [
        "fire 1",
        "queue wait 1.1",
        "attempt 1.1 attempt_failed",
        "handler 1.1",
        "fire 2",
        "queue wait 2.1",
        "attempt 2.1 succeeded",
        "handler 2.1",
    ];
    let trace = whole(jaeger, &fired, &expected).await?;
    trace.child("fire 2", "fire 1")?;
    for (fire, attempt) in [(1, "attempt 1.1 attempt_failed"), (2, "attempt 2.1 succeeded")] {
        trace.child(&format!("queue wait {fire}.1"), &format!("fire {fire}"))?;
        trace.child(attempt, &format!("fire {fire}"))?;
        trace.child(&format!("handler {fire}.1"), attempt)?;
    }
    trace.link("attempt 2.1 succeeded", "attempt 1.1 attempt_failed")?;
    ensure!(trace.at("fire 1")?.links == ["2222222222222222"], "the trigger is not linked");
    let failed = trace.at("attempt 1.1 attempt_failed")?;
    for (attribute, value) in [
        ("span.kind", "consumer"),
        ("messaging.system", "nats"),
        ("messaging.operation.type", "process"),
        ("messaging.consumer.group.name", "default"),
        ("messaging.destination.name", "cron.fire.default.traces.flaky"),
        ("cronstream.attempt", "1"),
        ("cronstream.node", "e1"),
        ("error.type", "error"),
        ("otel.status_code", "ERROR"),
    ] {
        ensure!(failed.get(attribute) == value, "{attribute} is {:?}", failed.get(attribute));
    }
    ensure!(trace.at("fire 1")?.get("span.kind") == "producer", "no producer");
    ensure!(trace.at("handler 1.1")?.get("cronstream.handler") == "command", "no command");
    Ok(())
}

async fn crashed(stage: &mut Stage<'_>, jaeger: &Jaeger) -> Result<()> {
    let job = stage.job("traces/murder", "murder", "").await?;
    let fired = stage.trigger(&job, None).await?;
    stage.world.process("e1")?.ended(crate::stage::PATIENCE).await?;
    stage.world.process("e1")?.restart().await?;
    let expected = [
        "fire 1",
        "queue wait 1.1",
        "attempt 1.1 crashed",
        "handler 1.1",
        "attempt 1.2 succeeded",
        "handler 1.2",
    ];
    let trace = whole(jaeger, &fired, &expected).await?;
    for (child, parent) in [
        ("queue wait 1.1", "fire 1"),
        ("attempt 1.1 crashed", "fire 1"),
        ("handler 1.1", "attempt 1.1 crashed"),
        ("attempt 1.2 succeeded", "fire 1"),
        ("handler 1.2", "attempt 1.2 succeeded"),
    ] {
        trace.child(child, parent)?;
    }
    trace.link("attempt 1.2 succeeded", "attempt 1.1 crashed")
}

/// The leader dies as soon as the order is in the log: another one tells of it.
async fn leader_crashed(stage: &mut Stage<'_>, jaeger: &Jaeger) -> Result<()> {
    let job = stage.job("traces/slow", "slow", "").await?;
    let leader = stage.world.leader(stage.world.partition(&job))?.node.to_string();
    let fired = stage.trigger(&job, None).await?;
    stage.world.process(&leader)?.kill().await?;
    let expected = ["fire 1", "queue wait 1.1", "attempt 1.1 succeeded", "handler 1.1"];
    let trace = whole(jaeger, &fired, &expected).await?;
    let told = stage.result(fired.run).await?;
    let handler = format!("00-{}-{}-01", fired.run.0.simple(), trace.at("handler 1.1")?.id);
    ensure!(told == handler, "the task was told {told}, its span is {handler}");
    ensure!(matches!(stage.ended(fired.run).await?, RunEvent::Succeeded(_)), "it failed");
    Ok(())
}
