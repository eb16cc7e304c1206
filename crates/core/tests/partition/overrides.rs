//! Overrides: slots that are skipped or shifted by command, in one order with the slots themselves.

use crate::script::check;

#[test]
fn the_next_slot_is_skipped_and_the_one_after_fires() {
    check(
        r#"
        10:00:10 define a {"cron":"* * * * *"}
            defined a rev 1 life 1 after 10:00:10
            -> accepted 1 next 10:01:00
        10:00:20 skip a
            overridden a after 10:00:10 skips 10:01:00
            -> skips 10:01:00
        10:01:00
            skipped a 10:01:00 requested rev 1
        10:02:00
            fired a 10:02:00 as r1.1 rev 1
        "#,
    );
}

/// B108: asked for one millisecond before the slot, a skip wins or says that it was too late; never both.
#[test]
fn a_skip_asked_for_a_millisecond_before_the_slot_wins_or_was_too_late() {
    check(
        r#"
        10:00:10 define a {"cron":"* * * * *"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:10
            -> accepted 1 next 10:01:00
        10:01:00.002 @10:00:59.999 skip a
            overridden a after 10:00:10 skips 10:01:00
            skipped a 10:01:00 requested rev 1
            -> skips 10:01:00
        10:02:00.001
            fired a 10:02:00 as r1.1 rev 1
        10:02:00.003 @10:01:59.999 skip a 10:02:00
            rejected 3 $.slot
            -> rejected too late: this slot is decided already
        10:03:00.002 @10:03:00 skip a 10:03:00
            fired a 10:03:00 as r2.1 rev 1
            rejected 4 $.slot
            -> rejected too late: this slot is decided already
        10:03:00.004 @10:02:59.999 skip a
            overridden a after 10:03:00 skips 10:04:00
            -> skips 10:04:00
        "#,
    );
}

#[test]
fn a_later_instant_holds_the_slot_from_its_own_on() {
    check(
        r#"
        10:00:10 define a {"cron":"0 * * * *"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:10
            -> accepted 1 next 11:00:00
        10:00:20 shift a 12:30:00
            overridden a after 10:00:10 shifts 11:00:00 to 12:30:00
            -> shifts 11:00:00 to 12:30:00
        11:00:00
            held a 11:00:00 shifted due 12:30:00 rev 1
        11:30:00 takeover
        11:30:00 shift a 11:40:00 11:00:00
            rejected 3 $.slot
            -> rejected too late: this slot is decided already
        12:00:00
            fired a 12:00:00 as r1.1 rev 1
        12:30:00
            held ended a 11:00:00
            fired a 11:00:00 as r2.1 rev 1
        13:00:00
            fired a 13:00:00 as r3.1 rev 1
        "#,
    );
}

#[test]
fn an_earlier_instant_fires_the_slot_there_and_never_again() {
    check(
        r#"
        10:00:10 define a {"cron":"0 * * * *"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:10
            -> accepted 1 next 11:00:00
        10:00:20 shift a 10:30:00
            overridden a after 10:00:10 shifts 11:00:00 to 10:30:00
            -> shifts 11:00:00 to 10:30:00
        10:29:59.999
        10:30:00
            overridden a after 11:00:00
            fired a 11:00:00 as r1.1 rev 1
        10:40:00 takeover
        10:40:01 shift a 10:50:00 11:00:00
            rejected 3 $.slot
            -> rejected too late: this slot is decided already
        11:00:00
        12:00:00
            fired a 12:00:00 as r2.1 rev 1
        "#,
    );
}

#[test]
fn slots_keep_their_order_so_none_is_shifted_before_the_one_ahead_of_it() {
    check(
        r#"
        10:00:10 define a {"cron":"0 * * * *"}
            defined a rev 1 life 1 after 10:00:10
            -> accepted 1 next 11:00:00
        10:00:20 shift a 10:59:59 12:00:00
            rejected 2 $.to
            -> rejected the slot before it is due at 2026-03-01T11:00:00.000Z
        10:00:21 shift a 10:00:21
            rejected 3 $.to
            -> rejected has passed
        10:00:22 shift a 10:10:00
            overridden a after 10:00:10 shifts 11:00:00 to 10:10:00
            -> shifts 11:00:00 to 10:10:00
        10:00:23 shift a 10:10:00 12:00:00
            overridden a after 10:00:10 shifts 11:00:00 to 10:10:00 shifts 12:00:00 to 10:10:00
            -> shifts 12:00:00 to 10:10:00
        10:10:00
            overridden a after 11:00:00 shifts 12:00:00 to 10:10:00
            fired a 11:00:00 as r1.1 rev 1
            --
            overridden a after 12:00:00
            skipped a 12:00:00 overlap rev 1
        13:00:00
            skipped a 13:00:00 overlap rev 1
        "#,
    );
}

#[test]
fn what_is_no_slot_is_refused_and_the_next_one_is_named() {
    check(
        r#"
        10:00:10 define a {"cron":"0 * * * *"}
            defined a rev 1 life 1 after 10:00:10
            -> accepted 1 next 11:00:00
        10:00:20 skip a 11:00:01
            rejected 2 $.slot
            -> rejected no slot of this job
        10:00:21 skip a 10:00:00
            rejected 3 $.slot
            -> rejected too late: this slot is decided already
        10:00:22 skip b
            rejected 4 $subject
            -> rejected no such job
        10:00:23 skip!9 a
            rejected 5 $header.Cron-Expected-Revision
            -> rejected another revision is in force
        10:00:24 define once {"at":"2026-03-01T10:30:00Z"}
            defined once rev 6 life 6 after 10:00:24
            -> accepted 6 next 10:30:00
        10:30:00
            fired once 10:30:00 as r1.1 rev 6
        10:30:01 skip once
            rejected 7 $
            -> rejected the job has no slot to come
        "#,
    );
}

#[test]
fn an_override_is_repeated_replaced_and_taken_back() {
    check(
        r#"
        10:00:10 define a {"cron":"0 * * * *"}
            defined a rev 1 life 1 after 10:00:10
            -> accepted 1 next 11:00:00
        10:00:20 skip a
            overridden a after 10:00:10 skips 11:00:00
            -> skips 11:00:00
        10:00:21 skip a
            overridden a after 10:00:10 skips 11:00:00
            -> skips 11:00:00
        10:00:22 skip a 13:00:00
            overridden a after 10:00:10 skips 11:00:00 skips 13:00:00
            -> skips 13:00:00
        10:00:23 shift a 11:00:00 11:00:00
            overridden a after 10:00:10 skips 13:00:00
            -> shifts 11:00:00 to 11:00:00
        11:00:00
            fired a 11:00:00 as r1.1 rev 1
        11:00:01 start r1
        11:00:02 succeed r1
        12:30:00
            fired a 12:00:00 as r2.1 rev 1
        13:00:00
            skipped a 13:00:00 requested rev 1
        "#,
    );
}

#[test]
fn an_edit_keeps_the_overrides_of_slots_that_are_still_slots() {
    check(
        r#"
        10:00:10 define a {"cron":"0 * * * *"}
            defined a rev 1 life 1 after 10:00:10
            -> accepted 1 next 11:00:00
        10:00:20 skip a 11:00:00
            overridden a after 10:00:10 skips 11:00:00
            -> skips 11:00:00
        10:00:20 skip a 12:00:00
            overridden a after 10:00:10 skips 11:00:00 skips 12:00:00
            -> skips 12:00:00
        10:00:30 define a {"cron":"0 */2 * * *"} "overlap":"allow"
            defined a rev 4 life 1 after 10:00:30
            -> accepted 4 next 12:00:00
        12:00:00
            skipped a 12:00:00 requested rev 4
        14:00:00
            fired a 14:00:00 as r1.1 rev 4
        "#,
    );
}

#[test]
fn a_delete_forgets_overrides_and_a_new_life_has_none() {
    check(
        r#"
        10:00:10 define a {"cron":"0 * * * *"}
            defined a rev 1 life 1 after 10:00:10
            -> accepted 1 next 11:00:00
        10:00:20 skip a
            overridden a after 10:00:10 skips 11:00:00
            -> skips 11:00:00
        10:00:30 delete a
            deleted a after 10:00:30
            -> accepted 1 next none
        10:00:40 define a {"cron":"0 * * * *"}
            defined a rev 4 life 4 after 10:00:40
            -> accepted 4 next 11:00:00
        11:00:00
            fired a 11:00:00 as r1.1 rev 4
        "#,
    );
}

#[test]
fn a_paused_job_keeps_what_is_asked_for_slots_behind_the_pause() {
    check(
        r#"
        10:00:10 define a {"cron":"0 * * * *"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:10
            -> accepted 1 next 11:00:00
        10:10:00 pause a
            paused a after 10:10:00
            -> accepted 1 next none
        11:10:00 skip a 11:00:00
            rejected 3 $.slot
            -> rejected too late: this slot is decided already
        11:10:00 skip a
            overridden a after 10:10:00 skips 12:00:00
            -> skips 12:00:00
        11:20:00 resume a
            resumed a after 10:10:00
            fired a 11:00:00 as r1.1 rev 1
            -> accepted 1 next 12:00:00
        12:00:00
            skipped a 12:00:00 requested rev 1
        13:00:00
            fired a 13:00:00 as r2.1 rev 1
        "#,
    );
}

/// Of missed slots `fire_once` fires the latest; a slot that was asked to be skipped is none of them.
#[test]
fn a_skipped_slot_in_an_outage_does_not_make_a_second_fire() {
    check(
        r#"
        10:00:10 define a {"cron":"*/10 * * * *"} "misfire":{"window":"6h"}
            defined a rev 1 life 1 after 10:00:10
            -> accepted 1 next 10:10:00
        10:00:20 skip a 10:30:00
            overridden a after 10:00:10 skips 10:30:00
            -> skips 10:30:00
        11:05:00 takeover
            skipped a 10:10:00..10:20:00 x2 misfire rev 1
            skipped a 10:30:00 requested rev 1
            skipped a 10:40:00..10:50:00 x2 misfire rev 1
            fired a 11:00:00 as r1.1 rev 1
        "#,
    );
}

#[test]
fn a_slot_shifted_to_an_instant_that_nobody_worked_at_is_missed_as_others_are() {
    check(
        r#"
        10:00:10 define a {"cron":"0 0 * * *"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:10
            -> accepted 1 next 03-02T00:00:00
        10:00:20 define b {"cron":"0 0 * * *"} "misfire":{"policy":"skip"}
            defined b rev 2 life 2 after 10:00:20
            -> accepted 2 next 03-02T00:00:00
        10:00:30 shift a 12:00:00
            overridden a after 10:00:10 shifts 03-02T00:00:00 to 12:00:00
            -> shifts 03-02T00:00:00 to 12:00:00
        10:00:30 shift b 12:00:00
            overridden b after 10:00:20 shifts 03-02T00:00:00 to 12:00:00
            -> shifts 03-02T00:00:00 to 12:00:00
        13:00:00 takeover
            overridden a after 03-02T00:00:00
            fired a 03-02T00:00:00 as r1.1 rev 1
            overridden b after 03-02T00:00:00
            skipped b 03-02T00:00:00 misfire rev 2
        03-02T00:00:00
        "#,
    );
}

#[test]
fn a_command_waits_for_the_batch_that_decides_a_slot_ahead_of_its_instant() {
    check(
        r#"
        10:00:10 define a {"cron":"0 * * * *"}
            defined a rev 1 life 1 after 10:00:10
            -> accepted 1 next 11:00:00
        10:00:20 shift a 10:30:00
            overridden a after 10:00:10 shifts 11:00:00 to 10:30:00
            -> shifts 11:00:00 to 10:30:00
        10:30:05 pause a
            overridden a after 11:00:00
            fired a 11:00:00 as r1.1 rev 1
            --
            paused a after 11:00:00
            -> accepted 1 next none
        "#,
    );
}

#[test]
fn a_fixed_delay_can_be_skipped_and_not_shifted() {
    check(
        r#"
        10:00:00 define a {"fixed_delay":"10m"}
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 10:10:00
        10:00:01 shift a 10:05:00
            rejected 2 $.to
            -> rejected a fixed delay has no slots to shift
        10:00:02 skip a
            overridden a after 10:00:00 skips 10:10:00
            -> skips 10:10:00
        10:10:00
            skipped a 10:10:00 requested rev 1
        10:20:00
            fired a 10:20:00 as r1.1 rev 1
        10:20:01 skip a
            rejected 4 $
            -> rejected the next slot follows from the end of the run that is live
        "#,
    );
}

#[test]
fn a_hundred_slots_are_overridden_at_a_time_and_no_more() {
    use std::fmt::Write as _;
    let mut script = String::from(
        "10:00:00 define a {\"every\":\"1s\"} \"overlap\":\"allow\"\n    defined a rev 1 life 1 after 10:00:00 anchor 10:00:00\n    -> accepted 1 next 10:00:01\n",
    );
    let mut all = String::new();
    let slot = |n: u32| format!("10:{:02}:{:02}", 10 + n / 60, n % 60);
    for n in 0..100 {
        write!(all, " skips {}", slot(n)).unwrap();
        writeln!(script, "10:00:00 skip a {}", slot(n)).unwrap();
        writeln!(script, "    overridden a after 10:00:00{all}").unwrap();
        writeln!(script, "    -> skips {}", slot(n)).unwrap();
    }
    writeln!(script, "10:00:00 skip a {}\n    rejected 102 $", slot(100)).unwrap();
    script += "    -> rejected 100 slots of this job are skipped or shifted already\n";
    check(&script);
}
