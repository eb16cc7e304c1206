//! Each command in each state of its job.

use cronstream_schemas::verdict::Outcome;

use crate::script::{at, check};
use crate::world::World;

#[test]
fn a_name_that_is_not_defined_can_only_be_defined() {
    check(
        r#"
        10:00:00 delete a
        10:00:00 pause a
        10:00:00 resume a
        10:00:00 trigger a
        10:00:00 raw cron.cancel.n.a {"run":"01a31bbc-507b-8dab-b5ee-be7b4b3cf84b"}
        10:00:00 define a {"every":"1m"}
        "#,
    );
}

#[test]
fn an_active_job_takes_every_command() {
    check(
        r#"
        10:00:00 define a {"every":"1m"} "overlap":"allow"
        10:00:01 define a {"every":"1m"} "overlap":"allow","title":"b"
        10:00:02 resume a
        10:00:03 trigger a
        10:00:04 cancel a r1
        10:00:05 pause a
        10:00:06 resume a
        10:00:07 delete a
        10:01:00
        "#,
    );
}

#[test]
fn a_paused_job_fires_nothing_but_triggers() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
        10:00:10 pause a
        10:00:20 pause a
        10:01:00
        10:01:10 trigger a
        10:01:20 cancel a r1
        # A new revision stays paused; what was due under the old one is skipped.
        10:01:30 define a {"every":"1m"} "title":"b"
        10:02:30 delete a
        10:03:00 resume a
        "#,
    );
}

#[test]
fn a_pause_survives_its_leader() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
        10:00:10 pause a
        10:01:30 takeover
        10:01:40 resume a
        "#,
    );
}

#[test]
fn a_deleted_job_can_only_be_defined_and_its_runs_cancelled() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
        10:01:00
        10:01:10 delete a
        10:01:11 delete a
        10:01:12 pause a
        10:01:13 resume a
        10:01:14 trigger a
        10:01:15 cancel a r1
        10:02:00 takeover
        10:02:10 define a {"every":"1m"}
        10:03:10
        "#,
    );
}

#[test]
fn a_held_slot_ends_with_a_pause() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
        10:00:30 hold
        10:01:00
        10:01:10 pause a
        10:01:20 release
        10:01:30 resume a
        "#,
    );
}

#[test]
fn a_held_slot_ends_with_a_delete() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
        10:00:30 hold
        10:01:00
        10:01:10 delete a
        10:01:20 release
        "#,
    );
}

#[test]
fn a_held_slot_keeps_its_revision_through_an_edit() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
        10:00:30 hold
        10:01:00
        10:01:10 define a {"every":"5m"}
        10:01:15 resume a
        10:01:20 trigger a
        10:01:30 release
        "#,
    );
}

#[test]
fn a_define_may_name_the_revision_it_replaces() {
    check(
        r#"
        10:00:00 define!7 a {"every":"1m"}
        10:00:00 define!0 a {"every":"1m"}
        10:00:01 define!0 a {"every":"2m"}
        10:00:02 define!1 a {"every":"2m"}
        10:00:03 define!two a {"every":"2m"}
        10:00:04 define!2 a {"every":"2m"}
        10:00:05 pause a
        # A pause makes no revision.
        10:00:06 define!6 a {"every":"3m"}
        10:00:07 delete a
        10:00:08 define!8 a {"every":"3m"}
        10:00:09 define!0 a {"every":"3m"}
        "#,
    );
}

#[test]
fn an_instant_in_the_past_is_refused_unless_it_is_an_edit_of_another_field() {
    check(
        r#"
        10:00:00 define a {"at":"2026-03-01T09:59:59Z"}
        10:00:00 define a {"at":"2026-03-01T10:00:00Z"}
        10:00:00 define a {"at":"2026-03-01T10:05:00Z"}
        10:05:00
        10:06:00 define a {"at":"2026-03-01T10:05:00Z"} "title":"done"
        10:07:00 define a {"at":"2026-03-01T10:04:00Z"}
        10:08:00 delete a
        10:09:00 define a {"at":"2026-03-01T10:05:00Z"}
        "#,
    );
}

#[test]
fn an_instant_that_was_to_come_when_it_was_sent_fires_however_late_the_leader_reads_it() {
    check(
        r#"
        10:00:00
        10:30:00 @10:00:01 define a {"at":"2026-03-01T10:00:02Z"}
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
