//! Live runs: what they share, and how many there may be.

use cronstream_core::live::{LIVE_OF_JOB_MAX, LIVE_OF_PARTITION_MAX};
use cronstream_core::partition::Partition;
use cronstream_schemas::event::{Cause, Fired, JobState, LogEvent, SkipReason, TriggerCause};
use cronstream_schemas::id::{Incarnation, Partition as Number, Revision, RunId, RunSeed};
use cronstream_schemas::json::{Json, OPAQUE_MAX_BYTES};
use cronstream_schemas::name::JobId;
use cronstream_schemas::verdict::Outcome;
use serde_json::value::RawValue;

use crate::laws;
use crate::script::{at, check, play};
use crate::world::{End, World};

/// A world whose jobs run side by side and have these params.
fn with_job(jobs: usize, params: &str) -> World {
    let mut world = World::new(at("10:00:00"));
    let definition = format!(
        r#"{{"task":"t","schedule":{{"every":"1m"}},"overlap":"allow","start_within":"30d","params":{params}}}"#
    );
    for n in 0..jobs {
        world.publish(world.now, &format!("cron.define.n.j{n:03}"), &definition, None);
    }
    world.settle(|_, _, _| ());
    world
}

fn state_of(world: &World, job: &str) -> JobState {
    JobState::clone(&world.leader.job(&job.parse().unwrap()).unwrap().state)
}

/// A fire of the first job, from which others are made.
fn first_fire(world: &mut World) -> Fired {
    world.now = at("10:01:00");
    world.settle(|_, _, _| ());
    let fired = world.log.iter().find_map(|event| match event {
        LogEvent::Fired(fired) => Some(fired.clone()),
        _ => None,
    });
    fired.unwrap()
}

/// The `n`th trigger's run of a job.
fn triggered(like: &Fired, job: &JobId, n: usize) -> Fired {
    let command = 1_000_000 + n as u64;
    let run = RunId::derive(like.scheduled_at, job, Incarnation(1), RunSeed::Command(command));
    let cause = Cause::Trigger(TriggerCause { command, key: None, traceparent: None });
    Fired { job: job.clone(), run, cause, ..like.clone() }
}

/// The state as a reader of the log gets it: its params in a place of their own.
fn read_state(state: &JobState, params: &RawValue) -> LogEvent {
    let mut state = state.clone();
    state.definition.iter_mut().for_each(|it| it.params = Json::from(params));
    LogEvent::JobDefined(state)
}

#[test]
fn ten_thousand_runs_with_the_largest_params_hold_them_once() {
    let params = format!(r#""{}""#, "x".repeat(OPAQUE_MAX_BYTES - 2));
    let mut world = with_job(1, &params);
    let like = first_fire(&mut world);
    let params = RawValue::from_string(params).unwrap();
    let state = state_of(&world, "n/j000");
    let edited = JobState { revision: Revision(9), command: 9, ..state.clone() };
    let check = |runs: usize, states: [(usize, &JobState); 2]| {
        let (mut fold, mut seq) = (Partition::new(Number(0)), 0);
        for n in 0..runs {
            for (_, state) in states.iter().filter(|(before, _)| *before == n) {
                seq += 1;
                fold.apply_log(seq, &read_state(state, &params));
            }
            let fired = triggered(&like, &like.job, n);
            seq += 1;
            let params = Json::from(&*params);
            assert!(!params.is_same(&fired.params));
            fold.apply_log(seq, &LogEvent::Fired(Fired { params, ..fired }));
        }
        assert_eq!(fold.shards().count(), runs);
        let definition = fold.job(&like.job).unwrap().state.definition.clone().unwrap();
        assert!(fold.shards().all(|shard| shard.fired.params.is_same(&definition.params)));
        assert_eq!(fold.own_params_bytes(), 0);
    };
    // Its state stands before the fires, between them, behind them.
    check(LIVE_OF_JOB_MAX as usize, [(0, &state), (5_000, &edited)]);
    check(1_000, [(500, &state), (501, &edited)]);
    check(1_000, [(999, &state), (999, &edited)]);
}

#[test]
fn runs_of_the_leader_and_of_a_cold_fold_share_alike() {
    let world = play(
        r#"
        10:00:00 define a {"every":"1m"} "overlap":"allow","params":[1]
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:00:10 trigger a {"params":[2]}
            fired a trigger 2 as r1.1 rev 1
            -> fired r1
        10:00:20 trigger a {"params":[2]}
            fired a trigger 3 as r2.1 rev 1
            -> fired r2
        10:00:30 trigger a {"params":[1]}
            fired a trigger 4 as r3.1 rev 1
            -> fired r3
        10:00:40 start r1
        10:00:41 fail r1 1s
        10:00:43
            fired a trigger 2 as r1.2 rev 1
        10:01:00
            fired a 10:01:00 as r4.1 rev 1
        # What was the job's own is the runs' own now, and the other way round.
        10:01:10 define a {"every":"1m"} "overlap":"allow","params":[2]
            defined a rev 5 life 1 after 10:01:10 anchor 10:00:00
            -> accepted 5 next 10:02:00
        10:01:20 takeover
        10:01:30 start r2
        10:01:31 succeed r2
        10:01:32 delete a
            deleted a after 10:01:32
            -> accepted 5 next none
        "#,
    );
    laws::check_sharing(&world.leader);
    assert_eq!(world.leader.own_params_bytes(), "[1][2]".len());
}

#[test]
fn a_trigger_with_params_of_its_own_is_rejected_beyond_the_bound_and_nothing_else_is() {
    check(
        r#"
        10:00:00 define a {"every":"1h"} "overlap":"allow","params":"of the definition"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 11:00:00
        10:00:00 define b {"every":"1h"} "overlap":"allow"
            defined b rev 2 life 2 after 10:00:00 anchor 10:00:00
            -> accepted 2 next 11:00:00
        10:00:01 bounds 100 100 10
        10:00:01+ trigger a {"params":"12345678"}
        10:00:01+ trigger a {"params":"12345678"}
        10:00:01 trigger a {"params":7}
            fired a trigger 3 as r1.1 rev 1
            fired a trigger 4 as r2.1 rev 1
            rejected 5 $.params
            -> fired r1
            -> fired r2
            -> rejected live runs of the partition hold 10 bytes of own params; with 1 more it were over 10
        10:00:02 trigger b {"params":7}
            rejected 6 $.params
            -> rejected live runs of the partition hold 10 bytes of own params, n/a 10 of them; with 1 more it were over 10
        # The same as a live run of the job has, or the job's own, cost nothing.
        10:00:03+ trigger a {"params":"12345678"}
        10:00:03+ trigger a {"params":"of the definition"}
        10:00:03 trigger a
            fired a trigger 7 as r3.1 rev 1
            fired a trigger 8 as r4.1 rev 1
            fired a trigger 9 as r5.1 rev 1
            -> fired r3
            -> fired r4
            -> fired r5
        10:00:04 takeover
        11:00:00
            fired a 11:00:00 as r6.1 rev 1
            fired b 11:00:00 as r7.1 rev 2
        11:00:01 trigger b {"params":7}
            rejected 10 $.params
            -> rejected live runs of the partition hold 10 bytes of own params, n/a 10 of them; with 1 more it were over 10
        # They are free when the last run that has them has ended.
        11:00:02 cancel a r1
            cancelled r1 by 11
            -> cancelled r1
        11:00:03 cancel a r2
            cancelled r2 by 12
            -> cancelled r2
        11:00:04 trigger b {"params":7}
            rejected 13 $.params
            -> rejected live runs of the partition hold 10 bytes of own params, n/a 10 of them; with 1 more it were over 10
        11:00:05 cancel a r3
            cancelled r3 by 14
            -> cancelled r3
        11:00:06 trigger b {"params":7}
            fired b trigger 15 as r8.1 rev 2
            -> fired r8
        "#,
    );
}

#[test]
fn a_job_with_as_many_live_runs_as_may_be_skips_rejects_and_lets_what_waits_wait() {
    check(
        r#"
        10:00:00 define a {"every":"1m"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:00:00 define b {"every":"1m"} "overlap":"allow"
            defined b rev 2 life 2 after 10:00:00 anchor 10:00:00
            -> accepted 2 next 10:01:00
        10:00:01 bounds 2 100 100
        10:00:01 trigger b
            fired b trigger 3 as r1.1 rev 2
            -> fired r1
        10:01:00
            fired a 10:01:00 as r2.1 rev 1
            fired b 10:01:00 as r3.1 rev 2
        10:02:00
            fired a 10:02:00 as r4.1 rev 1
            skipped b 10:02:00 job_backlog rev 2
        10:02:01 trigger b
            rejected 4 $subject
            -> rejected 2 runs of the job are live, the most is 2
        10:02:02 backfill b 10:01:00 10:02:00
            held b 10:01:00..10:02:00 x2 backfill rev 2
            -> backfilling 2
        # A retry is no further run.
        10:02:03 start r1
        10:02:04 fail r1 1s
        10:02:06
            fired b trigger 3 as r1.2 rev 2
        10:02:07 takeover
        10:02:08 start r3
        10:02:09 succeed r3
            fired b backfill 5 10:01:00 as r5.1 rev 2
            held b 10:02:00..10:02:00 x1 backfill rev 2
        10:02:10 start r5
        10:02:11 succeed r5
            fired b backfill 5 10:02:00 as r6.1 rev 2
            held ended b 10:02:00..
        "#,
    );
}

#[test]
fn a_full_partition_begins_the_first_run_of_any_job_and_no_second_one() {
    check(
        r#"
        10:00:00 define a {"every":"1m"} "overlap":"allow"
            defined a rev 1 life 1 after 10:00:00 anchor 10:00:00
            -> accepted 1 next 10:01:00
        10:00:00 define b {"every":"1m"} "overlap":"allow"
            defined b rev 2 life 2 after 10:00:00 anchor 10:00:00
            -> accepted 2 next 10:01:00
        10:00:00 define c {"every":"1h"}
            defined c rev 3 life 3 after 10:00:00 anchor 10:00:00
            -> accepted 3 next 11:00:00
        10:00:01 bounds 100 1 100
        10:00:01 trigger a
            fired a trigger 4 as r1.1 rev 1
            -> fired r1
        10:00:02 trigger a
            rejected 5 $subject
            -> rejected 1 runs of the job's partition are live, the most is 1
        10:01:00
            skipped a 10:01:00 partition_backlog rev 1
            fired b 10:01:00 as r2.1 rev 2
        10:01:01 trigger c
            fired c trigger 6 as r3.1 rev 3
            -> fired r3
        10:02:00
            skipped a 10:02:00 partition_backlog rev 1
            skipped b 10:02:00 partition_backlog rev 2
        10:02:01 trigger c
            skipped c trigger 7 overlap rev 3
            -> skipped overlap
        "#,
    );
}

/// Runs that were begun before there were bounds, or under wider ones.
fn fold_live(world: &mut World, like: &Fired, jobs: usize, of_each: usize) {
    for n in 0..jobs {
        let job = format!("n/j{n:03}").parse().unwrap();
        world.log.extend((0..of_each).map(|n| LogEvent::Fired(triggered(like, &job, n))));
    }
    world.take_over();
}

/// What became of each job's slot at this instant, and of a trigger of it.
fn outcomes(world: &mut World, now: &str, job: &str) -> (Option<SkipReason>, Outcome) {
    world.now = at(now);
    let name = job.split_once('/').unwrap().1;
    world.publish(world.now, &format!("cron.trigger.n.{name}"), "", None);
    let (mut slot, mut trigger) = (None, None);
    world.settle(|_, turn, _| {
        let batch = turn.batch.as_ref().unwrap();
        for planned in &batch.events {
            if let LogEvent::Skipped(skipped) = &planned.event
                && skipped.job.to_string() == job
            {
                slot = Some(skipped.reason);
            }
        }
        trigger = trigger.take().or(batch.replies.first().map(|it| it.verdict.outcome.clone()));
    });
    (slot, trigger.unwrap())
}

#[test]
fn more_runs_of_a_job_than_may_be_live_are_folded_and_the_next_is_not_begun() {
    let mut world = with_job(2, "{}");
    let like = first_fire(&mut world);
    fold_live(&mut world, &like, 1, LIVE_OF_JOB_MAX as usize);
    let live = LIVE_OF_JOB_MAX as usize + 2;
    assert_eq!(world.leader.shards().count(), live);
    let (slot, trigger) = outcomes(&mut world, "10:02:00", "n/j000");
    assert_eq!(slot, Some(SkipReason::JobBacklog));
    let Outcome::Rejected { faults, .. } = trigger else { panic!("{trigger:?}") };
    let [fault] = &faults[..] else { panic!("{faults:?}") };
    assert_eq!((fault.path.as_str(), fault.value.as_str()), ("$subject", "n/j000"));
    assert_eq!(fault.problem, "10001 runs of the job are live, the most is 10000");
    assert!(fault.expected.contains("executors for queue default"), "{fault}");
    // The other job has its slot, and its trigger.
    let (slot, trigger) = outcomes(&mut world, "10:03:00", "n/j001");
    assert!(slot.is_none() && matches!(trigger, Outcome::Fired { .. }), "{slot:?} {trigger:?}");
    // Two ends, and there is room for one.
    for n in 0..2 {
        let shard = triggered(&like, &like.job, n).shard_id();
        world.start(shard);
        world.end(shard, Some(End::Success));
    }
    let (slot, trigger) = outcomes(&mut world, "10:04:00", "n/j000");
    let Outcome::Rejected { .. } = trigger else { panic!("{trigger:?}") };
    assert_eq!(slot, None);
}

#[test]
fn a_quarter_of_a_million_runs_fill_a_partition_and_other_jobs_begin_theirs() {
    const JOBS: usize = 50;
    let mut world = with_job(JOBS + 1, "{}");
    let like = first_fire(&mut world);
    world.log.retain(|event| !matches!(event, LogEvent::Fired(_)));
    fold_live(&mut world, &like, JOBS, LIVE_OF_PARTITION_MAX / JOBS);
    assert_eq!(world.leader.shards().count(), LIVE_OF_PARTITION_MAX);
    let (slot, trigger) = outcomes(&mut world, "10:02:00", "n/j007");
    assert_eq!(slot, Some(SkipReason::PartitionBacklog));
    let Outcome::Rejected { faults, .. } = trigger else { panic!("{trigger:?}") };
    let problem = "250000 runs of the job's partition are live, the most is 250000";
    assert_eq!(faults[0].problem, problem);
    let last: JobId = format!("n/j{JOBS:03}").parse().unwrap();
    let live = |world: &World| world.leader.shards().filter(|it| it.fired.job == last).count();
    assert_eq!(live(&world), 1);
    let (slot, _) = outcomes(&mut world, "10:03:00", &last.to_string());
    assert_eq!((slot, live(&world)), (Some(SkipReason::PartitionBacklog), 1));
}

#[test]
fn a_fault_has_room_for_the_longest_names_and_numbers() {
    let name = "x".repeat(64);
    let mut world = World::new(at("10:00:00"));
    let definition =
        format!(r#"{{"task":"t","schedule":{{"every":"1h"}},"overlap":"allow","queue":"{name}"}}"#);
    world.publish(world.now, &format!("cron.define.{name}.{name}"), &definition, None);
    world.settle(|_, _, _| ());
    world.settings.bounds.own_params = OPAQUE_MAX_BYTES;
    let body = |letter: &str| format!(r#"{{"params":"{}"}}"#, letter.repeat(OPAQUE_MAX_BYTES - 2));
    let mut faults = Vec::new();
    for letter in ["a", "b"] {
        let subject = format!("cron.trigger.{name}.{name}");
        world.publish(world.now, &subject, &body(letter), None);
        world.settle(|_, turn, _| {
            let replies = turn.batch.iter().flat_map(|batch| &batch.replies);
            for reply in replies {
                if let Outcome::Rejected { faults: found, .. } = &reply.verdict.outcome {
                    faults.extend(found.clone());
                }
            }
        });
    }
    let [fault] = &faults[..] else { panic!("{faults:?}") };
    assert!(fault.problem.ends_with("it were over 131072"), "{fault}");
    assert!(fault.expected.ends_with("then again"), "{fault}");
}
