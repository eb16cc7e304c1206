//! Timers of live runs: back-off, expiry, hard end; and dead letters.

use std::time::Duration;

use cronstream_core::partition::Partition;
use cronstream_schemas::event::LogEvent;
use cronstream_schemas::id::{Partition as Number, ShardId};

use crate::script::{at, check};
use crate::world::World;

#[test]
fn failures_are_retried_with_growing_pauses_and_end_in_a_dead_letter() {
    check(
        r#"
        10:00:00 define a {"every":"1h"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 11:00:00
        10:00:01 trigger a
            fired a trigger 2 as r1.1 rev 1
            -> fired r1
        10:00:02 start r1
        10:00:03 fail r1
        10:00:03.099
        10:00:04
            fired a trigger 2 as r1.2 rev 1
        10:00:05 start r1
        10:00:06 fail r1
        10:00:08
            fired a trigger 2 as r1.3 rev 1
        10:00:09 start r1
        10:00:10 fail r1
            dead r1 after 3 attempts
        10:10:00
        "#,
    );
}

#[test]
fn a_final_failure_is_dead_at_once() {
    check(
        r#"
        10:00:00 define a {"every":"1h"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 11:00:00
        10:00:01 trigger a
            fired a trigger 2 as r1.1 rev 1
            -> fired r1
        10:00:02 start r1
        10:00:03 die r1
            dead r1 after 1 attempts
        10:10:00
        "#,
    );
}

#[test]
fn no_retry_comes_before_the_task_allows_it() {
    check(
        r#"
        10:00:00 define a {"every":"1h"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 11:00:00
        10:00:01 trigger a
            fired a trigger 2 as r1.1 rev 1
            -> fired r1
        10:00:02 start r1
        10:00:03 fail r1 30s
        10:00:33
        10:00:34
            fired a trigger 2 as r1.2 rev 1
        "#,
    );
}

#[test]
fn a_back_off_goes_on_under_a_new_leader() {
    check(
        r#"
        10:00:00 define a {"every":"1h"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 11:00:00
        10:00:01 trigger a
            fired a trigger 2 as r1.1 rev 1
            -> fired r1
        10:00:02 start r1
        10:00:03 fail r1 30s
        10:00:20 takeover
        10:00:34
            fired a trigger 2 as r1.2 rev 1
        10:00:35 takeover
        10:00:36 start r1
        "#,
    );
}

#[test]
fn an_attempt_that_is_given_back_is_the_brokers_to_deliver_again() {
    check(
        r#"
        10:00:00 define a {"every":"1h"} "max_attempts":1
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 11:00:00
        10:00:01 trigger a
            fired a trigger 2 as r1.1 rev 1
            -> fired r1
        10:00:02 start r1
        10:00:03 interrupt r1
        10:00:30
        10:00:31 start r1
        10:00:32 succeed r1
        "#,
    );
}

#[test]
fn a_run_that_nobody_starts_in_time_expires() {
    check(
        r#"
        10:00:00 define a {"every":"1h"} "start_within":"10s"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 11:00:00
        10:00:01 trigger a
            fired a trigger 2 as r1.1 rev 1
            -> fired r1
        10:00:10.999
        10:00:11
            expired r1
        "#,
    );
}

#[test]
fn a_run_without_a_result_is_lost_at_its_hard_end() {
    check(
        r#"
        10:00:00 define a {"every":"10h"} "start_within":"10s","timeout":"20s","max_attempts":1
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 20:00:00
        10:00:01 trigger a
            fired a trigger 2 as r1.1 rev 1
            -> fired r1
        10:00:05 start r1
        10:00:30.999
        10:00:31
            lost r1
        10:00:31 takeover
        "#,
    );
}

#[test]
fn a_retry_that_is_due_after_the_hard_end_never_comes() {
    check(
        r#"
        10:00:00 define a {"every":"10h"} "start_within":"10s","timeout":"20s","max_attempts":2
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 20:00:00
        10:00:01 trigger a
            fired a trigger 2 as r1.1 rev 1
            -> fired r1
        10:00:02 start r1
        10:00:03 fail r1 1h
        10:01:00
            lost r1
        11:00:10
        "#,
    );
}

#[test]
fn a_run_that_ended_is_not_revived_by_a_new_leader() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:01:00
            fired a 10:01:00 as r1.1 rev 1
        10:01:01 start r1
        10:01:02 die r1
            dead r1 after 1 attempts
        10:01:10 takeover
        10:02:00
            fired a 10:02:00 as r2.1 rev 1
        10:02:01 cancel a r2
            cancelled r2 by 2
            -> cancelled r2
        10:02:02 takeover
        10:03:00
            fired a 10:03:00 as r3.1 rev 1
        "#,
    );
}

fn with_a_failure() -> (World, ShardId) {
    let mut world = World::new(at("10:00:00"));
    let body = r#"{"task":"t","schedule":{"every":"1h"},"max_attempts":1,"overlap":"allow"}"#;
    world.publish(at("10:00:00"), "cron.define.n.a", body, None);
    world.publish(at("10:00:00"), "cron.trigger.n.a", "", None);
    world.settle(|_, _, _| ());
    let fired = world.log.iter().find_map(|event| match event {
        LogEvent::Fired(fired) => Some(fired.shard_id()),
        _ => None,
    });
    let shard = fired.unwrap();
    world.start(shard);
    world.end(shard, Some(crate::world::End::Failure(cronstream_core::attempt::Retry::Never)));
    (world, shard)
}

#[test]
fn the_cursor_passes_a_failure_only_when_its_dead_letter_is_written() {
    let (mut world, shard) = with_a_failure();
    world.publish(at("10:00:01"), "cron.pause.n.a", "", None);
    world.now = at("10:00:01");
    let batch = world.turn().batch.unwrap();
    assert_eq!(batch.cursor.dead_through, 1);
    world.store(&batch);
    world.take_over();
    let dead: Vec<_> = world.leader.dead().map(|(seq, dead)| (seq, dead.key.shard)).collect();
    assert_eq!(dead, [(2, shard)]);
    assert_eq!(world.bury().len(), 1);
    world.publish(at("10:00:01"), "cron.resume.n.a", "", None);
    let batch = world.turn().batch.unwrap();
    assert_eq!(batch.cursor.dead_through, 2);
    world.store(&batch);
    world.take_over();
    assert_eq!(world.leader.dead().count(), 0);
}

#[test]
fn a_failure_that_is_folded_before_its_fire_is_not_forgotten() {
    let (world, shard) = with_a_failure();
    let mut standby = Partition::new(Number(0));
    world.fold_runs(&mut standby);
    standby.caught_up(world.now);
    world.fold_log(&mut standby);
    assert_eq!(standby.dead().map(|(_, dead)| dead.key.shard).collect::<Vec<_>>(), [shard]);
    assert_eq!(standby.shards().count(), 0);
}

#[test]
fn a_fire_behind_a_terminal_event_is_void() {
    let (mut world, shard) = with_a_failure();
    let mut second = world.fire(shard);
    second.fire_no = 2;
    world.leader.apply_log(world.log.len() as u64 + 1, &LogEvent::Fired(second));
    assert_eq!(world.leader.shards().count(), 0);
}

#[test]
fn an_order_whose_records_are_gone_is_not_taken_up_again() {
    let (mut world, _) = with_a_failure();
    world.runs.clear();
    world.now = at("03-20T10:00:00");
    world.take_over();
    assert_eq!(world.turn().appends, []);
    assert_eq!(world.leader.shards().count(), 0);
}

#[test]
fn an_appends_wait_ends_with_its_answer() {
    let (mut world, _) = with_a_failure();
    world.publish(world.now, "cron.trigger.n.a", "", None);
    world.settle(|_, _, _| ());
    world.now = world.now.plus(Duration::from_secs(86_401));
    let first = world.turn();
    assert_eq!(first.appends.len(), 1);
    assert!(world.turn().appends.is_empty());
    let shard = first.appends[0].key.shard;
    world.leader.append_done(shard);
    assert_eq!(world.turn().appends, first.appends);
}
