//! A log line for each decision.
//!
//! Invariant: a line tells what was decided about which job, never what a definition or its params hold.

use cronstream_core::turn::Batch;
use cronstream_schemas::event::{
    CalendarState, Cause, Cursor, JobState, LogEvent, Skipped, SkippedWhat,
};

/// Logs the events of a batch that is stored.
pub(crate) fn log(batch: &Batch) {
    for planned in &batch.events {
        decision(&batch.cursor, &planned.event);
    }
}

fn decision(cursor: &Cursor, event: &LogEvent) {
    let (partition, epoch) = (cursor.partition.0, cursor.epoch.0);
    match event {
        LogEvent::JobDefined(state) => job(cursor, "job defined", state),
        LogEvent::JobPaused(state) => job(cursor, "job paused", state),
        LogEvent::JobResumed(state) => job(cursor, "job resumed", state),
        LogEvent::JobDeleted(state) => job(cursor, "job deleted", state),
        LogEvent::JobOverridden(state) => job(cursor, "job overridden", state),
        LogEvent::CalendarDefined(state) => calendar(cursor, "calendar defined", state),
        LogEvent::CalendarDeleted(state) => calendar(cursor, "calendar deleted", state),
        LogEvent::Fired(e) => {
            let cause = match e.cause {
                Cause::Slot(_) => "slot",
                Cause::Trigger(_) => "trigger",
                Cause::Backfill(_) => "backfill",
            };
            tracing::info!(
                job = %e.job, slot = %e.scheduled_at, run = %e.run, shard = e.shard, fire_no = e.fire_no, cause,
                revision = e.revision.0, queue = %e.queue, task = %e.task, partition, epoch, "fired"
            );
        }
        LogEvent::Held(e) => {
            let revision = e.revision.0;
            tracing::info!(job = %e.job, slot = %e.slot, revision, why = ?e.why, partition, epoch, "held");
        }
        LogEvent::Skipped(e) => skipped(cursor, e),
        LogEvent::Rejected(e) => {
            let job = e.job.as_ref().map(ToString::to_string);
            let verb = e.verb.map(|verb| verb.to_string());
            let run = e.duplicate_of.map(|run| run.to_string());
            tracing::info!(
                job,
                verb,
                run,
                command = e.command,
                faults = e.faults.len(),
                partition,
                epoch,
                "rejected"
            );
        }
        // The record of a definition and the tombstone of a held slot belong to the decision beside them; the cursor
        // is none, and the settings are not a ticker's.
        LogEvent::JobRevised(_)
        | LogEvent::CalendarRevised(_)
        | LogEvent::HeldEnded(_)
        | LogEvent::Cursor(_)
        | LogEvent::Meta(_) => {}
    }
}

fn job(cursor: &Cursor, what: &'static str, state: &JobState) {
    tracing::info!(
        job = %state.job, revision = state.revision.0, command = state.command,
        partition = cursor.partition.0, epoch = cursor.epoch.0, "{what}"
    );
}

fn calendar(cursor: &Cursor, what: &'static str, state: &CalendarState) {
    tracing::info!(
        calendar = %state.calendar, revision = state.revision.0, command = state.command,
        partition = cursor.partition.0, epoch = cursor.epoch.0, "{what}"
    );
}

fn skipped(cursor: &Cursor, skipped: &Skipped) {
    let (partition, epoch) = (cursor.partition.0, cursor.epoch.0);
    let Skipped { job, revision, reason, what, .. } = skipped;
    let (revision, reason) = (revision.0, reason.as_str());
    match what {
        SkippedWhat::Slots { first, last, count } => tracing::info!(
            %job, slot = %first, through = %last, count, revision, reason, partition, epoch, "skipped"
        ),
        SkippedWhat::Trigger(trigger) => tracing::info!(
            %job, command = trigger.command, revision, reason, partition, epoch, "trigger skipped"
        ),
    }
}
