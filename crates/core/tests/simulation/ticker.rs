//! The shell around a partition, as the ticker has it: follow, take over, turn, settle.
//!
//! Invariant: every decision is the core's; this file only carries its orders out, in the order and with the
//! conditions of `design.md` §3. What a lease would do is left out: any ticker takes over at any time.

use std::sync::Arc;
use std::time::Duration;

use cronstream_core::clock::{Guard, Verdict};
use cronstream_core::partition::{Partition, PendingCommand};
use cronstream_core::turn::{Batch, Now, RunAppend};
use cronstream_schemas::event::{Cursor, LogEvent};
use cronstream_schemas::id::{Instance, Partition as Number};
use cronstream_schemas::name::Name;
use cronstream_schemas::time::Timestamp;
use uuid::Uuid;

use crate::rng::mix;
use crate::rule::Rule;
use crate::store::{RunItem, RunMessage, Terms};
use crate::world::{Answer, BEGIN_MS, Body, MAX_CLOCK_ERROR, Move, Party, World, spend};

/// What a ticker can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TickerMove {
    TakeOver,
    /// Its lease is lost.
    StepDown,
    FollowLog,
    FollowRuns,
    FollowCommands,
    Turn,
    /// No answer to its batch has come.
    TimeOut,
    /// No answer to one of its appends has come.
    TimeOutAppend(u64),
    /// Writes one dead letter; the answer may be lost.
    WriteDead {
        lost: bool,
    },
    /// The process dies, and a new one starts.
    Crash,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Following,
    TakingOver,
    Leading,
}

/// A batch whose fate is not known.
#[derive(Debug, Clone)]
pub(crate) struct Out {
    pub(crate) batch: Arc<Batch>,
    pub(crate) request: u64,
    /// When it was first sent.
    pub(crate) sent_at: Duration,
    /// Its one event was sent by itself.
    pub(crate) alone: bool,
    /// A cursor behind which it shows whether an event was stored by itself.
    pub(crate) closes: bool,
}

/// A ticker node.
#[derive(Debug, Clone)]
pub(crate) struct Ticker {
    name: Name,
    /// How many instances it has had; makes each takeover's instance new.
    terms: u64,
    pub(crate) instance: Instance,
    pub(crate) role: Role,
    pub(crate) fold: Partition,
    log_read: u64,
    runs_read: u64,
    commands_read: u64,
    /// Nothing of CRON_RUNS is read yet.
    cold: bool,
    pub(crate) out: Option<Out>,
    appends: Vec<(u64, RunAppend)>,
    pub(crate) guard: Guard,
    /// How far its wall clock is off.
    pub(crate) offset: i64,
}

impl Ticker {
    pub(crate) fn new(index: usize) -> Self {
        Self {
            name: Name::parse(&format!("ticker-{index}")).expect("a legal name"),
            terms: 0,
            instance: Instance(Uuid::nil()),
            role: Role::Following,
            fold: Partition::new(Number(0)),
            log_read: 0,
            runs_read: 0,
            commands_read: 0,
            cold: true,
            out: None,
            appends: Vec::new(),
            guard: Guard::new(MAX_CLOCK_ERROR),
            offset: 0,
        }
    }

    fn wall(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_millis(now.as_millis() + self.offset)
    }

    pub(crate) fn key(&self, net: impl Fn(u64) -> bool) -> u64 {
        let flags = match self.role {
            Role::Following => 0,
            Role::TakingOver => 1,
            Role::Leading => 2,
        };
        let mut key = mix(self.terms, flags);
        for part in [self.log_read, self.runs_read, self.commands_read, self.fold.log_through()] {
            key = mix(key, part);
        }
        key = mix(key, self.offset.unsigned_abs() * 2 + u64::from(self.cold));
        if let Some(out) = &self.out {
            key = mix(key, out.batch.cursor.tick.0);
            key = mix(key, out.batch.events.len() as u64 * 2 + u64::from(net(out.request)));
            key = mix(key, u64::from(out.alone) * 2 + u64::from(out.closes));
        }
        for (request, append) in &self.appends {
            key = mix(key, append.expected_seq * 2 + u64::from(net(*request)));
        }
        self.fold.dead().fold(key, |key, (seq, _)| mix(key, seq))
    }
}

pub(crate) fn monotonic(now: Timestamp) -> Duration {
    now.since(Timestamp::from_millis(BEGIN_MS))
}

impl World {
    pub(crate) fn ticker_moves(&self, n: usize, moves: &mut Vec<Move>) {
        let (ticker, left) = (&self.tickers[n], &self.left);
        let mut push = |step| moves.push(Move::Ticker(n, step));
        // A takeover folds everything, so a small search lets no standby follow; and a leader that is replaced
        // learns it by its next batch. It reads run events at once: what it appends is late on its way anyhow.
        if self.config.every_end && ticker.log_read < self.log.head() {
            push(TickerMove::FollowLog);
        }
        if self.config.every_end && ticker.runs_read < self.runs.head() {
            push(TickerMove::FollowRuns);
        }
        if left.ticker_crashes > 0 {
            push(TickerMove::Crash);
        }
        if ticker.role == Role::Following {
            if left.takeovers > 0 {
                push(TickerMove::TakeOver);
            }
            return;
        }
        if self.config.every_end && ticker.commands_read < self.commands.len() as u64 {
            push(TickerMove::FollowCommands);
        }
        if self.config.every_end {
            push(TickerMove::StepDown);
        }
        if ticker.role == Role::Leading {
            push(TickerMove::Turn);
            if ticker.fold.dead().next().is_some() {
                push(TickerMove::WriteDead { lost: false });
                if left.lost_answers > 0 {
                    push(TickerMove::WriteDead { lost: true });
                }
            }
        }
        if ticker.out.as_ref().is_some_and(|out| self.may_time_out(out.request)) {
            push(TickerMove::TimeOut);
        }
        for (request, _) in &ticker.appends {
            if self.may_time_out(*request) {
                push(TickerMove::TimeOutAppend(*request));
            }
        }
    }

    /// A wait ends early only as often as that may still happen.
    pub(crate) fn may_time_out(&self, request: u64) -> bool {
        self.left.early_timeouts > 0 || !self.is_under_way(request)
    }

    pub(crate) fn spend_timeout(&mut self, request: u64) {
        if self.is_under_way(request) {
            spend(&mut self.left.early_timeouts);
        }
    }

    pub(crate) fn move_ticker(&mut self, n: usize, step: TickerMove) {
        match step {
            TickerMove::TakeOver if self.tickers[n].role == Role::Following => {
                spend(&mut self.left.takeovers);
                self.take_over(n);
            }
            TickerMove::TakeOver => {}
            TickerMove::StepDown => self.step_down(n),
            TickerMove::FollowLog => self.follow_log(n),
            TickerMove::FollowRuns => self.follow_runs(n),
            TickerMove::FollowCommands if self.tickers[n].role != Role::Following => {
                self.follow_commands(n);
            }
            TickerMove::FollowCommands => {}
            TickerMove::Turn => self.turn(n),
            TickerMove::TimeOut => {
                if let Some(request) = self.tickers[n].out.as_ref().map(|out| out.request) {
                    self.spend_timeout(request);
                    self.settle(n, None);
                }
            }
            TickerMove::TimeOutAppend(request) => {
                self.spend_timeout(request);
                self.settle_append(n, request, None);
            }
            TickerMove::WriteDead { lost } if self.tickers[n].role == Role::Leading => {
                self.write_dead(n, lost);
            }
            TickerMove::WriteDead { .. } => {}
            TickerMove::Crash => {
                spend(&mut self.left.ticker_crashes);
                let old = &self.tickers[n];
                let (terms, offset) = (old.terms, old.offset);
                self.tickers[n] = Ticker { terms, offset, ..Ticker::new(n) };
            }
        }
    }

    pub(crate) fn follow_log(&mut self, n: usize) {
        let ticker = &mut self.tickers[n];
        for message in self.log.visible(ticker.log_read, self.now) {
            ticker.fold.apply_log(message.seq, &message.event);
        }
        ticker.log_read = self.log.head();
        if ticker.role == Role::Leading && !ticker.fold.is_leading() {
            self.step_down(n);
        }
    }

    /// A cold start reads the last event of each shard, a follower every event.
    fn follow_runs(&mut self, n: usize) {
        let ticker = &mut self.tickers[n];
        let messages: Vec<&Arc<RunMessage>> = if ticker.cold {
            self.runs.last_per_subject(self.now)
        } else {
            self.runs.visible(ticker.runs_read, self.now).collect()
        };
        for message in messages {
            let fire_no = ticker
                .fold
                .shards()
                .find(|shard| shard.fired.shard_id() == message.key.shard)
                .map_or(0, |shard| shard.fired.fire_no);
            let passed_over = !self.config.keeps(Rule::TerminalWhateverFireNo)
                && message.event.is_terminal()
                && message.event.place().fire_no < fire_no;
            if !passed_over {
                ticker.fold.apply_run(message.seq, message.at, &message.key, &message.event);
            }
        }
        ticker.cold = false;
        ticker.runs_read = self.runs.head();
    }

    fn follow_commands(&mut self, n: usize) {
        let takes_effect_then = self.keeps(Rule::CommandAtBrokerTime);
        let ticker = &mut self.tickers[n];
        let wall = ticker.wall(self.now);
        let from = usize::try_from(ticker.commands_read).expect("an index");
        for (command, foreign) in self.commands.iter().zip(&self.foreign).skip(from) {
            if *foreign {
                ticker.fold.saw_commands(command.seq);
            } else {
                let at = if takes_effect_then { command.at } else { wall };
                ticker.fold.offer(PendingCommand { at, ..PendingCommand::clone(command) });
            }
        }
        ticker.commands_read = self.commands.len() as u64;
    }

    fn take_over(&mut self, n: usize) {
        if self.keeps(Rule::TakeoverFoldsLog) {
            self.follow_log(n);
        } else if let Some((seq, cursor)) = self.log.cursor().cloned() {
            let ticker = &mut self.tickers[n];
            ticker.fold.apply_log(seq, &LogEvent::Cursor(cursor));
            ticker.log_read = self.log.head();
        }
        self.follow_runs(n);
        let resumes = self.keeps(Rule::CommandsFromCursor);
        let doubts = self.keeps(Rule::DoubtfulSlotsAreSkipped);
        let read = self.commands.len() as u64;
        let ticker = &mut self.tickers[n];
        ticker.commands_read = if resumes { ticker.fold.commands_through() } else { read };
        self.follow_commands(n);
        let ticker = &mut self.tickers[n];
        ticker.terms += 1;
        let id = u128::from(ticker.terms) << 32 | (n as u128 + 1);
        ticker.instance = Instance(Uuid::from_u128(id));
        ticker.role = Role::TakingOver;
        let wall = ticker.wall(self.now);
        ticker.fold.caught_up(wall);
        let cursor = ticker.fold.takeover(wall, &ticker.name, ticker.instance);
        let doubt_before = cursor.doubt_before.filter(|_| doubts);
        let batch = Arc::new(Batch {
            events: Vec::new(),
            cursor: Cursor { doubt_before, ..cursor },
            cursor_expected: ticker.fold.cursor_seq(),
            replies: Vec::new(),
            alone: None,
        });
        self.send_batch(n, batch, true);
    }

    fn send_batch(&mut self, n: usize, batch: Arc<Batch>, ids: bool) {
        self.send_as(n, batch, (ids, false), false);
    }

    pub(crate) fn send_as(
        &mut self,
        n: usize,
        batch: Arc<Batch>,
        (ids, alone): (bool, bool),
        closes: bool,
    ) {
        let terms = Terms {
            ids,
            expects: self.keeps(Rule::CursorExpectation),
            atomic: self.keeps(Rule::AtomicBatch),
            short_lived: !self.keeps(Rule::FireOutlivesRun),
            alone,
        };
        let body = Body::Batch { batch: Arc::clone(&batch), terms };
        let request = self.send(Party::Ticker(n), body);
        let first = self.tickers[n].out.as_ref().filter(|out| Arc::ptr_eq(&out.batch, &batch));
        let sent_at = first.map_or(monotonic(self.now), |out| out.sent_at);
        self.tickers[n].out = Some(Out { batch, request, sent_at, alone, closes });
    }

    fn turn(&mut self, n: usize) {
        if !self.config.every_end {
            self.follow_commands(n);
        }
        let guarded = self.keeps(Rule::ClockGuard);
        let settings = self.config.settings.clone();
        let (broker, mono) = (self.now, monotonic(self.now));
        let ticker = &mut self.tickers[n];
        if ticker.role != Role::Leading {
            return;
        }
        if ticker.guard.is_stale(mono) {
            ticker.guard.sample(broker, mono, mono);
        }
        let wall = ticker.wall(broker);
        if guarded && matches!(ticker.guard.verdict(wall, mono), Verdict::Off(_)) {
            self.step_down(n);
            return;
        }
        let limit = if guarded { ticker.guard.limit(mono) } else { Timestamp::MAX };
        let turn = ticker.fold.turn(Now { wall, limit }, &settings, ticker.out.is_none());
        for append in turn.appends {
            self.send_append(n, append);
        }
        if let Some(read) = turn.history {
            self.read_history(n, &read);
        }
        if let Some(batch) = turn.batch {
            let alone = self.config.alone && batch.alone.is_some();
            self.send_as(n, Arc::new(batch), (true, alone), false);
        }
    }

    fn send_append(&mut self, n: usize, append: RunAppend) {
        let wall = self.tickers[n].wall(self.now);
        let expects = self.keeps(Rule::LeaderTerminalExpectation);
        let item = RunItem {
            key: append.key.clone(),
            event: Arc::new(append.event.clone()),
            expected: expects.then_some(append.expected_seq),
            keep: append.keep_until.since(wall),
        };
        let request = self.send(Party::Ticker(n), Body::Runs(vec![item]));
        if !self.keeps(Rule::RunEventsFoldWhenStored) {
            let seq = append.expected_seq + 1;
            self.tickers[n].fold.read_run(seq, self.now, &append.key, &append.event);
        }
        self.tickers[n].appends.push((request, append));
    }

    /// In a small search, leaders have folded every run event as soon as it is stored.
    pub(crate) fn follow_at_once(&mut self) {
        for n in 0..self.tickers.len() {
            if !self.config.every_end && self.tickers[n].role != Role::Following {
                self.follow_runs(n);
            }
        }
    }

    pub(crate) fn ticker_hears(&mut self, n: usize, answer: Answer) {
        let ticker = &self.tickers[n];
        if ticker.out.as_ref().is_some_and(|out| out.request == answer.request) {
            match answer.result {
                Ok(seq) => self.committed(n, seq),
                Err(refused) => self.settle(n, Some(refused)),
            }
        } else if ticker.appends.iter().any(|(request, _)| *request == answer.request) {
            self.settle_append(n, answer.request, answer.result.ok());
        }
    }

    /// Folds the shard's last event, whatever it is, and lets the core go on with the shard.
    fn settle_append(&mut self, n: usize, request: u64, stored: Option<u64>) {
        let ticker = &mut self.tickers[n];
        let Some(at) = ticker.appends.iter().position(|(id, _)| *id == request) else { return };
        let (_, append) = ticker.appends.remove(at);
        let shard = append.key.shard;
        if let Some(last) = self.runs.last(shard, 0, self.now) {
            assert!(stored.is_none_or(|seq| seq <= last.seq), "what was stored is there");
            let skip = !self.config.keeps(Rule::TerminalWhateverFireNo);
            if !(skip && stored.is_none()) {
                ticker.fold.read_run(last.seq, last.at, &last.key, &last.event);
            }
        }
        ticker.fold.append_done(shard);
    }

    pub(crate) fn step_down(&mut self, n: usize) {
        let ticker = &mut self.tickers[n];
        ticker.role = Role::Following;
        ticker.out = None;
        ticker.appends.clear();
        ticker.fold.follow();
        ticker.commands_read = 0;
    }

    fn write_dead(&mut self, n: usize, lost: bool) {
        let expects = self.keeps(Rule::DeadExpectsZero);
        let ticker = &mut self.tickers[n];
        let Some((seq, shard)) = ticker.fold.dead().next().map(|(seq, d)| (seq, d.key.shard))
        else {
            return;
        };
        let letters = self.dead.entry(shard).or_default();
        if *letters == 0 || !expects {
            *letters += 1;
        }
        if lost {
            spend(&mut self.left.lost_answers);
        } else {
            ticker.fold.dead_written(seq);
        }
    }
}
