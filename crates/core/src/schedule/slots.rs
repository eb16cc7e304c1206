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
//! A zone is a row of segments of one offset each. The highest wall time shown before a segment is
//! its high-water mark: a *fixed* job fires only above the mark, so a fold gives it nothing again
//! and the stretch between the mark and a later start is a gap, owed at the start of the segment.
//! A skipped day (Apia, 2011-12-30) is such a gap. An *elapsed* job fires whenever the wall matches.
//!
//! Invariants: `next` is greater than its argument and strictly increasing, `prev` mirrors it,
//! `count` is the number of steps `next` would take. All three are bounded by the 270 years of the
//! calendar. Slots lie in 1970-01-01 to 2239-12-31 UTC; every expression that can fire at all
//! fires within 40 years, so there is an answer for each instant up to 2199.

use super::{
    fields::{Cron, Pace},
    zone::{END, Segment, Zone},
};

impl Cron {
    /// The first slot strictly after `after_ms` (Unix milliseconds); `None` is never.
    #[must_use]
    pub fn next(&self, zone: Zone, after_ms: i64) -> Option<i64> {
        let from = second_after(after_ms);
        if from >= END {
            return None;
        }
        let table = zone.table();
        // `found` is the first match at or after `asked`; it serves later segments too.
        let (mut asked, mut found) = (i64::MAX, i64::MAX);
        for segment in &table.segments()[table.locate(from)..] {
            let lower = self.lower_bound(segment, from);
            if lower < asked || lower > found {
                asked = lower;
                found = self.at_or_after(lower).unwrap_or(i64::MAX);
            }
            if found < segment.civil_start() {
                return Some(segment.start * 1_000);
            }
            if found < segment.civil_end() {
                return Some((found - segment.offset()) * 1_000);
            }
        }
        None
    }

    /// The last slot strictly before `before_ms` (Unix milliseconds); `None` is no such slot.
    #[must_use]
    pub fn prev(&self, zone: Zone, before_ms: i64) -> Option<i64> {
        let through = second_before(before_ms);
        if through < 0 {
            return None;
        }
        let table = zone.table();
        // `found` is the last match at or before `asked`; it serves earlier segments too.
        let (mut asked, mut found) = (i64::MIN, i64::MIN);
        for segment in table.segments()[..=table.locate(through)].iter().rev() {
            let upper = segment.civil_end().min(through + 1 + segment.offset()) - 1;
            if upper > asked || upper < found {
                asked = upper;
                found = self.at_or_before(upper).unwrap_or(i64::MIN);
            }
            if found >= self.lower_bound(segment, segment.start) {
                return Some((found - segment.offset()).max(segment.start) * 1_000);
            }
        }
        None
    }

    /// The number of slots after `after_ms` and up to and with `through_ms` (Unix milliseconds).
    /// It is computed from days and months, not by walking the slots.
    #[must_use]
    pub fn count(&self, zone: Zone, after_ms: i64, through_ms: i64) -> u64 {
        let (from, through) = (second_after(after_ms), second_before(through_ms.saturating_add(1)));
        if from > through {
            return 0;
        }
        let table = zone.table();
        table.segments()[table.locate(from)..=table.locate(through)]
            .iter()
            .map(|segment| {
                let lower = self.lower_bound(segment, from);
                let upper = segment.civil_end().min(through + 1 + segment.offset());
                let start = segment.civil_start();
                let owed = lower < start
                    && !self.matches(start)
                    && self.at_or_after(lower).is_some_and(|civil| civil < start);
                u64::from(owed) + self.count_between(lower.max(start), upper)
            })
            .sum()
    }

    /// The lowest wall time that counts in `segment` for slots at or after `from`. Below the
    /// segment's own start it is in the gap before it.
    fn lower_bound(&self, segment: &Segment, from: i64) -> i64 {
        match self.pace {
            Pace::Elapsed => from.max(segment.start) + segment.offset(),
            Pace::Fixed if from <= segment.start => segment.high_water,
            Pace::Fixed => (from + segment.offset()).max(segment.high_water),
        }
    }
}

/// The first whole second of the calendar strictly after `ms`.
fn second_after(ms: i64) -> i64 {
    (ms.div_euclid(1_000) + 1).max(0)
}

/// The last whole second of the calendar strictly before `ms`; negative when there is none.
fn second_before(ms: i64) -> i64 {
    ms.saturating_sub(1).div_euclid(1_000).min(END - 1)
}
