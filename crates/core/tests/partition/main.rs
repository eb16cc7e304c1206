//! A partition from the outside: what its leader answers to commands, run events and time.
//!
//! A case is a script of inputs; under each input stand the events, verdicts and appends that it must bring
//! (`script.rs`). Every case also folds its log in several orders and checks the laws of every batch (`world.rs`).

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod ahead;
mod alone;
mod attack;
mod backfills;
mod behind;
mod bounds;
mod calendars;
mod cancels;
mod catch_up;
mod clock;
mod commands;
mod costs;
mod editing;
mod fixed_delays;
mod foreign;
mod hold;
mod jitter;
mod laws;
mod live;
mod misfires;
mod overlap;
mod overrides;
mod runs;
mod script;
mod slots;
mod triggers;
mod world;
