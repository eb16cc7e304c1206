//! Overlap: what a slot or a trigger does while an earlier run of its job is live.

use crate::script::check;

#[test]
fn a_slot_is_skipped_while_a_run_is_live_and_fires_once_it_is_over() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:01:00
            fired a 10:01:00 as r1.1 rev 1
        10:02:00
            skipped a 10:02:00 overlap rev 1
        10:02:30 start r1
        10:03:00
            skipped a 10:03:00 overlap rev 1
        10:03:30 succeed r1
        10:04:00
            fired a 10:04:00 as r2.1 rev 1
        "#,
    );
}

#[test]
fn runs_stand_side_by_side_where_that_is_allowed() {
    check(
        r#"
        10:00:00 define a {"every":"1m"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:01:00
            fired a 10:01:00 as r1.1 rev 1
        10:02:00
            fired a 10:02:00 as r2.1 rev 1
        10:02:30 trigger a
            fired a trigger 2 as r3.1 rev 1
            -> fired r3
        "#,
    );
}

#[test]
fn of_several_late_slots_the_first_fires_and_the_others_overlap_it() {
    check(
        r#"
        10:00:00 define a {"every":"20s"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:00:20
        10:01:05
            fired a 10:00:20 as r1.1 rev 1
            skipped a 10:00:40 overlap rev 1
            skipped a 10:01:00 overlap rev 1
        "#,
    );
}

#[test]
fn several_late_slots_all_fire_where_that_is_allowed() {
    check(
        r#"
        10:00:00 define a {"every":"20s"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:00:20
        10:01:05
            fired a 10:00:20 as r1.1 rev 1
            fired a 10:00:40 as r2.1 rev 1
            fired a 10:01:00 as r3.1 rev 1
        "#,
    );
}

#[test]
fn a_run_between_two_attempts_is_live() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:01:00
            fired a 10:01:00 as r1.1 rev 1
        10:01:01 start r1
        10:01:59 fail r1 5m
        10:02:00
            skipped a 10:02:00 overlap rev 1
        10:02:01 trigger a
            skipped a trigger 2 overlap rev 1
            -> skipped overlap
        "#,
    );
}

#[test]
fn a_run_that_nobody_starts_is_live_until_it_expires() {
    check(
        r#"
        10:00:00 define a {"every":"1m"} "start_within":"90s"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:01:00
            fired a 10:01:00 as r1.1 rev 1
        10:02:00
            skipped a 10:02:00 overlap rev 1
        10:02:30
            expired r1
        10:03:00
            fired a 10:03:00 as r2.1 rev 1
        "#,
    );
}

#[test]
fn a_new_leader_knows_what_is_live() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:01:00
            fired a 10:01:00 as r1.1 rev 1
        10:01:01 start r1
        10:01:30 takeover
        10:02:00
            skipped a 10:02:00 overlap rev 1
        10:02:10 succeed r1
        10:02:30 takeover
        10:03:00
            fired a 10:03:00 as r2.1 rev 1
        "#,
    );
}

#[test]
fn a_trigger_behind_a_slot_of_its_batch_overlaps_it() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:01:01 trigger a
            fired a 10:01:00 as r1.1 rev 1
            skipped a trigger 2 overlap rev 1
            -> skipped overlap
        "#,
    );
}

#[test]
fn the_policy_is_that_of_the_revision_in_force() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:01:00
            fired a 10:01:00 as r1.1 rev 1
        10:01:30 define a {"every":"1m"} "overlap":"allow"
            defined a rev 2 life 1 after 10:01:30 anchor 10:00:00
            -> accepted 2 next 10:02:00
        10:02:00
            fired a 10:02:00 as r2.1 rev 2
        10:02:30 define a {"every":"1m"}
            defined a rev 3 life 1 after 10:02:30 anchor 10:00:00
            -> accepted 3 next 10:03:00
        10:03:00
            skipped a 10:03:00 overlap rev 3
        "#,
    );
}
