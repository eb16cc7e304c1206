//! Fixed delays: the next slot counts from the end of the run before.

use std::time::Duration;

use cronstream_schemas::event::LogEvent;

use crate::script::{at, check};
use crate::world::World;

#[test]
fn the_next_slot_counts_from_the_end_of_the_run_before() {
    check(
        r#"
        10:00:00 define a {"fixed_delay":"5m"}
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 10:05:00
        10:05:00
            fired a 10:05:00 as r1.1 rev 1
        10:05:01 start r1
        10:20:00
        10:22:30 succeed r1
        10:27:29
        10:27:30
            fired a 10:27:30 as r2.1 rev 1
        "#,
    );
}

#[test]
fn the_end_survives_a_takeover_and_a_run_may_end_under_the_next_leader() {
    check(
        r#"
        10:00:00 define a {"fixed_delay":"5m"}
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 10:05:00
        10:05:00
            fired a 10:05:00 as r1.1 rev 1
        10:05:01 start r1
        10:06:00 succeed r1
        10:07:00 takeover
        10:11:00
            fired a 10:11:00 as r2.1 rev 1
        10:11:01 start r2
        10:12:00 takeover
        10:13:00 die r2
            dead r2 after 1 attempts
        10:18:00
            fired a 10:18:00 as r3.1 rev 1
        "#,
    );
}

#[test]
fn a_retry_is_part_of_the_run_and_a_trigger_is_none_of_the_schedule() {
    check(
        r#"
        10:00:00 define a {"fixed_delay":"5m"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 10:05:00
        10:01:00 trigger a
            fired a trigger 2 as r1.1 rev 1
            -> fired r1
        10:05:00
            fired a 10:05:00 as r2.1 rev 1
        10:05:01 start r2
        10:06:00 fail r2 30s
        10:06:31
            fired a 10:05:00 as r2.2 rev 1
        10:08:00 start r2
        10:09:00 succeed r2
        10:10:00 start r1
        10:13:00 succeed r1
        10:14:00
            fired a 10:14:00 as r3.1 rev 1
        "#,
    );
}

#[test]
fn an_outage_of_all_tickers_counts_as_any_other() {
    check(
        r#"
        10:00:00 define a {"fixed_delay":"5m"}
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 10:05:00
        10:05:00
            fired a 10:05:00 as r1.1 rev 1
        10:05:01 start r1
        10:06:00+ succeed r1
        10:33:00 takeover
            skipped a 10:11:00..10:26:00 x4 misfire rev 1
            fired a 10:31:00 as r2.1 rev 1
        "#,
    );
}

#[test]
fn an_edit_while_a_run_is_live_waits_for_its_end() {
    check(
        r#"
        10:00:00 define a {"every":"5m"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:05:00
        10:05:00
            fired a 10:05:00 as r1.1 rev 1
        10:05:01 start r1
        10:06:00 define a {"fixed_delay":"1m"}
            defined a rev 2 life 1 after 10:06:00
            -> accepted 2 next none
        10:08:00
        10:09:00 succeed r1
        10:10:00
            fired a 10:10:00 as r2.1 rev 2
        "#,
    );
}

#[test]
fn a_pause_does_not_move_the_base_and_a_resume_treats_what_was_missed_as_missed() {
    check(
        r#"
        10:00:00 define a {"fixed_delay":"5m"}
            defined a rev 1 life 1 after 10:00:00
            -> accepted 1 next 10:05:00
        10:02:00 pause a
            paused a after 10:02:00
            -> accepted 1 next none
        10:14:00 resume a
            resumed a after 10:02:00
            skipped a 10:07:00 misfire rev 1
            fired a 10:12:00 as r1.1 rev 1
            -> accepted 1 next none
        "#,
    );
}

/// The record of a skipped slot is kept for 30 days, and the delay is longer.
#[test]
fn a_delay_whose_records_have_vanished_is_counted_on_and_fires() {
    let mut world = World::new(at("10:00:00"));
    let body = r#"{"task":"t","schedule":{"fixed_delay":"60d"},"retention":"60d"}"#;
    world.publish(world.now, "cron.define.n.a", body, None);
    world.publish(world.now, "cron.skip.n.a", "", None);
    let other = r#"{"task":"t","schedule":{"every":"6h"},"overlap":"allow"}"#;
    world.publish(world.now, "cron.define.n.b", other, None);
    world.settle(|_, _, _| ());
    let (begin, day) = (world.now, Duration::from_secs(24 * 3_600));
    for days in 1..=130 {
        world.now = begin.plus(day * days);
        world.settle(|_, _, _| ());
        if days % 20 == 0 {
            let expired = world.now.minus(day * 30);
            let is_kept = |event: &LogEvent| match event {
                LogEvent::Skipped(skipped) => skipped.at > expired,
                _ => true,
            };
            world.log.retain(is_kept);
            world.take_over();
        }
    }
    let fired = world.log.iter().filter_map(|event| match event {
        LogEvent::Fired(it) if it.job.name.as_str() == "a" => Some(it.scheduled_at),
        _ => None,
    });
    assert_eq!(fired.collect::<Vec<_>>(), [begin.plus(day * 120)]);
}
