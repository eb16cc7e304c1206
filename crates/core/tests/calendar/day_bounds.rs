//! The days of the calendar at its ends, and what is no day.

use cronstream_core::schedule::{Day, DaySet};

fn day(text: &str) -> Day {
    Day::parse(text).unwrap()
}

#[test]
fn numbers_that_are_no_day_are_refused_however_large() {
    for (year, month, date) in [
        (i32::MIN, 1, 1),
        (i32::MAX, 1, 1),
        (1968, 12, 31),
        (1969, 12, 29),
        (2240, 1, 4),
        (2241, 1, 1),
        (2026, 0, 1),
        (2026, 13, 1),
        (2026, u32::MAX, 1),
        (2026, 1, 0),
        (2026, 1, 32),
        (2026, 1, u32::MAX),
        (2026, 2, 29),
        // A year's length on is the same month again.
        (2025, 1, 366),
        (i32::MAX, 0, 0),
        (i32::MAX, 13, 1),
        (2026, u32::MAX, u32::MAX),
    ] {
        assert_eq!(Day::new(year, month, date), None, "{year}-{month}-{date}");
    }
    assert_eq!(Day::new(1969, 12, 30), Some(Day::FIRST));
    assert_eq!(Day::new(2240, 1, 3), Some(Day::LAST));
    assert_eq!(Day::new(2028, 2, 29), Some(day("2028-02-29")));
}

#[test]
fn a_day_is_written_in_ten_letters() {
    for text in ["2026-01-011", "2026-01-1", "2026-01-", "2026/01/01", "2026-01+01", ""] {
        assert_eq!(Day::parse(text).unwrap_err().hint, "write `2027-01-31`", "{text}");
    }
}

#[test]
fn weekdays_follow_each_other_from_sunday() {
    for (first, weekday) in [("1970-01-01", 4), ("2026-11-29", 0), ("2239-12-31", 2)] {
        let first = day(first);
        for (later, expected) in (weekday..weekday + 3).map(|found| found % 7).enumerate() {
            assert_eq!(first.plus(later as i64).map(Day::weekday), Some(expected), "{first}");
        }
    }
}

#[test]
fn a_set_has_the_days_put_in_it_and_no_other() {
    let (first, leap, last) = (day("1970-01-01"), day("2028-02-29"), day("2239-12-31"));
    let mut set: DaySet = [first, leap, last].into_iter().collect();
    let has = |set: &DaySet| {
        let near = [first, leap, last]
            .map(|day| [-1, 0, 1].map(|days| day.plus(days).is_some_and(|day| set.contains(day))));
        near.map(|around| around == [false, true, false])
    };
    assert_eq!(has(&set), [true; 3]);
    assert_eq!(set.iter().collect::<Vec<_>>(), [first, leap, last]);
    assert!(!set.insert(leap) && set.remove(leap) && !set.remove(leap) && !set.contains(leap));
    assert_eq!(set.next_in(first), Some(first));
    assert_eq!(first.plus(1).and_then(|day| set.next_in(day)), Some(last));
    assert_eq!(last.plus(-1).and_then(|day| set.prev_in(day)), Some(first));
    assert_eq!(first.plus(-1).and_then(|day| set.prev_in(day)), None);
    assert_eq!(last.plus(1).and_then(|day| set.next_in(day)), None);
    assert!(DaySet::none().is_empty() && !DaySet::all().is_empty() && !set.is_empty());
    assert!(DaySet::all().contains(Day::FIRST) && DaySet::all().contains(Day::LAST));
}

#[test]
fn the_first_and_the_last_day_bound_every_set() {
    let all = DaySet::all();
    assert_eq!(all.iter().count() as i64, Day::LAST.number() - Day::FIRST.number() + 1);
    let june: DaySet = all.iter().filter(|day| day.month() == 6).collect();
    assert_eq!(june.iter().next(), Some(day("1970-06-01")));
    assert_eq!(june.prev_in(Day::LAST), Some(day("2239-06-30")));
    assert_eq!(june.iter().count(), 270 * 30);
}
