//! One delivery of a fire, through the five steps of `design.md` §4. The decisions are `core::attempt`'s.
//!
//! ```text
//!   delivered ─► read last ─► decide ─► Started ─► task ─► outcome ─► ack
//!        └─ beat, every third of the ack wait: "in progress"; last event moved on? ─► kill the task
//! ```
//!
//! Invariant: a delivery is acknowledged only when a stored event ends its fire. Beats go on until the handler
//! has ended and its outcome is stored, drain or not.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cronstream_bus::Delivery;
use cronstream_core::attempt::{self, Decision, Last, Retry, TaskOutcome};
use cronstream_schemas::event::{Executor, Failure, FailureKind, Fired, Output, Place, RunEvent};
use cronstream_schemas::subject::RunKey;
use cronstream_telemetry::metrics::ExecutorMetrics;
use cronstream_telemetry::{Moment, Spans, handler_context};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::clock;
use crate::decisions;
use crate::handlers::Handler;
use crate::state::State;
use crate::store::{Committed, Read, Store, Stored, Wanted};
use crate::task::TaskContext;
use crate::trace::{Begun, Trace};

/// How long a fire stays away whose run the leader is about to end.
const LEFT_TO_LEADER: Duration = Duration::from_secs(10);
/// How long a fire stays away whose events only a newer version can read.
const LEFT_TO_NEWER: Duration = Duration::from_secs(60);
/// How long a fire stays away whose last event could not be read.
const UNREAD: Duration = Duration::from_secs(2);
/// How often a fire is decided again because its last event was read stale, before it is handed back.
const DECISIONS_MAX: u32 = 5;
/// Tries to read the last event before the fire is handed back.
const READS_MAX: u32 = 4;
/// Between two of them.
const READ_RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// What all attempts of an executor share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: Arc<State>,
    pub(crate) store: Store,
    pub(crate) prefix: cronstream_schemas::subject::Prefix,
    pub(crate) spans: Spans,
    pub(crate) metrics: ExecutorMetrics,
    /// After this without a sign of life the broker delivers a fire again.
    pub(crate) ack_wait: Duration,
    /// Between two beats.
    pub(crate) beat: Duration,
    /// Cancelled when what still runs is to be handed back.
    pub(crate) hand_back: CancellationToken,
}

/// What becomes of the delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settle {
    /// Its fire is over.
    Ack,
    /// It comes again after this.
    Nak(Duration),
    /// Another delivery of it is the one that counts.
    Nothing,
}

/// What an attempt is decided from.
#[derive(Debug, Clone, Copy)]
enum Basis<'a> {
    /// The shard's last event, as it was read.
    Read(Option<&'a Stored>),
    /// That there is none. Compare-and-set decides, as it does behind a stale read.
    Guess,
}

/// Why a task was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Timeout,
    Overtaken,
    HandBack,
}

/// Handles one delivery from reading the last event to settling. It was asked for at `asked_at`.
#[expect(
    clippy::manual_async_fn,
    reason = "arguments of an async fn have room in its future twice"
)]
pub(crate) fn handle(
    shared: Arc<Shared>,
    delivery: Delivery,
    asked_at: Instant,
    fire: Fired,
    handler: Handler,
) -> impl Future<Output = ()> + Send {
    async move {
        let (queue, job) = (fire.queue.clone(), fire.job.clone());
        let subject = shared.prefix.run(&RunKey { queue, job, shard: fire.shard_id() });
        let beat = Beat::default();
        let trace = Trace::new(&shared.spans, (&fire, handler.kind()), &delivery);
        let attempt = Attempt {
            shared: &shared,
            delivered: delivery.delivered,
            asked_at,
            fire: &fire,
            subject: &subject,
            handler: &handler,
            trace,
        };
        let settle = tokio::select! {
            biased;
            settle = attempt.run(&beat) => settle,
            never = beat.go_on((&shared, &subject), &delivery, spread(&fire)) => match never {},
        };
        let settled = match settle {
            Settle::Ack => delivery.ack().await,
            Settle::Nak(delay) => delivery.nak(delay).await,
            Settle::Nothing => Ok(()),
        };
        if let Err(error) = settled {
            tracing::debug!(fire = %fire.id(), %error, "delivery not settled: it comes again");
        }
    }
}

/// From 0 to 1, by the run's hash, so that many that were delivered together do not beat together.
fn spread(fire: &Fired) -> f64 {
    let [.., a, b] = *fire.run.0.as_bytes();
    f64::from(u16::from_be_bytes([a, b])) / f64::from(u16::MAX)
}

struct Attempt<'a> {
    shared: &'a Arc<Shared>,
    /// Which delivery of the fire this is, from 1.
    delivered: u64,
    asked_at: Instant,
    fire: &'a Fired,
    subject: &'a str,
    handler: &'a Handler,
    trace: Trace<'a>,
}

/// When the task began and ended.
type Times = (Moment, Moment);

impl Attempt<'_> {
    fn me(&self) -> Executor {
        self.shared.state.me.clone()
    }

    async fn commit(&self, event: &RunEvent, expected_seq: u64) -> Committed {
        let (fire, subject) = (self.fire, self.subject);
        self.shared.store.commit(Wanted { fire, subject, event, expected_seq }).await
    }

    /// What seldom happens is apart here and below: a future has room for whatever it may have to wait for, and there
    /// are as many of these as runs.
    async fn run(&self, beat: &Beat) -> Settle {
        if self.is_first()
            && let Some(settle) = self.begin(Basis::Guess, beat).await
        {
            return settle;
        }
        Box::pin(self.look_and_begin(beat)).await
    }

    async fn look_and_begin(&self, beat: &Beat) -> Settle {
        let mut read = self.read_last().await;
        for _ in 0..DECISIONS_MAX {
            let last = match read {
                Some(Read::Known(last)) => last,
                Some(Read::Unreadable) => return Settle::Nak(LEFT_TO_NEWER),
                None => return Settle::Nak(UNREAD),
            };
            match self.begin(Basis::Read(last.as_ref()), beat).await {
                Some(settle) => return settle,
                None => read = self.shared.store.last(self.subject).await.ok(),
            }
        }
        Settle::Nak(UNREAD)
    }

    /// Whether nothing is stored of the shard, by all that is known without looking.
    fn is_first(&self) -> bool {
        let now = clock::now();
        self.delivered == 1
            && self.fire.fire_no == 1
            && now <= self.fire.start_by
            && now <= self.fire.run_by
            && self.shared.store.trusts_first_deliveries()
    }

    /// Steps 1 and 2, then the rest; `None` when the basis was a stale read or a wrong guess.
    async fn begin(&self, basis: Basis<'_>, beat: &Beat) -> Option<Settle> {
        let counters = &self.shared.state.counters;
        let stored = match basis {
            Basis::Read(stored) => stored,
            Basis::Guess => None,
        };
        let last = stored.map(|stored| &stored.last);
        if last.is_some_and(|last| self.may_be_running(last)) {
            return Some(Settle::Nothing);
        }
        match attempt::decide(self.fire, last, &self.shared.state.me, clock::now()) {
            Decision::Ack => {
                counters.stale.add();
                self.trace.ended_unseen(stored, &self.shared.state.me);
                Some(Settle::Ack)
            }
            Decision::Leave => Some(Settle::Nak(LEFT_TO_LEADER)),
            Decision::FailCrashed { event, expected_seq } => {
                Box::pin(self.fail_crashed(&event, expected_seq, stored)).await
            }
            Decision::Start { place, expected_seq } => {
                let event = attempt::started(place, self.me());
                match self.commit(&event, expected_seq).await {
                    Committed::Stored { seq } => {
                        counters.started.add();
                        self.count_start(place);
                        decisions::started(self.fire, place, seq);
                        self.trace.crashed(stored);
                        beat.watch_from(seq);
                        Some(self.work(self.trace.begin(place, seq, stored), beat).await)
                    }
                    Committed::Over | Committed::Stale if matches!(basis, Basis::Guess) => {
                        self.shared.store.distrust_first_deliveries();
                        None
                    }
                    Committed::Stale => None,
                    refused => Some(self.refused(refused)),
                }
            }
        }
    }

    async fn fail_crashed(
        &self,
        event: &RunEvent,
        expected_seq: u64,
        stored: Option<&Stored>,
    ) -> Option<Settle> {
        let committed = self.commit(event, expected_seq).await;
        if matches!(committed, Committed::Stale) {
            return None;
        }
        if matches!(committed, Committed::Stored { .. }) {
            self.trace.crashed(stored);
        }
        Some(self.finished(event, committed, Settle::Ack))
    }

    /// Whether the start that stands may be no crash, but that of an executor which was given the fire after this
    /// delivery. A delivery is no older than its pull; younger than the ack wait, it is the newest.
    fn may_be_running(&self, last: &Last) -> bool {
        let started = matches!(last.event, RunEvent::Started(_));
        started
            && last.event.place().fire_no == self.fire.fire_no
            && self.asked_at.elapsed() >= self.shared.ack_wait
    }

    async fn read_last(&self) -> Option<Read> {
        let mut backoff = Backoff::new(READ_RETRY.0, READ_RETRY.1);
        for _ in 0..READS_MAX {
            match self.shared.store.last(self.subject).await {
                Ok(read) => return Some(read),
                Err(error) => {
                    tracing::debug!(%error, subject = self.subject, "last event not read")
                }
            }
            tokio::time::sleep(backoff.delay()).await;
        }
        None
    }

    /// Steps 3 to 5: runs the task and stores its outcome.
    async fn work(&self, begun: Begun, beat: &Beat) -> Settle {
        let context = self.context(begun.place, begun.token);
        let cancel = context.cancel.clone();
        let since = Moment::now();
        let mut running = std::pin::pin!(self.run_task(context));
        let stop = tokio::select! {
            biased;
            outcome = &mut running => {
                return self.ended(&begun, outcome, (since, Moment::now())).await;
            }
            () = beat.overtaken.notified() => Stop::Overtaken,
            () = self.shared.hand_back.cancelled() => Stop::HandBack,
            () = tokio::time::sleep(self.fire.timeout.to_duration()) => Stop::Timeout,
        };
        cancel.cancel();
        let outcome = running.await;
        Box::pin(self.stopped(&begun, stop, outcome, (since, Moment::now()))).await
    }

    /// Ends an attempt whose task was stopped.
    async fn stopped(
        &self,
        begun: &Begun,
        stop: Stop,
        outcome: TaskOutcome,
        times: Times,
    ) -> Settle {
        match stop {
            Stop::Timeout => {
                let message = format!("no result within {}", self.fire.timeout);
                let failure = Failure { kind: FailureKind::Timeout, message };
                let output = output_of(outcome);
                let outcome = TaskOutcome::Failure { failure, retry: Retry::After(None), output };
                self.ended(begun, outcome, times).await
            }
            Stop::HandBack => {
                let event = attempt::interrupted(begun.place, self.me());
                self.finish(begun, &event, times, Settle::Nak(Duration::ZERO)).await
            }
            Stop::Overtaken => {
                self.count_refusal();
                self.settle_overtaken(begun, times).await
            }
        }
    }

    fn run_task(&self, context: TaskContext) -> impl Future<Output = TaskOutcome> {
        let began = Instant::now();
        let running = self.handler.run(context, &self.fire.params);
        async move {
            let outcome = running.await;
            self.shared.metrics.ran(&self.fire.task, began.elapsed());
            outcome
        }
    }

    /// Retries are not late: they were ordered later.
    fn count_start(&self, place: Place) {
        if place.fire_no == 1 && place.delivery == 1 {
            let delay = clock::now().since(self.fire.scheduled_at);
            self.shared.metrics.first_start(&self.fire.task, delay);
        }
    }

    async fn ended(&self, begun: &Begun, outcome: TaskOutcome, times: Times) -> Settle {
        let event = attempt::outcome(self.fire, begun.place, self.me(), outcome);
        self.finish(begun, &event, times, Settle::Ack).await
    }

    /// Stores the event that ends this delivery.
    async fn finish(
        &self,
        begun: &Begun,
        event: &RunEvent,
        times: Times,
        stored: Settle,
    ) -> Settle {
        let committed = self.commit(event, begun.token).await;
        match committed {
            Committed::Stored { .. } => {
                self.trace.tell(begun, &self.shared.state.me, times, Some(event));
            }
            Committed::Over => {
                Box::pin(self.settle_overtaken(begun, times)).await;
            }
            Committed::Stale | Committed::Overtaken | Committed::GaveUp => {}
        }
        self.finished(event, committed, stored)
    }

    fn finished(&self, event: &RunEvent, committed: Committed, stored: Settle) -> Settle {
        let counters = &self.shared.state.counters;
        if matches!(committed, Committed::Stored { .. }) {
            decisions::ended(self.fire, event);
            self.shared.metrics.ended(&self.fire.task, event.kind());
        }
        match (committed, event) {
            (Committed::Stored { .. }, RunEvent::Succeeded(_)) => counters.succeeded.add(),
            (Committed::Stored { .. }, RunEvent::AttemptFailed(_)) => counters.attempt_failed.add(),
            (Committed::Stored { .. }, RunEvent::Failed(_)) => counters.failed.add(),
            (Committed::Stored { .. }, RunEvent::Interrupted(_)) => counters.interrupted.add(),
            (refused, _) => return self.refused(refused),
        }
        stored
    }

    fn refused(&self, committed: Committed) -> Settle {
        match committed {
            Committed::Over => {
                self.count_refusal();
                Settle::Ack
            }
            Committed::Overtaken | Committed::Stale => {
                self.count_refusal();
                Settle::Nothing
            }
            Committed::GaveUp | Committed::Stored { .. } => Settle::Nothing,
        }
    }

    fn count_refusal(&self) {
        let counters = &self.shared.state.counters;
        counters.refused.add();
        if clock::now() > self.fire.run_by {
            counters.late.add();
        }
        decisions::refused(self.fire);
    }

    /// Acknowledges only if the last event ends the fire.
    async fn settle_overtaken(&self, begun: &Begun, times: Times) -> Settle {
        let Ok(Read::Known(Some(stored))) =
            self.shared.store.last_since(self.subject, begun.token + 1).await
        else {
            return Settle::Nothing;
        };
        let event = &stored.last.event;
        self.trace.overtaken(begun, &self.shared.state.me, event, times);
        if attempt::is_over(self.fire, event) { Settle::Ack } else { Settle::Nothing }
    }

    fn context(&self, place: Place, token: u64) -> TaskContext {
        let fire = self.fire;
        let trace = handler_context(fire, place, self.trace.is_traced());
        TaskContext {
            task: fire.task.clone(),
            job: fire.job.clone(),
            run: fire.run,
            shard: fire.shard,
            shards: fire.shards,
            slot: fire.scheduled_at,
            attempt: place.attempt,
            fencing_token: token,
            traceparent: trace.to_string(),
            trace,
            timeout: fire.timeout.to_duration(),
            cancel: CancellationToken::new(),
        }
    }
}

fn output_of(outcome: TaskOutcome) -> Option<Output> {
    match outcome {
        TaskOutcome::Success { output, .. } | TaskOutcome::Failure { output, .. } => output,
    }
}

/// Says "in progress" for a delivery and watches its shard.
#[derive(Debug, Default)]
struct Beat {
    /// The sequence of our `Started`, 0 before it.
    token: AtomicU64,
    /// Told when another event follows ours.
    overtaken: Notify,
}

impl Beat {
    /// Beats until it is dropped, the first time after a half and a `spread` part of the other half. It shares a task
    /// with its attempt, which waits for its task and for answers, and never works itself.
    async fn go_on(
        &self,
        (shared, subject): (&Shared, &str),
        delivery: &Delivery,
        spread: f64,
    ) -> Infallible {
        let mut wait = shared.beat.mul_f64(0.5 + spread / 2.0);
        loop {
            tokio::time::sleep(wait).await;
            wait = shared.beat;
            Box::pin(self.once(shared, delivery, subject)).await;
        }
    }

    async fn once(&self, shared: &Shared, delivery: &Delivery, subject: &str) {
        if let Err(error) = delivery.progress().await {
            tracing::debug!(%error, subject, "progress not told");
        }
        let token = self.token.load(Ordering::Acquire);
        if token == 0 {
            return;
        }
        match shared.store.last_seq(subject).await {
            Ok(last) if attempt::is_overtaken(token, last) => self.overtaken.notify_one(),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, subject, "last event not read"),
        }
    }

    fn watch_from(&self, token: u64) {
        self.token.store(token, Ordering::Release);
    }
}
