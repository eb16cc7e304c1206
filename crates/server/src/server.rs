//! One nats-server process: started, steered and ended, on one data folder and one port.
//!
//! Invariants: the process is in a group of its own, so a Ctrl-C meant for Cronstream does not end
//! it before the drain; it dies with its [`Server`]; signals go only to a process that has not been
//! waited for, so never to another one that got its number.

use std::{
    fs::OpenOptions,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    binary::Binary,
    config::ServerConfig,
    error::Error,
    install::file_error,
    lock::DataLock,
    log, ports,
    wire::{self, Hello},
};

/// How long a server may take until it answers. 50 ms is usual; a large store replays first.
pub(crate) const READY_MAX: Duration = Duration::from_secs(60);
/// How often a starting server is looked at.
pub(crate) const POLL: Duration = Duration::from_millis(10);
/// How long a server may take to end after SIGTERM.
const STOP_MAX: Duration = Duration::from_secs(15);
/// How many free ports are tried if others take them first.
pub(crate) const PORT_TRIES: u32 = 5;

/// A nats-server process that this process started.
#[derive(Debug)]
pub struct Server {
    binary: Binary,
    config: ServerConfig,
    port: u16,
    lock: DataLock,
    child: Child,
    pid: u32,
    /// Where the log of this run begins.
    log_start: u64,
}

impl Server {
    /// Starts a server and waits until JetStream answers.
    pub async fn start(binary: &Binary, config: ServerConfig) -> Result<Self, Error> {
        for _ in 0..PORT_TRIES {
            let port = match config.port {
                Some(port) => port,
                None => ports::free(1)?[0],
            };
            let mut server = Self::launch(binary, config.clone(), port).await?;
            match server.wait_ready(READY_MAX).await {
                Ok(()) => return Ok(server),
                // Somebody took the free port between the choice and the start: choose again.
                Err(Error::PortTaken { .. }) if config.port.is_none() => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::NoFreePort { tries: PORT_TRIES })
    }

    /// Starts the process without waiting for it.
    pub(crate) async fn launch(
        binary: &Binary,
        mut config: ServerConfig,
        port: u16,
    ) -> Result<Self, Error> {
        let dir = config.data_dir.clone();
        std::fs::create_dir_all(&dir).map_err(file_error("create folder", &dir))?;
        // The server's working folder is another one.
        config.data_dir = dir.canonicalize().map_err(file_error("find", &dir))?;
        let lock = DataLock::acquire(&config.data_dir).await?;
        let log_start = log::length(&config.log());
        let child = spawn(binary, &config, port, &lock)?;
        let pid = child.id().expect("a child that was not waited for has an id");
        lock.note(Some(pid))?;
        Ok(Self { binary: binary.clone(), config, port, lock, child, pid, log_start })
    }

    /// The address for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The port for clients; a restart keeps it.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's name, as streams report it for their leader.
    #[must_use]
    pub fn name(&self) -> &str {
        self.config.name()
    }

    /// The process that was started last; after [`Server::kill`] or [`Server::stop`] it is gone.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The log file, appended to by every start.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.config.log()
    }

    /// Waits until this very process answers and JetStream runs; a cluster's own readiness is
    /// [`Cluster::wait_ready`](crate::Cluster::wait_ready).
    pub async fn wait_ready(&mut self, within: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.exit_status()? {
                return Err(self.death(status));
            }
            let checked = timeout_at(deadline, self.check()).await;
            let obstacle = match checked.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())) {
                Ok(Hello { jetstream: false, .. }) => {
                    return Err(Error::NoJetStream { url: self.url() });
                }
                Ok(Hello { jetstream: true, .. }) => return Ok(()),
                Err(obstacle) => obstacle,
            };
            if Instant::now() >= deadline {
                return Err(self.not_ready(within, &obstacle.to_string()));
            }
            sleep(POLL).await;
        }
    }

    /// Ends the process at once (SIGKILL), as a crash would.
    pub async fn kill(&mut self) -> Result<(), Error> {
        if self.exit_status()?.is_none() {
            self.child.kill().await.map_err(|source| Error::Signal { pid: self.pid, source })?;
        }
        self.lock.note(None)
    }

    /// Ends the process in order (SIGTERM); one that does not end in time is killed and reported.
    pub async fn stop(&mut self) -> Result<(), Error> {
        if self.exit_status()?.is_none() {
            self.signal(Signal::TERM)?;
            // A paused process would see the SIGTERM only when it is resumed.
            self.signal(Signal::CONT)?;
            if timeout(STOP_MAX, self.child.wait()).await.is_err() {
                self.kill().await?;
                return Err(Error::Stuck { pid: self.pid, waited: STOP_MAX });
            }
        }
        self.lock.note(None)
    }

    /// Freezes the process (SIGSTOP).
    pub fn pause(&self) -> Result<(), Error> {
        self.signal(Signal::STOP)
    }

    /// Lets a frozen process go on (SIGCONT).
    pub fn resume(&self) -> Result<(), Error> {
        self.signal(Signal::CONT)
    }

    /// Waits until the process has ended. May be dropped and called again.
    pub async fn ended(&mut self) -> Result<ExitStatus, Error> {
        self.child.wait().await.map_err(|source| Error::Signal { pid: self.pid, source })
    }

    /// Starts the server again on the same port and data, and waits until it answers. One that
    /// still runs is stopped first.
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.relaunch().await?;
        self.wait_ready(READY_MAX).await
    }

    /// Starts the server again on the same port and data without waiting for it.
    pub(crate) async fn relaunch(&mut self) -> Result<(), Error> {
        self.stop().await?;
        self.log_start = log::length(&self.config.log());
        self.child = spawn(&self.binary, &self.config, self.port, &self.lock)?;
        self.pid = self.child.id().expect("a child that was not waited for has an id");
        self.lock.note(Some(self.pid))
    }

    /// What went wrong, as the error of a server or cluster that is not ready.
    pub(crate) fn not_ready(&self, waited: Duration, last: &str) -> Error {
        let log = self.config.log();
        let tail = log::tail(&log, self.log_start);
        Error::NotReady { url: self.url(), waited, last: last.to_owned(), log, tail }
    }

    async fn check(&self) -> std::io::Result<Hello> {
        // Proof that whoever answers on the port is this process: it wrote this file after it
        // had the port.
        let listening = ports_file(&self.binary.path, &self.config.data_dir, self.pid);
        if !listening.exists() {
            return Err(std::io::Error::other("it does not listen yet"));
        }
        let hello = wire::hello(self.port).await?;
        let alone = self.config.cluster.is_none();
        if alone && hello.jetstream && !hello.auth_required {
            wire::ask(self.port, "$JS.API.INFO", "").await?;
        }
        Ok(hello)
    }

    fn exit_status(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child.try_wait().map_err(|source| Error::Signal { pid: self.pid, source })
    }

    fn death(&self, status: ExitStatus) -> Error {
        let log = self.config.log();
        let tail = log::tail(&log, self.log_start);
        if tail.contains("address already in use") {
            return Error::PortTaken { port: self.port };
        }
        Error::Died { status: status.to_string(), log, tail }
    }

    fn signal(&self, signal: Signal) -> Result<(), Error> {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid.ok_or_else(|| Error::NotRunning { url: self.url() })?;
        kill_process(pid, signal)
            .map_err(|errno| Error::Signal { pid: self.pid, source: errno.into() })
    }
}

fn spawn(
    binary: &Binary,
    config: &ServerConfig,
    port: u16,
    lock: &DataLock,
) -> Result<Child, Error> {
    let dir = &config.data_dir;
    remove_ports_files(dir)?;
    let file = dir.join("nats-server.conf");
    std::fs::write(&file, config.render(port)?).map_err(file_error("write", &file))?;
    let log = config.log();
    let stderr = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&log)
        .map_err(file_error("open", &log))?;
    Command::new(&binary.path)
        .arg("--config")
        .arg(&file)
        .stdin(lock.as_stdin()?)
        .stdout(Stdio::null())
        .stderr(stderr)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| Error::Spawn { command: binary.path.display().to_string(), source })
}

/// The file in which nats-server writes its addresses once it has them.
fn ports_file(program: &Path, dir: &Path, pid: u32) -> PathBuf {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    dir.join(format!("{name}_{pid}.ports"))
}

/// A killed server leaves its file behind, and a process number comes again.
fn remove_ports_files(dir: &Path) -> Result<(), Error> {
    let entries = std::fs::read_dir(dir).map_err(file_error("read folder", dir))?;
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.extension().is_some_and(|it| it == "ports") {
            std::fs::remove_file(&path).map_err(file_error("remove", &path))?;
        }
    }
    Ok(())
}
