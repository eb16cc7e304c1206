//! The clock of a zone as a table: which wall times fire at which instants, for one choice of what
//! a gap and a fold do.
//!
//! ```text
//!               gap (clock forward)         fold (clock back)
//! wall      …─────────┤   ├──────────────────────────┤
//!                     ┊   ┊                    ├─────────────────…
//! piece     ╴ before ╶┊   ╰ low            high╯     ┊
//!                     ╰ what a gap leaves out        ╰ shown twice
//! ```
//!
//! A piece is a stretch of time with one offset, and the range of wall times `low..high` that
//! fires in it. A fold takes a part from the range of the piece after it (`first`) or before it
//! (`last`), or nothing (`both`). A gap is the wall between the highest shown before the piece and
//! the piece's own start: it is added below the range, and owed at the piece's start (`end`), or
//! is read with the offset before (`before`), or is left out (`skip`). So all choices run through
//! the same search. A skipped day (Apia, 2011-12-30) is a gap like any other.
//!
//! Invariants: pieces are in order and without holes from 1970 to [`END`]; a wall time fires in
//! one piece, or in each that shows it when the fold says both; what is read with the offset
//! before a piece lies in the piece, for no zone changes again within the length of a gap.

use cronstream_schemas::definition::{Fold, Gap};

use super::civil::{DAY, day_number};

/// The end of the calendar in Unix seconds: 2240-01-01, 40 years past the last supported year.
pub(super) const END: i64 = day_number(2240, 1, 1) * DAY;

/// The history before 1970 that is read for the first piece.
pub(super) const LEAD: i64 = day_number(1960, 1, 1) * DAY;

/// A table finds its piece through buckets of 2^25 seconds, a little over a year.
const BUCKET_SHIFT: u32 = 25;

/// A change of offset: its Unix second, and the seconds east of UTC from then on.
pub(super) type Change = (i64, i32);

/// A stretch of time with one offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Unix seconds, inclusive.
    pub(super) start: i64,
    /// Unix seconds, exclusive.
    pub(super) end: i64,
    /// The lowest wall time that fires here; one below the piece's own start fires at it.
    pub(super) low: i64,
    /// The wall time from which on nothing fires here.
    pub(super) high: i64,
    offset: i32,
    /// The offset in force before the piece.
    before: i32,
    /// The seconds below the piece's own start that are read with the offset before.
    shifted: i32,
}

impl Piece {
    pub(super) fn offset(&self) -> i64 {
        i64::from(self.offset)
    }

    pub(super) fn offset_before(&self) -> i64 {
        i64::from(self.before)
    }

    /// The first wall time the piece shows.
    pub(super) fn civil_start(&self) -> i64 {
        self.start + self.offset()
    }

    /// Whether the piece has wall times that are read with the offset before.
    pub(super) fn has_shifted(&self) -> bool {
        self.shifted != 0
    }

    /// The wall times that are read with the offset before; they end at the piece's own start.
    pub(super) fn shifted_low(&self) -> i64 {
        self.civil_start() - i64::from(self.shifted)
    }
}

/// The pieces of one zone over the whole calendar.
#[derive(Debug)]
pub(super) struct Table {
    pieces: Box<[Piece]>,
    /// For each bucket of time the piece in force at its start.
    buckets: Box<[u16]>,
}

impl Table {
    /// The table for these changes, the first of which is at [`LEAD`].
    pub(super) fn build(changes: &[Change], gap: Gap, fold: Fold) -> Self {
        let pieces = pieces(changes, gap, fold);
        let mut buckets = Vec::new();
        let mut index = 0;
        for second in (0..END).step_by(1 << BUCKET_SHIFT) {
            while pieces[index].end <= second {
                index += 1;
            }
            buckets.push(u16::try_from(index).expect("a zone changes a few times a year"));
        }
        Self { pieces, buckets: buckets.into() }
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The index of the piece that holds `second`, which lies in `0..END`.
    pub(super) fn locate(&self, second: i64) -> usize {
        let mut index = usize::from(self.buckets[(second >> BUCKET_SHIFT) as usize]);
        while self.pieces[index].end <= second {
            index += 1;
        }
        index
    }
}

fn pieces(changes: &[Change], gap: Gap, fold: Fold) -> Box<[Piece]> {
    let mut pieces = Vec::with_capacity(changes.len());
    // The highest wall time shown, or jumped over, so far.
    let mut shown = LEAD;
    for (index, &(start, offset)) in changes.iter().enumerate() {
        let end = changes.get(index + 1).map_or(END, |(at, _)| *at);
        let before = if index == 0 { offset } else { changes[index - 1].1 };
        if end > 0 {
            // What the first piece left out before 1970 is owed by nobody.
            let cut = start.max(0);
            let civil_start = cut + i64::from(offset);
            let left_out = if start < 0 { 0 } else { (civil_start - shown).max(0) };
            let own_low = match fold {
                Fold::First => civil_start.max(shown),
                Fold::Last | Fold::Both => civil_start,
            };
            let (low, shifted) = match gap {
                Gap::End => (own_low - left_out, 0),
                Gap::Skip => (own_low, 0),
                Gap::Before => (own_low, left_out as i32),
            };
            let high = end + i64::from(offset);
            pieces.push(Piece { start: cut, end, low, high, offset, before, shifted });
        }
        shown = shown.max(end + i64::from(offset));
    }
    if fold == Fold::Last {
        // What a later piece shows again fires there.
        let mut again = i64::MAX;
        for piece in pieces.iter_mut().rev() {
            piece.high = piece.high.min(again);
            again = again.min(piece.civil_start());
        }
    }
    pieces.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600;

    #[test]
    fn a_jump_back_into_what_was_shown_is_no_gap() {
        // A fold of three hours, and after one hour a jump forward of one: still below the mark.
        let changes = [(LEAD, 0), (100 * HOUR, -3 * 3_600), (101 * HOUR, -2 * 3_600)];
        let lows: Vec<_> =
            pieces(&changes, Gap::End, Fold::First).iter().map(|piece| piece.low).collect();
        assert_eq!(lows, [0, 100 * HOUR, 100 * HOUR]);
    }

    #[test]
    fn the_first_piece_owes_nothing_from_before_1970() {
        let changes = [(LEAD, 0), (-10, 3_600), (500, 0)];
        let first = pieces(&changes, Gap::End, Fold::First)[0];
        assert_eq!((first.start, first.low), (0, 3_600));
        assert!(!pieces(&changes, Gap::Before, Fold::First)[0].has_shifted());
    }
}
