//! Several expressions of one job within windows: their slots, forwards, backwards and counted from anywhere to
//! anywhere, through clock changes and at both ends of the calendar. The oracle takes the slots of each expression one
//! by one and asks jiff's wall whether a window has them.

use std::collections::BTreeSet;
use std::sync::Arc;

use cronstream_core::schedule::{
    Cron, Day, DaySet, Open, Part, Rules, Slots, Union, Windows, Zone,
};
use cronstream_schemas::definition::{Fold, Gap, Shift};
use jiff::{Timestamp, tz::TimeZoneDatabase};

use crate::{instant, show};

const DAY: i64 = 86_400_000;

/// The first instant past the calendar.
const END: i64 = 8_520_336_000_000;

/// Expressions with the days of each (a text with a blank is an expression that matches them) and windows.
struct Case<'a> {
    zone: &'a str,
    crons: &'a [&'a str],
    windows: &'a [&'a str],
    rules: Rules,
    days: Option<(&'a str, Option<Shift>)>,
}

impl<'a> Case<'a> {
    fn new(zone: &'a str, crons: &'a [&'a str], windows: &'a [&'a str]) -> Self {
        Self { zone, crons, windows, rules: Rules::default(), days: None }
    }

    fn union(&self) -> Union {
        let days = self.days.map(|(text, _)| Arc::new(days_of(text)));
        let shift = self.days.and_then(|(_, shift)| shift);
        let part =
            |text: &&str| Part { cron: Cron::parse(text).unwrap(), days: days.clone(), shift };
        let windows: Vec<_> = self.windows.iter().map(|text| text.parse().unwrap()).collect();
        Union {
            parts: self.crons.iter().map(part).collect(),
            rules: self.rules,
            open: Open {
                zone: Zone::get(self.zone).unwrap(),
                days: None,
                windows: Windows::of(&windows),
            },
        }
    }

    /// The slots in `from..to`.
    fn slots(&self, from: i64, to: i64) -> Vec<i64> {
        let zone = TimeZoneDatabase::bundled().get(self.zone).unwrap();
        let of = |text: &str| -> i64 {
            let mut parts = text.split(':').map(|part| part.parse::<i64>().unwrap());
            let mut next = || parts.next().unwrap_or(0);
            next() * 3_600 + next() * 60 + next()
        };
        let within = |at: i64| {
            let wall = zone.to_datetime(Timestamp::from_millisecond(at).unwrap());
            let second = of(&wall.time().to_string());
            let has = |window: &&str| {
                let (from, to) = window.split_once('-').unwrap();
                let (from, to) = (of(from), of(to));
                if from < to {
                    from <= second && second < to
                } else {
                    from <= second || second < to
                }
            };
            self.windows.is_empty() || self.windows.iter().any(has)
        };
        let mut found = BTreeSet::new();
        for Part { cron, days, shift } in &self.union().parts {
            let (zone, rules, shift) = (Zone::get(self.zone).unwrap(), self.rules, *shift);
            let slots = Slots { cron, zone, rules, days: days.as_deref(), shift };
            let next = |after| slots.next(after).filter(|slot| *slot < to);
            found.extend(std::iter::successors(next(from - 1), |slot| next(*slot)));
        }
        found.into_iter().filter(|at| within(*at)).collect()
    }
}

/// The days of two years or so on which an expression matches, without what the engine makes of them.
fn days_of(text: &str) -> DaySet {
    let cron = Cron::parse(text).unwrap();
    let first = Day::parse("1970-01-01").unwrap();
    let slots = cron.slots(Zone::UTC);
    let all = std::iter::successors(slots.next(-1), |slot| slots.next(*slot));
    all.take(30_000).filter_map(|at| first.plus(at / DAY)).collect()
}

/// Slots are found one after the other and one before the other in `from..to`, and counted from and to each of them,
/// and each `probes`, to the millisecond.
#[track_caller]
fn check(case: &Case<'_>, from: i64, to: i64, probes: &[i64]) {
    let (union, slots) = (case.union(), case.slots(from, to));
    assert!(!slots.is_empty(), "nothing to find: {:?}", case.crons);
    let about = |at: i64| {
        format!("{} {:?} {:?} {:?} at {}", case.zone, case.crons, case.windows, case.days, show(at))
    };
    let stride = (slots.len() / 12).max(1);
    let some = slots.iter().step_by(stride).chain(slots.last()).chain(probes);
    let mut probes: BTreeSet<i64> =
        some.flat_map(|at| [at - 1, *at, at + 1, at + 999, at + 1_000]).collect();
    probes.extend([from, to - 1]);
    for at in probes.into_iter().filter(|at| (from..to).contains(at)) {
        let through = slots.partition_point(|slot| *slot <= at);
        let count = union.count(from - 1, at);
        assert_eq!(count, through as u64, "count to, {}", about(at));
        let count = union.count(at, to - 1);
        assert_eq!(count, (slots.len() - through) as u64, "count from, {}", about(at));
    }
    for pair in slots.windows(2).step_by(stride) {
        assert_eq!(union.next(pair[0]), Some(pair[1]), "next, {}", about(pair[0]));
        assert_eq!(union.next(pair[1] - 1), Some(pair[1]), "next, {}", about(pair[0]));
        assert_eq!(union.prev(pair[1]), Some(pair[0]), "prev, {}", about(pair[1]));
        assert_eq!(union.prev(pair[0] + 1), Some(pair[0]), "prev, {}", about(pair[1]));
    }
    let found: Vec<_> = std::iter::successors(union.next(from - 1), |at| union.next(*at))
        .take_while(|at| *at < to)
        .take(slots.len() + 1)
        .collect();
    assert_eq!(found, slots, "{}", about(from));
}

/// As [`check`] for some days around a clock change, and at the midnights that the wall shows there.
#[track_caller]
fn check_around(case: &Case<'_>, change: &str, days: i64) {
    let change = instant(change);
    let (from, to) = (change - days * DAY - 1_234_000, change + days * DAY + 4_321_000);
    let zone = TimeZoneDatabase::bundled().get(case.zone).unwrap();
    let midnights = (-days..=days).map(|days| {
        let near = change + days * DAY;
        let wall = zone.to_datetime(Timestamp::from_millisecond(near).unwrap());
        near - i64::from(wall.hour()) * 3_600_000 - i64::from(wall.minute()) * 60_000
    });
    let hour = 3_600_000;
    let probes: Vec<i64> =
        midnights.chain([change, change - hour, change + hour, change - hour / 2]).collect();
    check(case, from, to, &probes);
}

const BERLIN_GAP: &str = "2026-03-29T01:00:00Z";
const BERLIN_FOLD: &str = "2026-10-25T01:00:00Z";

#[test]
fn one_slot_of_several_expressions_is_counted_once() {
    let crons: &[&str] = &["0 * * * *", "0,30 9-17 * * *", "15 30 2 * * *", "*/20 2 * * 0"];
    for change in [BERLIN_GAP, BERLIN_FOLD] {
        check_around(&Case::new("Europe/Berlin", crons, &[]), change, 2);
        check_around(&Case::new("Europe/Berlin", &crons[1..2], &[]), change, 2);
        check_around(
            &Case::new("Europe/Berlin", &crons[1..], &["01:45-02:30", "16:59-09:00:01"]),
            change,
            2,
        );
    }
}

#[test]
fn windows_leave_out_slots_of_one_expression_to_the_second() {
    for change in [BERLIN_GAP, BERLIN_FOLD] {
        let case =
            Case::new("Europe/Berlin", &["*/7 */5 * * * *"], &["02:05:07-02:45", "23:50-00:10:22"]);
        check_around(&case, change, 2);
        let case = Case::new("Europe/Berlin", &["30 0-3 * * *"], &["00:30-02:30:01"]);
        check_around(&case, change, 3);
    }
    let case = Case::new("Australia/Lord_Howe", &["*/10 1-2 * * *"], &["01:20-02:20"]);
    check_around(&case, "2026-04-04T15:00:00Z", 2);
    check_around(&case, "2026-10-03T15:30:00Z", 2);
}

#[test]
fn the_rules_of_gap_and_fold_hold_for_each_expression() {
    let crons: &[&str] = &["30 2 * * *", "15,45 * * * *", "*/30 1-3 * * *"];
    let gaps = [Gap::End, Gap::Skip, Gap::Before];
    let folds = [Fold::First, Fold::Last, Fold::Both];
    for (gap, fold) in gaps.into_iter().zip(folds) {
        let rules = Rules { gap: Some(gap), fold: Some(fold) };
        for change in [BERLIN_GAP, BERLIN_FOLD] {
            check_around(&Case { rules, ..Case::new("Europe/Berlin", crons, &[]) }, change, 1);
            let last = &["59 */15 * * * *"];
            check_around(&Case { rules, ..Case::new("Europe/Berlin", last, &[]) }, change, 1);
            let windows = &["01:15-02:31", "03:15-03:31"];
            check_around(
                &Case { rules, ..Case::new("Europe/Berlin", &crons[..2], windows) },
                change,
                1,
            );
        }
    }
}

#[test]
fn days_that_begin_or_end_in_a_change_are_counted() {
    let crons: &[&str] = &["0 0 * * *", "59 23 * * *", "30 0,23 * * 6,0"];
    check_around(&Case::new("America/Sao_Paulo", crons, &[]), "2018-11-04T03:00:00Z", 2);
    check_around(
        &Case::new("America/Santiago", crons, &["23:30-00:30"]),
        "2026-04-05T03:00:00Z",
        2,
    );
    check_around(
        &Case::new("Pacific/Apia", &["0 */6 * * *", "0 9 30 * *"], &[]),
        "2011-12-30T10:00:00Z",
        3,
    );
    check_around(
        &Case::new("Pacific/Apia", &["0 */6 * * *"], &["05:00-13:00"]),
        "2011-12-30T10:00:00Z",
        3,
    );
    // From twelve hours behind UTC to twelve ahead of it: what the day left out owes is due as it ends.
    let crons: &[&str] = &["30 15 * * *", "0 9 * * *"];
    check_around(&Case::new("Pacific/Kwajalein", crons, &[]), "1993-08-21T12:00:00Z", 3);
}

#[test]
fn nothing_is_counted_within_a_second_or_before_the_calendar() {
    for change in [BERLIN_GAP, BERLIN_FOLD] {
        let at = instant(change);
        for crons in [&["* * * * * *", "0 * * * *"][..], &["* * * * * *"]] {
            for windows in [&[][..], &["01:00-04:00"]] {
                let union = Case::new("Europe/Berlin", crons, windows).union();
                for at in [at, at + 1_800_000, at - 1_800_000, at + 5 * DAY] {
                    assert_eq!((union.count(at, at), union.count(at + 1, at + 999)), (0, 0));
                    assert_eq!((union.count(at - 1, at), union.count(at + 999, at)), (1, 0));
                }
                assert_eq!((union.count(i64::MIN, -1), union.count(END, i64::MAX)), (0, 0));
            }
        }
    }
}

#[test]
fn expressions_are_counted_over_months_and_years_by_their_days() {
    let (from, to) = (instant("2026-01-15T07:30:00Z"), instant("2028-03-15T07:30:00Z"));
    let months = [
        "2026-01-31T23:00:00Z",
        "2026-02-28T23:00:00Z",
        "2028-02-28T23:00:00Z",
        "2028-02-29T23:00:00Z",
    ];
    let probes = months.map(instant);
    for (crons, windows) in [
        (&["30 6 1,15,28-31 * *", "30 6 * * 1", "0 12 29 2 *"][..], &[][..]),
        (&["30 6 L * *", "45 6 * * 1-5"], &["06:45-12:00"]),
        (&["15 6,18 * * *"], &["06:00-07:00"]),
        (&["0 0 1-7 * *"], &["23:00-01:00"]),
    ] {
        check(&Case::new("Europe/Berlin", crons, windows), from, to, &probes);
    }
}

#[test]
fn calendars_leave_out_days_or_move_their_slots() {
    let (from, to) = (instant("2026-03-10T07:30:00Z"), instant("2026-06-10T07:30:00Z"));
    let workdays = "0 0 * * 1-5";
    for shift in [None, Some(Shift::Next), Some(Shift::Previous)] {
        for (crons, windows) in [
            (&["30 6 1,15,28-31 * *", "30 6,7 * * 6"][..], &[][..]),
            (&["30 6 1,15,28-31 * *"], &["06:00-07:00"]),
        ] {
            let case = Case {
                days: Some((workdays, shift)),
                ..Case::new("Europe/Berlin", crons, windows)
            };
            check(&case, from, to, &[]);
        }
    }
}

#[test]
fn both_ends_of_the_calendar_are_counted() {
    for zone in ["UTC", "America/New_York", "Asia/Tokyo", "Africa/Monrovia", "Europe/London"] {
        for (crons, windows) in [
            (&["0 * * * *", "0,59 */12 * * *"][..], &[][..]),
            (&["*/20 * * * *"], &["23:40-00:40", "18:00-20:00"]),
        ] {
            let case = Case::new(zone, crons, windows);
            check(&case, 0, 2 * DAY, &[0, 7_200_000]);
            check(&case, END - 2 * DAY, END, &[END - 1_000]);
            let union = case.union();
            let (first, last) =
                (case.slots(0, DAY)[0], *case.slots(END - DAY, END).last().unwrap());
            assert_eq!((union.next(-1), union.next(i64::MIN)), (Some(first), Some(first)));
            assert_eq!((union.prev(END), union.prev(i64::MAX)), (Some(last), Some(last)));
            assert_eq!((union.next(last), union.prev(first)), (None, None), "{zone} {crons:?}");
            let whole = union.count(-1, END - 1);
            assert_eq!(union.count(i64::MIN, i64::MAX), whole);
            assert_eq!(union.count(-DAY, END + DAY), whole);
            assert_eq!((union.count(first, first), union.count(last, first)), (0, 0));
        }
    }
}

#[test]
fn an_expression_meets_windows_that_have_one_of_its_seconds() {
    let meets = |cron: &str, window: &str| {
        let windows = Windows::of(&[window.parse().unwrap()]).unwrap();
        Cron::parse(cron).unwrap().meets(&windows)
    };
    for (cron, window, expected) in [
        ("0 0 * * *", "00:00-00:00:01", true),
        ("0 0 * * *", "00:00:01-24:00", false),
        ("59 23 * * *", "23:59-24:00", true),
        ("59 23 * * *", "00:00-23:59", false),
        ("59 59 23 * * *", "23:59:59-24:00", true),
        ("58 59 23 * * *", "23:59:59-24:00", false),
        ("30 9 * * *", "09:30-10:00", true),
        ("30 9 * * *", "09:31-10:00", false),
        ("30 9 * * *", "09:00-09:30", false),
        ("30 10 * * *", "09:31-10:30:01", true),
        ("*/15 20-21 * * *", "20:46-21:00", false),
        ("*/15 20-21 * * *", "20:45-21:00", true),
    ] {
        assert_eq!(meets(cron, window), expected, "{cron} in {window}");
    }
}
