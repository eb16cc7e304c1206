//! The one form in which instants are written, `2027-01-31T03:00:00.000Z`, without a calendar that knows of more: each
//! event has several of them.
//!
//! Invariant: what is written is what chrono writes of the instant, and reading gives it back; any other form is left
//! to chrono.

use super::Timestamp;

/// How long the text is.
pub(super) const BYTES: usize = 24;
/// The text of an instant, with `0` for each digit.
const FORM: [u8; BYTES] = *b"0000-00-00T00:00:00.000Z";
const MILLIS_A_DAY: u64 = 86_400_000;
/// Days of four hundred years, after which the calendar repeats.
const ERA_DAYS: u64 = 146_097;
/// Days from the first of March of the year 0 to the first of January 1970.
const TO_1970: u64 = 719_468;

/// A date of the Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Date {
    year: u64,
    month: u64,
    day: u64,
}

impl Date {
    /// The date so many days after the first of January 1970. Years are counted from March, so that a leap day is a
    /// year's last.
    const fn of(days: u64) -> Self {
        let days = days + TO_1970;
        let (era, of_era) = (days / ERA_DAYS, days % ERA_DAYS);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / (ERA_DAYS - 1)) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let next = if month <= 2 { 1 } else { 0 };
        Self { year: era * 400 + year + next, month, day }
    }

    /// How many days it is after the first of January 1970.
    const fn days(self) -> u64 {
        let Self { year, month, day } = self;
        let (year, from_march) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
        let (era, year) = (year / 400, year % 400);
        let of_year = (153 * from_march + 2) / 5 + day - 1;
        era * ERA_DAYS + year * 365 + year / 4 - year / 100 + of_year - TO_1970
    }
}

/// Writes an instant.
pub(super) fn write(at: Timestamp, text: &mut [u8; BYTES]) -> &str {
    let millis = at.as_millis().cast_unsigned();
    let Date { year, month, day } = Date::of(millis / MILLIS_A_DAY);
    let millis = millis % MILLIS_A_DAY;
    *text = FORM;
    let mut digits = |from: usize, to: usize, mut number: u64| {
        for digit in text[from..to].iter_mut().rev() {
            *digit += (number % 10) as u8;
            number /= 10;
        }
    };
    digits(0, 4, year);
    digits(5, 7, month);
    digits(8, 10, day);
    digits(11, 13, millis / 3_600_000);
    digits(14, 16, millis / 60_000 % 60);
    digits(17, 19, millis / 1_000 % 60);
    digits(20, 23, millis % 1_000);
    std::str::from_utf8(text).expect("digits and signs")
}

/// Reads an instant that is written so.
pub(super) fn read(text: &str) -> Option<Timestamp> {
    let text: &[u8; BYTES] = text.as_bytes().try_into().ok()?;
    let fits = |(found, form): (&u8, &u8)| match form {
        b'0' => found.is_ascii_digit(),
        sign => found == sign,
    };
    if !text.iter().zip(&FORM).all(fits) {
        return None;
    }
    let number = |from: usize, to: usize| {
        text[from..to].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
    };
    let date = Date { year: number(0, 4), month: number(5, 7), day: number(8, 10) };
    let (hour, minute, second) = (number(11, 13), number(14, 16), number(17, 19));
    let is_time = hour <= 23 && minute <= 59 && second <= 59;
    if !is_time || date.year < 1970 || !(1..=12).contains(&date.month) || date.day == 0 {
        return None;
    }
    let days = date.days();
    // A day that its month does not have is one of the next month.
    if Date::of(days) != date {
        return None;
    }
    let millis = (hour * 3_600 + minute * 60 + second) * 1_000 + number(20, 23);
    Some(Timestamp::from_millis(i64::try_from(days * MILLIS_A_DAY + millis).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    use chrono::{DateTime, SecondsFormat};

    fn chronos(at: Timestamp) -> String {
        at.to_datetime().to_rfc3339_opts(SecondsFormat::Millis, true)
    }

    #[test]
    fn an_instant_is_written_as_chrono_writes_it_and_read_again() {
        let check = |at: Timestamp| {
            let mut text = [0; BYTES];
            let text = write(at, &mut text);
            assert_eq!((text, read(text)), (&*chronos(at), Some(at)));
        };
        // Every day of four centuries and more, at another millisecond of it each time.
        for day in 0..170_000 {
            check(Timestamp::from_millis(day * 86_400_000 + day * 7_919 * 31 % 86_400_000));
        }
        // Ends of years, and of February, in every year there is.
        for year in 1970..=9999 {
            for date in ["01-01T00:00:00.000Z", "02-28T23:59:59.999Z", "03-01T00:00:00.000Z"] {
                let at = DateTime::parse_from_rfc3339(&format!("{year}-{date}")).unwrap();
                check(Timestamp::from_millis(at.timestamp_millis()));
                check(Timestamp::from_millis(at.timestamp_millis() - 1));
            }
        }
        check(Timestamp::MAX);
    }

    #[test]
    fn what_is_no_instant_of_this_form_is_left_alone() {
        for text in [
            "",
            "2027-01-31T03:00:00Z",
            "2027-01-31T03:00:00.0000Z",
            "2027-01-31t03:00:00.000z",
            "2027-01-31 03:00:00.000Z",
            "1969-12-31T23:59:59.999Z",
            "2027-00-01T00:00:00.000Z",
            "2027-13-01T00:00:00.000Z",
            "2027-01-00T00:00:00.000Z",
            "2027-02-29T00:00:00.000Z",
            "2100-02-29T00:00:00.000Z",
            "2027-04-31T00:00:00.000Z",
            "2027-01-31T24:00:00.000Z",
            "2027-01-31T03:60:00.000Z",
            "2027-01-31T03:00:60.000Z",
            "2027-01-31T03:00:0é.000Z",
            "-027-01-31T03:00:00.000Z",
            "2027-01-31T03:00:00.00+Z",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
