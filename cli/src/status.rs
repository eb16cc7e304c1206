//! `status`: partitions with their leaders, tickers, executors and queues.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cronstream_bus::{Bus, Error as BusError};
use cronstream_schemas::event::Cursor;
use cronstream_schemas::id::{Epoch, Partition, Tick};
use cronstream_schemas::name::Name;
use cronstream_schemas::status::{ExecutorStatus, NodeStatus, RelayStatus, TickerStatus};
use cronstream_schemas::time::Timestamp;
use serde::Serialize;
use tokio::time::timeout;

use crate::cluster::{Nodes, cursors, partitions};
use crate::error::Error;
use crate::jobs;
use crate::output::{distance, table};
use crate::session::Session;

#[derive(Debug, Serialize)]
struct Status {
    prefix: String,
    server: Server,
    at: Timestamp,
    partitions: Vec<Share>,
    tickers: Vec<NodeStatus>,
    executors: Vec<NodeStatus>,
    queues: Vec<Queue>,
    relays: Vec<NodeStatus>,
    #[serde(skip)]
    nodes: Nodes,
}

#[derive(Debug, Serialize)]
struct Server {
    name: String,
    version: String,
}

/// A partition, from its leader's own words, else from its last cursor.
#[derive(Debug, Serialize)]
struct Share {
    partition: Partition,
    /// The node that says it leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<Name>,
    /// The node that wrote the last cursor.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_node: Option<Name>,
    epoch: Epoch,
    tick: Tick,
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_through: Option<Timestamp>,
    commands_through: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    commands_waiting: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    live_runs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
}

/// A queue that an executor serves, a job names, or fires wait on.
#[derive(Debug, Serialize)]
struct Queue {
    queue: Name,
    executors: usize,
    /// Jobs whose definition in force names it.
    jobs: u64,
    /// Fires that wait.
    waiting: u64,
    /// Fires that are delivered and not settled.
    unsettled: u64,
}

pub(crate) async fn status(session: &Session) -> Result<(), Error> {
    let bus = session.bus().await?;
    let status = Status::gather(session, &bus).await?;
    session.out.object(&status, || status.describe())?;
    Ok(())
}

/// A reading that is over in time; a log that does not answer by then has no leader.
async fn in_time<T>(
    bus: &Bus,
    within: Duration,
    reading: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let gone = || BusError::Unavailable { what: format!("stream {}", bus.names().log) };
    match timeout(within, reading).await {
        Err(_) | Ok(Err(Error::Bus(BusError::Unavailable { .. } | BusError::TimedOut { .. }))) => {
            Err(gone().into())
        }
        Ok(done) => done,
    }
}

/// Every queue that an executor serves, a job names, or that has a consumer or fires.
async fn queues(bus: &Bus, nodes: &Nodes) -> Result<Vec<Queue>, Error> {
    let mut jobs: BTreeMap<Name, u64> = BTreeMap::new();
    jobs::for_each(bus, None, |state| {
        if let Some(definition) = state.definition {
            *jobs.entry(definition.queue.clone()).or_default() += 1;
        }
    })
    .await?;
    let fires = fires(bus).await?;
    let mut names: BTreeSet<&Name> = nodes.executors.iter().map(|(_, e)| &e.queue).collect();
    names.extend(jobs.keys().chain(fires.keys()));
    let mut queues = Vec::with_capacity(names.len());
    for name in names {
        let state = bus.queue_state(name.as_str()).await?;
        // Before a queue's first executor there is no consumer: all its fires wait.
        let stored = || fires.get(name).copied().unwrap_or_default();
        queues.push(Queue {
            queue: name.clone(),
            executors: nodes.executors.iter().filter(|(_, e)| e.queue == *name).count(),
            jobs: jobs.get(name).copied().unwrap_or_default(),
            waiting: state.map_or_else(stored, |state| state.pending),
            unsettled: state.map_or(0, |state| state.unsettled),
        });
    }
    Ok(queues)
}

/// How many fires are kept on each queue.
async fn fires(bus: &Bus) -> Result<BTreeMap<Name, u64>, Error> {
    let mut fires = BTreeMap::new();
    let root = format!("{}.fire.", bus.names().prefix());
    let count = |subject: &str, count: u64| {
        let queue = subject.strip_prefix(&root).and_then(|rest| rest.split('.').next());
        if let Some(Ok(queue)) = queue.map(Name::parse) {
            *fires.entry(queue).or_default() += count;
        }
    };
    bus.subjects(&bus.names().log, &format!("{root}>"), count).await?;
    Ok(fires)
}

impl Share {
    fn new(partition: Partition, cursor: Option<&Cursor>, nodes: &Nodes) -> Self {
        let last_node = cursor.map(|cursor| cursor.node.clone());
        let stopped = nodes.tickers.iter().flat_map(|(_, ticker)| &ticker.partitions);
        let stopped = stopped.filter(|p| p.partition == partition).find_map(|p| p.stopped.clone());
        match nodes.leader(partition) {
            Some((node, told)) => Self {
                partition,
                leader: Some(node.node.clone()),
                last_node,
                epoch: told.epoch,
                tick: told.tick,
                decided_through: Some(told.decided_through),
                commands_through: told.commands_through,
                commands_waiting: Some(told.commands_waiting),
                jobs: Some(told.jobs),
                live_runs: Some(told.live_runs),
                stopped,
            },
            None => Self {
                partition,
                leader: None,
                last_node,
                epoch: cursor.map(|cursor| cursor.epoch).unwrap_or_default(),
                tick: cursor.map(|cursor| cursor.tick).unwrap_or_default(),
                decided_through: cursor.map(|cursor| cursor.position.due),
                commands_through: cursor.map_or(0, |cursor| cursor.commands_through),
                commands_waiting: None,
                jobs: None,
                live_runs: None,
                stopped,
            },
        }
    }

    fn cells(&self, now: Timestamp) -> [String; 9] {
        let number = |number: Option<u64>| number.map(|n| n.to_string()).unwrap_or_default();
        // A leader that has written nothing yet has decided nothing.
        let decided = self.decided_through.filter(|at| *at > Timestamp::MIN);
        let leader = match (&self.leader, &self.last_node) {
            (Some(leader), _) => leader.to_string(),
            (None, Some(last)) => format!("none (last {last})"),
            (None, None) => "none (never led)".into(),
        };
        [
            self.partition.0.to_string(),
            leader,
            self.epoch.0.to_string(),
            self.tick.0.to_string(),
            decided.map(|at| distance(at, now)).unwrap_or_default(),
            number(self.commands_waiting),
            number(self.jobs),
            number(self.live_runs),
            self.stopped.clone().unwrap_or_default(),
        ]
    }
}

fn ready(node: &NodeStatus) -> String {
    if node.not_ready.is_empty() { "yes".into() } else { node.not_ready.join("; ") }
}

impl Status {
    async fn gather(session: &Session, bus: &Bus) -> Result<Self, Error> {
        let log = async { Ok((partitions(bus).await?, cursors(bus).await?)) };
        let (count, cursors) = in_time(bus, session.timeout, log).await?;
        let nodes = Nodes::ask(bus, session.timeout).await?;
        let queues = in_time(bus, session.timeout, queues(bus, &nodes)).await?;
        let share = |number| Share::new(Partition(number), cursors.get(&number), &nodes);
        Ok(Self {
            prefix: bus.names().prefix().to_string(),
            server: Server { name: bus.server_name(), version: bus.server_version() },
            at: jobs::now(),
            partitions: (0..count).map(share).collect(),
            tickers: nodes.tickers.iter().map(|(node, _)| node.clone()).collect(),
            executors: nodes.executors.iter().map(|(node, _)| node.clone()).collect(),
            queues,
            relays: nodes.relays.iter().map(|(node, _)| node.clone()).collect(),
            nodes,
        })
    }

    fn describe(&self) -> String {
        let Server { name, version } = &self.server;
        let mut parts =
            vec![format!("installation {} on {name} (nats-server {version})", self.prefix)];
        let header = [
            "PARTITION",
            "LEADER",
            "EPOCH",
            "TICK",
            "DECIDED",
            "COMMANDS WAITING",
            "JOBS",
            "LIVE RUNS",
            "STOPPED",
        ];
        parts.push(table(header, self.partitions.iter().map(|share| share.cells(self.at))));
        parts.push(self.describe_tickers());
        parts.push(self.describe_executors());
        let queues = self.queues.iter().map(|q| {
            [
                q.queue.to_string(),
                q.executors.to_string(),
                q.jobs.to_string(),
                q.waiting.to_string(),
                q.unsettled.to_string(),
            ]
        });
        if !self.queues.is_empty() {
            parts.push(table(["QUEUE", "EXECUTORS", "JOBS", "WAITING", "UNSETTLED"], queues));
        }
        if !self.relays.is_empty() {
            parts.push(self.describe_relays());
        }
        parts.join("\n\n")
    }

    fn describe_relays(&self) -> String {
        let row = |(node, relay): &(NodeStatus, RelayStatus)| {
            [
                node.node.to_string(),
                node.version.clone(),
                ready(node),
                relay.collector.clone(),
                relay.waiting.map(|n| n.to_string()).unwrap_or_default(),
                relay.counters.spans.to_string(),
                (relay.counters.rejected_spans).to_string(),
                relay.counters.dropped_batches.to_string(),
            ]
        };
        let header = [
            "RELAY",
            "VERSION",
            "READY",
            "COLLECTOR",
            "WAITING",
            "SPANS",
            "REJECTED",
            "DROPPED BATCHES",
        ];
        table(header, self.nodes.relays.iter().map(row))
    }

    fn describe_tickers(&self) -> String {
        if self.nodes.tickers.is_empty() {
            return "no ticker answers".into();
        }
        let row = |(node, ticker): &(NodeStatus, TickerStatus)| {
            let leads = ticker.partitions.iter().filter(|p| p.leading).count();
            // What another leads is known here by its last cursor alone.
            let decided = ticker.partitions.iter().filter(|p| p.leading);
            let decided = decided.map(|p| p.decided_through);
            let decided = decided.filter(|at| *at > Timestamp::MIN).min();
            [
                node.node.to_string(),
                node.version.clone(),
                ready(node),
                leads.to_string(),
                if ticker.hold { "yes" } else { "no" }.to_owned(),
                ticker.clock_ahead_ms.map(|ms| format!("{ms}ms")).unwrap_or_default(),
                decided.map(|at| distance(at, self.at)).unwrap_or_default(),
            ]
        };
        let header = ["TICKER", "VERSION", "READY", "LEADS", "HOLD", "CLOCK AHEAD", "DECIDED"];
        table(header, self.nodes.tickers.iter().map(row))
    }

    fn describe_executors(&self) -> String {
        if self.nodes.executors.is_empty() {
            return "no executor answers".into();
        }
        let row = |(node, executor): &(NodeStatus, ExecutorStatus)| {
            let ExecutorStatus { queue, concurrency, running, draining, counters, .. } = executor;
            [
                node.node.to_string(),
                queue.to_string(),
                node.version.clone(),
                if *draining { "draining".to_owned() } else { ready(node) },
                format!("{running}/{concurrency}"),
                counters.succeeded.to_string(),
                counters.failed.to_string(),
                counters.refused.to_string(),
                counters.stale.to_string(),
                counters.late.to_string(),
                counters.unknown_task.to_string(),
            ]
        };
        let header = [
            "EXECUTOR",
            "QUEUE",
            "VERSION",
            "READY",
            "RUNNING",
            "SUCCEEDED",
            "FAILED",
            "REFUSED",
            "STALE",
            "LATE",
            "UNKNOWN TASK",
        ];
        table(header, self.nodes.executors.iter().map(row))
    }
}
