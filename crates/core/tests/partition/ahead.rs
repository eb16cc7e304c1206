//! Slots that fire ahead of their instant, beside edits, new lives and catch-ups.

use crate::script::check;

#[test]
fn an_edit_decides_from_its_instant_on_though_a_slot_behind_it_fired_ahead() {
    check(
        r#"
        10:00:00 define a {"cron":"0 0 * * *"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 03-02T00:00:00
        10:00:01 shift a 12:00:00
            overridden a after 10:00:00 shifts 03-02T00:00:00 to 12:00:00
            -> shifts 03-02T00:00:00 to 12:00:00
        12:00:00
            overridden a after 03-02T00:00:00
            fired a 03-02T00:00:00 as r1.1 rev 1
        13:00:00 define a {"cron":"0 */8 * * *"} "overlap":"allow"
            defined a rev 3 life 1 after 13:00:00
            -> accepted 3 next 16:00:00
        15:00:00 skip a 03-02T00:00:00
            rejected 4 $.slot
            -> rejected too late: this slot is decided already
        16:00:00
            fired a 16:00:00 as r2.1 rev 3
        17:00:00 define a {"cron":"0 20 * * *"} "overlap":"allow"
            defined a rev 5 life 1 after 17:00:00
            -> accepted 5 next 20:00:00
        17:00:01 takeover
        18:00:00 define a {"cron":"0 */8 * * *"} "overlap":"allow"
            defined a rev 6 life 1 after 18:00:00
            -> accepted 6 next 03-02T08:00:00
        03-02T00:00:00 takeover
        03-02T08:00:00
            fired a 03-02T08:00:00 as r3.1 rev 6
        "#,
    );
}

/// A pause skips, an outage misses and a delete ends the slots around one that fired ahead, and not that one.
#[test]
fn a_slot_that_fired_ahead_is_no_part_of_a_stretch() {
    check(
        r#"
        10:00:00 define a {"cron":"0 12 * * *"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 12:00:00
        10:00:01 shift a 10:10:00
            overridden a after 10:00:00 shifts 12:00:00 to 10:10:00
            -> shifts 12:00:00 to 10:10:00
        10:10:00
            overridden a after 12:00:00
            fired a 12:00:00 as r1.1 rev 1
        10:20:00 define a {"cron":"*/30 * * * *"} "overlap":"allow"
            defined a rev 3 life 1 after 10:20:00
            -> accepted 3 next 10:30:00
        10:20:01 pause a
            paused a after 10:20:01
            -> accepted 3 next none
        13:05:00 resume a
            resumed a after 10:20:01
            skipped a 10:30:00..11:30:00 x3 misfire rev 3
            skipped a 12:30:00 misfire rev 3
            fired a 13:00:00 as r2.1 rev 3
            -> accepted 3 next 13:30:00
        "#,
    );
}

#[test]
fn a_new_life_begins_at_its_instant_whatever_fired_ahead_in_a_former_one() {
    check(
        r#"
        10:00:00 define a {"cron":"0 0 1 1 *"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 2027-01-01T00:00:00
        10:00:01 shift a 12:00:00
            overridden a after 10:00:00 shifts 2027-01-01T00:00:00 to 12:00:00
            -> shifts 2027-01-01T00:00:00 to 12:00:00
        12:00:00
            overridden a after 2027-01-01T00:00:00
            fired a 2027-01-01T00:00:00 as r1.1 rev 1
        13:00:00 delete a
            deleted a after 2027-01-01T00:00:00
            -> accepted 1 next none
        13:00:00 define a {"cron":"0 * * * *"} "overlap":"allow"
            defined a rev 4 life 4 after 13:00:00
            -> accepted 4 next 14:00:00
        14:00:00 takeover
            fired a 14:00:00 as r2.1 rev 4
        "#,
    );
}

/// What was decided ahead and then held is released when its revision is not in force any more.
#[test]
fn a_slot_that_is_held_ahead_of_its_instant_leaves_a_new_revision_alone() {
    check(
        r#"
        10:00:00 define a {"cron":"0 0 * * *"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 03-02T00:00:00
        10:00:01 shift a 12:00:00
            overridden a after 10:00:00 shifts 03-02T00:00:00 to 12:00:00
            -> shifts 03-02T00:00:00 to 12:00:00
        11:59:00 hold
        12:00:00
            overridden a after 03-02T00:00:00
            held a 03-02T00:00:00 due 12:00:00 rev 1
        13:00:00 define a {"cron":"0 * * * *"} "overlap":"allow"
            defined a rev 3 life 1 after 13:00:00
            -> accepted 3 next 14:00:00
        13:10:00 release
            held ended a 03-02T00:00:00
            fired a 03-02T00:00:00 as r1.1 rev 1
        14:00:00
            fired a 14:00:00 as r2.1 rev 3
        15:00:00 takeover
            fired a 15:00:00 as r3.1 rev 3
        "#,
    );
}

/// Of missed slots `fire_all` fires the latest up to its limit, whatever is overridden among them.
#[test]
fn the_limit_of_a_catch_up_holds_on_both_sides_of_a_skipped_slot() {
    check(
        r#"
        10:00:00 define a {"every":"10m"} "overlap":"allow","misfire":{"policy":"fire_all","limit":4}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:00:01 skip a 11:00:00
            overridden a after 10:00:00 skips 11:00:00
            -> skips 11:00:00
        11:35:00 takeover
            skipped a 10:10:00..10:40:00 x4 misfire rev 1
            fired a 10:50:00 as r1.1 rev 1
            skipped a 11:00:00 requested rev 1
            held a 11:10:00..11:30:00 x3 catchup rev 1
            --
            fired a 11:10:00 as r2.1 rev 1
            fired a 11:20:00 as r3.1 rev 1
            fired a 11:30:00 as r4.1 rev 1
            held ended a 11:10:00..
        "#,
    );
}

/// What was asked for slots that have passed meanwhile is for the resume, and takes no room.
#[test]
fn slots_that_pass_while_a_job_is_paused_do_not_count_to_the_hundred() {
    use std::fmt::Write as _;
    let mut script = String::from(
        "10:00:00 define a {\"every\":\"1s\"} \"overlap\":\"allow\"\n    defined a rev 1 life 1 after 10:00:00 anchor 10:00:00\n    -> accepted 1 next 10:00:01\n10:00:00 pause a\n    paused a after 10:00:00\n    -> accepted 1 next none\n",
    );
    let slot = |n: u32| format!("10:{:02}:{:02}", 10 + n / 60, n % 60);
    let list = |from: u32, to: u32| {
        (from..to).map(slot).map(|it| format!(" skips {it}")).collect::<String>()
    };
    for n in 0..100 {
        writeln!(script, "10:00:00 skip a {}", slot(n)).unwrap();
        writeln!(script, "    overridden a after 10:00:00{}", list(0, n + 1)).unwrap();
        writeln!(script, "    -> skips {}", slot(n)).unwrap();
    }
    for n in 100..103 {
        writeln!(script, "10:11:30 skip a {}", slot(n)).unwrap();
        writeln!(script, "    overridden a after 10:00:00{}", list(n - 99, n + 1)).unwrap();
        writeln!(script, "    -> skips {}", slot(n)).unwrap();
    }
    check(&script);
}
