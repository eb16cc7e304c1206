//! Civil days, and sets of them over the whole calendar.
//!
//! Invariant: a [`Day`] lies between [`Day::FIRST`] and [`Day::LAST`], two days more than any slot
//! can have on the wall of its zone, and a [`DaySet`] holds no other days.

use std::{fmt, str::FromStr};

#[cfg(test)]
use super::fields::Cron;
use super::{
    civil::{Month, day_number},
    error::excerpt,
};

/// The month of [`Day::FIRST`]: December 1969.
const FIRST_MONTH: i32 = 1969 * 12 + 11;

/// The months from December 1969 to January 2240.
const MONTHS: usize = (2240 * 12 - FIRST_MONTH + 1) as usize;

/// Where the mask of the last month is.
const LAST_CELL: usize = MONTHS - 1;

/// A day of the calendar, 1969-12-30 to 2240-01-03, in no zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(i32);

/// A text that is not a day of the calendar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{value}` is no day: {hint}")]
pub struct DayError {
    /// The refused text, cut to 256 bytes.
    pub value: String,
    /// What to write instead.
    pub hint: &'static str,
}

impl Day {
    /// The first day of the calendar.
    pub const FIRST: Self = Self(day_number(1969, 12, 30) as i32);
    /// The last day of the calendar.
    pub const LAST: Self = Self(day_number(2240, 1, 3) as i32);

    /// The day of a year, a month from 1 and a day from 1; `None` if there is no such day.
    #[must_use]
    pub fn new(year: i32, month: u32, day: u32) -> Option<Self> {
        if !(1969..=2240).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day)
        {
            return None;
        }
        let found = Self::from_number(day_number(year, month, day))?;
        (found.month() == month).then_some(found)
    }

    /// Reads `2027-01-31`.
    ///
    /// # Errors
    /// Refuses any other way to write it, and days that do not exist or are not in the calendar.
    pub fn parse(text: &str) -> Result<Self, DayError> {
        let refuse = |hint| DayError { value: excerpt(text), hint };
        let shape = || refuse("write `2027-01-31`");
        let dashed = |(index, byte): (usize, u8)| match index {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        };
        if text.len() != 10 || !text.bytes().enumerate().all(dashed) {
            return Err(shape());
        }
        let part = |range| text.get(range).and_then(|part: &str| part.parse::<u32>().ok());
        let (Some(year), Some(month), Some(day)) = (part(0..4), part(5..7), part(8..10)) else {
            return Err(shape());
        };
        Self::new(year as i32, month, day)
            .ok_or_else(|| refuse("use a day that exists, from 1970-01-01 to 2239-12-31"))
    }

    /// The day with this number, counted from 1970-01-01; `None` outside the calendar.
    #[must_use]
    pub fn from_number(number: i64) -> Option<Self> {
        let day = Self(i32::try_from(number).ok()?);
        (Self::FIRST..=Self::LAST).contains(&day).then_some(day)
    }

    /// The number of the day, counted from 1970-01-01 (day 0).
    #[must_use]
    pub fn number(self) -> i64 {
        i64::from(self.0)
    }

    /// The year.
    #[must_use]
    pub fn year(self) -> i32 {
        self.place().0.year()
    }

    /// The month, 1 for January to 12 for December.
    #[must_use]
    pub fn month(self) -> u32 {
        self.place().0.index() + 1
    }

    /// The day of the month, from 1.
    #[must_use]
    pub fn day(self) -> u32 {
        self.place().1 + 1
    }

    /// The weekday, 0 for Sunday to 6 for Saturday.
    #[must_use]
    pub fn weekday(self) -> u32 {
        (self.0 + 4).rem_euclid(7) as u32
    }

    /// The day that is `days` later, or earlier; `None` outside the calendar.
    #[must_use]
    pub fn plus(self, days: i64) -> Option<Self> {
        Self::from_number(self.number().saturating_add(days))
    }

    /// Each day from this one to `last`, both included.
    pub fn through(self, last: Self) -> impl DoubleEndedIterator<Item = Self> + Clone {
        (self.0..=last.0).map(Self)
    }

    /// The month, and the day's place in it from 0.
    fn place(self) -> (Month, u32) {
        Month::of_day(self.number())
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year(), self.month(), self.day())
    }
}

impl FromStr for Day {
    type Err = DayError;

    fn from_str(text: &str) -> Result<Self, DayError> {
        Self::parse(text)
    }
}

/// A set of civil days, one mask of 32 bits for each month: 13 KB whatever it holds.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DaySet(Box<[u32]>);

impl DaySet {
    /// Every day of the calendar.
    #[must_use]
    pub fn all() -> Self {
        Self::from_months(|month| low_bits(month.length()) as u32)
    }

    /// No day.
    #[must_use]
    pub fn none() -> Self {
        Self(vec![0; MONTHS].into())
    }

    /// The days on which an expression matches.
    #[cfg(test)]
    pub(super) fn from_cron(cron: &Cron) -> Self {
        Self::from_months(|month| cron.matching_days(month) as u32)
    }

    /// The days that recur: `days` tells those of a month (1 to 12) with so many days that begins on a weekday (0 for
    /// Sunday); bit 0 is the first.
    pub(crate) fn recurring(days: impl Fn(u32, u32, u32) -> u32) -> Self {
        Self::from_months(|month| days(month.index() + 1, month.length(), month.first_weekday()))
    }

    /// Takes `day` in; whether it is new.
    pub fn insert(&mut self, day: Day) -> bool {
        let (days, bit) = self.bit(day);
        let new = *days & bit == 0;
        *days |= bit;
        new
    }

    /// Leaves `day` out; whether it was there.
    pub fn remove(&mut self, day: Day) -> bool {
        let (days, bit) = self.bit(day);
        let old = *days & bit != 0;
        *days &= !bit;
        old
    }

    /// Whether `day` is in the set.
    #[must_use]
    pub fn contains(&self, day: Day) -> bool {
        let (month, index) = day.place();
        self.in_month(month) >> index & 1 == 1
    }

    /// The days that are in this set or in `other`.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.zip(other, |left, right| left | right)
    }

    /// The days that are in both sets.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        self.zip(other, |left, right| left & right)
    }

    /// The days of this set that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.zip(other, |left, right| left & !right)
    }

    /// The first day of the set at or after `day`.
    #[must_use]
    pub fn next_in(&self, day: Day) -> Option<Day> {
        let (mut month, index) = day.place();
        let mut left = self.in_month(month) & !low_bits(index);
        while left == 0 {
            month = month.following();
            left = (*self.0.get(cell(month))?).into();
        }
        Day::from_number(month.first_day() + i64::from(left.trailing_zeros()))
    }

    /// The last day of the set at or before `day`.
    #[must_use]
    pub fn prev_in(&self, day: Day) -> Option<Day> {
        let (mut month, index) = day.place();
        let mut left = self.in_month(month) & low_bits(index + 1);
        while left == 0 {
            month = month.preceding();
            left = (*self.0.get(cell(month))?).into();
        }
        Day::from_number(month.first_day() + i64::from(highest_bit(left)))
    }

    /// Whether there is no day in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|days| *days == 0)
    }

    /// The days of the set in order.
    pub fn iter(&self) -> impl Iterator<Item = Day> {
        let after = |day: &Day| self.next_in(day.plus(1)?);
        std::iter::successors(self.next_in(Day::FIRST), after)
    }

    /// The days of `month` as a mask; bit 0 is the first. A month outside the calendar has none.
    pub(super) fn in_month(&self, month: Month) -> u64 {
        self.0.get(cell(month)).copied().unwrap_or(0).into()
    }

    fn from_months(days: impl Fn(Month) -> u32) -> Self {
        let (mut month, _) = Day::FIRST.place();
        let mut cells = Vec::with_capacity(MONTHS);
        while cells.len() < MONTHS {
            cells.push(days(month) & in_calendar(month) as u32);
            month = month.following();
        }
        Self(cells.into())
    }

    fn zip(&self, other: &Self, both: impl Fn(u32, u32) -> u32) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(left, right)| both(*left, *right)).collect())
    }

    fn bit(&mut self, day: Day) -> (&mut u32, u32) {
        let (month, index) = day.place();
        (&mut self.0[cell(month)], 1 << index)
    }
}

impl fmt::Debug for DaySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days: u32 = self.0.iter().map(|days| days.count_ones()).sum();
        let (first, last) = (self.next_in(Day::FIRST), self.prev_in(Day::LAST));
        match (first, last) {
            (Some(first), Some(last)) => write!(f, "DaySet({days} days, {first} to {last})"),
            _ => f.write_str("DaySet(no days)"),
        }
    }
}

impl FromIterator<Day> for DaySet {
    fn from_iter<I: IntoIterator<Item = Day>>(days: I) -> Self {
        let mut set = Self::none();
        for day in days {
            set.insert(day);
        }
        set
    }
}

/// Where a month's mask is; past the end for a month outside the calendar.
fn cell(month: Month) -> usize {
    usize::try_from(month.ordinal() - FIRST_MONTH).unwrap_or(usize::MAX)
}

/// The days of `month` that belong to the calendar; bit 0 is the first.
pub(super) fn in_calendar(month: Month) -> u64 {
    let days = low_bits(month.length());
    match cell(month) {
        0 => days & !low_bits(Day::FIRST.place().1),
        LAST_CELL => low_bits(Day::LAST.day()),
        cell if cell < LAST_CELL => days,
        _ => 0,
    }
}

/// A mask of the lowest `count` bits, `count` < 64.
pub(super) const fn low_bits(count: u32) -> u64 {
    (1 << count) - 1
}

/// The place of the highest bit of a mask that is not empty.
pub(super) const fn highest_bit(mask: u64) -> u32 {
    63 - mask.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> Day {
        Day::parse(text).unwrap()
    }

    #[test]
    fn a_day_is_read_and_written_in_one_form() {
        for text in ["1970-01-01", "2027-01-31", "2000-02-29", "2239-12-31"] {
            assert_eq!(day(text).to_string(), text);
        }
        let refused = [
            "2027-1-31",
            "2027-02-29",
            "2100-02-29",
            "2027-13-01",
            "2027-00-10",
            "2027-01-00",
            "1969-12-29",
            "2240-01-04",
            "20270131",
            "2027/01/31",
            "+027-01-31",
            "2027-01-3\u{661}",
            "",
            " 2027-01-31",
        ];
        for text in refused {
            assert_eq!(Day::parse(text).unwrap_err().value, text);
        }
    }

    #[test]
    fn days_know_their_place() {
        let day = day("2026-11-29");
        assert_eq!((day.year(), day.month(), day.day(), day.weekday()), (2026, 11, 29, 0));
        assert_eq!(day.plus(93).unwrap().to_string(), "2027-03-02");
        assert_eq!(Day::LAST.plus(1), None);
        assert_eq!(Day::FIRST.plus(-1), None);
        assert_eq!(Day::FIRST.plus(i64::MIN), None);
        assert_eq!(Day::FIRST.through(Day::LAST).count(), 98_620);
    }

    #[test]
    fn a_set_holds_what_was_put_in() {
        let mut set = DaySet::none();
        assert!(set.is_empty() && set.next_in(Day::FIRST).is_none());
        assert!(set.insert(day("2027-01-31")) && !set.insert(day("2027-01-31")));
        assert!(set.insert(Day::FIRST) && set.insert(Day::LAST));
        assert_eq!(set.next_in(day("1970-01-01")), Some(day("2027-01-31")));
        assert_eq!(set.prev_in(day("2239-12-31")), Some(day("2027-01-31")));
        assert_eq!(set.next_in(day("2027-01-31")), Some(day("2027-01-31")));
        assert_eq!(set.prev_in(day("2027-01-31")), Some(day("2027-01-31")));
        assert_eq!(set.next_in(day("2027-02-01")), Some(Day::LAST));
        assert_eq!(set.prev_in(day("2027-01-30")), Some(Day::FIRST));
        assert_eq!(set.iter().count(), 3);
        assert_eq!(format!("{set:?}"), "DaySet(3 days, 1969-12-30 to 2240-01-03)");
        assert!(set.remove(Day::LAST) && !set.remove(Day::LAST));
        assert_eq!(set.next_in(day("2027-02-01")), None);
        assert!(set.remove(Day::FIRST));
        assert_eq!(set.prev_in(day("2027-01-30")), None);
    }

    #[test]
    fn sets_combine_as_sets_do() {
        let set = |days: &[&str]| -> DaySet { days.iter().map(|text| day(text)).collect() };
        let (left, right) =
            (set(&["2027-01-01", "2027-01-02"]), set(&["2027-01-02", "2199-05-06"]));
        assert_eq!(left.union(&right), set(&["2027-01-01", "2027-01-02", "2199-05-06"]));
        assert_eq!(left.intersect(&right), set(&["2027-01-02"]));
        assert_eq!(left.difference(&right), set(&["2027-01-01"]));
        assert_eq!(DaySet::all().iter().count(), 98_620);
        assert_eq!(DaySet::all().difference(&DaySet::all()), DaySet::none());
        assert_eq!(DaySet::from_cron(&Cron::parse("0 0 * * *").unwrap()), DaySet::all());
    }

    #[test]
    fn sets_agree_with_a_walk_over_their_days() {
        let (first, last) = (day("2027-11-20"), day("2028-03-10"));
        for seed in 1..200_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut some = |odds: u64| -> Vec<Day> {
                let mut chosen = |_: &Day| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state % odds == 0
                };
                first.through(last).filter(&mut chosen).collect()
            };
            let due = some(seed % 9 + 1);
            let set: DaySet = due.iter().copied().collect();
            for day in first.through(last) {
                assert_eq!(set.contains(day), due.contains(&day));
                let at_or_after = due.iter().find(|other| **other >= day);
                assert_eq!(set.next_in(day), at_or_after.copied(), "{day}");
                let at_or_before = due.iter().rfind(|other| **other <= day);
                assert_eq!(set.prev_in(day), at_or_before.copied(), "{day}");
            }
            assert!(set.iter().eq(due.iter().copied()));
        }
    }
}
