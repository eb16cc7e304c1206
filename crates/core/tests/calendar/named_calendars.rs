//! Named calendars built of each other: who is touched by a state, how deep and how many they may be.

use std::collections::BTreeSet;
use std::sync::Arc;

use cronstream_core::calendar::{CALENDARS_KNOWN_MAX, Calendars};
use cronstream_core::schedule::DaySet;
use cronstream_schemas::calendar::{CalendarDefinition, CalendarId, DEPTH_MAX};
use cronstream_schemas::definition::CalendarUse;
use cronstream_schemas::event::CalendarState;
use cronstream_schemas::id::Revision;
use cronstream_schemas::time::Timestamp;

const LEAF: &str = r#"{"include":[{"weekly":["SAT"]}]}"#;

fn id(text: &str) -> CalendarId {
    text.parse().unwrap()
}

fn definition(body: &str) -> CalendarDefinition {
    CalendarDefinition::decode(body.as_bytes()).unwrap()
}

fn state(name: &str, command: u64, definition: Option<CalendarDefinition>) -> Arc<CalendarState> {
    let (calendar, revision, at) = (id(name), Revision(command), Timestamp::MIN);
    Arc::new(CalendarState { calendar, revision, definition, command, at })
}

/// A calendar built of those named.
fn built_of(parts: &[&str]) -> String {
    let parts = parts.iter().map(|part| format!(r#"{{"calendar":"{part}"}}"#));
    format!(r#"{{"include":[{}]}}"#, parts.collect::<Vec<_>>().join(","))
}

fn put(known: &mut Calendars, name: &str, command: u64, body: &str) -> BTreeSet<CalendarId> {
    known.apply(&state(name, command, Some(definition(body))))
}

fn problems(known: &Calendars, name: &str, body: &str) -> Vec<String> {
    let Err(faults) = known.check(&id(name), &definition(body)) else { return Vec::new() };
    assert!(!faults.is_empty(), "{name} is refused without a fault");
    faults.into_iter().map(|fault| fault.problem).collect()
}

#[test]
fn a_state_counts_once_and_never_after_a_newer_one() {
    let mut known = Calendars::default();
    assert_eq!(put(&mut known, "a/x", 5, LEAF), [id("a/x")].into());
    for older in [4, 5] {
        assert!(put(&mut known, "a/x", older, &built_of(&["a/y"])).is_empty(), "{older}");
        assert!(known.apply(&state("a/x", older, None)).is_empty(), "{older}");
        assert_eq!(known.get(&id("a/x")).unwrap().definition, Some(definition(LEAF)));
    }
    assert_eq!(known.apply(&state("a/x", 6, None)), [id("a/x")].into());
    assert_eq!((known.get(&id("a/x")), known.iter().count()), (None, 0));
}

#[test]
fn a_calendar_is_used_by_those_whose_present_definition_names_it() {
    let mut known = Calendars::default();
    let users = |known: &Calendars, name: &str| -> Vec<String> {
        known.users(&id(name)).map(ToString::to_string).collect()
    };
    put(&mut known, "a/x", 1, LEAF);
    put(&mut known, "a/y", 2, LEAF);
    put(&mut known, "b/one", 3, &built_of(&["a/x", "a/y"]));
    put(&mut known, "b/two", 4, &built_of(&["a/x"]));
    assert_eq!(users(&known, "a/x"), ["b/one", "b/two"]);
    assert_eq!(users(&known, "a/y"), ["b/one"]);
    put(&mut known, "b/one", 5, &built_of(&["a/y"]));
    assert_eq!(
        (users(&known, "a/x"), users(&known, "a/y")),
        (vec!["b/two".into()], vec!["b/one".into()])
    );
    known.apply(&state("b/two", 6, None));
    assert_eq!(users(&known, "a/x"), [""; 0]);
    // What nothing uses any more touches nothing but itself.
    assert_eq!(put(&mut known, "a/x", 7, LEAF), [id("a/x")].into());
    assert_eq!(put(&mut known, "a/y", 8, LEAF), [id("a/y"), id("b/one")].into());
    assert_eq!(known.built_of(&id("a/y")), [id("a/y"), id("b/one")].into());
}

#[test]
fn a_chain_is_as_long_as_the_longest_way_through_it() {
    // c1 is built of nothing, each next one of the one before and of c1.
    let mut known = Calendars::default();
    put(&mut known, "a/c1", 1, LEAF);
    put(&mut known, "b/leaf", 2, LEAF);
    for n in 2..=DEPTH_MAX {
        let name = format!("a/c{n}");
        let body = built_of(&["a/c1", &format!("a/c{}", n - 1), "b/leaf"]);
        assert_eq!(problems(&known, &name, &body), [""; 0], "{n} deep");
        put(&mut known, &name, 10 + n as u64, &body);
    }
    let deep = format!("calendars would be built of each other {} deep", DEPTH_MAX + 1);
    let top = format!("a/c{DEPTH_MAX}");
    assert_eq!(problems(&known, "a/more", &built_of(&["b/leaf", &top])), [&*deep]);
    assert_eq!(problems(&known, "a/more", &built_of(&[&top, "b/leaf"])), [&*deep]);
    assert_eq!(problems(&known, "a/more", &built_of(&["b/leaf"])), [""; 0]);
    // Below what is built of it counts as well: c1 of one more, c2 of two more.
    assert_eq!(problems(&known, "a/c1", &built_of(&["b/leaf"])), [&*deep]);
    assert_eq!(problems(&known, "a/c2", &built_of(&["b/leaf", "a/c1"])), [""; 0]);
    put(&mut known, "b/top", 100, &built_of(&["b/leaf"]));
    assert_eq!(problems(&known, "a/c2", &built_of(&["b/top"])), [&*deep]);
    assert_eq!(problems(&known, "a/c3", &built_of(&["b/top"])), [""; 0]);
    assert_eq!(problems(&known, "a/c1", LEAF), [""; 0]);
}

/// What no command would be accepted for may come by a race of several.
#[test]
fn a_cycle_and_a_chain_of_any_length_are_as_long_as_it_gets() {
    let mut known = Calendars::default();
    put(&mut known, "r/one", 1, &built_of(&["r/two"]));
    put(&mut known, "r/two", 2, &built_of(&["r/one"]));
    put(&mut known, "r/self", 3, &built_of(&["r/self"]));
    put(&mut known, "l/c1", 4, LEAF);
    let length = CALENDARS_KNOWN_MAX - 10;
    for n in 2..=length as u64 {
        put(&mut known, &format!("l/c{n}"), 4 + n, &built_of(&[&format!("l/c{}", n - 1)]));
    }
    let deep = |by: usize| vec![format!("calendars would be built of each other {by} deep")];
    for (part, expected) in [
        ("l/c7", Vec::new()),
        ("l/c8", deep(DEPTH_MAX + 1)),
        ("l/c9", deep(DEPTH_MAX + 2)),
        ("l/c10", deep(DEPTH_MAX + 2)),
        (&format!("l/c{length}"), deep(DEPTH_MAX + 2)),
        ("r/one", deep(DEPTH_MAX + 2)),
        ("r/self", deep(DEPTH_MAX + 2)),
    ] {
        assert_eq!(problems(&known, "l/more", &built_of(&[part])), expected, "{part}");
    }
}

#[test]
fn a_calendar_over_the_most_there_may_be_is_refused_and_one_that_there_is_may_change() {
    let mut known = Calendars::default();
    let leaf = definition(LEAF);
    for n in 1..CALENDARS_KNOWN_MAX as u64 {
        known.apply(&state(&format!("a/c{n}"), n, Some(leaf.clone())));
    }
    assert_eq!(problems(&known, "a/new", LEAF), [""; 0]);
    known.apply(&state("a/last", 100_000, Some(leaf.clone())));
    assert_eq!(problems(&known, "a/new", LEAF), ["too many calendars"]);
    assert_eq!(problems(&known, "a/last", LEAF), [""; 0]);
    known.apply(&state("a/c1", 100_001, None));
    assert_eq!(problems(&known, "a/new", LEAF), [""; 0]);
    assert_eq!(known.iter().count(), CALENDARS_KNOWN_MAX - 1);
}

#[test]
fn a_job_has_the_days_in_all_that_it_names_and_in_none_that_it_excepts() {
    let mut known = Calendars::default();
    put(&mut known, "a/work", 1, r#"{"exclude":[{"weekly":["SAT","SUN"]}]}"#);
    put(&mut known, "a/odd", 2, r#"{"include":[{"weekly":["MON","SUN"]}]}"#);
    put(&mut known, "a/never", 3, r#"{"include":[]}"#);
    let day = |name: &str| known.days(&id(name)).unwrap();
    let working = |only: &[&str], except: &[&str]| {
        let ids = |names: &[&str]| names.iter().map(|name| id(name)).collect();
        known.working(&CalendarUse { only: ids(only), except: ids(except), shift: None })
    };
    let (work, odd) = (day("a/work"), day("a/odd"));
    assert_eq!(*working(&["a/work"], &[]).unwrap(), *work);
    assert_eq!(*working(&["a/work", "a/odd"], &[]).unwrap(), work.intersect(&odd));
    assert_eq!(*working(&["a/work"], &["a/odd"]).unwrap(), work.difference(&odd));
    assert_eq!(
        *working(&[], &["a/work", "a/odd"]).unwrap(),
        DaySet::all().difference(&work).difference(&odd)
    );
    assert_eq!(*working(&["a/never"], &[]).unwrap(), DaySet::none());
    assert_eq!(*working(&["a/work"], &["a/never"]).unwrap(), *work);
    assert_eq!(working(&["a/work"], &["a/gone"]), Err(id("a/gone")));
}
