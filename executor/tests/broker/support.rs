//! A broker with the streams, fires published by hand, and what executors wrote about them.
//!
//! Every wait has a deadline and says what it waited for.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cronstream_bus::{
    Append, AppendAnswer, Bus, ConnectOptions, FollowEvent, FollowOptions, From, InitOptions,
};
use cronstream_executor::ExecutorBuilder;
use cronstream_schemas::duration::Span;
use cronstream_schemas::event::{Cause, Decoded, Event, Fired, LogEvent, RetryPolicy, RunEvent};
use cronstream_schemas::id::{Epoch, Incarnation, Revision, RunId, RunSeed};
use cronstream_schemas::json::Json;
use cronstream_schemas::subject::{Prefix, RunKey};
use cronstream_schemas::time::Timestamp;
use cronstream_server::{Server, ServerConfig};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Short, so that a crash is noticed soon.
pub(crate) const ACK_WAIT: Duration = Duration::from_secs(2);

pub(crate) struct World {
    pub(crate) bus: Bus,
    pub(crate) server: Server,
    runs: watch::Receiver<Vec<(String, RunEvent)>>,
    _follow: AbortOnDropHandle<()>,
    _folder: tempfile::TempDir,
}

/// An executor that runs in the background.
pub(crate) struct Node {
    stop: CancellationToken,
    run: JoinHandle<Result<(), cronstream_executor::Error>>,
}

impl World {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let binary = cronstream_server::ensure(&mut |line| tracing::info!("{line}")).await.unwrap();
        let server = Server::start(&binary, ServerConfig::new(folder.path())).await.unwrap();
        let bus = connect(&server.url()).await;
        let lease_ttl = Duration::from_secs(5);
        let meta = br#"{"meta":{"partitions":8}}"#.to_vec();
        bus.init(&InitOptions { replicas: 1, lease_ttl, meta }).await.unwrap();
        let options =
            FollowOptions { stream: bus.names().runs.clone(), filter: None, from: From::Oldest };
        let mut follow = bus.follow(options).await.unwrap();
        let (sender, runs) = watch::channel(Vec::new());
        let task = tokio::spawn(async move {
            while let Some(event) = follow.next().await {
                let FollowEvent::Messages(messages) = event else { continue };
                let read = messages.into_iter().filter_map(|message| {
                    match RunEvent::decode(&message.payload).unwrap() {
                        Decoded::Known(event) => Some((message.subject, event)),
                        Decoded::Unknown { .. } => None,
                    }
                });
                sender.send_modify(|runs| runs.extend(read));
            }
        });
        Self { bus, server, runs, _follow: AbortOnDropHandle::new(task), _folder: folder }
    }

    /// An executor of queue `reports` that says it is `node`.
    pub(crate) async fn executor(&self, node: &str) -> ExecutorBuilder {
        let bus = connect(&self.server.url()).await;
        ExecutorBuilder::new(bus).queue("reports").node(node).ack_wait(ACK_WAIT)
    }

    /// Publishes fires, each of a job of its own.
    pub(crate) async fn fire_all(&self, fires: &[Fired]) {
        for group in fires.chunks(500) {
            let appends: Vec<_> = group.iter().map(append).collect();
            let answer = self.bus.append_batch(&appends).await.unwrap();
            assert!(matches!(answer, AppendAnswer::Stored { .. }), "{answer:?}");
        }
    }

    pub(crate) async fn fire(&self, fire: &Fired) {
        let subject = Prefix::default().fire(&fire.queue, &fire.job);
        let last = self.bus.last_from_leader(&self.bus.names().log, &subject).await.unwrap();
        let append = Append { expected_last_seq: last.map_or(0, |last| last.seq), ..append(fire) };
        let answer = self.bus.append(&append).await.unwrap();
        assert!(matches!(answer, AppendAnswer::Stored { .. }), "{answer:?}");
    }

    /// Appends a run event as a leader or another executor would.
    pub(crate) async fn append_run(&self, fire: &Fired, event: &RunEvent) {
        let subject = run_subject(fire);
        let last = self.bus.last_from_leader(&self.bus.names().runs, &subject).await.unwrap();
        let append = Append {
            subject,
            headers: Vec::new(),
            payload: event.encode().into(),
            ttl: None,
            msg_id: None,
            expected_last_seq: last.map_or(0, |last| last.seq),
        };
        let answer = self.bus.append(&append).await.unwrap();
        assert!(matches!(answer, AppendAnswer::Stored { .. }), "{answer:?}");
    }

    /// Waits until the events of all shards satisfy `done`, and gives what it returned.
    pub(crate) async fn wait<T>(
        &self,
        what: &str,
        mut done: impl FnMut(&[(String, RunEvent)]) -> Option<T>,
    ) -> T {
        let mut runs = self.runs.clone();
        let wait = async {
            loop {
                if let Some(value) = done(&runs.borrow_and_update()) {
                    return value;
                }
                runs.changed().await.unwrap();
            }
        };
        let Ok(value) = tokio::time::timeout(PATIENCE, wait).await else {
            panic!("waited in vain for {what}: {:#?}", self.runs.borrow());
        };
        value
    }

    /// The events of one shard, once there are so many.
    pub(crate) async fn events(&self, fire: &Fired, count: usize) -> Vec<RunEvent> {
        let subject = run_subject(fire);
        self.wait(&format!("{count} events of {}", fire.job), |runs| {
            let events: Vec<_> =
                runs.iter().filter(|(s, _)| *s == subject).map(|(_, e)| e.clone()).collect();
            (events.len() >= count).then_some(events)
        })
        .await
    }

    /// `kind fire_no.delivery.attempt` for each event of one shard, once there are so many.
    pub(crate) async fn transcript(&self, fire: &Fired, count: usize) -> Vec<String> {
        self.events(fire, count).await.iter().map(text).collect()
    }

    /// In how many batches so many run events were stored; an event that was not in one counts as one.
    pub(crate) async fn batches(&self, events: u64) -> usize {
        let mut batches = std::collections::HashSet::new();
        for seq in 1..=events {
            let message = self.bus.by_seq(&self.bus.names().runs, seq).await.unwrap().unwrap();
            let batch =
                message.header("Nats-Batch-Id").map_or_else(|| seq.to_string(), str::to_owned);
            batches.insert(batch);
        }
        batches.len()
    }

    /// Waits until the queue has nothing left to deliver or to settle.
    pub(crate) async fn settled(&self) {
        let wait = async {
            loop {
                let state = self.bus.queue_state("reports").await.unwrap().unwrap();
                if state.pending == 0 && state.unsettled == 0 {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("the queue is never settled");
    }

    /// The status of the executor `node`, once `accept` takes it.
    pub(crate) async fn status(
        &self,
        node: &str,
        accept: impl Fn(&serde_json::Value) -> bool,
    ) -> serde_json::Value {
        let wait = async {
            loop {
                for answer in self.bus.discover(Duration::from_secs(2)).await.unwrap() {
                    let status: serde_json::Value =
                        serde_json::from_slice(&answer.payload).unwrap();
                    if status["node"] == node && accept(&status) {
                        return status;
                    }
                }
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("the status is never as it should be")
    }
}

impl Node {
    pub(crate) fn run(builder: ExecutorBuilder) -> Self {
        let stop = CancellationToken::new();
        let run = tokio::spawn(builder.run(stop.clone()));
        Self { stop, run }
    }

    /// Asks it to stop and waits until it has.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.run).await.expect("never stops").unwrap().unwrap();
    }

    pub(crate) fn ask_to_stop(&self) {
        self.stop.cancel();
    }

    /// Ends it as a crash would: nothing more is sent.
    pub(crate) async fn crash(self) {
        self.run.abort();
        assert!(self.run.await.unwrap_err().is_cancelled());
    }
}

pub(crate) async fn connect(url: &str) -> Bus {
    let options = ConnectOptions {
        servers: vec![url.to_owned()],
        name: "executor tests".into(),
        ..ConnectOptions::default()
    };
    Bus::connect(options).await.unwrap()
}

pub(crate) fn now() -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap())
}

/// The first fire of a job, for `task` with `params`.
pub(crate) fn fired(job: &str, task: &str, params: &str) -> Fired {
    let job = format!("billing/{job}").parse().unwrap();
    let now = now();
    let run = RunId::derive(now, &job, Incarnation(1), RunSeed::Slot(now));
    Fired {
        job,
        revision: Revision(1),
        incarnation: Incarnation(1),
        run,
        shard: 0,
        shards: 1,
        fire_no: 1,
        cause: Cause::Slot(now),
        scheduled_at: now,
        fired_at: now,
        queue: "reports".parse().unwrap(),
        task: task.parse().unwrap(),
        params: Json::parse(params).unwrap(),
        timeout: Span::from_secs(120),
        start_by: now.plus(Duration::from_secs(600)),
        run_by: now.plus(Duration::from_secs(1_200)),
        keep_until: now.plus(Duration::from_secs(3_600)),
        retry: RetryPolicy { max_attempts: 3, base: Span::from_secs(1), cap: Span::from_secs(60) },
        epoch: Epoch(1),
        traceparent: run.trace_context("fire.0.1", true).to_string(),
        node: None,
        tzdb: None,
    }
}

pub(crate) fn run_subject(fire: &Fired) -> String {
    let (queue, job) = (fire.queue.clone(), fire.job.clone());
    Prefix::default().run(&RunKey { queue, job, shard: fire.shard_id() })
}

fn append(fire: &Fired) -> Append {
    Append {
        subject: Prefix::default().fire(&fire.queue, &fire.job),
        headers: Vec::new(),
        payload: LogEvent::Fired(fire.clone()).encode().into(),
        ttl: None,
        msg_id: Some(fire.id().to_string()),
        expected_last_seq: 0,
    }
}

pub(crate) fn text(event: &RunEvent) -> String {
    let place = event.place();
    format!("{} {}.{}.{}", event.kind(), place.fire_no, place.delivery, place.attempt)
}
