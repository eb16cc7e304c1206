//! Metrics: what a node counts, and how Prometheus reads it.
//!
//! ```text
//!   scheduler ─ TickerMetrics ───┐                  ┌─ /metrics   the families
//!   executor ── ExecutorMetrics ─┼─► Page ─► serve ─┼─ /healthz   the node's loop turns
//!   relay ───── RelayMetrics ────┘                  └─ /readyz    it can do its work
//! ```
//!
//! Invariants: every label set is bounded ([`NAMES_MAX`] tasks or queues, 32 partitions; no job, run or worker);
//! counting never waits and never fails; `docs/reference/metrics.md` is made from the same families.

mod book;
mod executor;
mod health;
mod labels;
mod node;
mod page;
mod relay;
mod serve;
mod ticker;

pub use book::{Definition, reference};
pub use executor::{ExecutorMetrics, START_BUCKETS};
pub use health::LOOP_MAX;
pub use labels::NAMES_MAX;
pub use page::Page;
pub use relay::RelayMetrics;
pub use serve::{CONNECTIONS_MAX, Endpoint};
pub use ticker::{BatchEnd, TickerMetrics};
