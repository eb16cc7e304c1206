//! The real program under its roles: everything works that is meant to, and a denied write is told at once.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cronstream_server::RightsTable;
use cronstream_tests::process::Process;
use cronstream_tests::sink::Sink;
use serde_json::Value;
use tokio::time::sleep;

use crate::stage::{Stage, tasks, users};

/// How long it may take from the start of a verb to the report of what was denied.
const DENIED_MAX: Duration = Duration::from_secs(1);
/// Between two looks at a log.
const LOOK: Duration = Duration::from_millis(20);
/// How long a node may take to end.
const END_MAX: Duration = Duration::from_secs(20);

/// A ticker, and an executor for each of two queues, which end with the value.
struct Crew {
    stage: Stage,
    nodes: Vec<Process>,
}

async fn crew_of(table: &RightsTable, more: &str) -> Result<Crew> {
    let stage = Stage::start(table, more).await?;
    let tasks = tasks(&stage.path(""))?;
    let tasks = tasks.to_str().context("a path of this test is UTF-8")?;
    let mut nodes = vec![stage.spawn("ticker", "ticker", &["--node", "t1"])?];
    for queue in ["default", "billing"] {
        let (user, node) = (format!("executor-{queue}"), format!("e-{queue}"));
        let options = ["--queue", queue, "--node", node.as_str(), "--tasks", tasks];
        nodes.push(stage.spawn(&user, "executor", &options)?);
    }
    let answer = |lines: &[Value]| {
        let count = |what: &str| lines[0][what].as_array().map_or(0, Vec::len);
        let led = |share: &Value| share.get("leader").is_some();
        count("tickers") == 1
            && count("executors") == 2
            && lines[0]["partitions"].as_array().is_some_and(|shares| shares.iter().all(led))
    };
    stage.until(("reader", "status"), &[], answer).await?;
    Ok(Crew { stage, nodes })
}

fn job(stage: &Stage, job: &str, queue: &str) -> Result<String> {
    let file = stage.path(&format!("{}.json", job.replace('/', "-")));
    let text = format!(
        r#"{{"job":"{job}","task":"hello","queue":"{queue}","schedule":{{"every":"1h"}}}}"#
    );
    std::fs::write(&file, text)?;
    Ok(file.to_str().context("a path of this test is UTF-8")?.to_owned())
}

/// Waits until `doctor` finds nothing wrong: a node that is busy may answer it too late.
async fn healthy(stage: &Stage) -> Result<()> {
    let begun = Instant::now();
    loop {
        let doctor = stage.run("operator", "doctor", &[]).await?;
        let found = String::from_utf8(doctor.stdout)?;
        if doctor.status.success() {
            ensure!(!found.contains("FAIL"), "{found}");
            return Ok(());
        }
        ensure!(begun.elapsed() < END_MAX, "{found}{}", String::from_utf8_lossy(&doctor.stderr));
    }
}

/// Defines, runs, reads, changes and ends jobs, each by the user who may.
async fn whole_life(more: &str) -> Result<()> {
    let table = RightsTable::embedded().with_users(users())?;
    let Crew { stage, mut nodes } = crew_of(&table, more).await?;
    let collector = Sink::start().await?;
    let otlp = format!("http://{}", collector.address());
    nodes.push(stage.spawn("relay", "relay", &["--otlp", &otlp, "--node", "r1"])?);
    let publisher = "publisher-billing";
    for (name, queue) in [("billing/a", "default"), ("billing/b", "billing")] {
        let file = job(&stage, name, queue)?;
        stage.call(publisher, "apply", &["-f", &file]).await?;
        ensure!(stage.call(publisher, "apply", &["-f", &file]).await?.contains("unchanged"));
        stage.call(publisher, "trigger", &[name]).await?;
        let succeeded = |lines: &[Value]| lines.len() == 1 && lines[0]["state"] == "succeeded";
        let runs = stage.until(("reader", "runs"), &[name], succeeded).await?;
        let run = runs[0]["run"].as_str().context("a run has an id")?.to_owned();
        let timeline = stage.call("reader", "run", &[&run]).await?;
        ensure!(timeline.contains("succeeded"), "{timeline}");
        stage.call(publisher, "pause", &[name]).await?;
        ensure!(stage.call(publisher, "get", &[name]).await?.contains("paused"));
        stage.call(publisher, "resume", &[name]).await?;
    }
    collector.taken(END_MAX).await?;
    ensure!(stage.call("reader", "list", &[]).await?.lines().count() >= 2);
    stage.call("reader", "dead", &[]).await?;
    healthy(&stage).await?;
    stage.call("operator", "release", &[]).await?;
    stage.call(publisher, "delete", &["billing/a", "--yes"]).await?;
    for node in &mut nodes {
        let log = node.tail();
        ensure!(!log.contains("permission denied"), "a node lacks a right:\n{log}");
        node.terminate()?;
        ensure!(node.ended(END_MAX).await?.success(), "a node ends badly:\n{}", node.tail());
    }
    Ok(())
}

#[tokio::test]
async fn everything_works_under_its_role() -> Result<()> {
    whole_life("").await
}

#[tokio::test]
async fn everything_works_with_the_newer_form_of_acknowledgements() -> Result<()> {
    whole_life("feature_flags { js_ack_fc_v2: true }").await
}

#[tokio::test]
async fn a_denied_write_is_told_within_a_second_with_its_subject() -> Result<()> {
    let table = RightsTable::embedded().with_users(users())?;
    let stage = Stage::start(&table, "").await?;
    let tasks = tasks(&stage.path(""))?;
    let tasks = tasks.to_str().context("a path of this test is UTF-8")?;
    let other = job(&stage, "demo/x", "default")?;
    let foreign_queue = ["--queue", "billing", "--tasks", tasks];
    let cases: &[(&str, &str, &[&str], &str)] = &[
        ("publisher-billing", "apply", &["-f", &other], "DIRECT.GET.CRON_LOG.cron.job.demo.x"),
        ("publisher-billing", "trigger", &["demo/x"], "cron.trigger.demo.x"),
        ("publisher-billing", "cancel", &["demo/x", RUN, "--yes"], "cron.cancel.demo.x"),
        ("reader", "cancel", &["demo/x", RUN, "--yes"], "cron.cancel.demo.x"),
        ("reader", "release", &[], "$SRV.RELEASE.cron"),
        ("executor-default", "executor", &foreign_queue, "CRON_LOG.billing.cron.fire.billing.>"),
        ("executor-default", "ticker", &[], "STREAM.INFO.CRON_LOG"),
        ("publisher-billing", "ticker", &[], "STREAM.INFO.CRON_LOG"),
        ("reader", "init", &[], "STREAM.CREATE.CRON_PROBE"),
    ];
    for (user, verb, options, subject) in cases {
        let begun = Instant::now();
        let output = stage.run(user, verb, options).await?;
        let took = begun.elapsed();
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success(), "{user} may {verb}");
        ensure!(told.contains(subject), "{verb} of {user} does not name {subject}:\n{told}");
        ensure!(took < DENIED_MAX, "{verb} of {user} took {took:?}:\n{told}");
    }
    Ok(())
}

/// Two nodes that lack the one right they need for a run: to order it, and to say that it started.
#[tokio::test]
async fn a_node_tells_a_denied_write_within_a_second_with_its_subject() -> Result<()> {
    let text = include_str!("../../nats-config/rights.toml");
    for (right, user, subject) in [
        ("  \"{prefix}.fire.>\",\n", "ticker", "cron.fire.default.billing.a"),
        ("  \"{prefix}.run.{queue}.>\",\n", "executor-default", "cron.run.default.billing.a."),
    ] {
        ensure!(text.contains(right), "no {right} in the table");
        let table = RightsTable::parse(&text.replace(right, ""))?.with_users(users())?;
        let Crew { stage, nodes } = crew_of(&table, "").await?;
        let file = job(&stage, "billing/a", "default")?;
        stage.call("publisher-billing", "apply", &["-f", &file]).await?;
        let begun = Instant::now();
        let _trigger = stage.spawn("publisher-billing", "trigger", &["billing/a"])?;
        let node = if user == "ticker" { &nodes[0] } else { &nodes[1] };
        while !node.tail().lines().any(|it| it.contains("denied") && it.contains(subject)) {
            ensure!(
                begun.elapsed() < DENIED_MAX,
                "{user} does not tell {subject}:\n{}",
                node.tail()
            );
            sleep(LOOK).await;
        }
    }
    Ok(())
}

/// A run that does not exist.
const RUN: &str = "01a00000-0000-8000-8000-000000000000";
