//! Instants as they are typed: with an offset, or on the clock of a zone, to the day, the minute or the millisecond.
//!
//! Invariant: what is refused is refused with its own reason: no such day, before 1970, or no instant at all.

use chrono::{Datelike as _, NaiveDate};
use cronstream_core::schedule::{Day, Rules, Zone};
use cronstream_schemas::definition::When;
use cronstream_schemas::time::Timestamp;

use crate::error::Error;

const DAY_MS: i64 = 86_400_000;
/// The first year with instants.
const YEAR_MIN: i32 = 1970;
/// How long a day is, as `2027-01-31`.
const DATE_BYTES: usize = 10;

/// Reads an instant, a local time, or a day, which begins at its midnight.
///
/// # Errors
/// When it is none of them.
pub(crate) fn read(text: &str) -> Result<When, String> {
    let date = text.get(..DATE_BYTES).filter(|date| is_date(date));
    if let Some(date) = date {
        match NaiveDate::parse_from_str(date, "%Y-%m-%d") {
            Err(_) => return Err(format!("{date} is no day of the calendar")),
            Ok(day) if day.year() < YEAR_MIN => {
                return Err(format!("{date} is before {YEAR_MIN}: slots begin there"));
            }
            Ok(_) if text.len() == DATE_BYTES => {
                return format!("{text}T00:00").parse::<When>().map_err(|it| it.to_string());
            }
            Ok(_) => {}
        }
    }
    text.parse::<When>().map_err(|error| error.to_string())
}

fn is_date(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| match index {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    })
}

/// The instant, where a local time is one on the clock of a zone: in a gap its end, in a fold the first pass.
///
/// # Errors
/// When the clock of the zone never shows it; the error names the option.
pub(crate) fn on_clock(when: When, zone: Zone, option: &str) -> Result<Timestamp, Error> {
    let local = match when {
        When::Instant(at) => return Ok(at),
        When::Local(local) => local,
    };
    let millis = local.civil_millis();
    let (day, within) = (millis.div_euclid(DAY_MS), millis.rem_euclid(DAY_MS));
    let day = Day::from_number(day);
    let second = u32::try_from(within / 1_000).unwrap_or(0);
    let at = day.and_then(|day| zone.resolve(day, second, Rules::default()));
    let at = at.ok_or_else(|| {
        Error::Usage(format!("{option} {local} is not on the clock of {}", zone.name()))
    })?;
    Ok(Timestamp::from_millis(at + within % 1_000))
}

/// The instant, where one is named.
///
/// # Errors
/// As those of [`on_clock`].
pub(crate) fn if_named(
    when: Option<When>,
    zone: Zone,
    option: &str,
) -> Result<Option<Timestamp>, Error> {
    when.map(|when| on_clock(when, zone, option)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_a_local_time_and_an_instant_are_read_on_the_clock_of_the_zone() {
        let berlin = Zone::get("Europe/Berlin").unwrap();
        for (text, at) in [
            ("2030-01-01", "2029-12-31T23:00:00.000Z"),
            ("2030-01-01T00:00:00", "2029-12-31T23:00:00.000Z"),
            ("2030-07-01T12:30", "2030-07-01T10:30:00.000Z"),
            ("2030-07-01T12:30:00.250", "2030-07-01T10:30:00.250Z"),
            ("2030-01-01T00:00:00Z", "2030-01-01T00:00:00.000Z"),
            ("2027-03-28T02:30", "2027-03-28T01:00:00.000Z"),
        ] {
            let read = on_clock(read(text).unwrap(), berlin, "--from").unwrap();
            assert_eq!(read.to_string(), at, "{text}");
        }
    }

    #[test]
    fn what_is_no_instant_is_refused_with_its_own_reason() {
        for (text, why) in [
            ("2030-02-30", "2030-02-30 is no day of the calendar"),
            ("2030-02-30T00:00:00Z", "2030-02-30 is no day of the calendar"),
            ("1969-12-31T23:59:59Z", "1969-12-31 is before 1970"),
            ("1969-12-31", "1969-12-31 is before 1970"),
            ("2030-01-01T25:00", "is neither an RFC 3339 instant nor a local time"),
            ("tomorrow", "is neither an RFC 3339 instant nor a local time"),
            ("2030-01-0é", "is neither an RFC 3339 instant nor a local time"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
