//! The world of the simulation: streams, network, nodes, clocks, and the moves that can happen next.
//!
//! ```text
//!   tickers ──Request──► net ──deliver──► Log, Runs ──► checker (every stored message)
//!      ▲                  │                  │
//!      └──── answer ◄─────┴─ lost, late      └──► queue ──pull──► executors ──Request──► net
//! ```
//!
//! Invariant: a world is a value. The same moves from the same world lead to the same world; a move that is not
//! possible changes nothing.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use cronstream_core::partition::PendingCommand;
use cronstream_core::turn::{Batch, Settings};
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::{Event, LogEvent};
use cronstream_schemas::id::ShardId;
use cronstream_schemas::name::JobId;
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::time::Timestamp;

use crate::checker::Checker;
use crate::executor::{Executor, ExecutorMove};
use crate::queue::Queue;
use crate::rng::mix;
use crate::rule::Rule;
use crate::store::{Log, LogMessage, Refused, RunItem, Runs, Terms};
use crate::ticker::{Ticker, TickerMove};

/// When every world begins.
pub(crate) const BEGIN_MS: i64 = 1_800_000_000_000;
/// How far a position may run ahead of the broker's clock (`design.md` §5).
pub(crate) const MAX_CLOCK_ERROR: Duration = Duration::from_millis(500);

/// After this long nothing that was sent before still arrives.
const CONNECTION_LOST_MS: i64 = 10_000;

/// A command that somebody publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Script {
    /// A definition of a job: both by number.
    Define(usize, usize),
    /// A verb without arguments.
    Plain(Verb, usize),
    /// A trigger, with a key.
    Trigger(usize, Option<u64>),
    /// A cancel of the newest run that has no result.
    Cancel,
    /// A backfill of a job's slots of the last so many milliseconds.
    Backfill(usize, u64),
    /// A skip of a job's next slot.
    Skip(usize),
    /// A shift of a job's next slot to so many milliseconds from now.
    Shift(usize, u64),
    /// A command of another partition.
    Foreign,
}

/// What does not change in a world.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The rule that is taken away.
    pub(crate) without: Option<Rule>,
    pub(crate) tickers: usize,
    pub(crate) executors: usize,
    /// How many deliveries an executor holds.
    pub(crate) permits: usize,
    pub(crate) jobs: Vec<JobId>,
    pub(crate) definitions: Vec<&'static str>,
    pub(crate) script: Vec<Script>,
    /// How far time may move on at once.
    pub(crate) advances: Vec<i64>,
    pub(crate) settings: Settings,
    /// Whether tasks may fail, and answers come late: more ends than a small search needs.
    pub(crate) every_end: bool,
    /// Whether fires go by themselves where they may.
    pub(crate) alone: bool,
}

impl Config {
    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }
}

/// How often each fault may still happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    pub(crate) advances: u16,
    pub(crate) takeovers: u16,
    pub(crate) lost_requests: u16,
    pub(crate) lost_answers: u16,
    pub(crate) early_timeouts: u16,
    pub(crate) ticker_crashes: u16,
    pub(crate) executor_crashes: u16,
    pub(crate) redeliveries: u16,
    pub(crate) stale_reads: u16,
    pub(crate) deaf_acks: u16,
    pub(crate) failures: u16,
    pub(crate) interrupts: u16,
    pub(crate) jumps: u16,
    pub(crate) broker_crashes: u16,
    pub(crate) poisons: u16,
}

/// Who sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Party {
    Ticker(usize),
    Executor(usize),
}

/// What a request asks a stream to store.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    Batch { batch: Arc<Batch>, terms: Terms },
    Runs(Vec<RunItem>),
}

/// A request on its way to a stream.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) from: Party,
    pub(crate) body: Body,
    /// Stands for what it asks in a state's key.
    digest: u64,
}

impl Body {
    fn digest(&self, from: Party) -> u64 {
        let mut hasher = DefaultHasher::new();
        from.hash(&mut hasher);
        match self {
            Body::Batch { batch, terms } => {
                terms.hash(&mut hasher);
                batch.cursor_expected.hash(&mut hasher);
                LogEvent::Cursor(batch.cursor.clone()).encode().hash(&mut hasher);
                batch.events.iter().for_each(|planned| planned.body.hash(&mut hasher));
            }
            Body::Runs(items) => {
                for item in items {
                    item.expected.hash(&mut hasher);
                    item.event.encode().hash(&mut hasher);
                }
            }
        }
        hasher.finish()
    }
}

/// What a stream answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Answer {
    pub(crate) request: u64,
    pub(crate) to: Party,
    /// The last sequence that was stored.
    pub(crate) result: Result<u64, Refused>,
}

/// What becomes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Arrives,
    Lost,
    Late,
}

/// One move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Move {
    Advance(i64),
    Publish,
    Deliver(u64, Fate),
    LoseRequest(u64),
    LateAnswer(u64),
    Redeliver(u64),
    Jump(usize, i64),
    BringBack,
    Poison,
    /// The cluster is released from its hold.
    Release,
    Ticker(usize, TickerMove),
    Executor(usize, ExecutorMove),
}

/// Everything there is.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) config: Arc<Config>,
    pub(crate) now: Timestamp,
    pub(crate) log: Log,
    pub(crate) runs: Runs,
    pub(crate) commands: Vec<Arc<PendingCommand>>,
    /// Which of the commands are another partition's.
    pub(crate) foreign: Vec<bool>,
    pub(crate) dead: BTreeMap<ShardId, u32>,
    pub(crate) queue: Queue,
    pub(crate) tickers: Vec<Ticker>,
    pub(crate) executors: Vec<Executor>,
    pub(crate) net: Vec<Request>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) left: Left,
    pub(crate) checker: Checker,
    pub(crate) published: usize,
    next_request: u64,
}

impl World {
    pub(crate) fn new(config: Config, left: Left) -> Self {
        Self {
            now: Timestamp::from_millis(BEGIN_MS),
            log: Log::default(),
            runs: Runs::default(),
            commands: Vec::new(),
            foreign: Vec::new(),
            dead: BTreeMap::new(),
            queue: Queue::default(),
            tickers: (0..config.tickers).map(Ticker::new).collect(),
            executors: (0..config.executors).map(Executor::new).collect(),
            net: Vec::new(),
            answers: Vec::new(),
            left,
            checker: Checker::new(config.settings.bounds),
            published: 0,
            next_request: 1,
            config: Arc::new(config),
        }
    }

    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.config.keeps(rule)
    }

    /// Makes a move.
    ///
    /// # Errors
    /// The guarantee that it broke.
    pub(crate) fn step(&mut self, step: Move) -> Result<(), String> {
        match step {
            Move::Advance(by) => {
                spend(&mut self.left.advances);
                if by >= CONNECTION_LOST_MS {
                    self.net.clear();
                    self.answers.clear();
                }
                self.now = self.now.plus(Duration::from_millis(by.unsigned_abs()));
            }
            Move::Publish => self.publish(),
            Move::Deliver(id, fate) => self.deliver(id, fate),
            Move::LoseRequest(id) => {
                spend(&mut self.left.lost_requests);
                self.net.retain(|request| request.id != id);
            }
            Move::LateAnswer(id) => {
                if let Some(at) = self.answers.iter().position(|answer| answer.request == id) {
                    let answer = self.answers.remove(at);
                    self.hear(answer);
                }
            }
            Move::Redeliver(seq) => {
                if self.executors.iter().any(|executor| executor.holds(seq)) {
                    spend(&mut self.left.redeliveries);
                }
                self.queue.redeliver(seq);
            }
            Move::Jump(ticker, by) => {
                spend(&mut self.left.jumps);
                self.tickers[ticker].offset = by;
            }
            Move::BringBack => {
                spend(&mut self.left.broker_crashes);
                self.log.bring_back();
            }
            Move::Poison => {
                spend(&mut self.left.poisons);
                self.log.poison = true;
            }
            Move::Release => self.release(),
            Move::Ticker(ticker, step) => self.move_ticker(ticker, step),
            Move::Executor(executor, step) => self.move_executor(executor, step),
        }
        self.checker.verdict()
    }

    pub(crate) fn send(&mut self, from: Party, body: Body) -> u64 {
        let id = self.next_request;
        self.next_request += 1;
        let digest = body.digest(from);
        self.net.push(Request { id, from, body, digest });
        id
    }

    /// Whether a request or its answer may still arrive.
    pub(crate) fn is_under_way(&self, request: u64) -> bool {
        self.net.iter().any(|r| r.id == request)
            || self.answers.iter().any(|answer| answer.request == request)
    }

    fn deliver(&mut self, id: u64, fate: Fate) {
        let Some(at) = self.net.iter().position(|request| request.id == id) else { return };
        let request = self.net.remove(at);
        let result = match &request.body {
            Body::Batch { batch, terms } => {
                let (stored, result) = self.log.store(self.now, batch, *terms);
                stored.iter().for_each(|message| self.stored_log(message));
                result
            }
            Body::Runs(items) => {
                let stored = self.runs.store(self.now, items);
                stored.iter().flatten().for_each(|message| self.checker.run(message));
                self.follow_at_once();
                stored.map(|stored| stored.last().map_or(0, |message| message.seq))
            }
        };
        let answer = Answer { request: id, to: request.from, result };
        match fate {
            Fate::Arrives => self.hear(answer),
            Fate::Lost => spend(&mut self.left.lost_answers),
            Fate::Late => self.answers.push(answer),
        }
    }

    fn hear(&mut self, answer: Answer) {
        match answer.to {
            Party::Ticker(ticker) => self.ticker_hears(ticker, answer),
            Party::Executor(executor) => self.executor_hears(executor, answer),
        }
    }

    fn stored_log(&mut self, message: &LogMessage) {
        if matches!(message.event, LogEvent::Fired(_)) {
            self.queue.offer(message.seq);
        }
        self.checker.log(message);
    }

    pub(crate) fn release(&mut self) {
        Arc::make_mut(&mut self.config).settings.hold = false;
    }

    fn publish(&mut self) {
        if let Some(script) = self.config.script.get(self.published).cloned() {
            self.published += 1;
            self.announce(&script);
        }
    }

    /// Publishes a command.
    pub(crate) fn announce(&mut self, script: &Script) {
        let config = Arc::clone(&self.config);
        let job = |n: usize| &config.jobs[n % config.jobs.len()];
        let (verb, job, body) = match *script {
            Script::Define(n, body) => (Verb::Define, job(n), config.definitions[body].to_owned()),
            Script::Plain(verb, n) => (verb, job(n), String::new()),
            Script::Trigger(n, key) => {
                let key = key.map(|key| format!("{{\"key\":\"k{key}\"}}"));
                (Verb::Trigger, job(n), key.unwrap_or_default())
            }
            Script::Cancel => match self.checker.newest_run() {
                Some((job, run)) => {
                    let job = config.jobs.iter().find(|j| **j == job).expect("a job of ours");
                    (Verb::Cancel, job, format!("{{\"run\":\"{run}\"}}"))
                }
                None => return,
            },
            Script::Backfill(n, back) => {
                let from = self.now.minus(Duration::from_millis(back));
                let body = format!("{{\"from\":\"{from}\",\"to\":\"{}\"}}", self.now);
                (Verb::Backfill, job(n), body)
            }
            Script::Skip(n) => (Verb::Skip, job(n), String::new()),
            Script::Shift(n, ahead) => {
                let to = self.now.plus(Duration::from_millis(ahead));
                (Verb::Shift, job(n), format!("{{\"to\":\"{to}\"}}"))
            }
            Script::Foreign => (Verb::Pause, job(0), String::new()),
        };
        self.foreign.push(*script == Script::Foreign);
        self.commands.push(Arc::new(PendingCommand {
            seq: self.commands.len() as u64 + 1,
            at: self.now,
            subject: Prefix::default().command(verb, job),
            body: body.into_bytes(),
            reply: None,
            expected_revision: None,
            traceparent: None,
        }));
    }

    /// Stands for everything that decides the future.
    pub(crate) fn key(&self) -> u64 {
        let under_way = |request| self.is_under_way(request);
        let mut key = mix(self.now.as_millis().unsigned_abs(), self.log.digest);
        key = mix(key, self.runs.digest);
        key = mix(key, self.commands.len() as u64 * 256 + self.published as u64);
        key = mix(key, self.queue.key());
        for (shard, letters) in &self.dead {
            key = mix(key, shard.run.0.as_u64_pair().1 + u64::from(*letters));
        }
        for ticker in &self.tickers {
            key = mix(key, ticker.key(under_way));
        }
        for executor in &self.executors {
            key = mix(key, executor.key(under_way));
        }
        let net = self.net.iter().map(|request| request.digest).fold(0, u64::wrapping_add);
        let mut hasher = DefaultHasher::new();
        self.left.hash(&mut hasher);
        self.answers.iter().for_each(|answer| answer.result.hash(&mut hasher));
        mix(mix(key, net), hasher.finish())
    }

    /// Every move that can happen now.
    pub(crate) fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::with_capacity(32);
        let left = &self.left;
        if left.advances > 0 {
            moves.extend(self.config.advances.iter().map(|by| Move::Advance(*by)));
        }
        if self.published < self.config.script.len() {
            moves.push(Move::Publish);
        }
        for request in &self.net {
            moves.push(Move::Deliver(request.id, Fate::Arrives));
            if left.lost_answers > 0 {
                moves.push(Move::Deliver(request.id, Fate::Lost));
            }
            if self.config.every_end {
                moves.push(Move::Deliver(request.id, Fate::Late));
            }
            if left.lost_requests > 0 {
                moves.push(Move::LoseRequest(request.id));
            }
        }
        moves.extend(self.answers.iter().map(|answer| Move::LateAnswer(answer.request)));
        for seq in self.queue.delivered() {
            if left.redeliveries > 0 || !self.executors.iter().any(|e| e.holds(seq)) {
                moves.push(Move::Redeliver(seq));
            }
        }
        for n in 0..self.tickers.len() {
            if left.jumps > 0 {
                let offsets: &[i64] = if self.tickers[n].offset == 0 {
                    &[-3_600_000, -400, 400, 30_000]
                } else {
                    &[0]
                };
                moves.extend(offsets.iter().map(|by| Move::Jump(n, *by)));
            }
            self.ticker_moves(n, &mut moves);
        }
        if left.broker_crashes > 0 && self.log.head() > 0 {
            moves.push(Move::BringBack);
        }
        if left.poisons > 0 && !self.log.poison {
            moves.push(Move::Poison);
        }
        if self.config.settings.hold {
            moves.push(Move::Release);
        }
        (0..self.executors.len()).for_each(|n| self.executor_moves(n, &mut moves));
        moves
    }
}

/// Takes one from what is left.
pub(crate) const fn spend(left: &mut u16) {
    *left = left.saturating_sub(1);
}
