//! Jitter: a slot is due a constant time after it, and keeps its outcome through edits, pauses and deletes.

use crate::script::check;

/// The jitter of `n/a` below 5m is 55.674s, below 1h 11m8.095s.
#[test]
fn a_slot_fires_once_its_jitter_has_passed_and_not_before() {
    check(
        r#"
        10:00:00 define a {"every":"10m"} "jitter":"5m"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:10:00
        10:10:55.673
        10:10:55.674
            fired a 10:10:00 as r1.1 rev 1
        10:10:56 takeover
        10:15:00 start r1
        10:16:00 succeed r1
        10:20:30 takeover
        10:21:00
            fired a 10:20:00 as r2.1 rev 1
        "#,
    );
}

#[test]
fn lateness_counts_from_the_due_instant() {
    check(
        r#"
        10:00:00 define a {"every":"10m"} "jitter":"5m","misfire":{"policy":"skip"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:11:55.674
            fired a 10:10:00 as r1.1 rev 1
        10:12:00 start r1
        10:13:00 succeed r1
        10:21:55.675
            skipped a 10:20:00 misfire rev 1
        "#,
    );
}

#[test]
fn after_an_edit_a_slot_whose_jitter_has_not_passed_fires_under_its_revision() {
    check(
        r#"
        10:00:00 define a {"every":"10m"} "jitter":"5m"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:10:01 define a {"every":"1h"}
            held a 10:10:00 jitter due 10:10:55.674 rev 1
            defined a rev 2 life 1 after 10:10:01 anchor 10:10:01
            -> accepted 2 next 11:10:01
        10:10:55.673 takeover
        10:10:55.674
            held ended a 10:10:00
            fired a 10:10:00 as r1.1 rev 1
        "#,
    );
}

#[test]
fn a_pause_or_a_delete_ends_the_slots_whose_jitter_has_not_passed() {
    check(
        r#"
        10:00:00 define a {"every":"10s"} "jitter":"5m"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:00:10
        10:00:25 pause a
            skipped a 10:00:10..10:00:20 x2 paused rev 1
            paused a after 10:00:25
            -> accepted 1 next none
        10:00:35 resume a
            resumed a after 10:00:25
            -> accepted 1 next 10:00:30
        10:01:05 delete a
            skipped a 10:00:30..10:01:00 x4 deleted rev 1
            deleted a after 10:01:05
            -> accepted 1 next none
        "#,
    );
}

#[test]
fn many_slots_whose_jitter_has_not_passed_wait_in_one_message_and_end_one_by_one() {
    check(
        r#"
        10:00:00 define a {"every":"10s"} "jitter":"1h","overlap":"allow"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:00:10
        10:00:35 define a {"every":"3h"}
            held a 10:00:10..10:00:30 x3 jitter due 10:11:18.095 rev 1
            defined a rev 2 life 1 after 10:00:35 anchor 10:00:35
            -> accepted 2 next 13:00:35
        10:11:18.095
            fired a 10:00:10 as r1.1 rev 1
            held a 10:00:20..10:00:30 x2 jitter due 10:11:28.095 rev 1
        10:11:20 takeover
        10:13:00
            skipped a 10:00:20..10:00:30 x2 misfire rev 1
            held ended a 10:00:20..
        "#,
    );
}

#[test]
fn a_hundred_slots_whose_jitter_has_not_passed_are_the_most_that_wait() {
    check(
        r#"
        10:00:00 define a {"every":"1s"} "jitter":"1h"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:00:01
        10:02:30 define a {"every":"3h"}
            skipped a 10:00:01..10:00:50 x50 misfire rev 1
            held a 10:00:51..10:02:30 x100 jitter due 10:11:59.095 rev 1
            defined a rev 2 life 1 after 10:02:30 anchor 10:02:30
            -> accepted 2 next 13:02:30
        10:03:00 pause a
            held ended a 10:00:51..
            skipped a 10:00:51..10:02:30 x100 paused rev 1
            paused a after 10:03:00
            -> accepted 2 next none
        "#,
    );
}
