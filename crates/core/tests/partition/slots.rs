//! Which instants a job is due at, whatever its runs, its neighbours and its leaders do.

use crate::script::check;

#[test]
fn equal_jobs_are_two_jobs() {
    check(
        r#"
        10:00:30 define a {"cron":"* * * * *"}
            defined a rev 1 life 1 after 10:00:30
            -> accepted 1 next 10:01:00
        10:00:30 define b {"cron":"* * * * *"}
            defined b rev 2 life 2 after 10:00:30
            -> accepted 2 next 10:01:00
        10:01:00
            fired a 10:01:00 as r1.1 rev 1
            fired b 10:01:00 as r2.1 rev 2
        10:01:01 start r1
        10:01:02 succeed r1
        10:02:00
            fired a 10:02:00 as r3.1 rev 1
            skipped b 10:02:00 overlap rev 2
        "#,
    );
}

#[test]
fn a_zoned_job_keeps_its_instant_under_every_leader() {
    check(
        r#"
        10:00:00 define a {"cron":"0 8 * * *"} "time_zone":"Asia/Shanghai"
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 03-02T00:00:00
        15:59:00 takeover
        16:00:00
        23:59:59 takeover
        03-02T00:00:00
            fired a 03-02T00:00:00 as r1.1 rev 1
        03-02T00:00:01 start r1
        03-02T00:00:02 succeed r1
        03-02T00:00:03 takeover
        03-02T08:00:00 takeover
        03-03T00:00:00
            fired a 03-03T00:00:00 as r2.1 rev 1
        "#,
    );
}

#[test]
fn a_fixed_time_in_a_fold_fires_once_through_a_change_of_leader() {
    check(
        r#"
        10-24T12:00:00 define a {"cron":"30 2 * * *"} "time_zone":"Europe/Berlin"
            defined a rev 1 life 1 after 10-24T12:00:00
            -> accepted 1 next 10-25T00:30:00
        10-25T00:30:00
            fired a 10-25T00:30:00 as r1.1 rev 1
        10-25T00:30:01 start r1
        10-25T00:30:02 succeed r1
        10-25T01:00:00 takeover
        10-25T01:30:00
        10-26T01:30:00
            fired a 10-26T01:30:00 as r2.1 rev 1
        "#,
    );
}

#[test]
fn a_job_in_a_gap_fires_once_at_its_end_and_leaves_the_others_alone() {
    check(
        r#"
        03-28T12:00:00 define gap {"cron":"30 2 * * *"} "time_zone":"Europe/Berlin"
            defined gap rev 1 life 1 after 03-28T12:00:00
            -> accepted 1 next 03-29T01:00:00
        03-28T12:00:01 define other {"cron":"0 9 * * *"} "time_zone":"Europe/Berlin"
            defined other rev 2 life 2 after 03-28T12:00:01
            -> accepted 2 next 03-29T07:00:00
        03-29T00:59:59
        03-29T01:00:00
            fired gap 03-29T01:00:00 as r1.1 rev 1
        03-29T01:00:01 start r1
        03-29T01:00:02 succeed r1
        03-29T01:30:00
        03-29T07:00:00
            fired other 03-29T07:00:00 as r2.1 rev 2
        03-30T00:30:00
            fired gap 03-30T00:30:00 as r3.1 rev 1
        "#,
    );
}

#[test]
fn an_interval_counts_from_its_slot_and_not_from_the_end_of_a_run() {
    check(
        r#"
        10:00:00 define a {"every":"15m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:15:00
        10:15:00
            fired a 10:15:00 as r1.1 rev 1
        10:15:01 start r1
        10:20:01 succeed r1
        10:29:59
        10:30:00
            fired a 10:30:00 as r2.1 rev 1
        10:30:01 start r2
        10:35:36 succeed r2
        10:45:00
            fired a 10:45:00 as r3.1 rev 1
        "#,
    );
}

#[test]
fn a_trigger_moves_no_slot_of_a_daily_job() {
    check(
        r#"
        10:00:00 define a {"cron":"0 1 * * *"}
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 03-02T01:00:00
        11:30:00 trigger a
            fired a trigger 2 as r1.1 rev 1
            -> fired r1
        11:30:01 start r1
        11:30:02 succeed r1
        03-02T01:00:00
            fired a 03-02T01:00:00 as r2.1 rev 1
        "#,
    );
}

#[test]
fn a_loop_that_turns_every_61_seconds_neither_loses_nor_doubles_a_minute() {
    check(
        r#"
        10:00:30 define a {"cron":"* * * * *"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:30
            -> accepted 1 next 10:01:00
        10:01:57
            fired a 10:01:00 as r1.1 rev 1
        10:02:58
            fired a 10:02:00 as r2.1 rev 1
        10:03:59
            fired a 10:03:00 as r3.1 rev 1
        10:05:00
            fired a 10:04:00 as r4.1 rev 1
            fired a 10:05:00 as r5.1 rev 1
        10:06:01
            fired a 10:06:00 as r6.1 rev 1
        "#,
    );
}
