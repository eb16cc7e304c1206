//! What the parser refuses: each refusal names the byte, the piece, the fault and the way out.

use std::time::{Duration, Instant};

use cronstream_core::schedule::{Cron, ParseError, parse};
use cronstream_schemas::definition::Dialect;

use crate::seed;

/// `expr` is refused at `position` for `value`; message and hint hold these words.
#[track_caller]
fn check(expr: &str, position: usize, value: &str, message: &str, hint: &str) {
    check_error(&Cron::parse(expr).unwrap_err(), (position, value), message, hint);
}

/// The same for an expression of a job.
#[track_caller]
fn check_job(expr: &str, position: usize, value: &str, message: &str, hint: &str) {
    let error = parse(expr, Dialect::Crontab, seed()).unwrap_err();
    check_error(&error, (position, value), message, hint);
}

#[track_caller]
fn check_quartz(expr: &str, position: usize, value: &str, message: &str, hint: &str) {
    let error = parse(expr, Dialect::Quartz, seed()).unwrap_err();
    check_error(&error, (position, value), message, hint);
}

#[track_caller]
fn check_error(error: &ParseError, (position, value): (usize, &str), message: &str, hint: &str) {
    assert_eq!((error.position, error.value.as_str()), (position, value), "{error}");
    assert!(error.message.contains(message), "{error}");
    assert!(error.hint.contains(hint), "{error}");
    let shown = error.to_string();
    assert!(shown.contains(&error.message) && shown.contains(&error.hint), "{shown}");
}

/// B053
#[test]
fn malformed_field_is_refused_at_its_byte() {
    check("*/0 * * * *", 2, "0", "minute step is 0", "`*/1`");
    check("60 * * * *", 0, "60", "minute is out of range", "0 to 59");
    check("0 24 * * *", 2, "24", "hour is out of range", "0 to 23");
    check("0 0 0 * *", 4, "0", "day-of-month is out of range", "1 to 31");
    check("0 0 * 13 *", 6, "13", "month is out of range", "1 to 12");
    check("0 0 * * 8", 8, "8", "day-of-week is out of range", "0 to 7");
    check("0 0 * * 99999999999999999999", 8, "99999999999999999999", "out of range", "0 to 7");
    check("0,30-70 * * * *", 5, "70", "minute is out of range", "0 to 59");
    check("1,,2 * * * *", 2, ",2", "empty list item", "`1,2`");
    check("1,2, * * * *", 3, ",", "empty list item", "without blanks");
    check("0 ,2 * * *", 2, ",2", "empty list item", "without blanks");
    check("1,,2", 2, ",2", "empty list item", "`1,2`");
    check("1 , 2", 2, ",", "empty list item", "without blanks");
    check("1 , 2 * * *", 2, ",", "empty list item", "without blanks");
    check("0 */ * * *", 4, "", "hour step is not a number", "`*/5`");
    check("0 */2/3 * * *", 4, "2/3", "hour step is not a number", "`*/5`");
    check("0 1-2-3 * * *", 4, "2-3", "not a valid hour", "0 to 23");
    check("0 -5 * * *", 2, "", "not a valid hour", "0 to 23");
    check("0 *5 * * *", 2, "*5", "not a valid hour", "0 to 23");
    check("+5 * * * *", 0, "+5", "not a valid minute", "0 to 59");
}

#[test]
fn wrong_number_of_fields_is_refused() {
    check("", 0, "", "empty expression", "five fields");
    check(" \t ", 3, "", "empty expression", "five fields");
    check("******", 0, "******", "1 field,", "blanks between the stars");
    check(" * * * *", 1, "* * * *", "4 fields", "minute hour day month weekday");
    check("* * * * * * * *", 14, "*", "8 or more fields", "minute hour day month weekday");
    check("* * * * * * * * 9 9", 14, "* 9 9", "8 or more fields", "minute hour day month weekday");
    check("0 3 * * * 2027", 10, "2027", "year in the place", "seventh field");
}

#[test]
fn foreign_characters_are_refused() {
    check("٣ * * * *", 0, "٣", "U+0663 is not allowed", "ASCII digits");
    check("0 ３ * * *", 2, "３", "U+FF13 is not allowed", "ASCII digits");
    check("0\u{a0}3 * * *", 1, "\u{a0}", "U+00A0 is not allowed", "plain blanks");
    check("0 3 * * *\u{b}", 9, "\u{b}", "U+000B is not allowed", "plain blanks");
    check("0 3 * * *\n", 9, "\n", "U+000A is not allowed", "line break");
    check("0 3 * * *\r", 9, "\r", "U+000D is not allowed", "Windows");
    check("\u{feff}0 3 * * *", 0, "\u{feff}", "U+FEFF is not allowed", "byte order mark");
    check("0 3 * * *\0", 9, "\0", "U+0000 is not allowed", "blanks");
}

/// B057
#[test]
fn unknown_macro_is_refused() {
    check("@reboot", 0, "@reboot", "unknown macro", "no host");
    check(" @DAILY", 1, "@DAILY", "unknown macro", "`@daily`");
    check("@daily 5", 0, "@daily 5", "unknown macro", "nothing after it");
    check("@fortnightly", 0, "@fortnightly", "unknown macro", "@weekly");
    check("@EVERY 5m", 0, "@EVERY 5m", "unknown macro", "`@every`");
    check("@", 0, "@", "unknown macro", "@weekly");
}

/// B057
#[test]
fn interval_is_refused_outside_the_bounds_of_every() {
    check_job("@every", 0, "@every", "without an interval", "`@every 90m`");
    check_job("@every 5", 7, "5", "not a duration", "1h30m");
    check_job(" @every  1.5h", 9, "1.5h", "not a duration", "1h30m");
    check_job("@every 5m 3s", 7, "5m 3s", "not a duration", "1h30m");
    check_job("@every 99ms", 7, "99ms", "out of range", "100ms to 366d");
    check_job("@every 367d", 7, "367d", "out of range", "100ms to 366d");
    check_job("@every 99999999d", 7, "99999999d", "out of range", "100ms to 366d");
    check("@every 90m", 0, "@every 90m", "interval", "`0 3 * * *`");
}

/// B046: what `L`, `W` and `#` cannot mean is told when it is written, not when it is due.
#[test]
fn nonsense_of_counted_days_is_refused() {
    check("0 0 * * L", 8, "L", "`L` without a weekday", "`5L`");
    check("0 0 L-31 * *", 4, "L-31", "out of range", "L-1 to L-30");
    check("0 0 L-0 * *", 4, "L-0", "out of range", "L-1 to L-30");
    check("0 0 32W * *", 4, "32", "day-of-month is out of range", "1 to 31");
    check("0 0 0W * *", 4, "0", "day-of-month is out of range", "1 to 31");
    check("0 0 * * 8#1", 8, "8", "day-of-week is out of range", "0 to 7");
    check("0 0 * * 5#6", 10, "6", "not 1 to 5", "`5L` for the last");
    check("0 0 * * 5#0", 10, "0", "not 1 to 5", "`5L` for the last");
    check("0 0 * * 5#", 10, "", "not 1 to 5", "`5L` for the last");
    check_quartz("0 0 12 ? * 6#6", 13, "6", "not 1 to 5", "`6L` for the last");
    check("0 0 * * #3", 8, "", "not a valid day-of-week", "0 to 7");
    check("0 0 * * 5#1-3", 10, "1-3", "not 1 to 5", "`5L` for the last");
    check("0 0 * * 5L#2", 8, "5L", "not a valid day-of-week", "0 to 7");
    check("0 0 * * 1-5L", 8, "1-5", "not a valid day-of-week", "0 to 7");
    check("0 0 * * 8L", 8, "8", "day-of-week is out of range", "0 to 7");
    check("0 0 * * L-3", 8, "L", "not a valid day-of-week", "one weekday");
    check("0 0 * * 5L/2", 8, "5L", "not a valid day-of-week", "0 to 7");
    check("0 0 1-L * *", 6, "L", "not a valid day-of-month", "not in a range");
    check("0 0 L/2 * *", 4, "L/2", "not a valid day-of-month", "with a step");
    check("0 0 L-3-5 * *", 4, "L-3-5", "not a valid day-of-month", "not in a range");
    check("0 0 LW-3 * *", 4, "LW-3", "not a valid day-of-month", "`L-3W`");
    check("0 0 L-31W * *", 4, "L-31W", "before the last is out of range", "L-1 to L-30");
    check("0 0 LL * *", 4, "LL", "not a valid day-of-month", "stands alone");
    check("0 0 W * *", 4, "W", "not a valid day-of-month", "`15W`");
    check("0 0 10-15W * *", 4, "10-15W", "not a valid day-of-month", "one day");
    check("0 0 15W/2 * *", 4, "15W", "not a valid day-of-month", "one day");
    check("0 0 1,*,L * *", 8, "L", "list with a star", "`1,15,L`");
    check("0 0 * * */2,5#3", 12, "5#3", "list with a star", "alone");
    check("L * * * *", 0, "L", "not a valid minute", "belong to the days");
    check("0 0 5#3 * *", 4, "5#3", "not a valid day-of-month", "day-of-week");
    check("0 0 * * 5W", 8, "5W", "not a valid day-of-week", "day-of-month");
}

/// B050: words of one dialect in the other name the dialect they belong to.
#[test]
fn words_of_the_other_dialect_are_refused_with_its_name() {
    let quartz = "dialect: quartz";
    let crontab = "dialect: crontab";
    check("0 0 * * L", 8, "L", "without a weekday", quartz);
    check("? * * * *", 0, "?", "`?` in the minute", "elsewhere write `*`");
    check("0 0 ?/2 * *", 4, "?/2", "`?` in the day-of-month", "stands alone");
    check("0 0 1,? * *", 6, "?", "`?` in the day-of-month", "stands alone");
    check("/5 * * * *", 0, "/5", "without a start", "`*/5`");
    check_quartz("15 10 ? * 6L", 0, "15 10 ? * 6L", "5 fields, not 6 or 7", crontab);
    check_quartz("* * * *", 0, "* * * *", "4 fields", "second minute hour");
    check_quartz("0 0 0 ? * 0", 10, "0", "out of range", crontab);
    check_quartz("0 0 0 ? * 0-6", 10, "0", "out of range", crontab);
    check_quartz("0 0 0 ? * 8", 10, "8", "out of range", "1 to 7");
    check_quartz("0 0 12 1 * MON", 11, "MON", "both given", crontab);
    check_quartz("0 0 12 * * *", 11, "*", "both given", "`?` in one of them");
    check_quartz("0 0 12 ? * ?", 11, "?", "both `?`", "`0 0 12 * * ?`");
    check_quartz("0 0 12 ? * +MON", 11, "+MON", "not a valid day-of-week", crontab);
    check_quartz("@daily", 0, "@daily", "Quartz expression", crontab);
    check_quartz("0 0 12 ? * 6L-2", 11, "6L", "not a valid day-of-week", "1 to 7");
    check_quartz("0 0 12 ? * 2027", 11, "2027", "year in the place", "seventh");
}

#[test]
fn stray_plus_is_refused() {
    check("0 12 * * +*", 9, "+*", "`+` without weekdays", "`0 12 1 * +MON`");
    check("0 12 1 * +", 9, "+", "`+` without weekdays", "`0 12 1 * +MON`");
    check("0 12 +1 * *", 5, "+1", "not a valid day-of-month", "before the day-of-week");
    check("0 12 1 * MON,+FRI", 13, "+FRI", "not a valid day-of-week", "`+MON,FRI`");
}

#[test]
fn name_of_more_letters_is_refused_with_the_short_one() {
    check("0 0 * * monday", 8, "monday", "not a valid day-of-week", "`mon`");
    check("0 0 1 JULY *", 6, "JULY", "not a valid month", "`jul`");
    check("0 0 * * mon5", 8, "mon5", "not a valid day-of-week", "sun to sat");
    check("0 0 * * mo", 8, "mo", "not a valid day-of-week", "sun to sat");
}

#[test]
fn zone_without_a_name_or_a_second_one_is_refused() {
    check_job("TZ= 0 3 * * *", 0, "TZ=", "zone without a name", "TZ=Europe/Berlin");
    check_job(" CRON_TZ=\t0 3 * * *", 1, "CRON_TZ=", "zone without a name", "TZ=Europe/Berlin");
    check_job("TZ=UTC", 6, "", "empty expression", "five fields");
    check_job("TZ=UTC CRON_TZ=UTC * * * * *", 7, "CRON_TZ=UTC", "second zone", "one `TZ=`");
    check_job("tz=UTC 0 3 * * *", 0, "tz=UTC", "not a zone prefix", "in capitals");
    check_job("tz=Europe/Berlin 0 3 * * *", 0, "tz=Europe/Berlin", "not a zone prefix", "`TZ=");
    let (berlin, behind) = ("Europe/Berlin", "zone behind the fields");
    check_job("0 3 * * * Europe/Berlin", 10, berlin, behind, "`TZ=Europe/Berlin …`");
    check_job("0 3 * * * TZ=UTC", 10, "TZ=UTC", behind, "`TZ=UTC …`");
    check("TZ=Europe/Berlin 0 3 * * *", 3, "Europe/Berlin", "zone inside", "beside");
    check("CRON_TZ=UTC 0 3 * * *", 8, "UTC", "zone inside", "beside");
}

/// B027: a zone that is refused is marked where it stands.
#[test]
fn unknown_zone_of_a_prefix_is_refused_at_its_byte() {
    check_job("TZ=Local 0 3 * * *", 3, "Local", "unknown time zone", "the host's zone");
    check_job(" CRON_TZ=EST @daily", 9, "EST", "unknown time zone", "old abbreviation");
    check_job("TZ== 0 3 * * *", 3, "=", "unknown time zone", "IANA name");
    check_quartz("TZ=Europe/Berln 0 0 3 * * ?", 3, "Europe/Berln", "unknown", "`Europe/Berlin`");
}

/// B055
#[test]
fn six_fields_that_begin_with_the_minute_are_refused_with_the_reason() {
    let hint = "of six fields the first is the second";
    check("0 22 * * MON-FRI *", 9, "MON-FRI", "weekday in the place of the month", hint);
    check("15 10 * * ? *", 10, "?", "`?` in the month", hint);
    check("15 10 ? * MON-FRI *", 10, "MON-FRI", "weekday in the place of the month", hint);
    check("15 10 ? * 6L *", 6, "?", "`?` in the hour", hint);
    check_quartz("15 10 * * ? *", 10, "?", "`?` in the month", hint);
}

#[test]
fn malformed_hash_slot_is_refused() {
    check("H H * * *", 0, "H", "hash slot without a job", "name the job");
    for slot in ["HH", "H(", "H()", "H(5)", "H(0-5", "H0-5", "H(0-5)x", "H-5"] {
        check_job(&format!("{slot} * * * *"), 0, slot, "not a hash slot", "`H(0-29)/10`");
    }
    check_job("0~30 * * * *", 0, "0~30", "not a valid minute", "`H(0-5)`");
    check_job("H(0-60) * * * *", 4, "60", "minute is out of range", "0 to 59");
    check_job("H/0 * * * *", 2, "0", "minute step is 0", "1 or more");
    check_job("H(0-5)/x * * * *", 7, "x", "minute step is not a number", "`*/5`");
    check_job("0 0 0 1 1 * H", 12, "H", "hash slot in the year", "`2027-2030`");
}

#[test]
fn malformed_year_is_refused() {
    check("0 0 0 1 1 * 1969", 12, "1969", "year is out of range", "1970 to 2199");
    check("0 0 0 1 1 * 2200", 12, "2200", "year is out of range", "1970 to 2199");
    check("0 0 0 1 1 * 27", 12, "27", "year is out of range", "1970 to 2199");
    check("0 0 0 1 1 * 2030-2027", 12, "2030-2027", "ends before it begins", "earlier year first");
    let years = "1970,1971,1980,1982,1990,1993,2000,2005,2100";
    check(&format!("0 0 0 1 1 * {years}"), 12, years, "more than four", "ranges");
    check("0 0 0 1 1 * ?", 12, "?", "`?` in the year", "`*`");
}

/// B040
#[test]
fn what_never_fires_is_refused_at_its_day() {
    check("0 0 30 2 *", 4, "30", "`2` has such a day", "28");
    check("0 0 31 feb,apr *", 4, "31", "would never run", "28");
    check("0 0 31W 4,6 *", 4, "31W", "would never run", "28");
    check("0 0 L-29 2 *", 4, "L-29", "would never run", "28");
    check("0 0 30 2 +MON", 4, "30", "would never run", "days that can meet");
    check("0 0 1 * +5#2", 4, "1", "no month has such a day", "days that can meet");
    check("0 0 0 29 2 * 2027", 6, "29", "`2` in `2027` has such a day", "28");
    check("0 0 0 29 2 * 2097-2103", 6, "29", "in `2097-2103` has", "28");
    check("0 0 0 * 2 5#5 2027-2031", 10, "5#5", "would never run", "28");
    check_quartz("0 0 0 31 4 ? 2030", 6, "31", "would never run", "28");
}

/// B040: also where every month of every year must be looked at, in a debug build.
#[test]
#[expect(clippy::disallowed_methods, reason = "the time that the parser takes is measured")]
fn what_never_fires_is_refused_within_a_millisecond() {
    let exprs = [
        "0 0 30 2 *",
        "0 0 31 2,4,6,9,11 *",
        "0 0 0 29 2 +5#2 1970-2199",
        "0 0 0 1 * +5#2 1970-2199",
    ];
    for expr in exprs {
        let tries = (0..20).map(|_| {
            let start = Instant::now();
            assert!(Cron::parse(expr).unwrap_err().message.contains("would never run"));
            start.elapsed()
        });
        let fastest = tries.min().unwrap();
        assert!(fastest < Duration::from_millis(1), "`{expr}` took {fastest:?}");
    }
}

#[test]
fn over_long_input_is_refused_and_cut() {
    let blanks = " ".repeat(1_015);
    assert!(Cron::parse(&format!("{blanks}0 3 * * *")).is_ok());
    assert_eq!(Cron::parse(&format!(" {blanks}0 3 * * *")).unwrap_err().position, 1_024);
    let error = Cron::parse(&"x".repeat(1_000)).unwrap_err();
    assert_eq!(error.value.len(), 256);
    let error = Cron::parse(&format!("x{}", "é".repeat(600))).unwrap_err();
    assert_eq!(error.position, 1_023, "a character border");
    assert!(Cron::parse(&"é".repeat(1 << 20)).unwrap_err().value.len() <= 256);
    let list = vec!["1"; 100].join(",");
    assert!(Cron::parse(&format!("{list} * * * *")).is_ok());
    let error = Cron::parse(&format!("{list},1 * * * *")).unwrap_err();
    assert!(error.message.contains("over 100 list items"), "{error}");
    let years = vec!["2027"; 100].join(",");
    assert!(Cron::parse(&format!("0 0 0 1 1 * {years}")).is_ok());
    let error = Cron::parse(&format!("0 0 0 1 1 * {years},2027")).unwrap_err();
    assert!(error.message.contains("over 100 list items"), "{error}");
}
