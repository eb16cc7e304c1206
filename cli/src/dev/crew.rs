//! Child processes that are started again when they die.
//!
//! Invariant: a child sees the end of its standard input when this process dies, and stops by itself; a log file
//! holds at most [`LOG_BYTES_MAX`] and what is written until it is looked at again.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::command::Line;
use super::folder::Folder;
use crate::error::Error;
use crate::output::Output;

/// The first and the longest wait before a child is started again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// A child that lived so long is started again after the shortest wait.
const HEALTHY_AFTER: Duration = Duration::from_secs(30);
/// So many ends in a row, and it is not started again.
const ENDS_MAX: u32 = 10;
/// When a log is this long, it is put aside.
const LOG_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// How often that is looked at.
const LOG_LOOK: Duration = Duration::from_secs(30);
/// How long the others may take to stop before the last one is told to.
const FIRST_END_MAX: Duration = Duration::from_millis(400);
/// How long one child may take to stop before it is killed.
const END_MAX: Duration = Duration::from_millis(4_400);

/// The children.
#[derive(Debug)]
pub(super) struct Crew {
    tasks: JoinSet<Result<(), Error>>,
    /// For all but the last, and for the last.
    stops: (CancellationToken, CancellationToken),
}

#[derive(Debug)]
struct Member {
    node: &'static str,
    line: Line,
    log: PathBuf,
    out: Output,
    stop: CancellationToken,
}

impl Crew {
    /// Starts the children; the last of them is the one that is stopped last.
    pub(super) fn start(out: Output, folder: &Folder, lines: Vec<(&'static str, Line)>) -> Self {
        let stops = (CancellationToken::new(), CancellationToken::new());
        let last = lines.len().saturating_sub(1);
        let mut tasks = JoinSet::new();
        for (index, (node, line)) in lines.into_iter().enumerate() {
            let stop = if index == last { &stops.1 } else { &stops.0 };
            out.talk(&format!("$ {line}"));
            let log = folder.file(&format!("{node}.log"));
            let line = line.arg("--exit-with-parent");
            tasks.spawn(Member { node, line, log, out, stop: stop.clone() }.supervise());
        }
        out.talk(&format!("logs are in {}", folder.file("*.log").display()));
        Self { tasks, stops }
    }

    /// Waits until a child does not come back. May be dropped and called again.
    pub(super) async fn failed(&mut self) -> Error {
        match self.tasks.join_next().await {
            Some(Ok(Err(error))) => error,
            Some(Err(error)) => io::Error::other(error).into(),
            // None ends well before it is told to.
            Some(Ok(Ok(()))) | None => std::future::pending().await,
        }
    }

    /// Stops them: the last one when the others are gone, or shortly after.
    pub(super) async fn end(mut self) {
        self.stops.0.cancel();
        let others =
            async { while self.tasks.len() > 1 && self.tasks.join_next().await.is_some() {} };
        timeout(FIRST_END_MAX, others).await.ok();
        self.stops.1.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

impl Member {
    /// Keeps the child alive until it is told to stop.
    async fn supervise(self) -> Result<(), Error> {
        let mut ends = 0;
        loop {
            let started = Instant::now();
            let (what, status) = match self.live().await {
                Ok(None) => return Ok(()),
                Ok(Some(status)) => (format!("ended ({status})"), Some(status)),
                Err(error) => (format!("could not be started ({error})"), None),
            };
            ends = if started.elapsed() < HEALTHY_AFTER { ends + 1 } else { 1 };
            let look = format!("see {}", self.log.display());
            if ends >= ENDS_MAX {
                let node = self.node.to_owned();
                return Err(match status {
                    Some(status) => Error::Ended { what: node, status, look },
                    None => io::Error::other(format!("{node} {what}")).into(),
                });
            }
            let pause = (BACKOFF.0 * 2_u32.pow(ends - 1)).min(BACKOFF.1);
            let text = format!("{} {what}: starting it again in {pause:?}; {look}", self.node);
            self.out.talk(&text);
            tokio::select! {
                () = sleep(pause) => {}
                () = self.stop.cancelled() => return Ok(()),
            }
        }
    }

    /// One life of the child: how it ended by itself, or `None` when it was told to.
    async fn live(&self) -> io::Result<Option<ExitStatus>> {
        put_aside(&self.log)?;
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = self.line.command();
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        let mut child = command.spawn()?;
        // Waiting for a child would close it.
        let _lifeline = child.stdin.take();
        let mut look = tokio::time::interval(LOG_LOOK);
        loop {
            tokio::select! {
                status = child.wait() => return status.map(Some),
                () = self.stop.cancelled() => break,
                _ = look.tick() => put_aside(&self.log)?,
            }
        }
        terminate(&child);
        if timeout(END_MAX, child.wait()).await.is_err() {
            self.out.talk(&format!("{} does not stop: killed", self.node));
            child.kill().await?;
        }
        Ok(None)
    }
}

fn terminate(child: &Child) {
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(pid) = pid {
        // Fails only when it has just ended.
        kill_process(pid, Signal::TERM).ok();
    }
}

/// Copies a long log to `.old` and empties it; the child goes on writing at its end.
fn put_aside(log: &Path) -> io::Result<()> {
    if std::fs::metadata(log).map_or(0, |metadata| metadata.len()) < LOG_BYTES_MAX {
        return Ok(());
    }
    let mut old = log.as_os_str().to_owned();
    old.push(".old");
    std::fs::copy(log, old)?;
    OpenOptions::new().write(true).open(log)?.set_len(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_put_aside_and_a_short_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("a.log");
        put_aside(&log).unwrap();
        std::fs::write(&log, "short").unwrap();
        put_aside(&log).unwrap();
        assert_eq!(std::fs::read(&log).unwrap(), b"short");
        let file = OpenOptions::new().write(true).open(&log).unwrap();
        file.set_len(LOG_BYTES_MAX).unwrap();
        put_aside(&log).unwrap();
        assert_eq!(std::fs::metadata(&log).unwrap().len(), 0);
        let old = folder.path().join("a.log.old");
        assert_eq!(std::fs::metadata(old).unwrap().len(), LOG_BYTES_MAX);
    }
}
