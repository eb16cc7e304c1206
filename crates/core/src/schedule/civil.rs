//! Civil days and months as numbers: no zone, no clock.
//!
//! Invariant: exact in the proleptic Gregorian calendar; a day is counted from 1970-01-01 (day 0).

/// Seconds of a civil day.
pub(super) const DAY: i64 = 86_400;

/// The number of the day `year-month-day`.
pub(super) const fn day_number(year: i32, month: u32, day: u32) -> i64 {
    // Years begin in March here, so that the leap day is the last of its year.
    let year = year as i64 - (month <= 2) as i64;
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = ((153 * ((month as i64 + 9) % 12) + 2) / 5) + day as i64 - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// One month of the calendar, placed on the line of days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Month {
    year: i32,
    /// 1 to 12.
    month: u32,
    first_day: i64,
}

impl Month {
    /// The month of a year, counted from 1.
    pub(super) const fn new(year: i32, month: u32) -> Self {
        Self { year, month, first_day: day_number(year, month, 1) }
    }

    /// The month that holds `day`, and the day's place in it from 0.
    pub(super) fn of_day(day: i64) -> (Self, u32) {
        let shifted = day + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097) as u32;
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let index = of_year - (153 * from_march + 2) / 5;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = (era * 400) as i32 + year_of_era as i32 + i32::from(month <= 2);
        (Self { year, month, first_day: day - i64::from(index) }, index)
    }

    /// The number of this month's first day.
    pub(super) const fn first_day(self) -> i64 {
        self.first_day
    }

    /// The year.
    pub(super) const fn year(self) -> i32 {
        self.year
    }

    /// The months since January of the year 0.
    pub(super) const fn ordinal(self) -> i32 {
        self.year * 12 + self.month as i32 - 1
    }

    /// 0 for January to 11 for December.
    pub(super) const fn index(self) -> u32 {
        self.month - 1
    }

    /// The weekday of the first day: 0 for Sunday to 6 for Saturday.
    pub(super) const fn first_weekday(self) -> u32 {
        (self.first_day + 4).rem_euclid(7) as u32
    }

    /// How many days the month has.
    pub(super) const fn length(self) -> u32 {
        if self.month == 2 {
            28 + is_leap(self.year) as u32
        } else {
            30 + ((self.month + self.month / 8) & 1)
        }
    }

    /// The month after this one.
    pub(super) const fn following(self) -> Self {
        let first_day = self.first_day + self.length() as i64;
        if self.month == 12 {
            Self { year: self.year + 1, month: 1, first_day }
        } else {
            Self { year: self.year, month: self.month + 1, first_day }
        }
    }

    /// The month before this one.
    pub(super) const fn preceding(self) -> Self {
        let (year, month) =
            if self.month == 1 { (self.year - 1, 12) } else { (self.year, self.month - 1) };
        let shorter = Self { year, month, first_day: 0 };
        Self { first_day: self.first_day - shorter.length() as i64, ..shorter }
    }
}

const fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_months_agree_over_four_centuries() {
        let first = day_number(1900, 1, 1);
        let (mut month, index) = Month::of_day(first);
        assert_eq!(index, 0);
        let mut day = first;
        while day < day_number(2300, 1, 1) {
            assert_eq!(month.following().preceding(), month);
            for index in 0..month.length() {
                assert_eq!(Month::of_day(day), (month, index));
                assert_eq!(day_number(month.year, month.month, index + 1), day);
                day += 1;
            }
            month = month.following();
        }
    }

    #[test]
    fn weekdays_and_leap_years_are_the_known_ones() {
        assert_eq!(day_number(1970, 1, 1), 0);
        assert_eq!(Month::of_day(0).0.first_weekday(), 4, "1970-01-01 was a Thursday");
        assert_eq!(Month::of_day(day_number(2100, 2, 28)).0.length(), 28);
        assert_eq!(Month::of_day(day_number(2000, 2, 29)).0.length(), 29);
    }
}
