//! When a job may be due, to the millisecond: at the edges of windows, at midnight, around clock changes and at both
//! ends of the calendar. The oracle looks at quarters of an hour, in each of which jiff's wall is open or shut.

use std::sync::Arc;

use cronstream_core::schedule::{Day, DaySet, Open, Windows, Zone};
use jiff::{
    Timestamp,
    tz::{TimeZone, TimeZoneDatabase},
};

use crate::instant;

/// Every window, midnight and clock change of the cases is at a multiple of it.
const QUARTER: i64 = 900_000;

const DAY: i64 = 86_400_000;

/// The first instant past the calendar.
const END: i64 = 8_520_336_000_000;

/// A job's days and windows, each as text; without days it has all.
struct Case {
    zone: &'static str,
    days: &'static [&'static str],
    windows: &'static [&'static str],
}

impl Case {
    fn open(&self) -> Open {
        let days: DaySet = self.days.iter().map(|text| Day::parse(text).unwrap()).collect();
        let windows: Vec<_> = self.windows.iter().map(|text| text.parse().unwrap()).collect();
        Open {
            zone: Zone::get(self.zone).unwrap(),
            days: (!self.days.is_empty()).then(|| Arc::new(days)),
            windows: Windows::of(&windows),
        }
    }

    /// The date and the offset of an open instant.
    fn look(&self, zone: &TimeZone, at: i64) -> Option<(String, i32)> {
        let instant = Timestamp::from_millisecond(at).unwrap();
        let (wall, offset) = (zone.to_datetime(instant), zone.to_offset(instant).seconds());
        let date = wall.date().to_string();
        let minute = i64::from(wall.hour()) * 60 + i64::from(wall.minute());
        let of = |text: &str| {
            let (hour, minute) = text.split_once(':').unwrap();
            hour.parse::<i64>().unwrap() * 60 + minute.parse::<i64>().unwrap()
        };
        let within = |window: &&str| {
            let (from, to) = window.split_once('-').unwrap();
            let (from, to) = (of(from), of(to));
            if from < to { from <= minute && minute < to } else { from <= minute || minute < to }
        };
        let is_open = (0..END).contains(&at)
            && (self.days.is_empty() || self.days.contains(&&*date))
            && (self.windows.is_empty() || self.windows.iter().any(within));
        is_open.then_some((date, offset))
    }
}

/// Every search in the quarters of `from..to` finds what looking at each of them finds.
#[track_caller]
fn check(case: &Case, from: i64, to: i64) {
    let zone = TimeZoneDatabase::bundled().get(case.zone).unwrap();
    let open = case.open();
    let quarters: Vec<_> =
        (from..to).step_by(QUARTER as usize).map(|at| (at, case.look(&zone, at))).collect();
    let about = |at: i64| format!("{} {:?} {:?} at {at}", case.zone, case.days, case.windows);
    let first_open = |from: i64| quarters.iter().find(|(at, is)| *at >= from && is.is_some());
    for (at, is_open) in &quarters {
        let (first, last) = (*at, at + QUARTER - 1);
        let after = first_open(at + QUARTER).map(|(at, _)| *at);
        let before = quarters.iter().rfind(|(other, is)| other < at && is.is_some());
        let before = before.map(|(at, _)| at + QUARTER - 1);
        for at in [first, first + 1, last] {
            assert_eq!(open.contains(at), is_open.is_some(), "{}", about(at));
            let (next, prev) = (open.next(at), open.prev(at));
            if is_open.is_some() {
                assert_eq!((next, prev), (Some(at), Some(at)), "{}", about(at));
                continue;
            }
            match after {
                Some(_) => assert_eq!(next, after, "next, {}", about(at)),
                None => assert!(next.is_none_or(|next| next >= to), "{next:?}, {}", about(at)),
            }
            match before {
                Some(_) => assert_eq!(prev, before, "prev, {}", about(at)),
                None => assert!(prev.is_none_or(|prev| prev < from), "{prev:?}, {}", about(at)),
            }
        }
    }
    for (from, to) in [(from, to), (from + 1, to - 1), (from + QUARTER + 1, to - 3 * QUARTER)] {
        let mut expected: Vec<(i64, i64)> = Vec::new();
        let mut last = None;
        for (at, is_open) in &quarters {
            let (start, end) = ((*at).max(from), (at + QUARTER).min(to));
            if is_open.is_some() && start < end {
                match expected.last_mut() {
                    Some(stretch) if last == *is_open && stretch.1 == start => stretch.1 = end,
                    _ => expected.push((start, end)),
                }
            }
            last.clone_from(is_open);
        }
        let found: Vec<_> = open.stretches(from, to).collect();
        assert_eq!(found, expected, "{}", about(from));
    }
}

fn check_days(
    zone: &'static str,
    from: &str,
    days: i64,
    cases: &[(&'static [&str], &'static [&str])],
) {
    let from = instant(from);
    for (days_open, windows) in cases {
        check(&Case { zone, days: days_open, windows }, from, from + days * DAY);
    }
}

#[test]
fn a_window_is_open_by_the_wall_through_clock_changes() {
    check_days(
        "Europe/Berlin",
        "2026-03-27T23:00:00Z",
        3,
        &[
            (&[], &["02:15-02:45", "23:30-00:30"]),
            (&["2026-03-29"], &["01:00-03:15"]),
            (&["2026-03-28", "2026-03-29"], &[]),
        ],
    );
    check_days(
        "Europe/Berlin",
        "2026-10-23T22:00:00Z",
        3,
        &[
            (&[], &["02:15-02:45", "23:30-00:30"]),
            (&["2026-10-25"], &["01:00-03:00", "22:00-24:00"]),
            (&["2026-10-25"], &[]),
        ],
    );
    check_days(
        "Australia/Lord_Howe",
        "2026-04-04T00:00:00Z",
        2,
        &[(&[], &["01:30-01:45", "02:15-03:00"])],
    );
}

#[test]
fn a_day_begins_and_ends_where_the_wall_shows_it() {
    // The clock goes on from midnight to one, and back from one to midnight; a whole day is left out.
    check_days(
        "America/Sao_Paulo",
        "2018-11-03T03:00:00Z",
        3,
        &[(&["2018-11-04"], &["00:00-01:15"]), (&["2018-11-04"], &[]), (&[], &["23:45-00:15"])],
    );
    check_days(
        "America/Santiago",
        "2026-04-04T00:00:00Z",
        3,
        &[(&["2026-04-04"], &["23:15-23:30", "00:00-00:15"]), (&["2026-04-05"], &[])],
    );
    check_days(
        "Pacific/Apia",
        "2011-12-29T00:00:00Z",
        3,
        &[
            (&["2011-12-30"], &[]),
            (&["2011-12-29", "2011-12-31"], &["23:00-01:00"]),
            (&[], &["00:00-00:15"]),
        ],
    );
}

#[test]
fn nothing_is_open_before_the_calendar_begins_or_after_it_ends() {
    let windows: &[&[&str]] = &[
        &[],
        &["00:00-00:15", "23:45-24:00"],
        &["00:00-00:15"],
        &["12:00-12:15"],
        &["18:45-19:15"],
    ];
    for zone in ["UTC", "America/New_York", "Asia/Tokyo"] {
        for windows in windows {
            let case = Case { zone, days: &[], windows };
            check(&case, -DAY, DAY);
            check(&case, END - DAY, END + DAY);
        }
    }
    let edges = Case {
        zone: "UTC",
        days: &["1969-12-31", "1970-01-01", "2239-12-31", "2240-01-01"],
        windows: &[],
    };
    check(&edges, -DAY, 2 * DAY);
    check(&edges, END - 2 * DAY, END + DAY);
    let open = edges.open();
    assert_eq!(open.next(2 * DAY), Some(END - DAY));
    assert_eq!(open.prev(END - 86_400_001), Some(DAY - 1));
    assert_eq!((open.next(i64::MIN), open.prev(i64::MAX)), (Some(0), Some(END - 1)));
    assert_eq!((open.next(END), open.prev(-1)), (None, None));
    assert_eq!(open.stretches(-DAY, END).map(|(from, to)| to - from).sum::<i64>(), 2 * DAY);
}

#[test]
fn a_stretch_is_cut_at_a_change_that_follows_its_begin_at_once() {
    let case = Case { zone: "Europe/Berlin", days: &[], windows: &["01:00-04:00"] };
    let change = instant("2026-03-29T01:00:00Z");
    let found: Vec<_> = case.open().stretches(change - 1, change + DAY).collect();
    let next = (change + 22 * 3_600_000, change + DAY);
    assert_eq!(found, [(change - 1, change), (change, change + 3_600_000), next]);
}

#[test]
fn windows_open_and_shut_on_the_second() {
    let case =
        Case { zone: "UTC", days: &[], windows: &["09:00:10-09:00:20", "09:01:59-09:02:01"] };
    let open = case.open();
    let midnight = instant("2026-05-01T00:00:00Z");
    let ms = |minute: i64, ms: i64| midnight + (9 * 60 + minute) * 60_000 + ms;
    for (at, next, prev) in [
        (ms(0, 9_999), ms(0, 10_000), ms(2, 999) - DAY),
        (ms(0, 10_000), ms(0, 10_000), ms(0, 10_000)),
        (ms(0, 19_999), ms(0, 19_999), ms(0, 19_999)),
        (ms(0, 20_000), ms(1, 59_000), ms(0, 19_999)),
        (ms(2, 999), ms(2, 999), ms(2, 999)),
        (ms(2, 1_000), ms(0, 10_000) + DAY, ms(2, 999)),
    ] {
        assert_eq!((open.next(at), open.prev(at)), (Some(next), Some(prev)), "{at}");
        assert_eq!(open.contains(at), next == at, "{at}");
    }
    let found: Vec<_> = open.stretches(midnight, midnight + DAY).collect();
    assert_eq!(found, [(ms(0, 10_000), ms(0, 20_000)), (ms(1, 59_000), ms(2, 1_000))]);
    let windows = open.windows.unwrap();
    let of_day: Vec<u32> = (0..86_400).filter(|second| windows.contains(*second)).collect();
    let expected: Vec<u32> = (32_410..32_420).chain(32_519..32_521).collect();
    assert_eq!(of_day, expected);
}

#[test]
fn windows_that_make_up_the_day_are_none() {
    let windows = |texts: &[&str]| {
        Windows::of(&texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>())
    };
    assert_eq!(windows(&["00:00-24:00"]), None);
    assert_eq!(windows(&["12:00-18:00", "18:00-12:00"]), None);
    assert!(windows(&["00:00-23:59:59"]).is_some());
    assert!(windows(&["00:00:01-24:00"]).is_some());
    assert_eq!(windows(&["01:00-02:00", "01:30-01:45"]), windows(&["01:00-02:00"]));
    assert_eq!(windows(&["01:00-01:30", "01:30-02:00"]), windows(&["01:00-02:00"]));
    assert_ne!(windows(&["01:00-01:30", "01:30:01-02:00"]), windows(&["01:00-02:00"]));
    assert_eq!(windows(&["22:00-00:00"]), windows(&["22:00-24:00"]));
}
