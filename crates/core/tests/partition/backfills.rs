//! Backfills: past slots run again, each under the revision of then.

use cronstream_core::backfill::Unread;
use cronstream_schemas::verdict::Outcome;

use crate::script::{at, check, play};
use crate::world::World;

/// B159: a daily job became hourly; a backfill of yesterday runs yesterday's one slot.
#[test]
fn a_backfill_takes_the_revision_of_then() {
    check(
        r#"
        02-27T12:00:00 define a {"cron":"0 3 * * *"}
            defined a rev 1 life 1 after 02-27T12:00:00
            -> accepted 1 next 02-28T03:00:00
        02-28T03:00:00
            fired a 02-28T03:00:00 as r1.1 rev 1
        02-28T03:00:01 start r1
        02-28T03:00:02 succeed r1
        03:00:00
            fired a 03:00:00 as r2.1 rev 1
        03:00:01 start r2
        03:00:02 succeed r2
        08:30:00 define a {"cron":"0 * * * *"}
            defined a rev 2 life 1 after 08:30:00
            -> accepted 2 next 09:00:00
        08:40:00 backfill a 02-28T00:00:00 02-28T23:59:59
            held a 02-28T03:00:00..02-28T03:00:00 x1 backfill rev 1
            -> backfilling 1
            --
            fired a backfill 3 02-28T03:00:00 as r3.1 rev 1
            held ended a 02-28T03:00:00..
        "#,
    );
}

#[test]
fn a_backfill_over_an_edit_has_a_range_for_each_revision() {
    check(
        r#"
        10:00:00 define a {"every":"10m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:10:00
            fired a 10:10:00 as r1.1 rev 1
        10:12:00 start r1
        10:13:00 succeed r1
        10:15:00 define a {"every":"15m"} "params":{"n":2}
            defined a rev 2 life 1 after 10:15:00 anchor 10:15:00
            -> accepted 2 next 10:30:00
        10:30:00
            fired a 10:30:00 as r2.1 rev 2
        10:31:00 start r2
        10:32:00 succeed r2
        10:40:00 backfill a 10:00:00 10:40:00
            held a 10:10:00..10:10:00 x1 backfill rev 1
            held a 10:30:00..10:30:00 x1 backfill rev 2
            -> backfilling 2
            --
            fired a backfill 3 10:10:00 as r3.1 rev 1
            held ended a 10:10:00..
        10:41:00 start r3
        10:42:00 takeover
        10:43:00 succeed r3
            fired a backfill 3 10:30:00 as r4.1 rev 2
            held ended a 10:30:00..
        "#,
    );
}

#[test]
fn a_slot_may_be_backfilled_again_by_another_command() {
    check(
        r#"
        10:00:00 define a {"every":"10m"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:10:00
            fired a 10:10:00 as r1.1 rev 1
        10:11:00+ backfill a 10:10:00 10:10:00
        10:11:00 backfill a 10:10:00 10:10:00
            held a 10:10:00..10:10:00 x1 backfill rev 1
            held a 10:10:00..10:10:00 x1 backfill rev 1
            -> backfilling 1
            -> backfilling 1
            --
            fired a backfill 2 10:10:00 as r2.1 rev 1
            held ended a 10:10:00..
            fired a backfill 3 10:10:00 as r3.1 rev 1
            held ended a 10:10:00..
        "#,
    );
}

#[test]
fn a_delete_ends_a_backfill_and_no_slot_gets_a_second_outcome_of_the_schedule() {
    check(
        r#"
        10:00:00 define a {"every":"10m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:10:00
            fired a 10:10:00 as r1.1 rev 1
        10:21:00
            skipped a 10:20:00 overlap rev 1
        10:22:00 backfill a 10:00:00 10:20:00
            held a 10:10:00..10:20:00 x2 backfill rev 1
            -> backfilling 2
        10:23:00 delete a
            held ended a 10:10:00..
            skipped a 10:10:00..10:20:00 x2 deleted backfill 2 rev 1
            deleted a after 10:23:00
            -> accepted 1 next none
        "#,
    );
}

#[test]
fn what_cannot_be_backfilled_is_rejected_with_what_to_do() {
    check(
        r#"
        10:00:00 backfill a 09:00:00 09:10:00
            rejected 1 $subject
            -> rejected no such job
        10:00:00 define a {"every":"10m"}
            defined a rev 2 life 2 after 10:00:00 anchor 10:00:00
            -> accepted 2 next 10:10:00
        10:01:00 backfill a 10:00:00 10:10:00
            rejected 3 $.to
            -> rejected lies in the future
        10:02:00 backfill a 09:00:00 10:02:00
            rejected 4 $.from
            -> rejected n/a had no slot from 2026-03-01T09:00:00.000Z through 2026-03-01T10:02:00.000Z
        10:03:00 define b {"fixed_delay":"1m"}
            defined b rev 5 life 5 after 10:03:00
            -> accepted 5 next 10:04:00
        10:03:30 backfill b 10:00:00 10:03:30
            rejected 6 $.from
            -> rejected revision 5 has a fixed delay, which has no slots before
        "#,
    );
}

#[test]
fn ten_thousand_slots_are_the_most_and_a_pause_does_not_keep_them_from_running() {
    check(
        r#"
        10:00:00 define a {"every":"1s"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:00:01
        10:00:00.500 pause a
            paused a after 10:00:00.500
            -> accepted 1 next none
        12:46:41 backfill a 10:00:00 12:46:41
            rejected 3 $.to
            -> rejected 10001 slots
        12:46:41 backfill a 10:00:00 12:46:40
            held a 10:00:01..12:46:40 x10000 backfill rev 1
            -> backfilling 10000
            --
            fired a backfill 4 10:00:01 as r1.1 rev 1
            held a 10:00:02..12:46:40 x9999 backfill rev 1
        "#,
    );
}

#[test]
fn a_history_is_asked_for_once_and_a_later_command_waits_for_it() {
    let mut world = play(
        r#"
        10:00:00 define a {"every":"10m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        "#,
    );
    world.now = at("10:12:00");
    let body = r#"{"from":"2026-03-01T10:00:00Z","to":"2026-03-01T10:11:00Z"}"#;
    world.publish(world.now, "cron.backfill.n.a", body, None);
    world.publish(world.now, "cron.pause.n.a", "", None);
    let turn = world.turn();
    let read = turn.history.expect("a backfill needs the history");
    assert_eq!((read.command, read.job.to_string().as_str()), (2, "n/a"));
    assert_eq!(world.turn().history, None);
    // One that was asked for another command is not taken for it.
    world.leader.history_read(7, Ok(Vec::new()));
    assert_eq!(world.turn().history, None);
    assert_eq!(world.leader.commands_through(), 1);
}

#[test]
fn a_new_life_backfills_nothing_of_the_old_one() {
    check(
        r#"
        10:00:00 define a {"every":"10m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:10:00
            fired a 10:10:00 as r1.1 rev 1
        10:11:00 delete a
            deleted a after 10:11:00
            -> accepted 1 next none
        10:12:00 define a {"every":"5m"}
            defined a rev 3 life 3 after 10:12:00 anchor 10:12:00
            -> accepted 3 next 10:17:00
        10:17:00
            skipped a 10:17:00 overlap rev 3
        10:18:00 backfill a 10:00:00 10:18:00
            held a 10:17:00..10:17:00 x1 backfill rev 3
            -> backfilling 1
        "#,
    );
}

#[test]
fn a_hundred_entries_of_a_job_are_the_most_that_wait() {
    let mut world = play(
        r#"
        10:00:00 define a {"every":"10m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:05:00 hold
        10:10:30
            held a 10:10:00 rev 1
        "#,
    );
    let mut told = Vec::new();
    for _ in 0..101 {
        let body = r#"{"from":"2026-03-01T10:00:00Z","to":"2026-03-01T10:10:00Z"}"#;
        world.publish(world.now, "cron.backfill.n.a", body, None);
        world.settle(|_, turn, _| {
            let replies = turn.batch.iter().flat_map(|batch| &batch.replies);
            told.extend(replies.map(|reply| reply.verdict.outcome.clone()));
        });
    }
    let is_taken = |outcome: &&Outcome| matches!(outcome, Outcome::Backfilling { slots: 1 });
    assert_eq!((told.len(), told.iter().filter(is_taken).count()), (101, 99));
    assert_eq!(world.leader.held().count(), 100);
}

/// Commands of the partition wait for the history: what is not told in time must not hold them up.
#[test]
fn a_history_that_cannot_be_read_rejects_the_backfill_and_holds_up_nothing_behind_it() {
    let said = |unread: Option<Unread>, from: &str| {
        let mut world = World::new(at("10:00:00"));
        let body = r#"{"task":"t","schedule":{"every":"10m"},"overlap":"allow"}"#;
        world.publish(world.now, "cron.define.n.a", body, None);
        world.settle(|_, _, _| ());
        world.now = at("11:00:00");
        let stretch = format!(r#"{{"from":"{}","to":"{}"}}"#, at(from), at("10:59:00"));
        world.publish(world.now, "cron.backfill.n.a", &stretch, None);
        world.publish(world.now, "cron.trigger.n.a", "", None);
        let mut outcomes = Vec::new();
        for _ in 0..100 {
            let turn = world.turn();
            if let Some(read) = &turn.history {
                let unread = unread.expect("a history is asked for");
                world.leader.history_read(read.command, Err(unread));
            }
            if let Some(batch) = &turn.batch {
                let replies = batch.replies.iter();
                outcomes.extend(replies.map(|reply| reply.verdict.outcome.clone()));
                world.store(batch);
            }
        }
        outcomes
    };
    for (unread, problem) in [
        (Unread::NoAnswer, "the job's history could not be read in time"),
        (Unread::TooLong, "too many revisions lie about it to be read"),
    ] {
        let outcomes = said(Some(unread), "09:00:00");
        let [Outcome::Rejected { faults, .. }, Outcome::Fired { .. }] = &outcomes[..] else {
            panic!("{outcomes:?}")
        };
        assert_eq!(faults[0].problem, problem);
        assert!(faults[0].expected.contains("2026-03-01T10:00:00"), "{}", faults[0].expected);
    }
    // The revision in force owns the whole stretch: nothing is read.
    let outcomes = said(None, "10:20:00");
    assert!(matches!(outcomes[0], Outcome::Backfilling { slots: 4 }), "{outcomes:?}");
}
