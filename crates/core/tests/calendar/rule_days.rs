//! The days of each rule of a named calendar, in years of every shape. The oracle is jiff's civil calendar, asked day
//! by day; that of Easter is Knuth's algorithm, in all years.

use std::collections::BTreeSet;
use std::sync::Arc;

use cronstream_core::calendar::Calendars;
use cronstream_core::schedule::{Day, DaySet};
use cronstream_schemas::calendar::CalendarDefinition;
use cronstream_schemas::event::CalendarState;
use cronstream_schemas::id::Revision;
use cronstream_schemas::time::Timestamp;
use jiff::civil::{Date, Weekday, date};

/// The years that begin on each weekday, with and without a leap day, and the ends of the calendar and of centuries.
const YEARS: [i16; 10] = [1970, 2000, 2024, 2025, 2026, 2027, 2028, 2100, 2238, 2239];

/// The days of the calendar that has these rules.
fn days_of(rules: &str) -> Arc<DaySet> {
    let mut known = Calendars::default();
    let body = format!(r#"{{"include":[{rules}]}}"#);
    known.apply(&Arc::new(CalendarState {
        calendar: "a/it".parse().unwrap(),
        revision: Revision(1),
        definition: Some(CalendarDefinition::decode(body.as_bytes()).unwrap()),
        command: 1,
        at: Timestamp::MIN,
    }));
    known.days(&"a/it".parse().unwrap()).unwrap()
}

/// The day of the calendar, if it has this one.
fn day(date: Date) -> Option<Day> {
    Day::new(date.year().into(), date.month() as u32, date.day() as u32)
}

/// The days of `rules` are those that `named` says, in each of [`YEARS`].
#[track_caller]
fn check(rules: &str, named: impl Fn(Date) -> bool) {
    let days = days_of(rules);
    for year in YEARS {
        for at in
            date(year, 1, 1).series(jiff::Span::new().days(1)).take_while(|at| at.year() == year)
        {
            assert_eq!(days.contains(day(at).unwrap()), named(at), "{rules} on {at}");
        }
    }
}

#[test]
fn weekly_rules_name_their_weekdays() {
    check(r#"{"weekly":["SUN"]}"#, |at| at.weekday() == Weekday::Sunday);
    check(r#"{"weekly":["WED","SAT"]},{"weekly":["WED"]}"#, |at| {
        matches!(at.weekday(), Weekday::Wednesday | Weekday::Saturday)
    });
}

#[test]
fn yearly_rules_name_dates_of_every_year_and_stretches_over_its_end() {
    let of_year = |at: Date| (at.month(), at.day());
    check(r#"{"yearly":"01-01"}"#, |at| of_year(at) == (1, 1));
    check(r#"{"yearly":"12-31"},{"yearly":"02-29"}"#, |at| {
        [(12, 31), (2, 29)].contains(&of_year(at))
    });
    check(r#"{"yearly":{"from":"02-27","to":"03-02"}}"#, |at| {
        [(2, 27), (2, 28), (2, 29), (3, 1), (3, 2)].contains(&of_year(at))
    });
    check(r#"{"yearly":{"from":"12-30","to":"01-02"}}"#, |at| {
        [(12, 30), (12, 31), (1, 1), (1, 2)].contains(&of_year(at))
    });
    check(r#"{"yearly":{"from":"06-15","to":"06-15"}}"#, |at| of_year(at) == (6, 15));
    let firsts: Vec<String> =
        (1..=12).map(|month| format!(r#"{{"yearly":"{month:02}-01"}}"#)).collect();
    check(&firsts.join(","), |at| at.day() == 1);
    // Over the end of the year, and with no day left out.
    check(r#"{"yearly":{"from":"07-02","to":"07-01"}}"#, |_| true);
}

#[test]
fn weekdays_are_counted_from_both_ends_of_a_month() {
    let weekdays = [
        ("SUN", Weekday::Sunday),
        ("MON", Weekday::Monday),
        ("TUE", Weekday::Tuesday),
        ("WED", Weekday::Wednesday),
        ("THU", Weekday::Thursday),
        ("FRI", Weekday::Friday),
        ("SAT", Weekday::Saturday),
    ];
    let first =
        weekdays.map(|(name, _)| format!(r#"{{"nth_weekday":{{"weekday":"{name}","nth":1}}}}"#));
    check(&first.join(","), |at| at.day() <= 7);
    for (place, nth) in (-5_i8..=5).filter(|nth| *nth != 0).enumerate() {
        let (name, weekday) = weekdays[place % 7];
        let is_it = |at: Date| at.nth_weekday_of_month(nth, weekday).is_ok_and(|it| it == at);
        check(&format!(r#"{{"nth_weekday":{{"weekday":"{name}","nth":{nth}}}}}"#), is_it);
        let month = [2, 1, 12][place % 3];
        let (name, weekday) = weekdays[(place + 3) % 7];
        let is_it = |at: Date| {
            at.month() == month && at.nth_weekday_of_month(nth, weekday).is_ok_and(|it| it == at)
        };
        check(
            &format!(r#"{{"nth_weekday":{{"month":{month},"weekday":"{name}","nth":{nth}}}}}"#),
            is_it,
        );
    }
}

#[test]
fn dates_and_ranges_name_their_days_in_whatever_order_and_overlap() {
    let within = |at: Date, from: (i16, i8, i8), to: (i16, i8, i8)| {
        (date(from.0, from.1, from.2)..=date(to.0, to.1, to.2)).contains(&at)
    };
    check(r#"{"date":"1970-01-01"},{"date":"2239-12-31"},{"date":"2000-02-29"}"#, |at| {
        [date(1970, 1, 1), date(2239, 12, 31), date(2000, 2, 29)].contains(&at)
    });
    check(
        r#"{"range":{"from":"2026-03-01","to":"2026-03-09"}},
           {"range":{"from":"2025-12-30","to":"2026-01-02"}},
           {"range":{"from":"2026-03-05","to":"2026-03-06"}},
           {"range":{"from":"2026-03-08","to":"2026-03-12"}},
           {"date":"2026-03-20"},{"range":{"from":"2026-03-09","to":"2026-03-09"}}"#,
        |at| {
            within(at, (2025, 12, 30), (2026, 1, 2))
                || within(at, (2026, 3, 1), (2026, 3, 12))
                || at == date(2026, 3, 20)
        },
    );
}

#[test]
fn rules_of_every_kind_stand_beside_each_other() {
    let all = [
        r#"{"weekly":["TUE"]}"#,
        r#"{"yearly":"12-25"}"#,
        r#"{"nth_weekday":{"month":2,"weekday":"SUN","nth":-1}}"#,
        r#"{"date":"2026-07-01"}"#,
        r#"{"easter":1}"#,
    ];
    let whole = days_of(&all.join(","));
    let union = all.iter().fold(DaySet::none(), |days, rule| days.union(&days_of(rule)));
    assert!(*whole == union, "{whole:?} is not {union:?}");
    for rule in all {
        assert!(!days_of(rule).is_empty() && *days_of(rule) != union, "{rule}");
    }
}

/// Knuth, The Art of Computer Programming 1.3.2, exercise 14: another way than the one under test.
fn easter(year: i32) -> Date {
    let golden = year % 19 + 1;
    let century = year / 100 + 1;
    let leap_days_left_out = 3 * century / 4 - 12;
    let moon = (8 * century + 5) / 25 - 5;
    let sunday = 5 * year / 4 - leap_days_left_out - 10;
    let mut epact = (11 * golden + 20 + moon - leap_days_left_out).rem_euclid(30);
    if epact == 25 && golden > 11 || epact == 24 {
        epact += 1;
    }
    let mut march = 44 - epact;
    if march < 21 {
        march += 30;
    }
    march += 7 - (sunday + march) % 7;
    date(year as i16, 3, 1) + jiff::Span::new().days(march - 1)
}

#[test]
fn easter_and_the_days_that_hang_on_it_are_right_in_every_year() {
    let all: &[&[i64]] = &[&[-100], &[-99], &[0], &[99], &[100], &[-2, 1, -2]];
    for offsets in all {
        let rules: Vec<String> =
            offsets.iter().map(|days| format!(r#"{{"easter":{days}}}"#)).collect();
        let named: BTreeSet<Day> = (1970..=2239)
            .flat_map(|year| {
                offsets.iter().map(move |days| easter(year) + jiff::Span::new().days(*days))
            })
            .filter_map(day)
            .collect();
        assert!(days_of(&rules.join(",")).iter().eq(named), "{offsets:?} days from Easter");
    }
}
