//! `bench run`: runs that do nothing, from the pull of the fire to the stored result, by one executor.
//!
//! ```text
//!   ours: triggers ─► ticker ─► N fires that wait ─► executor (the ticker folds meanwhile)
//!   raw:  the same N messages in a stream ─► pull ─► 2 publishes ─► ack, by the fastest of the ways tried
//! ```
//!
//! Invariant: raw stores events as large as ours with the same headers, each run's second event after its first.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cronstream_bus::{RawMessage, RawStored};
use cronstream_schemas::command::Verb;
use tokio::time::Instant;

use super::args::{Bench, Setting};
use super::figures::{Pair, Row, Target};
use super::stage::{QUEUE, Stage, TASK, job};
use super::start;
use crate::error::Error;
use crate::session::Session;

/// Jobs that the runs are of: enough for every partition to have some.
const JOBS: u32 = 64;
/// Raw streams: the fires, and the events of runs.
const RAW_LOG: &str = "RAW_LOG";
const RAW_RUNS: &str = "RAW_RUNS";
const PREFIX: &str = "raw";
/// The ways of raw that are tried.
const WAYS: [Way; 8] = [
    Way { store: Store::Batch, size: 250, pipelines: 1 },
    Way { store: Store::Batch, size: 250, pipelines: 4 },
    Way { store: Store::Batch, size: 500, pipelines: 2 },
    Way { store: Store::Batch, size: 1_000, pipelines: 1 },
    Way { store: Store::Batch, size: 1_000, pipelines: 3 },
    Way { store: Store::Window, size: 500, pipelines: 2 },
    Way { store: Store::Window, size: 1_000, pipelines: 1 },
    Way { store: Store::Window, size: 1_000, pipelines: 4 },
];
/// The share of a round's runs that each way is tried with.
const TRIAL: u32 = 4;

/// How raw does a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    store: Store,
    /// Fires of a pull, and events of a batch or window.
    size: usize,
    /// How many of them are under way at once.
    pipelines: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    /// One atomic batch.
    Batch,
    /// Single messages, all of them unanswered at once.
    Window,
}

pub(super) async fn run(session: &Session, bench: &Bench) -> Result<Vec<Row>, Error> {
    let every = [Setting::R1Always, Setting::R1Default, Setting::R3];
    let asked = every.iter().filter(|one| bench.setting.is_empty() || bench.setting.contains(one));
    let mut rows = Vec::new();
    let mut latency = None;
    for &setting in asked {
        rows.extend(throughput(session, bench, setting).await?);
        if latency.is_none() {
            let stage = stage(session, bench, setting).await?;
            latency = Some(start::latency(session, bench, &stage).await?);
        }
    }
    rows.extend(latency);
    Ok(rows)
}

/// Brokers of their own, with the jobs defined.
async fn stage(session: &Session, bench: &Bench, setting: Setting) -> Result<Stage, Error> {
    let stage = Stage::start(session, bench, setting).await?;
    define(&stage).await?;
    Ok(stage)
}

/// Rounds of ours without traces, raw, ours with traces. A broker gets slower by what it has stored, so that ours has
/// a new one each time; raw has its own streams beside what it repeats.
async fn throughput(session: &Session, bench: &Bench, setting: Setting) -> Result<Vec<Row>, Error> {
    let mut way = None;
    let (mut plain, mut traced) = (Vec::new(), Vec::new());
    for round in 1..=bench.rounds {
        let first = stage(session, bench, setting).await?;
        let (ours, sample) = ours((session, &first), bench, 0.0).await?;
        let mut raw = RawSide::new(&first, bench.runs, way).await?;
        let beside = raw.round((session, &first), &sample).await?;
        way = raw.way;
        drop(first);
        let second = stage(session, bench, setting).await?;
        let (with_traces, _) = self::ours((session, &second), bench, 1.0).await?;
        session.out.talk(&format!(
            "run on {}, round {round}: raw {beside:.0}/s by {way:?}, ours {ours:.0}/s, with traces {with_traces:.0}/s",
            setting.label()
        ));
        plain.push(Pair { raw: beside, ours });
        // What is compared here is the product without traces.
        traced.push(Pair { raw: ours, ours: with_traces });
    }
    let label = setting.label();
    let what = ("no-op runs, one executor", label, "runs/s");
    let with = ("no-op runs, every run traced (raw: not traced)", label, "runs/s");
    Ok(vec![
        Row::of_pairs(what, &plain, Target::RatioAtLeast(0.5)),
        Row::of_pairs(with, &traced, Target::RatioAtLeast(0.85)),
    ])
}

/// Defines the jobs that are triggered.
async fn define(stage: &Stage) -> Result<(), Error> {
    let ticker = stage.ticker(0.0).await?;
    let prefix = stage.bus.names().prefix().clone();
    let body = serde_json::json!({
        "task": TASK, "queue": QUEUE, "schedule": { "cron": "0 0 29 2 *" }, "overlap": "allow",
        "params": { "number": 1 },
    });
    let body = body.to_string();
    let command = |number| (prefix.command(Verb::Define, &job(number)), body.clone());
    stage.command((0..JOBS).map(command)).await?;
    stage.ticker_ready(&ticker, u64::from(JOBS)).await?;
    ticker.stop().await
}

/// What raw needs of ours: fires and events of a run.
struct Sample {
    fires: Vec<RawStored>,
    started: RawStored,
    ended: RawStored,
}

/// One round of the product: runs a second.
async fn ours(
    (session, stage): (&Session, &Stage),
    bench: &Bench,
    ratio: f64,
) -> Result<(f64, Sample), Error> {
    let names = stage.bus.names().clone();
    let ticker = stage.ticker(ratio).await?;
    let prefix = names.prefix().clone();
    let before = stage.bus.stream_state(&names.log).await?.last_seq;
    let command = |number| (prefix.command(Verb::Trigger, &job(number % JOBS)), "{}".to_owned());
    stage.command((0..bench.runs).map(command)).await?;
    stage.ticker_ready(&ticker, u64::from(JOBS)).await?;
    let fires = collect(stage, &names.log, before + 1, "fire").await?;
    if fires.len() != bench.runs as usize {
        let text = format!("{} of {} triggers have fired", fires.len(), bench.runs);
        return Err(Error::Measurement(text));
    }

    let events = stage.bus.stream_state(&names.runs).await?.last_seq;
    let (began, cpu) = (super::wall_ns(), stage.cpu());
    let executor = stage.executor(bench.concurrency, async |_, _| Ok(())).await?;
    let through = events + 2 * u64::from(bench.runs);
    stage.reaches(&names.runs, through).await?;
    let side = if ratio > 0.0 { "ours, with traces" } else { "ours" };
    session.out.talk(&super::cost(side, bench.runs, (cpu, stage.cpu())));
    executor.stop().await?;
    ticker.stop().await?;
    let events = collect(stage, &names.runs, events + 1, "run").await?;
    let at = |event: Option<&RawStored>| event.map_or(began + 1, |event| event.stored_ns) - began;
    let took = at(events.last()) as f64 / 1e9;
    let first = at(events.first()) as f64 / 1e6;
    session.out.talk(&format!("  {side}: the first event {first:.0} ms after its executor began"));
    let of = |kind: &str| {
        let found = events.iter().find(|event| event.payload.starts_with(kind.as_bytes()));
        found.cloned().ok_or_else(|| Error::Measurement(format!("no event begins with {kind}")))
    };
    let sample = Sample { fires, started: of("{\"started")?, ended: of("{\"succeeded")? };
    Ok((f64::from(bench.runs) / took, sample))
}

/// The messages of a kind from a sequence on.
async fn collect(
    stage: &Stage,
    stream: &str,
    from: u64,
    kind: &str,
) -> Result<Vec<RawStored>, Error> {
    let subject = format!("{}.{kind}.", stage.bus.names().prefix());
    let mut found = Vec::new();
    let each = |message: RawStored| {
        if message.subject.starts_with(&subject) {
            found.push(message);
        }
        ControlFlow::Continue(())
    };
    stage.raw.read(stream, from, each).await?;
    Ok(found)
}

/// The raw loop, and what it has learnt.
struct RawSide {
    way: Option<Way>,
    /// Names the subjects of events that are stored yet.
    used: Arc<AtomicUsize>,
    runs: u32,
}

impl RawSide {
    async fn new(stage: &Stage, runs: u32, way: Option<Way>) -> Result<Self, Error> {
        let names = stage.bus.names();
        stage.raw.twin(&names.log, RAW_LOG, PREFIX).await?;
        stage.raw.twin(&names.runs, RAW_RUNS, PREFIX).await?;
        stage.raw.durable(RAW_LOG, QUEUE, &format!("{PREFIX}.fire.{QUEUE}.>")).await?;
        Ok(Self { way, used: Arc::default(), runs })
    }

    /// Runs a second, by the fastest way.
    async fn round(
        &mut self,
        (session, stage): (&Session, &Stage),
        sample: &Sample,
    ) -> Result<f64, Error> {
        let way = match self.way {
            Some(way) => way,
            None => {
                let few = &sample.fires[..(self.runs / TRIAL).max(1) as usize];
                let mut best = (0.0, WAYS[0]);
                for way in WAYS {
                    let speed = self.drain(stage, (few, sample), way).await?;
                    best = if speed > best.0 { (speed, way) } else { best };
                }
                best.1
            }
        };
        self.way = Some(way);
        let cpu = stage.cpu();
        let speed = self.drain(stage, (&sample.fires, sample), way).await?;
        session.out.talk(&super::cost("raw, filling included", self.runs, (cpu, stage.cpu())));
        Ok(speed)
    }

    /// Fills the stream with fires and takes them out again.
    async fn drain(
        &self,
        stage: &Stage,
        (fires, sample): (&[RawStored], &Sample),
        way: Way,
    ) -> Result<f64, Error> {
        // The same fire is stored more than once.
        let again = |fire: &RawStored| fire.again(PREFIX).with_new_id();
        for chunk in fires.chunks(500) {
            stage.raw.batch(chunk.iter().map(again).collect()).await?;
        }
        let left = Arc::new(AtomicUsize::new(fires.len()));
        let began = Instant::now();
        let pipelines = (0..way.pipelines).map(|_| {
            let pipeline = Pipeline {
                raw: stage.raw.clone(),
                way,
                left: Arc::clone(&left),
                used: Arc::clone(&self.used),
                events: [sample.started.again(PREFIX), sample.ended.again(PREFIX)],
            };
            tokio::spawn(pipeline.run())
        });
        for pipeline in futures::future::join_all(pipelines).await {
            pipeline.map_err(|panic| Error::Measurement(panic.to_string()))??;
        }
        stage.raw.flush().await?;
        Ok(fires.len() as f64 / began.elapsed().as_secs_f64())
    }
}

/// One of the loops that pull, store twice and acknowledge.
struct Pipeline {
    raw: cronstream_bus::Raw,
    way: Way,
    left: Arc<AtomicUsize>,
    used: Arc<AtomicUsize>,
    events: [RawMessage; 2],
}

impl Pipeline {
    async fn run(self) -> Result<(), cronstream_bus::Error> {
        let mut pull = self.raw.pull(RAW_LOG, QUEUE).await?;
        while self.left.load(Ordering::Relaxed) > 0 {
            let fires = pull.take(self.way.size).await?;
            self.left.fetch_sub(fires.len(), Ordering::Relaxed);
            if fires.is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
            let first = self.used.fetch_add(fires.len(), Ordering::Relaxed);
            let [started, ended] = &self.events;
            let subject = |index: usize| {
                format!("{PREFIX}.run.{QUEUE}.bench.job-0000000.{:032}.0", first + index)
            };
            let firsts =
                (0..fires.len()).map(|index| started.clone().on(subject(index)).expecting(0));
            let last = self.store(firsts.collect()).await?;
            let seconds = (0..fires.len()).map(|index| {
                let second = ended.clone().on(subject(index));
                match self.way.store {
                    // A batch is stored without a gap; what single messages got is not looked up.
                    Store::Batch => second.expecting(last + 1 + index as u64 - fires.len() as u64),
                    Store::Window => second,
                }
            });
            self.store(seconds.collect()).await?;
            for fire in &fires {
                self.raw.ack(fire).await?;
            }
        }
        Ok(())
    }

    async fn store(&self, messages: Vec<RawMessage>) -> Result<u64, cronstream_bus::Error> {
        match self.way.store {
            Store::Batch => self.raw.batch(messages).await,
            Store::Window => self.raw.publish_all(messages, self.way.size).await,
        }
    }
}
