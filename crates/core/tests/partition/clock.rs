//! Clocks: the limit of the clock guard, steps back, and commands from the broker's future.

use crate::script::{at, check};
use crate::world::World;

#[test]
fn nothing_is_decided_beyond_the_clock_limit() {
    check(
        r#"
        10:00:00 define a {"every":"1m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:00:50 limit 10:00:59.999
        10:01:30
        10:01:30 limit 10:01:00
            fired a 10:01:00 as r1.1 rev 1
        10:01:31 limit off
        "#,
    );
}

#[test]
fn no_retry_and_no_end_comes_beyond_the_clock_limit() {
    check(
        r#"
        10:00:00 define a {"every":"10h"} "start_within":"10s","overlap":"allow"
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
        10:00:03 limit 10:00:03.050
        10:01:00
        10:01:00 limit off
            fired a trigger 2 as r1.2 rev 1
            expired r2
        "#,
    );
}

#[test]
fn a_command_from_the_brokers_future_waits_for_the_leaders_clock() {
    check(
        r#"
        10:00:00+ @10:00:00.400 define a {"every":"1m"}
        10:00:00 define b {"every":"1m"}
        10:00:00.399
        10:00:00.400
            defined a rev 1 life 1 after 10:00:00.400 anchor 10:00:00.400
            defined b rev 2 life 2 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00.400
            -> accepted 2 next 10:01:00
        "#,
    );
}

#[test]
fn a_leader_wakes_for_a_waiting_command() {
    let mut world = World::new(at("10:00:00"));
    world.publish(at("10:00:00.400"), "cron.pause.n.a", "", None);
    let turn = world.turn();
    assert!(turn.batch.is_none());
    assert_eq!(turn.wake_at, Some(at("10:00:00.400")));
}

#[test]
fn a_leader_wakes_for_the_next_slot_and_the_next_timer() {
    let mut world = World::new(at("10:00:00"));
    let body = r#"{"task":"t","schedule":{"every":"1m"},"start_within":"10s"}"#;
    world.publish(at("10:00:00"), "cron.define.n.a", body, None);
    world.settle(|_, _, _| ());
    // A second ahead, for the cursor that lets its fire go by itself.
    assert_eq!(world.turn().wake_at, Some(at("10:00:59")));
    world.publish(at("10:00:00"), "cron.trigger.n.a", "", None);
    world.settle(|_, _, _| ());
    assert_eq!(world.turn().wake_at, Some(at("10:00:10")));
}

#[test]
fn a_clock_that_steps_back_fires_nothing_twice() {
    check(
        r#"
        10:00:00 define a {"every":"1s"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:00:01
        10:00:02
            fired a 10:00:01 as r1.1 rev 1
            fired a 10:00:02 as r2.1 rev 1
        09:59:00
        10:00:02
        10:00:03
            fired a 10:00:03 as r3.1 rev 1
        "#,
    );
}

#[test]
fn a_slower_clock_takes_over_and_no_slot_is_lost() {
    check(
        r#"
        10:00:00 define a {"cron":"0 0 * * *"}
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 03-02T00:00:00
        10:00:00 define b {"every":"1s"}
            defined b rev 2 life 2 after 10:00:00 anchor 10:00:00
            -> accepted 2 next 10:00:01
        10:00:01
            fired b 10:00:01 as r1.1 rev 2
        # The position is 10:00:01; the next leader's clock is 400 ms behind.
        10:00:00.600 takeover
        10:00:00.700 @10:00:00.650 define a {"cron":"* * * * * *"} "overlap":"allow"
        10:00:00.800 @10:00:00.750 define c {"cron":"* * * * * *"} "overlap":"allow"
        10:00:01
            defined a rev 3 life 1 after 10:00:00.650
            fired a 10:00:01 as r2.1 rev 3
            defined c rev 4 life 4 after 10:00:00.750
            fired c 10:00:01 as r3.1 rev 4
            -> accepted 3 next 10:00:02
            -> accepted 4 next 10:00:02
        10:00:02
            fired a 10:00:02 as r4.1 rev 3
            skipped b 10:00:02 overlap rev 2
            fired c 10:00:02 as r5.1 rev 4
        "#,
    );
}

#[test]
fn a_pause_that_ends_behind_the_position_loses_no_slot() {
    check(
        r#"
        10:00:00 define a {"cron":"* * * * * *"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 10:00:01
        10:00:00.500 pause a
            paused a after 10:00:00.500
            -> accepted 1 next none
        10:00:00.600 define b {"cron":"* * * * * *"}
            defined b rev 3 life 3 after 10:00:00.600
            -> accepted 3 next 10:00:01
        10:00:01
            fired b 10:00:01 as r1.1 rev 3
        10:00:00.600 takeover
        10:00:00.700 resume a
        10:00:02
            resumed a after 10:00:00.500
            fired a 10:00:01 as r2.1 rev 1
            fired a 10:00:02 as r3.1 rev 1
            skipped b 10:00:02 overlap rev 3
            -> accepted 1 next 10:00:03
        "#,
    );
}
