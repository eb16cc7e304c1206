//! What a job may choose for clock changes: each gap and fold, for fixed and for wildcard times.

use cronstream_core::schedule::{Cron, Day, DaySet, Rules, Slots, Zone};
use cronstream_schemas::definition::{Fold, Gap};

use crate::{instant, show};

const NO_RULES: Rules = Rules { gap: None, fold: None };

const fn gap(gap: Gap) -> Rules {
    Rules { gap: Some(gap), ..NO_RULES }
}

const fn fold(fold: Fold) -> Rules {
    Rules { fold: Some(fold), ..NO_RULES }
}

/// The slots after `from` are these under `rules`; `prev` and `count` say the same.
#[track_caller]
fn check(expr: &str, zone: &str, rules: Rules, from: &str, expected: &[&str]) {
    let (cron, zone) = (Cron::parse(expr).unwrap(), Zone::get(zone).unwrap());
    check_slots(&Slots { cron: &cron, zone, rules, days: None, shift: None }, from, expected);
}

#[track_caller]
fn check_slots(slots: &Slots<'_>, from: &str, expected: &[&str]) {
    let from = instant(from);
    let found = std::iter::successors(slots.next(from), |at| slots.next(*at));
    let found: Vec<_> = found.take(expected.len()).collect();
    assert_eq!(found.iter().copied().map(show).collect::<Vec<_>>(), expected, "{slots:?}");
    for (index, slot) in found.iter().enumerate() {
        assert_eq!(slots.count(from, *slot), index as u64 + 1);
        let before = index.checked_sub(1).map(|index| found[index]);
        assert_eq!(slots.prev(*slot).filter(|prev| *prev > from), before);
    }
}

/// B001
#[test]
fn a_fold_fires_at_the_pass_that_was_chosen() {
    let at = |rules, expected: &[&str]| {
        check("0 2 * * *", "Europe/Berlin", rules, "2023-10-28T12:00:00Z", expected);
    };
    at(fold(Fold::First), &["2023-10-29T00:00:00Z", "2023-10-30T01:00:00Z"]);
    at(fold(Fold::Last), &["2023-10-29T01:00:00Z", "2023-10-30T01:00:00Z"]);
    at(fold(Fold::Both), &["2023-10-29T00:00:00Z", "2023-10-29T01:00:00Z", "2023-10-30T01:00:00Z"]);
    let both = fold(Fold::Both);
    check("0 0 2 * * 0", "Europe/Berlin", both, "2024-10-27T00:30:00Z", &["2024-10-27T01:00:00Z"]);
}

/// B002, B004, B031
#[test]
fn a_gap_does_what_was_chosen() {
    let at = |rules, expected: &[&str]| {
        check("30 2 * * *", "America/New_York", rules, "2026-03-08T06:30:00Z", expected);
    };
    at(gap(Gap::End), &["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]);
    at(gap(Gap::Skip), &["2026-03-09T06:30:00Z", "2026-03-10T06:30:00Z"]);
    at(gap(Gap::Before), &["2026-03-08T07:30:00Z", "2026-03-09T06:30:00Z"]);
}

/// B061
#[test]
fn a_chosen_fold_holds_for_wildcard_times_too() {
    let at = |rules, expected: &[&str]| {
        check("*/30 * * * *", "America/New_York", rules, "2026-11-01T04:45:00Z", expected);
    };
    let (first, second) = (
        ["2026-11-01T05:00:00Z", "2026-11-01T05:30:00Z"],
        ["2026-11-01T06:00:00Z", "2026-11-01T06:30:00Z"],
    );
    let after = "2026-11-01T07:00:00Z";
    at(fold(Fold::First), &[first[0], first[1], after]);
    at(fold(Fold::Last), &[second[0], second[1], after]);
    at(fold(Fold::Both), &[first[0], first[1], second[0], second[1], after]);
    at(NO_RULES, &[first[0], first[1], second[0], second[1], after]);
}

#[test]
fn a_chosen_gap_holds_for_wildcard_times_too() {
    let at = |expr, rules, expected: &[&str]| {
        check(expr, "America/New_York", rules, "2026-03-08T06:40:00Z", expected);
    };
    // What the gap owes falls together with 03:00; the rest of it would be 03:30, due anyway.
    let usual = ["2026-03-08T07:00:00Z", "2026-03-08T07:30:00Z", "2026-03-08T08:00:00Z"];
    for rules in [NO_RULES, gap(Gap::End), gap(Gap::Skip), gap(Gap::Before)] {
        at("*/30 * * * *", rules, &usual);
    }
    at("*/20 2 * * *", NO_RULES, &["2026-03-09T06:00:00Z"]);
    at("*/20 2 * * *", gap(Gap::Skip), &["2026-03-09T06:00:00Z"]);
    at("*/20 2 * * *", gap(Gap::End), &["2026-03-08T07:00:00Z", "2026-03-09T06:00:00Z"]);
    let moved = ["2026-03-08T07:00:00Z", "2026-03-08T07:20:00Z", "2026-03-08T07:40:00Z"];
    at("*/20 2 * * *", gap(Gap::Before), &moved);
}

#[test]
fn slots_that_the_offset_before_brings_together_are_one() {
    let at = |expr, expected: &[&str]| {
        check(expr, "America/New_York", gap(Gap::Before), "2026-03-08T06:59:00Z", expected);
    };
    // 02:30 and 03:30 are the same instant; 02:10 comes between 03:00 and 03:30.
    at("30 2,3 * * *", &["2026-03-08T07:30:00Z", "2026-03-09T06:30:00Z"]);
    at("10 2 * * *", &["2026-03-08T07:10:00Z", "2026-03-09T06:10:00Z"]);
    at("0,10 2-3 * * *", &["2026-03-08T07:00:00Z", "2026-03-08T07:10:00Z", "2026-03-09T06:00:00Z"]);
}

#[test]
fn half_an_hour_of_summer_time_is_chosen_for_alike() {
    // Lord Howe goes from 02:00 to 02:30, and from 02:00 back to 01:30.
    let zone = "Australia/Lord_Howe";
    let spring = "2026-10-03T02:00:00Z";
    check("15 2 * * *", zone, gap(Gap::End), spring, &["2026-10-03T15:30:00Z"]);
    check("15 2 * * *", zone, gap(Gap::Before), spring, &["2026-10-03T15:45:00Z"]);
    check("15 2 * * *", zone, gap(Gap::Skip), spring, &["2026-10-04T15:15:00Z"]);
    let between = "15,30,45 2 * * *";
    let both = ["2026-10-03T15:30:00Z", "2026-10-03T15:45:00Z", "2026-10-04T15:15:00Z"];
    check(between, zone, gap(Gap::Before), spring, &both);
    let autumn = "2026-04-04T12:00:00Z";
    check("45 1 * * *", zone, fold(Fold::First), autumn, &["2026-04-04T14:45:00Z"]);
    check("45 1 * * *", zone, fold(Fold::Last), autumn, &["2026-04-04T15:15:00Z"]);
    let both = ["2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z", "2026-04-05T15:15:00Z"];
    check("45 1 * * *", zone, fold(Fold::Both), autumn, &both);
    // 01:15 is no part of the fold.
    check(
        "15 1 * * *",
        zone,
        fold(Fold::Last),
        autumn,
        &["2026-04-04T14:15:00Z", "2026-04-05T14:45:00Z"],
    );
}

/// B009
#[test]
fn a_gap_at_midnight_is_chosen_for_alike() {
    let (zone, from) = ("America/Sao_Paulo", "2014-10-18T12:00:00Z");
    check("0 0 * * *", zone, gap(Gap::End), from, &["2014-10-19T03:00:00Z"]);
    check("15 0 * * *", zone, gap(Gap::Before), from, &["2014-10-19T03:15:00Z"]);
    check("0 0 * * *", zone, gap(Gap::Skip), from, &["2014-10-20T02:00:00Z"]);
    // Its midnight comes twice when summer time ends: 23:00 on Saturday again.
    let (autumn, saturday) = ("2015-02-21T12:00:00Z", "30 23 * * 6");
    check(saturday, zone, fold(Fold::First), autumn, &["2015-02-22T01:30:00Z"]);
    check(saturday, zone, fold(Fold::Last), autumn, &["2015-02-22T02:30:00Z"]);
}

#[test]
fn a_skipped_day_is_chosen_for_alike() {
    // Samoa had no 30 December 2011.
    let at = |expr, rules, expected: &[&str]| {
        check(expr, "Pacific/Apia", rules, "2011-12-29T23:00:00Z", expected);
    };
    at("0 12 * * *", gap(Gap::End), &["2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"]);
    at("0 12 * * *", gap(Gap::Skip), &["2011-12-30T22:00:00Z", "2011-12-31T22:00:00Z"]);
    // By the offset before, noon on the 30th is the same instant as noon on the 31st.
    at("0 12 * * *", gap(Gap::Before), &["2011-12-30T22:00:00Z", "2011-12-31T22:00:00Z"]);
    at("0 12 30 12 *", gap(Gap::Before), &["2011-12-30T22:00:00Z", "2012-12-29T22:00:00Z"]);
    at("0 12 30 12 *", gap(Gap::Skip), &["2012-12-29T22:00:00Z"]);
    at("0 0 30,31 12 *", gap(Gap::Before), &["2011-12-30T10:00:00Z", "2012-12-29T10:00:00Z"]);
}

#[test]
fn two_summer_times_in_one_year_are_chosen_for_alike() {
    // Morocco went back for Ramadan on 2026-02-15, and forward again on 2026-03-22.
    let zone = "Africa/Casablanca";
    let (ramadan, end) = ("2026-02-14T12:00:00Z", "2026-03-21T12:00:00Z");
    check("30 2 * * *", zone, fold(Fold::First), ramadan, &["2026-02-15T01:30:00Z"]);
    check("30 2 * * *", zone, fold(Fold::Last), ramadan, &["2026-02-15T02:30:00Z"]);
    check("30 2 * * *", zone, gap(Gap::End), end, &["2026-03-22T02:00:00Z"]);
    check("30 2 * * *", zone, gap(Gap::Before), end, &["2026-03-22T02:30:00Z"]);
    check("30 2 * * *", zone, gap(Gap::Skip), end, &["2026-03-23T01:30:00Z"]);
}

#[test]
fn a_choice_changes_nothing_where_the_clock_does_not() {
    for zone in ["UTC", "Asia/Kolkata", "America/Phoenix"] {
        for rules in [gap(Gap::Skip), gap(Gap::Before), fold(Fold::Last), fold(Fold::Both)] {
            let (cron, zone) = (Cron::parse("17 2 * * 1").unwrap(), Zone::get(zone).unwrap());
            let from = instant("2026-01-01T00:00:00Z");
            let chosen = Slots { cron: &cron, zone, rules, days: None, shift: None };
            assert_eq!(chosen.next(from), cron.next(zone, from));
            let through = instant("2199-12-31T00:00:00Z");
            assert_eq!(chosen.count(from, through), cron.count(zone, from, through));
        }
    }
}

#[test]
fn an_offset_of_broken_minutes_is_a_gap_like_any_other() {
    // Liberia went from 00:00:00 to 00:44:30 on 1972-01-07.
    let (zone, from) = ("Africa/Monrovia", "1972-01-06T12:00:00Z");
    check(
        "10 0 * * *",
        zone,
        gap(Gap::End),
        from,
        &["1972-01-07T00:44:30Z", "1972-01-08T00:10:00Z"],
    );
    check(
        "10 0 * * *",
        zone,
        gap(Gap::Before),
        from,
        &["1972-01-07T00:54:30Z", "1972-01-08T00:10:00Z"],
    );
    check("10 0 * * *", zone, gap(Gap::Skip), from, &["1972-01-08T00:10:00Z"]);
    let both = ["1972-01-07T00:54:30Z", "1972-01-07T00:55:00Z", "1972-01-08T00:10:00Z"];
    check("10,55 0 * * *", zone, gap(Gap::Before), from, &both);
}

#[test]
fn days_that_do_not_count_have_no_slots() {
    let cron = Cron::parse("30 2 * * *").unwrap();
    let zone = Zone::get("America/New_York").unwrap();
    let day = |text| Day::parse(text).unwrap();
    let mut days = DaySet::all();
    days.remove(day("2026-03-08"));
    let with = |days, rules| Slots { cron: &cron, zone, rules, days: Some(days), shift: None };
    let from = "2026-03-07T12:00:00Z";
    // The slot that the gap would owe was written for the 8th.
    for rules in [NO_RULES, gap(Gap::End), gap(Gap::Before)] {
        check_slots(&with(&days, rules), from, &["2026-03-09T06:30:00Z"]);
    }
    let only: DaySet = [day("2026-03-08"), day("2026-11-01")].into_iter().collect();
    check_slots(
        &with(&only, fold(Fold::Both)),
        from,
        &["2026-03-08T07:00:00Z", "2026-11-01T07:30:00Z"],
    );
    let none = DaySet::none();
    assert_eq!(with(&none, NO_RULES).next(instant(from)), None);
    assert_eq!(with(&none, NO_RULES).prev(instant(from)), None);
    assert_eq!(with(&none, NO_RULES).count(i64::MIN, i64::MAX), 0);
}

#[test]
fn a_slot_belongs_to_the_day_it_was_written_for() {
    // Half past midnight on the 19th is in the gap that ends at 01:00 of the same day; Samoa's
    // 30 December is over when its slot comes.
    let apia = Zone::get("Pacific/Apia").unwrap();
    let cron = Cron::parse("0 12 * * *").unwrap();
    let only: DaySet = [Day::parse("2011-12-30").unwrap()].into_iter().collect();
    let slots = Slots { cron: &cron, zone: apia, rules: NO_RULES, days: Some(&only), shift: None };
    check_slots(&slots, "2011-12-01T00:00:00Z", &["2011-12-30T10:00:00Z"]);
    let after = DaySet::all().difference(&only);
    let slots = Slots { days: Some(&after), ..slots };
    check_slots(&slots, "2011-12-29T22:00:00Z", &["2011-12-30T22:00:00Z"]);
}
