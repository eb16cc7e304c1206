//! Events: what tickers append to CRON_LOG and CRON_DEAD, and executors to CRON_RUNS.
//!
//! Invariant: an event is written `{"<kind>": {…}}`; a field or kind that was shipped is never reused. A kind
//! this binary does not know decodes to [`Decoded::Unknown`], never to an error.

mod log;
mod overrides;
mod run;

use std::cell::RefCell;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::log::*;
pub use self::overrides::*;
pub use self::run::*;
use crate::json::Fields;

/// An event, or the kind of one that a later version wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded<E> {
    /// An event this binary knows.
    Known(E),
    /// One it does not.
    Unknown {
        /// Its kind, cut to 64 characters.
        kind: String,
    },
}

/// The largest room that is kept for the next event of a thread.
const SCRATCH_MAX_BYTES: usize = 64 * 1024;

thread_local! {
    /// Where events are written before their length is known: what a body takes is what it is long.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A body that is no event of any version.
#[derive(Debug, thiserror::Error)]
#[error("not an event: {0}")]
pub struct DecodeError(#[from] serde_json::Error);

/// An event as it is stored: one object whose only field is named by the kind.
pub trait Event: Serialize + DeserializeOwned {
    /// The kinds this binary knows.
    const KNOWN: &'static [&'static str];

    /// The event's JSON.
    fn encode(&self) -> Vec<u8> {
        self.with_encoded(<[u8]>::to_vec)
    }

    /// Hands the event's JSON to `read`, which keeps what it needs of it and encodes no other event meanwhile.
    fn with_encoded<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.clear();
            serde_json::to_writer(&mut *scratch, self).expect("events have string keys only");
            let read = read(scratch);
            scratch.shrink_to(SCRATCH_MAX_BYTES);
            read
        })
    }

    /// Reads an event.
    ///
    /// # Errors
    /// When the body is not an object of one field, or its kind is known and its body is not.
    fn decode(body: &[u8]) -> Result<Decoded<Self>, DecodeError> {
        let error = match serde_json::from_slice(body) {
            Ok(event) => return Ok(Decoded::Known(event)),
            Err(error) => error,
        };
        match kind(body) {
            Some(kind) if !Self::KNOWN.contains(&kind.as_str()) => Ok(Decoded::Unknown { kind }),
            Some(_) | None => Err(error.into()),
        }
    }
}

/// The kind that a body names, cut to 64 characters, whatever else it says; none of what is no event of any version.
#[must_use]
pub fn kind(body: &[u8]) -> Option<String> {
    match &serde_json::from_slice::<Fields<'_>>(body).ok()?.0[..] {
        [(kind, _)] => Some(kind.chars().take(64).collect()),
        _ => None,
    }
}
