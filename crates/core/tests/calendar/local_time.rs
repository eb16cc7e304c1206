//! Between instants and the wall of a zone: days, local times, changes, and what they do in words.

use cronstream_core::schedule::{
    Cron, Day, NoteKind, Rules, Slots, Transition, Zone, clock_change_notes,
};
use cronstream_schemas::definition::{Fold, Gap};

use crate::{instant, show};

fn zone(name: &str) -> Zone {
    Zone::get(name).unwrap()
}

fn day(text: &str) -> Day {
    Day::parse(text).unwrap()
}

#[test]
fn an_instant_has_a_day_and_a_time_in_each_zone() {
    let wall = |name: &str, at: &str| {
        let (day, second) = zone(name).civil(instant(at));
        format!("{day} {:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
    };
    // B033
    assert_eq!(wall("Europe/Paris", "2026-06-30T23:00:00Z"), "2026-07-01 01:00:00");
    assert_eq!(wall("UTC", "2026-06-30T23:00:00Z"), "2026-06-30 23:00:00");
    assert_eq!(wall("Asia/Kathmandu", "2026-06-30T23:00:00Z"), "2026-07-01 04:45:00");
    assert_eq!(wall("America/New_York", "2026-03-08T06:59:59Z"), "2026-03-08 01:59:59");
    assert_eq!(wall("America/New_York", "2026-03-08T07:00:00Z"), "2026-03-08 03:00:00");
    assert_eq!(zone("UTC").civil(i64::MIN), (day("1970-01-01"), 0));
    assert_eq!(zone("UTC").civil(i64::MAX), (day("2239-12-31"), 86_399));
    assert_eq!(zone("UTC").civil(-1), (day("1970-01-01"), 0));
}

#[test]
fn a_day_begins_with_its_first_instant() {
    for (name, date, start) in [
        ("UTC", "2026-03-08", "2026-03-08T00:00:00Z"),
        ("Asia/Tokyo", "2026-03-08", "2026-03-07T15:00:00Z"),
        // Midnight in a gap, in a fold, and a day that never was.
        ("America/Sao_Paulo", "2014-10-19", "2014-10-19T03:00:00Z"),
        ("America/Havana", "2025-11-02", "2025-11-02T04:00:00Z"),
        ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"),
        ("Pacific/Apia", "2011-12-31", "2011-12-30T10:00:00Z"),
        // At the ends of the calendar.
        ("America/New_York", "1969-12-30", "1970-01-01T00:00:00Z"),
        ("Asia/Tokyo", "1970-01-01", "1970-01-01T00:00:00Z"),
        ("America/New_York", "1970-01-01", "1970-01-01T05:00:00Z"),
        ("UTC", "2240-01-03", "2240-01-01T00:00:00Z"),
    ] {
        assert_eq!(show(zone(name).start_of_day(day(date))), start, "{date} in {name}");
    }
}

#[test]
fn a_local_time_is_resolved_as_chosen() {
    let none = Rules::default();
    let gap = |gap| Rules { gap: Some(gap), ..none };
    let fold = |fold| Rules { fold: Some(fold), ..none };
    let at = |date: &str, minutes: u32, rules| {
        zone("America/New_York").resolve(day(date), minutes * 60, rules).map(show)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(at("2026-06-01", 12 * 60, none), some("2026-06-01T16:00:00Z"));
    let (spring, in_gap) = ("2026-03-08", 2 * 60 + 30);
    assert_eq!(at(spring, in_gap, none), some("2026-03-08T07:00:00Z"));
    assert_eq!(at(spring, in_gap, gap(Gap::End)), some("2026-03-08T07:00:00Z"));
    assert_eq!(at(spring, in_gap, gap(Gap::Before)), some("2026-03-08T07:30:00Z"));
    assert_eq!(at(spring, in_gap, gap(Gap::Skip)), None);
    for rules in [none, gap(Gap::Skip), gap(Gap::Before)] {
        assert_eq!(at(spring, 119, rules), some("2026-03-08T06:59:00Z"));
        assert_eq!(at(spring, 180, rules), some("2026-03-08T07:00:00Z"));
    }
    let (autumn, in_fold) = ("2026-11-01", 60 + 30);
    assert_eq!(at(autumn, in_fold, none), some("2026-11-01T05:30:00Z"));
    assert_eq!(at(autumn, in_fold, fold(Fold::First)), some("2026-11-01T05:30:00Z"));
    assert_eq!(at(autumn, in_fold, fold(Fold::Both)), some("2026-11-01T05:30:00Z"));
    assert_eq!(at(autumn, in_fold, fold(Fold::Last)), some("2026-11-01T06:30:00Z"));
    assert_eq!(at(autumn, 120, fold(Fold::Last)), some("2026-11-01T07:00:00Z"));
    assert_eq!(at(autumn, 59, fold(Fold::Last)), some("2026-11-01T04:59:00Z"));
    assert_eq!(at("1969-12-31", 18 * 60, none), None, "before the calendar");
    assert_eq!(at("1969-12-31", 19 * 60, none), some("1970-01-01T00:00:00Z"));
    assert_eq!(at("2239-12-31", 19 * 60, none), None, "after it");
    let apia = |rules| zone("Pacific/Apia").resolve(day("2011-12-30"), 43_200, rules).map(show);
    assert_eq!(apia(none), some("2011-12-30T10:00:00Z"));
    assert_eq!(apia(gap(Gap::Before)), some("2011-12-30T22:00:00Z"));
    assert_eq!(apia(gap(Gap::Skip)), None);
}

/// Each wall time of each second day is found again, in all zones.
#[test]
fn resolving_undoes_the_wall() {
    for name in ["Africa/Casablanca", "America/St_Johns", "Asia/Kolkata", "Pacific/Chatham"] {
        let zone = zone(name);
        let mut at = instant("2020-01-01T00:00:00Z");
        while at < instant("2031-01-01T00:00:00Z") {
            let (day, second) = zone.civil(at);
            let passes = [Fold::First, Fold::Last].map(|fold| {
                zone.resolve(day, second, Rules { gap: Some(Gap::Skip), fold: Some(fold) }).unwrap()
            });
            assert!(passes.contains(&at), "{name} at {}", show(at));
            at += 47 * 60_000;
        }
    }
}

#[test]
fn the_changes_of_a_zone_are_listed() {
    let all = |name: &str, from: &str, through: &str| -> Vec<_> {
        zone(name).transitions(instant(from), instant(through)).collect()
    };
    let (spring, autumn) = ("2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z");
    let change = |at: &str, offset_before, offset_after| Transition {
        at_ms: instant(at),
        offset_before,
        offset_after,
    };
    let year = [change(spring, 3_600, 7_200), change(autumn, 7_200, 3_600)];
    assert_eq!(all("Europe/Berlin", "2026-01-01T00:00:00Z", "2026-12-31T00:00:00Z"), year);
    assert_eq!(all("Europe/Berlin", spring, autumn), year, "both ends are included");
    assert_eq!(all("Europe/Berlin", "2026-03-29T01:00:01Z", "2026-10-25T00:59:59Z"), []);
    assert_eq!(zone("UTC").transitions(i64::MIN, i64::MAX).count(), 0);
    assert_eq!(zone("Asia/Kolkata").transitions(i64::MIN, i64::MAX).count(), 0);
    assert_eq!(zone("Africa/Monrovia").transitions(i64::MIN, i64::MAX).count(), 1);
}

/// The notes on a job over one year, as words.
#[track_caller]
fn check_notes(expr: &str, name: &str, rules: Rules, year: &str, expected: &[&str]) {
    let cron = Cron::parse(expr).unwrap();
    let slots = Slots { cron: &cron, zone: zone(name), rules, days: None, shift: None };
    let [from, through] = ["01-01", "12-31"].map(|day| instant(&format!("{year}-{day}T12:00:00Z")));
    let words: Vec<_> =
        clock_change_notes(&slots, from, through).into_iter().map(|note| note.words).collect();
    assert_eq!(words, expected, "`{expr}` in {name}");
}

#[test]
fn a_clock_change_is_told_when_it_touches_the_job() {
    let none = Rules::default();
    check_notes(
        "30 2 * * *",
        "Europe/Berlin",
        none,
        "2026",
        &[
            "Europe/Berlin goes from 02:00 to 03:00 on 2026-03-29: 02:30 does not exist and runs once, at 03:00",
            "Europe/Berlin goes from 03:00 back to 02:00 on 2026-10-25: 02:30 comes twice and runs the first time only",
        ],
    );
    let chosen = Rules { gap: Some(Gap::Before), fold: Some(Fold::Last) };
    check_notes(
        "0,20 2 * * *",
        "Europe/Berlin",
        chosen,
        "2026",
        &[
            "Europe/Berlin goes from 02:00 to 03:00 on 2026-03-29: 2 times from 02:00 to 02:20 do not exist and run from 03:00 to 03:20",
            "Europe/Berlin goes from 03:00 back to 02:00 on 2026-10-25: 2 times from 02:00 to 02:20 come twice and run the second time only",
        ],
    );
    check_notes("0 12 * * *", "Europe/Berlin", none, "2026", &[]);
    check_notes("30 2 * * *", "Asia/Kolkata", none, "2026", &[]);
    check_notes(
        "0 12 30 12 *",
        "Pacific/Apia",
        none,
        "2011",
        &[
            "Pacific/Apia goes from 00:00 to 2011-12-31 00:00 on 2011-12-30: 12:00 does not exist and runs once, at 2011-12-31 00:00",
        ],
    );
}

#[test]
fn a_job_that_follows_elapsed_time_is_told_only_if_it_loses_or_gains() {
    let none = Rules::default();
    check_notes("*/15 * * * *", "Europe/Berlin", none, "2026", &[]);
    check_notes("0 * * * *", "Europe/Berlin", none, "2026", &[]);
    check_notes(
        "* 2 * * *",
        "Europe/Berlin",
        none,
        "2026",
        &[
            "Europe/Berlin goes from 02:00 to 03:00 on 2026-03-29: 60 times from 02:00 to 02:59 do not exist and do not run",
            "Europe/Berlin goes from 03:00 back to 02:00 on 2026-10-25: 60 times from 02:00 to 02:59 come twice and run both times",
        ],
    );
    // Half an hour is not the hour of the job.
    check_notes(
        "45 * * * *",
        "Australia/Lord_Howe",
        none,
        "2026",
        &[
            "Australia/Lord_Howe goes from 02:00 back to 01:30 on 2026-04-05: 01:45 comes twice and runs both times",
        ],
    );
    let first = Rules { fold: Some(Fold::First), ..none };
    check_notes(
        "*/15 * * * *",
        "Europe/Berlin",
        first,
        "2026",
        &[
            "Europe/Berlin goes from 03:00 back to 02:00 on 2026-10-25: 4 times from 02:00 to 02:45 come twice and run the first time only",
        ],
    );
}

#[test]
fn a_note_knows_its_change() {
    let cron = Cron::parse("*/10 2 * * *").unwrap();
    let slots = cron.slots(zone("America/New_York"));
    let notes = clock_change_notes(&slots, instant("2026-03-08T07:00:00Z"), i64::MAX);
    assert_eq!(notes.len(), 214, "one gap a year: 02:00 to 02:59 is in no fold");
    assert_eq!(
        (notes[0].at_ms, notes[0].kind, notes[0].slots),
        (instant("2026-03-08T07:00:00Z"), NoteKind::Gap, 6)
    );
}

/// Anchorage's clock got another name on 1983-11-30, and London's on 1971-10-31 what had been summer time all the year.
#[test]
fn a_transition_changes_the_offset() {
    for name in ["America/Anchorage", "Europe/London", "Africa/Windhoek", "Asia/Pyongyang"] {
        let zone = Zone::get(name).unwrap();
        let all: Vec<_> = zone.transitions(i64::MIN, i64::MAX).collect();
        assert!(!all.is_empty() && all.is_sorted_by(|one, next| one.at_ms < next.at_ms), "{name}");
        for change in all {
            assert_ne!(change.offset_before, change.offset_after, "{name}: {change:?}");
        }
    }
}
