//! The shell around an attempt, as the executor has it: the five steps of `design.md` §4, with group commit.
//!
//! Invariant: what to append, to acknowledge and to drop is the core's decision; where a rule is taken away,
//! the decision is bent right behind the core's answer.

use std::sync::Arc;

use cronstream_core::attempt::{self, Decision, Last, Retry, TaskOutcome};
use cronstream_schemas::duration::Span;
use cronstream_schemas::event::{
    AttemptFailed, Executor as Identity, Failed, Failure, FailureKind, Fired, LogEvent, Place,
    RunEvent,
};
use cronstream_schemas::id::Instance;
use cronstream_schemas::name::Name;
use uuid::Uuid;

use crate::rng::mix;
use crate::rule::Rule;
use crate::world::{Move, World, spend};

/// How a task ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum End {
    Success,
    /// A failure that may be retried, and whether the task asks for a pause before.
    Failure {
        pause: bool,
    },
    Final,
}

/// What an executor can do; deliveries are named by their place among those it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExecutorMove {
    Pull(u64),
    /// Step 1, from a read that may be stale by one event.
    Decide {
        held: usize,
        stale: bool,
    },
    /// Sends everything that waits to be sent as one group.
    Flush,
    TimeOut(usize),
    Finish(usize, End),
    /// Gives the attempt back.
    Interrupt(usize),
    /// A progress beat: looks whether the attempt still is the shard's last word.
    Beat(usize),
    Acknowledge {
        held: usize,
        deaf: bool,
    },
    Crash,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Then {
    Run,
    Acknowledge,
    GiveBack,
}

#[derive(Debug, Clone)]
pub(crate) enum Phase {
    Pulled,
    Sending {
        event: Arc<RunEvent>,
        digest: u64,
        expected: u64,
        then: Then,
        request: Option<u64>,
        /// Not in a group with others.
        alone: bool,
        /// How many items of its group are behind it.
        behind: u64,
    },
    Running {
        place: Place,
        token: u64,
    },
    Over,
}

#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) seq: u64,
    pub(crate) fire: Arc<Fired>,
    pub(crate) phase: Phase,
}

/// An executor node.
#[derive(Debug, Clone)]
pub(crate) struct Executor {
    pub(crate) me: Identity,
    lives: u64,
    /// Whether it has ever had a delivery.
    used: bool,
    pub(crate) held: Vec<Delivery>,
}

impl Executor {
    pub(crate) fn new(index: usize) -> Self {
        let node = Name::parse(&format!("executor-{index}")).expect("a legal name");
        let instance = Instance(Uuid::from_u128(1 << 64 | index as u128));
        Self { me: Identity { node, instance }, lives: 0, used: false, held: Vec::new() }
    }

    pub(crate) fn holds(&self, seq: u64) -> bool {
        self.held.iter().any(|delivery| delivery.seq == seq)
    }

    pub(crate) fn key(&self, net: impl Fn(u64) -> bool) -> u64 {
        let mut key = self.lives * 2 + u64::from(self.used);
        for delivery in &self.held {
            key = mix(key, delivery.seq);
            key = match &delivery.phase {
                Phase::Pulled => mix(key, 1),
                Phase::Sending { digest, expected, request, .. } => {
                    let state = request.map_or(2, |request| 3 + u64::from(net(request)));
                    mix(mix(mix(key, *digest), *expected), state)
                }
                Phase::Running { place, token } => {
                    mix(mix(key, 5 + u64::from(place.attempt)), *token)
                }
                Phase::Over => mix(key, 6),
            };
        }
        key
    }
}

impl World {
    pub(crate) fn executor_moves(&self, n: usize, moves: &mut Vec<Move>) {
        let (executor, left) = (&self.executors[n], &self.left);
        let mut push = |step| moves.push(Move::Executor(n, step));
        // Executors that have done nothing are alike: the first of them stands for all.
        let is_new = self.config.every_end || n == 0 || self.executors[n - 1].used;
        if executor.held.len() < self.config.permits && is_new {
            self.queue.ready().for_each(|seq| push(ExecutorMove::Pull(seq)));
        }
        if left.executor_crashes > 0 && !executor.held.is_empty() {
            push(ExecutorMove::Crash);
        }
        let mut waits = false;
        for (held, delivery) in executor.held.iter().enumerate() {
            match &delivery.phase {
                Phase::Pulled => {
                    push(ExecutorMove::Decide { held, stale: false });
                    if left.stale_reads > 0 {
                        push(ExecutorMove::Decide { held, stale: true });
                    }
                }
                Phase::Sending { request: Some(request), .. } => {
                    if self.may_time_out(*request) {
                        push(ExecutorMove::TimeOut(held));
                    }
                }
                Phase::Sending { request: None, .. } => waits = true,
                Phase::Running { token, .. } => {
                    push(ExecutorMove::Finish(held, End::Success));
                    if left.failures > 0 {
                        push(ExecutorMove::Finish(held, End::Failure { pause: false }));
                        if self.config.every_end {
                            push(ExecutorMove::Finish(held, End::Failure { pause: true }));
                            push(ExecutorMove::Finish(held, End::Final));
                        }
                    }
                    if left.interrupts > 0 {
                        push(ExecutorMove::Interrupt(held));
                    }
                    let last = self.runs.last(delivery.fire.shard_id(), 0, self.now);
                    if attempt::is_overtaken(*token, last.map(|last| last.seq)) {
                        push(ExecutorMove::Beat(held));
                    }
                }
                Phase::Over => {
                    push(ExecutorMove::Acknowledge { held, deaf: false });
                    if left.deaf_acks > 0 {
                        push(ExecutorMove::Acknowledge { held, deaf: true });
                    }
                }
            }
        }
        if waits {
            push(ExecutorMove::Flush);
        }
    }

    pub(crate) fn move_executor(&mut self, n: usize, step: ExecutorMove) {
        let held = self.executors[n].held.len();
        match step {
            ExecutorMove::Pull(seq) => self.pull(n, seq),
            ExecutorMove::Decide { held: at, stale } if at < held => self.decide(n, at, stale),
            ExecutorMove::TimeOut(at) if at < held => {
                if let Phase::Sending { request: Some(id), .. } = self.executors[n].held[at].phase {
                    self.spend_timeout(id);
                    self.refused(n, at, false);
                }
            }
            ExecutorMove::Finish(at, end) if at < held => self.finish(n, at, end),
            ExecutorMove::Interrupt(at) if at < held => self.interrupt(n, at),
            ExecutorMove::Beat(at) if at < held => self.beat(n, at),
            ExecutorMove::Acknowledge { held: at, deaf }
                if at < held && matches!(self.executors[n].held[at].phase, Phase::Over) =>
            {
                let delivery = self.executors[n].held.remove(at);
                if deaf {
                    spend(&mut self.left.deaf_acks);
                } else {
                    self.queue.acknowledge(delivery.seq);
                }
            }
            ExecutorMove::Flush => self.flush(n),
            ExecutorMove::Crash => {
                spend(&mut self.left.executor_crashes);
                let executor = &mut self.executors[n];
                executor.held.clear();
                executor.lives += 1;
                let id = u128::from(executor.lives + 1) << 64 | n as u128;
                executor.me.instance = Instance(Uuid::from_u128(id));
            }
            ExecutorMove::Decide { .. }
            | ExecutorMove::TimeOut(_)
            | ExecutorMove::Finish(..)
            | ExecutorMove::Interrupt(_)
            | ExecutorMove::Beat(_)
            | ExecutorMove::Acknowledge { .. } => {}
        }
    }

    fn pull(&mut self, n: usize, seq: u64) {
        if !self.queue.is_ready(seq) {
            return;
        }
        let Some(message) = self.log.get(seq, self.now).cloned() else {
            self.queue.acknowledge(seq); // It has expired: the consumer passes over it.
            return;
        };
        let LogEvent::Fired(fired) = &message.event else { return };
        self.queue.pull(seq);
        if self.executors[n].holds(seq) && self.keeps(Rule::OneDeliveryInAProcess) {
            return;
        }
        let fire = Arc::new(fired.clone());
        self.executors[n].used = true;
        self.executors[n].held.push(Delivery { seq, fire, phase: Phase::Pulled });
    }

    pub(crate) fn last(&self, fire: &Fired, stale: bool) -> Option<Last> {
        let message = self.runs.last(fire.shard_id(), usize::from(stale), self.now)?;
        Some(Last { seq: message.seq, event: message.event.clone() })
    }

    fn decide(&mut self, n: usize, at: usize, stale: bool) {
        if stale {
            spend(&mut self.left.stale_reads);
        }
        let delivery = &self.executors[n].held[at];
        if !matches!(delivery.phase, Phase::Pulled) {
            return;
        }
        let fire = Arc::clone(&delivery.fire);
        let last = self.last(&fire, stale);
        let me = self.executors[n].me.clone();
        let decision = attempt::decide(&fire, last.as_ref(), &me, self.now);
        match self.bend(&fire, last.as_ref(), decision) {
            Decision::Ack => self.executors[n].held[at].phase = Phase::Over,
            Decision::Leave => {
                self.executors[n].held.remove(at);
            }
            Decision::Start { place, expected_seq } => {
                self.begin_send((n, at), attempt::started(place, me), expected_seq, Then::Run);
            }
            Decision::FailCrashed { event, expected_seq } => {
                self.begin_send((n, at), event, expected_seq, Then::Acknowledge);
            }
        }
    }

    /// Step 1 with a rule taken away.
    fn bend(&self, fire: &Fired, last: Option<&Last>, decision: Decision) -> Decision {
        let Some(Last { seq, event }) = last else { return decision };
        let before = event.place();
        let attempt = before.attempt + 1;
        let place = Place { fire_no: fire.fire_no, delivery: before.delivery + 1, attempt };
        let start = Decision::Start { place, expected_seq: *seq };
        let is_start = matches!(event, RunEvent::Started(_) | RunEvent::Interrupted(_));
        let is_failure = matches!(event, RunEvent::AttemptFailed(_));
        let later = before.fire_no > fire.fire_no;
        match decision {
            Decision::Ack if event.is_terminal() && !self.keeps(Rule::TerminalEndsDelivery) => {
                start
            }
            Decision::Ack if later && is_start && !self.keeps(Rule::LaterFireEndsDelivery) => start,
            Decision::Ack
                if !later && is_failure && !self.keeps(Rule::AttemptFailedEndsDelivery) =>
            {
                start
            }
            Decision::FailCrashed { .. } if !self.keeps(Rule::CrashesCount) => start,
            Decision::Ack
            | Decision::Leave
            | Decision::Start { .. }
            | Decision::FailCrashed { .. } => decision,
        }
    }

    fn finish(&mut self, n: usize, at: usize, end: End) {
        let delivery = &self.executors[n].held[at];
        let Phase::Running { place, token } = delivery.phase else { return };
        if end != End::Success {
            spend(&mut self.left.failures);
        }
        let failed = |retry| TaskOutcome::Failure {
            failure: Failure { kind: FailureKind::Error, message: "no".into() },
            retry,
            output: None,
        };
        let task = match end {
            End::Success => TaskOutcome::Success { result: None, output: None },
            End::Failure { pause } => failed(Retry::After(pause.then_some(Span::from_secs(3)))),
            End::Final => failed(Retry::Never),
        };
        let me = self.executors[n].me.clone();
        let mut event = attempt::outcome(&delivery.fire, place, me, task);
        if let (RunEvent::Failed(failed), false) = (&event, self.keeps(Rule::LastFailureIsFinal)) {
            let Failed { place, executor, failure, output } = failed.clone();
            event = RunEvent::AttemptFailed(AttemptFailed {
                place,
                executor,
                failure,
                retry_after: None,
                output,
            });
        }
        self.begin_send((n, at), event, token, Then::Acknowledge);
    }

    fn interrupt(&mut self, n: usize, at: usize) {
        let Phase::Running { place, token } = self.executors[n].held[at].phase else { return };
        spend(&mut self.left.interrupts);
        let event = attempt::interrupted(place, self.executors[n].me.clone());
        self.begin_send((n, at), event, token, Then::GiveBack);
    }

    fn beat(&mut self, n: usize, at: usize) {
        let delivery = &self.executors[n].held[at];
        let Phase::Running { token, .. } = delivery.phase else { return };
        let last = self.last(&delivery.fire, false);
        if !attempt::is_overtaken(token, last.as_ref().map(|last| last.seq)) {
            return;
        }
        let over = last.is_some_and(|last| attempt::is_over(&delivery.fire, &last.event));
        if over {
            self.executors[n].held[at].phase = Phase::Over;
        } else {
            self.executors[n].held.remove(at);
        }
    }
}

/// Which of an executor's deliveries can be moved on without a fault, and how; for a world that comes to rest.
pub(crate) fn calm_moves(world: &World, n: usize) -> Vec<Move> {
    let mut moves = Vec::new();
    let executor = &world.executors[n];
    for (held, delivery) in executor.held.iter().enumerate().rev() {
        let step = match &delivery.phase {
            Phase::Pulled => ExecutorMove::Decide { held, stale: false },
            Phase::Sending { request: Some(request), .. } if !world.is_under_way(*request) => {
                ExecutorMove::TimeOut(held)
            }
            Phase::Sending { .. } => continue,
            Phase::Running { .. } => ExecutorMove::Finish(held, End::Success),
            Phase::Over => ExecutorMove::Acknowledge { held, deaf: false },
        };
        moves.push(Move::Executor(n, step));
    }
    moves.push(Move::Executor(n, ExecutorMove::Flush));
    moves
}
