//! The bus against real nats-servers: one, and a cluster of three.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on says so by a panic"
)]

mod append;
mod batch;
mod cluster;
mod connection;
mod follow;
mod lease;
mod logins;
mod pull;
mod server;
mod service;
mod topology;
