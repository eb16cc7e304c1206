//! A broker of our own with an installation, and the product's nodes on it.
//!
//! Invariant: the nodes are those that `ticker` and `executor` run, with their defaults but for what a measurement
//! names. Everything lies in one temporary folder and ends with the stage.

use std::time::Duration;

use cronstream_bus::{Bus, ConnectOptions, InitOptions, OutMessage, Raw, RawMessage};
use cronstream_executor::{ExecutorBuilder, TaskContext, TaskError};
use cronstream_scheduler::Options;
use cronstream_schemas::event::{Event as _, LogEvent, Meta};
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::trace::TraceRatio;
use cronstream_server::{Binary, Cluster, Server, ServerConfig, ensure};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::args::{Bench, Setting};
use super::process;
use crate::cluster::Nodes;
use crate::error::Error;
use crate::session::Session;

/// As `init` makes an installation.
pub(super) const PARTITIONS: u8 = 8;
const LEASE_TTL: Duration = Duration::from_secs(5);
/// The queue, the namespace and the task of every measurement.
pub(super) const QUEUE: &str = "bench";
pub(super) const NAMESPACE: &str = "bench";
pub(super) const TASK: &str = "noop";
/// Commands that wait for their acknowledgement.
const COMMANDS_OPEN: usize = 2_000;
/// How often a node or a stream is asked how far it is: it costs them something, and the broker's timestamps tell the
/// time.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a measurement may stand still before it is given up.
const STILL_MAX: Duration = Duration::from_secs(60);

/// Brokers, an installation and connections to it.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) bus: Bus,
    pub(super) raw: Raw,
    pub(super) url: String,
    pub(super) folder: TempDir,
    pub(super) setting: Setting,
    servers: Servers,
}

#[derive(Debug)]
enum Servers {
    One(Box<Server>),
    Three(Cluster),
}

impl Stage {
    /// Starts the brokers and makes an installation.
    pub(super) async fn start(
        session: &Session,
        bench: &Bench,
        setting: Setting,
    ) -> Result<Self, Error> {
        let out = session.out;
        let binary = ensure(&mut |line| out.talk(line)).await?;
        let folder = match &bench.dir {
            Some(dir) => TempDir::with_prefix_in("cronstream-bench-", dir)?,
            None => TempDir::with_prefix("cronstream-bench-")?,
        };
        let (servers, url) = Servers::start(&binary, &folder, setting).await?;
        let bus = connect(&url, "bench").await?;
        let meta = LogEvent::Meta(Meta { partitions: PARTITIONS }).encode();
        let replicas = if setting == Setting::R3 { 3 } else { 1 };
        bus.init(&InitOptions { replicas, lease_ttl: LEASE_TTL, meta }).await?;
        let raw = Raw::connect(&url).await?;
        Ok(Self { bus, raw, url, folder, setting, servers })
    }

    /// Processor seconds that this process and the brokers have used.
    pub(super) fn cpu(&self) -> (f64, f64) {
        let brokers = match &self.servers {
            Servers::One(server) => vec![server.pid()],
            Servers::Three(cluster) => cluster.nodes.iter().map(Server::pid).collect(),
        };
        (process::cpu(std::process::id()), brokers.into_iter().map(process::cpu).sum())
    }

    /// Starts a ticker in this process.
    pub(super) async fn ticker(
        &self,
        ratio: f64,
    ) -> Result<Node<cronstream_scheduler::Error>, Error> {
        let bus = connect(&self.url, "ticker").await?;
        let trace_ratio = TraceRatio::try_from(ratio).map_err(|e| Error::Usage(e.to_string()))?;
        let options = Options { trace_ratio, ..Options::new(name("bench-ticker")) };
        let node = Node::start(|stop| Box::pin(cronstream_scheduler::run(bus, options, stop)));
        self.ticker_ready(&node, 0).await?;
        Ok(node)
    }

    /// Starts an executor in this process.
    pub(super) async fn executor<F, Fut>(
        &self,
        concurrency: u32,
        task: F,
    ) -> Result<Node<cronstream_executor::Error>, Error>
    where
        F: Fn(TaskContext, serde_json::Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), TaskError>> + Send + 'static,
    {
        let bus = connect(&self.url, "executor").await?;
        let executor = ExecutorBuilder::new(bus)
            .queue(QUEUE)
            .node("bench-executor")
            .concurrency(usize::try_from(concurrency).unwrap_or(usize::MAX))
            .drain(Duration::from_millis(100))
            .task(TASK, task);
        Ok(Node::start(|stop| Box::pin(executor.run(stop))))
    }

    /// Waits until a ticker leads everything, has applied every command and holds at least `jobs` definitions.
    pub(super) async fn ticker_ready<E>(&self, node: &Node<E>, jobs: u64) -> Result<(), Error> {
        self.leads_all(jobs, || node.has_ended()).await
    }

    /// Waits until some ticker leads everything, has applied every command and holds at least `jobs` definitions.
    pub(super) async fn leads_all(
        &self,
        jobs: u64,
        has_ended: impl Fn() -> bool,
    ) -> Result<(), Error> {
        let mut progress = (0, Instant::now());
        loop {
            let nodes = Nodes::ask(&self.bus, Duration::from_secs(2)).await?;
            let commands = self.bus.stream_state(&self.bus.names().commands).await?.last_seq;
            let partitions: Vec<_> =
                nodes.tickers.iter().flat_map(|(_, ticker)| &ticker.partitions).collect();
            let done: u64 = partitions.iter().map(|p| p.jobs + p.commands_through).sum();
            let ready = partitions.len() == usize::from(PARTITIONS)
                && partitions.iter().all(|p| p.leading && p.commands_waiting == 0)
                && partitions.iter().map(|p| p.jobs).sum::<u64>() >= jobs
                && partitions.iter().map(|p| p.commands_through).max() >= Some(commands);
            if ready {
                return Ok(());
            }
            if done > progress.0 {
                progress = (done, Instant::now());
            }
            if has_ended() || progress.1.elapsed() > STILL_MAX {
                let text = format!("the ticker stands still at {done} of {jobs} jobs and commands");
                return Err(Error::Measurement(text));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Publishes commands as fast as they are acknowledged.
    pub(super) async fn command(
        &self,
        commands: impl Iterator<Item = (String, String)>,
    ) -> Result<(), Error> {
        let message =
            |(subject, body): (String, String)| RawMessage::new(&OutMessage::new(subject, body));
        let messages = commands.map(message).collect::<Result<Vec<_>, _>>()?;
        self.raw.publish_all(messages, COMMANDS_OPEN).await?;
        Ok(())
    }

    /// Waits until a stream's last sequence has reached `seq`.
    pub(super) async fn reaches(&self, stream: &str, seq: u64) -> Result<(), Error> {
        let mut progress = (0, Instant::now());
        loop {
            let last = self.bus.stream_state(stream).await?.last_seq;
            if last >= seq {
                return Ok(());
            }
            if last > progress.0 {
                progress = (last, Instant::now());
            }
            if progress.1.elapsed() > STILL_MAX {
                let text = format!("{stream} stands still at {last} of {seq}");
                return Err(Error::Measurement(text));
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

impl Servers {
    async fn start(
        binary: &Binary,
        folder: &TempDir,
        setting: Setting,
    ) -> Result<(Self, String), Error> {
        let sync_always = setting != Setting::R1Default;
        let config = ServerConfig { sync_always, ..ServerConfig::new(folder.path().join("nats")) };
        if setting == Setting::R3 {
            let cluster = Cluster::start_with(binary, &config).await?;
            let url = cluster.urls().swap_remove(0);
            return Ok((Self::Three(cluster), url));
        }
        let server = Server::start(binary, config).await?;
        let url = server.url();
        Ok((Self::One(Box::new(server)), url))
    }
}

/// A connection as a node makes it.
pub(super) async fn connect(url: &str, role: &str) -> Result<Bus, Error> {
    let name = format!("cronstream {role}");
    let options = ConnectOptions { servers: vec![url.to_owned()], name, ..Default::default() };
    Ok(Bus::connect(options).await?)
}

pub(super) fn name(text: &str) -> Name {
    Name::parse(text).expect("a legal name")
}

/// The n-th job.
pub(super) fn job(number: u32) -> JobId {
    JobId { namespace: name(NAMESPACE), name: name(&format!("job-{number:07}")) }
}

/// A node of the product in this process.
#[derive(Debug)]
pub(super) struct Node<E> {
    stop: CancellationToken,
    task: JoinHandle<Result<(), E>>,
}

impl<E: Send + 'static> Node<E>
where
    Error: From<E>,
{
    fn start<F>(run: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(stop.clone()));
        Self { stop, task }
    }

    /// Ends it in order.
    pub(super) async fn stop(self) -> Result<(), Error> {
        self.stop.cancel();
        match self.task.await {
            Ok(ended) => Ok(ended?),
            Err(panic) => Err(Error::Measurement(format!("a node has ended: {panic}"))),
        }
    }
}

impl<E> Node<E> {
    fn has_ended(&self) -> bool {
        self.task.is_finished()
    }
}
