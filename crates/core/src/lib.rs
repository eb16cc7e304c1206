//! The decisions of Cronstream, pure: no clock, no randomness, no I/O, no async.
//!
//! Invariant: every function takes `now` as an argument and returns events or an order; state is a fold of
//! events, and replay and the live path call the same `apply`.

pub mod alone;
mod apply;
pub mod attempt;
pub mod backfill;
mod behind;
pub mod calendar;
pub mod clock;
pub mod definition;
mod draft;
pub mod due;
mod early;
mod fire;
pub mod forecast;
pub mod held;
pub mod job;
mod jobs;
mod keys;
pub mod lease;
pub mod live;
pub mod message;
pub mod misfire;
mod objects;
pub mod overrides;
pub mod partition;
pub mod plan;
pub mod position;
mod release;
pub mod retry;
mod runs;
pub mod schedule;
pub mod shard;
mod shared;
mod tables;
pub mod turn;
pub mod uses;
mod view;
