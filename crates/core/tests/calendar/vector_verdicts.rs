//! How a vector is read, and what decides between agreement, a documented reason and a difference.

use cronstream_core::schedule::vectors::{Answer, Kind, Vector, Verdict, release};

fn vector(expr: &str, zone: &str, start: &str, answer: &str) -> Vector {
    Vector::parse(&format!("{expr}\t{zone}\t{start}\t{answer}")).unwrap().unwrap()
}

/// `None` is a difference.
#[track_caller]
fn check(line: [&str; 4], expected: Option<Verdict>) {
    let [expr, zone, start, answer] = line;
    let verdict = vector(expr, zone, start, answer).judge("2025b").unwrap();
    match expected {
        Some(expected) => assert_eq!(verdict, expected, "{line:?}"),
        None => assert!(matches!(verdict, Verdict::Disagrees { .. }), "{line:?}: {verdict:?}"),
    }
}

#[test]
fn an_answer_is_read_with_its_horizon() {
    let never = |text: &str| vector("0 0 30 2 *", "UTC", "2026-01-01T00:00:00Z", text).expected;
    assert_eq!(never("NEVER"), Answer::Never(9));
    for years in [0, 9, 299] {
        assert_eq!(never(&format!("NEVER({years}y)")), Answer::Never(years));
    }
    for answer in ["NEVER(300y)", "NEVER(-1y)", "NEVER()", "NEVER(9)", "NEVER9y"] {
        let line = format!("* * * * *\tUTC\t2026-01-01T00:00:00Z\t{answer}");
        assert!(Vector::parse(&line).is_err(), "{answer}");
    }
    assert_eq!(Vector::parse(" \t "), Ok(None));
}

#[test]
fn a_first_slot_past_the_horizon_agrees_with_never() {
    let at = "2026-01-01T00:00:00Z";
    let agrees = || Some(Verdict::Agrees);
    // In 365 days: within a year to the second, and past none.
    check(["0 0 1 1 *", "UTC", at, "NEVER(1y)"], None);
    check(["0 0 1 1 *", "UTC", at, "NEVER(0y)"], agrees());
    // In 789 days, and then every four years.
    check(["0 0 29 2 *", "UTC", at, "NEVER(2y)"], agrees());
    check(["0 0 29 2 *", "UTC", at, "NEVER(3y)"], None);
}

#[test]
fn the_slots_agree_from_the_first_on() {
    let at = "2026-01-01T00:00:00Z";
    let two = "2032-02-29T00:00:00Z 2036-02-29T00:00:00Z";
    check(["0 0 29 2 *", "UTC", at, two], None);
    let first = "2028-02-29T00:00:00Z 2032-02-29T00:00:00Z";
    check(["0 0 29 2 *", "UTC", at, first], Some(Verdict::Agrees));
}

/// Since 2026b Vancouver is an hour further on in winter.
#[test]
fn a_wrapping_range_is_documented_if_all_slots_there_are_slots_under_one_of_the_rules() {
    let wraps = || Some(Verdict::Documented(Kind::WrappingRange));
    let at = "2027-01-15T08:00:00Z";
    let line = |answer| ["0 5,22-2 * * *", "America/Vancouver", at, answer];
    check(line("2027-01-15T13:00:00Z 2027-01-16T13:00:00Z"), wraps());
    check(line("2027-01-15T12:00:00Z 2027-01-16T12:00:00Z"), wraps());
    check(line("2027-01-15T12:00:00Z 2027-01-16T11:00:00Z"), None);
    check(line("2027-01-15T11:00:00Z 2027-01-16T12:00:00Z"), None);
}

#[test]
fn a_range_of_one_value_does_not_wrap() {
    let line =
        |expr| [expr, "UTC", "2026-01-01T00:00:00Z", "2026-01-01T05:00:00Z 2026-01-02T05:00:00Z"];
    check(line("0 5-5,20 * * *"), None);
    check(line("0 5-4 * * *"), Some(Verdict::Documented(Kind::WrappingRange)));
}

#[test]
fn what_is_refused_there_is_documented_only_for_days_that_are_not_read_there() {
    let extension = || Some(Verdict::Documented(Kind::Extension));
    for (expr, expected) in [
        ("0 9 15W * *", extension()),
        ("0 9 1,15W * *", extension()),
        ("0 9 L * *", extension()),
        ("0 9 1,L * *", extension()),
        ("0 9 * * 5L", extension()),
        ("0 9 * * 1,5L", extension()),
        ("0 9 ? * 1", extension()),
        ("0 9 1 * ?", extension()),
        ("0 9 * * 1", None),
        ("0 9 1,15 * *", None),
        ("@daily", None),
    ] {
        check([expr, "UTC", "2026-01-01T00:00:00Z", "ERR"], expected);
    }
}

#[test]
fn verdicts_are_written_in_words() {
    assert_eq!(Answer::Refused.to_string(), "refused");
    assert_eq!(Answer::Never(9).to_string(), "never within 9 years");
    assert_eq!(Answer::Slots(Vec::new()).to_string(), "never");
    assert_eq!(
        Answer::Slots(vec![0, 1_000]).to_string(),
        "1970-01-01T00:00:00Z 1970-01-01T00:00:01Z"
    );
    let kinds = [Kind::WrappingRange, Kind::Extension, Kind::DroppedSuffix, Kind::ZoneChanged];
    let words: std::collections::BTreeSet<_> = kinds.map(|kind| kind.to_string()).into();
    assert!(words.len() == 4 && !words.contains(""), "{words:?}");
    assert_eq!(release("# tzdb 2026f, not tzdb 2025b"), Some("2026f"));
}
