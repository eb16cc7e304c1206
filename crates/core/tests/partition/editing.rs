//! Commands and time: what is decided under which revision, and what an interval counts from.

use crate::script::check;

#[test]
fn an_edit_keeps_the_anchor_of_an_unchanged_interval() {
    check(
        r#"
        10:00:10 define a {"every":"1h"}
            defined a rev 1 life 1 after 10:00:10 anchor 10:00:10
            -> accepted 1 next 11:00:10
        10:20:00 define a {"every":"60m"} "title":"b"
            defined a rev 2 life 1 after 10:20:00 anchor 10:00:10
            -> accepted 2 next 11:00:10
        11:00:10
            fired a 11:00:10 as r1.1 rev 2
        11:20:00 define a {"every":"30m"}
            defined a rev 3 life 1 after 11:20:00 anchor 11:20:00
            -> accepted 3 next 11:50:00
        11:50:00
            skipped a 11:50:00 overlap rev 3
        "#,
    );
}

#[test]
fn a_trigger_and_a_pause_do_not_move_the_anchor() {
    check(
        r#"
        01:00:00 define a {"every":"1h"} "overlap":"allow"
            defined a rev 1 life 1 after 01:00:00 anchor 01:00:00
            -> accepted 1 next 02:00:00
        01:30:00 trigger a
            fired a trigger 2 as r1.1 rev 1
            -> fired r1
        01:40:00 pause a
            paused a after 01:40:00
            -> accepted 1 next none
        01:50:00 resume a
            resumed a after 01:40:00
            -> accepted 1 next 02:00:00
        02:00:00
            fired a 02:00:00 as r2.1 rev 1
        "#,
    );
}

#[test]
fn another_schedule_between_and_a_new_life_move_the_anchor() {
    check(
        r#"
        10:00:00 define a {"every":"1h"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 11:00:00
        10:10:00 define a {"cron":"0 0 1 1 *"}
            defined a rev 2 life 1 after 10:10:00
            -> accepted 2 next 2027-01-01T00:00:00
        10:20:00 define a {"every":"1h"}
            defined a rev 3 life 1 after 10:20:00 anchor 10:20:00
            -> accepted 3 next 11:20:00
        10:30:00 delete a
            deleted a after 10:30:00
            -> accepted 3 next none
        10:40:00 define a {"every":"1h"}
            defined a rev 5 life 5 after 10:40:00 anchor 10:40:00
            -> accepted 5 next 11:40:00
        "#,
    );
}

#[test]
fn slots_owed_at_a_command_are_decided_before_it() {
    check(
        r#"
        10:00:00 define edited {"cron":"* * * * *"}
            defined edited rev 1 life 1 after 10:00:00
            -> accepted 1 next 10:01:00
        10:00:00 define deleted {"cron":"* * * * *"}
            defined deleted rev 2 life 2 after 10:00:00
            -> accepted 2 next 10:01:00
        10:00:00 define paused {"cron":"* * * * *"}
            defined paused rev 3 life 3 after 10:00:00
            -> accepted 3 next 10:01:00
        10:01:02+ @10:01:01 define edited {"cron":"0 0 * * *"}
        10:01:02+ @10:01:01 delete deleted
        10:01:02 @10:01:01 pause paused
            fired edited 10:01:00 as r1.1 rev 1
            defined edited rev 4 life 1 after 10:01:01
            fired deleted 10:01:00 as r2.1 rev 2
            deleted deleted after 10:01:01
            fired paused 10:01:00 as r3.1 rev 3
            paused paused after 10:01:01
            -> accepted 4 next 03-02T00:00:00
            -> accepted 2 next none
            -> accepted 3 next none
        10:02:00
        "#,
    );
}

#[test]
fn slots_missed_before_a_command_stay_missed_under_the_old_revision() {
    check(
        r#"
        10:00:00 define a {"cron":"* * * * *"}
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 10:01:00
        # Nobody led from here to 11:00:30; the edit was sent at 10:05:30.
        11:00:30+ takeover
        11:00:30 @10:05:30 define a {"cron":"*/10 * * * *"}
            skipped a 10:01:00..10:05:00 x5 misfire rev 1
            defined a rev 2 life 1 after 10:05:30
            skipped a 10:10:00..10:50:00 x5 misfire rev 2
            fired a 11:00:00 as r1.1 rev 2
            -> accepted 2 next 11:10:00
        "#,
    );
}

#[test]
fn slots_of_a_new_revision_that_are_due_already_are_decided_with_it() {
    check(
        r#"
        10:00:00 define a {"cron":"0 0 * * *"}
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 03-02T00:00:00
        10:05:10 @10:04:50 define a {"cron":"* * * * *"}
            defined a rev 2 life 1 after 10:04:50
            fired a 10:05:00 as r1.1 rev 2
            -> accepted 2 next 10:06:00
        10:05:20 @10:04:55 define b {"cron":"* * * * *"}
            defined b rev 3 life 3 after 10:04:55
            fired b 10:05:00 as r2.1 rev 3
            -> accepted 3 next 10:06:00
        10:06:00
            skipped a 10:06:00 overlap rev 2
            skipped b 10:06:00 overlap rev 3
        "#,
    );
}

#[test]
fn a_slot_decided_before_the_edit_was_read_is_not_decided_again() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:01:00
            fired a 10:01:00 as r1.1 rev 1
        10:01:01 @10:00:59 define a {"every":"1m"} "title":"b"
            defined a rev 2 life 1 after 10:01:00 anchor 10:00:00
            -> accepted 2 next 10:02:00
        10:02:00
            skipped a 10:02:00 overlap rev 2
        10:02:01 @10:01:59 define a {"cron":"* * * * *"}
            defined a rev 3 life 1 after 10:02:00
            -> accepted 3 next 10:03:00
        10:03:00
            skipped a 10:03:00 overlap rev 3
        "#,
    );
}

#[test]
fn a_second_change_of_a_job_waits_for_the_next_batch() {
    check(
        r#"
        10:00:00+ define a {"every":"1m"}
        10:00:00+ trigger a
        10:00:00+ pause a
        10:00:00 define b {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            fired a trigger 2 as r1.1 rev 1
            -> accepted 1 next 10:01:00
            -> fired r1
            --
            paused a after 10:00:00
            defined b rev 4 life 4 after 10:00:00 anchor 10:00:00
            -> accepted 1 next none
            -> accepted 4 next 10:01:00
        "#,
    );
}

#[test]
fn a_run_keeps_its_revision_through_edits_and_the_end_of_its_job() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:01:00
            fired a 10:01:00 as r1.1 rev 1
        10:01:01 start r1
        10:01:10 define a {"every":"1m"} "title":"b"
            defined a rev 2 life 1 after 10:01:10 anchor 10:00:00
            -> accepted 2 next 10:02:00
        10:01:11 fail r1
        10:01:13
            fired a 10:01:00 as r1.2 rev 1
        10:01:14 start r1
        10:01:20 delete a
            deleted a after 10:01:20
            -> accepted 2 next none
        10:01:21 fail r1
        10:01:24
            fired a 10:01:00 as r1.3 rev 1
        10:01:25 start r1
        10:01:26 succeed r1
        "#,
    );
}

#[test]
fn a_retry_of_an_old_life_is_no_run_of_the_new_one() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:01:00
            fired a 10:01:00 as r1.1 rev 1
        10:01:01 start r1
        10:01:02 fail r1 3m
        10:01:10 delete a
            deleted a after 10:01:10
            -> accepted 1 next none
        10:01:20 define a {"every":"1m"}
            defined a rev 3 life 3 after 10:01:20 anchor 10:01:20
            -> accepted 3 next 10:02:20
        # The old life's run is live until it has a result.
        10:02:20
            skipped a 10:02:20 overlap rev 3
        10:03:20
            skipped a 10:03:20 overlap rev 3
        10:04:04
            fired a 10:01:00 as r1.2 rev 1
        10:04:05 start r1
        10:04:06 succeed r1
        10:04:20
            fired a 10:04:20 as r2.1 rev 3
        10:04:21 start r2
        10:04:22 succeed r2
        10:05:20
            fired a 10:05:20 as r3.1 rev 3
        "#,
    );
}
