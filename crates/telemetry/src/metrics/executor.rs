//! What an executor counts.

use std::sync::Arc;
use std::time::Duration;

use cronstream_schemas::name::Name;
use cronstream_schemas::status::{NodeStatus, Role};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::book::Book;
use super::labels::{ByOutcome, ByQueue, ByTask, Names};
use super::node::{NodeFamilies, SpanFamilies, reach};
use super::page::Page;

/// Seconds from a slot to the start of its task.
pub const START_BUCKETS: [f64; 13] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 60.0, 600.0, 3_600.0];
/// Seconds that a task takes.
const DURATION_BUCKETS: [f64; 14] =
    [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0, 1_800.0, 7_200.0];

type Histograms = Family<ByTask, Histogram, fn() -> Histogram>;

/// An executor's metrics; a cheap handle.
#[derive(Debug, Clone)]
pub struct ExecutorMetrics(Arc<Families>);

#[derive(Debug)]
struct Families {
    page: Page,
    node: NodeFamilies,
    spans: SpanFamilies,
    names: Names,
    executions: Family<ByOutcome, Counter>,
    duration: Histograms,
    delay: Histograms,
    starts: Family<ByQueue, Counter>,
    running: Gauge,
    concurrency: Gauge,
    stale_results: Counter,
    late_results: Counter,
    stale_fires: Counter,
    unknown_tasks: Counter,
}

impl Default for ExecutorMetrics {
    fn default() -> Self {
        let mut book = Book::default();
        let node = NodeFamilies::new(&mut book, "executor");
        let spans = SpanFamilies::new(&mut book);
        let counter = |book: &mut Book, name, help| book.add(name, &[], help, Counter::default());
        let gauge = |book: &mut Book, name, help| book.add(name, &[], help, Gauge::default());
        let families = Families {
            executions: book.add(
                "task_executions",
                &["task_name", "status"],
                "Attempts that ended with a stored event; `status` is its kind: `succeeded`, `attempt_failed` \
                 (another attempt follows), `failed` (for good), `interrupted` (given back)",
                Family::default(),
            ),
            duration: book.add(
                "task_duration_seconds",
                &["task_name"],
                "How long tasks ran, whatever came of them",
                Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS)),
            ),
            delay: book.add(
                "task_schedule_delay_seconds",
                &["task_name"],
                "From the slot, or the trigger, until the first start of a shard was stored",
                Family::new_with_constructor(|| Histogram::new(START_BUCKETS)),
            ),
            starts: book.add(
                "cronstream_starts",
                &["queue"],
                "Attempts begun, first ones and retries",
                Family::default(),
            ),
            running: gauge(&mut book, "cronstream_running", "Fires in hand"),
            concurrency: gauge(&mut book, "cronstream_concurrency", "How many may run at once"),
            stale_results: counter(
                &mut book,
                "cronstream_stale_results",
                "Starts and results that the store refused: another executor or the leader was first",
            ),
            late_results: counter(
                &mut book,
                "cronstream_late_results",
                "Those of them whose run was over its hard end",
            ),
            stale_fires: counter(
                &mut book,
                "cronstream_stale_fires",
                "Fires that were already over when they were delivered",
            ),
            unknown_tasks: counter(
                &mut book,
                "cronstream_unknown_tasks",
                "Deliveries whose task this executor does not know",
            ),
            page: Page::new(book),
            node,
            spans,
            names: Names::default(),
        };
        Self(Arc::new(families))
    }
}

impl ExecutorMetrics {
    /// What is served.
    #[must_use]
    pub fn page(&self) -> Page {
        self.0.page.clone()
    }

    /// Takes the node's report; the loop lives as long as these come.
    pub fn report(&self, status: &NodeStatus) {
        let families = &self.0;
        families.node.report(families.page.health(), status);
        let Role::Executor(executor) = &status.role else { return };
        families.spans.report(executor.spans);
        families.running.set(executor.running.into());
        families.concurrency.set(executor.concurrency.into());
        let counters = &executor.counters;
        let queue = executor.queue.to_string();
        reach(&families.starts.get_or_create(&ByQueue { queue }), counters.started);
        reach(&families.stale_results, counters.refused);
        reach(&families.late_results, counters.late);
        reach(&families.stale_fires, counters.stale);
        reach(&families.unknown_tasks, counters.unknown_task);
    }

    /// A shard was started for the first time, so long after its slot.
    pub fn first_start(&self, task: &Name, delay: Duration) {
        self.0.delay.get_or_create(&self.task(task)).observe(delay.as_secs_f64());
    }

    /// A task has run for so long.
    pub fn ran(&self, task: &Name, took: Duration) {
        self.0.duration.get_or_create(&self.task(task)).observe(took.as_secs_f64());
    }

    /// An attempt's end is stored; `status` is the event's kind.
    pub fn ended(&self, task: &Name, status: &'static str) {
        let ByTask { task_name } = self.task(task);
        self.0.executions.get_or_create(&ByOutcome { task_name, status }).inc();
    }

    fn task(&self, task: &Name) -> ByTask {
        ByTask { task_name: self.0.names.value(task.as_str()) }
    }
}
