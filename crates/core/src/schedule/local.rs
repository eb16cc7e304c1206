//! Between instants and the wall of a zone: for `at` in local time, for days, and for what is shown.
//!
//! Invariant: an instant outside the calendar is read as the nearest one in it.

use cronstream_schemas::definition::{Fold, Gap};

use super::{
    civil::DAY,
    days::Day,
    slots::Rules,
    table::{END, Piece, Table},
    zone::Zone,
};

/// A change of the offset of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The first instant with the new offset (Unix milliseconds).
    pub at_ms: i64,
    /// Seconds east of UTC before it.
    pub offset_before: i32,
    /// Seconds east of UTC from it on.
    pub offset_after: i32,
}

impl Zone {
    /// Seconds east of UTC that were, are or will be in force at `at_ms` (Unix milliseconds).
    /// Before 1970 and after 2239 it is the nearest known offset.
    #[must_use]
    pub fn offset_seconds(self, at_ms: i64) -> i32 {
        self.piece_at(second_of(at_ms)).offset() as i32
    }

    /// The day and the second of the day that the wall shows at `at_ms` (Unix milliseconds).
    #[must_use]
    pub fn civil(self, at_ms: i64) -> (Day, u32) {
        let second = second_of(at_ms);
        let civil = second + self.piece_at(second).offset();
        let day = Day::from_number(civil.div_euclid(DAY));
        (day.expect("no offset is over a day"), civil.rem_euclid(DAY) as u32)
    }

    /// The first instant of `day` (Unix milliseconds): midnight, or the end of the gap it lies in.
    /// A day that the zone skipped begins with the day after it.
    #[must_use]
    pub fn start_of_day(self, day: Day) -> i64 {
        let midnight = day.number() * DAY;
        let found = self.instant_of(midnight, Gap::End, Fold::First);
        found.unwrap_or(if midnight < DAY { 0 } else { END }) * 1_000
    }

    /// The instant (Unix milliseconds) at which the wall shows `second` of `day`. A wall time in a
    /// gap or a fold is read by `rules`: the gap's end and the first pass unless they say so, and
    /// `both` passes are the first. `None` for one that is skipped, or outside the calendar.
    #[must_use]
    pub fn resolve(self, day: Day, second: u32, rules: Rules) -> Option<i64> {
        let fold = match rules.fold {
            None | Some(Fold::First | Fold::Both) => Fold::First,
            Some(Fold::Last) => Fold::Last,
        };
        let civil = day.number() * DAY + i64::from(second);
        Some(self.instant_of(civil, rules.gap.unwrap_or(Gap::End), fold)? * 1_000)
    }

    /// The changes of offset from `from_ms` to `through_ms` (Unix milliseconds), both included.
    pub fn transitions(self, from_ms: i64, through_ms: i64) -> impl Iterator<Item = Transition> {
        self.changed_pieces(from_ms, through_ms).map(|piece| Transition {
            at_ms: piece.start * 1_000,
            offset_before: piece.offset_before() as i32,
            offset_after: piece.offset() as i32,
        })
    }

    /// The pieces that begin with a change from `from_ms` to `through_ms`, both included.
    pub(super) fn changed_pieces(
        self,
        from_ms: i64,
        through_ms: i64,
    ) -> impl Iterator<Item = &'static Piece> {
        let table = self.clock();
        table.pieces()[table.locate(second_of(from_ms))..]
            .iter()
            .skip_while(move |piece| piece.start == 0 || piece.start * 1_000 < from_ms)
            .take_while(move |piece| piece.start * 1_000 <= through_ms)
    }

    /// The first Unix second with this wall time, by its rule; `None` outside the calendar.
    fn instant_of(self, civil: i64, gap: Gap, fold: Fold) -> Option<i64> {
        let table = self.table(gap, fold);
        // No offset is over a day, so the piece is this one or follows.
        let from = (civil - DAY).clamp(0, END - 1);
        for piece in &table.pieces()[table.locate(from)..] {
            let start = piece.civil_start();
            if piece.has_shifted() && (piece.shifted_low()..start).contains(&civil) {
                return Some(civil - piece.offset_before());
            }
            if (piece.low..piece.high).contains(&civil) {
                return Some((civil - piece.offset()).max(piece.start));
            }
            if civil < piece.low {
                return None;
            }
        }
        None
    }

    fn piece_at(self, second: i64) -> &'static Piece {
        let table = self.clock();
        &table.pieces()[table.locate(second)]
    }

    /// Some table of the zone: all have the same offsets.
    fn clock(self) -> &'static Table {
        self.table(Gap::End, Fold::First)
    }
}

/// The second of an instant, or the nearest in the calendar.
fn second_of(at_ms: i64) -> i64 {
    at_ms.div_euclid(1_000).clamp(0, END - 1)
}
