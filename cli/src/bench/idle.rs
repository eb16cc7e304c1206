//! `bench idle`: what 100,000 jobs cost while none is due: a ticker's processor time, and what it writes.
//!
//! Invariant: writes are counted from the streams, not from what the ticker says.

use std::time::Duration;

use super::args::{Bench, Setting};
use super::figures::{Row, Target};
use super::load::define;
use super::process::Ticker;
use super::stage::Stage;
use crate::error::Error;
use crate::session::Session;

/// What was asked for when nothing is said.
const JOBS: u32 = 100_000;
/// How long the ticker rests after the last definition.
const REST: Duration = Duration::from_secs(5);

pub(super) async fn idle(session: &Session, bench: &Bench) -> Result<Vec<Row>, Error> {
    let jobs = bench.jobs.unwrap_or(JOBS);
    let stage = Stage::start(session, bench, Setting::R1Default).await?;
    let ticker = Ticker::start(&stage)?;
    define(&stage, jobs).await?;
    stage.leads_all(u64::from(jobs), || ticker.has_ended()).await?;
    // Short tests rest as long as they watch.
    tokio::time::sleep(REST.min(Duration::from_secs(u64::from(bench.seconds)))).await;
    let (before, cpu) = (Written::read(&stage).await?, ticker.cpu()?);
    tokio::time::sleep(Duration::from_secs(u64::from(bench.seconds))).await;
    let (after, cpu) = (Written::read(&stage).await?, ticker.cpu()? - cpu);
    ticker.stop().await?;
    let written = after.since(before);
    session.out.talk(&format!(
        "idle: {cpu:.3} s of a core in {} s; {} renewals, {} other messages",
        bench.seconds, written.renewals, written.others
    ));
    let label = Setting::R1Default.label();
    let share = 100.0 * cpu / f64::from(bench.seconds);
    let time = format!("{jobs} jobs, none due: processor time");
    let writes = format!("{jobs} jobs, none due: messages beside renewals in {} s", bench.seconds);
    Ok(vec![
        Row::alone((time, label, "% of a core"), share, Target::AtMost(1.0)),
        Row::alone((writes, label, "messages"), written.others as f64, Target::AtMost(0.0)),
    ])
}

/// Messages that were ever written.
#[derive(Debug, Clone, Copy)]
struct Written {
    /// To the lease bucket.
    renewals: u64,
    /// To every other stream.
    others: u64,
}

impl Written {
    async fn read(stage: &Stage) -> Result<Self, Error> {
        let names = stage.bus.names();
        let mut others = 0;
        for stream in [&names.log, &names.runs, &names.commands, &names.dead, &names.traces] {
            others += stage.bus.stream_state(stream).await?.last_seq;
        }
        let renewals = stage.bus.stream_state(&format!("KV_{}", names.leases)).await?.last_seq;
        Ok(Self { renewals, others })
    }

    const fn since(self, before: Self) -> Self {
        Self { renewals: self.renewals - before.renewals, others: self.others - before.others }
    }
}
