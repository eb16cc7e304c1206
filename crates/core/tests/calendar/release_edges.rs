//! Which slots a report on moved slots holds: at its ends, at its limit, and no more than must be walked.

use cronstream_core::schedule::{Cron, Difference, Differences, Rules, Slots, Zone, differences};

use crate::{instant, show};

const SECOND: i64 = 1_000;

fn vancouver() -> [Zone; 2] {
    let name = "America/Vancouver";
    [Zone::at_version(name, "2025b").unwrap(), Zone::get(name).unwrap()]
}

fn zones(was: &str, is: &str) -> [Zone; 2] {
    [was, is].map(|name| Zone::get(name).unwrap())
}

fn compare(
    crons: [&str; 2],
    zones: [Zone; 2],
    (from, through): (&str, &str),
    limit: usize,
) -> Differences {
    let [was, is] = crons.map(|text| Cron::parse(text).unwrap());
    let under = |cron, zone| Slots { cron, zone, rules: Rules::default(), days: None, shift: None };
    let (was, is) = (under(&was, zones[0]), under(&is, zones[1]));
    differences(&was, &is, instant(from), instant(through), limit)
}

/// The differences as `was -> is`.
fn told(found: &Differences) -> Vec<String> {
    let word = |at: Option<i64>| at.map_or("none".into(), show);
    found
        .found
        .iter()
        .map(|Difference { was, is }| format!("{} -> {}", word(*was), word(*is)))
        .collect()
}

/// The report of one expression has these differences and goes up to this instant.
#[track_caller]
fn check(cron: &str, zones: [Zone; 2], ends: (&str, &str), limit: usize, expected: (&[&str], i64)) {
    let found = compare([cron; 2], zones, ends, limit);
    assert_eq!(told(&found), expected.0, "{cron} in {ends:?}");
    assert_eq!(found.through_ms, expected.1, "{cron} in {ends:?}: {}", show(found.through_ms));
}

const SPRING: [&str; 2] = [
    "2027-03-13T14:30:00Z -> 2027-03-13T13:30:00Z",
    "2027-03-12T14:30:00Z -> 2027-03-12T13:30:00Z",
];

#[test]
fn slots_at_the_ends_of_a_report_are_those_after_the_first_and_up_to_the_last_instant() {
    // The clocks agree again from 2027-03-14 on.
    for (from, through, expected) in [
        ("2027-03-12T14:30:00Z", "2027-03-20T00:00:00Z", &SPRING[..1]),
        ("2027-03-13T13:29:59Z", "2027-03-13T14:30:00Z", &SPRING[..1]),
        ("2027-03-13T13:29:59Z", "2027-03-13T14:29:59Z", &["none -> 2027-03-13T13:30:00Z"]),
        ("2027-03-13T13:30:00Z", "2027-03-13T14:30:00Z", &["2027-03-13T14:30:00Z -> none"]),
        ("2027-03-13T14:30:00Z", "2027-03-20T00:00:00Z", &[]),
        ("2027-03-12T00:00:00Z", "2027-03-12T20:00:00Z", &SPRING[1..]),
        // As far as the calendar goes, and the zone before is in its winter.
        (
            "2239-12-30T20:00:00Z",
            "2240-06-01T00:00:00Z",
            &["2239-12-31T14:30:00Z -> 2239-12-31T13:30:00Z"],
        ),
    ] {
        check("30 6 * * *", vancouver(), (from, through), 100, (expected, instant(through)));
    }
}

#[test]
fn a_whole_winter_is_compared_and_its_slots_told_once() {
    let ends = ("2026-11-10T00:00:00Z", "2027-03-20T00:00:00Z");
    let found = compare(["30 6 * * *"; 2], vancouver(), ends, 1_000);
    assert_eq!(found.found.len(), 124);
    assert!(found.found.iter().all(|one| one.was.unwrap() - one.is.unwrap() == 3_600 * SECOND));
    assert!(found.found.is_sorted_by_key(|one| one.was));
    // Clocks that never agree, and change eight times between.
    let ends = ("2026-01-01T00:00:00Z", "2027-12-31T23:59:59Z");
    let found = compare(["0 9 * * *"; 2], zones("Europe/London", "Europe/Berlin"), ends, 1_000);
    assert_eq!(found.found.len(), 730);
    assert!(found.found.iter().all(|one| one.was.unwrap() - one.is.unwrap() == 3_600 * SECOND));
}

#[test]
fn a_report_is_full_when_one_more_would_be_over_the_limit_on_either_side() {
    let [was, is] = vancouver();
    let ends = ("2026-11-01T12:00:00Z", "2026-11-04T23:00:00Z");
    let moved: Vec<String> = (1..=4)
        .map(|day| format!("2026-11-0{day}T14:30:00Z -> 2026-11-0{day}T13:30:00Z"))
        .collect();
    let moved: Vec<&str> = moved.iter().map(|one| &**one).collect();
    let before = |text: &str| instant(text) - 1;
    for (limit, looked) in [
        (0, before("2026-11-01T13:30:00Z")),
        (1, before("2026-11-02T13:30:00Z")),
        (3, before("2026-11-04T13:30:00Z")),
        (4, instant(ends.1)),
        (5, instant(ends.1)),
    ] {
        check("30 6 * * *", [was, is], ends, limit, (&moved[..limit.min(4)], looked));
    }
    // The other way about the slots that go are the earlier ones.
    let back: Vec<String> = (1..=4)
        .map(|day| format!("2026-11-0{day}T13:30:00Z -> 2026-11-0{day}T14:30:00Z"))
        .collect();
    let back: Vec<&str> = back.iter().map(|one| &**one).collect();
    check("30 6 * * *", [is, was], ends, 2, (&back[..2], before("2026-11-03T13:30:00Z")));
}

#[test]
fn slots_in_both_do_not_count_towards_the_limit() {
    // Havana's second pass of 2026 goes, and only it.
    let (name, ends) = ("America/Havana", ("2026-11-01T03:00:00Z", "2026-11-01T08:00:00Z"));
    let [was, is] = [Zone::at_version(name, "2025b").unwrap(), Zone::get(name).unwrap()];
    let cron = "*/30 0 * * *";
    let gone = ["2026-11-01T05:00:00Z -> none", "2026-11-01T05:30:00Z -> none"];
    check(cron, [was, is], ends, 1, (&gone[..1], instant("2026-11-01T05:30:00Z") - 1));
    check(cron, [was, is], ends, 2, (&gone, instant(ends.1)));
    let new = ["none -> 2026-11-01T05:00:00Z", "none -> 2026-11-01T05:30:00Z"];
    check(cron, [is, was], ends, 1, (&new[..1], instant("2026-11-01T05:30:00Z") - 1));
    check(cron, [is, was], ends, 2, (&new, instant(ends.1)));
}

#[test]
fn expressions_that_differ_are_compared_where_the_clocks_agree() {
    let ends = ("2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z");
    let same = zones("Europe/Berlin", "Europe/Berlin");
    let found = compare(["0 9 * * *", "0 10 * * *"], same, ends, 10);
    assert_eq!(told(&found), ["2026-06-01T07:00:00Z -> none", "none -> 2026-06-01T08:00:00Z"]);
}

#[test]
fn differences_are_told_in_the_order_of_the_earlier_of_their_two_instants() {
    let ends = ("2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z");
    let moved = zones("Europe/London", "Europe/Berlin");
    let found = compare(["0 9 * * *", "0,30 9 * * *"], moved, ends, 10);
    assert_eq!(
        told(&found),
        ["2026-06-01T08:00:00Z -> 2026-06-01T07:00:00Z", "none -> 2026-06-01T07:30:00Z"]
    );
}

#[test]
fn only_stretches_around_a_difference_of_the_clocks_are_walked() {
    // Every second of years: a walk of them would be cut off.
    for zones in [zones("Europe/Berlin", "Europe/Paris"), vancouver()] {
        let ends = ("2026-04-01T00:00:00Z", "2026-10-20T00:00:00Z");
        check("* * * * * *", zones, ends, 5, (&[], instant(ends.1)));
    }
    // Athens and Cairo leave summer time days from each other, enter it a month from each other, and agree between.
    let ends = ("2026-10-01T00:00:00Z", "2027-05-10T00:00:00Z");
    check("*/2 * * * *", zones("Europe/Athens", "Africa/Cairo"), ends, 5, (&[], instant(ends.1)));
    let ends = ("2026-10-01T00:00:00Z", "2028-05-10T00:00:00Z");
    check("*/3 * * * *", zones("Europe/Athens", "Africa/Cairo"), ends, 5, (&[], instant(ends.1)));
}
