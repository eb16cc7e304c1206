//! A compiled expression and its matches in civil time, where every day has 86,400 seconds.
//!
//! A civil instant is the number of seconds since 1970-01-01T00:00:00 on the wall. Each set of
//! values is a bit mask, so a search costs a few shifts for the time and one mask for a month.
//!
//! Invariant: every mask holds at least one value, and some day of some year matches.

use super::civil::{DAY, Month, day_number};

/// Searches end in the months of these days: outside the slots' own range by more than any offset.
const FIRST_CIVIL_DAY: i64 = day_number(1969, 12, 30);
const LAST_CIVIL_DAY: i64 = day_number(2240, 1, 3);

/// A bit for every seventh place: repeats a mask of weekdays over six weeks.
const WEEKS: u64 = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28 | 1 << 35;

/// A compiled cron expression: 32 bytes, no heap.
///
/// ```
/// use cronstream_core::schedule::{Cron, Zone};
///
/// let nightly = Cron::parse("30 2 * * *")?;
/// let berlin = Zone::get("Europe/Berlin")?;
/// // 2026-03-29 has no 02:30 in Berlin: the slot is the end of the gap, 03:00 there.
/// assert_eq!(nightly.next(berlin, 1_774_710_000_000), Some(1_774_746_000_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cron {
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u32,
    /// Bit 0 is the first of the month.
    pub(super) days: u32,
    /// Bit 0 is January.
    pub(super) months: u16,
    /// Bit 0 is Sunday.
    pub(super) weekdays: u8,
    pub(super) day_rule: DayRule,
    pub(super) pace: Pace,
}

/// How day-of-month and day-of-week combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DayRule {
    /// One of the two fields begins with a star: a day must match both.
    Both,
    /// Both fields are restricted: a day must match either.
    Either,
}

/// What the clock change of a zone does to the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Minute and hour are fixed times: once for each civil time, whatever the clock does.
    Fixed,
    /// Minute or hour begins with a star: elapsed time, each time the wall shows a match.
    Elapsed,
}

impl Cron {
    /// Whether any day of any year matches.
    pub(super) fn has_days(&self) -> bool {
        let longest = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let some_date = (0..12)
            .filter(|month| self.months >> month & 1 == 1)
            .any(|month| u64::from(self.days) & low_bits(longest[month]) != 0);
        // Over 400 years every date, 29 February too, falls on every weekday.
        some_date || self.day_rule == DayRule::Either
    }

    /// The first match at or after `civil`.
    pub(super) fn at_or_after(&self, civil: i64) -> Option<i64> {
        let (day, time) = (civil.div_euclid(DAY), civil.rem_euclid(DAY) as u32);
        let (mut month, index) = Month::of_day(day);
        let mut left = self.matching_days(month) >> index;
        if left & 1 == 1
            && let Some(time) = self.time_at_or_after(time)
        {
            return Some(day * DAY + i64::from(time));
        }
        left = left >> 1 << 1 << index;
        while left == 0 {
            month = month.following();
            if month.first_day() > LAST_CIVIL_DAY {
                return None;
            }
            left = self.matching_days(month);
        }
        let day = month.first_day() + i64::from(left.trailing_zeros());
        Some(day * DAY + i64::from(self.first_time()))
    }

    /// The last match at or before `civil`.
    pub(super) fn at_or_before(&self, civil: i64) -> Option<i64> {
        let (day, time) = (civil.div_euclid(DAY), civil.rem_euclid(DAY) as u32);
        let (mut month, index) = Month::of_day(day);
        let mut left = self.matching_days(month) & low_bits(index + 1);
        if left >> index == 1
            && let Some(time) = self.time_at_or_before(time)
        {
            return Some(day * DAY + i64::from(time));
        }
        left &= low_bits(index);
        while left == 0 {
            if month.first_day() < FIRST_CIVIL_DAY {
                return None;
            }
            month = month.preceding();
            left = self.matching_days(month);
        }
        let day = month.first_day() + i64::from(highest_bit(left));
        Some(day * DAY + i64::from(self.last_time()))
    }

    /// Whether `civil` is a match.
    pub(super) fn matches(&self, civil: i64) -> bool {
        let (month, index) = Month::of_day(civil.div_euclid(DAY));
        let (hour, minute, second) = split(civil.rem_euclid(DAY) as u32);
        self.matching_days(month) >> index & 1 == 1
            && self.hours >> hour & 1 == 1
            && self.minutes >> minute & 1 == 1
            && self.seconds >> second & 1 == 1
    }

    /// The number of matches in `from..to`. Walks months, never matches.
    pub(super) fn count_between(&self, from: i64, to: i64) -> u64 {
        if from >= to {
            return 0;
        }
        let (first_day, last_day) = (from.div_euclid(DAY), to.div_euclid(DAY));
        let whole = self.days_before(first_day, last_day) * self.times_in_day();
        whole + self.times_since_midnight(to) - self.times_since_midnight(from)
    }

    /// The matching days of `from..to`, both day numbers.
    fn days_before(&self, from: i64, to: i64) -> u64 {
        let (mut month, index) = Month::of_day(from);
        let mut days = self.matching_days(month) >> index << index;
        let mut count = 0;
        while month.first_day() + i64::from(month.length()) <= to {
            count += u64::from(days.count_ones());
            month = month.following();
            days = self.matching_days(month);
        }
        let rest = (to - month.first_day()) as u32;
        count + u64::from((days & low_bits(rest)).count_ones())
    }

    /// The matches of the day of `civil` that are before it.
    fn times_since_midnight(&self, civil: i64) -> u64 {
        let (month, index) = Month::of_day(civil.div_euclid(DAY));
        if self.matching_days(month) >> index & 1 == 0 {
            return 0;
        }
        let (hour, minute, second) = split(civil.rem_euclid(DAY) as u32);
        let in_minute = u64::from(self.seconds.count_ones());
        let in_hour = u64::from(self.minutes.count_ones()) * in_minute;
        let below = |mask: u64, value: u32| u64::from((mask & low_bits(value)).count_ones());
        let has = |mask: u64, value: u32| mask >> value & 1;
        let hours = u64::from(self.hours);
        below(hours, hour) * in_hour
            + has(hours, hour)
                * (below(self.minutes, minute) * in_minute
                    + has(self.minutes, minute) * below(self.seconds, second))
    }

    fn times_in_day(&self) -> u64 {
        u64::from(self.hours.count_ones())
            * u64::from(self.minutes.count_ones())
            * u64::from(self.seconds.count_ones())
    }

    /// The days of `month` that match; bit 0 is the first.
    fn matching_days(&self, month: Month) -> u64 {
        if self.months >> month.index() & 1 == 0 {
            return 0;
        }
        let weekdays = (u64::from(self.weekdays) * WEEKS) >> month.first_weekday();
        let dates = u64::from(self.days);
        let days = match self.day_rule {
            DayRule::Both => dates & weekdays,
            DayRule::Either => dates | weekdays,
        };
        days & low_bits(month.length())
    }

    fn first_time(&self) -> u32 {
        join(
            self.hours.trailing_zeros(),
            self.minutes.trailing_zeros(),
            self.seconds.trailing_zeros(),
        )
    }

    fn last_time(&self) -> u32 {
        join(
            highest_bit(u64::from(self.hours)),
            highest_bit(self.minutes),
            highest_bit(self.seconds),
        )
    }

    fn time_at_or_after(&self, time: u32) -> Option<u32> {
        let (hour, minute, second) = split(time);
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1 && self.seconds >> second != 0 {
                let second = second + (self.seconds >> second).trailing_zeros();
                return Some(join(hour, minute, second));
            }
            let minutes = self.minutes >> (minute + 1);
            if minutes != 0 {
                let minute = minute + 1 + minutes.trailing_zeros();
                return Some(join(hour, minute, self.seconds.trailing_zeros()));
            }
        }
        let hours = self.hours >> (hour + 1);
        (hours != 0)
            .then(|| (hour + 1 + hours.trailing_zeros()) * 3_600 + self.first_time() % 3_600)
    }

    fn time_at_or_before(&self, time: u32) -> Option<u32> {
        let (hour, minute, second) = split(time);
        if self.hours >> hour & 1 == 1 {
            let seconds = self.seconds & low_bits(second + 1);
            if self.minutes >> minute & 1 == 1 && seconds != 0 {
                return Some(join(hour, minute, highest_bit(seconds)));
            }
            let minutes = self.minutes & low_bits(minute);
            if minutes != 0 {
                return Some(join(hour, highest_bit(minutes), highest_bit(self.seconds)));
            }
        }
        let hours = u64::from(self.hours) & low_bits(hour);
        (hours != 0).then(|| highest_bit(hours) * 3_600 + self.last_time() % 3_600)
    }
}

/// A mask of the lowest `count` bits, `count` < 64.
const fn low_bits(count: u32) -> u64 {
    (1 << count) - 1
}

/// The place of the highest bit of a mask that is not empty.
const fn highest_bit(mask: u64) -> u32 {
    63 - mask.leading_zeros()
}

const fn split(time: u32) -> (u32, u32, u32) {
    (time / 3_600, time / 60 % 60, time % 60)
}

const fn join(hour: u32, minute: u32, second: u32) -> u32 {
    hour * 3_600 + minute * 60 + second
}
