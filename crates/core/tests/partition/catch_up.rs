//! Many missed slots that all fire: in their order, paced, and never before what is on time.

use std::time::Duration;

use cronstream_schemas::event::LogEvent;

use crate::script::{at, check};
use crate::world::World;

#[test]
fn missed_slots_fire_one_after_the_other_and_each_once() {
    check(
        r#"
        10:00:00 define a {"every":"10m"} "misfire":{"policy":"fire_all"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:35:00 takeover
            held a 10:10:00..10:30:00 x3 catchup rev 1
            --
            fired a 10:10:00 as r1.1 rev 1
            held a 10:20:00..10:30:00 x2 catchup rev 1
        10:36:00 start r1
        10:37:00 succeed r1
            fired a 10:20:00 as r2.1 rev 1
            held a 10:30:00..10:30:00 x1 catchup rev 1
        10:38:00 takeover
        10:38:01 start r2
        10:39:00 die r2
            dead r2 after 1 attempts
            fired a 10:30:00 as r3.1 rev 1
            held ended a 10:30:00..
        "#,
    );
}

#[test]
fn slots_that_are_only_late_stand_in_the_row_behind_the_missed_ones() {
    check(
        r#"
        10:00:00 define a {"every":"20s"} "misfire":{"policy":"fire_all","limit":2}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:00:20
        10:03:05 takeover
            skipped a 10:00:20..10:01:20 x4 misfire rev 1
            held a 10:01:40..10:03:00 x5 catchup rev 1
            --
            fired a 10:01:40 as r1.1 rev 1
            held a 10:02:00..10:03:00 x4 catchup rev 1
        10:03:06 start r1
        10:03:07 succeed r1
            fired a 10:02:00 as r2.1 rev 1
            held a 10:02:20..10:03:00 x3 catchup rev 1
        "#,
    );
}

#[test]
fn a_slot_on_time_waits_for_the_run_of_the_catch_up_and_goes_first() {
    check(
        r#"
        10:00:00 define a {"every":"10m"} "misfire":{"policy":"fire_all"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:35:00 takeover
            held a 10:10:00..10:30:00 x3 catchup rev 1
            --
            fired a 10:10:00 as r1.1 rev 1
            held a 10:20:00..10:30:00 x2 catchup rev 1
        10:36:00 start r1
        10:40:00
            held a 10:40:00 queued rev 1
        10:40:30 succeed r1
            held ended a 10:40:00
            fired a 10:40:00 as r2.1 rev 1
        10:41:00 start r2
        10:50:00
            skipped a 10:50:00 overlap rev 1
        10:51:00 succeed r2
            fired a 10:20:00 as r3.1 rev 1
            held a 10:30:00..10:30:00 x1 catchup rev 1
        "#,
    );
}

#[test]
fn ten_runs_of_a_catch_up_stand_side_by_side_where_that_is_allowed() {
    check(
        r#"
        10:00:00 define a {"every":"1m"} "overlap":"allow","misfire":{"policy":"fire_all","limit":12}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:30:30 takeover
            skipped a 10:01:00..10:17:00 x17 misfire rev 1
            held a 10:18:00..10:29:00 x12 catchup rev 1
            fired a 10:30:00 as r1.1 rev 1
            --
            fired a 10:18:00 as r2.1 rev 1
            fired a 10:19:00 as r3.1 rev 1
            fired a 10:20:00 as r4.1 rev 1
            fired a 10:21:00 as r5.1 rev 1
            fired a 10:22:00 as r6.1 rev 1
            fired a 10:23:00 as r7.1 rev 1
            fired a 10:24:00 as r8.1 rev 1
            fired a 10:25:00 as r9.1 rev 1
            fired a 10:26:00 as r10.1 rev 1
            fired a 10:27:00 as r11.1 rev 1
            held a 10:28:00..10:29:00 x2 catchup rev 1
        10:30:31 start r2
        10:31:00
            fired a 10:31:00 as r12.1 rev 1
        10:31:01 succeed r2
            fired a 10:28:00 as r13.1 rev 1
            held a 10:29:00..10:29:00 x1 catchup rev 1
        "#,
    );
}

#[test]
fn a_pause_or_a_delete_ends_a_catch_up_with_one_event() {
    check(
        r#"
        10:00:00 define a {"every":"10m"} "misfire":{"policy":"fire_all"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:00:00 define b {"every":"10m"} "misfire":{"policy":"fire_all"}
            defined b rev 2 life 2 after 10:00:00 anchor 10:00:00
            -> accepted 2 next 10:10:00
        10:35:00 takeover
            held a 10:10:00..10:30:00 x3 catchup rev 1
            held b 10:10:00..10:30:00 x3 catchup rev 2
            --
            fired a 10:10:00 as r1.1 rev 1
            held a 10:20:00..10:30:00 x2 catchup rev 1
            fired b 10:10:00 as r2.1 rev 2
            held b 10:20:00..10:30:00 x2 catchup rev 2
        10:36:00 pause a
            held ended a 10:20:00..
            skipped a 10:20:00..10:30:00 x2 paused rev 1
            paused a after 10:36:00
            -> accepted 1 next none
        10:36:00 delete b
            held ended b 10:20:00..
            skipped b 10:20:00..10:30:00 x2 deleted rev 2
            deleted b after 10:36:00
            -> accepted 2 next none
        "#,
    );
}

#[test]
fn a_catch_up_keeps_its_revision_whatever_is_defined_meanwhile() {
    check(
        r#"
        10:00:00 define a {"every":"10m"} "misfire":{"policy":"fire_all"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:35:00 takeover
            held a 10:10:00..10:30:00 x3 catchup rev 1
            --
            fired a 10:10:00 as r1.1 rev 1
            held a 10:20:00..10:30:00 x2 catchup rev 1
        10:36:00 define a {"every":"1h"}
            defined a rev 2 life 1 after 10:36:00 anchor 10:36:00
            -> accepted 2 next 11:36:00
        10:37:00 start r1
        10:38:00 succeed r1
            fired a 10:20:00 as r2.1 rev 1
            held a 10:30:00..10:30:00 x1 catchup rev 1
        10:39:00 start r2
        10:40:00 succeed r2
            fired a 10:30:00 as r3.1 rev 1
            held ended a 10:30:00..
        "#,
    );
}

#[test]
fn a_catch_up_waits_for_the_release_of_a_hold() {
    check(
        r#"
        10:00:00 define a {"every":"10m"} "misfire":{"policy":"fire_all"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:35:00+ hold
        10:35:00 takeover
            held a 10:10:00..10:30:00 x3 catchup rev 1
        10:36:00 release
            fired a 10:10:00 as r1.1 rev 1
            held a 10:20:00..10:30:00 x2 catchup rev 1
        "#,
    );
}

#[test]
fn a_hundred_slots_a_second_are_the_most_of_all_jobs_together() {
    let mut world = World::new(at("10:00:00"));
    for n in 0..120 {
        let body = r#"{"task":"t","schedule":{"every":"10m"},"misfire":{"policy":"fire_all"}}"#;
        world.publish(world.now, &format!("cron.define.n.j{n}"), body, None);
    }
    world.publish(world.now, "cron.define.n.z", r#"{"task":"t","schedule":{"every":"1s"}}"#, None);
    world.settle(|_, _, _| {});
    world.now = at("10:35:00");
    let mut fires = Vec::new();
    let mut waits = Vec::new();
    for _ in 0..4 {
        let mut batches = Vec::new();
        world.settle(|_, turn, _| batches.extend(turn.batch.clone()));
        let fired =
            batches.iter().flat_map(|batch| &batch.events).filter_map(|it| match &it.event {
                LogEvent::Fired(fired) => Some(fired.job.name.to_string()),
                _ => None,
            });
        fires.push(fired.collect::<Vec<_>>());
        let now = world.clock();
        let turn = world.turn();
        waits.push(turn.wake_at.map(|at| at.since(now.wall).as_millis()));
        world.now = world.now.plus(Duration::from_millis(500));
    }
    let of_catch_up = |fires: &Vec<String>| fires.iter().filter(|job| job.starts_with('j')).count();
    assert_eq!(fires.iter().map(of_catch_up).collect::<Vec<_>>(), [50, 50, 20, 0]);
    // The slot on time stands before them all, and the pace is what the leader waits for.
    assert_eq!(fires[0][0], "z");
    assert_eq!(waits[..2], [Some(500), Some(500)]);
    let mut served: Vec<_> = fires.concat().into_iter().filter(|job| job != "z").collect();
    served.sort_unstable();
    served.dedup();
    assert_eq!(served.len(), 120, "each job once before any job twice");
}

/// A revision that lets runs stand side by side may always have a live one: a slot of the one before that waits for
/// their end is missed in the end.
#[test]
fn a_slot_that_waits_for_the_end_of_runs_does_not_wait_for_ever() {
    check(
        r#"
        10:00:00 define a {"every":"10m"} "misfire":{"policy":"fire_all","window":"45m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:10:00
        10:35:00 takeover
            held a 10:10:00..10:30:00 x3 catchup rev 1
            --
            fired a 10:10:00 as r1.1 rev 1
            held a 10:20:00..10:30:00 x2 catchup rev 1
        10:36:00 start r1
        10:40:00
            held a 10:40:00 queued rev 1
        10:41:00 define a {"every":"10h"} "overlap":"allow"
            defined a rev 2 life 1 after 10:41:00 anchor 10:41:00
            -> accepted 2 next 20:41:00
        11:25:00
        11:25:00.001 takeover
            held ended a 10:40:00
            skipped a 10:40:00 misfire rev 1
        11:26:00 succeed r1
            fired a 10:20:00 as r2.1 rev 1
            held a 10:30:00..10:30:00 x1 catchup rev 1
        "#,
    );
}
