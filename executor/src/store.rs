//! A shard's events in CRON_RUNS: read the last one, append the next one if nothing came between.
//!
//! Invariant: an event is stored at most once and only where it was decided for; what became of an append is
//! known before anything is built on it.
//!
//! Every read is a direct get, which permissions narrow to a queue's own runs. Any replica answers it, perhaps with
//! an older event; compare-and-set decides all the same: a stale answer costs another read or another append.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cronstream_bus::{Append, AppendAnswer, Bus, StoredMessage, Ttl};
use cronstream_core::attempt::{Last, Refusal, after_refusal};
use cronstream_schemas::event::{Decoded, Event, Fired, RunEvent};
use cronstream_schemas::time::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::clock;
use crate::journal::Journal;
use crate::state::{State, Trouble};

/// Kept this much longer than promised, for clocks that differ.
const TTL_MARGIN: Duration = Duration::from_secs(60);
/// An append is given up this long after the run's hard end: the leader has ended the run meanwhile. It stays well below
/// the shortest retention (60 s): once the terminal event has expired, nothing would refuse the append.
const GIVE_UP_AFTER_END: Duration = Duration::from_secs(30);
/// How often a last event is read that is older than one known already, before it counts as the last.
const STALE_READS_MAX: u32 = 8;
/// How long first deliveries are not trusted to be first, after one that was not.
const DISTRUST: Duration = Duration::from_secs(10);
/// Between two tries of an append.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// A shard's last event, as it is stored.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) last: Last,
    /// Its broker timestamp.
    pub(crate) at: Timestamp,
}

/// What stands last on a shard's subject.
#[derive(Debug)]
pub(crate) enum Read {
    /// This one, or none.
    Known(Option<Stored>),
    /// One that this binary cannot read.
    Unreadable,
}

/// An event that is to be stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) fire: &'a Fired,
    /// The shard's.
    pub(crate) subject: &'a str,
    pub(crate) event: &'a RunEvent,
    /// The sequence that it was decided after.
    pub(crate) expected_seq: u64,
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Committed {
    /// It stands, under this sequence.
    Stored {
        /// The sequence in CRON_RUNS.
        seq: u64,
    },
    /// Another event ended the fire.
    Over,
    /// It was decided from a stale read, and nobody runs the fire.
    Stale,
    /// Another delivery of the fire has the shard.
    Overtaken,
    /// It could not be stored in time; the fire comes again.
    GaveUp,
}

/// The events of runs.
#[derive(Debug)]
pub(crate) struct Store {
    bus: Bus,
    journal: Journal,
    state: Arc<State>,
    /// Cancelled when appends are no longer tried again.
    give_up: CancellationToken,
    distrusted: Mutex<Option<Instant>>,
}

impl Store {
    pub(crate) fn new(bus: Bus, state: Arc<State>, give_up: CancellationToken) -> Self {
        let journal = Journal::start(bus.clone());
        Self { bus, journal, state, give_up, distrusted: Mutex::new(None) }
    }

    /// Whether a shard's first delivery may be taken for one of which nothing is stored, without looking. It is, but
    /// for a run that was ended before it began and a queue's consumer that was made anew; then the append is
    /// refused, and whatever left in the same batch is stored one by one.
    pub(crate) fn trusts_first_deliveries(&self) -> bool {
        let distrusted = self.distrusted.lock().unwrap_or_else(PoisonError::into_inner);
        distrusted.is_none_or(|since| since.elapsed() > DISTRUST)
    }

    /// Notes that a first delivery was not the first.
    pub(crate) fn distrust_first_deliveries(&self) {
        *self.distrusted.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// The last event, perhaps a stale one.
    pub(crate) async fn last(&self, subject: &str) -> Result<Read, cronstream_bus::Error> {
        let message = self.bus.last_direct(&self.bus.names().runs, subject).await?;
        Ok(decode(message.as_ref()))
    }

    /// The last event's sequence, perhaps a stale one.
    pub(crate) async fn last_seq(
        &self,
        subject: &str,
    ) -> Result<Option<u64>, cronstream_bus::Error> {
        let message = self.bus.last_direct(&self.bus.names().runs, subject).await?;
        Ok(message.map(|message| message.seq))
    }

    /// The last event, which is known to stand at `seq` or behind it. A replica that has not got so far is asked
    /// again; when none has, the event is gone.
    pub(crate) async fn last_since(
        &self,
        subject: &str,
        seq: u64,
    ) -> Result<Read, cronstream_bus::Error> {
        let mut backoff = Backoff::new(RETRY.0, RETRY.1);
        for _ in 1..STALE_READS_MAX {
            let message = self.bus.last_direct(&self.bus.names().runs, subject).await?;
            if message.as_ref().map_or(0, |message| message.seq) >= seq {
                return Ok(decode(message.as_ref()));
            }
            tokio::time::sleep(backoff.delay()).await;
        }
        self.last(subject).await
    }

    /// Appends an event, again and again until its fate is known.
    pub(crate) async fn commit(&self, wanted: Wanted<'_>) -> Committed {
        match self.append(wanted).await {
            AppendAnswer::Stored { seq } => Committed::Stored { seq },
            // Apart, as it happens seldom: a future has room for whatever it may have to wait for.
            refused => Box::pin(self.insist(wanted, refused)).await,
        }
    }

    /// Goes on after the first answer, which was not that it is stored.
    async fn insist(&self, wanted: Wanted<'_>, mut answer: AppendAnswer) -> Committed {
        let mut backoff = Backoff::new(RETRY.0, RETRY.1);
        loop {
            match answer {
                AppendAnswer::Stored { seq } => return Committed::Stored { seq },
                AppendAnswer::Conflict | AppendAnswer::Unknown => {
                    match self.settle(wanted).await {
                        Some(Refusal::Won { seq }) => {
                            self.state.trouble(Trouble::Store, None);
                            return Committed::Stored { seq };
                        }
                        Some(Refusal::Ack) => return Committed::Over,
                        Some(Refusal::Again) => return Committed::Stale,
                        Some(Refusal::Drop) => return Committed::Overtaken,
                        // Not even a refusal came: a broker whose disk is full does not answer.
                        Some(Refusal::Resend) => self.cannot_store("no answer"),
                        None => return Committed::GaveUp,
                    }
                }
                AppendAnswer::Retry { .. }
                | AppendAnswer::Denied { .. }
                | AppendAnswer::Failed { .. } => {}
            }
            if !self.wait(wanted.fire, backoff.delay()).await {
                return Committed::GaveUp;
            }
            answer = self.append(wanted).await;
        }
    }

    /// Reads the last event until an answer comes; `None` when it is given up.
    async fn settle(&self, wanted: Wanted<'_>) -> Option<Refusal> {
        let Wanted { fire, subject, event, expected_seq } = wanted;
        let mut backoff = Backoff::new(RETRY.0, RETRY.1);
        loop {
            match self.last_since(subject, expected_seq).await {
                Ok(Read::Known(stored)) => {
                    let last = stored.as_ref().map(|stored| &stored.last);
                    return Some(after_refusal(fire, event, expected_seq, last));
                }
                Ok(Read::Unreadable) => return Some(Refusal::Drop),
                Err(error) => tracing::debug!(%error, subject, "last event not read"),
            }
            if !self.wait(fire, backoff.delay()).await {
                return None;
            }
        }
    }

    /// Waits before another try; `false` when there is to be none.
    async fn wait(&self, fire: &Fired, delay: Duration) -> bool {
        if clock::now() > fire.run_by.plus(GIVE_UP_AFTER_END) {
            return false;
        }
        tokio::select! {
            biased;
            () = self.give_up.cancelled() => false,
            () = tokio::time::sleep(delay) => true,
        }
    }

    /// Appends once.
    async fn append(&self, wanted: Wanted<'_>) -> AppendAnswer {
        let Wanted { fire, subject, event, expected_seq } = wanted;
        let append = Append {
            subject: subject.to_owned(),
            headers: Vec::new(),
            payload: event.encode().into(),
            ttl: Some(Ttl::at_least(fire.keep_until.since(clock::now()) + TTL_MARGIN)),
            msg_id: None,
            expected_last_seq: expected_seq,
        };
        let answer = self.journal.append(fire.shard_id(), append).await;
        self.note(&answer);
        answer
    }

    fn note(&self, answer: &AppendAnswer) {
        match answer {
            AppendAnswer::Stored { .. } => self.state.trouble(Trouble::Store, None),
            AppendAnswer::Denied { subject } => {
                self.cannot_store(&format!("permission denied for {subject}"));
            }
            AppendAnswer::Failed { code, description } => {
                self.cannot_store(&format!("{description} ({code})"));
            }
            AppendAnswer::Conflict | AppendAnswer::Unknown | AppendAnswer::Retry { .. } => {}
        }
    }

    fn cannot_store(&self, why: &str) {
        tracing::error!(why, "cannot store run events");
        let trouble = format!("cannot store run events: {why}");
        self.state.trouble(Trouble::Store, Some(trouble));
    }
}

fn decode(message: Option<&StoredMessage>) -> Read {
    let Some(message) = message else { return Read::Known(None) };
    match RunEvent::decode(&message.payload) {
        Ok(Decoded::Known(event)) => {
            let at = Timestamp::from_millis(message.timestamp_ms);
            Read::Known(Some(Stored { last: Last { seq: message.seq, event }, at }))
        }
        Ok(Decoded::Unknown { kind }) => {
            tracing::warn!(subject = message.subject, kind, "run event of a newer version");
            Read::Unreadable
        }
        Err(error) => {
            tracing::error!(subject = message.subject, %error, "run event cannot be read");
            Read::Unreadable
        }
    }
}
