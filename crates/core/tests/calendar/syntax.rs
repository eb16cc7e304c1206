//! Reported faults with cron syntax, each with the answer that is right.

use cronstream_core::schedule::{Cron, Rules, Zone};

use crate::{check, check_count, instant, show};

/// B034, B035
#[test]
fn sunday_is_0_and_7() {
    check("0 7 * * 1-5", "UTC", "2026-08-07T23:00:00Z", &["2026-08-10T07:00:00Z"]);
    let sundays = ["2026-08-09T00:00:00Z", "2026-08-16T00:00:00Z"];
    for expr in ["0 0 * * 0", "0 0 * * 7", "0 0 0 * * 7", "0 0 * * sun", "0 0 * * 7-7", "@weekly"] {
        check(expr, "UTC", "2026-08-07T23:00:00Z", &sundays);
    }
    for (one, other) in
        [("0-7", "0-6"), ("5-7", "fri-sun"), ("5-7", "0,5,6"), ("7-2", "0-2"), ("7-6", "0-6")]
    {
        let parse = |days: &str| Cron::parse(&format!("0 0 1 1 {days}")).unwrap();
        assert_eq!(parse(one), parse(other));
    }
}

/// B036
#[test]
fn restricted_day_and_weekday_combine_by_or() {
    check_count("0 0 13 * 5", "UTC", "2025-12-31T23:59:59Z", "2026-12-31T23:59:59Z", 61);
}

/// B037
#[test]
fn literal_star_decides_the_or_rule() {
    let year = ("2025-12-31T23:59:59Z", "2026-12-31T23:59:59Z");
    check_count("0 9 1-31 * 1", "UTC", year.0, year.1, 365);
    check_count("0 9 * * 1", "UTC", year.0, year.1, 52);
    check_count("0 9 ? * 1", "UTC", year.0, year.1, 52);
    check(
        "0 0 */2 * MON",
        "UTC",
        "2026-11-29T12:00:00Z",
        &["2026-12-07T00:00:00Z", "2026-12-21T00:00:00Z"],
    );
}

/// B040, B041
#[test]
fn impossible_date_is_refused() {
    for expr in ["0 0 30 2 *", "0 0 31 4 *", "0 0 31 2,4,6 *", "0 0 5 31 2 ?", "0 0 31 4 */2"] {
        let error = Cron::parse(expr).unwrap_err();
        assert!(error.message.contains("would never run"), "{error}");
    }
    check("0 0 31 4,5 *", "UTC", "2026-01-01T00:00:00Z", &["2026-05-31T00:00:00Z"]);
    check("0 0 30 2 1", "UTC", "2026-01-01T00:00:00Z", &["2026-02-02T00:00:00Z"]);
}

/// B042
#[test]
fn leap_day_is_found_from_itself_and_over_2100() {
    check("0 0 29 2 *", "UTC", "2020-02-29T00:00:00Z", &["2024-02-29T00:00:00Z"]);
    check(
        "0 0 29 2 *",
        "UTC",
        "2095-01-01T00:00:00Z",
        &["2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"],
    );
    // The longest wait there is: a leap day on one weekday, over 2100.
    check(
        "0 0 29 2 */7",
        "UTC",
        "2072-03-01T00:00:00Z",
        &["2088-02-29T00:00:00Z", "2128-02-29T00:00:00Z"],
    );
}

/// B043
#[test]
fn prev_is_bounded() {
    let cron = Cron::parse("* * * 29 2 *").unwrap();
    let found = cron.prev(Zone::UTC, instant("2021-12-07T00:00:00Z")).unwrap();
    assert_eq!(show(found), "2020-02-29T23:59:59Z");
    assert_eq!(cron.prev(Zone::UTC, 0), None);
    assert_eq!(cron.prev(Zone::UTC, i64::MIN), None);
}

/// B045, B052
#[test]
fn step_starts_at_its_first_value() {
    check(
        "5/15 * * * *",
        "UTC",
        "2026-01-01T00:00:00Z",
        &[
            "2026-01-01T00:05:00Z",
            "2026-01-01T00:20:00Z",
            "2026-01-01T00:35:00Z",
            "2026-01-01T00:50:00Z",
            "2026-01-01T01:05:00Z",
        ],
    );
    check(
        "0/59 * * * * *",
        "UTC",
        "2026-01-01T00:00:00Z",
        &["2026-01-01T00:00:59Z", "2026-01-01T00:01:00Z", "2026-01-01T00:01:59Z"],
    );
    check(
        "*/7 * * * *",
        "UTC",
        "2026-01-01T00:50:00Z",
        &["2026-01-01T00:56:00Z", "2026-01-01T01:00:00Z"],
    );
}

/// B053
#[test]
fn step_over_the_span_is_its_first_value() {
    for expr in ["*/60 * * * *", "*/100 * * * *", "*/4294967296 * * * *", "0/70 * * * *"] {
        check(
            expr,
            "UTC",
            "2026-01-01T00:30:00Z",
            &["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"],
        );
    }
    assert_eq!(Cron::parse("10-20/30 3 * * *"), Cron::parse("10 3 * * *"));
}

#[test]
fn wrapping_range_goes_over_the_end() {
    let pairs = [
        ("0 22-2 * * *", "0 22,23,0,1,2 * * *"),
        ("0 22-2/2 * * *", "0 22,0,2 * * *"),
        ("0 23-2/2 * * *", "0 23,1 * * *"),
        ("50-10/15 3 * * *", "50,5 3 * * *"),
        ("0 0 1 nov-feb 1", "0 0 1 11,12,1,2 1"),
        ("0 0 28-3 * 1", "0 0 28,29,30,31,1,2,3 * 1"),
        ("0 0 1 * FRI-MON", "0 0 1 * 5,6,0,1"),
        ("0 0 1 * 6-2/2", "0 0 1 * 6,1"),
        ("0 0 1 * 5-0", "0 0 1 * 5,6,0"),
    ];
    for (range, list) in pairs {
        assert_eq!(Cron::parse(range), Cron::parse(list), "{range}");
    }
}

/// B051
#[test]
fn matching_and_next_agree() {
    let cron = Cron::parse("* * * * 0,6").unwrap();
    let tuesday = instant("2026-08-04T12:00:00Z");
    assert_eq!(cron.count(Zone::UTC, tuesday - 1, tuesday), 0);
    assert_eq!(show(cron.next(Zone::UTC, tuesday).unwrap()), "2026-08-08T00:00:00Z");
}

/// B055
#[test]
fn sixth_field_is_the_seconds() {
    check("30 30 3 * * *", "UTC", "2026-01-01T00:00:00Z", &["2026-01-01T03:30:30Z"]);
    check("30 3 * * *", "UTC", "2026-01-01T00:00:00Z", &["2026-01-01T03:30:00Z"]);
}

/// B057
#[test]
fn macros_are_the_fields_they_stand_for() {
    let macros = [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("  @hourly\t", "0 * * * *"),
    ];
    for (name, fields) in macros {
        assert_eq!(Cron::parse(name).unwrap(), Cron::parse(fields).unwrap());
    }
}

/// B059
#[test]
fn missing_days_are_jumped_over() {
    check(
        "*/5 * * * 1",
        "UTC",
        "2026-08-04T00:00:00Z",
        &["2026-08-10T00:00:00Z", "2026-08-10T00:05:00Z"],
    );
}

#[test]
fn count_of_a_month_of_seconds_is_not_walked() {
    let month = ("2026-03-01T00:00:00Z", "2026-03-31T00:00:00Z");
    check_count("* * * * * *", "Europe/Berlin", month.0, month.1, 30 * 86_400);
    let cron = Cron::parse("* * * * * *").unwrap();
    assert_eq!(cron.count(Zone::UTC, i64::MIN, i64::MAX), 270 * 365 * 86_400 + 65 * 86_400);
}

#[test]
fn calendar_ends_are_not_crossed() {
    let cron = Cron::parse("0 0 * * *").unwrap();
    assert_eq!(cron.next(Zone::UTC, i64::MIN), Some(0));
    assert_eq!(cron.next(Zone::UTC, i64::MAX), None);
    assert_eq!(show(cron.prev(Zone::UTC, i64::MAX).unwrap()), "2239-12-31T00:00:00Z");
    assert_eq!(cron.count(Zone::UTC, 5, 4), 0);
}

/// A million of them are held in memory, each on its own.
#[test]
fn compiled_schedule_has_64_bytes_and_no_heap() {
    fn bytes<T: Copy>() -> usize {
        size_of::<T>()
    }
    assert!(bytes::<(Cron, Zone, Rules)>() <= 64);
}

/// More of them than are kept compiled: each is compiled again, and is not another.
#[test]
fn an_expression_means_the_same_however_many_others_were_read_between() {
    let midnight = crate::instant("2026-05-01T00:00:00Z");
    for (hour, minute) in (0..24).flat_map(|hour| (0..60).map(move |minute| (hour, minute))) {
        let cron = Cron::parse(&format!("{minute} {hour} * * *")).unwrap();
        let expected = midnight + (hour * 60 + minute) * 60_000;
        assert_eq!(cron.next(Zone::UTC, midnight - 1), Some(expected), "{hour}:{minute}");
    }
}

/// 28 years have a leap day on each weekday.
#[test]
fn a_leap_day_on_any_weekday_comes_some_day() {
    for (weekday, year) in
        [("SUN", 2032), ("MON", 2044), ("TUE", 2028), ("WED", 2040), ("THU", 2052), ("FRI", 2036)]
    {
        let found = format!("{year}-02-29T00:00:00Z");
        check(&format!("0 0 29 2 +{weekday}"), "UTC", "2026-01-01T00:00:00Z", &[&found]);
    }
    check("0 0 29 2 +SAT", "UTC", "2026-01-01T00:00:00Z", &["2048-02-29T00:00:00Z"]);
}

#[test]
fn counted_days_at_the_ends_of_a_month_are_counted_once() {
    let from = "2027-04-01T00:00:00Z";
    // April ends on a Friday.
    check("0 9 * * 5L", "UTC", from, &["2027-04-30T09:00:00Z", "2027-05-28T09:00:00Z"]);
    // The second of January and of October is a Saturday, the first of May as well.
    check("0 9 2W 1 *", "UTC", "2026-12-01T00:00:00Z", &["2027-01-01T09:00:00Z"]);
    check("0 9 2W 10 *", "UTC", from, &["2027-10-01T09:00:00Z"]);
    check("0 9 1W 5 *", "UTC", from, &["2027-05-03T09:00:00Z"]);
}
