//! Slots: the matches of an expression as instants of a zone.
//!
//! ```text
//!            gap (clock forward)             fold (clock back)
//! wall   01:59 │ 03:00                   01:59 │ 01:00 … 01:59 │ 02:00
//! fixed        ╰ what 02:00–02:59 owed,   once │ nothing again │ on
//!                once, at the gap's end
//! elapsed      ╰ goes on at 03:00        fires │ fires again   │ on
//! ```
//!
//! That is the default, as Debian cron does it: *fixed* times (neither minute nor hour begins with
//! a star) fire exactly once, *elapsed* ones whenever the wall matches. In the words of [`Rules`],
//! fixed is gap `end`, fold `first`; elapsed is gap `skip`, fold `both`. A job may choose for
//! itself; the choice holds for both kinds. What a choice means is in the table of the zone; the
//! search here is the same for all.
//!
//! Invariants: `next` is greater than its argument and strictly increasing, `prev` mirrors it,
//! `count` is the number of steps `next` would take. All three are bounded by the 270 years of the
//! calendar. Slots lie in 1970-01-01 to 2239-12-31 UTC.

use cronstream_schemas::definition::{Fold, Gap, Shift};

use super::{
    days::DaySet,
    fields::{Cron, Pace},
    matches::Matches,
    table::{END, Piece, Table},
    zone::Zone,
};

/// What a job chose for clock changes; `None` is the default of its kind of expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    /// What becomes of a wall time that a clock change leaves out.
    pub gap: Option<Gap>,
    /// What becomes of a wall time that a clock change shows twice.
    pub fold: Option<Fold>,
}

/// An expression in a zone: its slots.
///
/// ```
/// use cronstream_core::schedule::{Cron, Rules, Slots, Zone};
/// use cronstream_schemas::definition::Gap;
///
/// let cron = Cron::parse("30 2 * * *")?;
/// let zone = Zone::get("Europe/Berlin")?;
/// let rules = Rules { gap: Some(Gap::Before), fold: None };
/// // 2026-03-29 has no 02:30 in Berlin. By the offset before the gap it is 03:30 there.
/// let slots = Slots { cron: &cron, zone, rules, days: None, shift: None };
/// assert_eq!(slots.next(1_774_710_000_000), Some(1_774_747_800_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Slots<'a> {
    /// The expression.
    pub cron: &'a Cron,
    /// The zone whose wall it is matched with.
    pub zone: Zone,
    /// What the job chose for clock changes.
    pub rules: Rules,
    /// The days that count; `None` is all. A slot belongs to the day it was written for: one that
    /// a gap moves over midnight to the day before the gap.
    pub days: Option<&'a DaySet>,
    /// Where the slots of other days go; `None` is nowhere.
    pub shift: Option<Shift>,
}

impl Cron {
    /// The first slot strictly after `after_ms` (Unix milliseconds); `None` is never.
    #[must_use]
    pub fn next(&self, zone: Zone, after_ms: i64) -> Option<i64> {
        self.slots(zone).next(after_ms)
    }

    /// The last slot strictly before `before_ms` (Unix milliseconds); `None` is no such slot.
    #[must_use]
    pub fn prev(&self, zone: Zone, before_ms: i64) -> Option<i64> {
        self.slots(zone).prev(before_ms)
    }

    /// The number of slots after `after_ms` and up to and with `through_ms` (Unix milliseconds).
    #[must_use]
    pub fn count(&self, zone: Zone, after_ms: i64, through_ms: i64) -> u64 {
        self.slots(zone).count(after_ms, through_ms)
    }

    /// The slots by default rules, on all days.
    #[must_use]
    pub fn slots(&self, zone: Zone) -> Slots<'_> {
        Slots { cron: self, zone, rules: Rules::default(), days: None, shift: None }
    }
}

impl Slots<'_> {
    /// What a gap does to these slots.
    #[must_use]
    pub fn gap(&self) -> Gap {
        self.rules.gap.unwrap_or(match self.cron.pace {
            Pace::Fixed => Gap::End,
            Pace::Elapsed => Gap::Skip,
        })
    }

    /// What a fold does to these slots.
    #[must_use]
    pub fn fold(&self) -> Fold {
        self.rules.fold.unwrap_or(match self.cron.pace {
            Pace::Fixed => Fold::First,
            Pace::Elapsed => Fold::Both,
        })
    }

    /// The first slot strictly after `after_ms` (Unix milliseconds); `None` is never.
    #[must_use]
    pub fn next(&self, after_ms: i64) -> Option<i64> {
        let from = second_after(after_ms);
        if from >= END {
            return None;
        }
        let (table, matches) = (self.table(), self.matches());
        // `found` is the first match at or after `asked`; it serves later pieces too.
        let (mut asked, mut found) = (i64::MAX, i64::MAX);
        for piece in &table.pieces()[table.locate(from)..] {
            let lower = lower_bound(piece, from);
            if lower < asked || lower > found {
                asked = lower;
                found = matches.at_or_after(lower).unwrap_or(i64::MAX);
            }
            // One below the start of the piece lies in the gap before it.
            let own = (found < piece.high).then(|| (found - piece.offset()).max(piece.start));
            let slot = match (own, matches.next_shifted(piece, from)) {
                (Some(own), Some(shifted)) => Some(own.min(shifted)),
                (own, shifted) => own.or(shifted),
            };
            if let Some(slot) = slot {
                return Some(slot * 1_000);
            }
        }
        None
    }

    /// The last slot strictly before `before_ms` (Unix milliseconds); `None` is no such slot.
    #[must_use]
    pub fn prev(&self, before_ms: i64) -> Option<i64> {
        let through = second_before(before_ms);
        if through < 0 {
            return None;
        }
        let (table, matches) = (self.table(), self.matches());
        // `found` is the last match at or before `asked`; it serves earlier pieces too.
        let (mut asked, mut found) = (i64::MIN, i64::MIN);
        for piece in table.pieces()[..=table.locate(through)].iter().rev() {
            let upper = piece.high.min(through + 1 + piece.offset()) - 1;
            if upper > asked || upper < found {
                asked = upper;
                found = matches.at_or_before(upper).unwrap_or(i64::MIN);
            }
            let own = (found >= piece.low).then(|| (found - piece.offset()).max(piece.start));
            if let Some(slot) = own.max(matches.prev_shifted(piece, through)) {
                return Some(slot * 1_000);
            }
        }
        None
    }

    /// The number of slots after `after_ms` and up to and with `through_ms` (Unix milliseconds).
    /// It is computed from days and months, not by walking the slots.
    #[must_use]
    pub fn count(&self, after_ms: i64, through_ms: i64) -> u64 {
        let (from, through) = (second_after(after_ms), second_before(through_ms.saturating_add(1)));
        if from > through {
            return 0;
        }
        let (table, matches) = (self.table(), self.matches());
        table.pieces()[table.locate(from)..=table.locate(through)]
            .iter()
            .map(|piece| matches.count_in(piece, from, through))
            .sum()
    }

    fn table(&self) -> &'static Table {
        self.zone.table(self.gap(), self.fold())
    }

    pub(super) fn matches(&self) -> Matches<'_> {
        Matches { cron: self.cron, days: self.days, shift: self.shift }
    }
}

impl Matches<'_> {
    /// The first slot at or after `from` that is read with the offset before the piece.
    fn next_shifted(&self, piece: &Piece, from: i64) -> Option<i64> {
        if !piece.has_shifted() {
            return None;
        }
        let low = piece.shifted_low().max(from + piece.offset_before());
        Some(self.first_in(low, piece.civil_start())? - piece.offset_before())
    }

    /// The last slot at or before `through` that is read with the offset before the piece.
    fn prev_shifted(&self, piece: &Piece, through: i64) -> Option<i64> {
        if !piece.has_shifted() {
            return None;
        }
        let high = piece.civil_start().min(through + 1 + piece.offset_before());
        Some(self.last_in(piece.shifted_low(), high)? - piece.offset_before())
    }

    /// The number of slots in `from..=through` that are in the piece.
    fn count_in(&self, piece: &Piece, from: i64, through: i64) -> u64 {
        let (lower, start) = (lower_bound(piece, from), piece.civil_start());
        let upper = piece.high.min(through + 1 + piece.offset());
        let fires_at_start = start < upper && self.matches(start);
        let left_out = start.min(piece.high);
        let owed = !fires_at_start && self.first_in(lower, left_out).is_some();
        let own = u64::from(owed) + self.count_between(lower.max(start), upper);
        if !piece.has_shifted() {
            return own;
        }
        let before = piece.offset_before();
        let low = piece.shifted_low().max(from + before);
        let high = start.min(through + 1 + before);
        // What both wall times match at one instant is one slot.
        let shift = piece.offset() - before;
        own + self.count_between(low, high) - self.count_twice(low, high, shift)
    }
}

/// The lowest wall time that counts in a piece for slots at or after `from`.
fn lower_bound(piece: &Piece, from: i64) -> i64 {
    if from <= piece.start { piece.low } else { piece.low.max(from + piece.offset()) }
}

/// The first whole second of the calendar strictly after `ms`.
fn second_after(ms: i64) -> i64 {
    (ms.div_euclid(1_000) + 1).max(0)
}

/// The last whole second of the calendar strictly before `ms`; negative when there is none.
fn second_before(ms: i64) -> i64 {
    ms.saturating_sub(1).div_euclid(1_000).min(END - 1)
}
