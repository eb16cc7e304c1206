//! The decisions of Cronstream, pure: no clock, no randomness, no I/O, no async.
//!
//! Invariant: every function takes `now` as an argument and returns events or an order; state is a fold of
//! events, and replay and the live path call the same `apply`.

mod apply;
pub mod attempt;
pub mod clock;
pub mod definition;
mod draft;
mod early;
pub mod job;
mod keys;
pub mod lease;
pub mod message;
pub mod misfire;
pub mod partition;
pub mod plan;
pub mod position;
pub mod retry;
pub mod schedule;
pub mod shard;
pub mod turn;
mod view;
