//! A ticker in a process of its own, and what it takes of the machine.
//!
//! Invariant: the process is `cronstream ticker` as an operator starts it; it ends when this one does.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::{Child, Command};

use super::stage::Stage;
use crate::error::Error;

/// What `/proc` counts processor time in, on every Linux there is.
const TICKS_PER_SECOND: f64 = 100.0;

/// A ticker process.
#[derive(Debug)]
pub(super) struct Ticker {
    child: Child,
    pid: u32,
}

impl Ticker {
    /// Starts one on the stage's broker; its log lines go to a file.
    pub(super) fn start(stage: &Stage) -> Result<Self, Error> {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(stage.folder.path().join("ticker.log"))?;
        let child = Command::new(std::env::current_exe()?)
            .args(["ticker", "--node", "bench-ticker", "--trace-ratio", "0", "--exit-with-parent"])
            .args(["--nats", &stage.url])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().ok_or_else(|| Error::Measurement("a ticker has ended".into()))?;
        Ok(Self { child, pid })
    }

    /// Whether the process is gone.
    pub(super) fn has_ended(&self) -> bool {
        !self.file("stat").exists()
    }

    /// Bytes of memory that it holds.
    pub(super) fn memory(&self) -> Result<f64, Error> {
        let status = fs::read_to_string(self.file("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        kib.map(|kib| kib * 1024.0).ok_or_else(|| unreadable("VmRSS"))
    }

    /// Seconds of a processor that its threads have used.
    pub(super) fn cpu(&self) -> Result<f64, Error> {
        let mut nanos = 0.0;
        for task in fs::read_dir(self.file("task"))? {
            let text = fs::read_to_string(task?.path().join("schedstat"))?;
            let used = text.split_whitespace().next().and_then(|one| one.parse::<f64>().ok());
            nanos += used.ok_or_else(|| unreadable("schedstat"))?;
        }
        Ok(nanos / 1e9)
    }

    /// Ends it in order.
    pub(super) async fn stop(mut self) -> Result<(), Error> {
        drop(self.child.stdin.take());
        self.child.wait().await?;
        Ok(())
    }

    fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.pid))
    }
}

/// Processor seconds that a process has used, its ended threads included; 0 where the kernel does not tell.
pub(super) fn cpu(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may hold anything; user and system time are the 12th and 13th field behind it.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND
}

fn unreadable(what: &str) -> Error {
    Error::Measurement(format!("the kernel does not tell {what} of a process"))
}
