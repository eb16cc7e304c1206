//! Lints: which expressions are warned about, where, and with which way out.

use cronstream_core::schedule::{Lint, Rule, lint, parse};
use cronstream_schemas::definition::Dialect;

use crate::seed;

fn lints(expr: &str, dialect: Dialect) -> Vec<Lint> {
    match parse(expr, dialect, seed()).unwrap().rule {
        Rule::Cron(cron) => lint(expr, dialect, &cron),
        Rule::Every(_) => panic!("`{expr}` is an interval"),
    }
}

/// `expr` has exactly one lint: this one, at this byte, with these words.
#[track_caller]
fn check(expr: &str, code: &str, position: usize, message: &str, hint: &str) {
    let found = lints(expr, Dialect::Crontab);
    let [lint] = &found[..] else { panic!("`{expr}`: {found:?}") };
    assert_eq!((lint.code, lint.position), (code, position), "`{expr}`: {lint:?}");
    assert!(lint.message.contains(message), "`{expr}`: {lint:?}");
    assert!(lint.hint.contains(hint), "`{expr}`: {lint:?}");
}

#[track_caller]
fn check_none(exprs: &[&str], dialect: Dialect) {
    for expr in exprs {
        assert_eq!(lints(expr, dialect), [], "`{expr}`");
    }
}

#[test]
fn plain_expressions_have_no_lint() {
    check_none(
        &[
            "30 3 * * *",
            "30 30 3 * * *",
            "0 0 * * * *",
            "0 30 * * * *",
            "0 */5 * * * *",
            "*/15 * * * *",
            "*/10 9-17 * * MON-FRI",
            "* 9-17 * * *",
            "* * * * *",
            "5/15 * * * *",
            "30/10 3 * * *",
            "0 22-2 * * *",
            "0 22-2/2 * * *",
            "0 12 1 * +MON",
            "0 0 ? * MON",
            "0 0 L * *",
            "0 0 LW * *",
            "0 0 31 1,3,12 *",
            "0 0 28,31 * *",
            "0 0 31,LW * *",
            "0 0 * * 5L,FRI#3",
            "H H * * *",
            "H/15 * * * *",
            "0 0 0 1 1 * 2027/4",
            "@daily",
            "TZ=Europe/Berlin @weekly",
        ],
        Dialect::Crontab,
    );
    check_none(
        &["0 0 12 * * ?", "0 0 3 ? * 6L", "0 5 * * * ?", "0 0/5 14 ? * 2-6"],
        Dialect::Quartz,
    );
}

/// B036
#[test]
fn or_of_two_day_fields_is_told() {
    check("0 0 13 * 5", "day-or-weekday", 4, "13th of every month and also on Friday", "`+5`");
    check("0 0 1,15 * MON-FRI", "day-or-weekday", 4, "one of the two is enough", "`+MON-FRI`");
    check("0 0 L * 5#3", "day-or-weekday", 4, "the last day", "`+5#3`");
}

/// B037
#[test]
fn full_range_beside_the_other_day_field_is_told() {
    check("0 9 1-31 * 1", "day-or-weekday", 4, "the day-of-week restricts nothing", "`*`");
    check("0 9 15 * 0-6", "day-or-weekday", 9, "the day-of-month restricts nothing", "`*`");
}

/// B036: a star before a step is a star.
#[test]
fn and_by_a_star_is_told() {
    let found = lints("0 0 */2 * MON", Dialect::Crontab);
    let codes: Vec<_> = found.iter().map(|lint| (lint.code, lint.position)).collect();
    assert_eq!(codes, [("uneven-step", 4), ("day-and-weekday", 4)]);
}

/// B052
#[test]
fn uneven_step_is_told() {
    check("*/7 * * * *", "uneven-step", 0, "0 follows 56 after 4, not 7", "even steps are 2, 3, 4");
    check("0/59 * * * * *", "uneven-step", 0, "0 follows 59 after 1, not 59", "30");
    check("0 */5 * * *", "uneven-step", 2, "0 follows 20 after 4, not 5", "6, 8, 12");
    check("0 0 */10 * *", "uneven-step", 4, "1 follows 31 after 1, not 10", "`every`");
    check(
        "0 0 1 */5 *",
        "uneven-step",
        6,
        "1 follows 11 after 2, not 5",
        "even steps are 2, 3, 4, 6",
    );
    check("0 0 * * 1/2", "uneven-step", 8, "1 follows 7 after 1", "name the days");
    check("0-59/7 3 * * *", "uneven-step", 0, "0 follows 56", "even steps");
    check("1,3/11 3 * * *", "uneven-step", 2, "3 follows 58 after 5, not 11", "even steps");
    check("H/7 * * * *", "uneven-step", 0, "after 4, not 7", "even steps");
}

/// B052: Sunday is both ends of the week; a step that leaves one value or two is no beat.
#[test]
fn step_is_uneven_by_what_it_does() {
    check("0 0 13 * 0-7/1", "day-or-weekday", 9, "the day-of-month restricts nothing", "`*`");
    check("0 0 * * 7/2", "step-over-span", 8, "`7/2` is 0 alone", "leave the step out");
    check("59/5 3 * * *", "step-over-span", 0, "`59/5` is 59 alone", "leave the step out");
    check("H/59 * * * *", "uneven-step", 0, "`H/59` is one value or two", "even steps");
}

/// B053
#[test]
fn step_over_the_span_is_told() {
    check("*/60 * * * *", "step-over-span", 0, "`*/60` is 0 alone", "below 60");
    check("*/100 * * * *", "step-over-span", 0, "`*/100` is 0 alone", "below 60");
    check("*/4294967296 * * * *", "step-over-span", 0, "0 alone", "below 60");
    check("0 10-12/5 * * *", "step-over-span", 2, "`10-12/5` is 10 alone", "below 3");
    check("0 0 1 */12 *", "step-over-span", 6, "`*/12` is 1 alone", "below 12");
    check("H/60 * * * *", "step-over-span", 0, "`H/60` is one value", "below 60");
}

/// B055
#[test]
fn six_fields_that_look_like_five_are_told() {
    let check = |expr: &str, message: &str, hint: &str| {
        check(expr, "seconds-first", 0, message, &format!("drop the last field to run {hint}"));
    };
    check("0 3 * * * *", "this runs every hour at :03", "at 03:00 every day");
    check("30 3 * * * *", "this runs every hour at :03:30", "at 03:30 every day");
    check("30 2 * * 1 *", "every hour at :02:30 in January", "at 02:30 on Monday");
    check("0 9 * * 1-5 *", "every hour at :09", "at 09:00 on Monday to Friday");
    check("*/5 9 * * 1-5 *", "every 5 seconds", "every 5 minutes of hour 9 on Monday");
    check("0 8-18/2 * * * *", "this runs", "at");
    check_none(
        &["0 */5 * * * *", "0 0/5 * * * *", "0 0 * * 1-5 *", "0 30 * * * *"],
        Dialect::Crontab,
    );
}

#[test]
fn every_second_is_told() {
    check("* * * * * *", "every-second", 0, "every second", "`0` as the first field");
    check("* 30 3 * * *", "every-second", 0, "every second of 03:30", "`0` as the first field");
    check(" * */5 * * * *", "every-second", 1, "60 runs a minute", "`0` as the first field");
    let quartz = lints("* * * * * ?", Dialect::Quartz);
    assert_eq!((quartz.len(), quartz[0].code), (1, "every-second"));
}

#[test]
fn every_minute_of_one_hour_is_told() {
    check("* 3 * * *", "every-minute", 0, "every minute of hour 3", "03:00");
    check("TZ=UTC * 3 * * *", "every-minute", 7, "every minute of hour 3", "03:00");
}

#[test]
fn days_that_some_months_lack_are_told() {
    let short = "February, April, June, September, November";
    check("0 0 31 * *", "not-every-month", 4, short, "`L`");
    check("0 0 31W * *", "not-every-month", 4, short, "`LW`");
    check("0 0 L-30 * *", "not-every-month", 4, short, "`L`");
    check("0 0 30,31 * *", "not-every-month", 4, "not in February", "`L`");
    check("0 0 29 2 *", "not-every-month", 4, "February but in leap years", "`L`");
    check("0 0 31 3,4 *", "not-every-month", 4, "not in April", "`L`");
    check("0 0 * * 5#5", "not-every-month", 8, "fifth", "`5L`");
    check("0 0 * * 1,FRI#5", "not-every-month", 8, "fifth", "`FRIL`");
    check("0 0 L-30W * *", "not-every-month", 4, short, "`LW`");
    let quartz = lints("0 0 12 ? FEB 6#5", Dialect::Quartz);
    assert!(quartz.len() == 1 && quartz[0].hint.contains("`6L`"), "{quartz:?}");
}

/// B050
#[test]
fn number_of_a_weekday_beside_a_question_mark_is_told() {
    let six = "6 is Saturday here, but Friday in Quartz";
    check("0 0 12 ? * 6L", "quartz-weekday", 11, six, "dialect: quartz");
    check("15 10 ? * 2-6", "quartz-weekday", 10, "2 is Tuesday here, but Monday", "names");
    check("15 10 ? * 7", "quartz-weekday", 10, "7 is Sunday here, but Saturday", "names");
    check_none(&["15 10 ? * 0"], Dialect::Crontab);
}

#[test]
fn text_that_is_no_expression_has_no_lint() {
    let Rule::Cron(cron) = parse("* 3 * * *", Dialect::Crontab, seed()).unwrap().rule else {
        panic!("an interval")
    };
    for text in ["", "@every 5m", "TZ=", "1 2 3", "\u{e9}"] {
        assert_eq!(lint(text, Dialect::Crontab, &cron), []);
    }
}
