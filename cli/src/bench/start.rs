//! How long a fire that is stored waits until its task runs, on an idle machine.
//!
//! Invariant: one run at a time; between two runs raw takes one round trip, so that both meet the same machine.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use cronstream_bus::OutMessage;
use cronstream_bus::RawMessage;
use cronstream_schemas::command::Verb;
use cronstream_schemas::id::RunId;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::args::Bench;
use super::figures::{Pair, Row, Target, percentile};
use super::stage::{QUEUE, Stage, TASK, job};
use super::wall_ns;
use crate::error::Error;
use crate::session::Session;

/// The executor's default.
const CONCURRENCY: u32 = 16;
/// How long one run may take.
const RUN_MAX: Duration = Duration::from_secs(10);
/// Runs whose times do not count.
const WARM_UP: u32 = 20;
/// How often the job of the row is due, and its number.
const EVERY: &str = "100ms";
const LONE: u32 = 999;
/// How long after a start raw takes its turn: when the run before has ended.
const APART: Duration = Duration::from_millis(20);
/// A run event's size, about.
const BYTES: usize = 200;
/// The stream that raw writes.
const RAW: (&str, &str) = ("RAW_TRIPS", "trip");

/// A row for the fires of a schedule; how triggered runs fare is told.
pub(super) async fn latency(session: &Session, bench: &Bench, stage: &Stage) -> Result<Row, Error> {
    let names = stage.bus.names().clone();
    stage.raw.twin(&names.runs, RAW.0, RAW.1).await?;
    let ticker = stage.ticker(0.0).await?;
    let before = stage.bus.stream_state(&names.log).await?.last_seq;
    let (starts_tx, starts) = mpsc::unbounded_channel::<(RunId, i64)>();
    let executor = stage.executor(CONCURRENCY, move |context, _| {
        starts_tx.send((context.run, wall_ns())).ok();
        async { Ok(()) }
    });
    let executor = executor.await?;
    let mut watch = Watch { stage, starts, trips: 0 };
    let triggered = watch.samples(bench.samples, true).await?;
    let body = serde_json::json!({
        "task": TASK, "queue": QUEUE, "schedule": { "every": EVERY }, "overlap": "allow",
    });
    let define = names.prefix().command(Verb::Define, &job(LONE));
    stage.command(std::iter::once((define, body.to_string()))).await?;
    let scheduled = watch.samples(bench.samples, false).await?;
    executor.stop().await?;
    ticker.stop().await?;
    let of = |values: &[f64], share| percentile(values, share).unwrap_or(f64::NAN);
    let mut medians = [f64::NAN; 2];
    let sides = [("a trigger's", &triggered), ("a slot's", &scheduled)];
    for (median, (what, sampled)) in medians.iter_mut().zip(sides) {
        let (waits, alone) = waits(stage, before + 1, &sampled.started).await?;
        *median = of(&waits, 0.5);
        session.out.talk(&format!(
            "{what} fire to start: p50 {median:.0} us, p99 {:.0} us, {alone} of {} by themselves; raw round trip p50 {:.0} us",
            of(&waits, 0.99),
            waits.len(),
            of(&sampled.trips, 0.5)
        ));
    }
    let [_, ours] = medians;
    let pair = Pair { raw: of(&scheduled.trips, 0.5), ours };
    let what = "fire stored to task started, p50 (raw: one round trip)";
    Ok(Row::of_pairs((what, stage.setting.label(), "us"), &[pair], Target::RatioAtMost(3.0)))
}

/// Sees runs start, one at a time.
struct Watch<'a> {
    stage: &'a Stage,
    starts: mpsc::UnboundedReceiver<(RunId, i64)>,
    /// Raw messages so far.
    trips: u32,
}

/// Runs, when their tasks started, and what a raw round trip took behind each.
#[derive(Default)]
struct Sampled {
    started: HashMap<String, i64>,
    trips: Vec<f64>,
}

impl Watch<'_> {
    /// So many runs, triggered or as they come, and as many before them to warm up.
    async fn samples(&mut self, count: u32, trigger: bool) -> Result<Sampled, Error> {
        let mut sampled = Sampled::default();
        for number in 0..WARM_UP + count {
            if trigger {
                let prefix = self.stage.bus.names().prefix();
                let subject = prefix.command(Verb::Trigger, &job(number % 8));
                self.stage.command(std::iter::once((subject, "{}".to_owned()))).await?;
            }
            let Ok(Some((run, at))) = timeout(RUN_MAX, self.starts.recv()).await else {
                return Err(Error::Measurement("a run did not start".into()));
            };
            sleep(APART).await;
            let trip = self.trip().await?;
            if number >= WARM_UP {
                sampled.started.insert(run.to_string(), at);
                sampled.trips.push(trip);
            }
        }
        Ok(sampled)
    }

    /// Microseconds of one raw round trip.
    async fn trip(&mut self) -> Result<f64, Error> {
        self.trips += 1;
        let subject = format!("{}.run.{}", RAW.1, self.trips);
        let trip = RawMessage::new(&OutMessage::new(subject, vec![b'x'; BYTES]))?;
        let sent = Instant::now();
        self.stage.raw.publish(trip.expecting(0)).await?;
        Ok(sent.elapsed().as_secs_f64() * 1e6)
    }
}

/// Microseconds from the broker timestamp of each fire to the start of its task, and how many fires were stored without
/// a cursor.
async fn waits(
    stage: &Stage,
    from: u64,
    started: &HashMap<String, i64>,
) -> Result<(Vec<f64>, usize), Error> {
    let (mut waits, mut alone) = (Vec::new(), 0);
    let each = |message: cronstream_bus::RawStored| {
        let body: serde_json::Value = serde_json::from_slice(&message.payload).unwrap_or_default();
        if let Some(at) = body["fired"]["run"].as_str().and_then(|run| started.get(run)) {
            waits.push((at - message.stored_ns) as f64 / 1e3);
            alone += usize::from(!message.is_of_batch());
        }
        ControlFlow::Continue(())
    };
    stage.raw.read(&stage.bus.names().log, from, each).await?;
    if waits.len() == started.len() {
        return Ok((waits, alone));
    }
    let text = format!("{} of {} fires are in the log", waits.len(), started.len());
    Err(Error::Measurement(text))
}
