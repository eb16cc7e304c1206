//! Traces: the spans of runs, on their way from the nodes to a collector.
//!
//! ```text
//!   ticker: fire ──────────────┐
//!   executor: queue wait,      ├─► Spans (bounded, never waits) ─► Publisher ─► CRON_TRACES ─► Relay ─► OTLP/HTTP
//!     attempt, handler ────────┤
//!   tracing spans of tasks ────┘
//! ```
//!
//! Invariants: a span's ids are functions of the events it tells of, so that telling it twice tells of one span;
//! nothing that fires or runs ever waits for a span; what is lost is counted.

mod attempt;
mod encoded;
mod fire;
pub mod metrics;
mod moment;
pub mod names;
mod publish;
mod queue;
mod relay;
mod span;
mod tasks;

pub use attempt::{AttemptSpans, HandlerKind, HandlerTimes, Outcome, handler_context};
pub use encoded::Encoded;
pub use fire::StoredFire;
pub use moment::Moment;
pub use publish::{FLUSH_WITHIN, Publisher, Service};
pub use queue::{QUEUE_SPANS, Spans, SpansReceiver};
pub use relay::{Relay, RelayError, RelayOptions};
pub use tasks::{TaskSpans, in_handler};
