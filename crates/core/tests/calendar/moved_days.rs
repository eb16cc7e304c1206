//! Slots of days off, moved to the next or the previous working day: over months, over years and at both ends of the
//! calendar. The oracle goes from day to day by jiff's civil calendar.

use std::collections::BTreeSet;

use cronstream_core::schedule::{Cron, Day, DaySet, Rules, Slots, Zone};
use cronstream_schemas::definition::Shift;
use jiff::civil::{Date, date};

fn days(from: Date, to: Date) -> impl Iterator<Item = Date> {
    std::iter::successors(Some(from), |day| day.tomorrow().ok()).take_while(move |day| *day <= to)
}

/// The slots at 09:00 UTC are on the days that each due day goes to, where these days of `from..=to` are working days
/// and no others. Of the years beside them those count from which something may wait.
#[track_caller]
fn check(
    expr: &str,
    due: impl Fn(Date) -> bool,
    working: impl Fn(Date) -> bool,
    (from, to): (Date, Date),
) {
    let number = |day: Date| Day::new(day.year().into(), day.month() as u32, day.day() as u32);
    let working: Vec<Date> = days(from, to).filter(|day| working(*day)).collect();
    let set: DaySet = working.iter().filter_map(|day| number(*day)).collect();
    let cron = Cron::parse(&format!("0 9 {expr}")).unwrap();
    let years = |by: i32| jiff::Span::new().years(by);
    let (first, last) =
        ((from - years(4)).max(date(1969, 12, 30)), (to + years(4)).min(date(2240, 1, 3)));
    for shift in [Shift::Next, Shift::Previous] {
        let moved = |day: Date| match shift {
            Shift::Next => working.get(working.partition_point(|other| *other < day)),
            Shift::Previous => working[..working.partition_point(|other| *other <= day)].last(),
        };
        let expected: BTreeSet<i64> = days(first, last)
            .filter(|day| due(*day))
            .filter_map(moved)
            .map(|day| number(*day).unwrap().number() * 86_400_000 + 9 * 3_600_000)
            .filter(|at| (0..8_520_336_000_000).contains(at))
            .collect();
        let slots = Slots {
            cron: &cron,
            zone: Zone::UTC,
            rules: Rules::default(),
            days: Some(&set),
            shift: Some(shift),
        };
        let found = std::iter::successors(slots.next(-1), |at| slots.next(*at));
        assert!(found.eq(expected.iter().copied()), "{expr} {shift:?}: {expected:?}");
        let back = std::iter::successors(slots.prev(i64::MAX), |at| slots.prev(*at));
        assert!(back.eq(expected.iter().rev().copied()), "{expr} {shift:?}: {expected:?}");
        assert_eq!(slots.count(-1, i64::MAX), expected.len() as u64, "{expr} {shift:?}");
    }
}

type OnDay = fn(Date) -> bool;

const DUE: [(&str, OnDay); 6] = [
    ("15 * *", |day| day.day() == 15),
    ("L * *", |day| day == day.last_of_month()),
    ("1 * *", |day| day.day() == 1),
    ("12,31 1,7 *", |day| day.month() % 6 == 1 && (day.day() == 12 || day.day() == 31)),
    ("29 2 *", |day| day.month() == 2 && day.day() == 29),
    ("* * *", |_| true),
];

#[test]
fn due_days_wait_through_days_off_over_the_ends_of_months() {
    let working: [OnDay; 5] = [
        |day| day.day() == 1,
        |day| day.weekday().to_monday_one_offset() <= 5,
        |day| day.month() % 3 == 2 && (day.day() == 10 || day.day() == 20),
        |day| day.month() == 6 && day.day() == 15,
        |day| day.day() == 1 || day == day.last_of_month(),
    ];
    for (expr, due) in DUE {
        for working in working {
            check(expr, due, working, (date(2026, 1, 1), date(2028, 12, 31)));
        }
    }
}

#[test]
fn what_waits_at_the_ends_of_the_calendar_goes_no_further() {
    for (expr, due) in DUE {
        for (from, to) in [
            (date(1969, 12, 30), date(1970, 3, 1)),
            (date(1970, 2, 10), date(1970, 2, 11)),
            (date(2239, 11, 3), date(2240, 1, 3)),
            (date(2239, 10, 10), date(2239, 10, 11)),
        ] {
            check(expr, due, |day| day.day() % 10 == 0, (from, to));
        }
    }
}
