//! Each command in each state of its job.

use cronstream_schemas::verdict::Outcome;

use crate::script::{at, check};
use crate::world::World;

#[test]
fn a_name_that_is_not_defined_can_only_be_defined() {
    check(
        r#"
        10:00:00 delete a
            rejected 1 $subject
            -> rejected no such job
        10:00:00 pause a
            rejected 2 $subject
            -> rejected no such job
        10:00:00 resume a
            rejected 3 $subject
            -> rejected no such job
        10:00:00 trigger a
            rejected 4 $subject
            -> rejected no such job
        10:00:00 raw cron.cancel.n.a {"run":"01a31bbc-507b-8dab-b5ee-be7b4b3cf84b"}
            rejected 5 $.run
            -> rejected no such live run
        10:00:00 define a {"every":"1m"}
            defined a rev 6 life 6 after 10:00:00 anchor 10:00:00
            -> accepted 6 next 10:01:00
        "#,
    );
}

#[test]
fn an_active_job_takes_every_command() {
    check(
        r#"
        10:00:00 define a {"every":"1m"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:00:01 define a {"every":"1m"} "overlap":"allow","title":"b"
            defined a rev 2 life 1 after 10:00:01 anchor 10:00:00
            -> accepted 2 next 10:01:00
        10:00:02 resume a
            -> accepted 2 next 10:01:00
        10:00:03 trigger a
            fired a trigger 4 as r1.1 rev 2
            -> fired r1
        10:00:04 cancel a r1
            cancelled r1 by 5
            -> cancelled r1
        10:00:05 pause a
            paused a after 10:00:05
            -> accepted 2 next none
        10:00:06 resume a
            resumed a after 10:00:05
            -> accepted 2 next 10:01:00
        10:00:07 delete a
            deleted a after 10:00:07
            -> accepted 2 next none
        10:01:00
        "#,
    );
}

#[test]
fn a_paused_job_fires_nothing_but_triggers() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:00:10 pause a
            paused a after 10:00:10
            -> accepted 1 next none
        10:00:20 pause a
            -> accepted 1 next none
        10:01:00
        10:01:10 trigger a
            fired a trigger 4 as r1.1 rev 1
            -> fired r1
        10:01:20 cancel a r1
            cancelled r1 by 5
            -> cancelled r1
        # A new revision stays paused; what was due under the old one is skipped.
        10:01:30 define a {"every":"1m"} "title":"b"
            skipped a 10:01:00 paused rev 1
            defined a rev 6 life 1 after 10:01:30 anchor 10:00:00 paused
            -> accepted 6 next none
        10:02:30 delete a
            skipped a 10:02:00 paused rev 6
            deleted a after 10:02:30
            -> accepted 6 next none
        10:03:00 resume a
            rejected 8 $subject
            -> rejected no such job
        "#,
    );
}

#[test]
fn a_pause_survives_its_leader() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:00:10 pause a
            paused a after 10:00:10
            -> accepted 1 next none
        10:01:30 takeover
        10:01:40 resume a
            resumed a after 10:00:10
            fired a 10:01:00 as r1.1 rev 1
            -> accepted 1 next 10:02:00
        "#,
    );
}

#[test]
fn a_deleted_job_can_only_be_defined_and_its_runs_cancelled() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:01:00
            fired a 10:01:00 as r1.1 rev 1
        10:01:10 delete a
            deleted a after 10:01:10
            -> accepted 1 next none
        10:01:11 delete a
            rejected 3 $subject
            -> rejected no such job
        10:01:12 pause a
            rejected 4 $subject
            -> rejected no such job
        10:01:13 resume a
            rejected 5 $subject
            -> rejected no such job
        10:01:14 trigger a
            rejected 6 $subject
            -> rejected no such job
        10:01:15 cancel a r1
            cancelled r1 by 7
            -> cancelled r1
        10:02:00 takeover
        10:02:10 define a {"every":"1m"}
            defined a rev 8 life 8 after 10:02:10 anchor 10:02:10
            -> accepted 8 next 10:03:10
        10:03:10
            fired a 10:03:10 as r2.1 rev 8
        "#,
    );
}

#[test]
fn a_held_slot_ends_with_a_pause() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:00:30 hold
        10:01:00
            held a 10:01:00 rev 1
        10:01:10 pause a
            held ended a 10:01:00
            skipped a 10:01:00 paused rev 1
            paused a after 10:01:10
            -> accepted 1 next none
        10:01:20 release
        10:01:30 resume a
            resumed a after 10:01:10
            -> accepted 1 next 10:02:00
        "#,
    );
}

#[test]
fn a_held_slot_ends_with_a_delete() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:00:30 hold
        10:01:00
            held a 10:01:00 rev 1
        10:01:10 delete a
            held ended a 10:01:00
            skipped a 10:01:00 deleted rev 1
            deleted a after 10:01:10
            -> accepted 1 next none
        10:01:20 release
        "#,
    );
}

#[test]
fn a_held_slot_keeps_its_revision_through_an_edit() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:00:30 hold
        10:01:00
            held a 10:01:00 rev 1
        10:01:10 define a {"every":"5m"}
            defined a rev 2 life 1 after 10:01:10 anchor 10:01:10
            -> accepted 2 next 10:06:10
        10:01:15 resume a
            -> accepted 2 next 10:06:10
        10:01:20 trigger a
            rejected 4 $
            -> rejected the cluster is on hold and fires nothing
        10:01:30 release
            held ended a 10:01:00
            fired a 10:01:00 as r1.1 rev 1
        "#,
    );
}

#[test]
fn a_define_may_name_the_revision_it_replaces() {
    check(
        r#"
        10:00:00 define!7 a {"every":"1m"}
            rejected 1 $header.Cron-Expected-Revision
            -> rejected another revision is in force
        10:00:00 define!0 a {"every":"1m"}
            defined a rev 2 life 2 after 10:00:00 anchor 10:00:00
            -> accepted 2 next 10:01:00
        10:00:01 define!0 a {"every":"2m"}
            rejected 3 $header.Cron-Expected-Revision
            -> rejected another revision is in force
        10:00:02 define!1 a {"every":"2m"}
            rejected 4 $header.Cron-Expected-Revision
            -> rejected another revision is in force
        10:00:03 define!two a {"every":"2m"}
            rejected 5 $header.Cron-Expected-Revision
            -> rejected not a revision
        10:00:04 define!2 a {"every":"2m"}
            defined a rev 6 life 2 after 10:00:04 anchor 10:00:04
            -> accepted 6 next 10:02:04
        10:00:05 pause a
            paused a after 10:00:05
            -> accepted 6 next none
        # A pause makes no revision.
        10:00:06 define!6 a {"every":"3m"}
            defined a rev 8 life 2 after 10:00:06 anchor 10:00:06 paused
            -> accepted 8 next none
        10:00:07 delete a
            deleted a after 10:00:07
            -> accepted 8 next none
        10:00:08 define!8 a {"every":"3m"}
            rejected 10 $header.Cron-Expected-Revision
            -> rejected another revision is in force
        10:00:09 define!0 a {"every":"3m"}
            defined a rev 11 life 11 after 10:00:09 anchor 10:00:09
            -> accepted 11 next 10:03:09
        "#,
    );
}

#[test]
fn an_instant_in_the_past_is_refused_unless_it_is_an_edit_of_another_field() {
    check(
        r#"
        10:00:00 define a {"at":"2026-03-01T09:59:59Z"}
            rejected 1 $.schedule.at
            -> rejected lies 1 second in the past and would never fire
        10:00:00 define a {"at":"2026-03-01T10:00:00Z"}
            rejected 2 $.schedule.at
            -> rejected lies less than a second in the past and would never fire
        10:00:00 define a {"at":"2026-03-01T10:05:00Z"}
            defined a rev 3 life 3 after 10:00:00
            -> accepted 3 next 10:05:00
        10:05:00
            fired a 10:05:00 as r1.1 rev 3
        10:06:00 define a {"at":"2026-03-01T10:05:00Z"} "title":"done"
            defined a rev 4 life 3 after 10:06:00
            -> accepted 4 next none
        10:07:00 define a {"at":"2026-03-01T10:04:00Z"}
            rejected 5 $.schedule.at
            -> rejected lies 3 minutes in the past and would never fire
        10:08:00 delete a
            deleted a after 10:08:00
            -> accepted 4 next none
        10:09:00 define a {"at":"2026-03-01T10:05:00Z"}
            rejected 7 $.schedule.at
            -> rejected lies 4 minutes in the past and would never fire
        "#,
    );
}

#[test]
fn an_instant_that_was_to_come_when_it_was_sent_fires_however_late_the_leader_reads_it() {
    check(
        r#"
        10:00:00
        10:30:00 @10:00:01 define a {"at":"2026-03-01T10:00:02Z"}
            defined a rev 1 life 1 after 10:00:01
            fired a 10:00:02 as r1.1 rev 1
            -> accepted 1 next none
        "#,
    );
}

#[test]
fn a_verdict_tells_three_slots_to_come() {
    let mut world = World::new(at("10:00:00"));
    let body = r#"{"task":"t","schedule":{"every":"1m"}}"#;
    world.publish(at("10:00:00"), "cron.define.n.a", body, None);
    let turn = world.turn();
    let Outcome::Accepted { next, .. } = &turn.batch.unwrap().replies[0].verdict.outcome else {
        panic!("not accepted")
    };
    assert_eq!(*next, ["10:01:00", "10:02:00", "10:03:00"].map(at));
}

#[test]
fn a_sender_without_an_inbox_hears_nothing() {
    let mut world = World::new(at("10:00:00"));
    world.publish(at("10:00:00"), "cron.pause.n.a", "", None);
    let mut waiting = world.commands.pop().unwrap();
    waiting.reply = None;
    world.take_over();
    world.leader.offer(waiting);
    let batch = world.turn().batch.unwrap();
    assert_eq!((batch.events.len(), batch.replies.len()), (1, 0));
}
