//! Missed and late slots, the end of a pause, and restarts.

use crate::script::check;

#[test]
fn a_slot_fires_once_and_not_before_its_instant() {
    check(
        r#"
        10:00:10 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:10 anchor 10:00:10
            -> accepted 1 next 10:01:10
        10:01:09.999
        10:01:10
            fired a 10:01:10 as r1.1 rev 1
        10:01:10.001
        "#,
    );
}

#[test]
fn a_hundred_and_one_missed_minutes_collapse_to_the_latest() {
    check(
        r#"
        10:00:30 define a {"cron":"* * * * *"}
            defined a rev 1 life 1 after 10:00:30
            -> accepted 1 next 10:01:00
        11:41:30 takeover
            skipped a 10:01:00..11:40:00 x100 misfire rev 1
            fired a 11:41:00 as r1.1 rev 1
        11:42:00
            skipped a 11:42:00 overlap rev 1
        "#,
    );
}

#[test]
fn six_hours_of_a_five_minute_job_leave_one_fire() {
    check(
        r#"
        10:00:00 define a {"every":"5m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:05:00
        16:02:00 takeover
            skipped a 10:05:00..15:55:00 x71 misfire rev 1
            fired a 16:00:00 as r1.1 rev 1
        16:05:00
            skipped a 16:05:00 overlap rev 1
        "#,
    );
}

#[test]
fn a_daily_job_missed_by_an_hour_still_runs_that_day() {
    check(
        r#"
        11:30:00 define a {"cron":"30 12 * * *"}
            defined a rev 1 life 1 after 11:30:00
            -> accepted 1 next 12:30:00
        13:30:00 takeover
            fired a 12:30:00 as r1.1 rev 1
        13:30:01 start r1
        13:30:02 succeed r1
        03-02T12:30:00
            fired a 03-02T12:30:00 as r2.1 rev 1
        "#,
    );
}

#[test]
fn a_weekly_job_missed_by_two_days_waits_for_the_next_week() {
    check(
        r#"
        10:00:00 define a {"cron":"0 0 * * 1"}
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 03-02T00:00:00
        03-04T00:00:00 takeover
            skipped a 03-02T00:00:00 misfire rev 1
        03-09T00:00:00
            fired a 03-09T00:00:00 as r1.1 rev 1
        "#,
    );
}

#[test]
fn three_minutes_of_a_fifteen_second_job_leave_one_run() {
    check(
        r#"
        10:00:00 define a {"every":"15s"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:00:15
        10:03:05 takeover
            skipped a 10:00:15..10:02:00 x8 misfire rev 1
            fired a 10:02:15 as r1.1 rev 1
            skipped a 10:02:30 overlap rev 1
            skipped a 10:02:45 overlap rev 1
            skipped a 10:03:00 overlap rev 1
        "#,
    );
}

#[test]
fn a_leap_of_a_day_is_counted_and_not_walked() {
    check(
        r#"
        10:00:00 define a {"every":"20s"} "retention":"1m"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:00:20
        10:00:20
            fired a 10:00:20 as r1.1 rev 1
        10:00:21 start r1
        10:00:22 succeed r1
        03-02T10:00:00
            skipped a 10:00:40..03-02T09:58:40 x4315 misfire rev 1
            fired a 03-02T09:59:00 as r2.1 rev 1
            skipped a 03-02T09:59:20 overlap rev 1
            skipped a 03-02T09:59:40 overlap rev 1
            skipped a 03-02T10:00:00 overlap rev 1
        "#,
    );
}

#[test]
fn a_loop_that_stalls_for_a_minute_loses_no_slot() {
    check(
        r#"
        10:00:30 define a {"cron":"* * * * *"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:30
            -> accepted 1 next 10:01:00
        10:01:59
            fired a 10:01:00 as r1.1 rev 1
        10:03:00
            fired a 10:02:00 as r2.1 rev 1
            fired a 10:03:00 as r3.1 rev 1
        "#,
    );
}

#[test]
fn a_restart_touches_no_slot() {
    check(
        r#"
        10:00:30 define a {"every":"1h"}
            defined a rev 1 life 1 after 10:00:30 anchor 10:00:30
            -> accepted 1 next 11:00:30
        10:10:00 takeover
        10:20:00 takeover
        11:00:29 takeover
        11:00:30
            fired a 11:00:30 as r1.1 rev 1
        11:00:30 takeover
        "#,
    );
}

#[test]
fn a_leader_owes_what_was_due_while_nobody_led() {
    check(
        r#"
        10:00:00 define a {"every":"2m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:02:00
        10:02:05 takeover
            fired a 10:02:00 as r1.1 rev 1
        "#,
    );
}

#[test]
fn the_end_of_a_pause_follows_the_misfire_rule() {
    check(
        r#"
        10:00:00 define hourly {"cron":"0 * * * *"}
            defined hourly rev 1 life 1 after 10:00:00
            -> accepted 1 next 11:00:00
        10:00:01 define weekly {"cron":"0 11 * * 0"}
            defined weekly rev 2 life 2 after 10:00:01
            -> accepted 2 next 11:00:00
        10:00:02 define every {"every":"15s"}
            defined every rev 3 life 3 after 10:00:02 anchor 10:00:02
            -> accepted 3 next 10:00:17
        10:00:05 pause hourly
            paused hourly after 10:00:05
            -> accepted 1 next none
        10:00:05 pause weekly
            paused weekly after 10:00:05
            -> accepted 2 next none
        10:00:05 pause every
            paused every after 10:00:05
            -> accepted 3 next none
        12:00:00
        # Within its period: the latest slot fires.
        12:30:00 resume hourly
            resumed hourly after 10:00:05
            skipped hourly 11:00:00 misfire rev 1
            fired hourly 12:00:00 as r1.1 rev 1
            -> accepted 1 next 13:00:00
        # The slots of the last minute are late; the others are missed.
        12:30:10 resume every
            resumed every after 10:00:05
            skipped every 10:00:17..12:29:02 x596 misfire rev 3
            fired every 12:29:17 as r2.1 rev 3
            skipped every 12:29:32 overlap rev 3
            skipped every 12:29:47 overlap rev 3
            skipped every 12:30:02 overlap rev 3
            -> accepted 3 next 12:30:17
        # However long the period, 24 hours are the most.
        03-02T11:00:01 resume weekly
            resumed weekly after 10:00:05
            skipped weekly 11:00:00 misfire rev 2
            skipped every 12:30:17..03-02T10:58:47 x5395 misfire rev 3
            skipped every 03-02T10:59:02 overlap rev 3
            skipped every 03-02T10:59:17 overlap rev 3
            skipped every 03-02T10:59:32 overlap rev 3
            skipped every 03-02T10:59:47 overlap rev 3
            skipped hourly 13:00:00..03-02T10:00:00 x22 misfire rev 1
            skipped hourly 03-02T11:00:00 overlap rev 1
            -> accepted 2 next 03-08T11:00:00
        "#,
    );
}

#[test]
fn a_pause_between_two_slots_changes_nothing() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:00:10 pause a
            paused a after 10:00:10
            -> accepted 1 next none
        10:00:20 resume a
            resumed a after 10:00:10
            -> accepted 1 next 10:01:00
        10:01:00
            fired a 10:01:00 as r1.1 rev 1
        "#,
    );
}

#[test]
fn a_new_life_of_a_name_owes_nothing_from_before() {
    check(
        r#"
        10:00:00 define a {"cron":"0 3 * * *"}
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 03-02T03:00:00
        03-02T03:00:00
            fired a 03-02T03:00:00 as r1.1 rev 1
        03-02T10:00:00 delete a
            deleted a after 03-02T10:00:00
            -> accepted 1 next none
        03-05T10:00:30 define a {"cron":"* * * * *"}
            defined a rev 3 life 3 after 03-05T10:00:30
            -> accepted 3 next 03-05T10:01:00
            expired r1
        03-05T10:01:00
            fired a 03-05T10:01:00 as r2.1 rev 3
        "#,
    );
}

#[test]
fn slots_come_whether_or_not_anybody_works() {
    check(
        r#"
        10:00:30 define a {"cron":"* * * * *"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:30
            -> accepted 1 next 10:01:00
        10:01:00
            fired a 10:01:00 as r1.1 rev 1
        10:02:00
            fired a 10:02:00 as r2.1 rev 1
        10:03:00
            fired a 10:03:00 as r3.1 rev 1
        "#,
    );
}
