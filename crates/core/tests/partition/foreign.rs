//! What others write: garbage, later versions, a stranger on the cursor's subject, run events out of order.

use cronstream_core::partition::Partition;
use cronstream_schemas::event::{Ended, LogEvent, Place, RunEvent};
use cronstream_schemas::fault::{FAULTS_MAX, VALUE_MAX_BYTES};
use cronstream_schemas::id::{Epoch, Partition as Number, RunId, ShardId};
use cronstream_schemas::subject::RunKey;
use cronstream_schemas::verdict::Outcome;
use uuid::Uuid;

use crate::script::{at, check};
use crate::world::{World, key};

#[test]
fn each_command_that_cannot_be_read_is_rejected_once() {
    check(
        r#"
        10:00:00 raw cron.define.n
            rejected 1 $subject
            -> rejected subject "cron.define.n" is not of the form <prefix>.<verb>.<namespace>.<job>
        10:00:00 raw cron.define.n.a.b {"task":"t"}
            rejected 2 $subject
            -> rejected subject "cron.define.n.a.b" is not of the form <prefix>.<verb>.<namespace>.<job>
        10:00:00 raw cron.explode.n.a
            rejected 3 $subject
            -> rejected subject "cron.explode.n.a" is not of the form <prefix>.<verb>.<namespace>.<job>
        10:00:00 raw other.define.n.a
            rejected 4 $subject
            -> rejected subject "other.define.n.a" is not of the form <prefix>.<verb>.<namespace>.<job>
        10:00:00 raw cron.define.n._ {}
            rejected 5 $subject
            -> rejected subject "cron.define.n._": job: name "_" has '_' at byte 0
        10:00:00 raw cron.define.n.a
            rejected 6 $
            -> rejected EOF while parsing a value at line 1 column 0
        10:00:00 raw cron.define.n.a null
            rejected 7 $
            -> rejected invalid type: null, expected an object at line 1 column 4
        10:00:00 raw cron.define.n.a {"task":7,"schedule":{"cron":"99 * * * *"},"time_zone":"X","x":1}
            rejected 8 $.x $.task $.schedule.cron $.time_zone
            -> rejected unknown field
        10:00:00 raw cron.trigger.n.a {"key":""}
            rejected 9 $.key
            -> rejected not a key
        10:00:00 raw cron.cancel.n.a {"run":"x"}
            rejected 10 $.run
            -> rejected not a run id
        10:00:00 raw cron.pause.n.a {"because":"x"}
            rejected 11 $.because
            -> rejected unknown field
        10:00:00 raw cron.delete.n.a nonsense
            rejected 12 $
            -> rejected expected ident at line 1 column 2
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
fn an_event_of_a_later_version_ends_the_decisions() {
    let mut world = World::new(at("10:00:00"));
    world.publish(at("10:00:00"), "cron.pause.n.a", "", None);
    let seq = world.log.len() as u64 + 1;
    world.leader.apply_unknown(seq, "job_archived");
    assert_eq!(world.leader.unknown(), Some("job_archived"));
    assert_eq!(world.leader.log_through(), seq);
    let turn = world.turn();
    assert!(turn.batch.is_none() && turn.appends.is_empty());
}

#[test]
fn the_cursor_of_another_leader_ends_the_term() {
    let mut world = World::new(at("10:00:00"));
    let deposed = world.leader.clone();
    world.take_over();
    let mut newest = std::mem::replace(&mut world.leader, deposed);
    let seq = world.log.len() as u64;
    world.leader.apply_log(seq, world.log.last().unwrap());
    assert!(newest.is_leading() && !world.leader.is_leading());
    world.publish(at("10:00:00"), "cron.pause.n.a", "", None);
    assert!(world.turn().batch.is_none());
    newest.offer(world.commands[0].clone());
    world.leader = newest;
    assert!(world.turn().batch.is_some());
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
fn forged_run_events_make_no_run_and_hide_no_cancel() {
    let (mut world, shard) = fired();
    let RunKey { queue, job, .. } = key(&world.fire(shard));
    for n in 0..200_000_u64 {
        let shard = ShardId { run: RunId(Uuid::from_u128(u128::from(n))), shard: 0 };
        let key = RunKey { queue: queue.clone(), job: job.clone(), shard };
        let command = Some(u64::MAX - n);
        let ended = Ended { place: Place::default(), epoch: Epoch(1), command };
        world.leader.apply_run(n + 1, world.now, &key, &RunEvent::Cancelled(ended));
    }
    assert_eq!((world.leader.shards().count(), world.leader.dead().count()), (1, 0));
    let body = format!(r#"{{"run":"{}"}}"#, shard.run);
    world.publish(world.now, "cron.cancel.n.a", &body, None);
    let append = world.turn().appends.remove(0);
    let at = world.now;
    world.leader.apply_run(200_001, at, &append.key, &append.event);
    let batch = world.turn().batch.unwrap();
    assert!(matches!(batch.replies[0].verdict.outcome, Outcome::Cancelled { .. }));
}
