//! Fires by themselves: which may go without a cursor, when one passes them, and what a later leader makes of them.

use std::time::Duration;

use cronstream_core::alone::{AHEAD, ALONE_FOR};
use cronstream_core::turn::{Batch, Planned};
use cronstream_schemas::event::{LogEvent, SkipReason, Skipped, SkippedWhat};
use cronstream_schemas::time::Timestamp;

use crate::world::World;

const BEGIN: &str = "2027-01-15T10:00:00Z";

fn begin() -> Timestamp {
    BEGIN.parse().unwrap()
}

/// A leader that has just accepted jobs of these names and bodies.
fn defined(jobs: &[(&str, &str)]) -> World {
    let mut world = World::new(begin());
    for (job, body) in jobs {
        world.publish(begin(), &format!("cron.define.n.{job}"), body, None);
    }
    world.settle(|_, _, _| {});
    world
}

/// What the leader decides so many milliseconds behind the definitions.
fn decided(world: &mut World, millis: u64) -> Option<Batch> {
    world.now = begin().plus(Duration::from_millis(millis));
    world.turn().batch
}

/// Stores the event of a batch by itself and folds it.
fn store_alone(world: &mut World, batch: &Batch) {
    assert!(batch.alone.is_some(), "{batch:?}");
    world.log.extend(batch.events.iter().map(|planned| planned.event.clone()));
    world.leader.commit_alone(batch.clone(), world.log.len() as u64);
}

fn check(jobs: &[(&str, &str)], at: u64, goes_alone: bool) {
    let batch = decided(&mut defined(jobs), at).expect("something is due");
    assert_eq!(batch.alone.is_some(), goes_alone, "{jobs:?} at {at}: {:?}", batch.events);
}

const EVERY: &str = r#"{"task":"t","schedule":{"every":"2s"},"overlap":"allow"}"#;
const DELAY: &str = r#"{"task":"t","schedule":{"fixed_delay":"2s"},"overlap":"allow"}"#;
const RARE: &str = r#"{"task":"t","schedule":{"every":"5s"},"overlap":"allow"}"#;

#[test]
fn one_fire_soon_behind_a_cursor_goes_by_itself_and_nothing_else_does() {
    check(&[("a", EVERY)], 2_000, true);
    check(&[("a", EVERY)], 3_999, true);
    // Two slots, many jobs, a delay that its run moves, a cursor that is not fresh.
    check(&[("a", EVERY)], 4_000, false);
    check(&[("a", EVERY), ("b", EVERY), ("c", EVERY), ("d", EVERY)], 2_000, false);
    check(&[("a", DELAY)], 2_000, false);
    check(&[("a", RARE)], 5_000, false);
}

#[test]
fn few_jobs_that_are_due_leave_one_by_one_in_their_order() {
    let mut world = defined(&[("a", EVERY), ("b", EVERY), ("c", EVERY)]);
    for job in ["n/a", "n/b", "n/c"] {
        let batch = decided(&mut world, 2_000).unwrap();
        let [Planned { event: LogEvent::Fired(fired), .. }] = &batch.events[..] else {
            panic!("{batch:?}");
        };
        assert_eq!(fired.job.to_string(), job);
        // Where it is stored with its cursor after all, that passes no more than this job.
        let passed = batch.cursor.position.job.as_ref().map(ToString::to_string);
        assert_eq!(passed, (job != "n/c").then(|| job.to_owned()));
        assert!(world.turn().wake_at <= Some(world.now), "the others are due still");
        store_alone(&mut world, &batch);
    }
    assert_eq!(decided(&mut world, 2_000), None);
}

/// Where something is between them that cannot, what is left of them is a batch.
#[test]
fn few_jobs_of_which_one_cannot_go_by_itself_are_a_batch() {
    check(&[("a", DELAY), ("b", EVERY)], 2_000, false);
    let mut world = defined(&[("a", EVERY), ("b", DELAY), ("c", EVERY)]);
    let batch = decided(&mut world, 2_000).unwrap();
    store_alone(&mut world, &batch);
    let batch = decided(&mut world, 2_000).unwrap();
    assert_eq!((batch.events.len(), batch.alone), (2, None));
}

#[test]
fn a_fire_beside_a_command_or_of_a_job_with_a_shifted_slot_needs_a_cursor() {
    let mut world = defined(&[("a", EVERY)]);
    world.now = begin().plus(Duration::from_secs(2));
    world.publish(world.now, "cron.pause.n.none", "", None);
    assert!(world.turn().batch.unwrap().alone.is_none());
    let mut world = defined(&[("a", EVERY)]);
    world.publish(begin(), "cron.skip.n.a", r#"{"slot":"2027-01-15T10:00:04Z"}"#, None);
    world.settle(|_, _, _| {});
    assert!(decided(&mut world, 2_000).unwrap().alone.is_none());
}

#[test]
fn a_cursor_passes_fires_that_went_by_themselves_before_five_seconds_are_over() {
    let mut world = defined(&[("a", EVERY)]);
    for at in [2_000, 4_000] {
        let batch = decided(&mut world, at).unwrap();
        store_alone(&mut world, &batch);
    }
    let renewed = begin().plus(ALONE_FOR).minus(AHEAD);
    let (clock, settings) = (world.clock(), world.settings.clone());
    assert_eq!(world.leader.turn(clock, &settings, false).wake_at, Some(renewed));
    let batch = decided(&mut world, 4_000).expect("nothing is due, so the cursor moves");
    assert!(batch.events.is_empty() && batch.alone.is_none(), "{batch:?}");
    assert_eq!(batch.cursor.position.due, renewed);
    world.store(&batch);
    assert_eq!(decided(&mut world, 5_999), None);
    assert!(decided(&mut world, 6_000).unwrap().alone.is_some());
}

#[test]
fn a_fire_does_not_wait_for_the_cursor_that_is_to_be_renewed() {
    let mut world = defined(&[("a", EVERY)]);
    let batch = decided(&mut world, 2_000).unwrap();
    store_alone(&mut world, &batch);
    let batch = decided(&mut world, 4_000).unwrap();
    assert!(batch.alone.is_some(), "{batch:?}");
}

/// Whether a cursor is written a second before the slots at 60 s.
fn check_ahead(jobs: &[(&str, &str)], is_written: bool) {
    let mut world = defined(jobs);
    assert_eq!(decided(&mut world, 58_999), None, "{jobs:?}");
    assert!(world.turn().wake_at.unwrap() <= begin().plus(Duration::from_secs(59)), "{jobs:?}");
    let batch = decided(&mut world, 59_000);
    assert_eq!(batch.is_some(), is_written, "{jobs:?}: {batch:?}");
    if let Some(batch) = &batch {
        assert!(batch.events.is_empty());
        world.store(batch);
    }
    // Once, and nothing is tried again before the slot.
    let turn = world.turn();
    assert_eq!((turn.batch, turn.wake_at), (None, Some(begin().plus(Duration::from_secs(60)))));
    let batch = decided(&mut world, 60_000).expect("something is due");
    assert_eq!(batch.alone.is_some(), is_written, "{:?}", batch.events);
}

const MINUTELY: &str = r#"{"task":"t","schedule":{"every":"60s"},"overlap":"allow"}"#;

#[test]
fn a_cursor_is_written_ahead_of_a_slot_that_is_due_by_itself() {
    check_ahead(&[("a", MINUTELY)], true);
    check_ahead(&[("a", MINUTELY), ("b", MINUTELY)], false);
    let delay = MINUTELY.replace("every", "fixed_delay");
    check_ahead(&[("a", &delay)], false);
    let mut world = defined(&[("a", MINUTELY)]);
    world.publish(begin(), "cron.pause.n.a", "", None);
    world.settle(|_, _, _| {});
    assert_eq!(decided(&mut world, 59_000), None);
}

#[test]
fn another_leader_does_not_fire_again_what_went_by_itself() {
    let mut world = defined(&[("a", EVERY)]);
    let batch = decided(&mut world, 2_000).unwrap();
    store_alone(&mut world, &batch);
    world.take_over();
    assert_eq!(world.leader.cursor().unwrap().doubt_before, Some(begin().plus(ALONE_FOR)));
    assert_eq!(decided(&mut world, 3_999), None);
    let batch = decided(&mut world, 6_000).unwrap();
    assert_eq!(batch.events.len(), 2, "{:?}", batch.events);
    assert_eq!(batch.cursor.doubt_before, None);
}

/// The slot of a job that is due once, 2 s behind its definition, whose fire is kept for a minute and some seconds.
const ONCE: &str = r#"{"task":"t","schedule":{"at":"2027-01-15T10:00:02Z"},"overlap":"allow",
    "timeout":"1s","start_within":"5s","retention":"60s","max_attempts":1}"#;

#[test]
fn a_slot_whose_fire_may_have_vanished_is_skipped_and_one_whose_fire_cannot_have_is_fired() {
    for (later, is_skipped) in [(40, false), (90, true)] {
        let mut world = defined(&[("a", ONCE)]);
        // Its leader ends before anything is stored, or the fire is gone: the log shows the same.
        world.now = begin().plus(Duration::from_secs(later));
        world.take_over();
        let batch = world.turn().batch.expect("the slot is owed");
        let [planned] = &batch.events[..] else { panic!("{:?}", batch.events) };
        let skipped = matches!(
            &planned.event,
            LogEvent::Skipped(Skipped {
                reason: SkipReason::Misfire,
                what: SkippedWhat::Slots { count: 1, .. },
                ..
            })
        );
        assert_eq!(skipped, is_skipped, "{later} s: {:?}", planned.event);
    }
}

#[test]
fn doubt_outlives_leaders_that_decide_nothing() {
    let mut world = defined(&[("a", ONCE)]);
    for _ in 0..3 {
        world.now = world.now.plus(Duration::from_secs(60));
        world.take_over();
    }
    let batch = world.turn().batch.expect("the slot is owed");
    assert!(matches!(&batch.events[0].event, LogEvent::Skipped(_)), "{:?}", batch.events);
}

#[test]
fn the_cursor_that_closes_a_fire_decides_nothing() {
    let mut world = defined(&[("a", EVERY)]);
    let before = world.leader.cursor().unwrap().clone();
    let closing = decided(&mut world, 2_000).unwrap().alone.unwrap();
    assert_eq!(closing.position, before.position);
    assert_eq!(closing.tick.0, before.tick.0 + 1);
    let event = LogEvent::Cursor(closing);
    world.log.push(event.clone());
    world.leader.apply_log(world.log.len() as u64, &event);
    let again = world.turn().batch.expect("the slot is still owed");
    assert_eq!(again.events.len(), 1);
}

#[test]
fn a_partition_whose_cursor_knows_of_no_runs_writes_one_before_fires_go_by_themselves() {
    let mut world = defined(&[("a", EVERY)]);
    let batch = decided(&mut world, 2_000).unwrap();
    store_alone(&mut world, &batch);
    let LogEvent::Fired(fired) = &batch.events[0].event else { panic!("{batch:?}") };
    world.start(fired.shard_id());
    let batch = decided(&mut world, 4_000).unwrap();
    assert!(batch.alone.is_none());
    world.store(&batch);
    assert!(decided(&mut world, 6_000).unwrap().alone.is_some());
}

/// The events of all batches until nothing is left to do, but cursors.
fn settled(world: &mut World) -> Vec<LogEvent> {
    let known = world.log.len();
    world.settle(|_, _, _| {});
    let decided = world.log[known..].iter();
    decided.filter(|event| !matches!(event, LogEvent::Cursor(_))).cloned().collect()
}

/// Slots of the first life that fire.
fn fires(events: &[LogEvent]) -> Vec<Timestamp> {
    let slot = |event: &LogEvent| match event {
        LogEvent::Fired(fired) => Some(fired.scheduled_at),
        _ => None,
    };
    events.iter().filter_map(slot).collect()
}

/// A command was read by nobody while the slot behind it was fired by itself, which the log has lost since.
fn check_waiting_command(body: &str, subject: &str, command: &str) {
    let slot = begin().plus(Duration::from_secs(2));
    let mut world = defined(&[("a", body)]);
    world.now = begin().plus(Duration::from_secs(90));
    world.publish(begin().plus(Duration::from_secs(1)), subject, command, None);
    world.take_over();
    let events = settled(&mut world);
    assert!(!fires(&events).contains(&slot), "{subject} {command}: {events:?}");
    let skips = |event: &LogEvent| match event {
        LogEvent::Skipped(Skipped { what: SkippedWhat::Slots { first, last, .. }, .. }) => {
            (*first..=*last).contains(&slot)
        }
        _ => false,
    };
    assert_eq!(events.iter().filter(|event| skips(event)).count(), 1, "{subject}: {events:?}");
}

/// Due every 2 s; its fires are kept for a minute and some seconds, and every missed slot fires.
const BRIEF: &str = r#"{"task":"t","schedule":{"every":"2s"},"overlap":"allow","timeout":"1s","start_within":"5s",
    "retention":"60s","max_attempts":1,"misfire":{"policy":"fire_all","threshold":"1s","limit":1000,"window":"1h"}}"#;

#[test]
fn a_command_that_waited_makes_no_slot_fire_again_that_went_by_itself_behind_it() {
    let longer = BRIEF.replace("60s", "1h");
    check_waiting_command(BRIEF, "cron.define.n.a", &longer);
    check_waiting_command(BRIEF, "cron.skip.n.a", r#"{"slot":"2027-01-15T10:00:50Z"}"#);
    check_waiting_command(BRIEF, "cron.pause.n.a", "");
    check_waiting_command(BRIEF, "cron.delete.n.a", "");
    let jittered = BRIEF.replace(r#""overlap""#, r#""jitter":"3s","overlap""#);
    check_waiting_command(&jittered, "cron.define.n.a", &jittered.replace("60s", "1h"));
}

#[test]
fn an_idle_partition_passes_what_was_in_doubt_at_its_takeover() {
    let mut world = defined(&[("a", ONCE)]);
    let batch = decided(&mut world, 2_000).unwrap();
    store_alone(&mut world, &batch);
    world.now = begin().plus(Duration::from_secs(3));
    world.take_over();
    assert!(world.turn().batch.is_none());
    let passed = begin().plus(ALONE_FOR);
    assert!(world.turn().wake_at.is_some_and(|at| at <= passed));
    let batch = decided(&mut world, 5_000).expect("the doubt is passed");
    assert!(batch.events.is_empty() && batch.cursor.doubt_before.is_none(), "{batch:?}");
    world.store(&batch);
    assert_eq!(decided(&mut world, 6_000), None);
    // However long afterwards, and whoever leads: the slot has its outcome.
    world.now = begin().plus(Duration::from_secs(900));
    world.log.retain(|event| !matches!(event, LogEvent::Fired(_)));
    world.take_over();
    assert_eq!(settled(&mut world), []);
}

#[test]
fn a_leader_that_decided_nothing_puts_no_more_slots_in_doubt() {
    let mut world = defined(&[("a", BRIEF)]);
    for later in [90, 91] {
        world.now = begin().plus(Duration::from_secs(later));
        world.take_over();
        assert_eq!(world.leader.cursor().unwrap().doubt_before, Some(begin().plus(ALONE_FOR)));
    }
    let first = settled(&mut world).into_iter().find_map(|event| match event {
        LogEvent::Skipped(Skipped { what: SkippedWhat::Slots { first, last, .. }, .. }) => {
            Some((first, last))
        }
        _ => None,
    });
    let slot = |second| begin().plus(Duration::from_secs(second));
    assert_eq!(first, Some((slot(2), slot(4))));
}

#[test]
fn nothing_goes_by_itself_behind_a_cursor_whose_doubt_stands() {
    let mut world = defined(&[("a", EVERY)]);
    world.now = begin().plus(Duration::from_millis(1_500));
    world.take_over();
    let batch = decided(&mut world, 2_000).unwrap();
    assert!(batch.alone.is_none(), "{batch:?}");
}
