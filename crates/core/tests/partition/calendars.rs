//! Named calendars: accepted and refused by their owner, gone by at once by the jobs that name them.

use crate::script::check;

#[test]
fn a_job_is_not_due_on_the_days_that_its_calendar_has() {
    check(
        r#"
        10:00:00 calendar hol {"include":[{"date":"2026-03-02"}]}
            calendar hol rev 1
            -> accepted 1 for 0 jobs
        10:00:01 define a {"cron":"0 12 * * *"} "calendars":{"except":["n/hol"]}, "overlap":"allow"
            defined a rev 2 life 2 after 10:00:01
            -> accepted 2 next 12:00:00
        12:00:00
            fired a 12:00:00 as r1.1 rev 2
        12:00:00 cancel a r1
            cancelled r1 by 3
            -> cancelled r1
        12:00:01 calendar hol {"include":[{"date":"2026-03-02"},{"date":"2026-03-03"}]}
            calendar hol rev 4
            -> accepted 4 for 1 jobs
        03-02T12:00:00
        03-03T12:00:00 takeover
        03-04T12:00:00
            fired a 03-04T12:00:00 as r2.1 rev 2
        "#,
    );
}

#[test]
fn a_replaced_calendar_decides_from_then_on_and_nothing_twice() {
    check(
        r#"
        10:00:00 calendar work {"include":[{"date":"2026-03-01"}]}
            calendar work rev 1
            -> accepted 1 for 0 jobs
        10:00:01 define a {"cron":"*/10 * * * *"} "calendars":{"only":["n/work"]}, "overlap":"allow"
            defined a rev 2 life 2 after 10:00:01
            -> accepted 2 next 10:10:00
        10:10:00
            fired a 10:10:00 as r1.1 rev 2
        10:15:00 calendar work {"include":[{"date":"2026-03-05"}]}
            calendar work rev 3
            -> accepted 3 for 1 jobs
        10:25:00
        10:30:00 calendar work {"exclude":[{"date":"2026-03-05"}]}
            calendar work rev 4
            -> accepted 4 for 1 jobs
        10:40:00 takeover
            fired a 10:40:00 as r2.1 rev 2
        "#,
    );
}

#[test]
fn what_is_built_of_it_changes_with_a_calendar() {
    check(
        r#"
        10:00:00 calendar base {"include":[{"date":"2026-03-01"}]}
            calendar base rev 1
            -> accepted 1 for 0 jobs
        10:00:00 calendar top {"exclude":[{"calendar":"n/base"}]}
            calendar top rev 2
            -> accepted 2 for 0 jobs
        10:00:00 define a {"cron":"0 12 * * *"} "calendars":{"only":["n/top"]}
            defined a rev 3 life 3 after 10:00:00
            -> accepted 3 next 03-02T12:00:00
        10:00:00 calendar base {"include":[{"date":"2026-03-02"}]}
            calendar base rev 4
            -> accepted 4 for 1 jobs
        12:00:00
            fired a 12:00:00 as r1.1 rev 3
        12:00:01 cancel a r1
            cancelled r1 by 5
            -> cancelled r1
        03-02T12:00:00
        03-03T12:00:00
            fired a 03-03T12:00:00 as r2.1 rev 3
        "#,
    );
}

#[test]
fn unknown_parts_cycles_and_other_revisions_are_refused() {
    check(
        r#"
        10:00:00 calendar a {"include":[{"calendar":"n/b"}]}
            rejected 1 $.include[0].calendar
            -> rejected no such calendar
        10:00:00 calendar b {"include":[{"easter":0}]}
            calendar b rev 2
            -> accepted 2 for 0 jobs
        10:00:00 calendar a {"include":[{"calendar":"n/b"}]}
            calendar a rev 3
            -> accepted 3 for 0 jobs
        10:00:00 calendar b {"exclude":[{"calendar":"n/a"}]}
            rejected 4 $.exclude[0].calendar
            -> rejected is built of this calendar: a cycle
        10:00:00 calendar!7 b {"exclude":[{"easter":1}]}
            rejected 5 $header.Cron-Expected-Revision
            -> rejected another revision is in force
        10:00:00 calendar!2 b {"exclude":[{"easter":1}]}
            calendar b rev 6
            -> accepted 6 for 0 jobs
        10:00:00 calendar b {"include":[{"date":"2026-02-30"}]}
            rejected 7 $.include[0].date
            -> rejected not of the right form
        10:00:00 define j {"cron":"0 12 * * *"} "calendars":{"only":["n/none"]}
            rejected 8 $.calendars.only[0]
            -> rejected no such calendar
        "#,
    );
}

#[test]
fn a_calendar_in_use_is_not_deleted_and_one_that_is_not_is() {
    check(
        r#"
        10:00:00 calendar base {"include":[{"date":"2026-03-01"}]}
            calendar base rev 1
            -> accepted 1 for 0 jobs
        10:00:00 calendar top {"exclude":[{"calendar":"n/base"}]}
            calendar top rev 2
            -> accepted 2 for 0 jobs
        10:00:00 define a {"cron":"0 12 * * *"} "calendars":{"only":["n/top"]}
            defined a rev 3 life 3 after 10:00:00
            -> accepted 3 next 03-02T12:00:00
        10:00:00 calendar-delete base
            rejected 4 $subject
            -> rejected a calendar uses this calendar
        10:00:00 calendar-delete top
            rejected 5 $subject
            -> rejected a job uses this calendar
        10:00:00 pause a
            paused a after 10:00:00
            -> accepted 3 next none
        10:00:00 takeover
        10:00:00 calendar-delete top
            rejected 7 $subject
            -> rejected a job uses this calendar
        10:00:00 delete a
            deleted a after 10:00:00
            -> accepted 3 next none
        10:00:00 calendar-delete top
            calendar top deleted
            -> accepted 2 for 0 jobs
        10:00:00 calendar-delete top
            rejected 10 $subject
            -> rejected no such calendar
        10:00:00 calendar-delete base
            calendar base deleted
            -> accepted 1 for 0 jobs
        "#,
    );
}

#[test]
fn a_job_whose_calendar_is_gone_is_held_and_not_fired() {
    check(
        r#"
        10:00:00 calendar hol {"include":[{"date":"2026-03-09"}]}
            calendar hol rev 1
            -> accepted 1 for 0 jobs
        10:00:00 define a {"cron":"*/10 * * * *"} "calendars":{"except":["n/hol"]}, "overlap":"allow"
            defined a rev 2 life 2 after 10:00:00
            -> accepted 2 next 10:10:00
        10:05:00 lose hol
        10:10:00
            held a 10:10:00 calendarmissing rev 2
        10:20:00
            held ended a 10:10:00
            skipped a 10:10:00 misfire rev 2
            held a 10:20:00 calendarmissing rev 2
        10:21:00 takeover
        10:22:00 calendar hol {"include":[{"date":"2026-03-09"}]}
            calendar hol rev 3
            -> accepted 3 for 1 jobs
            --
            held ended a 10:20:00
            fired a 10:20:00 as r1.1 rev 2
        10:30:00
            fired a 10:30:00 as r2.1 rev 2
        "#,
    );
}

/// What comes back may leave the day of the slot out that waits for it.
#[test]
fn a_slot_that_waited_for_a_calendar_without_its_day_does_not_fire() {
    check(
        r#"
        10:00:00 calendar hol {"include":[{"date":"2026-03-09"}]}
            calendar hol rev 1
            -> accepted 1 for 0 jobs
        10:00:00 define a {"cron":"*/10 * * * *"} "calendars":{"except":["n/hol"]}
            defined a rev 2 life 2 after 10:00:00
            -> accepted 2 next 10:10:00
        10:05:00 lose hol
        10:10:00
            held a 10:10:00 calendarmissing rev 2
        10:11:00 calendar hol {"include":[{"date":"2026-03-01"}]}
            calendar hol rev 3
            -> accepted 3 for 1 jobs
            --
            held ended a 10:10:00
            skipped a 10:10:00 misfire rev 2
        10:20:00
        03-02T00:00:00
            fired a 03-02T00:00:00 as r1.1 rev 2
        "#,
    );
}

/// Days that a leader hears of late begin at their command's instant: what was due before is decided as it was.
#[test]
fn slots_before_a_replacement_are_decided_by_the_days_from_before() {
    check(
        r#"
        10:00:00 calendar work {"include":[{"date":"2026-03-01"}]}
            calendar work rev 1
            -> accepted 1 for 0 jobs
        10:00:01 define a {"cron":"* * * * *"} "calendars":{"only":["n/work"]}, "overlap":"allow"
            defined a rev 2 life 2 after 10:00:01
            -> accepted 2 next 10:01:00
        10:03:30 @10:02:30 calendar work {"include":[{"date":"2026-03-05"}]}
            skipped a 10:01:00..10:02:00 x2 misfire rev 2
            fired a 10:03:00 as r1.1 rev 2
            --
            calendar work rev 3
            -> accepted 3 for 1 jobs
        10:10:00
        "#,
    );
}

/// The calendar may never come back: an edit does without it, or it has been gone for too long.
#[test]
fn a_slot_that_waits_for_a_calendar_does_not_wait_for_ever() {
    check(
        r#"
        10:00:00 calendar hol {"include":[{"date":"2026-03-09"}]}
            calendar hol rev 1
            -> accepted 1 for 0 jobs
        10:00:00 define a {"cron":"*/10 * * * *"} "calendars":{"except":["n/hol"]}, "overlap":"allow"
            defined a rev 2 life 2 after 10:00:00
            -> accepted 2 next 10:10:00
        10:00:00 define b {"cron":"10 10 1 3 *"} "calendars":{"except":["n/hol"]}, "misfire":{"window":"1h"}
            defined b rev 3 life 3 after 10:00:00
            -> accepted 3 next 10:10:00
        10:05:00 lose hol
        10:10:00
            held a 10:10:00 calendarmissing rev 2
            held b 10:10:00 calendarmissing rev 3
        10:11:00 define a {"cron":"*/30 * * * *"} "overlap":"allow"
            defined a rev 4 life 2 after 10:11:00
            -> accepted 4 next 10:30:00
            --
            held ended a 10:10:00
            skipped a 10:10:00 misfire rev 2
        10:30:00
            fired a 10:30:00 as r1.1 rev 4
        11:10:00.001 takeover
            fired a 11:00:00 as r2.1 rev 4
            held ended b 10:10:00
            skipped b 10:10:00 misfire rev 3
        "#,
    );
}

#[test]
fn a_range_ends_when_its_calendar_is_deleted() {
    check(
        r#"
        10:00:00 calendar hol {"include":[{"date":"2026-03-09"}]}
            calendar hol rev 1
            -> accepted 1 for 0 jobs
        10:00:00 define a {"every":"10m"} "calendars":{"except":["n/hol"]}, "misfire":{"policy":"fire_all"}
            defined a rev 2 life 2 after 10:00:00 anchor 10:00:00
            -> accepted 2 next 10:10:00
        10:35:00 takeover
            held a 10:10:00..10:30:00 x3 catchup rev 2
            --
            fired a 10:10:00 as r1.1 rev 2
            held a 10:20:00..10:30:00 x2 catchup rev 2
        10:35:30 backfill a 10:15:00 10:25:00
            held a 10:20:00..10:20:00 x1 backfill rev 2
            -> backfilling 1
        10:36:00 define a {"every":"10h"}
            defined a rev 4 life 2 after 10:36:00 anchor 10:36:00
            -> accepted 4 next 20:36:00
        10:36:00 calendar-delete hol
            calendar hol deleted
            -> accepted 1 for 0 jobs
            --
            held ended a 10:20:00..
            skipped a 10:20:00 misfire backfill 3 rev 2
            held ended a 10:20:00..
            skipped a 10:20:00..10:30:00 x2 misfire rev 2
        "#,
    );
}

#[test]
fn a_range_ends_when_a_replaced_calendar_moves_its_slots() {
    check(
        r#"
        10:00:00 calendar hol {"include":[{"date":"2026-03-09"}]}
            calendar hol rev 1
            -> accepted 1 for 0 jobs
        10:00:00 define a {"every":"10m"} "calendars":{"except":["n/hol"]}, "misfire":{"policy":"fire_all"}
            defined a rev 2 life 2 after 10:00:00 anchor 10:00:00
            -> accepted 2 next 10:10:00
        10:35:00 takeover
            held a 10:10:00..10:30:00 x3 catchup rev 2
            --
            fired a 10:10:00 as r1.1 rev 2
            held a 10:20:00..10:30:00 x2 catchup rev 2
        10:36:00 calendar hol {"include":[{"date":"2026-03-10"}]}
            calendar hol rev 3
            -> accepted 3 for 1 jobs
        10:37:00 start r1
        10:38:00 succeed r1
            fired a 10:20:00 as r2.1 rev 2
            held a 10:30:00..10:30:00 x1 catchup rev 2
        10:39:00 calendar hol {"include":[{"date":"2026-03-01"}]}
            calendar hol rev 4
            -> accepted 4 for 1 jobs
        10:39:01 start r2
        10:39:02 succeed r2
            held ended a 10:30:00..
            skipped a 10:30:00 misfire rev 2
        "#,
    );
}

/// Commands for calendars that stand behind each other are one batch, each decided on what those before it leave; a
/// calendar's subject is written once in it, and a job goes by what is folded.
#[test]
fn calendars_in_a_row_are_decided_together_each_on_those_before_it() {
    check(
        r#"
        10:00:00+ calendar base {"include":[{"date":"2026-03-01"}]}
        10:00:00+ calendar top {"exclude":[{"calendar":"n/base"}]}
        10:00:00+ calendar other {"include":[{"calendar":"n/none"}]}
        10:00:00+ calendar other {"include":[{"calendar":"n/top"}]}
        10:00:00+ calendar-delete base
        10:00:00+ calendar base {"include":[{"calendar":"n/other"}]}
        10:00:00+ calendar base {"include":[{"date":"2026-03-05"}]}
        10:00:00+ calendar-delete other
        10:00:00 define a {"cron":"0 12 * * *"} "calendars":{"only":["n/top"]}
            calendar base rev 1
            calendar top rev 2
            rejected 3 $.include[0].calendar
            calendar other rev 4
            -> accepted 1 for 0 jobs
            -> accepted 2 for 0 jobs
            -> rejected no such calendar
            -> accepted 4 for 0 jobs
            --
            rejected 5 $subject
            rejected 6 $.include[0].calendar
            calendar base rev 7
            calendar other deleted
            -> rejected a calendar uses this calendar
            -> rejected is built of this calendar: a cycle
            -> accepted 7 for 0 jobs
            -> accepted 4 for 0 jobs
            --
            defined a rev 9 life 9 after 10:00:00
            -> accepted 9 next 12:00:00
        "#,
    );
}
