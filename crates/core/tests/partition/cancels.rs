//! Cancels: the run's end is in CRON_RUNS before the command is done.

use crate::script::{at, check};
use crate::world::{End, World};

use cronstream_schemas::event::LogEvent;
use cronstream_schemas::id::ShardId;
use cronstream_schemas::verdict::Outcome;

#[test]
fn a_cancel_ends_a_run_wherever_it_stands() {
    check(
        r#"
        10:00:00 define a {"every":"1h"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 11:00:00
        10:00:01+ trigger a
        10:00:01+ trigger a
        10:00:01+ trigger a
        10:00:01 trigger a
            fired a trigger 2 as r1.1 rev 1
            fired a trigger 3 as r2.1 rev 1
            fired a trigger 4 as r3.1 rev 1
            fired a trigger 5 as r4.1 rev 1
            -> fired r1
            -> fired r2
            -> fired r3
            -> fired r4
        10:00:02+ start r2
        10:00:02+ start r3
        10:00:02+ fail r3 5m
        10:00:02+ start r4
        10:00:02 interrupt r4
        10:00:03 cancel a r1
            cancelled r1 by 6
            -> cancelled r1
        10:00:04 cancel a r2
            cancelled r2 by 7
            -> cancelled r2
        10:00:05 cancel a r3
            cancelled r3 by 8
            -> cancelled r3
        10:00:06 cancel a r4
            cancelled r4 by 9
            -> cancelled r4
        10:10:00
        "#,
    );
}

#[test]
fn a_run_that_is_over_or_anothers_is_not_cancelled() {
    check(
        r#"
        10:00:00 define a {"every":"1h"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 11:00:00
        10:00:00 define b {"every":"1h"}
            defined b rev 2 life 2 after 10:00:00 anchor 10:00:00
            -> accepted 2 next 11:00:00
        10:00:01 trigger a
            fired a trigger 3 as r1.1 rev 1
            -> fired r1
        10:00:02 cancel b r1
            rejected 4 $.run
            -> rejected no such live run
        10:00:03 start r1
        10:00:04 succeed r1
        10:00:05 cancel a r1
            rejected 5 $.run
            -> rejected no such live run
        10:00:06 trigger a
            fired a trigger 6 as r2.1 rev 1
            -> fired r2
        10:00:07 cancel a r2
            cancelled r2 by 7
            -> cancelled r2
        10:00:08 cancel a r2
            rejected 8 $.run
            -> rejected no such live run
        "#,
    );
}

fn with_a_cancel() -> (World, ShardId) {
    let now = at("10:00:00");
    let mut world = World::new(now);
    let body = r#"{"task":"t","schedule":{"every":"1h"}}"#;
    world.publish(now, "cron.define.n.a", body, None);
    world.publish(now, "cron.trigger.n.a", "", None);
    world.settle(|_, _, _| ());
    let fired = world.log.iter().find_map(|event| match event {
        LogEvent::Fired(fired) => Some(fired.shard_id()),
        _ => None,
    });
    let shard = fired.unwrap();
    let body = format!(r#"{{"run":"{}"}}"#, shard.run);
    world.publish(now, "cron.cancel.n.a", &body, None);
    world.publish(now, "cron.pause.n.a", "", None);
    (world, shard)
}

#[test]
fn commands_wait_until_the_end_is_folded() {
    let (mut world, _) = with_a_cancel();
    let turn = world.turn();
    assert!(turn.batch.is_none(), "{:?}", turn.batch);
    let [append] = &turn.appends[..] else { panic!("{:?}", turn.appends) };
    // Not answered yet: nothing is handed out twice, and nothing behind the cancel is applied.
    let again = world.turn();
    assert!(again.batch.is_none() && again.appends.is_empty());
    assert!(world.append_leaders(append));
    let batch = world.turn().batch.unwrap();
    assert_eq!(batch.cursor.commands_through, 4);
    assert!(matches!(batch.replies[0].verdict.outcome, Outcome::Cancelled { .. }));
}

#[test]
fn a_refused_append_is_handed_out_again() {
    let (mut world, shard) = with_a_cancel();
    let turn = world.turn();
    world.start(shard);
    assert!(!world.append_leaders(&turn.appends[0]));
    let turn = world.turn();
    assert_eq!(turn.appends[0].expected_seq, 1);
    assert!(world.append_leaders(&turn.appends[0]));
}

#[test]
fn a_result_that_came_first_stands() {
    let (mut world, shard) = with_a_cancel();
    world.start(shard);
    let turn = world.turn();
    world.end(shard, Some(End::Success));
    assert!(!world.append_leaders(&turn.appends[0]));
    let batch = world.turn().batch.unwrap();
    assert!(matches!(batch.replies[0].verdict.outcome, Outcome::Rejected { .. }));
}

#[test]
fn a_cancel_whose_leader_died_after_the_append_is_answered_by_the_next() {
    let (mut world, _) = with_a_cancel();
    let turn = world.turn();
    assert!(world.append_leaders(&turn.appends[0]));
    world.take_over();
    let turn = world.turn();
    assert!(turn.appends.is_empty());
    let batch = turn.batch.unwrap();
    assert_eq!(batch.cursor.commands_through, 4);
    assert!(matches!(batch.replies[0].verdict.outcome, Outcome::Cancelled { .. }));
}

#[test]
fn a_cancel_whose_leader_died_before_the_append_is_done_by_the_next() {
    let (mut world, _) = with_a_cancel();
    let turn = world.turn();
    world.take_over();
    let again = world.turn();
    assert_eq!(again.appends.len(), 1);
    assert!(world.append_leaders(&again.appends[0]));
    // The old leader's append comes too late.
    assert!(!world.append_leaders(&turn.appends[0]));
}

#[test]
fn a_run_whose_time_is_up_while_it_is_cancelled_is_ended_once() {
    let (mut world, _) = with_a_cancel();
    world.now = at("03-02T10:00:01");
    let turn = world.turn();
    assert_eq!(turn.appends.len(), 1, "{:?}", turn.appends);
}
