//! Days that are moved to a working day: of an expression, computed for each month that is looked at.
//!
//! ```text
//!   due       . . x . x x . .      what is due on a day off waits for the next working day;
//!   working   W W . . . W W .      a month that ends on days off hands what waits to the month after it
//!   moved     . . . . . x . .
//! ```
//!
//! Nothing is stored, so a job that shifts costs no more room than one that does not.
//!
//! Invariant: a moved day is a working day. A search over all months of the calendar looks at each a few times at
//! most: only a month with a working day looks beyond itself, and no further than the month with the one before.

use cronstream_schemas::definition::Shift;

use super::{
    civil::Month,
    days::{DaySet, highest_bit, in_calendar, low_bits},
    fields::Cron,
};

/// The days of an expression, moved to working days.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moved<'a> {
    pub(super) due: &'a Cron,
    pub(super) working: &'a DaySet,
    pub(super) shift: Shift,
}

impl Moved<'_> {
    /// The moved days of `month`; bit 0 is the first.
    pub(super) fn in_month(&self, month: Month) -> u64 {
        let working = self.working.in_month(month);
        if working == 0 {
            return 0;
        }
        let (due, length, waits) = (self.due(month), month.length(), self.waits(month));
        match self.shift {
            Shift::Next => move_up(due, working, length, waits),
            Shift::Previous => {
                let turned = |days: u64| days.reverse_bits() >> (64 - length);
                turned(move_up(turned(due), turned(working), length, waits))
            }
        }
    }

    /// Whether something due waits at the border of `month` that it is moved over.
    fn waits(&self, month: Month) -> bool {
        let mut month = month;
        loop {
            month = match self.shift {
                Shift::Next => month.preceding(),
                Shift::Previous => month.following(),
            };
            if in_calendar(month) == 0 {
                return false;
            }
            let (due, working) = (self.due(month), self.working.in_month(month));
            let beyond = match (working, self.shift) {
                (0, _) => due,
                (working, Shift::Next) => due & !low_bits(highest_bit(working) + 1),
                (working, Shift::Previous) => due & low_bits(working.trailing_zeros()),
            };
            if beyond != 0 || working != 0 {
                return beyond != 0;
            }
        }
    }

    fn due(&self, month: Month) -> u64 {
        self.due.matching_days(month) & in_calendar(month)
    }
}

/// The working days of one month, of so many days, that are due or that a day off before them is moved to. `waits`:
/// something of the months before waits, too.
fn move_up(due: u64, working: u64, length: u32, waits: bool) -> u64 {
    let off = low_bits(length) & !working;
    // The sum carries each due day through the days off behind it, into the next bit that is none.
    let carried = off + (due & off) + u64::from(waits);
    working & (due | carried)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::schedule::Day;

    fn moved_days(moved: &Moved<'_>) -> DaySet {
        let (mut month, _) = Month::of_day(Day::FIRST.number());
        let mut all = DaySet::none();
        while in_calendar(month) != 0 {
            let days = moved.in_month(month);
            let named = (0..month.length()).filter(|index| days >> index & 1 == 1);
            named.for_each(|index| {
                all.insert(Day::from_number(month.first_day() + i64::from(index)).unwrap());
            });
            month = month.following();
        }
        all
    }

    /// Days by chance: few for a large `odds`.
    fn some_days(odds: u64) -> DaySet {
        let mut state = odds.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let chosen = |_: &Day| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.is_multiple_of(odds)
        };
        Day::FIRST.through(Day::LAST).filter(chosen).collect()
    }

    #[test]
    fn each_due_day_is_on_the_nearest_working_day_in_the_direction() {
        let dues =
            ["0 9 15 * *", "0 9 * * *", "0 9 29 2 *", "0 9 L * *", "0 9 1 1 *", "0 9 * * 1#1"];
        let weekdays = DaySet::from_cron(&Cron::parse("0 0 * * 1-5").unwrap());
        let rare = DaySet::from_cron(&Cron::parse("0 0 29 2 *").unwrap());
        let ends: DaySet = [Day::FIRST, Day::LAST].into_iter().collect();
        let some = [1, 3, 9, 1_000].map(some_days);
        let sets: Vec<DaySet> =
            [weekdays, rare, ends, DaySet::all(), DaySet::none()].into_iter().chain(some).collect();
        for text in dues {
            let due = Cron::parse(text).unwrap();
            for working in &sets {
                for shift in [Shift::Next, Shift::Previous] {
                    let to = |day: Day| match shift {
                        Shift::Next => working.next_in(day),
                        Shift::Previous => working.prev_in(day),
                    };
                    let expected: DaySet = DaySet::from_cron(&due).iter().filter_map(to).collect();
                    let moved = moved_days(&Moved { due: &due, working, shift });
                    assert!(moved == expected, "{text} {working:?} {shift:?}");
                }
            }
        }
    }

    #[test]
    fn the_15th_of_a_month_that_is_a_sunday_goes_to_monday_or_friday() {
        let (due, working) = (Cron::parse("0 9 15 * *").unwrap(), Cron::parse("0 0 * * 1-5"));
        let working = DaySet::from_cron(&working.unwrap());
        let next = moved_days(&Moved { due: &due, working: &working, shift: Shift::Next });
        let previous = moved_days(&Moved { due: &due, working: &working, shift: Shift::Previous });
        let day = |text| Day::parse(text).unwrap();
        for (from, after, before) in [
            ("2027-08-15", "2027-08-16", "2027-08-13"),
            ("2027-05-15", "2027-05-17", "2027-05-14"),
            ("2027-06-15", "2027-06-15", "2027-06-15"),
        ] {
            assert_eq!(next.next_in(day(from)), Some(day(after)));
            assert_eq!(previous.prev_in(day(from)), Some(day(before)));
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the time that it takes is what is tested")]
    fn a_walk_over_all_months_looks_at_each_a_few_times_at_most() {
        // One working day every four years, and one at the very end: what is between is looked through.
        let due = Cron::parse("0 0 29 2 6").unwrap();
        let rare = DaySet::from_cron(&Cron::parse("0 0 29 2 *").unwrap());
        let last: DaySet = [Day::LAST].into_iter().collect();
        let begin = Instant::now();
        for working in [&rare, &last] {
            for _ in 0..20 {
                moved_days(&Moved { due: &due, working, shift: Shift::Next });
            }
        }
        // Some 3 ms; a walk from each month to the begin of the calendar takes seconds.
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    }
}
