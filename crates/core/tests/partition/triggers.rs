//! Triggers, and the keys that make them idempotent.

use cronstream_schemas::event::LogEvent;

use crate::script::{at, check};
use crate::world::World;

#[test]
fn a_key_makes_one_run() {
    check(
        r#"
        10:00:00 define a {"every":"1h"} "overlap":"allow"
        10:00:00 define b {"every":"1h"} "overlap":"allow"
        10:00:01 trigger a {"key":"k"}
        10:00:02 trigger a {"key":"k"}
        10:00:03 trigger a {"key":"l"}
        # Keys belong to a job.
        10:00:04 trigger b {"key":"k"}
        10:00:05+ trigger b {"key":"m"}
        10:00:05 trigger b {"key":"m"}
        "#,
    );
}

#[test]
fn a_key_outlives_its_run_its_leader_and_an_edit_but_not_its_job() {
    check(
        r#"
        10:00:00 define a {"every":"30d"} "overlap":"allow","retention":"1m"
        10:00:01 trigger a {"key":"k"}
        10:00:02 start r1
        10:00:03 succeed r1
        10:00:04 define a {"every":"30d"} "overlap":"allow","retention":"2m"
        10:00:05 takeover
        03-08T10:00:00 trigger a {"key":"k"}
        03-08T10:00:01 delete a
        03-08T10:00:02 define a {"every":"30d"} "overlap":"allow"
        03-08T10:00:03 trigger a {"key":"k"}
        "#,
    );
}

#[test]
fn a_key_is_forgotten_after_seven_days() {
    check(
        r#"
        10:00:00 define a {"every":"30d"} "overlap":"allow","retention":"1m"
        10:00:01 trigger a {"key":"k"}
        03-08T10:00:02 trigger a {"key":"l"}
        03-08T10:00:03 trigger a {"key":"k"}
        "#,
    );
}

#[test]
fn a_skipped_trigger_does_not_use_up_its_key() {
    check(
        r#"
        10:00:00 define a {"every":"1h"}
        10:00:01 trigger a {"key":"k"}
        10:00:02 trigger a {"key":"l"}
        10:00:03 start r1
        10:00:04 succeed r1
        10:00:05 trigger a {"key":"l"}
        "#,
    );
}

#[test]
fn a_key_that_is_another_triggers_sequence_makes_a_run_of_its_own() {
    check(
        r#"
        10:00:00 define a {"every":"1h"} "overlap":"allow"
        10:00:01+ trigger a
        10:00:01 trigger a {"key":"2"}
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
