//! `bench`: how fast the product is, beside JetStream alone on the same machine in the same minute.
//!
//! ```text
//!   stage (brokers, installation) ─► a round: ours, then raw ─► … ─► median of the ratios ─► row: met or not
//! ```
//!
//! Invariant: what is measured is the product, its ticker and its executor as they are; what it is held against is
//! a loop by the client library alone, in this process, with the same messages. `docs/operating/performance.md` says
//! what each row means.

mod args;
mod figures;
mod fire;
mod idle;
mod load;
mod process;
mod run;
mod stage;
mod start;

use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) use args::Bench;

use crate::error::Error;
use crate::session::Session;
use crate::stop;
use args::What;
use figures::{HEADER, Row};

pub(crate) async fn bench(session: &Session, bench: &Bench) -> Result<(), Error> {
    let stop = stop::on_signal()?;
    let rows = async {
        match bench.what {
            What::Fire => Box::pin(fire::fire(session, bench)).await,
            What::Run => Box::pin(run::run(session, bench)).await,
            What::Load => Box::pin(load::load(session, bench)).await,
            What::Idle => Box::pin(idle::idle(session, bench)).await,
        }
    };
    tokio::select! {
        rows = rows => Ok(session.out.rows(HEADER, &rows?, Row::cells)?),
        () = stop.cancelled() => Ok(()),
    }
}

/// Processor seconds of this process and of the brokers.
type Cpu = (f64, f64);

/// What a side has taken of the processor, in words: unlike speeds, this hardly changes with what else runs.
fn cost(side: &str, count: u32, (before, after): (Cpu, Cpu)) -> String {
    let each = |seconds: f64| seconds * 1e6 / f64::from(count);
    let (own, brokers) = (each(after.0 - before.0), each(after.1 - before.1));
    format!("  {side}: {own:.0} us of a processor each, and {brokers:.0} us of the broker's")
}

/// The wall clock, in nanoseconds since 1970, as the broker stamps messages.
fn wall_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
