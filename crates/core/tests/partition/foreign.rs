//! What others write: garbage, later versions, a stranger on the cursor's subject, run events out of order.

use std::time::Duration;

use cronstream_core::partition::Partition;
use cronstream_schemas::event::{Ended, LogEvent, Place, RunEvent};
use cronstream_schemas::fault::{FAULTS_MAX, VALUE_MAX_BYTES};
use cronstream_schemas::id::{Epoch, Partition as Number, RunId, ShardId};
use cronstream_schemas::subject::RunKey;
use uuid::Uuid;

use crate::script::{at, check};
use crate::world::{World, key};

#[test]
fn each_command_that_cannot_be_read_is_rejected_once() {
    check(
        r#"
        10:00:00 raw cron.define.n
        10:00:00 raw cron.define.n.a.b {"task":"t"}
        10:00:00 raw cron.explode.n.a
        10:00:00 raw other.define.n.a
        10:00:00 raw cron.define.n._ {}
        10:00:00 raw cron.define.n.a
        10:00:00 raw cron.define.n.a null
        10:00:00 raw cron.define.n.a {"task":7,"schedule":{"cron":"99 * * * *"},"time_zone":"X","x":1}
        10:00:00 raw cron.trigger.n.a {"key":""}
        10:00:00 raw cron.cancel.n.a {"run":"x"}
        10:00:00 raw cron.pause.n.a {"because":"x"}
        10:00:00 raw cron.delete.n.a nonsense
        10:00:01 takeover
        "#,
    );
}

#[test]
fn a_hostile_command_is_recorded_in_a_bounded_event() {
    let mut world = World::new(at("10:00:00"));
    let fields: Vec<_> = (0..2_000).map(|n| format!(r#""{n}{}":1"#, "ä".repeat(50))).collect();
    let body = format!("{{{}}}", fields.join(","));
    let subject = format!("cron.define.{}.a", "ö".repeat(2_000));
    for (subject, body) in [(subject.as_str(), "{}"), ("cron.define.n.a", &body)] {
        world.publish(at("10:00:00"), subject, body, None);
        let turn = world.turn();
        let batch = turn.batch.unwrap();
        let [planned] = &batch.events[..] else { panic!("{:?}", batch.events) };
        let LogEvent::Rejected(rejected) = &planned.event else { panic!("{planned:?}") };
        assert!(rejected.faults.len() <= FAULTS_MAX);
        assert!(rejected.subject.len() <= VALUE_MAX_BYTES);
        assert!(planned.body.len() < 64 * 1024, "{} bytes", planned.body.len());
        world.store(&batch);
    }
    assert_eq!(world.leader.commands_through(), 2);
}

#[test]
fn an_event_of_a_later_version_is_noted() {
    let mut world = World::new(at("10:00:00"));
    assert_eq!(world.leader.unknown(), None);
    let seq = world.log.len() as u64 + 1;
    world.leader.apply_unknown(seq, "job_archived");
    assert_eq!(world.leader.unknown(), Some("job_archived"));
    assert_eq!(world.leader.log_through(), seq);
}

#[test]
fn a_stranger_on_the_cursors_subject_moves_the_expectation_and_nothing_else() {
    let mut world = World::new(at("10:00:00"));
    let cursor = world.leader.cursor().cloned();
    let seq = world.log.len() as u64 + 1;
    world.leader.apply_foreign_cursor(seq);
    world.publish(at("10:00:00"), "cron.pause.n.a", "", None);
    assert_eq!(world.turn().batch.unwrap().cursor_expected, seq);
    assert_eq!(world.leader.cursor().cloned(), cursor);
}

#[test]
fn an_older_cursor_that_comes_back_changes_nothing() {
    let mut world = World::new(at("10:00:00"));
    let old = world.leader.cursor().cloned().unwrap();
    world.take_over();
    let new = world.leader.cursor().cloned().unwrap();
    assert!(new.epoch > old.epoch);
    let seq = world.log.len() as u64 + 1;
    world.leader.apply_log(seq, &LogEvent::Cursor(old));
    assert_eq!(world.leader.cursor(), Some(&new));
    assert_eq!(world.leader.cursor_seq(), seq);
}

fn fired() -> (World, ShardId) {
    let mut world = World::new(at("10:00:00"));
    let body = r#"{"task":"t","schedule":{"every":"1h"},"overlap":"allow"}"#;
    world.publish(at("10:00:00"), "cron.define.n.a", body, None);
    world.publish(at("10:00:00"), "cron.trigger.n.a", "", None);
    world.settle(|_, _, _| ());
    let shard = world.leader.shards().next().unwrap().fired.shard_id();
    (world, shard)
}

#[test]
fn an_executor_that_is_faster_than_the_leader_is_heard() {
    let (mut world, shard) = fired();
    world.start(shard);
    world.end(shard, Some(crate::world::End::Success));
    let mut standby = Partition::new(Number(0));
    world.fold_runs(&mut standby);
    world.fold_log(&mut standby);
    assert_eq!(standby.shards().count(), 0);
}

#[test]
fn a_forged_event_of_an_unknown_run_makes_no_run() {
    let (mut world, shard) = fired();
    let RunKey { queue, job, .. } = key(&world.fire(shard));
    let ended = Ended { place: Place::default(), epoch: Epoch(1), command: Some(u64::MAX) };
    for n in 0..200_000_u64 {
        let shard = ShardId { run: RunId(Uuid::from_u128(u128::from(n))), shard: 0 };
        let key = RunKey { queue: queue.clone(), job: job.clone(), shard };
        let event = RunEvent::Cancelled(ended.clone());
        world.leader.apply_run(n + 1, world.now, &key, &event);
    }
    assert_eq!(world.leader.shards().count(), 1);
    assert_eq!(world.leader.dead().count(), 0);
    // Once the flood is a minute old, events of fires to come are heard again (`early.rs` has the bound).
    world.now = world.now.plus(Duration::from_secs(60));
    world.leader.caught_up(world.now);
}
