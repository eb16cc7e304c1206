//! The contract on the wire: names, ids, definitions, commands, events, subjects and headers.
//!
//! Invariant: a value of a type in this crate is valid because it exists. Input is parsed once, at the
//! edge, by these types; a shipped field or variant is never reused or removed (`golden/` decodes for ever).

pub mod calendar;
pub mod command;
pub mod definition;
pub mod duration;
pub mod event;
pub mod fault;
pub mod header;
pub mod id;
pub mod json;
pub mod name;
pub mod status;
pub mod subject;
mod text;
pub mod time;
pub mod trace;
pub mod verdict;
