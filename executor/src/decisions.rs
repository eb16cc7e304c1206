//! A log line for each start and each end of an attempt, and a warning for each that failed.
//!
//! Invariant: a line tells which attempt it was and how it ended, never params, results or output; of a task's own
//! words only the beginning of a failure's message.

use cronstream_schemas::event::{Failure, FailureKind, Fired, Place, RunEvent};

/// The most characters of a failure's message in the log.
const WHY_CHARS_MAX: usize = 300;

/// An attempt has begun.
pub(crate) fn started(fire: &Fired, place: Place, token: u64) {
    tracing::info!(
        job = %fire.job, slot = %fire.scheduled_at, run = %fire.run, shard = fire.shard, fire_no = place.fire_no,
        delivery = place.delivery, attempt = place.attempt, epoch = fire.epoch.0, task = %fire.task, token, "started"
    );
}

/// An event that ends an attempt is stored.
pub(crate) fn ended(fire: &Fired, event: &RunEvent) {
    let Place { fire_no, delivery, attempt } = event.place();
    let failure = failure(event);
    tracing::info!(
        job = %fire.job, slot = %fire.scheduled_at, run = %fire.run, shard = fire.shard, fire_no, delivery, attempt,
        epoch = fire.epoch.0, task = %fire.task, outcome = event.kind(), failure = failure.map(kind), "ended"
    );
    if let Some(failure) = failure {
        failed(fire, attempt, failure);
    }
}

/// An attempt has failed; why is told as a quoted text, in which control characters are escaped.
fn failed(fire: &Fired, attempt: u32, failure: &Failure) {
    let why: String = failure.message.chars().take(WHY_CHARS_MAX).collect();
    tracing::warn!(job = %fire.job, run = %fire.run, attempt, kind = kind(failure), why = ?why, "attempt failed");
}

/// Another executor, or the leader, was first.
pub(crate) fn refused(fire: &Fired) {
    tracing::info!(
        job = %fire.job, slot = %fire.scheduled_at, run = %fire.run, shard = fire.shard, fire_no = fire.fire_no,
        epoch = fire.epoch.0, "another executor or the leader was first"
    );
}

const fn failure(event: &RunEvent) -> Option<&Failure> {
    match event {
        RunEvent::AttemptFailed(e) => Some(&e.failure),
        RunEvent::Failed(e) => Some(&e.failure),
        RunEvent::Started(_)
        | RunEvent::Interrupted(_)
        | RunEvent::Succeeded(_)
        | RunEvent::Expired(_)
        | RunEvent::Cancelled(_)
        | RunEvent::Lost(_) => None,
    }
}

const fn kind(failure: &Failure) -> &'static str {
    match failure.kind {
        FailureKind::Error => "error",
        FailureKind::Timeout => "timeout",
        FailureKind::Crashed => "crashed",
    }
}
