//! What the nodes log: a line for each decision, and nothing that a definition or a task keeps for itself.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use cronstream_schemas::command::Verb;
use serde_json::{Map, Value};

use crate::stage::{Stage, look, play};

/// Stands for everything that must not be logged.
const SECRET: &str = "hunter2";

type Line = Map<String, Value>;

/// The lines of a log, each an object.
fn lines(log: &Path) -> Result<Vec<Line>> {
    let text = std::fs::read_to_string(log)?;
    ensure!(!text.contains(SECRET), "{} holds the secret", log.display());
    let read = |line: &str| serde_json::from_str(line).with_context(|| line.to_owned());
    text.lines().map(read).collect()
}

/// A line of the tickers, or of the executor, with this message about this job.
async fn logged(stage: &mut Stage<'_>, nodes: &[&str], message: &str, job: &str) -> Result<Line> {
    look(&format!("{message:?} in a log"), async || {
        for node in nodes {
            let lines = lines(stage.world.process(node)?.log())?;
            let mut lines = lines.into_iter();
            if let Some(line) = lines
                .find(|line| line["message"] == message && line.get("job") == Some(&job.into()))
            {
                return Ok(line);
            }
        }
        anyhow::bail!("it is not there")
    })
    .await
}

fn has(line: &Line, fields: &[&str]) -> Result<()> {
    for field in fields {
        ensure!(line.contains_key(*field), "no {field} in {line:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_decision_is_a_line_with_job_slot_run_and_epoch_and_without_secrets() -> Result<()> {
    const TICKERS: [&str; 2] = ["t1", "t2"];
    const JOB: &str = "logs/told";
    let json = ["--log-format", "json"];
    play(async |stage| {
        stage.crew(&json, &json).await?;
        let params = format!(r#","params":{{"password":"{SECRET}"}},"title":"{SECRET}""#);
        let job = stage.job(JOB, "told", &params).await?;
        let fired = stage.trigger(&job, None).await?;
        stage.ended(fired.run).await?;
        stage.send(Verb::Pause, &job, "", None).await?;
        stage.send(Verb::Define, &job, &format!(r#"{{"task":"{SECRET}!"}}"#), None).await?;

        let line = logged(stage, &TICKERS, "fired", JOB).await?;
        has(&line, &["slot", "epoch", "partition", "fire_no", "queue", "task", "revision"])?;
        ensure!(line["run"] == fired.run.to_string() && line["epoch"] == fired.epoch.0, "{line:?}");
        ensure!(line["slot"] == fired.scheduled_at.to_string(), "{line:?}");
        for message in ["job defined", "job paused", "rejected"] {
            let line = logged(stage, &TICKERS, message, JOB).await?;
            has(&line, &["epoch", "partition", "command"])?;
        }
        for (message, field) in [("started", "token"), ("ended", "outcome")] {
            let line = logged(stage, &["e1"], message, JOB).await?;
            has(&line, &["slot", "epoch", "attempt", "delivery", field])?;
            ensure!(line["run"] == fired.run.to_string(), "{line:?}");
        }
        let line = logged(stage, &["e1"], "ended", JOB).await?;
        ensure!(line["outcome"] == "succeeded", "{line:?}");

        let body =
            r#"{"task":"told","schedule":{"every":"1s"},"start_within":"1s","queue":"nobody"}"#;
        let busy = "logs/busy".parse()?;
        stage.send(Verb::Define, &busy, body, None).await?;
        let line = logged(stage, &TICKERS, "skipped", "logs/busy").await?;
        has(&line, &["slot", "through", "count", "epoch", "partition"])?;
        ensure!(line["reason"] == "overlap", "{line:?}");
        Ok(())
    })
    .await
}
