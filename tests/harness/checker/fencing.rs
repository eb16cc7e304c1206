//! Each partition has one writer at a time: cursors rise, and every event belongs to a batch of the leader, or is a
//! fire by itself behind the leader's newest cursor.

use std::collections::BTreeMap;

use cronstream_schemas::event::{Cursor, LogEvent};
use cronstream_schemas::id::{Epoch, Instance, Partition, Tick};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use super::violation::Violation;
use crate::history::{History, Stored};

/// What was found about the leaders.
pub(super) struct Fencing {
    /// What is wrong.
    pub(super) violations: Vec<Violation>,
    /// When a partition got a new leader in place of another.
    pub(super) takeovers: Vec<Timestamp>,
}

/// A partition's newest cursor.
#[derive(Clone, Copy)]
struct Newest {
    epoch: Epoch,
    tick: Tick,
    holder: Instance,
    sequence: u64,
}

/// Checks every event of CRON_LOG against the cursors before and behind it.
pub(super) fn check(history: &History) -> Fencing {
    let mut newest: BTreeMap<Partition, Newest> = BTreeMap::new();
    let mut found = Fencing { violations: Vec::new(), takeovers: Vec::new() };
    let (mut through, mut hole) = (0, 0);
    for (index, stored) in history.log.iter().enumerate() {
        if stored.sequence != through + 1 {
            hole = stored.sequence;
        }
        through = stored.sequence;
        let Some(partition) = partition(&stored.event, history.partitions) else { continue };
        let before = newest.get(&partition).copied();
        let batch = batch(&history.log[index..], partition, history.partitions);
        let is_whole = before.is_some_and(|before| before.sequence >= hole);
        if !(belongs_to(stored, batch, before) || is_by_itself(stored, before, is_whole)) {
            let (subject, sequence) = (stored.subject.clone(), stored.sequence);
            found.violations.push(Violation::Unfenced { subject, sequence, tick: stored.tick });
        }
        if let LogEvent::Cursor(cursor) = &stored.event {
            follow(cursor, stored, before, &mut found);
            let Cursor { epoch, tick, holder, .. } = *cursor;
            let sequence = stored.sequence;
            newest.insert(partition, Newest { epoch, tick, holder, sequence });
        }
    }
    found
}

/// The cursor that ends the batch of the first of `log`.
#[derive(Clone, Copy)]
enum Batch {
    /// It ends with this cursor.
    Ends(Epoch, Tick),
    /// Something that was rolled up, or is not stored yet, stands between.
    Unknown,
    /// Another partition's event follows before any cursor: it is no part of a batch.
    Missing,
}

/// A batch is stored in one piece, so the cursor of an event is the first one behind it, and nothing of another
/// partition stands between.
fn batch(log: &[Stored<LogEvent>], wanted: Partition, partitions: u8) -> Batch {
    let first = log.first().map_or(0, |first| first.sequence);
    for (expected, stored) in (first..).zip(log) {
        if stored.sequence != expected {
            return Batch::Unknown;
        }
        if partition(&stored.event, partitions) != Some(wanted) {
            return Batch::Missing;
        }
        if let LogEvent::Cursor(cursor) = &stored.event {
            return Batch::Ends(cursor.epoch, cursor.tick);
        }
    }
    Batch::Unknown
}

/// Whether the event is of a batch behind the newest cursor, and agrees with what is known of it.
fn belongs_to(stored: &Stored<LogEvent>, batch: Batch, before: Option<Newest>) -> bool {
    let ends = match batch {
        Batch::Ends(epoch, tick) => Some((epoch, tick)),
        Batch::Unknown => None,
        Batch::Missing => return false,
    };
    let Some((epoch, tick)) = stored.tick.or(ends) else { return true };
    let agrees = match &stored.event {
        LogEvent::Fired(fired) => fired.epoch == epoch,
        LogEvent::Cursor(cursor) => (cursor.epoch, cursor.tick) == (epoch, tick),
        LogEvent::JobDefined(_)
        | LogEvent::JobPaused(_)
        | LogEvent::JobResumed(_)
        | LogEvent::JobDeleted(_)
        | LogEvent::JobOverridden(_)
        | LogEvent::CalendarDefined(_)
        | LogEvent::CalendarDeleted(_)
        | LogEvent::CalendarRevised(_)
        | LogEvent::JobRevised(_)
        | LogEvent::Held(_)
        | LogEvent::HeldEnded(_)
        | LogEvent::Skipped(_)
        | LogEvent::Rejected(_)
        | LogEvent::Meta(_) => true,
    };
    let behind = before.is_none_or(|before| epoch >= before.epoch && tick > before.tick);
    // A cursor that does not rise is told apart from an event that slipped in.
    let is_cursor = matches!(stored.event, LogEvent::Cursor(_));
    agrees && ends.is_none_or(|ends| ends == (epoch, tick)) && (behind || is_cursor)
}

/// Whether it is a fire that may be stored without a cursor behind it: of the term of the newest cursor, and of the
/// batch to come. Of a history that is not whole, cursors before it may have been rolled up.
fn is_by_itself(stored: &Stored<LogEvent>, before: Option<Newest>, is_whole: bool) -> bool {
    let LogEvent::Fired(fired) = &stored.event else { return false };
    let (Some(before), Some((epoch, tick))) = (before, stored.tick) else { return !is_whole };
    let is_next = (epoch, tick) == (before.epoch, Tick(before.tick.0 + 1));
    let is_later = epoch >= before.epoch && tick > before.tick;
    fired.epoch == epoch && (is_next || !is_whole && is_later)
}

fn follow(cursor: &Cursor, stored: &Stored<LogEvent>, before: Option<Newest>, found: &mut Fencing) {
    let Some(before) = before else { return };
    let (partition, sequence) = (cursor.partition, stored.sequence);
    if cursor.epoch < before.epoch || cursor.tick <= before.tick {
        let (from, to) = ((before.epoch, before.tick), (cursor.epoch, cursor.tick));
        found.violations.push(Violation::CursorFell { partition, sequence, from, to });
    } else if cursor.epoch > before.epoch {
        found.takeovers.push(stored.at);
    } else if cursor.holder != before.holder {
        let epoch = cursor.epoch;
        found.violations.push(Violation::TwoHolders { partition, epoch, sequence });
    }
}

/// The partition whose leader alone may write the event; `None` for the installation's settings.
fn partition(event: &LogEvent, partitions: u8) -> Option<Partition> {
    let of = |job: &JobId| Some(Partition::of(job, partitions));
    match event {
        LogEvent::JobDefined(state)
        | LogEvent::JobPaused(state)
        | LogEvent::JobResumed(state)
        | LogEvent::JobDeleted(state)
        | LogEvent::JobOverridden(state)
        | LogEvent::JobRevised(state) => of(&state.job),
        LogEvent::Fired(it) => of(&it.job),
        LogEvent::Held(it) => of(&it.job),
        LogEvent::HeldEnded(it) => of(&it.job),
        LogEvent::Skipped(it) => of(&it.job),
        LogEvent::Rejected(it) => it.job.as_ref().map_or(Some(Partition(0)), of),
        LogEvent::Cursor(it) => Some(it.partition),
        LogEvent::CalendarDefined(it)
        | LogEvent::CalendarDeleted(it)
        | LogEvent::CalendarRevised(it) => Some(Partition::of_calendar(&it.calendar, partitions)),
        LogEvent::Meta(_) => None,
    }
}
