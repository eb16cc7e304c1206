//! What the parser refuses: each refusal names the byte, the piece, the fault and the way out.

use cronstream_core::schedule::Cron;
use proptest::prelude::*;

/// `expr` is refused at `position` for `value`; message and hint hold these words.
#[track_caller]
fn check(expr: &str, position: usize, value: &str, message: &str, hint: &str) {
    let error = Cron::parse(expr).unwrap_err();
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
    check("0 1-2-3 * * *", 4, "2-3", "not a hour", "0 to 23");
    check("0 -5 * * *", 2, "", "not a hour", "0 to 23");
    check("0 *5 * * *", 2, "*5", "not a hour", "0 to 23");
    check("+5 * * * *", 0, "+5", "not a minute", "0 to 59");
}

#[test]
fn wrong_number_of_fields_is_refused() {
    check("", 0, "", "empty expression", "five fields");
    check(" \t ", 0, " \t ", "empty expression", "five fields");
    check("******", 0, "******", "1 fields", "blanks between the stars");
    check("* * * *", 0, "* * * *", "4 fields", "minute hour day month weekday");
    check("0 0 0 1 1 * 2027", 12, "2027", "7 fields", "year");
    check("* * * * * * * *", 12, "* *", "8 fields", "minute hour day month weekday");
}

#[test]
fn foreign_characters_are_refused() {
    check("٣ * * * *", 0, "٣", "not allowed", "ASCII digits");
    check("0 ３ * * *", 2, "３", "not allowed", "ASCII digits");
    check("0\u{a0}3 * * *", 1, "\u{a0}", "not allowed", "blanks");
    check("0 3 * * *\n", 9, "\n", "not allowed", "blanks");
    check("0 3 * * *\0", 9, "\0", "not allowed", "blanks");
}

/// B057
#[test]
fn unknown_macro_is_refused() {
    check("@reboot", 0, "@reboot", "unknown macro", "no host");
    check("@every 90m", 0, "@every 90m", "unknown macro", "interval");
    check(" @DAILY", 1, "@DAILY", "unknown macro", "`@daily`");
    check("@daily 5", 0, "@daily 5", "unknown macro", "alone");
    check("@fortnightly", 0, "@fortnightly", "unknown macro", "@weekly");
}

/// B039, B046, B047, B050
#[test]
fn words_of_other_dialects_are_refused_when_parsed() {
    check("0 0 * * 7L", 8, "7L", "not a day-of-week", "`L`");
    check("0 0 * * L", 8, "L", "not a day-of-week", "`L`");
    check("0 0 L 10 *", 4, "L", "not a day-of-month", "`L`");
    check("0 0 15W * *", 4, "15W", "not a day-of-month", "`W`");
    check("0 0 * * 5#3", 8, "5#3", "not a day-of-week", "`#`");
    check("H H * * *", 0, "H", "not a minute", "`H`");
    check("0 12 1 * +MON", 9, "+MON", "not a day-of-week", "sun to sat");
    check("0 0 * * monday", 8, "monday", "not a day-of-week", "`mon`");
    check("TZ=Europe/Berlin 0 3 * * *", 0, "TZ=Europe/Berlin", "zone inside", "beside");
    check("CRON_TZ=UTC 0 3 * * *", 0, "CRON_TZ=UTC", "zone inside", "beside");
}

/// B040
#[test]
fn what_never_fires_is_refused_at_its_day() {
    check("0 0 30 2 *", 4, "30", "`2` has such a day", "28");
    check("0 0 31 feb,apr *", 4, "31", "would never run", "28");
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
    let list = vec!["1"; 60].join(",");
    assert!(Cron::parse(&format!("{list} * * * *")).is_ok());
    let error = Cron::parse(&format!("{list},1 * * * *")).unwrap_err();
    assert!(error.message.contains("over 60 list items"), "{error}");
}

fn holds(expr: &str) {
    match Cron::parse(expr) {
        Ok(cron) => assert!(cron.next(cronstream_core::schedule::Zone::UTC, 0).is_some()),
        Err(error) => {
            assert!(expr[error.position..].starts_with(&error.value), "{error}");
            assert!(!error.message.is_empty() && !error.hint.is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..Default::default() })]

    #[test]
    fn any_text_is_compiled_or_refused(expr in any::<String>()) {
        holds(&expr);
    }

    #[test]
    fn any_text_of_cron_letters_is_compiled_or_refused(expr in "[-0-9*?/, ,@LWHa-fmonMON#]{0,40}") {
        holds(&expr);
    }

    #[test]
    fn any_fields_are_compiled_or_refused(
        fields in prop::collection::vec("[*?]|[0-9]{1,2}([-/,][0-9]{1,2}){0,3}|[*]/[0-9]{1,3}", 5..=6)
    ) {
        holds(&fields.join(" "));
    }
}
