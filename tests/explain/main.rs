//! `cronstream explain`: what it says of slots that met real faults, and how long it takes on a long log.

mod faults;
mod long_log;
mod outcomes;
mod stage;
