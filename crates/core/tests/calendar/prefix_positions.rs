//! Faults behind a zone prefix: the byte is that of the expression as given.

use cronstream_core::schedule::{Cron, parse};
use cronstream_schemas::definition::Dialect;

use crate::seed;

#[track_caller]
fn check(expr: &str, position: usize, value: &str) {
    let error = parse(expr, Dialect::Crontab, seed()).unwrap_err();
    assert_eq!((error.position, error.value.as_str()), (position, value), "{error}");
}

#[test]
fn an_empty_list_item_behind_a_zone_is_found_in_its_place() {
    check("TZ=UTC 0 1,,2 * * *", 11, ",2");
    check("TZ=UTC 0 1, * * *", 10, ",");
}

#[test]
fn the_field_too_many_behind_a_zone_is_found_in_its_place() {
    check("TZ=UTC 1 2 3 4 5 6 7 8 9", 21, "8 9");
}

#[test]
fn only_stars_without_blanks_are_told_to_be_set_apart() {
    let hint = |expr| Cron::parse(expr).unwrap_err().hint;
    assert!(hint("*****").contains("between the stars"));
    for expr in ["*5", "5", "5*"] {
        assert!(!hint(expr).contains("between the stars"), "`{expr}`");
    }
}

#[test]
fn a_year_has_four_digits() {
    let message = |expr| Cron::parse(expr).unwrap_err().message;
    assert!(message("0 0 3 1 1 2027").contains("year in the place"));
    assert!(!message("0 0 3 1 1 202").contains("year in the place"));
}
