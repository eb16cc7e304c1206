//! A compiled expression and its matches in civil time, where every day has 86,400 seconds.
//!
//! A civil instant is the number of seconds since 1970-01-01T00:00:00 on the wall. Each set of
//! values is a bit mask, so a search costs a few shifts for the time and one mask for a month.
//!
//! Invariant: every mask holds at least one value, and some day of some year matches.

use super::{
    civil::Month,
    days::{highest_bit, low_bits},
    years::{YEAR_MAX, YEAR_MIN, Years},
};

/// A bit for every seventh place: repeats a mask of weekdays over six weeks.
const WEEKS: u64 = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28 | 1 << 35;

/// A compiled cron expression: 60 bytes, so 64 with its zone and rules; no heap.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
// Packed, or the alignment of the first two would make it 64 without zone and rules.
#[repr(Rust, packed(4))]
pub struct Cron {
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u32,
    pub(super) days: Days,
    /// Bit 0 is January.
    pub(super) months: u16,
    pub(super) years: Years,
    pub(super) pace: Pace,
}

/// The days of a month that match: what the two day fields name, and how they combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Days {
    /// `15`; bit 0 is the first of the month.
    pub(super) dates: u32,
    /// `L`, `L-3`; bit 0 is the last of the month, bit 1 the one before.
    pub(super) from_end: u32,
    /// `15W`: the working day (Monday to Friday) nearest to a day, in its month. Bit 0 is the
    /// first of the month.
    pub(super) near: u32,
    /// `LW`, `L-3W`: the working day nearest to a day told from the end; bit 0 is the last.
    pub(super) near_end: u32,
    /// `5`; bit 0 is Sunday.
    pub(super) weekdays: u8,
    /// `5L`, the last of its kind in the month; bit 0 is Sunday.
    pub(super) last: u8,
    /// `5#3`: for each place in the month the weekdays; bit 0 is Sunday.
    pub(super) nth: [u8; 5],
    pub(super) rule: DayRule,
}

/// How day-of-month and day-of-week combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum DayRule {
    /// One of the two fields begins with a star: a day must match both.
    Both,
    /// Both fields are restricted: a day must match either.
    Either,
}

/// What the clock change of a zone does to the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pace {
    /// Minute and hour are fixed times: once for each civil time, whatever the clock does.
    Fixed,
    /// Minute or hour begins with a star: elapsed time, each time the wall shows a match.
    Elapsed,
}

impl Cron {
    /// Whether any day of any year matches. It looks at a few hundred months at most.
    pub(super) fn has_days(&self) -> bool {
        // The calendar repeats every 28 years in a century, so with any year these show all days.
        let years = if self.years.is_every() { 1972..=1999 } else { YEAR_MIN..=YEAR_MAX };
        years.into_iter().map(|year| year as i32).filter(|year| self.years.contains(*year)).any(
            |year| {
                (1..=12)
                    .filter(|month| self.months >> (month - 1) & 1 == 1)
                    .any(|month| self.matching_days(Month::new(year, month)) != 0)
            },
        )
    }

    /// The days of `month` that match; bit 0 is the first.
    pub(super) fn matching_days(&self, month: Month) -> u64 {
        if self.months >> month.index() & 1 == 0 || !self.years.contains(month.year()) {
            return 0;
        }
        self.days.of(month)
    }

    pub(super) fn first_time(&self) -> u32 {
        join(
            self.hours.trailing_zeros(),
            self.minutes.trailing_zeros(),
            self.seconds.trailing_zeros(),
        )
    }

    pub(super) fn last_time(&self) -> u32 {
        join(
            highest_bit(u64::from(self.hours)),
            highest_bit(self.minutes),
            highest_bit(self.seconds),
        )
    }

    pub(super) fn time_at_or_after(&self, time: u32) -> Option<u32> {
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

    pub(super) fn time_at_or_before(&self, time: u32) -> Option<u32> {
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

impl Days {
    /// No day at all.
    pub(super) const NONE: Self = Self {
        dates: 0,
        from_end: 0,
        near: 0,
        near_end: 0,
        weekdays: 0,
        last: 0,
        nth: [0; 5],
        rule: DayRule::Either,
    };

    /// Whether the day-of-month is no restriction.
    pub(super) fn any_date(&self) -> bool {
        u64::from(self.dates) == low_bits(31)
    }

    /// Whether the day-of-week is no restriction.
    pub(super) fn any_weekday(&self) -> bool {
        u64::from(self.weekdays) == low_bits(7)
    }

    /// Drops what is named beside all days: it adds nothing.
    pub(super) fn drop_covered(&mut self) {
        if self.any_date() {
            (self.from_end, self.near, self.near_end) = (0, 0, 0);
        }
        if self.any_weekday() {
            (self.last, self.nth) = (0, [0; 5]);
        }
    }

    /// The matching days of `month`; bit 0 is the first.
    fn of(&self, month: Month) -> u64 {
        let (mut dates, mut weekdays) = (u64::from(self.dates), week_in(month, self.weekdays));
        if self.from_end | self.near | self.near_end != 0 {
            dates |= self.counted_dates(month);
        }
        if self.last != 0 || self.nth != [0; 5] {
            weekdays |= self.counted_weekdays(month);
        }
        let days = match self.rule {
            DayRule::Both => dates & weekdays,
            DayRule::Either => dates | weekdays,
        };
        days & low_bits(month.length())
    }

    /// What `L`, `L-3`, `LW`, `L-3W` and `15W` name in `month`.
    fn counted_dates(&self, month: Month) -> u64 {
        let length = month.length();
        let before_last = |mask: u32| u64::from(mask).reverse_bits() >> (64 - length);
        let wanted = u64::from(self.near) & low_bits(length) | before_last(self.near_end);
        let (saturdays, sundays) = (week_in(month, 1 << 6), week_in(month, 1));
        let workdays = low_bits(length) & !(saturdays | sundays);
        let mut near = wanted & workdays;
        // To the Friday before, but from the first to the Monday after; Sundays the other way.
        near |= (wanted & saturdays & !1) >> 1 | (wanted & saturdays & 1) << 2;
        let last = 1 << (length - 1);
        near |= (wanted & sundays & !last) << 1 | (wanted & sundays & last) >> 2;
        before_last(self.from_end) | near
    }

    /// What `5L` and `5#3` name in `month`.
    fn counted_weekdays(&self, month: Month) -> u64 {
        let last_week = !low_bits(month.length() - 7);
        (0..)
            .step_by(7)
            .zip(self.nth)
            .fold(week_in(month, self.last) & last_week, |days, (start, weekdays)| {
                days | week_in(month, weekdays) & (0x7f << start)
            })
    }
}

/// The days of `month` that fall on one of `weekdays`, and more days after its end.
fn week_in(month: Month, weekdays: u8) -> u64 {
    (u64::from(weekdays) * WEEKS) >> month.first_weekday()
}

const fn split(time: u32) -> (u32, u32, u32) {
    (time / 3_600, time / 60 % 60, time % 60)
}

const fn join(hour: u32, minute: u32, second: u32) -> u32 {
    hour * 3_600 + minute * 60 + second
}
