//! Executors against a real nats-server: fires go in by hand, run events come out.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed setup fails the test")]

mod crashes;
mod drain;
mod handlers;
mod life;
mod load;
mod support;
mod traces;
mod wire;
