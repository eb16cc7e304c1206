//! The executor node and the Rust SDK: it pulls the fires of one queue, runs their tasks and stores what came
//! of them.
//!
//! ```text
//!   builder ─► worker ─► attempt ─► handlers (command, http, nats, function)
//!                          └─► store ─► journal (group commit)
//! ```
//!
//! Invariants: executors know work, not time: retries, deadlines and lost runs are the leader's. A result
//! counts because the store took it; `core::attempt` decides, this crate only acts (`design.md` §4).

mod attempt;
mod backoff;
mod builder;
mod clock;
mod error;
mod handlers;
mod journal;
mod state;
mod store;
mod task;
mod tasks_file;
mod worker;

pub use builder::{CONCURRENCY_MAX, Executor, ExecutorBuilder};
pub use cronstream_bus::ConnectOptions;
pub use error::Error;
pub use task::{TaskContext, TaskError};
pub use tasks_file::{FILE_MAX_BYTES, Fault};
