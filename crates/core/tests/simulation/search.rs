//! The exhaustive search: one job, one shard, two tickers, two executors, and every order of a few faults.
//!
//! Invariant: every world that the scope's moves can reach is visited once, by its key; each world where nothing
//! new can happen, and every [`RESTS_EVERY`]th of the others, must come to rest.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cronstream_core::live::Bounds;
use cronstream_core::turn::Settings;
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::trace::TraceRatio;

use crate::rest::come_to_rest;
use crate::rule::Rule;
use crate::ticker::TickerMove;
use crate::transcript::Failed;
use crate::world::{Config, Fate, Left, MAX_CLOCK_ERROR, Move, Script, World};

/// Of how many worlds one is brought to rest.
const RESTS_EVERY: u64 = 251;
/// One move of time: longer than any back-off of the first two attempts.
const STAGE_MS: i64 = 9_000;
/// One move of time after which another slot is due, and may be fired by itself.
const ALONE_MS: i64 = 3_500;
/// One move of time after which fires have vanished that are kept for as short as may be.
const VANISHED_MS: i64 = 300_000;

/// What a search may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Two leaders, slots, an edit and an end of the job.
    Ticks,
    /// Two leaders who read the log while an answer is late.
    Late,
    /// Two leaders whose fires go by themselves.
    Alone,
    /// A fire by itself that vanishes with its lifetime before a cursor passes it.
    Doubt,
    /// One leader, two executors, lost answers, redelivery and a crash.
    Runs,
    /// One leader, two executors, failed attempts, stale reads and deaf acknowledgements.
    Retries,
    /// Two leaders, two executors, and a cancel.
    Ends,
    /// Two leaders and two executors.
    Whole,
}

impl Scope {
    fn left(self) -> Left {
        match self {
            Self::Ticks | Self::Alone => Left {
                advances: 1,
                takeovers: 2,
                lost_requests: 1,
                lost_answers: 1,
                early_timeouts: 1,
                ..Left::default()
            },
            Self::Doubt => Left {
                advances: 1,
                takeovers: 1,
                lost_answers: 1,
                ticker_crashes: 1,
                ..Left::default()
            },
            Self::Late => Left { advances: 1, takeovers: 2, ..Left::default() },
            Self::Runs => Left {
                advances: 1,
                lost_answers: 1,
                early_timeouts: 1,
                executor_crashes: 1,
                redeliveries: 1,
                failures: 1,
                ..Left::default()
            },
            Self::Retries => Left {
                advances: 1,
                executor_crashes: 1,
                redeliveries: 1,
                stale_reads: 1,
                deaf_acks: 1,
                failures: 2,
                ..Left::default()
            },
            Self::Ends => Left {
                takeovers: 1,
                lost_requests: 1,
                lost_answers: 1,
                executor_crashes: 1,
                ..Left::default()
            },
            Self::Whole => Left {
                advances: 1,
                takeovers: 1,
                lost_answers: 1,
                executor_crashes: 1,
                failures: 1,
                ..Left::default()
            },
        }
    }

    /// A world in which a job is defined and its first slot is due.
    pub(crate) fn begin(self, without: Option<Rule>) -> World {
        let script = match self {
            Self::Ticks => vec![Script::Define(0, 1)],
            Self::Late | Self::Alone | Self::Doubt | Self::Runs | Self::Retries | Self::Whole => {
                Vec::new()
            }
            Self::Ends => vec![Script::Cancel],
        };
        // The executor of `Ticks`, `Late`, `Alone` and `Doubt` has no permits: it works once the world comes to rest.
        let (definition, executors, permits) = match self {
            Self::Ticks | Self::Late => (0, 1, 0),
            Self::Alone => (1, 1, 0),
            Self::Doubt => (3, 1, 0),
            Self::Runs | Self::Retries | Self::Ends | Self::Whole => (2, 2, 1),
        };
        let config = Config {
            without,
            tickers: if matches!(self, Self::Runs | Self::Retries) { 1 } else { 2 },
            executors,
            permits,
            jobs: vec!["a/a".parse().expect("a job")],
            definitions: DEFINITIONS.to_vec(),
            script: [vec![Script::Define(0, definition)], script].concat(),
            advances: vec![match self {
                Self::Alone => ALONE_MS,
                Self::Doubt => VANISHED_MS,
                Self::Ticks
                | Self::Late
                | Self::Runs
                | Self::Retries
                | Self::Ends
                | Self::Whole => STAGE_MS,
            }],
            settings: Settings {
                prefix: Prefix::default(),
                hold: false,
                max_clock_error: MAX_CLOCK_ERROR,
                cursor_refresh: Duration::from_secs(3_600),
                trace_ratio: TraceRatio::default(),
                bounds: Bounds::default(),
            },
            every_end: self == Self::Late,
            alone: matches!(self, Self::Alone | Self::Doubt),
        };
        let mut world = World::new(config, Left { takeovers: 1, ..Left::default() });
        let prelude = [
            Move::Publish,
            Move::Ticker(0, TickerMove::TakeOver),
            Move::Deliver(1, Fate::Arrives),
            Move::Ticker(0, TickerMove::Turn),
            Move::Deliver(2, Fate::Arrives),
            Move::Advance(if self == Self::Doubt { ALONE_MS } else { STAGE_MS }),
        ];
        for step in prelude {
            world.step(step).expect("nothing has failed yet");
        }
        if self == Self::Alone {
            // The leader's newest cursor is fresh, and one more slot is due.
            let steps = [
                Move::Ticker(0, TickerMove::Turn),
                Move::Deliver(3, Fate::Arrives),
                Move::Advance(ALONE_MS),
            ];
            for step in steps {
                world.step(step).expect("nothing has failed yet");
            }
        }
        if matches!(self, Self::Ticks | Self::Late) {
            world.step(Move::Ticker(0, TickerMove::Crash)).expect("a crash breaks nothing");
        }
        world.left = self.left();
        world
    }
}

const DEFINITIONS: [&str; 4] = [
    r#"{"task":"t","schedule":{"every":"6s"},"overlap":"allow"}"#,
    r#"{"task":"t","schedule":{"every":"4s"},"overlap":"allow"}"#,
    r#"{"task":"t","schedule":{"at":"2027-01-15T08:00:05Z"},"max_attempts":2}"#,
    r#"{"task":"t","schedule":{"at":"2027-01-15T08:00:03Z"},"overlap":"allow","timeout":"1s","start_within":"5s","retention":"60s","max_attempts":1}"#,
];

/// What a search came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// How many worlds it has visited.
    pub(crate) worlds: usize,
    /// Whether it stopped before it had visited all.
    pub(crate) cut: bool,
    /// The first guarantee that was broken.
    pub(crate) failed: Option<Box<Failed>>,
}

struct Path {
    step: Move,
    before: Option<Arc<Path>>,
}

/// Visits every world that can be reached, at most `worlds_max` of them.
pub(crate) fn explore(begin: &World, worlds_max: usize) -> Outcome {
    let mut seen = HashSet::from([begin.key()]);
    let mut open: Vec<(World, Option<Arc<Path>>)> = vec![(begin.clone(), None)];
    while let Some((world, path)) = open.pop() {
        let mut is_end = true;
        for step in world.moves() {
            let mut next = world.clone();
            let done = next.step(step);
            let key = next.key();
            if done.is_ok() && !seen.insert(key) {
                continue;
            }
            is_end = false;
            let path = Some(Arc::new(Path { step, before: path.clone() }));
            let rests = key % RESTS_EVERY == 0;
            let done =
                done.and_then(|()| if rests { come_to_rest(&mut next.clone()) } else { Ok(()) });
            if let Err(broken) = done {
                return failed(begin, seen.len(), path.as_deref(), broken);
            }
            open.push((next, path));
        }
        if is_end && let Err(broken) = come_to_rest(&mut world.clone()) {
            return failed(begin, seen.len(), path.as_deref(), broken);
        }
        if seen.len() > worlds_max {
            return Outcome { worlds: seen.len(), cut: true, failed: None };
        }
    }
    Outcome { worlds: seen.len(), cut: false, failed: None }
}

fn failed(begin: &World, worlds: usize, mut path: Option<&Path>, broken: String) -> Outcome {
    let mut moves = Vec::new();
    while let Some(Path { step, before }) = path {
        moves.push(*step);
        path = before.as_deref();
    }
    moves.reverse();
    let failed = Some(Box::new(Failed { begin: begin.clone(), moves, broken }));
    Outcome { worlds, cut: false, failed }
}
