//! From an event to the message that carries it: subject, lifetime, roll-up, id.
//!
//! Invariant: nothing live ever vanishes by TTL: a fire outlives its run's hard end and retention, a job's state,
//! a held slot and a cursor never expire (`design.md` §2, §4).

use std::fmt::Write as _;
use std::time::Duration;

use cronstream_schemas::event::{Cause, Fired, LogEvent};
use cronstream_schemas::header;
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::time::Timestamp;

use crate::keys;

/// How long accepted revisions are kept.
pub const HISTORY_FOR: Duration = Duration::from_secs(400 * 86_400);
/// How long refused commands are kept.
pub const REJECTED_FOR: Duration = Duration::from_secs(30 * 86_400);
/// How long skipped slots, and the tombstones of held ones, are kept.
pub const SKIPPED_FOR: Duration = Duration::from_secs(30 * 86_400);

/// How long a message is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// For ever, or until it is rolled up.
    Never,
    /// This long.
    For(Duration),
}

/// How an event is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// Its subject.
    pub subject: String,
    /// How long it is kept.
    pub keep: Keep,
    /// Whether it takes the place of its subject's earlier messages.
    pub rollup: bool,
    /// The id by which the stream refuses a second copy.
    pub message_id: Option<String>,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
}

/// A fire's id, in room that it fills.
fn message_id(fired: &Fired) -> String {
    let mut id = String::with_capacity(48);
    write!(id, "{}", fired.id()).expect("a string grows");
    id
}

/// The envelope of an event that is published at `now`.
#[must_use]
pub fn envelope(prefix: &Prefix, event: &LogEvent, now: Timestamp) -> Envelope {
    let plain = |subject, keep| Envelope {
        subject,
        keep,
        rollup: false,
        message_id: None,
        headers: Vec::new(),
    };
    let state = |subject| Envelope { rollup: true, ..plain(subject, Keep::Never) };
    match event {
        LogEvent::JobDefined(e)
        | LogEvent::JobPaused(e)
        | LogEvent::JobResumed(e)
        | LogEvent::JobOverridden(e)
        | LogEvent::JobDeleted(e) => state(prefix.job(&e.job)),
        LogEvent::JobRevised(e) => plain(prefix.history(&e.job), Keep::For(HISTORY_FOR)),
        LogEvent::Fired(e) => {
            let until = match e.cause {
                Cause::Slot(_) | Cause::Backfill(_) => e.keep_until,
                Cause::Trigger(_) => keys::keep_until(e),
            };
            // The batch puts its own header beside it.
            let mut headers = Vec::with_capacity(2);
            headers.push((header::TRACEPARENT, e.traceparent.clone()));
            Envelope {
                message_id: Some(message_id(e)),
                headers,
                ..plain(prefix.fire(&e.queue, &e.job), Keep::For(until.since(now)))
            }
        }
        LogEvent::Held(e) => match &e.range {
            None => plain(prefix.held(&e.job, e.slot), Keep::Never),
            Some(range) => state(prefix.held_range(&e.job, &range.id)),
        },
        LogEvent::HeldEnded(e) => {
            let subject = match &e.range {
                None => prefix.held(&e.job, e.slot),
                Some(id) => prefix.held_range(&e.job, id),
            };
            Envelope { rollup: true, ..plain(subject, Keep::For(SKIPPED_FOR)) }
        }
        LogEvent::Skipped(e) => plain(prefix.skipped(&e.job), Keep::For(SKIPPED_FOR)),
        LogEvent::Rejected(e) => plain(prefix.rejected(e.job.as_ref()), Keep::For(REJECTED_FOR)),
        LogEvent::Cursor(e) => state(prefix.cursor(e.partition)),
        LogEvent::Meta(_) => plain(prefix.meta(), Keep::Never),
        LogEvent::CalendarDefined(e) | LogEvent::CalendarDeleted(e) => {
            state(prefix.calendar(&e.calendar))
        }
        LogEvent::CalendarRevised(e) => {
            plain(prefix.calendar_history(&e.calendar), Keep::For(HISTORY_FOR))
        }
    }
}
