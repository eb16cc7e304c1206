//! Slots that a gap moves, counted and searched: several of them at one instant are one slot.

use cronstream_core::schedule::{Cron, Rules, Slots, Zone};
use cronstream_schemas::definition::Gap;

use crate::{instant, show};

/// The slots in `from..=to`, forwards, backwards, and counted from and to each second of theirs.
#[track_caller]
fn check(expr: &str, zone: &str, gap: Gap, (from, to): (&str, &str), expected: &[&str]) {
    let cron = Cron::parse(expr).unwrap();
    let rules = Rules { gap: Some(gap), fold: None };
    let (zone, days) = (Zone::get(zone).unwrap(), None);
    let slots = Slots { cron: &cron, zone, rules, days, shift: None };
    let (from, to) = (instant(from), instant(to));
    let forward: Vec<i64> = std::iter::successors(slots.next(from - 1), |at| slots.next(*at))
        .take_while(|at| *at <= to)
        .collect();
    let told: Vec<String> = forward.iter().map(|at| show(*at)).collect();
    assert_eq!(told, expected, "{expr} {gap:?}");
    let mut back: Vec<i64> = std::iter::successors(slots.prev(to + 1), |at| slots.prev(*at))
        .take_while(|at| *at >= from)
        .collect();
    back.reverse();
    assert_eq!(back, forward, "{expr} {gap:?}");
    for (index, slot) in (0..).zip(&forward) {
        assert_eq!(slots.count(from - 1, *slot), index + 1, "{expr} {gap:?} to {}", show(*slot));
        assert_eq!(slots.count(from - 1, slot - 1), index, "{expr} {gap:?} to {}", show(*slot));
        let rest = forward.len() as u64 - index;
        assert_eq!(slots.count(slot - 1, to), rest, "{expr} {gap:?} from {}", show(*slot));
    }
}

const BERLIN: (&str, &str) = ("2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z");

#[test]
fn what_a_gap_owes_and_what_is_due_at_its_end_is_one_slot() {
    let end = "2026-03-29T01:00:00Z";
    let both = [end, "2026-03-29T01:30:00Z"];
    check("0,30 2-3 * * *", "Europe/Berlin", Gap::End, BERLIN, &both);
    check("15,30 2 * * *", "Europe/Berlin", Gap::End, BERLIN, &[end]);
    check("0,30 2-3 * * *", "Europe/Berlin", Gap::Skip, BERLIN, &both);
}

#[test]
fn what_both_wall_times_of_an_instant_match_is_one_slot() {
    let minute = |second: &str| format!("2026-03-29T01:58:{second}Z");
    check("58 2,3 * * *", "Europe/Berlin", Gap::Before, BERLIN, &[&minute("00")]);
    check("59 58 2,3 * * *", "Europe/Berlin", Gap::Before, BERLIN, &[&minute("59")]);
    let all = ["00", "20", "40"].map(minute);
    let all = all.each_ref().map(|text| &**text);
    check("*/20 58 2,3 * * *", "Europe/Berlin", Gap::Before, BERLIN, &all);
}

/// Liberia's clock went on by 44 minutes and 30 seconds on 1972-01-07, from midnight.
#[test]
fn a_gap_of_a_broken_minute_moves_slots_to_the_second() {
    let day = ("1972-01-06T12:00:00Z", "1972-01-07T12:00:00Z");
    let end = "1972-01-07T00:44:30Z";
    check("30 10,44 0 * * *", "Africa/Monrovia", Gap::End, day, &[end]);
    let moved = ["1972-01-07T00:54:00Z", "1972-01-07T00:54:30Z", "1972-01-07T00:55:00Z"];
    check("0,30 10,54 0 * * *", "Africa/Monrovia", Gap::Before, day, &moved);
}

#[test]
fn the_slot_before_a_gap_is_read_with_the_offset_of_its_own_time() {
    let ends = ("2026-01-01T00:00:00Z", "2027-05-01T00:00:00Z");
    check("0 12 15 7 *", "Europe/Berlin", Gap::Before, ends, &["2026-07-15T10:00:00Z"]);
    check(
        "0 12 15 1 *",
        "Europe/Berlin",
        Gap::Before,
        ends,
        &["2026-01-15T11:00:00Z", "2027-01-15T11:00:00Z"],
    );
}

#[test]
fn every_second_counts_to_the_end_of_each_hour() {
    let cron = Cron::parse("* * * * * *").unwrap();
    let midnight = instant("2026-05-01T00:00:00Z");
    for hour in 1..=24 {
        for beside in [-1, 0, 1] {
            let seconds = hour * 3_600 + beside;
            let through = midnight - 1_000 + seconds * 1_000;
            assert_eq!(cron.count(Zone::UTC, midnight - 1, through), seconds as u64, "{seconds}");
        }
    }
}
