//! The recorder: follows the streams from their first message on and keeps what it sees.
//!
//! CRON_LOG rolls up cursors and job states, so what the checker needs of them is only seen by who was there.
//!
//! Invariant: a recorded message stays as it was first seen; a connection that breaks is counted and made again
//! from the next sequence on.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cronstream_schemas::event::{DeadLetter, Decoded, Event, LogEvent, RunEvent};
use cronstream_schemas::header;
use cronstream_schemas::id::{Epoch, Tick};
use cronstream_schemas::time::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::history::{History, Oddity, Stored};
use crate::jetstream::Entry;
use crate::nats::Nats;

/// How long a broken connection rests before it is made again.
const RECONNECT: Duration = Duration::from_millis(100);

/// A stream that is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// CRON_COMMANDS.
    Commands,
    /// CRON_LOG.
    Log,
    /// CRON_RUNS.
    Runs,
    /// CRON_DEAD.
    Dead,
}

impl Stream {
    /// Every stream.
    pub const ALL: [Self; 4] = [Self::Commands, Self::Log, Self::Runs, Self::Dead];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Commands => "CRON_COMMANDS",
            Self::Log => "CRON_LOG",
            Self::Runs => "CRON_RUNS",
            Self::Dead => "CRON_DEAD",
        }
    }
}

/// Everything seen so far, by sequence.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// CRON_COMMANDS.
    pub commands: BTreeMap<u64, Entry>,
    /// CRON_LOG.
    pub log: BTreeMap<u64, Stored<LogEvent>>,
    /// CRON_RUNS.
    pub runs: BTreeMap<u64, Stored<RunEvent>>,
    /// CRON_DEAD.
    pub dead: BTreeMap<u64, Stored<DeadLetter>>,
    /// Messages that should not be so.
    pub oddities: Vec<Oddity>,
    /// When a connection of the recorder broke.
    pub breaks: Vec<Timestamp>,
    seen: BTreeMap<Stream, u64>,
}

impl Record {
    /// The sequence of the newest message seen of a stream.
    #[must_use]
    pub fn last(&self, stream: Stream) -> u64 {
        self.seen.get(&stream).copied().unwrap_or(0)
    }

    fn add(&mut self, stream: Stream, mut entry: Entry) {
        let sequence = entry.sequence;
        // It names the consumer, and no two readings have the same.
        entry.message.reply = None;
        self.seen.insert(stream, sequence);
        let unreadable = match stream {
            Stream::Commands => {
                self.commands.insert(sequence, entry);
                None
            }
            Stream::Log => keep(&mut self.log, &entry, known),
            Stream::Runs => keep(&mut self.runs, &entry, known),
            Stream::Dead => keep(&mut self.dead, &entry, |body| Ok(serde_json::from_slice(body)?)),
        };
        self.oddities.extend(unreadable);
    }
}

fn known<E: Event>(body: &[u8]) -> Result<E> {
    match E::decode(body)? {
        Decoded::Known(event) => Ok(event),
        Decoded::Unknown { kind } => bail!("unknown kind {kind:?}"),
    }
}

fn keep<E>(
    events: &mut BTreeMap<u64, Stored<E>>,
    entry: &Entry,
    read: impl Fn(&[u8]) -> Result<E>,
) -> Option<Oddity> {
    let Entry { sequence, at, message } = entry;
    // A marker that the server leaves where a message expired is no event.
    if message.header("Nats-Marker-Reason").is_some() {
        return None;
    }
    let (sequence, subject) = (*sequence, message.subject.clone());
    match read(&message.body) {
        Ok(event) => {
            let tick = message.header(header::TICK).and_then(parse_tick);
            events.insert(sequence, Stored { sequence, at: *at, subject, tick, event });
            None
        }
        Err(error) => Some(Oddity::Unreadable { subject, sequence, why: format!("{error:#}") }),
    }
}

fn parse_tick(text: &str) -> Option<(Epoch, Tick)> {
    let (epoch, tick) = text.split_once('.')?;
    Some((Epoch(epoch.parse().ok()?), Tick(tick.parse().ok()?)))
}

/// The recorder of one installation.
#[derive(Debug)]
pub struct Recorder {
    urls: Vec<String>,
    record: watch::Sender<Record>,
    _tasks: JoinSet<()>,
}

impl Recorder {
    /// Starts to record; the streams may be made later.
    #[must_use]
    pub fn start(urls: &[String]) -> Self {
        let record = watch::Sender::new(Record::default());
        let mut tasks = JoinSet::new();
        for stream in Stream::ALL {
            tasks.spawn(follow_for_ever(urls.to_vec(), stream, record.clone()));
        }
        Self { urls: urls.to_vec(), record, _tasks: tasks }
    }

    /// What is known now. The recorder waits while the answer is held.
    #[must_use]
    pub fn now(&self) -> watch::Ref<'_, Record> {
        self.record.borrow()
    }

    /// Waits until `found` finds something in the record, looking again at every message.
    ///
    /// # Errors
    /// When it has found nothing in time; names `what` was waited for.
    pub async fn until<T>(
        &self,
        what: &str,
        within: Duration,
        mut found: impl FnMut(&Record) -> Option<T>,
    ) -> Result<T> {
        let mut record = self.record.subscribe();
        let mut answer = None;
        let looking = record.wait_for(|record| {
            answer = found(record);
            answer.is_some()
        });
        let looked = timeout(within, looking).await.map(|looked| looked.map(drop));
        match (looked, answer) {
            (Ok(Ok(())), Some(answer)) => Ok(answer),
            (Ok(Err(_)), _) => bail!("the recorder is gone"),
            (Err(_) | Ok(Ok(())), _) => {
                let record = self.record.borrow();
                let seen = &record.seen;
                bail!("not in {within:?}: {what} (newest messages seen: {seen:?})")
            }
        }
    }

    /// Waits until everything that the stream's leader has is recorded.
    ///
    /// # Errors
    /// When the stream does not answer, or the recorder does not catch up, in time.
    pub async fn caught_up(&self, stream: Stream, within: Duration) -> Result<u64> {
        let deadline = Instant::now() + within;
        let last = loop {
            match self.ask_last(stream).await {
                Ok(last) => break last,
                Err(error) if Instant::now() >= deadline => return Err(error),
                Err(_) => sleep(RECONNECT).await,
            }
        };
        let what = format!("{} up to {last}", stream.name());
        self.until(&what, within, |record| (record.last(stream) >= last).then_some(())).await?;
        Ok(last)
    }

    async fn ask_last(&self, stream: Stream) -> Result<u64> {
        Ok(Nats::connect(&self.urls).await?.ends(stream.name()).await?.last)
    }

    /// Reads the streams once more from their beginning and returns the record, checked against that reading.
    ///
    /// # Errors
    /// When the streams cannot be read in time.
    pub async fn history(&self, partitions: u8, within: Duration) -> Result<History> {
        let mut oddities = Vec::new();
        for stream in Stream::ALL {
            let last = self.caught_up(stream, within).await?;
            let deadline = Instant::now() + within;
            let again = loop {
                match self.reread(stream, last, within).await {
                    // A broker that is just back, or gone, may refuse the consumer.
                    Err(_) if Instant::now() < deadline => sleep(RECONNECT).await,
                    again => break again?,
                }
            };
            oddities.extend(differences(stream, &self.record.borrow(), &again));
        }
        let record = self.record.borrow().clone();
        oddities.extend(record.oddities);
        Ok(History {
            partitions,
            log: record.log.into_values().collect(),
            runs: record.runs.into_values().collect(),
            dead: record.dead.into_values().collect(),
            effects: Vec::new(),
            oddities,
            breaks: record.breaks,
        })
    }

    /// Reads a stream up to `last`, which may itself have been rolled up meanwhile.
    async fn reread(&self, stream: Stream, last: u64, within: Duration) -> Result<Record> {
        let mut again = Record::default();
        let nats = Nats::connect(&self.urls).await?;
        if nats.ends(stream.name()).await?.first > last {
            // Nothing of it is left, and that is certain up to `last`.
            again.seen.insert(stream, last);
            return Ok(again);
        }
        let mut follow = nats.follow(stream.name(), 1).await?;
        let deadline = Instant::now() + within;
        while again.last(stream) < last {
            match timeout_at(deadline, follow.next_or_idle()).await.context("too long")?? {
                Some(entry) => again.add(stream, entry),
                // The consumer has sent all there is.
                None => break,
            }
        }
        Ok(again)
    }
}

async fn follow_for_ever(urls: Vec<String>, stream: Stream, record: watch::Sender<Record>) {
    loop {
        let from = record.borrow().last(stream) + 1;
        let mut followed = false;
        if let Err(error) = follow(&urls, stream, from, &record, &mut followed).await {
            tracing::debug!(stream = stream.name(), "{error:#}");
        }
        if followed {
            record.send_modify(|record| record.breaks.push(crate::world::now()));
        }
        sleep(RECONNECT).await;
    }
}

async fn follow(
    urls: &[String],
    stream: Stream,
    from: u64,
    record: &watch::Sender<Record>,
    followed: &mut bool,
) -> Result<()> {
    let nats = Nats::connect(urls).await?;
    let mut follow = nats.follow(stream.name(), from).await?;
    *followed = true;
    loop {
        let entry = follow.next().await?;
        ensure!(entry.sequence > record.borrow().last(stream), "the stream begins anew");
        record.send_modify(|record| record.add(stream, entry));
    }
}

/// What the second reading shows otherwise than the first.
fn differences(stream: Stream, record: &Record, again: &Record) -> Vec<Oddity> {
    let last = again.last(stream);
    match stream {
        Stream::Commands => compare(&record.commands, &again.commands, last),
        Stream::Log => compare(&record.log, &again.log, last),
        Stream::Runs => compare(&record.runs, &again.runs, last),
        Stream::Dead => compare(&record.dead, &again.dead, last),
    }
}

/// A message of a stream.
trait Addressed: PartialEq {
    fn subject(&self) -> &str;
}

impl Addressed for Entry {
    fn subject(&self) -> &str {
        &self.message.subject
    }
}

impl<E: PartialEq> Addressed for Stored<E> {
    fn subject(&self) -> &str {
        &self.subject
    }
}

fn compare<T: Addressed>(
    first: &BTreeMap<u64, T>,
    again: &BTreeMap<u64, T>,
    last: u64,
) -> Vec<Oddity> {
    let differs = |(sequence, message): (&u64, &T)| {
        let (subject, sequence) = (message.subject().to_owned(), *sequence);
        match again.get(&sequence) {
            Some(other) if other == message => None,
            Some(_) => Some(Oddity::Changed { subject, sequence }),
            None if is_rolled_up(&subject) => None,
            None => Some(Oddity::Vanished { subject, sequence }),
        }
    };
    first.range(..=last).filter_map(differs).collect()
}

/// Subjects of which only the newest message is kept.
fn is_rolled_up(subject: &str) -> bool {
    ["cron.cursor.", "cron.job.", "cron.held."].iter().any(|start| subject.starts_with(start))
}
