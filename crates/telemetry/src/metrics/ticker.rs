//! What a ticker counts.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use cronstream_schemas::event::SkipReason;
use cronstream_schemas::id::Partition;
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::status::{NodeStatus, PartitionStatus, Role};
use cronstream_schemas::time::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::book::Book;
use super::labels::{ByPartition, ByQueue, BySkip, Later, Names};
use super::node::{NodeFamilies, SpanFamilies};
use super::page::Page;

/// Seconds from a batch's planning to its fate.
const BATCH_BUCKETS: [f64; 12] =
    [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// The label of every partition's family.
const PARTITION: &[&str] = &["partition"];

type Seconds = Gauge<f64, AtomicU64>;

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchEnd {
    /// The log has it.
    Stored,
    /// Another leader had moved the cursor.
    Refused,
}

/// A ticker's metrics; a cheap handle.
#[derive(Debug, Clone)]
pub struct TickerMetrics(Arc<Families>);

#[derive(Debug)]
struct Families {
    page: Page,
    node: NodeFamilies,
    spans: SpanFamilies,
    names: Names,
    dead: Later<Gauge>,
    clock: Later<Seconds>,
    hold: Gauge,
    fires: Family<ByQueue, Counter>,
    skips: Family<BySkip, Counter>,
    jobs: Names,
    batch_seconds: Histogram,
    partitions: PartitionFamilies,
}

#[derive(Debug)]
struct PartitionFamilies {
    refused: Family<ByPartition, Counter>,
    leader: Family<ByPartition, Gauge>,
    stopped: Family<ByPartition, Gauge>,
    epoch: Family<ByPartition, Gauge>,
    cursor_lag: Family<ByPartition, Seconds>,
    command_lag: Family<ByPartition, Gauge>,
    jobs: Family<ByPartition, Gauge>,
    live_runs: Family<ByPartition, Gauge>,
}

impl Default for TickerMetrics {
    fn default() -> Self {
        let mut book = Book::default();
        let node = NodeFamilies::new(&mut book, "ticker");
        let spans = SpanFamilies::new(&mut book);
        let dead = book.add(
            "task_dead_letter_size",
            &[],
            "Shards in CRON_DEAD: they failed for good and nobody has looked after them. Every ticker tells \
             of all of them",
            Family::default(),
        );
        let clock = book.add(
            "cronstream_clock_ahead_seconds",
            &[],
            "How far this machine's clock is ahead of the broker's",
            Family::default(),
        );
        let hold = book.add(
            "cronstream_hold",
            &[],
            "1 while the ticker fires nothing because of --hold",
            Gauge::default(),
        );
        let fires = book.add(
            "cronstream_fires",
            &["queue"],
            "Orders to run a shard that this ticker has stored, first ones and retries",
            Family::default(),
        );
        let skips = book.add(
            "cronstream_skipped_slots",
            &["job_name", "reason"],
            "Slots that did not fire, as decided by this ticker: misfire, overlap, paused, deleted, requested, job_backlog, partition_backlog",
            Family::default(),
        );
        let batch_seconds = book.add(
            "cronstream_batch_duration_seconds",
            &[],
            "From a batch's planning until the broker had stored it, tries included",
            Histogram::new(BATCH_BUCKETS),
        );
        let partitions = PartitionFamilies::new(&mut book);
        let page = Page::new(book);
        let names = Names::default();
        Self(Arc::new(Families {
            page,
            node,
            spans,
            names,
            dead,
            clock,
            hold,
            fires,
            skips,
            jobs: Names::default(),
            batch_seconds,
            partitions,
        }))
    }
}

impl TickerMetrics {
    /// What is served.
    #[must_use]
    pub fn page(&self) -> Page {
        self.0.page.clone()
    }

    /// Takes the node's report, made at `now`; the loop lives as long as these come.
    pub fn report(&self, status: &NodeStatus, now: Timestamp) {
        self.0.node.report(self.0.page.health(), status);
        let Role::Ticker(ticker) = &status.role else { return };
        self.0.spans.report(ticker.spans);
        self.0.hold.set(ticker.hold.into());
        if let Some(millis) = ticker.clock_ahead_ms {
            let ahead = Duration::from_millis(millis.unsigned_abs()).as_secs_f64() * sign(millis);
            self.0.clock.get_or_create(&Vec::new()).set(ahead);
        }
        for partition in &ticker.partitions {
            self.0.partitions.report(partition, now);
        }
    }

    /// Counts orders of a queue that are stored.
    pub fn fired(&self, queue: &Name, count: u64) {
        let queue = self.0.names.value(queue.as_str());
        self.0.fires.get_or_create(&ByQueue { queue }).inc_by(count);
    }

    /// Counts slots of a job that do not fire.
    pub fn skipped(&self, job: &JobId, reason: SkipReason, count: u64) {
        let job_name = self.0.jobs.value(&job.to_string());
        let label = BySkip { job_name, reason: reason.as_str() };
        self.0.skips.get_or_create(&label).inc_by(count);
    }

    /// Counts a batch whose fate is certain.
    pub fn batch(&self, partition: Partition, end: BatchEnd, took: Duration) {
        match end {
            BatchEnd::Stored => self.0.batch_seconds.observe(took.as_secs_f64()),
            BatchEnd::Refused => {
                let label = ByPartition { partition: partition.0 };
                self.0.partitions.refused.get_or_create(&label).inc();
            }
        }
    }

    /// Tells how many dead letters there are.
    pub fn dead_letters(&self, count: u64) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.0.dead.get_or_create(&Vec::new()).set(count);
    }
}

const fn sign(millis: i64) -> f64 {
    if millis < 0 { -1.0 } else { 1.0 }
}

impl PartitionFamilies {
    fn new(book: &mut Book) -> Self {
        Self {
            leader: book.add(
                "cronstream_leader",
                PARTITION,
                "1 on the ticker that leads the partition, 0 on the others",
                Family::default(),
            ),
            stopped: book.add(
                "cronstream_partition_stopped",
                PARTITION,
                "1 where this ticker refuses to lead the partition; `cronstream status` says why",
                Family::default(),
            ),
            epoch: book.add(
                "cronstream_epoch",
                PARTITION,
                "The leader's term: rises by one with every takeover",
                Family::default(),
            ),
            cursor_lag: book.add(
                "cronstream_cursor_lag_seconds",
                PARTITION,
                "How far the leader is behind with deciding what is due; told by the leader",
                Family::default(),
            ),
            command_lag: book.add(
                "cronstream_command_lag",
                PARTITION,
                "Commands that are read and not yet applied; told by the leader",
                Family::default(),
            ),
            refused: book.add(
                "cronstream_batches_refused",
                PARTITION,
                "Batches that were refused because another leader had moved the cursor",
                Family::default(),
            ),
            jobs: book.add(
                "cronstream_jobs",
                PARTITION,
                "Jobs that are defined; told by the leader",
                Family::default(),
            ),
            live_runs: book.add(
                "cronstream_live_runs",
                PARTITION,
                "Shards that are ordered and have no result; told by the leader",
                Family::default(),
            ),
        }
    }

    fn report(&self, status: &PartitionStatus, now: Timestamp) {
        let label = ByPartition { partition: status.partition.0 };
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.leader.get_or_create(&label).set(status.leading.into());
        self.stopped.get_or_create(&label).set(status.stopped.is_some().into());
        self.epoch.get_or_create(&label).set(whole(status.epoch.0));
        if status.leading {
            let lag = now.since(status.decided_through).as_secs_f64();
            self.cursor_lag.get_or_create(&label).set(lag);
            self.command_lag.get_or_create(&label).set(whole(status.commands_waiting));
            self.jobs.get_or_create(&label).set(whole(status.jobs));
            self.live_runs.get_or_create(&label).set(whole(status.live_runs));
        } else {
            self.cursor_lag.remove(&label);
            for family in [&self.command_lag, &self.jobs, &self.live_runs] {
                family.remove(&label);
            }
        }
    }
}
