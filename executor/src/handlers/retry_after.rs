//! `Retry-After` of an HTTP response: seconds, or a date in one of the three forms of RFC 9110 §5.6.7.

use std::time::Duration;

use chrono::NaiveDateTime;
use cronstream_schemas::time::Timestamp;

const DATE_FORMS: [&str; 3] =
    ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// How long to wait from `now` on; `None` when the text is neither form. A date that has passed is no wait.
pub(super) fn parse(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = DATE_FORMS.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())?;
    Some(Timestamp::from(date.and_utc()).since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_all_three_dates_are_read() {
        let now: Timestamp = "1994-11-06T08:49:00Z".parse().unwrap();
        for (text, seconds) in [
            ("120", Some(120)),
            ("0", Some(0)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(37)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(37)),
            ("Sun Nov  6 08:49:37 1994", Some(37)),
            ("Sun, 06 Nov 1994 08:48:37 GMT", Some(0)),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(parse(text, now), seconds.map(Duration::from_secs), "{text}");
        }
    }
}
