//! The wall clock, read in one place.
//!
//! An executor's clock decides only what may stay undone: a start after the run's hard end, a late append.

use cronstream_schemas::time::Timestamp;

/// Now.
pub(crate) fn now() -> Timestamp {
    chrono::Utc::now().into()
}
