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
    let first = matches.first_in(low, high)?;
    let times = if count == 1 {
        time(first)
    } else {
        let last = matches.last_in(low, high)?;
        format!("each of {count} times from {} to {}", time(first), time(last))
    };
    let day = Day::from_number(low.div_euclid(DAY))?;
    let zone = slots.zone.name();
    let words = match kind {
        NoteKind::Gap => {
            let end = time_on(start, day);
            let fate = gap_fate(slots.gap(), first + piece.offset() - piece.offset_before(), &end);
            let low = time(low);
            format!("{zone} goes from {low} to {end} on {day}: {times} does not exist {fate}")
        }
        NoteKind::Fold => {
            let fate = match slots.fold() {
                Fold::First => "and runs the first time only",
                Fold::Last => "and runs the second time only",
                Fold::Both => "and runs both times",
            };
            let (from, to) = (time_on(high, day), time(low));
            format!("{zone} goes from {from} back to {to} on {day}: {times} comes twice {fate}")
        }
    };
    Some(Note { at_ms: piece.start * 1_000, kind, slots: count, words })
}

/// What becomes of times in a gap, the first of which is `moved` by the offset before.
fn gap_fate(gap: Gap, moved: i64, end: &str) -> String {
    match gap {
        Gap::End => format!("and runs once, at {end}"),
        Gap::Skip => "and does not run".into(),
        Gap::Before => format!("and runs as long after the change, from {} on", time(moved)),
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
