//! Executors by real processes against a real nats-server: they die, freeze, drain and come back, and every run keeps
//! one result.
//!
//! What a task does and when it ends is the test's to say: `ask` is answered by the test itself, `hold` waits for a
//! file. Time passes by the slots of a job that nobody runs.

mod cancels;
mod crashes;
mod drains;
mod load;
mod outcomes;
mod queues;
mod responder;
mod retries;
mod stage;
mod timers;
mod web;
mod zombies;
