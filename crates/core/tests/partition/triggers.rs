//! Triggers, and the keys that make them idempotent.

use cronstream_schemas::event::LogEvent;

use crate::script::{at, check};
use crate::world::World;

#[test]
fn a_key_makes_one_run() {
    check(
        r#"
        10:00:00 define a {"every":"1h"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 11:00:00
        10:00:00 define b {"every":"1h"} "overlap":"allow"
            defined b rev 2 life 2 after 10:00:00 anchor 10:00:00
            -> accepted 2 next 11:00:00
        10:00:01 trigger a {"key":"k"}
            fired a trigger 3 key k as r1.1 rev 1
            -> fired r1
        10:00:02 trigger a {"key":"k"}
            rejected 4 $.key duplicate of r1
            -> rejected this key has already made a run
        10:00:03 trigger a {"key":"l"}
            fired a trigger 5 key l as r2.1 rev 1
            -> fired r2
        # Keys belong to a job.
        10:00:04 trigger b {"key":"k"}
            fired b trigger 6 key k as r3.1 rev 2
            -> fired r3
        10:00:05+ trigger b {"key":"m"}
        10:00:05 trigger b {"key":"m"}
            fired b trigger 7 key m as r4.1 rev 2
            rejected 8 $.key duplicate of r4
            -> fired r4
            -> rejected this key has already made a run
        "#,
    );
}

#[test]
fn a_key_holds_while_its_run_waits_runs_and_is_retried() {
    check(
        r#"
        10:00:00 define a {"every":"1h"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 11:00:00
        10:00:01 trigger a {"key":"k"}
            fired a trigger 2 key k as r1.1 rev 1
            -> fired r1
        10:00:02 start r1
        10:00:03 trigger a {"key":"k"}
            rejected 3 $.key duplicate of r1
            -> rejected this key has already made a run
        10:00:04 fail r1 30s
        10:00:05 trigger a {"key":"k"}
            rejected 4 $.key duplicate of r1
            -> rejected this key has already made a run
        10:00:06 takeover
        10:00:35
            fired a trigger 2 key k as r1.2 rev 1
        10:00:36 trigger a {"key":"k"}
            rejected 5 $.key duplicate of r1
            -> rejected this key has already made a run
        10:00:37 start r1
        10:00:38 die r1
            dead r1 after 2 attempts
        10:00:39 trigger a {"key":"k"}
            rejected 6 $.key duplicate of r1
            -> rejected this key has already made a run
        "#,
    );
}

#[test]
fn a_key_outlives_its_run_its_leader_and_an_edit_but_not_its_job() {
    check(
        r#"
        10:00:00 define a {"every":"30d"} "overlap":"allow","retention":"1m"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 03-31T10:00:00
        10:00:01 trigger a {"key":"k"}
            fired a trigger 2 key k as r1.1 rev 1
            -> fired r1
        10:00:02 start r1
        10:00:03 succeed r1
        10:00:04 define a {"every":"30d"} "overlap":"allow","retention":"2m"
            defined a rev 3 life 1 after 10:00:04 anchor 10:00:00
            -> accepted 3 next 03-31T10:00:00
        10:00:05 takeover
        03-08T10:00:00 trigger a {"key":"k"}
            rejected 4 $.key duplicate of r1
            -> rejected this key has already made a run
        03-08T10:00:01 delete a
            deleted a after 03-08T10:00:01
            -> accepted 3 next none
        03-08T10:00:02 define a {"every":"30d"} "overlap":"allow"
            defined a rev 6 life 6 after 03-08T10:00:02 anchor 03-08T10:00:02
            -> accepted 6 next 04-07T10:00:02
        03-08T10:00:03 trigger a {"key":"k"}
            fired a trigger 7 key k as r2.1 rev 6
            -> fired r2
        "#,
    );
}

#[test]
fn a_key_is_forgotten_after_seven_days() {
    check(
        r#"
        10:00:00 define a {"every":"30d"} "overlap":"allow","retention":"1m"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 03-31T10:00:00
        10:00:01 trigger a {"key":"k"}
            fired a trigger 2 key k as r1.1 rev 1
            -> fired r1
        03-08T10:00:02 trigger a {"key":"l"}
            fired a trigger 3 key l as r2.1 rev 1
            -> fired r2
        03-08T10:00:03 trigger a {"key":"k"}
            fired a trigger 4 key k as r3.1 rev 1
            -> fired r3
        "#,
    );
}

#[test]
fn a_skipped_trigger_does_not_use_up_its_key() {
    check(
        r#"
        10:00:00 define a {"every":"1h"}
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 11:00:00
        10:00:01 trigger a {"key":"k"}
            fired a trigger 2 key k as r1.1 rev 1
            -> fired r1
        10:00:02 trigger a {"key":"l"}
            skipped a trigger 3 overlap rev 1
            -> skipped overlap
        10:00:03 start r1
        10:00:04 succeed r1
        10:00:05 trigger a {"key":"l"}
            fired a trigger 4 key l as r2.1 rev 1
            -> fired r2
        "#,
    );
}

#[test]
fn a_key_that_is_another_triggers_sequence_makes_a_run_of_its_own() {
    check(
        r#"
        10:00:00 define a {"every":"1h"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 11:00:00
        10:00:01+ trigger a
        10:00:01 trigger a {"key":"2"}
            fired a trigger 2 as r1.1 rev 1
            fired a trigger 3 key 2 as r2.1 rev 1
            -> fired r1
            -> fired r2
        "#,
    );
}

#[test]
fn a_trigger_runs_with_its_own_params_bit_for_bit() {
    let mut world = World::new(at("10:00:00"));
    let now = at("10:00:00");
    let body = r#"{"task":"t","schedule":{"every":"1h"},"overlap":"allow","params":{"a": 1}}"#;
    world.publish(now, "cron.define.n.a", body, None);
    world.publish(now, "cron.trigger.n.a", r#"{"params":[ 12345678901234567890, 1.10 ]}"#, None);
    world.publish(now, "cron.trigger.n.a", r#"{"params":null}"#, None);
    world.publish(now, "cron.trigger.n.a", "", None);
    world.settle(|_, _, _| ());
    let params = world.log.iter().filter_map(|event| match event {
        LogEvent::Fired(fired) => Some(fired.params.as_str()),
        _ => None,
    });
    let expected = ["[ 12345678901234567890, 1.10 ]", "null", r#"{"a": 1}"#];
    assert_eq!(params.collect::<Vec<_>>(), expected);
}
