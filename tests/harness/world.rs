//! A whole installation on this machine: brokers, tickers, executors, and the recorder of what they do.
//!
//! Invariant: everything runs in one temporary folder and ends with the [`World`], also when a test panics; the
//! folder is kept when a test fails, and the failure shows where it is.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Error, Result, bail, ensure};
use cronstream_schemas::event::{Cursor, LogEvent};
use cronstream_schemas::id::Partition;
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::time::Timestamp;
use cronstream_server::{Cluster, Server, ServerConfig};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::effect::Effects;
use crate::history::{History, Stored};
use crate::process::{Process, program, tail};
use crate::record::{Record, Recorder};

/// How long `init` and the first takeover may take.
pub const START_MAX: Duration = Duration::from_secs(30);

/// How an installation is laid out.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// One broker, or three.
    pub brokers: Brokers,
    /// How many partitions.
    pub partitions: u8,
    /// The lease TTL.
    pub lease_ttl: Duration,
}

/// How many brokers there are, and copies of each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brokers {
    /// One.
    One,
    /// Three.
    Three,
}

impl Setup {
    /// Three partitions and a lease of two seconds.
    #[must_use]
    pub const fn new(brokers: Brokers) -> Self {
        Self { brokers, partitions: 3, lease_ttl: Duration::from_secs(2) }
    }
}

/// The brokers of an installation.
#[derive(Debug)]
pub enum Running {
    /// One on its own.
    One(Box<Server>),
    /// Three that keep copies for each other.
    Three(Cluster),
}

impl Running {
    fn urls(&self) -> Vec<String> {
        match self {
            Self::One(server) => vec![server.url()],
            Self::Three(cluster) => cluster.urls(),
        }
    }
}

/// An installation that runs.
#[derive(Debug)]
pub struct World {
    setup: Setup,
    processes: BTreeMap<String, Process>,
    recorder: Recorder,
    effects: Effects,
    brokers: Running,
    breaks: Vec<Timestamp>,
    program: PathBuf,
    // The last field: the folder goes after everything that writes into it.
    dir: Option<TempDir>,
}

impl World {
    /// Starts the brokers, makes the streams with `cronstream init`, and starts to record.
    ///
    /// # Errors
    /// When anything of it fails; names the log.
    pub async fn start(setup: Setup) -> Result<Self> {
        let mut world = Self::brokers_only(setup, program()?).await?;
        world.init().await?;
        Ok(world)
    }

    /// Makes the streams as the setup says.
    async fn init(&mut self) -> Result<()> {
        let setup = self.setup;
        let ttl = format!("{}ms", setup.lease_ttl.as_millis());
        let replicas = if setup.brokers == Brokers::One { "1" } else { "3" };
        let partitions = setup.partitions.to_string();
        let options =
            ["--replicas", replicas, "--partitions", &partitions, "--lease-ttl", ttl.as_str()];
        let status = self.run("init", &options).await?;
        ensure!(status, "`cronstream init` failed:\n{}", tail(&self.log("init")));
        Ok(())
    }

    /// Runs a scenario in a world of its own. When it fails, the error shows the ends of all logs and the folder
    /// with the whole of them, which is kept.
    ///
    /// # Errors
    /// The scenario's.
    pub async fn with(
        setup: Setup,
        scenario: impl AsyncFnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let mut world = Self::start(setup).await?;
        let outcome = scenario(&mut world).await;
        outcome.map_err(|error| world.explain(error))
    }

    /// The same on brokers that the test has started in its own way.
    ///
    /// # Errors
    /// The scenario's.
    pub async fn with_brokers(
        setup: Setup,
        brokers: Running,
        scenario: impl AsyncFnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let mut world = Self::on(setup, program()?, folder()?, brokers)?;
        let outcome = match world.init().await {
            Ok(()) => scenario(&mut world).await,
            Err(error) => Err(error),
        };
        outcome.map_err(|error| world.explain(error))
    }

    /// Only the brokers and the recorder; the streams are made by the caller.
    ///
    /// # Errors
    /// When the brokers do not start.
    pub async fn brokers_only(setup: Setup, program: PathBuf) -> Result<Self> {
        let dir = folder()?;
        let binary = cronstream_server::ensure(&mut |line| tracing::info!("{line}")).await?;
        let config = ServerConfig::new(dir.path().join("nats"));
        let brokers = match setup.brokers {
            Brokers::One => Running::One(Box::new(Server::start(&binary, config).await?)),
            Brokers::Three => Running::Three(Cluster::start_with(&binary, &config).await?),
        };
        Self::on(setup, program, dir, brokers)
    }

    fn on(setup: Setup, program: PathBuf, dir: TempDir, brokers: Running) -> Result<Self> {
        Ok(Self {
            setup,
            processes: BTreeMap::new(),
            recorder: Recorder::start(&brokers.urls()),
            effects: Effects::create(dir.path())?,
            brokers,
            breaks: Vec::new(),
            program,
            dir: Some(dir),
        })
    }

    /// The program under test.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// How it is laid out.
    #[must_use]
    pub const fn setup(&self) -> Setup {
        self.setup
    }

    /// The addresses of the brokers.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.brokers.urls()
    }

    /// The recorder.
    #[must_use]
    pub const fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The effect file and the tasks file.
    #[must_use]
    pub const fn effects(&self) -> &Effects {
        &self.effects
    }

    /// Starts a ticker. Its clock is set by [`World::set_clock`].
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn ticker(&mut self, node: &str, options: &[&str]) -> Result<()> {
        self.set_clock(node, 0)?;
        let clock = self.clock(node);
        let mut args = self.command("ticker", &self.urls());
        args.extend(["--node", node, "--test-clock-offset-file"].map(OsString::from));
        args.push(clock.into());
        args.extend(options.iter().map(OsString::from));
        self.spawn(node, args)
    }

    /// Starts an executor of a queue.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn executor(&mut self, node: &str, queue: &str, concurrency: u32) -> Result<()> {
        let mut args = self.command("executor", &self.urls());
        let concurrency = concurrency.to_string();
        let rest = ["--node", node, "--queue", queue, "--concurrency", &concurrency, "--tasks"];
        args.extend(rest.map(OsString::from));
        args.push(self.effects.tasks().into());
        args.extend(["--drain", "5s"].map(OsString::from));
        self.spawn(node, args)
    }

    /// Starts a verb that runs until it is stopped, which reaches the brokers by these addresses.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn serve(
        &mut self,
        node: &str,
        verb: &str,
        urls: &[String],
        options: &[&str],
    ) -> Result<()> {
        let mut args = self.command(verb, urls);
        args.extend(["--node", node].iter().chain(options).map(OsString::from));
        self.spawn(node, args)
    }

    /// Starts a ticker as a process of this name, which need not be its node's, by another copy of the program where
    /// one is given.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn ticker_as(
        &mut self,
        process: &str,
        node: &str,
        program: Option<&Path>,
        options: &[&str],
    ) -> Result<()> {
        let mut args = self.command("ticker", &self.urls());
        args.extend(["--node", node].iter().chain(options).map(OsString::from));
        let program = program.unwrap_or(&self.program).to_owned();
        self.spawn_by(&program, process, args)
    }

    /// A process by the name it was started under.
    ///
    /// # Errors
    /// When there is none.
    pub fn process(&mut self, node: &str) -> Result<&mut Process> {
        self.processes.get_mut(node).with_context(|| format!("no process {node}"))
    }

    /// Sets how far a ticker's clock is ahead, in milliseconds.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set_clock(&self, node: &str, ahead_ms: i64) -> Result<()> {
        // A reader sees the old number or the new one, never half of it.
        let new = self.path(&format!("{node}.clock.new"));
        std::fs::write(&new, ahead_ms.to_string())
            .and_then(|()| std::fs::rename(&new, self.clock(node)))
            .with_context(|| format!("write {}", new.display()))
    }

    /// Waits until every partition has a leader.
    ///
    /// # Errors
    /// When one has none in time, or a process ends meanwhile.
    pub async fn led(&mut self) -> Result<()> {
        const LOOK: Duration = Duration::from_millis(500);
        let partitions = self.setup.partitions;
        let led = |record: &Record| {
            let all = (0..partitions).all(|p| newest_cursor(record, Partition(p)).is_some());
            all.then_some(())
        };
        let deadline = Instant::now() + START_MAX;
        loop {
            let looked = self.recorder.until("a leader for every partition", LOOK, led).await;
            if looked.is_ok() || Instant::now() >= deadline {
                return looked;
            }
            for (node, process) in &mut self.processes {
                ensure!(process.is_running()?, "{node} has ended");
            }
        }
    }

    /// The node that wrote the newest cursor of a partition.
    ///
    /// # Errors
    /// When there is no cursor.
    pub fn leader(&self, partition: Partition) -> Result<Cursor> {
        let record = self.recorder.now();
        let cursor = newest_cursor(&record, partition).cloned();
        cursor.with_context(|| format!("partition {} has no cursor", partition.0))
    }

    /// The partition of a job.
    #[must_use]
    pub fn partition(&self, job: &JobId) -> Partition {
        Partition::of(job, self.setup.partitions)
    }

    /// The partitions that a node leads.
    #[must_use]
    pub fn led_by(&self, node: &Name) -> Vec<Partition> {
        let record = self.recorder.now();
        (0..self.setup.partitions)
            .map(Partition)
            .filter(|p| newest_cursor(&record, *p).is_some_and(|cursor| cursor.node == *node))
            .collect()
    }

    /// Kills the broker that leads CRON_LOG and returns its index.
    ///
    /// # Errors
    /// When no broker leads it in time.
    pub async fn kill_broker_leader(&mut self) -> Result<usize> {
        let index = match &mut self.brokers {
            Running::One(server) => {
                server.kill().await?;
                0
            }
            Running::Three(cluster) => {
                let index = cluster.stream_leader("CRON_LOG").await?;
                cluster.nodes[index].kill().await?;
                index
            }
        };
        self.breaks.push(now());
        Ok(index)
    }

    /// Starts a broker again.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn restart_broker(&mut self, index: usize) -> Result<()> {
        Ok(self.broker(index)?.restart().await?)
    }

    /// A broker by its index.
    ///
    /// # Errors
    /// When there is none.
    pub fn broker(&mut self, index: usize) -> Result<&mut Server> {
        let broker = match &mut self.brokers {
            Running::One(server) => (index == 0).then_some(server.as_mut()),
            Running::Three(cluster) => cluster.nodes.get_mut(index),
        };
        broker.with_context(|| format!("no broker {index}"))
    }

    /// Everything that happened.
    ///
    /// # Errors
    /// When the streams or the effect file cannot be read.
    pub async fn history(&self) -> Result<History> {
        const READ_MAX: Duration = Duration::from_secs(60);
        let mut history = self.recorder.history(self.setup.partitions, READ_MAX).await?;
        history.effects = self.effects.read()?;
        history.breaks.extend(&self.breaks);
        Ok(history)
    }

    fn spawn(&mut self, node: &str, args: Vec<OsString>) -> Result<()> {
        self.spawn_by(&self.program.clone(), node, args)
    }

    fn spawn_by(&mut self, program: &Path, node: &str, args: Vec<OsString>) -> Result<()> {
        if self.processes.contains_key(node) {
            bail!("{node} is started already");
        }
        let process = Process::spawn(program, args, self.log(node))?;
        self.processes.insert(node.to_owned(), process);
        Ok(())
    }

    pub(crate) fn command(&self, verb: &str, urls: &[String]) -> Vec<OsString> {
        [verb, "--nats", &urls.join(",")].map(OsString::from).to_vec()
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.log"))
    }

    fn clock(&self, node: &str) -> PathBuf {
        self.path(&format!("{node}.clock"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.as_ref().map_or(Path::new(""), TempDir::path).join(name)
    }

    /// Keeps the folder and adds to an error what is needed to find its cause.
    fn explain(&mut self, error: Error) -> Error {
        match self.keep() {
            Some(report) => error.context(report),
            None => error,
        }
    }

    fn keep(&mut self) -> Option<String> {
        let dir = self.dir.take()?.keep();
        let mut report = format!("everything is kept in {}\n", dir.display());
        for (node, process) in &self.processes {
            report.push_str(&format!("--- the end of {node}'s log\n{}", process.tail()));
        }
        Some(report)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(report) = self.keep()
        {
            tell(&report);
        }
    }
}

fn folder() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("cronstream-test-").tempdir()?)
}

#[expect(clippy::print_stderr, reason = "a test that panics has no other way to tell")]
fn tell(report: &str) {
    eprintln!("{report}");
}

/// The newest cursor of a partition.
#[must_use]
pub fn newest_cursor(record: &Record, partition: Partition) -> Option<&Cursor> {
    cursors(record).map(|(_, cursor)| cursor).find(|cursor| cursor.partition == partition)
}

/// The cursors of a record, newest first.
pub fn cursors(record: &Record) -> impl Iterator<Item = (&Stored<LogEvent>, &Cursor)> {
    record.log.values().rev().filter_map(|stored| match &stored.event {
        LogEvent::Cursor(cursor) => Some((stored, cursor)),
        LogEvent::JobDefined(_)
        | LogEvent::JobPaused(_)
        | LogEvent::JobResumed(_)
        | LogEvent::JobDeleted(_)
        | LogEvent::JobOverridden(_)
        | LogEvent::CalendarDefined(_)
        | LogEvent::CalendarDeleted(_)
        | LogEvent::CalendarRevised(_)
        | LogEvent::JobRevised(_)
        | LogEvent::Fired(_)
        | LogEvent::Held(_)
        | LogEvent::HeldEnded(_)
        | LogEvent::Skipped(_)
        | LogEvent::Rejected(_)
        | LogEvent::Meta(_) => None,
    })
}

/// The time by the machine's clock, which the brokers share.
#[must_use]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::MIN.plus(since)
}
