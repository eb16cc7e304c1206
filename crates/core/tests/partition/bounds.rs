//! Bounds: what comes all at once is cut into batches, and nothing is lost at a cut.

use std::collections::HashSet;
use std::time::Duration;

use cronstream_core::partition::{COMMANDS_WAITING_MAX, Partition};
use cronstream_core::turn::{APPENDS_MAX, COMMANDS_MAX, EVENTS_MAX};
use cronstream_schemas::event::{Cause, JobState, LogEvent};
use cronstream_schemas::id::{Incarnation, Partition as Number, Revision};

use crate::laws;
use crate::script::at;
use crate::world::World;

/// A world in which `count` jobs with this definition stand since 10:00.
fn with_jobs(count: usize, definition: &str) -> World {
    let now = at("10:00:00");
    let mut world = World::new(now);
    world.publish(now, "cron.define.n.j000000", definition, None);
    world.settle(|_, _, _| ());
    let first = world.log.iter().find_map(|event| match event {
        LogEvent::JobDefined(state) => Some(state.clone()),
        _ => None,
    });
    let first = first.unwrap();
    for n in 1..count {
        let state = JobState {
            job: format!("n/j{n:06}").parse().unwrap(),
            revision: Revision(1),
            incarnation: Incarnation(1),
            ..first.clone()
        };
        world.log.push(LogEvent::JobRevised(state.clone()));
        world.log.push(LogEvent::JobDefined(state));
    }
    world.take_over();
    world
}

#[test]
fn a_hundred_thousand_jobs_due_at_once_are_cut_and_every_cut_survives_a_new_leader() {
    const JOBS: usize = 100_000;
    let definition = r#"{"task":"t","schedule":{"every":"5m"}}"#;
    let mut world = with_jobs(JOBS, definition);
    world.now = at("10:05:00.003");
    let mut standby = Partition::new(Number(0));
    let mut batches = 0;
    loop {
        let folded = usize::try_from(standby.log_through()).unwrap();
        for (seq, event) in (folded as u64 + 1..).zip(&world.log[folded..]) {
            standby.apply_log(seq, event);
        }
        let deposed = std::mem::replace(&mut world.leader, Partition::new(Number(0)));
        world.lead(standby);
        standby = deposed;
        standby.follow();
        let Some(batch) = world.turn().batch else { break };
        let position = &batch.cursor.position;
        assert_eq!(position.due, if position.job.is_some() { at("10:05:00") } else { world.now });
        world.store(&batch);
        batches += 1;
    }
    // A decision needs up to three events, so two places may stay empty.
    assert_eq!(batches, JOBS.div_ceil(EVENTS_MAX - 2));
    let fired: HashSet<_> = world
        .log
        .iter()
        .filter_map(|event| match event {
            LogEvent::Fired(fired) => {
                assert_eq!(fired.cause, Cause::Slot(at("10:05:00")));
                Some(fired.job.clone())
            }
            _ => None,
        })
        .collect();
    assert_eq!(fired.len(), JOBS);
    laws::check_log(&world);
}

#[test]
fn sixty_one_late_slots_with_the_largest_params_never_exceed_a_batch() {
    for overlap in ["allow", "skip"] {
        let params = format!(r#""{}""#, "x".repeat(128 * 1024 - 2));
        let definition = format!(
            r#"{{"task":"t","schedule":{{"every":"1s"}},"overlap":"{overlap}","params":{params}}}"#
        );
        let mut world = with_jobs(3, &definition);
        world.now = at("10:02:00");
        // An edit makes the leader decide the job's slots first.
        world.publish(at("10:02:00"), "cron.define.n.j000001", &definition, None);
        let mut batches = 0;
        world.settle(|_, turn, _| batches += usize::from(turn.batch.is_some()));
        laws::check_log(&world);
        let count = |wanted: fn(&LogEvent) -> bool| world.log.iter().filter(|e| wanted(e)).count();
        let fired = count(|event| matches!(event, LogEvent::Fired(_)));
        assert_eq!(fired, if overlap == "allow" { 3 * 61 } else { 3 });
        assert!(batches > usize::from(overlap == "allow"), "{batches} batches");
        // The edit keeps the anchor; the job is decided whole, and in force.
        assert_eq!(world.jobs()["n/j000001"], at("10:02:00"));
        assert_eq!(world.leader.commands_through(), 2);
    }
}

#[test]
fn slots_of_a_new_revision_that_find_no_room_are_skipped_with_it() {
    let params = format!(r#""{}""#, "x".repeat(128 * 1024 - 2));
    let definition = format!(
        r#"{{"task":"t","schedule":{{"every":"1s"}},"overlap":"allow","params":{params}}}"#
    );
    let mut world = World::new(at("10:00:00"));
    world.publish(at("10:00:00"), "cron.define.n.a", &definition, None);
    world.now = at("10:01:00");
    let turn = world.turn();
    let batch = turn.batch.unwrap();
    world.store(&batch);
    laws::check_log(&world);
    let skipped = batch.events.iter().find_map(|planned| match &planned.event {
        LogEvent::Skipped(skipped) => Some(skipped.what.clone()),
        _ => None,
    });
    assert!(skipped.is_some());
    assert_eq!(world.jobs()["n/a"], at("10:01:00"));
    assert_eq!(world.leader.commands_through(), 1);
}

#[test]
fn the_largest_definitions_fit_their_batches() {
    let params = format!(r#""{}""#, "x".repeat(128 * 1024 - 2));
    let labels: Vec<_> =
        (0..32).map(|n| format!(r#""l{n}":"{}""#, "\\u0001".repeat(256))).collect();
    let definition = format!(
        r#"{{"task":"t","schedule":{{"every":"1m"}},"params":{params},"labels":{{{}}}}}"#,
        labels.join(",")
    );
    let mut world = World::new(at("10:00:00"));
    for n in 0..50 {
        world.publish(at("10:00:00"), &format!("cron.define.n.j{n:02}"), &definition, None);
    }
    world.settle(|_, _, _| ());
    assert_eq!(world.jobs().len(), 50);
    world.settings.hold = true;
    world.now = at("10:01:00");
    world.settle(|_, _, _| ());
    world.settings.hold = false;
    world.settle(|_, _, _| ());
    assert_eq!(world.leader.shards().count(), 50);
    laws::check_log(&world);
    laws::check_folds(&world);
}

#[test]
fn the_reader_of_commands_is_told_to_pause() {
    let mut world = World::new(at("10:00:00"));
    for n in 0..COMMANDS_WAITING_MAX {
        assert!(!world.leader.is_full(), "{n}");
        world.publish(at("10:00:00"), "cron.pause.n.a", "", None);
    }
    assert!(world.leader.is_full());
    let batch = world.turn().batch.unwrap();
    assert_eq!(batch.cursor.commands_through, COMMANDS_MAX as u64);
    world.store(&batch);
    assert!(!world.leader.is_full());
    world.settle(|_, _, _| ());
    assert_eq!(world.leader.commands_through(), COMMANDS_WAITING_MAX as u64);
    assert_eq!(world.leader.commands_waiting(), 0);
    let rejected = world.log.iter().filter(|event| matches!(event, LogEvent::Rejected(_))).count();
    assert_eq!(rejected, COMMANDS_WAITING_MAX);
}

#[test]
fn a_command_is_taken_once_and_in_order() {
    let mut world = World::new(at("10:00:00"));
    world.publish(at("10:00:00"), "cron.pause.n.a", "", None);
    world.publish(at("10:00:00"), "cron.pause.n.a", "", None);
    for command in world.commands.clone() {
        world.leader.offer(command);
    }
    assert_eq!(world.leader.commands_waiting(), 2);
    world.settle(|_, _, _| ());
    for command in world.commands.clone() {
        world.leader.offer(command);
    }
    assert_eq!(world.leader.commands_waiting(), 0);
}

#[test]
fn the_ends_of_many_runs_are_handed_out_in_parts() {
    let definition = r#"{"task":"t","schedule":{"every":"1m"},"start_within":"10s"}"#;
    let mut world = with_jobs(APPENDS_MAX * 2 + 100, definition);
    world.now = at("10:01:00");
    world.settle(|_, _, _| ());
    world.now = at("10:01:10");
    let mut parts = Vec::new();
    world.settle(|_, turn, _| parts.push(turn.appends.len()));
    assert_eq!(parts, [APPENDS_MAX, APPENDS_MAX, 100]);
    assert_eq!(world.leader.shards().count(), 0);
}

#[test]
fn a_cursor_follows_other_partitions_commands_every_six_hours() {
    let mut world = World::new(at("10:00:00"));
    world.leader.saw_commands(1_000);
    world.now = at("15:59:59");
    assert!(world.turn().batch.is_none());
    world.now = at("16:00:00");
    let batch = world.turn().batch.unwrap();
    assert_eq!((batch.events.len(), batch.cursor.commands_through), (0, 1_000));
    world.store(&batch);
    assert!(world.turn().batch.is_none());
}

/// A hundred overridden slots, each between two others whose jitter has not passed, of a job with the largest params.
#[test]
fn an_edit_that_hands_on_a_hundred_overridden_slots_is_cut_into_batches() {
    let check = |verb: &str, field: &str| {
        let params = format!(r#""{}""#, "x".repeat(128 * 1024 - 2));
        let schedule = r#""schedule":{"every":"1m"},"jitter":"24h""#;
        let definition = format!(r#"{{"task":"t",{schedule},"params":{params}}}"#);
        let mut world = World::new(at("10:00:00"));
        world.publish(world.now, "cron.define.n.a", &definition, None);
        world.settle(|_, _, _| ());
        for n in 1..=100_u64 {
            let slot = world.now.plus(Duration::from_secs(120 * n));
            let body = format!(r#"{{"slot":"{slot}"{field}}}"#);
            world.publish(world.now, &format!("cron.{verb}.n.a"), &body, None);
        }
        world.settle(|_, _, _| ());
        world.now = at("13:50:00");
        let edit = r#"{"task":"t","schedule":{"every":"1h"}}"#;
        world.publish(world.now, "cron.define.n.a", edit, None);
        let mut batches = 0;
        world.settle(|_, _, _| batches += 1);
        assert!(batches > 1, "{batches} batches");
        let job = world.leader.job(&"n/a".parse().unwrap()).unwrap();
        assert_eq!((job.state.command, job.state.effective_after), (102, world.now));
        laws::check_log(&world);
    };
    check("skip", "");
    check("shift", r#","to":"2026-03-05T00:00:00Z""#);
}

#[test]
fn what_is_on_time_goes_before_all_that_a_hold_has_kept() {
    const JOBS: usize = 5_000;
    let mut world = with_jobs(JOBS, r#"{"task":"t","schedule":{"every":"1h"}}"#);
    let punctual = r#"{"task":"t","schedule":{"cron":"5 * * * *"}}"#;
    world.publish(world.now, "cron.define.n.now", punctual, None);
    world.settle(|_, _, _| ());
    world.settings.hold = true;
    world.now = at("11:00:00");
    world.settle(|_, _, _| ());
    world.settings.hold = false;
    world.now = at("11:05:00");
    let (mut first, mut batches, mut fired) = (None, 0, 0);
    world.settle(|_, turn, _| {
        let events = turn.batch.iter().flat_map(|batch| &batch.events);
        for planned in events {
            let LogEvent::Fired(it) = &planned.event else { continue };
            first.get_or_insert((it.job.name.to_string(), batches));
            fired += 1;
        }
        batches += 1;
    });
    assert_eq!((first, fired), (Some(("now".to_owned(), 0)), JOBS + 1));
    // Two events for each, and up to three places that stay empty.
    assert!(batches <= (2 * JOBS).div_ceil(EVENTS_MAX - 4), "{batches} batches");
}
