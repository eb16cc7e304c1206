//! Hold: a cluster that folds and accounts, and fires nothing until it is released.

use crate::script::check;

#[test]
fn held_slots_collapse_to_the_latest_and_it_fires_at_the_release() {
    check(
        r#"
        10:00:00 define a {"every":"10m"}
        10:00:00 define b {"cron":"0 3 * * *"}
        10:05:00 hold
        10:10:00
        10:20:00
        10:25:00 takeover
        10:29:00 release
        10:30:00
        "#,
    );
}

#[test]
fn a_held_slot_that_is_too_late_is_skipped_at_the_release() {
    check(
        r#"
        10:00:00 define a {"cron":"0 11 * * *"}
        10:00:00 hold
        11:00:00
        03-02T10:59:59
        03-02T11:00:00
        03-03T11:00:01 release
        "#,
    );
}

#[test]
fn a_slot_held_longer_than_it_may_be_late_is_skipped() {
    check(
        r#"
        10:00:00 define a {"at":"2026-03-01T11:00:00Z"}
        10:00:00 hold
        11:00:00
        03-02T11:00:01 release
        "#,
    );
}

#[test]
fn a_held_slot_overlaps_a_live_run() {
    check(
        r#"
        10:00:00 define a {"every":"10m"}
        10:10:00
        10:10:01 hold
        10:20:00
        10:21:00 release
        "#,
    );
}

#[test]
fn a_hold_after_an_outage_accounts_for_what_was_missed() {
    check(
        r#"
        10:00:00 define a {"every":"10m"}
        13:05:00+ hold
        13:05:00 takeover
        13:06:00 release
        "#,
    );
}

#[test]
fn retries_and_triggers_wait_and_ends_do_not() {
    check(
        r#"
        10:00:00 define a {"every":"10h"} "start_within":"1m","overlap":"allow"
        10:00:01+ trigger a
        10:00:01 trigger a
        10:00:02 start r1
        10:00:03 fail r1
        10:00:03.050 hold
        10:00:30
        10:00:40 trigger a
        10:02:00
        10:03:00 release
        "#,
    );
}

#[test]
fn a_new_life_inherits_no_held_slot() {
    check(
        r#"
        10:00:00 define a {"every":"10m"}
        10:05:00 hold
        10:10:00
        10:11:00 delete a
        10:12:00 define a {"every":"10m"}
        10:13:00 release
        10:22:00
        "#,
    );
}

#[test]
fn each_revision_of_a_held_job_ends_the_slot_before() {
    check(
        r#"
        10:00:00 define a {"every":"10m"}
        10:05:00 hold
        10:10:00
        10:11:00 define a {"every":"5m"}
        10:16:00
        10:17:00 release
        "#,
    );
}
