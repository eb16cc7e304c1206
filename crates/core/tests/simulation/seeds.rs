//! Seeded runs: many jobs, three tickers, three executors, every fault at any time.
//!
//! Invariant: a seed tells the whole run. `CRONSTREAM_SEED=7` runs that seed alone, `CRONSTREAM_SEED=0..90000` these.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cronstream_core::live::Bounds;
use cronstream_core::turn::Settings;
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::{LogEvent, SkipReason};
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::trace::TraceRatio;

use crate::executor::{End, ExecutorMove};
use crate::rest::come_to_rest;
use crate::rng::Rng;
use crate::rule::Rule;
use crate::ticker::TickerMove;
use crate::transcript::Failed;
use crate::world::{Config, Fate, Left, MAX_CLOCK_ERROR, Move, Script, World};

/// How many moves a run has before it comes to rest.
pub(crate) const STEPS: usize = 400;

/// What jobs are made of; lifetimes are short, so that runs expire, get lost and vanish.
pub(crate) const DEFINITIONS: [&str; 12] = [
    r#"{"task":"t","schedule":{"every":"5s"},"timeout":"2s","start_within":"20s","retention":"60s"}"#,
    r#"{"task":"t","schedule":{"every":"3s"},"overlap":"allow","max_attempts":2,"start_within":"1h"}"#,
    r#"{"task":"t","schedule":{"every":"7s"},"timeout":"10m","max_attempts":1,"overlap":"allow"}"#,
    r#"{"task":"t","schedule":{"cron":"*/2 * * * * *"},"start_within":"1h","retention":"2m"}"#,
    r#"{"task":"t","schedule":{"cron":"*/20 * * * * *"},"overlap":"allow","timeout":"1s","start_within":"5s","retention":"1m","max_attempts":2}"#,
    r#"{"task":"t","schedule":{"every":"5s"},"jitter":"9s","overlap":"allow","start_within":"1h"}"#,
    r#"{"task":"t","schedule":{"fixed_delay":"4s"},"timeout":"2s","start_within":"20s","retention":"60s"}"#,
    r#"{"task":"t","schedule":{"fixed_delay":"2s"},"overlap":"allow","jitter":"3s","misfire":{"policy":"fire_all","threshold":"1s","limit":5}}"#,
    r#"{"task":"t","schedule":{"every":"2s"},"misfire":{"policy":"fire_all","threshold":"1s","limit":8},"start_within":"1h"}"#,
    r#"{"task":"t","schedule":{"cron":"*/5 * * * * *"},"jitter":"3s","misfire":{"policy":"fire_all","threshold":"3s","limit":20,"window":"1h"},"overlap":"allow","timeout":"1s"}"#,
    r#"{"task":"t","schedule":{"at":"2027-01-15T08:00:30Z"},"overlap":"allow"}"#,
    r#"{"task":"t","schedule":{"every":"1s"},"time_zone":"Mars/Olympus"}"#,
];

fn script(rng: &mut Rng) -> Vec<Script> {
    let mut script = vec![Script::Define(0, below(rng, 10)), Script::Define(1, below(rng, 10))];
    for _ in 0..24 {
        let job = below(rng, 3);
        script.push(match rng.below(17) {
            0..=3 => Script::Define(job, below(rng, DEFINITIONS.len() as u64)),
            4 => Script::Plain(Verb::Delete, job),
            5 => Script::Plain(Verb::Pause, job),
            6 | 7 => Script::Plain(Verb::Resume, job),
            8 => Script::Trigger(job, None),
            9 => Script::Trigger(job, Some(rng.below(4))),
            10 => Script::Cancel,
            11 | 12 => Script::Backfill(job, *rng.pick(&[3_000, 20_000, 60_000])),
            13 => Script::Skip(job),
            14 | 15 => Script::Shift(job, *rng.pick(&[500, 1_500, 4_000, 30_000])),
            _ => Script::Foreign,
        });
    }
    script
}

fn below(rng: &mut Rng, bound: u64) -> usize {
    usize::try_from(rng.below(bound)).expect("an index")
}

/// Every other seed has bounds that its runs can reach.
fn bounds(seed: u64) -> Bounds {
    match seed % 4 {
        0 => Bounds { of_job: 2, ..Bounds::default() },
        1 => Bounds { of_partition: 3, ..Bounds::default() },
        _ => Bounds::default(),
    }
}

fn world(rng: &mut Rng, (bounds, alone): (Bounds, bool), without: Option<Rule>) -> World {
    let config = Config {
        without,
        tickers: 3,
        executors: 3,
        permits: 3,
        jobs: ["a/m", "a/n", "b/a"].map(|job| job.parse().expect("a job")).to_vec(),
        definitions: DEFINITIONS.to_vec(),
        script: script(rng),
        advances: vec![7, 400, 1_000, 3_000, 65_000, 4_000_000],
        settings: Settings {
            prefix: Prefix::default(),
            hold: rng.one_in(8),
            max_clock_error: MAX_CLOCK_ERROR,
            cursor_refresh: Duration::from_secs(60),
            trace_ratio: TraceRatio::default(),
            bounds,
        },
        every_end: true,
        alone,
    };
    let plenty = u16::MAX;
    let left = Left {
        advances: plenty,
        takeovers: plenty,
        lost_requests: plenty,
        lost_answers: plenty,
        early_timeouts: plenty,
        ticker_crashes: plenty,
        executor_crashes: plenty,
        redeliveries: plenty,
        stale_reads: plenty,
        deaf_acks: plenty,
        failures: plenty,
        interrupts: plenty,
        jumps: plenty,
        broker_crashes: 2,
        poisons: plenty,
    };
    let mut world = World::new(config, left);
    world.log.window = Duration::from_secs(*rng.pick(&[0, 1, 120]));
    world.log.ids_first = rng.one_in(2);
    world
}

/// How likely a move is beside the others.
const fn weight(step: Move) -> u64 {
    match step {
        Move::Advance(by) => match by {
            0..100 => 20,
            100..2_000 => 40,
            2_000..10_000 => 15,
            10_000..1_000_000 => 3,
            _ => 1,
        },
        Move::Publish => 25,
        Move::Deliver(_, Fate::Arrives) => 120,
        Move::Deliver(_, Fate::Lost | Fate::Late) => 12,
        Move::LoseRequest(_) => 8,
        Move::LateAnswer(_) => 20,
        Move::Redeliver(_) => 6,
        Move::Jump(..) | Move::BringBack | Move::Poison | Move::Release => 1,
        Move::Ticker(_, step) => match step {
            TickerMove::TakeOver => 4,
            TickerMove::FollowLog => 15,
            TickerMove::FollowRuns | TickerMove::FollowCommands => 40,
            TickerMove::Turn => 80,
            TickerMove::TimeOut | TickerMove::TimeOutAppend(_) => 10,
            TickerMove::WriteDead { lost: false } => 20,
            TickerMove::WriteDead { lost: true } => 5,
            TickerMove::StepDown | TickerMove::Crash => 1,
        },
        Move::Executor(_, step) => match step {
            ExecutorMove::Pull(_) | ExecutorMove::Decide { stale: false, .. } => 30,
            ExecutorMove::Decide { stale: true, .. } => 6,
            ExecutorMove::Flush => 40,
            ExecutorMove::TimeOut(_) => 10,
            ExecutorMove::Finish(_, End::Success) => 15,
            ExecutorMove::Finish(_, End::Failure { .. }) => 6,
            ExecutorMove::Finish(_, End::Final) | ExecutorMove::Interrupt(_) => 3,
            ExecutorMove::Beat(_) => 8,
            ExecutorMove::Acknowledge { deaf: false, .. } => 30,
            ExecutorMove::Acknowledge { deaf: true, .. } => 6,
            ExecutorMove::Crash => 2,
        },
    }
}

fn choose(rng: &mut Rng, moves: &[Move]) -> Option<Move> {
    let total: u64 = moves.iter().map(|step| weight(*step)).sum();
    let mut drawn = rng.below(total.max(1));
    moves.iter().copied().find(|step| {
        let found = drawn < weight(*step);
        drawn = drawn.saturating_sub(weight(*step));
        found
    })
}

/// The kinds of events that were stored; for slots that a bound kept back, the reason.
pub(crate) type Seen = BTreeSet<&'static str>;

/// Runs one seed.
fn run(seed: u64, without: Option<Rule>) -> Result<Seen, Box<Failed>> {
    let mut rng = Rng::new(seed);
    // One in four never lets a fire go by itself.
    let alone = seed % 16 < 12;
    let begin = world(&mut rng, (bounds(seed), alone), without);
    let mut world = begin.clone();
    let mut moves = Vec::with_capacity(STEPS);
    for _ in 0..STEPS {
        let Some(step) = choose(&mut rng, &world.moves()) else { break };
        moves.push(step);
        if let Err(broken) = world.step(step) {
            return Err(Box::new(Failed { begin, moves, broken }));
        }
    }
    match come_to_rest(&mut world) {
        Ok(()) => Ok(seen(&world)),
        Err(broken) => Err(Box::new(Failed { begin, moves, broken })),
    }
}

fn seen(world: &World) -> Seen {
    let log = world.log.all().map(|message| match &message.event {
        LogEvent::JobDefined(_) => "job_defined",
        LogEvent::JobPaused(_) => "job_paused",
        LogEvent::JobResumed(_) => "job_resumed",
        LogEvent::JobDeleted(_) => "job_deleted",
        LogEvent::JobRevised(_) => "job_revised",
        LogEvent::Fired(_) => "fired",
        LogEvent::Held(_) => "held",
        LogEvent::HeldEnded(_) => "held_ended",
        LogEvent::Skipped(skipped) => match skipped.reason {
            SkipReason::JobBacklog | SkipReason::PartitionBacklog => skipped.reason.as_str(),
            SkipReason::Misfire
            | SkipReason::Overlap
            | SkipReason::Paused
            | SkipReason::Deleted
            | SkipReason::Requested => "skipped",
        },
        LogEvent::Rejected(_) => "rejected",
        LogEvent::Cursor(_) => "cursor",
        LogEvent::Meta(_) => "meta",
        LogEvent::JobOverridden(_) => "job_overridden",
        LogEvent::CalendarDefined(_) => "calendar_defined",
        LogEvent::CalendarDeleted(_) => "calendar_deleted",
        LogEvent::CalendarRevised(_) => "calendar_revised",
    });
    log.chain(world.runs.all().map(|message| message.event.kind())).collect()
}

/// Runs seeds on every core; returns what was seen, or the lowest seed that failed.
pub(crate) fn run_all(
    seeds: Range<u64>,
    without: Option<Rule>,
) -> Result<Seen, (u64, Box<Failed>)> {
    let next = AtomicU64::new(seeds.start);
    let end = AtomicU64::new(seeds.end);
    let work = || {
        let (mut seen, mut failed) = (Seen::new(), None);
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end.load(Ordering::Relaxed) {
                return (seen, failed);
            }
            match run(seed, without) {
                Ok(kinds) => seen.extend(kinds),
                Err(failure) => {
                    end.fetch_min(seed, Ordering::Relaxed);
                    failed = Some((seed, failure));
                }
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let done: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a seed panicked")).collect()
    });
    let (seen, failed): (Vec<_>, Vec<_>) = done.into_iter().unzip();
    match failed.into_iter().flatten().min_by_key(|(seed, _)| *seed) {
        Some(failed) => Err(failed),
        None => Ok(seen.into_iter().flatten().collect()),
    }
}
