//! The days of calendars: each rule against its words, and calendars built of each other.

use cronstream_schemas::calendar::Yearly;
use cronstream_schemas::id::Revision;
use cronstream_schemas::time::Timestamp;

use super::*;
use crate::schedule::Day;

fn id(text: &str) -> CalendarId {
    text.parse().unwrap()
}

fn state(name: &str, command: u64, body: Option<&str>) -> Arc<CalendarState> {
    let definition = body.map(|body| CalendarDefinition::decode(body.as_bytes()).unwrap());
    let calendar = id(name);
    Arc::new(CalendarState {
        calendar,
        revision: Revision(command),
        definition,
        command,
        at: Timestamp::MIN,
    })
}

fn calendars(all: &[(&str, &str)]) -> Calendars {
    let mut calendars = Calendars::default();
    for (command, (name, body)) in (1..).zip(all) {
        calendars.apply(&state(name, command, Some(body)));
    }
    calendars
}

fn days_of_year(calendars: &Calendars, name: &str, year: i32) -> Vec<String> {
    let days = calendars.days(&id(name)).unwrap();
    days.iter().filter(|day| day.year() == year).map(|day| day.to_string()).collect()
}

/// The rule read day by day, as its words say.
fn names(rule: &DayRule, day: Day) -> bool {
    let date = day.to_string();
    let weekday = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"][day.weekday() as usize];
    let json = serde_json::to_value(rule).unwrap();
    match rule {
        DayRule::Date(only) => only.to_string() == date,
        DayRule::Range(range) => range.from.to_string() <= date && date <= range.to.to_string(),
        DayRule::Weekly(_) => json["weekly"].as_array().unwrap().iter().any(|name| name == weekday),
        DayRule::Yearly(Yearly::Day(only)) => date.ends_with(&format!("-{only}")),
        DayRule::Yearly(Yearly::Range { from, to }) => {
            let (from, to, of_year) = (from.to_string(), to.to_string(), &date[5..]);
            if from <= to {
                &*from <= of_year && of_year <= &*to
            } else {
                of_year >= &*from || of_year <= &*to
            }
        }
        DayRule::NthWeekday(rule) => {
            if rule.month.is_some_and(|month| u32::from(month) != day.month())
                || json["nth_weekday"]["weekday"] != weekday
            {
                return false;
            }
            let step = if rule.nth > 0 { -7 } else { 7 };
            let same =
                (1..6).filter_map(|n| day.plus(step * n)).filter(|it| it.month() == day.month());
            let same = same.filter(|it| (it.number() - day.number()).abs() < 31);
            same.count() + 1 == usize::from(rule.nth.unsigned_abs())
        }
        DayRule::Easter(days) => {
            // Gauss, which is another way to compute it than the one under test.
            let sunday = day.plus(-i64::from(*days)).filter(|sunday| sunday.weekday() == 0);
            sunday.is_some_and(|sunday| {
                let year = sunday.year();
                let (a, b, c) = (year % 19, year % 4, year % 7);
                let k = year / 100;
                let m = (15 - (13 + 8 * k) / 25 + k - k / 4).rem_euclid(30);
                let n = (4 + k - k / 4).rem_euclid(7);
                let d = (19 * a + m) % 30;
                let e = (2 * b + 4 * c + 6 * d + n) % 7;
                let mut march = 22 + d + e;
                if (d == 29 && e == 6) || (d == 28 && e == 6 && (11 * m + 11) % 30 < 19) {
                    march -= 7;
                }
                let (month, date) = if march > 31 { (4, march - 31) } else { (3, march) };
                (sunday.month(), sunday.day()) == (month, date as u32)
            })
        }
        DayRule::Calendar(_) => unreachable!("not among the rules of this test"),
    }
}

#[test]
fn every_rule_names_the_days_that_its_words_name_from_1970_to_2239() {
    let rules = [
        r#"{"date":"2000-02-29"}"#,
        r#"{"date":"1970-01-01"}"#,
        r#"{"date":"2239-12-31"}"#,
        r#"{"range":{"from":"2027-12-24","to":"2028-01-02"}}"#,
        r#"{"range":{"from":"1970-01-01","to":"2239-12-31"}}"#,
        r#"{"weekly":["SAT","SUN"]}"#,
        r#"{"yearly":"12-25"}"#,
        r#"{"yearly":"02-29"}"#,
        r#"{"yearly":{"from":"12-24","to":"01-06"}}"#,
        r#"{"yearly":{"from":"02-20","to":"03-05"}}"#,
        r#"{"nth_weekday":{"month":11,"weekday":"THU","nth":4}}"#,
        r#"{"nth_weekday":{"month":5,"weekday":"MON","nth":-1}}"#,
        r#"{"nth_weekday":{"weekday":"FRI","nth":5}}"#,
        r#"{"nth_weekday":{"month":2,"weekday":"SUN","nth":-5}}"#,
        r#"{"easter":0}"#,
        r#"{"easter":-2}"#,
        r#"{"easter":100}"#,
        r#"{"easter":-100}"#,
    ];
    let days: Vec<Day> = Day::FIRST.through(Day::LAST).collect();
    let days = &days[2..days.len() - 3];
    let mut any = DaySet::none();
    for text in rules {
        let known = calendars(&[("a/it", &format!(r#"{{"include":[{text}]}}"#))]);
        let compiled = known.days(&id("a/it")).unwrap();
        let definition = known.get(&id("a/it")).unwrap().definition.clone().unwrap();
        let rule = definition.rules().next().unwrap();
        for day in days {
            assert_eq!(compiled.contains(*day), names(rule, *day), "{text} on {day}");
        }
        any = any.union(&compiled);
    }
    let known = calendars(&[("a/it", &format!(r#"{{"include":[{}]}}"#, rules.join(",")))]);
    assert_eq!(*known.days(&id("a/it")).unwrap(), any);
    let known = calendars(&[("a/it", &format!(r#"{{"exclude":[{}]}}"#, rules.join(",")))]);
    assert_eq!(*known.days(&id("a/it")).unwrap(), DaySet::all().difference(&any));
}

#[test]
fn easter_is_where_the_almanac_has_it() {
    let known = calendars(&[("a/easter", r#"{"include":[{"easter":0}]}"#)]);
    let days = known.days(&id("a/easter")).unwrap();
    for text in [
        "1970-03-29",
        "1981-04-19",
        "2000-04-23",
        "2008-03-23",
        "2026-04-05",
        "2027-03-28",
        "2038-04-25",
        "2049-04-18",
        "2076-04-19",
        "2100-03-28",
        "2199-04-14",
    ] {
        let sunday = Day::parse(text).unwrap();
        let of_year = days.iter().find(|day| day.year() == sunday.year());
        assert_eq!(of_year, Some(sunday));
    }
}

/// The holidays of the New York Stock Exchange for 2027, by rules: those of a Saturday or Sunday are observed on
/// the Friday before or the Monday after, which rules on a date cannot say, so they stand as dates.
#[test]
fn the_stock_exchange_of_2027_is_open_on_251_days() {
    let holidays = r#"{"include":[
        {"date":"2027-01-01"},
        {"nth_weekday":{"month":1,"weekday":"MON","nth":3}},
        {"nth_weekday":{"month":2,"weekday":"MON","nth":3}},
        {"easter":-2},
        {"nth_weekday":{"month":5,"weekday":"MON","nth":-1}},
        {"date":"2027-06-18"},
        {"date":"2027-07-05"},
        {"nth_weekday":{"month":9,"weekday":"MON","nth":1}},
        {"nth_weekday":{"month":11,"weekday":"THU","nth":4}},
        {"date":"2027-12-24"}]}"#;
    let trading = r#"{"exclude":[{"weekly":["SAT","SUN"]},{"calendar":"nyse/holidays"}]}"#;
    let known = calendars(&[("nyse/holidays", holidays), ("nyse/trading", trading)]);
    assert_eq!(
        days_of_year(&known, "nyse/holidays", 2027),
        [
            "2027-01-01",
            "2027-01-18",
            "2027-02-15",
            "2027-03-26",
            "2027-05-31",
            "2027-06-18",
            "2027-07-05",
            "2027-09-06",
            "2027-11-25",
            "2027-12-24"
        ]
    );
    assert_eq!(days_of_year(&known, "nyse/trading", 2027).len(), 251);
}

#[test]
fn a_replaced_part_changes_every_calendar_built_of_it_and_no_other() {
    let mut known = calendars(&[
        ("a/base", r#"{"include":[{"date":"2027-01-01"}]}"#),
        ("a/middle", r#"{"include":[{"calendar":"a/base"},{"date":"2027-01-02"}]}"#),
        ("a/top", r#"{"exclude":[{"calendar":"a/middle"}]}"#),
        ("a/other", r#"{"include":[{"date":"2027-01-01"}]}"#),
    ]);
    let (other, top) = (known.days(&id("a/other")).unwrap(), known.days(&id("a/top")).unwrap());
    let before = known.clone();
    let body = r#"{"include":[{"date":"2027-03-03"}]}"#;
    let touched = known.apply(&state("a/base", 9, Some(body)));
    assert_eq!(touched, [id("a/base"), id("a/middle"), id("a/top")].into());
    assert_eq!(days_of_year(&known, "a/middle", 2027), ["2027-01-02", "2027-03-03"]);
    assert!(!known.days(&id("a/top")).unwrap().contains(Day::parse("2027-03-03").unwrap()));
    assert!(Arc::ptr_eq(&other, &known.days(&id("a/other")).unwrap()), "compiled once");
    assert!(Arc::ptr_eq(&top, &before.days(&id("a/top")).unwrap()), "the clone is as it was");
    assert!(known.apply(&state("a/base", 5, None)).is_empty(), "an older state changes nothing");
    assert_eq!(days_of_year(&known, "a/middle", 2027), ["2027-01-02", "2027-03-03"]);
}

#[test]
fn a_job_has_the_days_of_each_that_it_names_without_those_it_excepts() {
    let known = calendars(&[
        ("a/weekdays", r#"{"exclude":[{"weekly":["SAT","SUN"]}]}"#),
        ("a/first", r#"{"include":[{"nth_weekday":{"weekday":"MON","nth":1}}]}"#),
        ("a/labour", r#"{"include":[{"nth_weekday":{"month":9,"weekday":"MON","nth":1}}]}"#),
    ]);
    let wanted = |only: &[&str], except: &[&str]| CalendarUse {
        only: only.iter().map(|text| id(text)).collect(),
        except: except.iter().map(|text| id(text)).collect(),
        shift: None,
    };
    let days = known.working(&wanted(&["a/weekdays", "a/first"], &["a/labour"])).unwrap();
    let of_year: Vec<Day> = days.iter().filter(|day| day.year() == 2027).collect();
    assert_eq!(of_year.len(), 11);
    assert!(of_year.iter().all(|day| day.weekday() == 1 && day.day() <= 7 && day.month() != 9));
    let again = known.working(&wanted(&["a/weekdays", "a/first"], &["a/labour"])).unwrap();
    assert!(Arc::ptr_eq(&days, &again), "one set for all jobs of the same calendars");
    assert_eq!(*known.working(&wanted(&[], &[])).unwrap(), DaySet::all());
    let missing = known.working(&wanted(&["a/first", "a/gone"], &["a/none"]));
    assert_eq!(missing, Err(id("a/gone")));
}

#[test]
fn a_calendar_whose_part_is_gone_has_no_days_until_it_is_back() {
    let mut known = calendars(&[
        ("a/base", r#"{"include":[{"date":"2027-01-01"}]}"#),
        ("a/top", r#"{"include":[{"calendar":"a/base"}]}"#),
    ]);
    assert!(known.days(&id("a/top")).is_some());
    assert_eq!(known.apply(&state("a/base", 7, None)), [id("a/base"), id("a/top")].into());
    assert!(known.get(&id("a/base")).is_none() && known.days(&id("a/top")).is_none());
    let wanted = CalendarUse { only: vec![id("a/top")], ..CalendarUse::default() };
    assert_eq!(known.working(&wanted), Err(id("a/base")), "what is missing is named");
    known.apply(&state("a/base", 8, Some(r#"{"include":[{"date":"2027-02-02"}]}"#)));
    assert_eq!(days_of_year(&known, "a/top", 2027), ["2027-02-02"]);
}

#[test]
fn unknown_parts_cycles_and_deep_chains_are_refused() {
    let refused = |known: &Calendars, name: &str, body: &str| {
        let definition = CalendarDefinition::decode(body.as_bytes()).unwrap();
        let faults = known.check(&id(name), &definition).err().unwrap_or_default();
        faults
            .into_iter()
            .map(|fault| format!("{} {}", fault.path, fault.problem))
            .collect::<Vec<_>>()
    };
    let mut known = calendars(&[("a/c1", r#"{"include":[{"easter":0}]}"#)]);
    for n in 2..=8 {
        let body = format!(r#"{{"include":[{{"calendar":"a/c{}"}}]}}"#, n - 1);
        assert_eq!(refused(&known, &format!("a/c{n}"), &body), [""; 0]);
        known.apply(&state(&format!("a/c{n}"), n, Some(&body)));
    }
    let deep = "$ calendars would be built of each other 9 deep";
    assert_eq!(refused(&known, "a/c9", r#"{"include":[{"calendar":"a/c8"}]}"#), [deep]);
    known.apply(&state("b/leaf", 20, Some(r#"{"include":[{"easter":0}]}"#)));
    assert_eq!(refused(&known, "a/c1", r#"{"include":[{"calendar":"b/leaf"}]}"#), [deep]);
    let cycle = "is built of this calendar: a cycle";
    assert_eq!(
        refused(
            &known,
            "a/c1",
            r#"{"exclude":[{"easter":1},{"calendar":"a/c8"},{"calendar":"a/c1"}]}"#
        ),
        [format!("$.exclude[1].calendar {cycle}"), format!("$.exclude[2].calendar {cycle}")]
    );
    assert_eq!(
        refused(
            &known,
            "a/new",
            r#"{"include":[{"calendar":"a/none"}],"exclude":[{"calendar":"a/new"}]}"#
        ),
        ["$.include[0].calendar no such calendar".into(), format!("$.exclude[0].calendar {cycle}")]
    );
}

/// Two owners may accept two halves of a cycle at the same instant.
#[test]
fn a_cycle_that_came_by_a_race_has_no_days_and_does_not_hang() {
    let known = calendars(&[
        ("a/one", r#"{"include":[{"calendar":"a/two"}]}"#),
        ("a/two", r#"{"include":[{"calendar":"a/one"}]}"#),
    ]);
    assert!(known.days(&id("a/one")).is_none() && known.days(&id("a/two")).is_none());
    assert_eq!(known.built_of(&id("a/one")), [id("a/one"), id("a/two")].into());
    let definition = CalendarDefinition::decode(br#"{"include":[{"calendar":"a/one"}]}"#).unwrap();
    assert!(known.check(&id("a/three"), &definition).is_err());
}

#[test]
fn the_largest_calendar_is_compiled_without_walking_its_rules_day_by_day() {
    let rule = r#"{"range":{"from":"1970-01-01","to":"2239-12-31"}},{"nth_weekday":{"weekday":"MON","nth":1}}"#;
    let body = format!(r#"{{"include":[{}]}}"#, vec![rule; 1_000].join(","));
    let known = calendars(&[("a/it", &body)]);
    assert_eq!(known.days(&id("a/it")).unwrap().iter().count(), 98_615);
}

#[test]
fn a_clone_keeps_the_days_of_the_states_that_it_has() {
    let mut newer = calendars(&[
        ("a/x", r#"{"include":[{"date":"2027-01-01"}]}"#),
        ("a/y", r#"{"include":[{"date":"2027-02-01"}]}"#),
    ]);
    let used = CalendarUse { only: vec![id("a/x"), id("a/y")], except: Vec::new(), shift: None };
    let before = (newer.days(&id("a/x")).unwrap(), newer.working(&used).unwrap());
    let older = newer.clone();
    newer.apply(&state("a/x", 3, Some(r#"{"include":[{"date":"2027-02-01"}]}"#)));
    assert!(Arc::ptr_eq(&older.days(&id("a/x")).unwrap(), &before.0));
    assert!(Arc::ptr_eq(&older.working(&used).unwrap(), &before.1));
    assert_eq!(newer.working(&used).unwrap().iter().count(), 1);
    // What is not built of it is not compiled again.
    assert!(Arc::ptr_eq(&older.days(&id("a/y")).unwrap(), &newer.days(&id("a/y")).unwrap()));
}

#[test]
fn uses_that_no_plan_has_any_more_are_dropped_when_as_many_have_been_added_as_were_left() {
    let body = r#"{"include":[{"weekly":["SAT"]}]}"#;
    let names: Vec<String> = (0..200).map(|n| format!("a/c{n}")).collect();
    let calendars = calendars(&names.iter().map(|name| (&**name, body)).collect::<Vec<_>>());
    let mut others = names.iter();
    let mut used = || {
        let except = vec![id(others.next().unwrap())];
        calendars.working(&CalendarUse { only: Vec::new(), except, shift: None }).unwrap()
    };
    let known = || calendars.compiled().uses.len();
    for n in 1..=USES_MIN {
        used();
        assert_eq!(known(), n);
    }
    used();
    assert_eq!(known(), 1);
    let held: Vec<_> = (0..40).map(|_| used()).collect();
    (held.len() + 1..USES_MIN).for_each(|_| drop(used()));
    assert_eq!(known(), USES_MIN);
    for n in held.len() + 1..=2 * held.len() {
        used();
        assert_eq!(known(), n);
    }
    used();
    assert_eq!(known(), held.len() + 1);
}

#[test]
fn what_no_calendar_names_any_more_has_no_place() {
    let built = r#"{"include":[{"calendar":"a/x"}],"exclude":[{"calendar":"a/y"}]}"#;
    let mut known = calendars(&[("a/it", built)]);
    assert_eq!(known.users.len(), 2);
    known.apply(&state("a/it", 2, Some(r#"{"include":[{"calendar":"a/y"}]}"#)));
    assert!(known.users.keys().eq([&id("a/y")]));
    known.apply(&state("a/it", 3, None));
    assert!(known.users.is_empty());
}
