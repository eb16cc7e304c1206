//! Instants that are to come, not decided, or no slots.

use std::sync::Arc;

use cronstream_core::calendar::Calendars;
use cronstream_schemas::calendar::CalendarDefinition;
use cronstream_schemas::event::{CalendarState, JobState, Override};
use cronstream_schemas::id::{Epoch, Incarnation, Revision};
use cronstream_schemas::time::Timestamp;

use super::{Case, SLOT, at, ran, slot_before, started, state, state_with};
use crate::explain::facts::{Decided, Facts};
use crate::explain::verdict::Outcome;

#[test]
fn a_slot_to_come_says_what_could_prevent_it() {
    let case = Case { now: "2027-01-05T02:00:00Z", ..Case::default() };
    case.check(
        |_| {},
        Outcome::WillRun,
        &[
            "it will run at 2027-01-05T03:00:00.000Z, in 1h0m",
            "revision 1: at 03:00",
            "overlap: skip",
        ],
    );
    let live = |facts: &mut Facts<'_>| facts.before = Some(slot_before(None));
    case.check(live, Outcome::WillRun, &["is live: should it still be then"]);
    let paused = JobState { paused: Some(at("2027-01-05T01:00:00Z")), ..case.newest.clone() };
    let paused = Case { newest: paused, now: case.now, ..Case::default() };
    paused.check(|_| {}, Outcome::WillNotRun, &["unless the job is resumed", "paused since"]);
    for (to, outcome, says) in [
        (None, Outcome::WillNotRun, "skipped by command 40"),
        (Some(at("2027-01-05T09:00:00Z")), Outcome::WillRun, "shifted to 2027-01-05T09"),
    ] {
        let overrides = vec![Override { slot: at(SLOT), to, command: 40, done: None }].into();
        let newest = JobState { overrides, ..case.newest.clone() };
        Case { newest, now: case.now, ..Case::default() }.check(|_| {}, outcome, &[says]);
    }
    let missing = Case { now: case.now, ..Case::with(r#""calendars":{"only":["a/work"]}"#) };
    missing.check(|_| {}, Outcome::WillNotRun, &["calendar a/work is not known"]);
}

#[test]
fn a_past_slot_without_a_record_is_undecided_or_no_longer_kept() {
    let decided = |through: &'static str| {
        move |facts: &mut Facts<'_>| {
            let leader = ("t1".parse().unwrap(), Epoch(4));
            facts.decided = Some(Decided { through: at(through), at: at(through), leader });
        }
    };
    let case = Case::default();
    case.check(
        decided("2027-01-05T02:00:00Z"),
        Outcome::Undecided,
        &["nobody has decided it", "no leader", "by t1, term 4"],
    );
    case.check(decided("2027-01-06T00:00:00Z"), Outcome::NotKept, &["no longer kept", "30 days"]);
    let newest = JobState { paused: Some(at("2027-01-05T01:00:00Z")), ..case.newest };
    Case { newest, ..Case::default() }.check(
        decided("2027-01-06T00:00:00Z"),
        Outcome::Undecided,
        &["the job is paused, and what becomes of the slot"],
    );
}

#[test]
fn an_instant_without_a_slot_says_which_rule_leaves_it_out() {
    let absent = |body: &str, says: &[&str]| {
        Case::with(body).check(|_| {}, Outcome::NoSlot, says);
    };
    absent(r#""start":"2027-02-01T00:00:00Z""#, &["it starts at 2027-02-01"]);
    absent(r#""end":"2027-01-02T00:00:00Z""#, &["it ended at 2027-01-02"]);
    absent(r#""windows":["09:00-17:00"]"#, &["outside of the windows 09:00-17:00 (UTC)"]);
    let between = Case { asked: "2027-01-05T03:30:00Z", ..Case::default() };
    let told =
        between.check(|_| {}, Outcome::NoSlot, &["had no slot then", "revision 1: at 03:00"]);
    assert_eq!(told.nearest, (Some(at(SLOT)), Some(at("2027-01-06T03:00:00Z"))));
}

#[test]
fn a_calendar_that_leaves_a_day_out_is_named() {
    let mut calendars = Calendars::default();
    let body = br#"{"include":[{"date":"2027-01-05"}]}"#;
    let definition = CalendarDefinition::decode(body).unwrap();
    calendars.apply(&Arc::new(CalendarState {
        calendar: "a/holidays".parse().unwrap(),
        revision: Revision(1),
        definition: Some(definition),
        command: 1,
        at: Timestamp::MIN,
    }));
    let case = Case { calendars, ..Case::with(r#""calendars":{"except":["a/holidays"]}"#) };
    case.check(|_| {}, Outcome::NoSlot, &["calendar a/holidays (except) has that day"]);
}

#[test]
fn an_instant_near_a_clock_change_is_told_of_it() {
    let newest = state_with(
        "2027-01-01T00:00:00Z",
        1,
        r#"{"task":"t","schedule":{"cron":"30 2 * * *"},"time_zone":"Europe/Berlin","gap":"skip"}"#,
    );
    let case = Case {
        newest,
        asked: "2027-03-28T01:30:00Z",
        now: "2027-03-29T00:00:00Z",
        ..Case::default()
    };
    case.check(
        |_| {},
        Outcome::NoSlot,
        &["the clocks of Europe/Berlin change at 2027-03-28T01:00"],
    );
}

#[test]
fn a_slot_that_a_clock_change_moved_says_so() {
    let newest = state_with(
        "2027-01-01T00:00:00Z",
        1,
        r#"{"task":"t","schedule":{"cron":"30 2 * * *"},"time_zone":"America/New_York"}"#,
    );
    let case = Case {
        newest,
        asked: "2027-03-14T07:00:00Z",
        now: "2027-03-14T06:00:00Z",
        ..Case::default()
    };
    let says = "a clock change: America/New_York goes from 02:00 to 03:00 on 2027-03-14";
    case.check(|_| {}, Outcome::WillRun, &[says]);
    let next = Case { asked: "2027-03-15T06:30:00Z", ..case };
    let told = next.check(|_| {}, Outcome::WillRun, &[]);
    assert!(!told.because.iter().any(|it| it.contains("a clock change")), "{:?}", told.because);
}

#[test]
fn a_job_that_was_not_there_yet_or_no_more_says_so() {
    let case = Case { asked: "2026-12-05T03:00:00Z", ..Case::default() };
    case.check(|_| {}, Outcome::NoJob, &["did not exist"]);
    let newest =
        JobState { definition: None, command: 30, ..state("2027-01-02T00:00:00Z", 1, "{}") };
    Case { newest, ..Case::default() }.check(
        |_| {},
        Outcome::NoJob,
        &["deleted at 2027-01-02T00:00:00.000Z by command 30"],
    );
}

#[test]
fn the_revision_of_then_explains_and_not_the_one_of_now() {
    let newest = state("2027-01-05T12:00:00Z", 2, r#"{"cron":"0 4 * * *"}"#);
    let history = vec![state("2027-01-01T00:00:00Z", 1, r#"{"cron":"0 3 * * *"}"#)];
    let case = Case { newest, history, ..Case::default() };
    let told = case.check(
        |facts| {
            facts.record = ran(SLOT, SLOT, 5);
            facts.run = vec![started(SLOT)];
        },
        Outcome::Ran,
        &["of revision 1: at 03:00"],
    );
    assert_eq!(told.revision, Some((Revision(1), Incarnation(1))));
}

#[test]
fn a_job_by_delay_has_no_fixed_slots_to_be_nearest() {
    let newest = state("2027-01-01T00:00:00Z", 1, r#"{"fixed_delay":"1h"}"#);
    let told = Case { newest, ..Case::default() }.check(
        |_| {},
        Outcome::NoSlot,
        &["1h after the end of the run before"],
    );
    assert_eq!(told.nearest, (None, None));
}
