//! One `cronstream` process: started, stopped, frozen, killed and started again.
//!
//! Invariant: signals go only to a process that this value started and has not waited for; the process dies with
//! the value.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// How long a process takes to stop, at most.
const STOPPED_WITHIN: Duration = Duration::from_secs(5);
/// How much of a log is shown.
const TAIL_MAX: usize = 4 * 1024;

/// A process with the command line that started it.
#[derive(Debug)]
pub struct Process {
    program: PathBuf,
    args: Vec<OsString>,
    log: PathBuf,
    child: Child,
}

/// The `cronstream` program of this build.
///
/// # Errors
/// When it is not built; says how to.
pub fn program() -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let profile = test.parent().and_then(Path::parent).context("a test outside target/")?;
    let program = profile.join("cronstream");
    ensure!(
        program.is_file(),
        "{} is not built: run `cargo build -p cronstream` first, or the whole `cargo test`",
        program.display()
    );
    Ok(program)
}

impl Process {
    /// Starts a program; what it prints is appended to `log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(program: &Path, args: Vec<OsString>, log: PathBuf) -> Result<Self> {
        let child = launch(program, &args, &log)?;
        Ok(Self { program: program.to_owned(), args, log, child })
    }

    /// Whether it has not ended.
    ///
    /// # Errors
    /// When the operating system does not say.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Freezes it (SIGSTOP), and returns when none of its threads runs any more: one that was at work when the signal
    /// came may still send what it had.
    ///
    /// # Errors
    /// When it has ended.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let deadline = Instant::now() + STOPPED_WITHIN;
        while !self.is_stopped()? {
            ensure!(Instant::now() < deadline, "a thread does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Whether every thread is stopped, by what proc(5) says of each.
    fn is_stopped(&self) -> Result<bool> {
        let pid = self.child.id().context("the process has ended")?;
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread may have ended meanwhile.
            let Ok(stat) = fs::read_to_string(thread?.path().join("stat")) else { continue };
            let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
            if !matches!(state, Some('T' | 'Z' | 'X')) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Errors
    /// When it has ended.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Asks it to end (SIGTERM) and does not wait.
    ///
    /// # Errors
    /// When it has ended.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Ends it at once (SIGKILL), as a crash would.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub async fn kill(&mut self) -> Result<()> {
        if self.is_running()? {
            self.child.kill().await?;
        }
        Ok(())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it runs longer.
    pub async fn ended(&mut self, within: Duration) -> Result<ExitStatus> {
        match timeout(within, self.child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => bail!("{} has not ended in {within:?}", self.log.display()),
        }
    }

    /// Starts it again by the same command line; one that runs is killed first.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn restart(&mut self) -> Result<()> {
        self.kill().await?;
        self.child = launch(&self.program, &self.args, &self.log)?;
        Ok(())
    }

    /// The file that has everything it printed.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The end of what it printed.
    #[must_use]
    pub fn tail(&self) -> String {
        tail(&self.log)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid.with_context(|| format!("{} has ended", self.log.display()))?;
        Ok(kill_process(pid, signal)?)
    }
}

/// The end of a file, for a failure's message.
#[must_use]
pub fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let from = text.len().saturating_sub(TAIL_MAX);
    String::from_utf8_lossy(&text[from..]).into_owned()
}

fn launch(program: &Path, args: &[OsString], log: &Path) -> Result<Child> {
    let file = OpenOptions::new().create(true).append(true).open(log);
    let file = file.with_context(|| format!("open {}", log.display()))?;
    // What a killed process leaves behind goes with the test's folder.
    let folder = log.parent().context("a log without a folder")?;
    Command::new(program)
        .args(args)
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("start {}", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, log: PathBuf) -> Process {
        let args = ["-c", script].map(OsString::from).to_vec();
        Process::spawn(Path::new("/bin/sh"), args, log).unwrap()
    }

    #[tokio::test]
    async fn a_killed_process_starts_again_and_keeps_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let mut process = sh("echo here; exec sleep 60", dir.path().join("log"));
        process.pause().unwrap();
        process.resume().unwrap();
        process.kill().await.unwrap();
        assert!(!process.is_running().unwrap());
        assert!(process.pause().is_err());
        process.restart().await.unwrap();
        process.terminate().unwrap();
        let status = process.ended(Duration::from_secs(10)).await.unwrap();
        assert!(!status.success());
    }

    #[tokio::test]
    async fn the_tail_is_what_it_printed_last() {
        let dir = tempfile::tempdir().unwrap();
        let mut process = sh("echo one; echo two >&2", dir.path().join("log"));
        process.ended(Duration::from_secs(10)).await.unwrap();
        assert_eq!(process.tail(), "one\ntwo\n");
    }
}
