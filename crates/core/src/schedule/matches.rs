//! The matches of an expression in civil time, on all days or on those of a set.
//!
//! A civil instant is the number of seconds since 1970-01-01T00:00:00 on the wall, where every day
//! has 86,400 of them. A search costs a few shifts for the time and one mask for each month.
//!
//! Invariant: every search and count is bounded by the months between its two ends.

use cronstream_schemas::definition::Shift;

use super::{
    civil::{DAY, Month},
    days::{Day, DaySet, highest_bit, low_bits},
    fields::Cron,
    moved::Moved,
};

/// What an expression matches on the days that count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matches<'a> {
    pub(super) cron: &'a Cron,
    /// `None` is every day.
    pub(super) days: Option<&'a DaySet>,
    /// Where the matches of other days go; `None` is nowhere.
    pub(super) shift: Option<Shift>,
}

impl Matches<'_> {
    /// The first match at or after `civil`, on a day of the calendar.
    pub(super) fn at_or_after(&self, civil: i64) -> Option<i64> {
        self.search_up(civil, Day::LAST.number())
    }

    /// The last match at or before `civil`, on a day of the calendar.
    pub(super) fn at_or_before(&self, civil: i64) -> Option<i64> {
        self.search_down(civil, Day::FIRST.number())
    }

    /// The first match in `from..to`.
    pub(super) fn first_in(&self, from: i64, to: i64) -> Option<i64> {
        self.search_up(from, to.div_euclid(DAY)).filter(|found| *found < to)
    }

    /// The last match in `from..to`.
    pub(super) fn last_in(&self, from: i64, to: i64) -> Option<i64> {
        self.search_down(to - 1, from.div_euclid(DAY)).filter(|found| *found >= from)
    }

    /// The first match at or after `civil`; looks no further than the month of `last_day`.
    fn search_up(&self, civil: i64, last_day: i64) -> Option<i64> {
        let (day, time) = (civil.div_euclid(DAY), civil.rem_euclid(DAY) as u32);
        let (mut month, index) = Month::of_day(day);
        let mut left = self.days_of(month) >> index;
        if left & 1 == 1
            && let Some(time) = self.cron.time_at_or_after(time)
        {
            return Some(day * DAY + i64::from(time));
        }
        left = left >> 1 << 1 << index;
        while left == 0 {
            month = month.following();
            if month.first_day() > last_day {
                return None;
            }
            left = self.days_of(month);
        }
        let day = month.first_day() + i64::from(left.trailing_zeros());
        Some(day * DAY + i64::from(self.cron.first_time()))
    }

    /// The last match at or before `civil`; looks no further than the month of `first_day`.
    fn search_down(&self, civil: i64, first_day: i64) -> Option<i64> {
        let (day, time) = (civil.div_euclid(DAY), civil.rem_euclid(DAY) as u32);
        let (mut month, index) = Month::of_day(day);
        let mut left = self.days_of(month) & low_bits(index + 1);
        if left >> index == 1
            && let Some(time) = self.cron.time_at_or_before(time)
        {
            return Some(day * DAY + i64::from(time));
        }
        left &= low_bits(index);
        while left == 0 {
            if month.first_day() <= first_day {
                return None;
            }
            month = month.preceding();
            left = self.days_of(month);
        }
        let day = month.first_day() + i64::from(highest_bit(left));
        Some(day * DAY + i64::from(self.cron.last_time()))
    }

    /// Whether `civil` is a match.
    pub(super) fn matches(&self, civil: i64) -> bool {
        self.matches_minute(civil) && self.cron.seconds >> civil.rem_euclid(60) & 1 == 1
    }

    /// Whether the minute of `civil` is a match, some second of it that is.
    fn matches_minute(&self, civil: i64) -> bool {
        let (month, index) = Month::of_day(civil.div_euclid(DAY));
        let minute = civil.rem_euclid(DAY) as u32 / 60;
        self.days_of(month) >> index & 1 == 1
            && self.cron.hours >> (minute / 60) & 1 == 1
            && self.cron.minutes >> (minute % 60) & 1 == 1
    }

    /// The number of matches in `from..to`. Walks months, never matches.
    pub(super) fn count_between(&self, from: i64, to: i64) -> u64 {
        if from >= to {
            return 0;
        }
        let whole = self.days_before(from.div_euclid(DAY), to.div_euclid(DAY)) * self.in_a_day();
        whole + self.since_midnight(to) - self.since_midnight(from)
    }

    /// The number of matches in `from..to` that match `shift` seconds later, too. Walks minutes:
    /// it is for the length of one clock change.
    pub(super) fn count_twice(&self, from: i64, to: i64, shift: i64) -> u64 {
        if shift % 60 != 0 {
            let both = |civil: &i64| self.matches(*civil) && self.matches(civil + shift);
            return (from..to).filter(both).count() as u64;
        }
        let minutes = from.div_euclid(60) * 60..to;
        let both =
            |minute: &i64| self.matches_minute(*minute) && self.matches_minute(minute + shift);
        let seconds_of = |minute: i64| {
            let (first, end) = ((from - minute).max(0) as u32, (to - minute).min(60) as u32);
            u64::from((self.cron.seconds & low_bits(end) & !low_bits(first)).count_ones())
        };
        minutes.step_by(60).filter(both).map(seconds_of).sum()
    }

    /// The matching days of `from..to`, both day numbers.
    fn days_before(&self, from: i64, to: i64) -> u64 {
        let (mut month, index) = Month::of_day(from);
        let mut days = self.days_of(month) >> index << index;
        let mut count = 0;
        while month.first_day() + i64::from(month.length()) <= to {
            count += u64::from(days.count_ones());
            month = month.following();
            days = self.days_of(month);
        }
        let rest = (to - month.first_day()) as u32;
        count + u64::from((days & low_bits(rest)).count_ones())
    }

    /// The matches of the day of `civil` that are before it.
    fn since_midnight(&self, civil: i64) -> u64 {
        let (month, index) = Month::of_day(civil.div_euclid(DAY));
        if self.days_of(month) >> index & 1 == 0 {
            return 0;
        }
        let time = civil.rem_euclid(DAY) as u32;
        let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
        let in_minute = u64::from(self.cron.seconds.count_ones());
        let in_hour = u64::from(self.cron.minutes.count_ones()) * in_minute;
        let below = |mask: u64, value: u32| u64::from((mask & low_bits(value)).count_ones());
        let has = |mask: u64, value: u32| mask >> value & 1;
        let hours = u64::from(self.cron.hours);
        below(hours, hour) * in_hour
            + has(hours, hour)
                * (below(self.cron.minutes, minute) * in_minute
                    + has(self.cron.minutes, minute) * below(self.cron.seconds, second))
    }

    /// The matches of a day that counts.
    fn in_a_day(&self) -> u64 {
        u64::from(self.cron.hours.count_ones())
            * u64::from(self.cron.minutes.count_ones())
            * u64::from(self.cron.seconds.count_ones())
    }

    /// The days of `month` that count; bit 0 is the first.
    pub(super) fn days_of(&self, month: Month) -> u64 {
        match (self.days, self.shift) {
            (None, _) => self.cron.matching_days(month),
            (Some(set), None) => self.cron.matching_days(month) & set.in_month(month),
            (Some(working), Some(shift)) => {
                Moved { due: self.cron, working, shift }.in_month(month)
            }
        }
    }
}
