//! The rules of a calendar, gathered, and the days that any of them names.
//!
//! Invariant: the cost of the days does not grow with how long a rule's stretch is; equal rules count once.

use cronstream_schemas::calendar::{Date, DayRule, MonthDay, NthWeekday, Yearly};

use crate::schedule::{Day, DaySet};

/// How far a day may lie from Easter.
const EASTER_MAX: i64 = 100;

/// Rules of every kind but those of another calendar.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// First and last day.
    ranges: Vec<(Day, Day)>,
    /// Bit 0 is Sunday.
    weekly: u8,
    /// Bit 0 is the first, for each month.
    yearly: [u32; 12],
    /// For each month and weekday: bits 0–4 are the first to the fifth, 5–9 the last to the fifth from the end.
    nth: [[u16; 7]; 12],
    /// Days from Easter.
    easter: Vec<i64>,
}

impl Rules {
    /// Takes one rule in; those of another calendar are not its business.
    pub(super) fn add(&mut self, rule: &DayRule) {
        match rule {
            DayRule::Date(date) => self.ranges.push((day(*date), day(*date))),
            DayRule::Range(range) => self.ranges.push((day(range.from), day(range.to))),
            DayRule::Weekly(days) => {
                days.iter().for_each(|weekday| self.weekly |= 1 << *weekday as u8);
            }
            DayRule::Yearly(Yearly::Day(only)) => self.add_yearly(*only, *only),
            DayRule::Yearly(Yearly::Range { from, to }) if from <= to => {
                self.add_yearly(*from, *to);
            }
            DayRule::Yearly(Yearly::Range { from, to }) => {
                self.add_masked(|at| at >= from.parts() || at <= to.parts());
            }
            DayRule::NthWeekday(rule) => self.add_nth(*rule),
            DayRule::Easter(days) => self.easter.push(i64::from(*days)),
            DayRule::Calendar(_) => {}
        }
    }

    fn add_yearly(&mut self, from: MonthDay, to: MonthDay) {
        self.add_masked(|at| (from.parts()..=to.parts()).contains(&at));
    }

    fn add_masked(&mut self, has: impl Fn((u32, u32)) -> bool) {
        for (month, mask) in (1..).zip(&mut self.yearly) {
            (1..=31).filter(|day| has((month, *day))).for_each(|day| *mask |= 1 << (day - 1));
        }
    }

    fn add_nth(&mut self, rule: NthWeekday) {
        let place = usize::from(rule.nth.unsigned_abs().clamp(1, 5)) - 1;
        let bit = 1 << if rule.nth > 0 { place } else { place + 5 };
        for (month, weekdays) in (1..).zip(&mut self.nth) {
            if rule.month.is_none_or(|only| only == month) {
                weekdays[rule.weekday as usize] |= bit;
            }
        }
    }

    /// Every day that a rule names.
    pub(super) fn days(&self) -> DaySet {
        let mut days = if self.weekly != 0 || self.yearly != [0; 12] || self.nth != [[0; 7]; 12] {
            DaySet::recurring(|month, length, begins| self.in_month(month, length, begins))
        } else {
            DaySet::none()
        };
        let mut ranges = self.ranges.clone();
        ranges.sort_unstable();
        let mut taken = None;
        for (first, last) in ranges {
            // What an earlier range has taken is not gone through again.
            let first = taken.map_or(first, |taken: Day| first.max(taken));
            days = insert_all(days, first.through(last));
            taken = taken.max(Some(last));
        }
        if !self.easter.is_empty() {
            let offsets = -EASTER_MAX..=EASTER_MAX;
            let offsets: Vec<i64> = offsets.filter(|days| self.easter.contains(days)).collect();
            for easter in (Day::FIRST.year()..=Day::LAST.year()).filter_map(easter) {
                let named = offsets.iter().filter_map(|days| easter.plus(*days));
                days = insert_all(days, named);
            }
        }
        days
    }

    /// The days of a month that recur, one of `length` days that begins on a weekday (0 is Sunday); bit 0 is the first.
    fn in_month(&self, month: u32, length: u32, begins: u32) -> u32 {
        let at = month as usize - 1;
        let mut days = self.yearly[at];
        for (weekday, nth) in (0..).zip(self.nth[at]) {
            let first = (weekday + 7 - begins) % 7;
            let last = length - 1 - (length - 1 - first) % 7;
            if self.weekly >> weekday & 1 == 1 {
                (first..length).step_by(7).for_each(|day| days |= 1 << day);
            }
            for place in (0..5).filter(|_| nth != 0) {
                if nth >> place & 1 == 1 && first + 7 * place < length {
                    days |= 1 << (first + 7 * place);
                }
                if nth >> (place + 5) & 1 == 1 && last >= 7 * place {
                    days |= 1 << (last - 7 * place);
                }
            }
        }
        days
    }
}

fn insert_all(mut days: DaySet, more: impl Iterator<Item = Day>) -> DaySet {
    for day in more {
        days.insert(day);
    }
    days
}

fn day(date: Date) -> Day {
    let (year, month, day) = date.parts();
    Day::new(year, month, day).expect("a date is a day of the calendar")
}

/// Easter Sunday of a year by the Gregorian computus (Meeus, Jones and Butcher).
fn easter(year: i32) -> Option<Day> {
    let golden = year % 19;
    let (century, of_century) = (year / 100, year % 100);
    let correction = (8 * century + 13) / 25;
    let epact = (19 * golden + century - century / 4 - correction + 15) % 30;
    let weekday = (32 + 2 * (century % 4) + 2 * (of_century / 4) - epact - of_century % 4) % 7;
    let shift = (golden + 11 * epact + 22 * weekday) / 451;
    let date = epact + weekday - 7 * shift + 114;
    Day::new(year, u32::try_from(date / 31).ok()?, u32::try_from(date % 31 + 1).ok()?)
}
