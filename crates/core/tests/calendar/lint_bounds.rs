//! The bounds of the lints: which expression just has one, and which just has not.

use cronstream_core::schedule::{Lint, Rule, lint, parse};
use cronstream_schemas::definition::Dialect;

use crate::seed;

fn lints(expr: &str, dialect: Dialect) -> Vec<Lint> {
    match parse(expr, dialect, seed()).unwrap().rule {
        Rule::Cron(cron) => lint(expr, dialect, &cron),
        Rule::Every(_) => panic!("`{expr}` is an interval"),
    }
}

/// Whether `expr` has a lint of this code.
#[track_caller]
fn check(expr: &str, code: &str, expected: bool) {
    let found = lints(expr, Dialect::Crontab);
    assert_eq!(found.iter().any(|lint| lint.code == code), expected, "`{expr}`: {found:?}");
}

#[test]
fn six_fields_look_like_five_only_if_the_first_five_could_be_meant() {
    for (expr, expected) in [
        ("0 23 * * * *", true),
        ("0 24 * * * *", false),
        ("0 3 * * * 1", false),
        ("0 3 5 * * *", false),
        ("0 */60 * * * *", false),
        ("0 0 * * * *", false),
    ] {
        check(expr, "seconds-first", expected);
    }
    let quartz = lints("5 7 * ? * *", Dialect::Quartz);
    assert!(quartz.iter().all(|lint| lint.code != "seconds-first"), "{quartz:?}");
}

#[test]
fn every_minute_of_an_hour_is_told_where_it_is_meant_to_be_minutes() {
    check("* 3 * * *", "every-minute", true);
    check("30 * 3 * * *", "every-minute", false);
    check("* 3,4 * * *", "every-minute", false);
}

#[test]
fn a_step_is_over_the_span_if_it_leads_to_the_first_value_again() {
    check("0 0 * * 0-7/7", "step-over-span", true);
    check("0 0 * * 0-6/6", "step-over-span", false);
    check("10-20/11 * * * *", "step-over-span", true);
    check("10-20/10 * * * *", "step-over-span", false);
}

#[test]
fn a_step_is_uneven_only_where_its_range_goes_to_the_end() {
    check("0-58/40 * * * *", "uneven-step", false);
    check("0-59/40 * * * *", "uneven-step", true);
}

#[test]
fn a_hash_step_over_half_the_cycle_is_one_value_or_two() {
    for (expr, expected) in
        [("H/31 * * * *", true), ("H/25 * * * *", false), ("0 0 H/15 * *", false)]
    {
        let found = lints(expr, Dialect::Crontab);
        let told = found.iter().any(|lint| lint.message.contains("one value or two"));
        assert_eq!(told, expected, "`{expr}`: {found:?}");
    }
}

#[test]
fn days_that_must_match_both_are_told_at_the_field_with_the_star() {
    for (expr, position) in [("0 0 */2 * 1", 4), ("0 0 1 * */2", 8)] {
        let found = lints(expr, Dialect::Crontab);
        let at = found.iter().find(|lint| lint.code == "day-and-weekday");
        assert_eq!(at.map(|lint| lint.position), Some(position), "`{expr}`: {found:?}");
    }
}

#[test]
fn weekday_numbers_beside_a_question_mark_are_told_from_1_to_7() {
    for (expr, expected) in [
        ("0 0 ? * 0", false),
        ("0 0 ? * 1", true),
        ("0 0 ? * 7", true),
        ("0 0 ? * 0,3", true),
        ("0 0 ? * MON", false),
        ("0 0 * * 1", false),
    ] {
        check(expr, "quartz-weekday", expected);
    }
}

#[test]
fn dates_that_a_month_lacks_are_told_by_the_shortest_month_they_may_fall_in() {
    for (expr, expected) in [
        ("0 0 28 2 *", false),
        ("0 0 29 2 *", true),
        ("0 0 30 4 *", false),
        ("0 0 31 4,5 *", true),
        ("0 0 31 5 *", false),
        ("0 0 28,31 * *", false),
        ("0 0 31 * 1", false),
        ("0 0 * * 1#5", true),
        ("0 0 * * 1#4", false),
    ] {
        check(expr, "not-every-month", expected);
    }
}

#[test]
fn a_hash_step_of_half_the_cycle_has_its_gap_told() {
    for (expr, message) in [
        ("0 9 * * H/3", "uneven step: in `H/3` 0 follows 6 after 1, not 3"),
        ("0 9 * * H/4", "uneven step: `H/4` is one value or two, by the name of the job"),
    ] {
        let found = lints(expr, Dialect::Crontab);
        assert!(found.iter().any(|lint| lint.message == message), "`{expr}`: {found:?}");
    }
}

#[test]
fn the_leap_day_is_named_where_it_is_what_february_has_of_the_days() {
    let told = |expr: &str| {
        let lints = lints(expr, Dialect::Crontab);
        let of_it = lints.into_iter().find(|lint| lint.code == "not-every-month");
        of_it.map(|lint| lint.message)
    };
    for (expr, expected) in [
        ("0 0 28 * *", None),
        ("0 0 29 * *", Some("`29` is not in February but in leap years")),
        ("0 0 29-31 * *", Some("`29-31` is not in February but in leap years")),
        ("0 0 30 * *", Some("`30` is not in February")),
        ("0 0 31 1,2,4 *", Some("`31` is not in February, April")),
        ("0 0 31 3-5 *", Some("`31` is not in April")),
        ("0 0 29 3-5 *", None),
    ] {
        assert_eq!(told(expr).as_deref(), expected, "{expr}");
    }
}
