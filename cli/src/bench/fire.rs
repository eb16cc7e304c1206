//! `bench fire`: 100,000 jobs that are all due in one second, and how late fires are at a steady rate.
//!
//! ```text
//!   a round:  define jobs for one instant ─► the ticker fires them ─► the same messages again, by raw batches
//!              ours: instant ─► broker timestamp of the last fire      raw: first send ─► last acknowledgement
//! ```
//!
//! Invariant: raw stores the messages of the same round, headers and bodies bit for bit, in batches of 1,000 with a
//! fenced cursor at the end, with as many batches open as was fastest.

use std::ops::ControlFlow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cronstream_bus::{BATCH_MESSAGES, RawMessage, RawStored};
use cronstream_schemas::command::Verb;
use cronstream_schemas::time::Timestamp;
use tokio::time::{Instant, sleep, timeout};

use super::args::{Bench, Setting};
use super::figures::{Pair, Row, Target, percentile};
use super::stage::{QUEUE, Stage, TASK, job};
use crate::error::Error;
use crate::session::Session;

/// What was asked for when nothing is said.
const JOBS: u32 = 100_000;
/// So many definitions a second are counted on, and this is added.
const DEFINED_PER_SECOND: u32 = 3_000;
const LEAD: Duration = Duration::from_secs(12);
/// Rounds that may be missed because the definitions were not there in time; each doubles the lead.
const MISSED_MAX: u32 = 3;
/// Raw batches that are open at once: each is tried, the fastest is the measure.
const LANES: [usize; 4] = [1, 2, 4, 8];
/// The name and the prefix of the stream that raw writes.
const RAW_LOG: (&str, &str) = ("RAW_LOG", "raw");

pub(super) async fn fire(session: &Session, bench: &Bench) -> Result<Vec<Row>, Error> {
    let jobs = bench.jobs.unwrap_or(JOBS);
    let mut pairs = Vec::new();
    let mut lanes = None;
    for round in 1..=bench.rounds {
        let (stage, ours) = at_once(session, bench, jobs).await?;
        let raw = raw_batches((session, &stage), &ours.fires, &mut lanes).await?;
        let pair = Pair { raw, ours: ours.per_second };
        session.out.talk(&format!(
            "fire, round {round}: raw {raw:.0}/s with {} open, ours {:.0}/s",
            lanes.unwrap_or(1),
            pair.ours
        ));
        pairs.push(pair);
    }
    let label = Setting::R1Always.label();
    let what = format!("{jobs} jobs due at once, one ticker");
    let mut rows = vec![Row::of_pairs((what, label, "fires/s"), &pairs, Target::RatioAtLeast(0.8))];
    rows.extend(lateness(session, bench).await?);
    Ok(rows)
}

/// What a ticker did with the jobs of one round.
struct Fired {
    per_second: f64,
    fires: Vec<RawStored>,
}

/// Defines the jobs and lets them fire, on a broker of their own.
async fn at_once(session: &Session, bench: &Bench, jobs: u32) -> Result<(Stage, Fired), Error> {
    let mut lead = LEAD + Duration::from_secs(u64::from(jobs / DEFINED_PER_SECOND));
    for _ in 0..=MISSED_MAX {
        let stage = Stage::start(session, bench, Setting::R1Always).await?;
        let (slot, fires) = spread((session, &stage), jobs, (lead, Duration::ZERO)).await?;
        if let Some(fires) = fires {
            let last = fires.iter().map(|fire| fire.stored_ns).max().unwrap_or_default();
            let took = (last - slot.as_millis() * 1_000_000) as f64 / 1e9;
            return Ok((stage, Fired { per_second: f64::from(jobs) / took, fires }));
        }
        lead *= 2;
        session.out.talk(&format!("the definitions were too late: again with {lead:?} ahead"));
    }
    Err(Error::Measurement("the definitions were never there in time".into()))
}

/// Defines `jobs` that are due once each, the first after `lead` and each `apart` later than the one before, and
/// waits for their fires. `None` when some were due before they were defined.
async fn spread(
    (session, stage): (&Session, &Stage),
    jobs: u32,
    (lead, apart): (Duration, Duration),
) -> Result<(Timestamp, Option<Vec<RawStored>>), Error> {
    let ticker = stage.ticker(0.0).await?;
    let second = 1_000;
    let first = (now().as_millis() / second + 1) * second;
    let first = Timestamp::from_millis(first).plus(lead);
    let prefix = stage.bus.names().prefix().clone();
    let definitions = (0..jobs).map(|number| {
        let at = first.plus(apart * number);
        let body = serde_json::json!({
            "task": TASK, "queue": QUEUE, "schedule": { "at": at }, "params": { "number": number },
        });
        (prefix.command(Verb::Define, &job(number)), body.to_string())
    });
    stage.command(definitions).await?;
    // Definitions that come too late are rejected, and would be waited for in vain.
    let defined = stage.ticker_ready(&ticker, u64::from(jobs));
    let Ok(defined) = timeout(first.since(now()), defined).await else {
        ticker.stop().await?;
        return Ok((first, None));
    };
    defined?;
    let log = stage.bus.names().log.clone();
    let defined = stage.bus.stream_state(&log).await?.last_seq;
    let cpu = stage.cpu();
    sleep(first.since(now()) + apart * jobs).await;
    // Each fire is one message; the cursors come on top.
    stage.reaches(&log, defined + u64::from(jobs)).await?;
    stage.ticker_ready(&ticker, 0).await?;
    session.out.talk(&super::cost("ours", jobs, (cpu, stage.cpu())));
    let mut fires = Vec::new();
    let subject = format!("{prefix}.fire.");
    stage
        .raw
        .read(&log, defined + 1, |message| {
            if message.subject.starts_with(&subject) {
                fires.push(message);
            }
            ControlFlow::Continue(())
        })
        .await?;
    ticker.stop().await?;
    if fires.len() != jobs as usize {
        let text = format!("{} of {jobs} jobs have fired", fires.len());
        return Err(Error::Measurement(text));
    }
    Ok((first, Some(fires)))
}

/// Stores the same messages in atomic batches; gives messages a second, cursors not counted.
async fn raw_batches(
    (session, stage): (&Session, &Stage),
    fires: &[RawStored],
    lanes: &mut Option<usize>,
) -> Result<f64, Error> {
    let cursor = cursor(stage).await?;
    let (name, prefix) = RAW_LOG;
    let log = &stage.bus.names().log;
    let known = match *lanes {
        Some(known) => known,
        None => {
            let mut best = (0.0, 1);
            for (trial, tried) in (0..).zip(LANES) {
                let (name, prefix) = (format!("{name}_{trial}"), format!("{prefix}{trial}"));
                stage.raw.twin(log, &name, &prefix).await?;
                let part = &fires[..fires.len().div_ceil(2)];
                let speed = store(stage, (&prefix, tried), part, &cursor).await?;
                if speed > best.0 {
                    best = (speed, tried);
                }
            }
            best.1
        }
    };
    *lanes = Some(known);
    stage.raw.twin(log, name, prefix).await?;
    let cpu = stage.cpu();
    let speed = store(stage, (prefix, known), fires, &cursor).await?;
    let jobs = u32::try_from(fires.len()).unwrap_or(u32::MAX);
    session.out.talk(&super::cost("raw", jobs, (cpu, stage.cpu())));
    Ok(speed)
}

async fn store(
    stage: &Stage,
    (prefix, lanes): (&str, usize),
    fires: &[RawStored],
    cursor: &RawStored,
) -> Result<f64, Error> {
    let batch = |fires: &[RawStored]| fires.iter().map(|fire| fire.again(prefix)).collect();
    let mut queues: Vec<Vec<Vec<RawMessage>>> = vec![Vec::new(); lanes];
    for (number, chunk) in fires.chunks(BATCH_MESSAGES - 1).enumerate() {
        queues[number % lanes].push(batch(chunk));
    }
    let began = Instant::now();
    let lanes = queues.into_iter().enumerate().map(|(lane, batches)| {
        let cursor = cursor.again(prefix).on(format!("{prefix}.cursor.{lane}"));
        let raw = stage.raw.clone();
        tokio::spawn(async move {
            let mut expected = 0;
            for mut batch in batches {
                batch.push(cursor.clone().expecting(expected));
                expected = raw.batch(batch).await?;
            }
            Ok::<_, cronstream_bus::Error>(())
        })
    });
    for lane in futures::future::join_all(lanes).await {
        lane.map_err(|panic| Error::Measurement(panic.to_string()))??;
    }
    Ok(fires.len() as f64 / began.elapsed().as_secs_f64())
}

/// A cursor as a ticker wrote it.
async fn cursor(stage: &Stage) -> Result<RawStored, Error> {
    let names = stage.bus.names();
    let mut found = None;
    let subject = format!("{}.cursor.", names.prefix());
    let last = stage.bus.stream_state(&names.log).await?.last_seq;
    let near = last.saturating_sub(10 * BATCH_MESSAGES as u64);
    stage
        .raw
        .read(&names.log, near, |message| {
            if message.subject.starts_with(&subject) {
                found = Some(message);
            }
            ControlFlow::Continue(())
        })
        .await?;
    found.ok_or_else(|| Error::Measurement("the log has no cursor".into()))
}

/// How late fires are at a steady rate, by their broker timestamps, beside a raw commit of batches as large.
async fn lateness(session: &Session, bench: &Bench) -> Result<Vec<Row>, Error> {
    let jobs = bench.rate * bench.seconds;
    let apart = Duration::from_secs(1) / bench.rate;
    let stage = Stage::start(session, bench, Setting::R1Always).await?;
    let lead = LEAD + Duration::from_secs(2 * u64::from(jobs / DEFINED_PER_SECOND));
    let (first, fires) = spread((session, &stage), jobs, (lead, apart)).await?;
    let fires = fires.ok_or_else(|| Error::Measurement("the definitions were too late".into()))?;
    let slot_ns = |fire: &RawStored| {
        let body: serde_json::Value = serde_json::from_slice(&fire.payload).ok()?;
        let slot: Timestamp = serde_json::from_value(body["fired"]["scheduled_at"].clone()).ok()?;
        Some(slot.as_millis() * 1_000_000)
    };
    let late: Vec<f64> = fires
        .iter()
        .filter_map(|fire| Some((fire.stored_ns - slot_ns(fire)?) as f64 / 1e6))
        .collect();
    if late.len() != fires.len() || first > now() {
        return Err(Error::Measurement("a fire cannot be read".into()));
    }
    let alone = fires.iter().filter(|fire| !fire.is_of_batch()).count();
    let size = mean_batch(&fires);
    let commits = if 2 * alone > fires.len() {
        raw_singles(&stage, &fires, bench.rate).await?
    } else {
        raw_commits(&stage, &fires, (size, bench.rate)).await?
    };
    let of = |values: &[f64], share| percentile(values, share).unwrap_or(f64::NAN);
    let share = 100 * alone / fires.len().max(1);
    let told =
        format!("lateness: {share} % of the fires by themselves, the others in batches of {size}");
    session.out.talk(&told);
    let row = |text: &str, share: f64, more: f64| {
        let pair = Pair { raw: of(&commits, share), ours: of(&late, share) };
        let what = format!("lateness at {} fires/s for {} s, {text}", bench.rate, bench.seconds);
        Row::of_pairs((what, Setting::R1Always.label(), "ms"), &[pair], Target::RawPlus(more))
    };
    Ok(vec![row("p50", 0.5, 1.0), row("p99", 0.99, 5.0)])
}

/// How many fires a batch had on average: between two batches the sequence passes a cursor.
fn mean_batch(fires: &[RawStored]) -> usize {
    let of_batches: Vec<&RawStored> = fires.iter().filter(|fire| fire.is_of_batch()).collect();
    let batches = 1 + of_batches.windows(2).filter(|pair| pair[1].seq != pair[0].seq + 1).count();
    (of_batches.len() / batches).max(1)
}

/// Stores raw fires at the same rate, each by itself behind a cursor, one at a time; gives each one's milliseconds.
async fn raw_singles(stage: &Stage, fires: &[RawStored], rate: u32) -> Result<Vec<f64>, Error> {
    let (name, prefix) = RAW_LOG;
    stage.raw.twin(&stage.bus.names().log, name, prefix).await?;
    let cursor = cursor(stage).await?.again(prefix);
    let subject = cursor.subject().to_owned();
    let expected = stage.raw.publish(cursor.expecting(0)).await?;
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
    let mut commits = Vec::with_capacity(fires.len());
    for fire in fires {
        ticks.tick().await;
        let message = fire.again(prefix).fenced_by(&subject, expected);
        let sent = Instant::now();
        stage.raw.publish(message).await?;
        commits.push(sent.elapsed().as_secs_f64() * 1e3);
    }
    Ok(commits)
}

/// Commits raw batches of `size` at the same rate, one at a time; gives each one's milliseconds.
async fn raw_commits(
    stage: &Stage,
    fires: &[RawStored],
    (size, rate): (usize, u32),
) -> Result<Vec<f64>, Error> {
    let (name, prefix) = RAW_LOG;
    stage.raw.twin(&stage.bus.names().log, name, prefix).await?;
    let cursor = cursor(stage).await?.again(prefix);
    let pause = Duration::from_secs(1) * u32::try_from(size).unwrap_or(u32::MAX) / rate;
    let mut ticks = tokio::time::interval(pause.max(Duration::from_micros(100)));
    let (mut commits, mut expected) = (Vec::new(), 0);
    for chunk in fires.chunks(size) {
        ticks.tick().await;
        let mut batch: Vec<RawMessage> = chunk.iter().map(|fire| fire.again(prefix)).collect();
        batch.push(cursor.clone().expecting(expected));
        let sent = Instant::now();
        expected = stage.raw.batch(batch).await?;
        commits.push(sent.elapsed().as_secs_f64() * 1e3);
    }
    Ok(commits)
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
