//! A program in Python, with nothing but nats-py, is a full client.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cronstream_schemas::event::RunEvent;
use cronstream_schemas::verdict::{Outcome, Verdict};
use cronstream_tests::crew::fires;
use cronstream_tests::world::{Brokers, Setup, World};
use tokio::process::Command;

/// What pip installs, and for how long it may.
const NATS_PY: &str = "nats-py==2.16.0";
const INSTALL_MAX: Duration = Duration::from_secs(180);

/// A Python that has nats-py, from a virtual environment of the project's own; `None` where there is no Python.
async fn python(dir: &Path) -> Result<Option<PathBuf>> {
    let venv = dir.join("venv");
    let made = Command::new("python3").args(["-m", "venv"]).arg(&venv).output().await;
    if !made.is_ok_and(|made| made.status.success()) {
        return Ok(None);
    }
    let python = venv.join("bin/python");
    let install = Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", NATS_PY])
        .kill_on_drop(true)
        .output();
    let installed = tokio::time::timeout(INSTALL_MAX, install).await.context("pip hangs")??;
    ensure!(installed.status.success(), "pip: {}", String::from_utf8_lossy(&installed.stderr));
    Ok(Some(python))
}

fn rejected(verdict: &Verdict) -> Result<Vec<&str>> {
    match &verdict.outcome {
        Outcome::Rejected { faults, .. } => Ok(faults.iter().map(|f| f.path.as_str()).collect()),
        other => bail!("not rejected: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn python_defines_triggers_and_hears_every_verdict() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let Some(python) = python(dir.path()).await? else {
        eprintln!("SKIPPED(python3 with venv)");
        return Ok(());
    };
    World::with(Setup::new(Brokers::One), async |world| {
        world.ticker("t1", &[])?;
        world.executor("e1", "default", 4)?;
        world.led().await?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("foreign/nats_py.py");
        let output = Command::new(&python)
            .arg(script)
            .arg(&world.urls()[0])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(Duration::from_secs(60), output).await??;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout)?;
        let verdicts: Vec<Verdict> =
            lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let [defined, faulty, stale, again, fired, twice] = &verdicts[..] else {
            bail!("six verdicts, not {lines}");
        };
        for accepted in [defined, again] {
            let Outcome::Accepted { next, .. } = &accepted.outcome else { bail!("{accepted:?}") };
            ensure!(next.len() == 3, "{accepted:?}");
        }
        ensure!(rejected(faulty)? == ["$.shedule", "$.task", "$.schedule"], "{faulty:?}");
        ensure!(rejected(stale)? == ["$header.Cron-Expected-Revision"], "{stale:?}");
        let Outcome::Fired { run } = fired.outcome else { bail!("{fired:?}") };
        let Outcome::Rejected { duplicate_of, .. } = &twice.outcome else { bail!("{twice:?}") };
        ensure!(*duplicate_of == Some(run), "{twice:?}");
        let params = fires(&world.recorder().now())
            .find(|(_, fired)| fired.run == run)
            .map(|(_, fired)| fired.params.as_str().to_owned());
        ensure!(params.as_deref() == Some(r#"{"n":12345678901234567890}"#), "{params:?}");
        let result = |record: &cronstream_tests::record::Record| {
            record
                .runs
                .values()
                .find(|stored| matches!(stored.event, RunEvent::Succeeded(_)))
                .map(drop)
        };
        world.recorder().until("the run's result", Duration::from_secs(30), result).await
    })
    .await
}
