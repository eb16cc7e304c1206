//! The calendar: from a cron expression and a zone to the instants at which a job is due.
//!
//! ```text
//! "30 2 * * 1-5" ─ grammar ─► Cron (bit masks) ─ fields ─► civil matches ─┐
//!                                                                        ├─ slots ─► instants
//! "Europe/Berlin" ─ bundled tzdb ─► Zone (segments of one offset each) ──┘
//! ```
//!
//! Instants are Unix milliseconds. The `cron` crate expands the fields of an expression and does
//! nothing else; the instants are ours. Clock changes are handled as Debian cron does it; see
//! `slots` for the rule.
//!
//! Invariant: pure. The answer depends on the expression, the zone and the instant, never on the
//! clock or the zone of the host.

mod civil;
mod error;
mod fields;
mod grammar;
mod slots;
mod zone;

pub use error::ParseError;
pub use fields::Cron;
pub use zone::{Zone, ZoneError};
