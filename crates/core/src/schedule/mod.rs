//! The calendar: from a cron expression and a zone to the instants at which a job is due.
//!
//! ```text
//! "30 2 * * 1-5" ─ grammar ─► Cron (bit masks) ┐
//!                                              ├─ matches ─► civil times ┐
//! calendars ─► DaySet (a bit for each day) ────┘                         ├─ slots ─► instants
//! "Europe/Berlin", gap, fold ─ zone ─► table (pieces of one offset each) ┘
//! ```
//!
//! Instants are Unix milliseconds. The `cron` crate expands the fields of an expression and does
//! nothing else; the instants are ours. By default clock changes are handled as Debian cron does
//! it; see `slots` for the rule, and `table` for how a choice of the job changes it.
//!
//! Invariant: pure. The answer depends on the expression, the zone and the instant, never on the
//! clock or the zone of the host.

mod canonical;
mod civil;
mod days;
mod differences;
mod error;
mod fields;
mod grammar;
mod hash;
mod local;
mod matches;
mod moved;
mod names;
mod notes;
mod open;
mod past;
mod slots;
mod table;
mod union;
pub mod vectors;
mod words;
mod years;
mod zone;

pub use days::{Day, DayError, DaySet};
pub use differences::{Difference, Differences, differences};
pub use error::ParseError;
pub use fields::Cron;
pub(crate) use grammar::read;
pub use grammar::{Lint, Parsed, Rule, lint, parse};
pub use hash::Seed;
pub use local::Transition;
pub use notes::{Note, NoteKind, clock_change_notes};
pub use open::{Open, Windows};
pub use slots::{Rules, Slots};
pub use union::{Part, Union};
pub use zone::{PastError, Zone, ZoneError};
