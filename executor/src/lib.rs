//! The executor node and the Rust SDK: it pulls the fires of one queue, runs their tasks and stores what came
//! of them.
//!
//! ```text
//!   builder ─► worker ─► attempt ─► handlers (command, http, nats, function)
//!                          └─► store ─► journal (group commit)
//! ```
//!
//! A task is an async function from params to a result:
//!
//! ```no_run
//! use cronstream_executor::{ConnectOptions, Error, Executor, TaskContext, TaskError};
//! use tokio_util::sync::CancellationToken;
//!
//! #[derive(serde::Deserialize)]
//! struct Report {
//!     customer: String,
//! }
//!
//! async fn report(context: TaskContext, report: Report) -> Result<String, TaskError> {
//!     Ok(format!("report for {}, attempt {}", report.customer, context.attempt))
//! }
//!
//! # async fn example() -> Result<(), Error> {
//! let stop = CancellationToken::new(); // cancel it on Ctrl-C and SIGTERM
//! let options = ConnectOptions { servers: vec!["nats://127.0.0.1:4222".into()], ..Default::default() };
//! Executor::connect(options).await?.queue("reports").task("report", report).run(stop).await
//! # }
//! ```
//!
//! `examples/report.rs` is a whole program, `docs/reference/sdk.md` the reference.
//!
//! Invariants: executors know work, not time: retries, deadlines and lost runs are the leader's. A result
//! counts because the store took it; `core::attempt` decides, this crate only acts (`design.md` §4).

mod attempt;
mod backoff;
mod builder;
mod clock;
mod decisions;
mod error;
mod handlers;
mod journal;
mod pace;
mod state;
mod store;
mod task;
mod tasks_file;
mod trace;
mod worker;

pub use builder::{CONCURRENCY_MAX, Executor, ExecutorBuilder};
pub use cronstream_bus::ConnectOptions;
pub use cronstream_schemas::id::RunId;
pub use cronstream_schemas::json::Json;
pub use cronstream_schemas::name::{JobId, Name};
pub use cronstream_schemas::time::Timestamp;
pub use cronstream_telemetry::TaskSpans;
pub use cronstream_telemetry::metrics::{Endpoint, ExecutorMetrics};
pub use error::Error;
pub use task::{TaskContext, TaskError};
pub use tasks_file::{FILE_MAX_BYTES, Fault, check_tasks_file};
