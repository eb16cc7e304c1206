//! The relay: batches of spans from CRON_TRACES to a collector, by OTLP over HTTP.
//!
//! ```text
//!   fetch ─► post ─┬─ taken ────────────────────────────► ack
//!                  ├─ refused for good, or no spans ────► count, ack
//!                  └─ anything else ─► hand back ─► wait ─► fetch
//! ```
//!
//! Invariant: a batch is acknowledged only when the collector has taken it or never will, so a collector may be
//! away for as long as CRON_TRACES keeps what it has not seen. At most [`FETCH`] batches are held here.

mod collector;
mod state;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use cronstream_bus::{Bus, Delivery, Queue, ServiceInfo};
use cronstream_schemas::name::Name;
use futures::{StreamExt, stream};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

pub use self::collector::RelayError;
use self::collector::{Collector, Sent};
use self::state::State;
use crate::metrics::RelayMetrics;

/// Batches that are fetched at a time.
const FETCH: usize = 16;
/// Batches that are sent at a time.
const IN_FLIGHT: usize = 4;
/// How long a fetch waits for batches.
const FETCH_WAIT: Duration = Duration::from_secs(2);
/// The first and the longest wait before a collector that failed is tried again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));
/// How long what is being sent may take when the relay is told to stop.
const STOP_WITHIN: Duration = Duration::from_secs(3);
/// How often the batches that wait are counted.
const COUNT_EVERY: Duration = Duration::from_secs(5);
/// How often the metrics take the relay's report.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// How a relay is started.
#[derive(Debug, Clone)]
pub struct RelayOptions {
    /// The node's name.
    pub node: Name,
    /// Where the collector takes OTLP over HTTP, without `/v1/traces`.
    pub collector: String,
    /// Headers beside ours, such as a token.
    pub headers: Vec<(String, String)>,
    /// What the relay counts; serving it is the caller's.
    pub metrics: RelayMetrics,
}

/// A relay.
#[derive(Debug)]
pub struct Relay {
    bus: Bus,
    collector: Collector,
    state: Arc<State>,
    metrics: RelayMetrics,
}

impl Relay {
    /// A relay on a connection that is there.
    ///
    /// # Errors
    /// When the collector's address or a header cannot be used.
    pub fn new(bus: Bus, options: &RelayOptions) -> Result<Self, RelayError> {
        let collector = Collector::new(&options.collector, &options.headers)?;
        let state = State::new(options.node.clone(), collector.shown());
        let metrics = options.metrics.clone();
        Ok(Self { bus, collector, state: Arc::new(state), metrics })
    }

    /// Hands batches on until `stop` is cancelled; what is not taken by then comes again.
    ///
    /// # Errors
    /// When there is no stream of spans or the user may not pull from it.
    pub async fn run(self, stop: CancellationToken) -> Result<(), RelayError> {
        let (state, metrics) = (Arc::clone(&self.state), self.metrics.clone());
        // In one task with the loop: when that hangs, the reports end.
        tokio::select! {
            ended = Box::pin(self.serve(stop)) => ended,
            never = reports(&state, &metrics) => match never {},
        }
    }

    async fn serve(self, stop: CancellationToken) -> Result<(), RelayError> {
        let state = Arc::clone(&self.state);
        let info = ServiceInfo {
            role: "relay".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            metadata: [("node".to_owned(), state.node().to_string())].into(),
        };
        let serving = self.bus.serve(info, move || state.report()).await?;
        let Some(queue) = self.ensure(&stop).await? else { return Ok(()) };
        tracing::info!(collector = self.collector.shown(), "relay is ready");
        self.work(&queue, &stop).await;
        if let Err(error) = self.bus.flush().await {
            tracing::warn!(%error, "the last acknowledgements may be lost: some batches come twice");
        }
        serving.stop().await;
        Ok(())
    }

    /// Makes the durable; `None` when it is time to stop before that worked.
    async fn ensure(&self, stop: &CancellationToken) -> Result<Option<Queue>, RelayError> {
        use cronstream_bus::Error as Bus;
        let mut backoff = Backoff::default();
        loop {
            let error = match self.bus.ensure_relay().await {
                Ok(queue) => {
                    self.state.pulls(None);
                    return Ok(Some(queue));
                }
                Err(error @ (Bus::Unavailable { .. } | Bus::TimedOut { .. })) => error,
                Err(error) => return Err(error.into()),
            };
            tracing::warn!(%error, "the relays' consumer is not there yet");
            self.state.pulls(Some(format!("cannot pull spans: {error}")));
            if !pause(backoff.delay(), stop).await {
                return Ok(None);
            }
        }
    }

    async fn work(&self, queue: &Queue, stop: &CancellationToken) {
        let mut backoff = Backoff::default();
        let mut counted: Option<Instant> = None;
        while !stop.is_cancelled() {
            if counted.is_none_or(|at| at.elapsed() > COUNT_EVERY) {
                counted = Some(Instant::now());
                // Only a figure for the status.
                let state = self.bus.relay_state().await.ok().flatten();
                self.state.waiting(state.map(|state| state.pending + state.unsettled));
            }
            let fetched = tokio::select! {
                fetched = queue.fetch(FETCH, FETCH_WAIT) => fetched,
                () = stop.cancelled() => return,
            };
            if fetched.is_ok() {
                self.state.pulls(None);
            }
            let wait = match fetched {
                Ok(deliveries) if deliveries.is_empty() => None,
                Ok(deliveries) => self.forward(&deliveries, stop).await,
                Err(error) => {
                    tracing::warn!(%error, "cannot pull spans");
                    self.state.pulls(Some(format!("cannot pull spans: {error}")));
                    Some(Duration::ZERO)
                }
            };
            match wait {
                None => backoff.reset(),
                Some(least) => {
                    pause(backoff.delay().max(least), stop).await;
                }
            }
        }
    }

    /// Sends batches; how long to wait at least when some of them must be sent again.
    async fn forward(&self, deliveries: &[Delivery], stop: &CancellationToken) -> Option<Duration> {
        let failed = CancellationToken::new();
        let sends = stream::iter(deliveries)
            .map(|delivery| self.one(delivery, &failed))
            .buffer_unordered(IN_FLIGHT)
            .fold(None, async |longest: Option<Duration>, wait| longest.max(wait));
        let stopped = async {
            stop.cancelled().await;
            failed.cancel();
            tokio::time::sleep(STOP_WITHIN).await;
        };
        tokio::select! {
            wait = sends => wait,
            () = stopped => None,
        }
    }

    /// Sends one batch and settles it, unless another one has just failed.
    async fn one(&self, delivery: &Delivery, failed: &CancellationToken) -> Option<Duration> {
        let sent = if failed.is_cancelled() {
            Sent::Again { after: Duration::ZERO, why: None }
        } else {
            self.collector.send(&delivery.message.payload).await
        };
        let (settled, wait) = match sent {
            Sent::Taken { spans, rejected, words } => {
                self.state.taken(spans, rejected);
                if rejected > 0 {
                    tracing::warn!(rejected, words, "the collector took a batch but not all of it");
                }
                (delivery.ack().await, None)
            }
            Sent::Refused { why } => {
                self.state.refused();
                let seq = delivery.message.seq;
                tracing::error!(
                    seq,
                    why,
                    "a batch of spans is lost: the collector does not want it"
                );
                (delivery.ack().await, None)
            }
            Sent::Again { after, why } => {
                failed.cancel();
                if let Some(why) = why {
                    self.state.failed(&why);
                }
                (delivery.nak(Duration::ZERO).await, Some(after))
            }
        };
        if let Err(error) = settled {
            tracing::debug!(%error, "a batch was not settled: it comes again");
        }
        wait
    }
}

async fn reports(state: &State, metrics: &RelayMetrics) -> Infallible {
    let mut due = tokio::time::interval(REPORT_EVERY);
    loop {
        due.tick().await;
        metrics.report(&state.status());
    }
}

/// Waits; `false` when it is time to stop.
async fn pause(delay: Duration, stop: &CancellationToken) -> bool {
    timeout(delay, stop.cancelled()).await.is_err()
}

/// Waits that double up to a bound, each shortened by up to a half, so that many do not try in step.
#[derive(Debug)]
struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(BACKOFF.0)
    }
}

impl Backoff {
    const fn reset(&mut self) {
        self.0 = BACKOFF.0;
    }

    fn delay(&mut self) -> Duration {
        let (_, bits) = uuid::Uuid::new_v4().as_u64_pair();
        let share = f64::from((bits & 0xFFFF_FFFF) as u32) / f64::from(u32::MAX);
        let delay = self.0.mul_f64(1.0 - share / 2.0);
        self.0 = self.0.saturating_mul(2).min(BACKOFF.1);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_within_their_bounds() {
        let mut backoff = Backoff::default();
        for millis in [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
            let delay = backoff.delay().as_millis();
            assert!((millis / 2..=millis).contains(&delay), "{delay} for {millis}");
        }
        backoff.reset();
        assert!(backoff.delay() <= BACKOFF.0);
    }
}
