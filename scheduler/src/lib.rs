//! The ticker node: it leads partitions, or stands by for those that do.
//!
//! ```text
//!   CRON_LOG, CRON_RUNS, CRON_COMMANDS ─ followers ─┐
//!   CRON_LEASES ─ watch ────────────────────────────┤
//!   answers to batches, appends, leases ────────────┼─► Input ─► node (one loop, owns all state)
//!   clock, release, stop ───────────────────────────┘              │ turn
//!                                                                  ▼
//!                                             core ─► one batch for each partition in flight
//! ```
//!
//! Invariant: all state is owned by one loop; what waits for the network is a task that ends in one input.
//! Leadership is never assumed: the lease only chooses who tries, the cursor's sequence decides who writes.

mod claims;
mod clock;
mod commit;
mod decisions;
mod desk;
mod echo;
mod fires;
mod folding;
mod hearing;
mod history;
mod input;
mod leading;
mod node;
mod press;
mod readers;
mod report;
mod route;
mod seat;
mod settled;
mod takeover;
mod tally;

use std::path::PathBuf;
use std::time::Duration;

use cronstream_bus::Bus;
use cronstream_schemas::name::Name;
use cronstream_schemas::trace::TraceRatio;
use cronstream_telemetry::metrics::TickerMetrics;
use cronstream_telemetry::{Publisher, Service, Spans};
use tokio_util::sync::CancellationToken;

/// The longest a stopping node waits for its batches.
pub const STOP_WITHIN: Duration = Duration::from_secs(3);
/// How long a start rests that a broker without a leader has kept from its streams.
const START_RETRY: Duration = Duration::from_millis(500);

/// How a node is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The node's name; no two live nodes may share one.
    pub node: Name,
    /// Fold and account, but fire nothing until `cronstream release`.
    pub hold: bool,
    /// How far this node's clock and the broker's may differ. Default 500 ms.
    pub max_clock_error: Duration,
    /// How old a cursor that lags behind the commands may become. Default 6 h, far below the 30 days that
    /// commands are kept.
    pub cursor_refresh: Duration,
    /// Which share of the runs is traced. Default all.
    pub trace_ratio: TraceRatio,
    /// What the node counts; serving it is the caller's.
    pub metrics: TickerMetrics,
    /// Added to the wall clock: only tests set it.
    pub clock: ClockOffset,
}

/// What is added to the wall clock.
#[derive(Debug, Clone, Default)]
pub enum ClockOffset {
    /// Nothing.
    #[default]
    None,
    /// This many milliseconds.
    Fixed(i64),
    /// As many milliseconds as this file says; it is read again every second.
    File(PathBuf),
}

impl Options {
    /// The defaults of `design.md` §5 for a node of this name.
    #[must_use]
    pub fn new(node: Name) -> Self {
        Self {
            node,
            hold: false,
            max_clock_error: Duration::from_millis(500),
            cursor_refresh: Duration::from_secs(6 * 3_600),
            trace_ratio: TraceRatio::default(),
            metrics: TickerMetrics::default(),
            clock: ClockOffset::None,
        }
    }
}

/// Why a node ends.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bus could not be used at start.
    #[error("cannot start")]
    Bus(#[from] cronstream_bus::Error),
    /// `init` has not stored the installation's settings.
    #[error("{subject} does not exist on this server: run `cronstream init`")]
    NotInitialised {
        /// The subject that is missing.
        subject: String,
    },
    /// The stored settings cannot be read.
    #[error("{subject} holds no settings that this version knows: {found}")]
    Settings {
        /// The subject.
        subject: String,
        /// What was found, cut.
        found: String,
    },
    /// Another live node has this name.
    #[error(
        "node name {0} is taken by a live node: give this one another name with `--node`, or stop that one"
    )]
    NameTaken(Name),
    /// A stream ended under a running node.
    #[error("{0} is gone")]
    Closed(&'static str),
}

/// Runs a node until `stop` is cancelled; then gives up its partitions and returns.
///
/// # Errors
/// When it cannot start, or its name is taken. A broker that is electing a leader is waited for, and so is one that
/// was there once.
pub async fn run(bus: Bus, options: Options, stop: CancellationToken) -> Result<(), Error> {
    let (spans, receiver) = Spans::channel();
    let publisher = Publisher::start(bus.clone(), Service::Ticker, spans.clone(), receiver);
    let ended = match start(&bus, &options, &spans, &stop).await {
        Ok(Some(node)) => node.run(stop).await,
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    publisher.stop().await;
    ended
}

/// Starts a node as soon as every stream has a leader; `None` when it is told to stop before.
async fn start(
    bus: &Bus,
    options: &Options,
    spans: &Spans,
    stop: &CancellationToken,
) -> Result<Option<node::Node>, Error> {
    loop {
        let started = node::Node::start(bus.clone(), options.clone(), spans.clone(), stop.clone());
        let why = match Box::pin(started).await {
            Ok(node) => return Ok(Some(node)),
            Err(Error::Bus(
                why @ (cronstream_bus::Error::Unavailable { .. }
                | cronstream_bus::Error::TimedOut { .. }),
            )) => why,
            Err(error) => return Err(error),
        };
        tracing::warn!(%why, "cannot start yet");
        tokio::select! {
            () = stop.cancelled() => return Ok(None),
            () = tokio::time::sleep(START_RETRY) => {}
        }
    }
}
