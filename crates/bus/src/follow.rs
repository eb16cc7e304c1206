//! Replay then follow: everything a stream holds from a place on, then everything it gets, for as
//! long as the handle lives.
//!
//! ```text
//!            ┌────────── back-off ◄── lost, failed ──┐
//!            ▼                                       │
//!   state of the stream ─► compare ─► careful steps ─► session behind the last message
//!                             └─ other stream, shorter, or a gap ─► Reset
//! ```
//!
//! Invariants: a message is given once at most, in the order of its sequence, and left out only where the owner
//! knows it by itself ([`Follow::pass`]); `CaughtUp { through }` is
//! proven by the stream's leader, not by the replica that delivers; nothing that a foreign client
//! stored can stop the flow. The last one needs the careful steps: a header that the client cannot
//! read ends its connection, so after each loss the next message is read by the one way that cannot
//! break, and more of them when losses follow each other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use crate::connect::Bus;
use crate::error::Error;
use crate::message::StoredMessage;
use crate::read::StreamState;
use crate::ring;
use crate::session::{self, Begin, PULL_MESSAGES, Session, Step};

/// Events that wait for a slow owner; a `Messages` holds 500 at most.
pub const FOLLOW_QUEUE: usize = 4;
/// The shortest and longest wait before a lost consumer is replaced.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// A session this long is a healthy one, so the next loss is met with the shortest wait.
const HEALTHY_AFTER: Duration = Duration::from_secs(5);
/// A stream that looks reset is looked at again after this.
const RESET_CONFIRM: Duration = Duration::from_millis(500);
/// Messages read carefully after losses that follow each other, at most.
const CAREFUL_MAX: u32 = 256;
/// So many messages that the owner knows by itself are worth a consumer that begins behind them.
const PASS_MIN: u64 = 5_000;

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// At the oldest message there is.
    Oldest,
    /// At a sequence. When the stream does not reach back to it, the first event is a
    /// [`FollowEvent::Reset`].
    Sequence(u64),
    /// With the last message of each subject.
    LastPerSubject,
}

/// What to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowOptions {
    /// The stream.
    pub stream: String,
    /// The subjects; all of them when absent.
    pub filter: Option<String>,
    /// Where to begin.
    pub from: From,
}

/// What happens in the followed stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowEvent {
    /// Messages, in order; never empty.
    Messages(Vec<StoredMessage>),
    /// Every matching message up to this sequence of the stream has been given. Told when the head
    /// that stood at the beginning, or at a new beginning after a loss, is reached; on
    /// [`Follow::confirm`]; and every 10 s of silence.
    CaughtUp {
        /// The sequence.
        through: u64,
    },
    /// The stream is another one, has become shorter, or has lost messages that were not given yet.
    /// What follows is a replay from its beginning.
    Reset {
        /// Its first sequence now.
        first_seq: u64,
        /// Its last sequence now.
        last_seq: u64,
        /// When it was created.
        created: DateTime<Utc>,
    },
}

/// A followed stream. Dropping it ends the following and removes the consumer.
#[derive(Debug)]
pub struct Follow {
    events: mpsc::Receiver<FollowEvent>,
    confirm: Arc<Notify>,
    passed: watch::Sender<Passed>,
    supervisor: JoinHandle<()>,
}

impl Follow {
    /// The next event; `None` only when the runtime ends. May be dropped and called again without
    /// loss.
    pub async fn next(&mut self) -> Option<FollowEvent> {
        let event = self.events.recv().await;
        if let Some(FollowEvent::Reset { .. }) = event {
            self.passed
                .send_modify(|passed| *passed = Passed { resets: passed.resets + 1, through: 0 });
        }
        event
    }

    /// Ends the following and waits until the consumer is removed, for a process that is about to end.
    pub async fn close(self) {
        drop(self.events);
        // It fails only when the runtime ends, and nothing can be waited for then.
        self.supervisor.await.ok();
    }

    /// Notes that the owner knows every message up to `through` by itself: those that are not on their way yet are
    /// left out where they are many. Those that are come all the same.
    pub fn pass(&self, through: u64) {
        self.passed.send_if_modified(|passed| {
            let further = through > passed.through;
            passed.through = passed.through.max(through);
            further
        });
    }

    /// Asks for a `CaughtUp` through the head that the stream's leader has now.
    pub fn confirm(&self) {
        self.confirm.notify_one();
    }
}

impl Bus {
    /// Follows a stream.
    ///
    /// # Errors
    /// When the stream is not there or may not be read; later trouble is overcome and traced.
    pub async fn follow(&self, options: FollowOptions) -> Result<Follow, Error> {
        self.stream_state(&options.stream).await?;
        let (tx, events) = mpsc::channel(FOLLOW_QUEUE);
        let confirm = Arc::new(Notify::new());
        let (passed, passing) = watch::channel(Passed::default());
        let supervisor = Supervisor {
            bus: self.clone(),
            place: Place::new(options.from),
            options,
            tx,
            confirm: Arc::clone(&confirm),
            passing,
            resets: 0,
            careful: 0,
            consumer: None,
        };
        let supervisor = tokio::spawn(supervisor.run());
        Ok(Follow { events, confirm, passed, supervisor })
    }
}

/// How far the owner needs nothing, since the last `Reset` that it has taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Passed {
    /// How many of them it has taken: what it knew of the stream before is nothing to go by.
    resets: u64,
    through: u64,
}

/// How far the owner has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing yet.
    Fresh(Begin),
    /// Everything that matches up to this sequence.
    Through(u64),
}

impl Place {
    fn new(from: From) -> Self {
        match from {
            From::Oldest => Self::Fresh(Begin::Oldest),
            From::LastPerSubject => Self::Fresh(Begin::LastPerSubject),
            From::Sequence(seq) => Self::Through(seq.saturating_sub(1)),
        }
    }

    fn begin(self) -> Begin {
        match self {
            Self::Fresh(begin) => begin,
            Self::Through(seq) => Begin::At(seq + 1),
        }
    }

    fn through(self) -> u64 {
        match self {
            Self::Fresh(_) => 0,
            Self::Through(seq) => seq,
        }
    }

    fn advance(&mut self, seq: u64) {
        *self = Self::Through(self.through().max(seq));
    }

    /// Whether a stream in this state can be the one followed so far.
    fn fits(self, state: &StreamState, created: Option<DateTime<Utc>>) -> bool {
        let same = created.is_none_or(|created| created == state.created);
        match self {
            Self::Fresh(_) => true,
            Self::Through(seq) => same && state.last_seq >= seq && state.first_seq <= seq + 1,
        }
    }
}

/// Why a round is over.
#[derive(Debug)]
enum End {
    Dropped,
    Lost(String),
    Failed(Error),
}

impl std::convert::From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

struct Supervisor {
    bus: Bus,
    options: FollowOptions,
    tx: mpsc::Sender<FollowEvent>,
    confirm: Arc<Notify>,
    passing: watch::Receiver<Passed>,
    /// How many `Reset`s were told.
    resets: u64,
    place: Place,
    careful: u32,
    consumer: Option<String>,
}

impl Supervisor {
    async fn run(mut self) {
        let tx = self.tx.clone();
        tokio::select! {
            () = tx.closed() => {}
            () = self.rounds() => {}
        }
        self.remove_consumer().await;
    }

    async fn rounds(&mut self) {
        let mut created = None;
        let mut backoff = BACKOFF.0;
        loop {
            let mut connects = self.bus.connects();
            connects.mark_unchanged();
            let (started, place) = (Instant::now(), self.place);
            let reason = match self.round(&mut created).await {
                Err(End::Dropped) => return,
                Err(End::Lost(reason)) => reason,
                Err(End::Failed(error)) => error.to_string(),
                Ok(never) => match never {},
            };
            let stream = &self.options.stream;
            tracing::warn!(stream, through = self.place.through(), reason, "consumer lost");
            self.remove_consumer().await;
            let healthy = started.elapsed() >= HEALTHY_AFTER;
            self.careful = if healthy { 1 } else { (self.careful * 4).clamp(1, CAREFUL_MAX) };
            let progress = healthy || place != self.place;
            backoff = if progress { BACKOFF.0 } else { (backoff * 2).min(BACKOFF.1) };
            tokio::select! {
                () = tokio::time::sleep(ring::jitter(backoff)) => {}
                _ = connects.changed() => {}
            }
        }
    }

    /// From the look at the stream to the end of one consumer.
    async fn round(
        &mut self,
        created: &mut Option<DateTime<Utc>>,
    ) -> Result<std::convert::Infallible, End> {
        let mut state = self.state(created).await?;
        self.step_carefully().await?;
        let mut session = self.session().await?;
        let mut owed = session.pending_at_start > 0 || !self.prove(state.last_seq).await?;
        loop {
            if let Some(through) = self.passed() {
                self.place.advance(through);
                self.remove_consumer().await;
                session = self.session().await?;
                if owed && through >= state.last_seq {
                    owed = !self.prove(state.last_seq).await?;
                }
            }
            let step = tokio::select! {
                step = session.next() => step,
                Ok(()) = self.passing.changed() => continue,
                () = self.confirm.notified() => {
                    state = self.state(created).await?;
                    owed = !self.prove(state.last_seq).await?;
                    continue;
                }
            };
            match step {
                Step::Message { message, pending } => {
                    let pending = self.pass_on(&mut session, message, pending).await?;
                    let reached = pending == 0 || self.place.through() >= state.last_seq;
                    if owed && reached {
                        owed = !self.prove(state.last_seq).await?;
                    }
                }
                Step::Idle => {
                    state = self.state(created).await?;
                    owed = !self.prove(state.last_seq).await?;
                }
                Step::Lost(reason) => return Err(End::Lost(reason)),
            }
        }
    }

    /// A consumer that begins where the owner's knowledge ends.
    async fn session(&mut self) -> Result<Session, End> {
        let (stream, filter) = (&self.options.stream, self.options.filter.as_deref());
        let session = Session::start(&self.bus, stream, filter, self.place.begin()).await?;
        self.consumer = Some(session.name().to_owned());
        Ok(session)
    }

    /// Up to where the owner needs nothing, if that is worth a new consumer.
    fn passed(&self) -> Option<u64> {
        let Passed { resets, through } = *self.passing.borrow();
        let far = through >= self.place.through().saturating_add(PASS_MIN);
        (resets == self.resets && far).then_some(through)
    }

    /// Passes on a message and those that are here already; gives how many match behind them.
    async fn pass_on(
        &mut self,
        session: &mut Session,
        first: StoredMessage,
        mut pending: u64,
    ) -> Result<u64, End> {
        let mut last = first.seq;
        let mut messages = vec![first];
        let mut lost = None;
        while (messages.len() as u64) < PULL_MESSAGES {
            match session.next_now() {
                Some(Step::Message { message, pending: behind }) => {
                    (last, pending) = (message.seq, behind);
                    messages.push(message);
                }
                Some(Step::Lost(reason)) => {
                    lost = Some(End::Lost(reason));
                    break;
                }
                Some(Step::Idle) | None => break,
            }
        }
        // A replica that lags behind begins at its own end, which may lie before what was given.
        messages.retain(|message| message.seq > self.place.through());
        if !messages.is_empty() {
            self.tell(FollowEvent::Messages(messages)).await?;
        }
        self.place.advance(last);
        lost.map_or(Ok(pending), Err)
    }

    /// Tells `CaughtUp` if the leader confirms that nothing up to `head` is missing.
    async fn prove(&mut self, head: u64) -> Result<bool, End> {
        if self.place.through() < head {
            let (stream, filter) = (&self.options.stream, self.options.filter.as_deref());
            let next = self.place.through() + 1;
            let missing = self.bus.next_from_leader(stream, next, filter).await?;
            if missing.is_some_and(|message| message.seq <= head) {
                return Ok(false);
            }
        }
        self.place.advance(head);
        self.tell(FollowEvent::CaughtUp { through: self.place.through() }).await?;
        Ok(true)
    }

    /// The state of the stream; tells `Reset` when it is not the stream followed so far.
    async fn state(&mut self, created: &mut Option<DateTime<Utc>>) -> Result<StreamState, End> {
        let stream = self.options.stream.clone();
        let mut state = self.bus.stream_state(&stream).await?;
        if !self.place.fits(&state, *created) {
            tokio::time::sleep(RESET_CONFIRM).await;
            state = self.bus.stream_state(&stream).await?;
        }
        let fits = self.place.fits(&state, *created);
        *created = Some(state.created);
        if fits {
            return Ok(state);
        }
        tracing::error!(stream, ?state, through = self.place.through(), "the stream was reset");
        self.place = Place::Fresh(match self.options.from {
            From::Oldest | From::Sequence(_) => Begin::Oldest,
            From::LastPerSubject => Begin::LastPerSubject,
        });
        let StreamState { first_seq, last_seq, created, .. } = state;
        self.resets += 1;
        self.tell(FollowEvent::Reset { first_seq, last_seq, created }).await?;
        Err(End::Lost("the stream was reset".into()))
    }

    /// Reads the next messages one by one from the leader.
    async fn step_carefully(&mut self) -> Result<(), End> {
        for _ in 0..self.careful {
            let Place::Through(seq) = self.place else { return Ok(()) };
            let (stream, filter) = (&self.options.stream, self.options.filter.as_deref());
            let next = self.bus.next_from_leader(stream, seq + 1, filter).await?;
            let Some(message) = next else { return Ok(()) };
            let seq = message.seq;
            self.tell(FollowEvent::Messages(vec![message])).await?;
            self.place.advance(seq);
        }
        Ok(())
    }

    async fn tell(&self, event: FollowEvent) -> Result<(), End> {
        self.tx.send(event).await.map_err(|_| End::Dropped)
    }

    async fn remove_consumer(&mut self) {
        if let Some(name) = self.consumer.take() {
            session::delete(&self.bus, &self.options.stream, &name).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(first_seq: u64, last_seq: u64, created: i64) -> StreamState {
        StreamState {
            first_seq,
            last_seq,
            messages: 0,
            bytes: 0,
            created: DateTime::from_timestamp(created, 0).unwrap(),
            now: DateTime::default(),
            max_consumers: -1,
            consumer_count: 0,
            replicas: 1,
        }
    }

    #[test]
    fn a_stream_that_is_another_shorter_or_gapped_does_not_fit() {
        let created = DateTime::from_timestamp(1, 0);
        for (place, state, fits) in [
            (Place::Through(10), state(1, 10, 1), true),
            (Place::Through(10), state(11, 12, 1), true),
            (Place::Through(10), state(11, 10, 1), true),
            (Place::Through(10), state(12, 12, 1), false),
            (Place::Through(10), state(1, 9, 1), false),
            (Place::Through(10), state(1, 20, 2), false),
            (Place::Fresh(Begin::Oldest), state(5, 9, 2), true),
        ] {
            assert_eq!(place.fits(&state, created), fits, "{place:?} {state:?}");
        }
    }

    #[test]
    fn a_sequence_asked_for_is_the_first_one_wanted() {
        assert_eq!(Place::new(From::Sequence(7)).begin(), Begin::At(7));
        assert!(!Place::new(From::Sequence(7)).fits(&state(8, 9, 1), None));
        assert!(Place::new(From::Sequence(7)).fits(&state(7, 9, 1), None));
    }
}
