//! `bench load`: the memory of a ticker that holds a million definitions, and how fast it starts from the log.
//!
//! Invariant: the definitions are defined by commands and a ticker; raw reads the very log that the ticker reads.

use std::ops::ControlFlow;

use cronstream_schemas::command::Verb;
use tokio::time::Instant;

use super::args::{Bench, Setting};
use super::figures::{Pair, Row, Target, median};
use super::process::Ticker;
use super::stage::{PARTITIONS, QUEUE, Stage, TASK, job};
use super::wall_ns;
use crate::error::Error;
use crate::session::Session;

/// What was asked for when nothing is said.
const JOBS: u32 = 1_000_000;
/// Commands made at a time.
const CHUNK: u32 = 50_000;

pub(super) async fn load(session: &Session, bench: &Bench) -> Result<Vec<Row>, Error> {
    let jobs = bench.jobs.unwrap_or(JOBS);
    let stage = Stage::start(session, bench, Setting::R1Default).await?;
    let empty = begin(&stage, 0).await?;
    let base = empty.ticker.memory()?;
    session.out.talk(&format!("load: {:.1} MiB without jobs", base / 1_048_576.0));
    let own = define(&stage, jobs).await?;
    stage.leads_all(u64::from(jobs), || empty.ticker.has_ended()).await?;
    empty.ticker.stop().await?;
    let (mut each, mut pairs) = (Vec::new(), Vec::new());
    for round in 1..=bench.rounds {
        let started = begin(&stage, jobs).await?;
        let bytes = (started.ticker.memory()? - base) / f64::from(jobs) - own;
        started.ticker.stop().await?;
        let (messages, raw_took) = read(&stage).await?;
        let pair = Pair { raw: messages / raw_took, ours: messages / started.took };
        session.out.talk(&format!(
            "load, round {round}: {bytes:.0} bytes a job beyond its {own:.0}; {messages} messages: raw in {raw_took:.2} s, \
             a ticker in {:.2} s",
            started.took
        ));
        each.push(bytes);
        pairs.push(pair);
    }
    let label = Setting::R1Default.label();
    let bytes = median(&each).unwrap_or(f64::NAN);
    let memory = format!("memory a job of {jobs}, beyond id and params");
    Ok(vec![
        Row::alone((memory, label, "bytes"), bytes, Target::AtMost(400.0)),
        Row::of_pairs(
            ("start from the log", label, "messages/s"),
            &pairs,
            Target::RatioAtLeast(0.5),
        ),
    ])
}

/// A ticker that leads everything, and how many seconds that took it.
struct Started {
    ticker: Ticker,
    took: f64,
}

/// Starts a ticker; its start ends with the last cursor by which it takes a partition over.
async fn begin(stage: &Stage, jobs: u32) -> Result<Started, Error> {
    let log = &stage.bus.names().log;
    let before = stage.bus.stream_state(log).await?.last_seq;
    let began = wall_ns();
    let ticker = Ticker::start(stage)?;
    stage.reaches(log, before + u64::from(PARTITIONS)).await?;
    stage.leads_all(u64::from(jobs), || ticker.has_ended()).await?;
    let mut cursors = Vec::new();
    stage
        .raw
        .read(log, before + 1, |message| {
            cursors.push(message.stored_ns);
            ControlFlow::Continue(())
        })
        .await?;
    cursors.sort_unstable();
    let last = cursors.get(usize::from(PARTITIONS) - 1).copied().unwrap_or(began);
    Ok(Started { ticker, took: (last - began) as f64 / 1e9 })
}

/// Defines the jobs; gives the mean bytes of an id and params.
pub(super) async fn define(stage: &Stage, jobs: u32) -> Result<f64, Error> {
    let prefix = stage.bus.names().prefix().clone();
    let mut own = 0;
    for first in (0..jobs).step_by(CHUNK as usize) {
        let commands = (first..jobs.min(first + CHUNK)).map(|number| {
            let (job, params) = (job(number), serde_json::json!({ "number": number }));
            own += job.to_string().len() + params.to_string().len();
            let body = serde_json::json!({
                "task": TASK, "queue": QUEUE, "schedule": { "cron": "0 0 29 2 *" }, "params": params,
            });
            (prefix.command(Verb::Define, &job), body.to_string())
        });
        stage.command(commands).await?;
    }
    Ok(own as f64 / f64::from(jobs))
}

/// Reads the log by raw; gives how many messages in how many seconds.
async fn read(stage: &Stage) -> Result<(f64, f64), Error> {
    let began = Instant::now();
    let (mut messages, mut bytes) = (0_u64, 0);
    stage
        .raw
        .read(&stage.bus.names().log, 1, |message| {
            messages += 1;
            bytes += message.payload.len();
            ControlFlow::Continue(())
        })
        .await?;
    let took = began.elapsed().as_secs_f64();
    if bytes == 0 {
        return Err(Error::Measurement("the log is empty".into()));
    }
    Ok((messages as f64, took))
}
