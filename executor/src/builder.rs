//! Building and running an executor.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cronstream_bus::{Bus, ConnectOptions, Queue, ServiceInfo};
use cronstream_schemas::event::Executor as Identity;
use cronstream_schemas::id::Instance;
use cronstream_schemas::name::Name;
use cronstream_telemetry::metrics::ExecutorMetrics;
use cronstream_telemetry::{Publisher, Service, SpansReceiver, TaskSpans};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::attempt::Shared;
use crate::backoff::Backoff;
use crate::error::Error;
use crate::handlers::Handler;
use crate::handlers::function::Function;
use crate::state::{State, Trouble};
use crate::store::Store;
use crate::task::{TaskContext, TaskError};
use crate::tasks_file;
use crate::worker::Worker;

/// The most attempts at once.
pub const CONCURRENCY_MAX: usize = 10_000;
/// The role under which an executor answers to `status`.
const ROLE: &str = "executor";
/// An attempt beats at least this often, so that a cancel reaches it within 10 s.
const BEAT_MAX: Duration = Duration::from_secs(8);
/// Between two tries to make the queue's durable.
const ENSURE_RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// How often the metrics take the executor's report.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// An executor: it runs tasks for one queue.
///
/// ```no_run
/// use cronstream_executor::{ConnectOptions, Executor, TaskContext, TaskError};
/// use tokio_util::sync::CancellationToken;
///
/// #[derive(serde::Deserialize)]
/// struct Report { customer: String }
///
/// # async fn example() -> Result<(), cronstream_executor::Error> {
/// let options = ConnectOptions { servers: vec!["nats://127.0.0.1:4222".into()], ..Default::default() };
/// Executor::connect(options)
///     .await?
///     .queue("reports")
///     .task("report", async |context: TaskContext, report: Report| {
///         let pages = report.customer.len();
///         Ok::<_, TaskError>(format!("{pages} pages, attempt {}", context.attempt))
///     })
///     .run(CancellationToken::new())
///     .await
/// # }
/// ```
#[derive(Debug)]
pub struct Executor {
    bus: Bus,
    state: Arc<State>,
    tasks: BTreeMap<Name, Handler>,
    concurrency: usize,
    drain: Duration,
    ack_wait: Duration,
    receiver: SpansReceiver,
    metrics: ExecutorMetrics,
}

/// What an executor is made of. Faults are told by [`ExecutorBuilder::build`].
#[derive(Debug)]
pub struct ExecutorBuilder {
    bus: Bus,
    queue: String,
    node: Option<String>,
    concurrency: usize,
    drain: Duration,
    ack_wait: Duration,
    functions: Vec<(String, Function)>,
    tasks_files: Vec<PathBuf>,
    task_spans: TaskSpans,
    metrics: ExecutorMetrics,
}

impl Executor {
    /// Connects to the broker.
    ///
    /// # Errors
    /// When no server accepts.
    pub async fn connect(options: ConnectOptions) -> Result<ExecutorBuilder, Error> {
        Ok(ExecutorBuilder::new(Bus::connect(options).await?))
    }

    /// Runs tasks until `stop` is cancelled; then takes nothing new, lets what runs finish within the drain
    /// time, and gives the rest back. A broker that goes away is waited for.
    ///
    /// # Errors
    /// When the streams are not there or the user may not pull from the queue.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        let (state, metrics) = (Arc::clone(&self.state), self.metrics.clone());
        // In one task with the loop: when that hangs, the reports end.
        tokio::select! {
            ended = Box::pin(self.serve(stop)) => ended,
            never = reports(&state, &metrics) => match never {},
        }
    }

    async fn serve(self, stop: CancellationToken) -> Result<(), Error> {
        let state = &self.state;
        let serving = self.bus.serve(self.service_info(), {
            let state = Arc::clone(state);
            move || state.report()
        });
        let serving = serving.await?;
        self.compare_ack_wait().await;
        let Some(queue) = self.ensure_queue(&stop).await? else { return Ok(()) };
        let service = Service::Executor { instance: state.me.instance };
        let publisher =
            Publisher::start(self.bus.clone(), service, state.spans.clone(), self.receiver);
        let give_up = CancellationToken::new();
        let shared = Shared {
            state: Arc::clone(state),
            store: Store::new(self.bus.clone(), Arc::clone(state), give_up.clone()),
            prefix: self.bus.names().prefix().clone(),
            spans: state.spans.clone(),
            metrics: self.metrics,
            ack_wait: self.ack_wait,
            beat: (self.ack_wait / 3).min(BEAT_MAX),
            hand_back: CancellationToken::new(),
        };
        let worker = Worker {
            queue,
            tasks: self.tasks,
            concurrency: self.concurrency,
            drain: self.drain,
            shared: Arc::new(shared),
            give_up,
        };
        tracing::info!(node = %state.me.node, queue = %state.queue, "executor is ready");
        worker.run(&stop).await;
        publisher.stop().await;
        if let Err(error) = self.bus.flush().await {
            tracing::warn!(%error, "the last acknowledgements may be lost");
        }
        serving.stop().await;
        Ok(())
    }

    /// Says so when the queue's other executors have another ack wait: the last one started sets it for all.
    async fn compare_ack_wait(&self) {
        let (queue, wanted) = (&self.state.queue, self.ack_wait);
        match self.bus.queue_ack_wait(queue.as_str()).await {
            Ok(Some(found)) if found != wanted => tracing::warn!(
                %queue, found = ?found, now = ?wanted,
                "the queue has had another ack wait; it is one for all its executors, and is set anew"
            ),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "ack wait not read"),
        }
    }

    /// Makes the queue's durable; `None` when it is time to stop before that worked.
    async fn ensure_queue(&self, stop: &CancellationToken) -> Result<Option<Queue>, Error> {
        use cronstream_bus::Error as Bus;
        let mut backoff = Backoff::new(ENSURE_RETRY.0, ENSURE_RETRY.1);
        loop {
            let error = match self.bus.ensure_queue(self.state.queue.as_str(), self.ack_wait).await
            {
                Ok(queue) => return Ok(Some(queue)),
                Err(error @ (Bus::Unavailable { .. } | Bus::TimedOut { .. })) => error,
                Err(error) => return Err(error.into()),
            };
            tracing::warn!(%error, "the queue's consumer is not there yet");
            self.state.trouble(Trouble::Pull, Some(format!("cannot pull fires: {error}")));
            tokio::select! {
                () = stop.cancelled() => return Ok(None),
                () = tokio::time::sleep(backoff.delay()) => {}
            }
        }
    }

    fn service_info(&self) -> ServiceInfo {
        let tasks: Vec<_> = self.state.tasks.iter().map(Name::as_str).collect();
        let metadata = HashMap::from([
            ("node".to_owned(), self.state.me.node.to_string()),
            ("instance".to_owned(), self.state.me.instance.to_string()),
            ("queue".to_owned(), self.state.queue.to_string()),
            ("tasks".to_owned(), tasks.join(" ")),
        ]);
        ServiceInfo { role: ROLE.into(), version: env!("CARGO_PKG_VERSION").into(), metadata }
    }
}

impl ExecutorBuilder {
    /// An executor on a connection that is there.
    #[must_use]
    pub fn new(bus: Bus) -> Self {
        Self {
            bus,
            queue: "default".into(),
            node: None,
            concurrency: 16,
            drain: Duration::from_secs(30),
            ack_wait: Duration::from_secs(30),
            functions: Vec::new(),
            tasks_files: Vec::new(),
            task_spans: TaskSpans::default(),
            metrics: ExecutorMetrics::default(),
        }
    }

    /// The queue. Default `default`.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = queue.into();
        self
    }

    /// The node's name. Default `executor-` and the first digits of the instance's id.
    #[must_use]
    pub fn node(mut self, node: impl Into<String>) -> Self {
        self.node = Some(node.into());
        self
    }

    /// How many attempts run at once, 1–10,000. Default 16.
    #[must_use]
    pub const fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// How long running attempts may go on after a stop before they are given back. Default 30 s.
    #[must_use]
    pub const fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// How long the broker waits for a sign of life before it delivers a fire again, at least 1 s. Default
    /// 30 s. It is a setting of the queue's durable: all executors of a queue should say the same.
    #[must_use]
    pub fn ack_wait(mut self, ack_wait: Duration) -> Self {
        self.ack_wait = ack_wait.max(Duration::from_secs(1));
        self
    }

    /// Registers a function. Params and result are converted by serde; use
    /// [`Json`](cronstream_schemas::json::Json) to pass them bit for bit.
    #[must_use]
    pub fn task<F, P, R, Fut>(mut self, name: impl Into<String>, function: F) -> Self
    where
        F: Fn(TaskContext, P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, TaskError>> + Send + 'static,
        P: DeserializeOwned + 'static,
        R: Serialize + 'static,
    {
        self.functions.push((name.into(), Function::new(function)));
        self
    }

    /// Publishes the spans that functions make with `tracing`, below the spans of their attempts. Its
    /// [layer](TaskSpans::layer) belongs into the program's subscriber.
    #[must_use]
    pub fn task_spans(mut self, spans: TaskSpans) -> Self {
        self.task_spans = spans;
        self
    }

    /// Counts in these metrics, which the program serves. Default metrics that nobody sees.
    #[must_use]
    pub fn metrics(mut self, metrics: ExecutorMetrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Registers the tasks of a file; `docs/reference/tasks-file.md` describes it.
    #[must_use]
    pub fn tasks_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tasks_files.push(path.into());
        self
    }

    /// Checks what was said and makes the executor.
    ///
    /// # Errors
    /// When a name is not legal, a number is out of range, a task is registered twice or not at all, or a tasks
    /// file cannot be used.
    pub fn build(self) -> Result<Executor, Error> {
        let instance = Instance(Uuid::new_v4());
        let node = self
            .node
            .unwrap_or_else(|| format!("executor-{}", &instance.0.simple().to_string()[..8]));
        let me = Identity { node: name("node", &node)?, instance };
        let queue = name("queue", &self.queue)?;
        if !(1..=CONCURRENCY_MAX).contains(&self.concurrency) {
            return Err(Error::Concurrency { value: self.concurrency, max: CONCURRENCY_MAX });
        }
        let mut tasks = BTreeMap::new();
        let mut add = |name: Name, handler| match tasks.insert(name.clone(), handler) {
            None => Ok(()),
            Some(_) => Err(Error::TaskTwice(name)),
        };
        for (task, function) in self.functions {
            add(name("task", &task)?, Handler::Function(function))?;
        }
        for path in &self.tasks_files {
            for (name, task) in tasks_file::read(path, self.bus.names().prefix())? {
                add(name, task.on(&self.bus))?;
            }
        }
        if tasks.is_empty() {
            return Err(Error::NoTasks(queue));
        }
        let concurrency = u32::try_from(self.concurrency).expect("checked above");
        let (spans, receiver) = self.task_spans.into_channel();
        let names = tasks.keys().cloned().collect();
        let state = State::new(me, queue, names, concurrency, spans);
        Ok(Executor {
            bus: self.bus,
            state: Arc::new(state),
            tasks,
            concurrency: self.concurrency,
            drain: self.drain,
            ack_wait: self.ack_wait,
            receiver,
            metrics: self.metrics,
        })
    }

    /// [`ExecutorBuilder::build`], then [`Executor::run`].
    ///
    /// # Errors
    /// What either of them says.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        self.build()?.run(stop).await
    }
}

async fn reports(state: &State, metrics: &ExecutorMetrics) -> Infallible {
    let mut due = tokio::time::interval(REPORT_EVERY);
    loop {
        due.tick().await;
        metrics.report(&state.status());
    }
}

fn name(what: &'static str, value: &str) -> Result<Name, Error> {
    Name::parse(value).map_err(|source| Error::Name {
        what,
        value: value.chars().take(64).collect(),
        source,
    })
}
