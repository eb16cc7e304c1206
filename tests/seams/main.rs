//! The seams of the scheduler by real processes against a real nats-server: between a batch and its answer, between
//! two leaders, between an edit and what was owed before it, between a stream and its backup.
//!
//! Every scenario that leaves the streams whole ends with the checker; the others read the streams themselves.

mod catch_up;
mod cold_start;
mod crashes;
mod editing;
mod foreign;
mod hold;
mod installation;
mod live_runs;
mod objects;
mod resets;
mod stage;
mod standing;
mod upgrades;
