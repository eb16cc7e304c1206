//! A partition from the outside: what its leader answers to commands, run events and time.
//!
//! A case is a script of inputs; under each input stand the events, verdicts and appends that it must bring
//! (`script.rs`). Every case also folds its log in several orders and checks the laws of every batch (`world.rs`).

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bounds;
mod cancels;
mod clock;
mod commands;
mod editing;
mod foreign;
mod hold;
mod laws;
mod misfires;
mod overlap;
mod runs;
mod script;
mod slots;
mod triggers;
mod world;
