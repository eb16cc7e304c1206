//! Commands and time: what is decided under which revision, and what an interval counts from.

use crate::script::check;

#[test]
fn an_edit_keeps_the_anchor_of_an_unchanged_interval() {
    check(
        r#"
        10:00:10 define a {"every":"1h"}
        10:20:00 define a {"every":"60m"} "title":"b"
        11:00:10
        11:20:00 define a {"every":"30m"}
        11:50:00
        "#,
    );
}

#[test]
fn a_trigger_and_a_pause_do_not_move_the_anchor() {
    check(
        r#"
        01:00:00 define a {"every":"1h"} "overlap":"allow"
        01:30:00 trigger a
        01:40:00 pause a
        01:50:00 resume a
        02:00:00
        "#,
    );
}

#[test]
fn another_schedule_between_and_a_new_life_move_the_anchor() {
    check(
        r#"
        10:00:00 define a {"every":"1h"}
        10:10:00 define a {"cron":"0 0 1 1 *"}
        10:20:00 define a {"every":"1h"}
        10:30:00 delete a
        10:40:00 define a {"every":"1h"}
        "#,
    );
}

#[test]
fn slots_owed_at_a_command_are_decided_before_it() {
    check(
        r#"
        10:00:00 define edited {"cron":"* * * * *"}
        10:00:00 define deleted {"cron":"* * * * *"}
        10:00:00 define paused {"cron":"* * * * *"}
        10:01:02+ @10:01:01 define edited {"cron":"0 0 * * *"}
        10:01:02+ @10:01:01 delete deleted
        10:01:02 @10:01:01 pause paused
        10:02:00
        "#,
    );
}

#[test]
fn slots_missed_before_a_command_stay_missed_under_the_old_revision() {
    check(
        r#"
        10:00:00 define a {"cron":"* * * * *"}
        # Nobody led from here to 11:00:30; the edit was sent at 10:05:30.
        11:00:30+ takeover
        11:00:30 @10:05:30 define a {"cron":"*/10 * * * *"}
        "#,
    );
}

#[test]
fn slots_of_a_new_revision_that_are_due_already_are_decided_with_it() {
    check(
        r#"
        10:00:00 define a {"cron":"0 0 * * *"}
        10:05:10 @10:04:50 define a {"cron":"* * * * *"}
        10:05:20 @10:04:55 define b {"cron":"* * * * *"}
        10:06:00
        "#,
    );
}

#[test]
fn a_slot_decided_before_the_edit_was_read_is_not_decided_again() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
        10:01:00
        10:01:01 @10:00:59 define a {"every":"1m"} "title":"b"
        10:02:00
        10:02:01 @10:01:59 define a {"cron":"* * * * *"}
        10:03:00
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
        "#,
    );
}

#[test]
fn a_run_keeps_its_revision_through_edits_and_the_end_of_its_job() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
        10:01:00
        10:01:01 start r1
        10:01:10 define a {"every":"1m"} "title":"b"
        10:01:11 fail r1
        10:01:13
        10:01:14 start r1
        10:01:20 delete a
        10:01:21 fail r1
        10:01:24
        10:01:25 start r1
        10:01:26 succeed r1
        "#,
    );
}
