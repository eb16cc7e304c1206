//! The two dialects: what an expression means in each, in normal form and in slots.

use cronstream_core::schedule::{Cron, Rule, Zone, parse};
use cronstream_schemas::definition::Dialect;

use crate::{check, instant, seed, show};

/// `expr` has this normal form.
#[track_caller]
fn check_text(expr: &str, dialect: Dialect, text: &str) {
    let parsed = parse(expr, dialect, seed()).unwrap();
    assert_eq!(parsed.text, text, "`{expr}`");
}

/// `expr` is due at these midnights after `from`.
#[track_caller]
fn check_days(expr: &str, dialect: Dialect, from: &str, expected: &[&str]) {
    let parsed = parse(expr, dialect, seed()).unwrap();
    let Rule::Cron(cron) = parsed.rule else { panic!("`{expr}` is an interval") };
    let mut at = instant(&format!("{from}T00:00:00Z")) - 1;
    for day in expected {
        at = cron.next(Zone::UTC, at).unwrap();
        assert_eq!(&show(at)[..10], *day, "`{expr}` from {from}");
    }
}

/// B050
#[test]
fn quartz_counts_weekdays_from_1_for_sunday() {
    let cases = [
        ("0 15 10 ? * 6L", "15 10 * * 5L"),
        ("0 15 10 ? * FRIL", "15 10 * * 5L"),
        ("0 15 10 ? * 6#3", "15 10 * * 5#3"),
        ("0 15 10 ? * FRI#3", "15 10 * * 5#3"),
        ("0 15 10 ? * 2-6", "15 10 * * 1-5"),
        ("0 15 10 ? * MON-FRI", "15 10 * * 1-5"),
        ("0 15 10 ? * 1", "15 10 * * 0"),
        ("0 15 10 ? * 7", "15 10 * * 6"),
        ("0 15 10 ? * L", "15 10 * * 6"),
        ("0 15 10 ? * 7L", "15 10 * * 6L"),
        ("0 15 10 ? * 1L", "15 10 * * 0L"),
        ("0 15 10 ? * */2", "15 10 * * 0-6/2"),
        ("0 15 10 ? * 2/2", "15 10 * * 1-5/2"),
        ("0 15 10 ? * 6-2", "15 10 * * 0,1,5,6"),
        ("0 15 10 ? * FRI-MON", "15 10 * * 0,1,5,6"),
        ("0 15 10 ? * *", "15 10 * * *"),
    ];
    for (quartz, crontab) in cases {
        check_text(quartz, Dialect::Quartz, crontab);
    }
}

/// B050
#[test]
fn quartz_shape_is_read_as_it_is_written() {
    let cases = [
        ("0 0 12 * * ?", "0 12 * * *"),
        ("0 * 14 * * ?", "* 14 * * *"),
        ("0 0/5 14,18 * * ?", "0-55/5 14,18 * * *"),
        ("0 10,44 14 ? 3 WED", "10,44 14 * 3 3"),
        ("0 15 10 15 * ?", "15 10 15 * *"),
        ("0 15 10 L * ?", "15 10 L * *"),
        ("0 15 10 L-2 * ?", "15 10 L-2 * *"),
        ("0 15 10 LW * ?", "15 10 LW * *"),
        ("0 15 10 15w * ?", "15 10 15W * *"),
        ("0 15 10 ? * 6L 2027-2030", "0 15 10 * * 5L 2027-2030"),
        ("0 15 10 * * ? 2099", "0 15 10 * * * 2099"),
        ("0 15 10 * * ? 2100,2199", "0 15 10 * * * 2100,2199"),
        ("0 15 10 * * ? *", "15 10 * * *"),
        ("0 11 11 11 11 ?", "11 11 11 11 *"),
        ("30 0 22-2 ? * MON", "30 0 0-2,22,23 * * 1"),
        ("TZ=UTC 0 0 12 1/5 * ?", "0 12 1-31/5 * *"),
    ];
    for (quartz, crontab) in cases {
        check_text(quartz, Dialect::Quartz, crontab);
    }
}

/// B050: the same text is another day in the other dialect.
#[test]
fn same_text_differs_between_the_dialects() {
    let fridays = ["2026-11-27", "2026-12-25", "2027-01-29"];
    let saturdays = ["2026-11-28", "2026-12-26", "2027-01-30"];
    check_days("0 15 10 ? * 6L", Dialect::Quartz, "2026-11-01", &fridays);
    check_days("0 15 10 ? * 6L", Dialect::Crontab, "2026-11-01", &saturdays);
    check_days("15 10 ? * 6L", Dialect::Crontab, "2026-11-01", &saturdays);
}

/// B047
#[test]
fn last_friday_is_the_last_of_its_month() {
    for expr in ["0 0 * * 5L", "0 0 * * FRIL", "0 0 * * fril"] {
        check(
            expr,
            "UTC",
            "2024-07-11T00:00:00Z",
            &["2024-07-26T00:00:00Z", "2024-08-30T00:00:00Z"],
        );
    }
    // 25 December 2026 is the last Friday of its month.
    check_days("0 0 * * 5L", Dialect::Crontab, "2026-12-01", &["2026-12-25", "2027-01-29"]);
}

/// B046
#[test]
fn l_is_accepted_where_it_has_a_meaning() {
    check_days("0 0 * * 7L", Dialect::Crontab, "2026-08-01", &["2026-08-30", "2026-09-27"]);
    check_days("0 0 * * 0L", Dialect::Crontab, "2026-08-01", &["2026-08-30", "2026-09-27"]);
    check_days("0 0 L 10 *", Dialect::Crontab, "2026-08-01", &["2026-10-31", "2027-10-31"]);
    check_days(
        "0 0 L * *",
        Dialect::Crontab,
        "2026-11-15",
        &["2026-11-30", "2026-12-31", "2027-01-31"],
    );
    check_days("0 0 l 2 *", Dialect::Crontab, "2026-11-15", &["2027-02-28", "2028-02-29"]);
    check_days("0 0 L-3 * *", Dialect::Crontab, "2027-02-01", &["2027-02-25", "2027-03-28"]);
    check_days("0 0 L-30 * *", Dialect::Crontab, "2027-02-01", &["2027-03-01", "2027-05-01"]);
    check_days(
        "0 0 1,15,L * *",
        Dialect::Crontab,
        "2027-02-02",
        &["2027-02-15", "2027-02-28", "2027-03-01"],
    );
}

/// B050: what Quartz takes beyond crontab.
#[test]
fn quartz_steps_and_working_days_before_the_last_are_read() {
    check_text("/5 * * * * ?", Dialect::Quartz, "*/5 * * * * *");
    check_text("0 /15 * * * ?", Dialect::Quartz, "*/15 * * * *");
    check_text("0 0 /6 /2 * ?", Dialect::Quartz, "0 */6 1-31/2 * *");
    let stepped = |expr: &str| parse(expr, Dialect::Quartz, seed()).unwrap().rule;
    assert_eq!(stepped("0 /15 * * * ?"), stepped("0 */15 * * * ?"));
    assert_eq!(stepped("0 0 0 ? * /2"), stepped("0 0 0 ? * */2"));
    assert!(parse("/15 * * * *", Dialect::Crontab, seed()).is_err());
    check_text("0 0 12 L-3W,lw * ?", Dialect::Quartz, "0 12 LW,L-3W * *");
    // 28 August and 27 November 2027 are Saturdays.
    check_days(
        "0 0 0 L-3W * ?",
        Dialect::Quartz,
        "2027-08-01",
        &["2027-08-27", "2027-09-27", "2027-10-28", "2027-11-26"],
    );
    // A month is not left: 1 May 2027 is a Saturday. February has no such day.
    check_days("0 0 L-30W * *", Dialect::Crontab, "2027-01-15", &["2027-03-01", "2027-05-03"]);
}

#[test]
fn working_day_is_the_nearest_in_its_own_month() {
    // 15 August 2026 is a Saturday, 15 November a Sunday.
    check_days(
        "0 0 15W * *",
        Dialect::Crontab,
        "2026-08-01",
        &["2026-08-14", "2026-09-15", "2026-10-15", "2026-11-16"],
    );
    // 1 August 2026 is a Saturday: not back into July.
    check_days("0 0 1W * *", Dialect::Crontab, "2026-07-15", &["2026-08-03", "2026-09-01"]);
    // 31 January 2027 is a Sunday: not on into February.
    check_days(
        "0 0 31W * *",
        Dialect::Crontab,
        "2027-01-01",
        &["2027-01-29", "2027-03-31", "2027-05-31"],
    );
    // 28 February 2027 is a Sunday.
    check_days(
        "0 0 LW * *",
        Dialect::Crontab,
        "2027-01-15",
        &["2027-01-29", "2027-02-26", "2027-03-31"],
    );
    check_days(
        "0 0 lw,1w * *",
        Dialect::Crontab,
        "2027-01-15",
        &["2027-01-29", "2027-02-01", "2027-02-26"],
    );
}

#[test]
fn nth_weekday_is_counted_in_its_month() {
    for expr in ["0 0 * * 5#3", "0 0 * * FRI#3", "0 0 * * fri#3"] {
        check_days(expr, Dialect::Crontab, "2026-12-01", &["2026-12-18", "2027-01-15"]);
    }
    check_days("0 0 * * 5#5", Dialect::Crontab, "2026-12-01", &["2027-01-29", "2027-04-30"]);
    check_days(
        "0 0 * * 7#1,5#3",
        Dialect::Crontab,
        "2026-12-01",
        &["2026-12-06", "2026-12-18", "2027-01-03"],
    );
    let every_sunday = "0 0 * * 0#1,0#2,0#3,0#4,0#5";
    check_days(every_sunday, Dialect::Crontab, "2026-12-01", &["2026-12-06", "2026-12-13"]);
}

/// B039
#[test]
fn plus_makes_both_day_fields_count() {
    check_days(
        "0 12 1 * +MON",
        Dialect::Crontab,
        "2026-11-01",
        &["2027-02-01", "2027-03-01", "2027-11-01"],
    );
    check_days(
        "0 12 1 * MON",
        Dialect::Crontab,
        "2026-11-01",
        &["2026-11-01", "2026-11-02", "2026-11-09"],
    );
    check_days("0 12 13 * +FRI", Dialect::Crontab, "2026-11-01", &["2026-11-13", "2027-08-13"]);
    check_days("0 12 L * +5L,FRI#5", Dialect::Crontab, "2026-11-01", &["2027-04-30", "2027-12-31"]);
    check_text("0 12 * * +MON,FRI", Dialect::Crontab, "0 12 * * 1,5");
    check_text("0 12 */2 * +MON", Dialect::Crontab, "0 12 1-31/2 * +1");
}

/// B036, B037: the counted days combine as all days do.
#[test]
fn counted_days_combine_by_the_star_rule() {
    check_days(
        "0 0 L * 1",
        Dialect::Crontab,
        "2026-12-25",
        &["2026-12-28", "2026-12-31", "2027-01-04"],
    );
    check_days(
        "0 0 1 * 5#3",
        Dialect::Crontab,
        "2026-12-15",
        &["2026-12-18", "2027-01-01", "2027-01-15"],
    );
    check_days("0 0 */10 * 5#3", Dialect::Crontab, "2026-01-01", &["2026-08-21", "2027-05-21"]);
    check_days(
        "0 0 L * */5",
        Dialect::Crontab,
        "2026-12-01",
        &["2027-01-31", "2027-02-28", "2027-04-30"],
    );
}

#[test]
fn seventh_field_is_the_year() {
    let midnights =
        |days: &[&str]| days.iter().map(|day| format!("{day}T00:00:00Z")).collect::<Vec<_>>();
    let check_all = |expr: &str, days: &[&str]| {
        let cron = Cron::parse(expr).unwrap();
        let slots: Vec<_> =
            std::iter::successors(cron.next(Zone::UTC, -1), |at| cron.next(Zone::UTC, *at))
                .map(show)
                .collect();
        assert_eq!(slots, midnights(days), "`{expr}`");
        assert_eq!(cron.count(Zone::UTC, i64::MIN, i64::MAX), days.len() as u64);
        assert_eq!(cron.prev(Zone::UTC, i64::MAX).map(show), slots.last().cloned());
    };
    check_all("0 0 0 1 1 * 2027", &["2027-01-01"]);
    check_all("0 0 0 1 1 * 1970,2199", &["1970-01-01", "2199-01-01"]);
    check_all("0 0 0 1 1 * 2027-2029", &["2027-01-01", "2028-01-01", "2029-01-01"]);
    check_all("0 0 0 1 1 * 2190/4", &["2190-01-01", "2194-01-01", "2198-01-01"]);
    check_all("0 0 0 1 1 * */100", &["1970-01-01", "2070-01-01", "2170-01-01"]);
    check_all("0 0 0 29 2 * 2097-2104", &["2104-02-29"]);
    check_all(
        "0 0 0 1 1 * 2027,2029,2031,2040",
        &["2027-01-01", "2029-01-01", "2031-01-01", "2040-01-01"],
    );
    // A year that is over is accepted: it has slots, only none to come.
    check_all("0 0 0 1 1 * 1999", &["1999-01-01"]);
    assert_eq!(Cron::parse("0 0 0 1 1 * *"), Cron::parse("0 0 1 1 *"));
}

/// B057
#[test]
fn macros_and_prefixes_take_the_same_path() {
    let cases = [
        ("@weekly", "0 0 * * 0"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("@every 90m", "@every 1h30m"),
        ("  @every \t 1h30m ", "@every 1h30m"),
        ("@every 1s500ms", "@every 1s500ms"),
    ];
    for (expr, text) in cases {
        check_text(expr, Dialect::Crontab, text);
        let zoned = parse(&format!("TZ=Europe/Berlin {expr}"), Dialect::Crontab, seed()).unwrap();
        assert_eq!((zoned.zone.as_deref(), zoned.text.as_str()), (Some("Europe/Berlin"), text));
        // The normal form takes it too.
        check_text(text, Dialect::Crontab, text);
    }
    let interval = parse("@every 90m", Dialect::Crontab, seed()).unwrap().rule;
    assert_eq!(interval, Rule::Every("90m".parse().unwrap()));
    assert_eq!(interval.describe(), "every 1h30m");
}

#[test]
fn zone_prefix_is_lifted_by_its_canonical_name() {
    for (expr, zone) in [
        ("TZ=Europe/Berlin 0 3 * * *", "Europe/Berlin"),
        ("\t CRON_TZ=America/New_York \t 0 3 * * *", "America/New_York"),
        ("TZ=US/Eastern 0 3 * * *", "America/New_York"),
    ] {
        let parsed = parse(expr, Dialect::Crontab, seed()).unwrap();
        assert_eq!((parsed.zone.as_deref(), parsed.text.as_str()), (Some(zone), "0 3 * * *"));
    }
    let parsed = parse("0 3 * * *", Dialect::Crontab, seed()).unwrap();
    assert_eq!(parsed.zone, None);
}

/// B034
#[test]
fn names_are_read_in_any_letter_case() {
    check_text("0 0 1 JAN,feb,Mar MON-fri", Dialect::Crontab, "0 0 1 1-3 1-5");
    check_text("0 0 ? jun SuN-tUe", Dialect::Crontab, "0 0 * 6 0-2");
    check_text("0 0 0 ? DEC sat", Dialect::Quartz, "0 0 * 12 6");
}

/// B035
#[test]
fn seven_is_sunday_in_six_fields() {
    check_text("0 0 0 * * 7", Dialect::Crontab, "0 0 * * 0");
}
