//! Hold: a cluster that folds and accounts, and fires nothing until it is released.

use crate::script::check;

#[test]
fn held_slots_collapse_to_the_latest_and_it_fires_at_the_release() {
    check(
        r#"
        10:00:00 define a {"every":"10m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:00:00 define b {"cron":"0 3 * * *"}
            defined b rev 2 life 2 after 10:00:00
            -> accepted 2 next 03-02T03:00:00
        10:05:00 hold
        10:10:00
            held a 10:10:00 rev 1
        10:20:00
            held ended a 10:10:00
            skipped a 10:10:00 misfire rev 1
            held a 10:20:00 rev 1
        10:25:00 takeover
        10:29:00 release
            held ended a 10:20:00
            fired a 10:20:00 as r1.1 rev 1
        10:30:00
            skipped a 10:30:00 overlap rev 1
        "#,
    );
}

#[test]
fn slots_owed_at_the_start_of_a_hold_are_never_held_and_ended_in_one_batch() {
    check(
        r#"
        10:00:00 define a {"every":"10s"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:00:10
        10:00:05 hold
        10:00:25
            skipped a 10:00:10 misfire rev 1
            held a 10:00:20 rev 1
        10:00:45
            held ended a 10:00:20
            skipped a 10:00:20 misfire rev 1
            skipped a 10:00:30 misfire rev 1
            held a 10:00:40 rev 1
        10:00:55 pause a
            held ended a 10:00:40
            skipped a 10:00:40 misfire rev 1
            skipped a 10:00:50 paused rev 1
            paused a after 10:00:55
            -> accepted 1 next none
        "#,
    );
}

#[test]
fn a_held_slot_makes_way_for_the_next() {
    check(
        r#"
        10:00:00 define a {"cron":"0 11 * * *"}
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 11:00:00
        10:00:00 hold
        11:00:00
            held a 11:00:00 rev 1
        03-02T10:59:59
        03-02T11:00:00
            held ended a 11:00:00
            skipped a 11:00:00 misfire rev 1
            held a 03-02T11:00:00 rev 1
        03-03T11:00:01 release
            held ended a 03-02T11:00:00
            skipped a 03-02T11:00:00 misfire rev 1
            fired a 03-03T11:00:00 as r1.1 rev 1
        "#,
    );
}

#[test]
fn a_slot_held_longer_than_it_may_be_late_is_skipped() {
    check(
        r#"
        10:00:00 define a {"at":"2026-03-01T11:00:00Z"}
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 11:00:00
        10:00:00 hold
        11:00:00
            held a 11:00:00 rev 1
        03-02T11:00:01 release
            held ended a 11:00:00
            skipped a 11:00:00 misfire rev 1
        "#,
    );
}

#[test]
fn a_held_slot_overlaps_a_live_run() {
    check(
        r#"
        10:00:00 define a {"every":"10m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:10:00
            fired a 10:10:00 as r1.1 rev 1
        10:10:01 hold
        10:20:00
            held a 10:20:00 rev 1
        10:21:00 release
            held ended a 10:20:00
            skipped a 10:20:00 overlap rev 1
        "#,
    );
}

#[test]
fn a_hold_after_an_outage_accounts_for_what_was_missed() {
    check(
        r#"
        10:00:00 define a {"every":"10m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        13:05:00+ hold
        13:05:00 takeover
            skipped a 10:10:00..12:50:00 x17 misfire rev 1
            held a 13:00:00 rev 1
        13:06:00 release
            held ended a 13:00:00
            fired a 13:00:00 as r1.1 rev 1
        "#,
    );
}

#[test]
fn retries_and_triggers_wait_and_ends_do_not() {
    check(
        r#"
        10:00:00 define a {"every":"10h"} "start_within":"1m","overlap":"allow"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 20:00:00
        10:00:01+ trigger a
        10:00:01 trigger a
            fired a trigger 2 as r1.1 rev 1
            fired a trigger 3 as r2.1 rev 1
            -> fired r1
            -> fired r2
        10:00:02 start r1
        10:00:03 fail r1
        10:00:03.050 hold
        10:00:30
        10:00:40 trigger a
            rejected 4 $
            -> rejected the cluster is on hold and fires nothing
        10:02:00
            expired r2
        10:03:00 release
            fired a trigger 2 as r1.2 rev 1
        "#,
    );
}

#[test]
fn a_new_life_inherits_no_held_slot() {
    check(
        r#"
        10:00:00 define a {"every":"10m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:05:00 hold
        10:10:00
            held a 10:10:00 rev 1
        10:11:00 delete a
            held ended a 10:10:00
            skipped a 10:10:00 deleted rev 1
            deleted a after 10:11:00
            -> accepted 1 next none
        10:12:00 define a {"every":"10m"}
            defined a rev 3 life 3 after 10:12:00 anchor 10:12:00
            -> accepted 3 next 10:22:00
        10:13:00 release
        10:22:00
            fired a 10:22:00 as r1.1 rev 3
        "#,
    );
}

#[test]
fn each_revision_of_a_held_job_ends_the_slot_before() {
    check(
        r#"
        10:00:00 define a {"every":"10m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:05:00 hold
        10:10:00
            held a 10:10:00 rev 1
        10:11:00 define a {"every":"5m"}
            defined a rev 2 life 1 after 10:11:00 anchor 10:11:00
            -> accepted 2 next 10:16:00
        10:16:00
            held ended a 10:10:00
            skipped a 10:10:00 misfire rev 1
            held a 10:16:00 rev 2
        10:17:00 release
            held ended a 10:16:00
            fired a 10:16:00 as r1.1 rev 2
        "#,
    );
}
