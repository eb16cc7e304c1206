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
use tokio::time::{Instant, timeout};

use super::args::Bench;
use super::figures::{Pair, Row, Target, percentile};
use super::stage::{Stage, job};
use super::wall_ns;
use crate::error::Error;
use crate::session::Session;

/// The executor's default.
const CONCURRENCY: u32 = 16;
/// How long one run may take.
const RUN_MAX: Duration = Duration::from_secs(10);
/// Runs whose times do not count.
const WARM_UP: u32 = 20;
/// A run event's size, about.
const BYTES: usize = 200;
/// The stream that raw writes.
const RAW: (&str, &str) = ("RAW_TRIPS", "trip");

pub(super) async fn latency(session: &Session, bench: &Bench, stage: &Stage) -> Result<Row, Error> {
    let names = stage.bus.names().clone();
    stage.raw.twin(&names.runs, RAW.0, RAW.1).await?;
    let ticker = stage.ticker(0.0).await?;
    let before = stage.bus.stream_state(&names.log).await?.last_seq;
    let (starts_tx, mut starts) = mpsc::unbounded_channel::<(RunId, i64)>();
    let executor = stage.executor(CONCURRENCY, move |context, _| {
        starts_tx.send((context.run, wall_ns())).ok();
        async { Ok(()) }
    });
    let executor = executor.await?;
    let (mut started, mut trips) = (HashMap::new(), Vec::new());
    for number in 0..WARM_UP + bench.samples {
        let trip = RawMessage::new(&OutMessage::new(
            format!("{}.run.{number}", RAW.1),
            vec![b'x'; BYTES],
        ))?;
        let sent = Instant::now();
        stage.raw.publish(trip.expecting(0)).await?;
        let trip = sent.elapsed().as_secs_f64() * 1e6;
        let subject = names.prefix().command(Verb::Trigger, &job(number % 8));
        stage.command(std::iter::once((subject, "{}".to_owned()))).await?;
        let Ok(Some((run, at))) = timeout(RUN_MAX, starts.recv()).await else {
            return Err(Error::Measurement("a run did not start".into()));
        };
        if number >= WARM_UP {
            started.insert(run.to_string(), at);
            trips.push(trip);
        }
    }
    executor.stop().await?;
    ticker.stop().await?;
    let waits = waits(stage, before + 1, &started).await?;
    let of = |values: &[f64], share| percentile(values, share).unwrap_or(f64::NAN);
    session.out.talk(&format!(
        "fire to start: p50 {:.0} us, p99 {:.0} us; raw round trip p50 {:.0} us",
        of(&waits, 0.5),
        of(&waits, 0.99),
        of(&trips, 0.5)
    ));
    let pair = Pair { raw: of(&trips, 0.5), ours: of(&waits, 0.5) };
    let what = "fire stored to task started, p50 (raw: one round trip)";
    Ok(Row::of_pairs((what, stage.setting.label(), "us"), &[pair], Target::RatioAtMost(3.0)))
}

/// Microseconds from the broker timestamp of each fire to the start of its task.
async fn waits(
    stage: &Stage,
    from: u64,
    started: &HashMap<String, i64>,
) -> Result<Vec<f64>, Error> {
    let mut waits = Vec::new();
    let each = |message: cronstream_bus::RawStored| {
        let body: serde_json::Value = serde_json::from_slice(&message.payload).unwrap_or_default();
        if let Some(at) = body["fired"]["run"].as_str().and_then(|run| started.get(run)) {
            waits.push((at - message.stored_ns) as f64 / 1e3);
        }
        ControlFlow::Continue(())
    };
    stage.raw.read(&stage.bus.names().log, from, each).await?;
    if waits.len() == started.len() {
        Ok(waits)
    } else {
        Err(Error::Measurement(format!(
            "{} of {} fires are in the log",
            waits.len(),
            started.len()
        )))
    }
}
