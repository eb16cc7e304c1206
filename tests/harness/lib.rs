//! The harness of the system tests: a real nats-server, real processes, faults, and a checker of what came of it.
//!
//! Nothing here goes through the code under test but the calendar and the wire types: tests publish and read as a
//! foreign client does.

pub mod backup;
pub mod checker;
pub mod client;
pub mod crew;
pub mod effect;
pub mod exclusive;
pub mod faults;
pub mod history;
pub mod jetstream;
pub mod nats;
pub mod ports;
pub mod process;
pub mod proxy;
pub mod record;
pub mod sample;
pub mod sink;
pub mod streams;
pub mod verb;
pub mod world;
pub mod writer;
