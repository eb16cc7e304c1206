//! The model of the streams: sequences, roll-up, lifetimes, message ids, atomic batches, compare-and-set.
//!
//! Invariant: a sequence is given once; what a stream has ever stored stays in the model, marked as gone, so
//! that the checker sees all of it and a broker crash can bring it back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cronstream_core::message::{Keep, envelope};
use cronstream_core::turn::Batch;
use cronstream_schemas::event::{Cursor, Event, LogEvent, RunEvent};
use cronstream_schemas::id::{FireId, ShardId};
use cronstream_schemas::subject::{Prefix, RunKey};
use cronstream_schemas::time::Timestamp;
use xxhash_rust::xxh3::xxh3_64;

use crate::rng::mix;

/// A message of CRON_LOG.
#[derive(Debug)]
pub(crate) struct LogMessage {
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
    pub(crate) subject: String,
    pub(crate) event: LogEvent,
    pub(crate) expires: Option<Timestamp>,
}

#[derive(Debug, Clone)]
struct Entry {
    message: Arc<LogMessage>,
    rolled_up: bool,
    came_back: bool,
}

/// Why a stream refused a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Refused {
    WrongLast,
    Duplicate,
}

/// How a batch is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Terms {
    /// With message ids.
    pub(crate) ids: bool,
    /// With the expectation on the cursor.
    pub(crate) expects: bool,
    /// As one batch.
    pub(crate) atomic: bool,
    /// How much earlier than it should each fire vanishes.
    pub(crate) short_lived: bool,
    /// Its one event by itself, without its cursor.
    pub(crate) alone: bool,
}

/// CRON_LOG.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    entries: Vec<Entry>,
    ids: BTreeMap<FireId, Timestamp>,
    cursor: Option<(u64, Cursor)>,
    /// How long message ids are remembered.
    pub(crate) window: Duration,
    /// Whether ids are looked at before expectations (as three replicas do, and one does not).
    pub(crate) ids_first: bool,
    /// Ids that are taken for known whatever the window is, until a message comes without.
    poisoned: BTreeSet<FireId>,
    /// The next batch with fires meets a known id.
    pub(crate) poison: bool,
    /// Stands for the whole content in a state's key.
    pub(crate) digest: u64,
}

impl Log {
    pub(crate) fn head(&self) -> u64 {
        self.entries.len() as u64
    }

    /// The last message on the cursor's subject, as the stream's leader knows it.
    pub(crate) const fn cursor(&self) -> Option<&(u64, Cursor)> {
        self.cursor.as_ref()
    }

    /// What a reader that has read through `after` is given next.
    pub(crate) fn visible(
        &self,
        after: u64,
        now: Timestamp,
    ) -> impl Iterator<Item = &Arc<LogMessage>> {
        let after = usize::try_from(after).expect("an index");
        let entries = self.entries[after.min(self.entries.len())..].iter();
        entries.filter(move |entry| is_visible(entry, now)).map(|entry| &entry.message)
    }

    pub(crate) fn get(&self, seq: u64, now: Timestamp) -> Option<&Arc<LogMessage>> {
        let entry = self.entries.get(usize::try_from(seq).expect("an index").checked_sub(1)?)?;
        is_visible(entry, now).then_some(&entry.message)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<LogMessage>> {
        self.entries.iter().map(|entry| &entry.message)
    }

    /// A broker crash: messages that had expired or were rolled up are there again.
    pub(crate) fn bring_back(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.came_back = true);
        self.digest = mix(self.digest, 1);
    }

    /// Stores a batch; returns the messages that are new.
    pub(crate) fn store(
        &mut self,
        now: Timestamp,
        batch: &Batch,
        terms: Terms,
    ) -> (Vec<Arc<LogMessage>>, Result<u64, Refused>) {
        let wrong = terms.expects
            && self.cursor.as_ref().map_or(0, |(seq, _)| *seq) != batch.cursor_expected;
        let known = terms.ids && self.meets_known_id(now, batch);
        let refused = match (wrong, known, self.ids_first) {
            (true, true, true) | (false, true, _) => Some(Refused::Duplicate),
            (true, _, _) => Some(Refused::WrongLast),
            (false, false, _) => None,
        };
        let mut stored = Vec::new();
        if refused.is_none() || !(terms.atomic || known) {
            for planned in &batch.events {
                let digest = xxh3_64(&planned.body);
                stored.push(self.push(now, planned.event.clone(), digest, terms));
            }
        }
        if let Some(refused) = refused {
            return (stored, Err(refused));
        }
        if terms.alone {
            return (stored, Ok(self.head()));
        }
        let event = LogEvent::Cursor(batch.cursor.clone());
        let digest = xxh3_64(&event.encode());
        stored.push(self.push(now, event, digest, terms));
        let seq = self.head();
        self.cursor = Some((seq, batch.cursor.clone()));
        (stored, Ok(seq))
    }

    fn meets_known_id(&mut self, now: Timestamp, batch: &Batch) -> bool {
        let fires: Vec<FireId> = batch.events.iter().filter_map(|p| fire_id(&p.event)).collect();
        if self.poison && !fires.is_empty() {
            self.poison = false;
            self.poisoned.extend(&fires);
        }
        if fires.iter().any(|id| self.poisoned.contains(id)) {
            return true;
        }
        let window = self.window;
        fires.iter().any(|id| self.ids.get(id).is_some_and(|at| now.since(*at) < window))
    }

    fn push(
        &mut self,
        now: Timestamp,
        event: LogEvent,
        digest: u64,
        terms: Terms,
    ) -> Arc<LogMessage> {
        let envelope = envelope(&Prefix::default(), &event, now);
        if envelope.rollup {
            let same = |entry: &&mut Entry| entry.message.subject == envelope.subject;
            self.entries.iter_mut().filter(same).for_each(|entry| entry.rolled_up = true);
        }
        if let (true, Some(id)) = (terms.ids, fire_id(&event)) {
            assert_eq!(envelope.message_id, Some(id.to_string()), "the id of a fire");
            self.ids.insert(id, now);
        }
        let keep = match (envelope.keep, terms.short_lived) {
            (Keep::Never, _) => None,
            (Keep::For(_), true) => Some(lifetime(Duration::ZERO)),
            (Keep::For(keep), false) => Some(lifetime(keep)),
        };
        let message = Arc::new(LogMessage {
            seq: self.head() + 1,
            at: now,
            subject: envelope.subject,
            event,
            expires: keep.map(|keep| now.plus(keep)),
        });
        self.digest = mix(self.digest, digest ^ now.as_millis().unsigned_abs());
        let message_kept = Arc::clone(&message);
        self.entries.push(Entry { message: message_kept, rolled_up: false, came_back: false });
        message
    }
}

/// `Nats-TTL`: whole seconds, rounded up, at least one.
fn lifetime(keep: Duration) -> Duration {
    let millis = u64::try_from(keep.as_millis()).expect("a lifetime of the simulation");
    Duration::from_secs(millis.div_ceil(1_000).max(1))
}

fn is_visible(entry: &Entry, now: Timestamp) -> bool {
    let expired = entry.message.expires.is_some_and(|expires| expires <= now);
    entry.came_back || !(entry.rolled_up || expired)
}

fn fire_id(event: &LogEvent) -> Option<FireId> {
    if let LogEvent::Fired(fired) = event { Some(fired.id()) } else { None }
}

/// A message of CRON_RUNS.
#[derive(Debug)]
pub(crate) struct RunMessage {
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
    pub(crate) key: RunKey,
    pub(crate) event: RunEvent,
    expires: Timestamp,
}

/// An append to CRON_RUNS on its way.
#[derive(Debug, Clone)]
pub(crate) struct RunItem {
    pub(crate) key: RunKey,
    pub(crate) event: Arc<RunEvent>,
    /// The expected last sequence of the subject; absent only where a rule is taken away.
    pub(crate) expected: Option<u64>,
    pub(crate) keep: Duration,
}

/// CRON_RUNS.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runs {
    messages: Vec<Arc<RunMessage>>,
    by_shard: BTreeMap<ShardId, Vec<u64>>,
    /// Stands for the whole content in a state's key.
    pub(crate) digest: u64,
}

impl Runs {
    pub(crate) fn head(&self) -> u64 {
        self.messages.len() as u64
    }

    pub(crate) fn visible(
        &self,
        after: u64,
        now: Timestamp,
    ) -> impl Iterator<Item = &Arc<RunMessage>> {
        let after = usize::try_from(after).expect("an index");
        self.messages[after..].iter().filter(move |message| message.expires > now)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<RunMessage>> {
        self.messages.iter()
    }

    /// The last visible message of every subject, in the order of the stream.
    pub(crate) fn last_per_subject(&self, now: Timestamp) -> Vec<&Arc<RunMessage>> {
        let mut last: Vec<_> =
            self.by_shard.keys().filter_map(|shard| self.last(*shard, 0, now)).collect();
        last.sort_by_key(|message| message.seq);
        last
    }

    /// The last message of a shard's subject but `stale` of them.
    pub(crate) fn last(
        &self,
        shard: ShardId,
        stale: usize,
        now: Timestamp,
    ) -> Option<&Arc<RunMessage>> {
        let seqs = self.by_shard.get(&shard)?;
        let seq = seqs.get(seqs.len().checked_sub(stale + 1)?)?;
        let message = &self.messages[usize::try_from(*seq).expect("an index") - 1];
        (message.expires > now).then_some(message)
    }

    /// Stores all items or none.
    pub(crate) fn store(
        &mut self,
        now: Timestamp,
        items: &[RunItem],
    ) -> Result<Vec<Arc<RunMessage>>, Refused> {
        let last = |item: &RunItem| self.last(item.key.shard, 0, now).map_or(0, |last| last.seq);
        if items.iter().any(|item| item.expected.is_some_and(|expected| expected != last(item))) {
            return Err(Refused::WrongLast);
        }
        let mut stored = Vec::with_capacity(items.len());
        for item in items {
            let seq = self.head() + 1;
            let keep = lifetime(item.keep);
            let message = Arc::new(RunMessage {
                seq,
                at: now,
                key: item.key.clone(),
                event: RunEvent::clone(&item.event),
                expires: now.plus(keep),
            });
            self.digest = mix(self.digest, xxh3_64(&message.event.encode()));
            self.digest = mix(self.digest, now.as_millis().unsigned_abs());
            self.by_shard.entry(item.key.shard).or_default().push(seq);
            self.messages.push(Arc::clone(&message));
            stored.push(message);
        }
        Ok(stored)
    }
}
