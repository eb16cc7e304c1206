//! Missed and late slots, the end of a pause, and restarts.

use crate::script::check;

#[test]
fn a_slot_fires_once_and_not_before_its_instant() {
    check(
        r#"
        10:00:10 define a {"every":"1m"}
        10:01:09.999
        10:01:10
        10:01:10.001
        "#,
    );
}

#[test]
fn a_hundred_and_one_missed_minutes_collapse_to_the_latest() {
    check(
        r#"
        10:00:30 define a {"cron":"* * * * *"}
        11:41:30 takeover
        11:42:00
        "#,
    );
}

#[test]
fn six_hours_of_a_five_minute_job_leave_one_fire() {
    check(
        r#"
        10:00:00 define a {"every":"5m"}
        16:02:00 takeover
        16:05:00
        "#,
    );
}

#[test]
fn a_daily_job_missed_by_an_hour_still_runs_that_day() {
    check(
        r#"
        11:30:00 define a {"cron":"30 12 * * *"}
        13:30:00 takeover
        03-02T12:30:00
        "#,
    );
}

#[test]
fn a_weekly_job_missed_by_two_days_waits_for_the_next_week() {
    check(
        r#"
        10:00:00 define a {"cron":"0 0 * * 1"}
        03-04T00:00:00 takeover
        03-09T00:00:00
        "#,
    );
}

#[test]
fn three_minutes_of_a_fifteen_second_job_leave_one_run() {
    check(
        r#"
        10:00:00 define a {"every":"15s"}
        10:03:05 takeover
        "#,
    );
}

#[test]
fn a_leap_of_a_day_is_counted_and_not_walked() {
    check(
        r#"
        10:00:00 define a {"every":"1s"} "overlap":"allow","retention":"1m"
        # The leader's clock leaps; only the last 61 slots are walked.
        03-02T10:00:00 define b {"every":"1h"}
        "#,
    );
}

#[test]
fn a_loop_that_stalls_for_a_minute_loses_no_slot() {
    check(
        r#"
        10:00:30 define a {"cron":"* * * * *"} "overlap":"allow"
        10:01:59
        10:03:00
        "#,
    );
}

#[test]
fn a_restart_touches_no_slot() {
    check(
        r#"
        10:00:30 define a {"every":"1h"}
        10:10:00 takeover
        10:20:00 takeover
        11:00:29 takeover
        11:00:30
        11:00:30 takeover
        "#,
    );
}

#[test]
fn a_leader_owes_what_was_due_while_nobody_led() {
    check(
        r#"
        10:00:00 define a {"every":"2m"}
        10:02:05 takeover
        "#,
    );
}

#[test]
fn the_end_of_a_pause_follows_the_misfire_rule() {
    check(
        r#"
        10:00:00 define hourly {"cron":"0 * * * *"}
        10:00:01 define weekly {"cron":"0 11 * * 0"}
        10:00:02 define every {"every":"10s"}
        10:30:00 pause hourly
        10:30:00 pause weekly
        10:30:00 pause every
        12:00:00
        # Within its period: the latest slot fires.
        12:30:00 resume hourly
        # A week has 24 hours at most for this.
        03-02T12:30:00 resume weekly
        # The slots of the last minute are late; the others are missed.
        03-02T12:30:00 resume every
        "#,
    );
}

#[test]
fn a_pause_between_two_slots_changes_nothing() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
        10:00:10 pause a
        10:00:20 resume a
        10:01:00
        "#,
    );
}

#[test]
fn a_new_life_of_a_name_owes_nothing_from_before() {
    check(
        r#"
        10:00:00 define a {"cron":"0 3 * * *"}
        03-02T03:00:00
        03-02T10:00:00 delete a
        03-05T10:00:30 define a {"cron":"* * * * *"}
        03-05T10:01:00
        "#,
    );
}

#[test]
fn slots_come_whether_or_not_anybody_works() {
    check(
        r#"
        10:00:30 define a {"cron":"* * * * *"} "overlap":"allow"
        10:01:00
        10:02:00
        10:03:00
        "#,
    );
}
