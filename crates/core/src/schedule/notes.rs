//! What clock changes do to the slots of a job, in words.
//!
//! Invariant: a note is made of the change itself and of counts; no slot is walked.

use cronstream_schemas::definition::{Fold, Gap};

use super::{civil::DAY, days::Day, fields::Pace, slots::Slots, table::Piece};

/// Which way the clock goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoteKind {
    /// Forward: wall times are left out.
    Gap,
    /// Back: wall times come twice.
    Fold,
}

/// What one clock change does to slots of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The instant of the change (Unix milliseconds).
    pub at_ms: i64,
    /// Which way the clock goes.
    pub kind: NoteKind,
    /// How many of the job's wall times lie in the gap or the fold.
    pub slots: u64,
    /// The first and the last instant at which they run (Unix milliseconds); none if they do not.
    pub due_ms: Option<(i64, i64)>,
    /// The change, the wall times, and what becomes of them.
    pub words: String,
}

/// The clock changes from `from_ms` to `through_ms` (Unix milliseconds, both included) that do
/// something to the slots. A job that just follows elapsed time through a change, such as
/// `*/15 * * * *`, is left alone by it.
#[must_use]
pub fn clock_change_notes(slots: &Slots<'_>, from_ms: i64, through_ms: i64) -> Vec<Note> {
    let pieces = slots.zone.changed_pieces(from_ms, through_ms);
    pieces.filter_map(|piece| note(slots, piece)).collect()
}

/// The note on the change that begins `piece`, which is of a table where a gap is owed below the
/// piece's start and a fold taken from it.
fn note(slots: &Slots<'_>, piece: &Piece) -> Option<Note> {
    let (start, matches) = (piece.civil_start(), slots.matches());
    let (kind, low, high, chosen) = if piece.low < start {
        (NoteKind::Gap, piece.low, start, slots.rules.gap.is_some())
    } else {
        (NoteKind::Fold, start, piece.low, slots.rules.fold.is_some())
    };
    let count = matches.count_between(low, high);
    if count == 0 {
        return None;
    }
    let length = high - low;
    // What would be due in the same stretch of time on a day without the change is due now.
    let undisturbed = || {
        count == matches.count_between(high, high + length)
            && count == matches.count_twice(low, high, length)
    };
    if !chosen && slots.cron.pace == Pace::Elapsed && undisturbed() {
        return None;
    }
    let (first, last) = (matches.first_in(low, high)?, matches.last_in(low, high)?);
    let times = if count == 1 {
        time(first)
    } else {
        format!("{count} times from {} to {}", time(first), time(last))
    };
    let (before, after) = (piece.offset_before(), piece.offset());
    let day = Day::from_number(low.div_euclid(DAY))?;
    let zone = slots.zone.name();
    let words = match kind {
        NoteKind::Gap => {
            let end = time_on(start, day);
            let moved = (first - before + after, last - before + after);
            let fate = gap_fate(slots.gap(), moved, &end, day);
            let (low, verb) = (time(low), if count == 1 { "does" } else { "do" });
            format!("{zone} goes from {low} to {end} on {day}: {times} {verb} not exist {fate}")
        }
        NoteKind::Fold => {
            let fate = match slots.fold() {
                Fold::First => "the first time only",
                Fold::Last => "the second time only",
                Fold::Both => "both times",
            };
            let s = if count == 1 { "s" } else { "" };
            let (from, to) = (time_on(high, day), time(low));
            let change = format!("{zone} goes from {from} back to {to} on {day}");
            format!("{change}: {times} come{s} twice and run{s} {fate}")
        }
    };
    let due = match (kind, slots.gap(), slots.fold()) {
        (NoteKind::Gap, Gap::End, _) => Some((piece.start, piece.start)),
        (NoteKind::Gap, Gap::Skip, _) => None,
        (NoteKind::Gap, Gap::Before, _) | (NoteKind::Fold, _, Fold::First) => {
            Some((first - before, last - before))
        }
        (NoteKind::Fold, _, Fold::Last) => Some((first - after, last - after)),
        (NoteKind::Fold, _, Fold::Both) => Some((first - before, last - after)),
    };
    let due_ms = due.map(|(first, last)| (first * 1_000, last * 1_000));
    Some(Note { at_ms: piece.start * 1_000, kind, slots: count, due_ms, words })
}

/// What becomes of times in a gap; by the offset before it they are `first` to `last`.
fn gap_fate(gap: Gap, (first, last): (i64, i64), end: &str, day: Day) -> String {
    match (gap, first == last) {
        (Gap::End, true) => format!("and runs once, at {end}"),
        (Gap::End, false) => format!("and run once together, at {end}"),
        (Gap::Skip, true) => "and does not run".into(),
        (Gap::Skip, false) => "and do not run".into(),
        (Gap::Before, true) => format!("and runs at {}", time_on(first, day)),
        (Gap::Before, false) => {
            format!("and run from {} to {}", time_on(first, day), time_on(last, day))
        }
    }
}

/// The time of the day of a civil second, with seconds only if there are some.
fn time(civil: i64) -> String {
    let time = civil.rem_euclid(DAY);
    let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
    if second == 0 {
        format!("{hour:02}:{minute:02}")
    } else {
        format!("{hour:02}:{minute:02}:{second:02}")
    }
}

/// The time of a civil second, with its day if that is not `day`.
fn time_on(civil: i64, day: Day) -> String {
    match Day::from_number(civil.div_euclid(DAY)) {
        Some(other) if other != day => format!("{other} {}", time(civil)),
        Some(_) | None => time(civil),
    }
}
