//! Commands that wait behind others when slots fall due: what was stored first takes effect first.

use std::time::Duration;

use cronstream_core::turn::{Batch, COMMANDS_MAX};
use cronstream_schemas::event::LogEvent;

use crate::script::{at, check};
use crate::world::World;

/// Nobody led from 10:00:40 to 10:01:30, and both commands were stored before the slot of 10:01:00.
#[test]
fn a_pause_behind_a_new_revision_comes_before_a_slot_that_nobody_saw() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:00:40+ define a {"every":"1m"} "title":"b"
        10:00:50+ pause a
        10:01:30 takeover
            defined a rev 2 life 1 after 10:00:40 anchor 10:00:00
            -> accepted 2 next 10:02:00
            --
            paused a after 10:00:50
            -> accepted 2 next none
        10:02:30
        "#,
    );
}

/// A new job's own slots too: the state that comes into force decides no further than the next change of it.
#[test]
fn a_job_that_was_new_and_paused_while_nobody_led_owes_nothing_after_the_pause() {
    check(
        r#"
        10:00:00
        10:00:10+ define a {"cron":"*/20 * * * * *"} "overlap":"allow"
        10:00:30+ pause a
        10:00:50 takeover
            defined a rev 1 life 1 after 10:00:10
            fired a 10:00:20 as r1.1 rev 1
            -> accepted 1 next 10:01:00
            --
            paused a after 10:00:30
            -> accepted 1 next none
        10:01:50
        "#,
    );
}

#[test]
fn a_skip_and_another_job_s_slot_keep_their_order() {
    check(
        r#"
        10:00:10 define a {"cron":"* * * * *"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:10
            -> accepted 1 next 10:01:00
        10:00:10 define b {"cron":"* * * * *"} "overlap":"allow"
            defined b rev 2 life 2 after 10:00:10
            -> accepted 2 next 10:01:00
        10:00:30+ define a {"cron":"* * * * *"} "overlap":"allow","title":"b"
        10:00:40+ skip a 10:01:00
        10:01:30 takeover
            defined a rev 3 life 1 after 10:00:30
            -> accepted 3 next 10:02:00
            --
            overridden a after 10:00:30 skips 10:01:00
            skipped a 10:01:00 requested rev 3
            fired b 10:01:00 as r1.1 rev 2
            -> skips 10:01:00
        "#,
    );
}

const SOON: Duration = Duration::from_secs(2);

/// A world whose first leader has defined job `a`, due every minute from 10:01:00 on, at 10:00:00.
fn defined() -> World {
    let mut world = World::new(at("10:00:00"));
    let body = r#"{"task":"t","schedule":{"cron":"* * * * *"},"overlap":"allow"}"#;
    world.publish(at("10:00:00"), "cron.define.n.a", body, None);
    world.settle(|_, _, _| {});
    world
}

/// Has job `a` defined anew, and asks for a backfill over both revisions: its history has to be read first.
fn asked(world: &mut World, when: &str) {
    let body = r#"{"task":"t","schedule":{"cron":"* * * * *"},"overlap":"allow","title":"b"}"#;
    world.publish(at(when), "cron.define.n.a", body, None);
    let stretch = r#"{"from":"2026-03-01T10:00:00Z","to":"2026-03-01T10:00:20Z"}"#;
    world.publish(at(when), "cron.backfill.n.a", stretch, None);
}

fn fired(batch: Option<&Batch>) -> usize {
    let events = batch.into_iter().flat_map(|batch| &batch.events);
    events.filter(|planned| matches!(planned.event, LogEvent::Fired(_))).count()
}

/// Takes turns until one stores nothing, without reading what they ask for; gives how many fires they stored.
fn turns(world: &mut World) -> usize {
    let mut fires = 0;
    while let Some(batch) = world.turn().batch {
        fires += fired(Some(&batch));
        world.store(&batch);
    }
    fires
}

#[test]
fn slots_wait_two_seconds_at_most_for_a_read_that_a_command_from_before_the_term_needs() {
    let mut world = defined();
    asked(&mut world, "10:00:30");
    world.now = at("10:01:10");
    world.take_over();
    assert_eq!(turns(&mut world), 0);
    let turn = world.turn();
    assert_eq!(turn.wake_at, Some(world.now.plus(SOON)), "and nobody turns in vain meanwhile");
    world.now = world.now.plus(SOON);
    assert_eq!(turns(&mut world), 1);
    // Until they are all applied, slots wait for none of them again.
    world.now = at("10:02:00");
    assert_eq!(turns(&mut world), 1);
}

#[test]
fn a_time_in_which_nothing_could_be_decided_is_none_that_slots_have_waited() {
    let mut world = defined();
    asked(&mut world, "10:00:30");
    world.now = at("10:01:10");
    world.take_over();
    assert_eq!(turns(&mut world), 0);
    // The node stands still for ten seconds, half a second later.
    world.now = at("10:01:20.500");
    world.leader.stood_still(Duration::from_secs(10), world.now);
    assert_eq!(turns(&mut world), 0);
    world.now = at("10:01:21.999");
    assert_eq!(turns(&mut world), 0);
    world.now = at("10:01:22");
    assert_eq!(turns(&mut world), 1);
}

#[test]
fn slots_do_not_wait_for_a_read_that_a_command_of_this_term_needs() {
    let mut world = defined();
    world.now = at("10:00:59.990");
    asked(&mut world, "10:00:59.990");
    world.now = at("10:01:00.010");
    assert_eq!(turns(&mut world), 1);
}

/// More commands than a turn applies were stored before the slot; the last one pauses its job.
#[test]
fn a_command_behind_many_others_comes_before_a_slot_that_nobody_saw() {
    let mut world = defined();
    for _ in 0..COMMANDS_MAX {
        world.publish(at("10:00:30"), "cron.pause.n.none", "", None);
    }
    world.publish(at("10:00:31"), "cron.pause.n.a", "", None);
    world.now = at("10:01:10");
    world.take_over();
    assert_eq!(turns(&mut world), 0);
    assert_eq!(world.leader.commands_through(), COMMANDS_MAX as u64 + 2);
}

/// One job's state changes once in a batch, so a thousand changes take a thousand of them.
#[test]
fn changes_without_end_of_one_job_hold_up_the_slots_of_others_for_two_seconds_at_most() {
    let mut world = defined();
    let step = Duration::from_millis(100);
    world.now = at("10:00:59");
    for _ in 0..1_000 {
        world.publish(at("10:00:59"), "cron.skip.n.b", "", None);
        world.publish(at("10:00:59"), "cron.define.n.b", OTHER, None);
    }
    let mut fires = 0;
    let until = at("10:01:00").plus(SOON).plus(step);
    while world.now < until {
        world.now = world.now.plus(step);
        let batch = world.turn().batch;
        fires += fired(batch.as_ref());
        batch.iter().for_each(|batch| world.store(batch));
    }
    assert_eq!(fires, 1);
    assert!(world.leader.commands_through() < 1_000, "they are not all applied");
}

const OTHER: &str = r#"{"task":"t","schedule":{"cron":"0 0 * * *"}}"#;
