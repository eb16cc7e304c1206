//! Lease keys: plain writes with an expectation, on a bucket whose age limit is the lease's life.
//!
//! Invariant: no write carries a TTL of its own. A per-key TTL would be lost by the first renewal
//! and make the key immortal; the bucket's age limit holds for every value. Reads come from the
//! stream's leader.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use serde_json::json;
use tokio::sync::mpsc;

use crate::connect::Bus;
use crate::error::Error;
use crate::message::{self, StoredMessage};
use crate::publish::Outcome;
use crate::session::{self, Begin, Session, Step};
use crate::topology::Change;
use crate::{ring, settings};

/// Keys of a bucket that are listed, at most.
pub const LEASES_MAX: usize = 4096;
/// Keys read at the same time.
const READS_AT_ONCE: usize = 16;
/// Events that wait for a slow watcher.
const WATCH_QUEUE: usize = 256;
/// How long a lost watch waits before it begins again.
const WATCH_PAUSE: Duration = Duration::from_millis(250);

/// What became of a write to a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// It stands.
    Won {
        /// Its revision, to be expected by the next write.
        revision: u64,
    },
    /// Somebody else's value stands there, or the key is gone.
    Lost,
    /// No answer, or the connection broke: read the key.
    Unknown,
    /// Not written, because the server could not just then; also when the bucket is gone.
    Retry {
        /// 503, 10008 or the like.
        code: u64,
    },
    /// The user may not write leases.
    Denied {
        /// The subject.
        subject: String,
    },
    /// The server could not store it for a reason that will not pass by itself.
    Failed {
        /// JetStream's error code.
        code: u64,
        /// Its text.
        description: String,
    },
}

impl std::convert::From<Outcome> for LeaseAnswer {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Stored { seq } => Self::Won { revision: seq },
            Outcome::Refused { .. } => Self::Lost,
            Outcome::Retry { code } => Self::Retry { code },
            Outcome::Unknown => Self::Unknown,
            Outcome::Denied { subject } => Self::Denied { subject },
            Outcome::Failed { code, description } => Self::Failed { code, description },
        }
    }
}

/// A lease as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: Bytes,
    /// Its revision.
    pub revision: u64,
    /// How long ago it was written, by the leader's clock.
    pub age: Duration,
}

/// What happens to the leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseEvent {
    /// A view built so far may miss something: begin with an empty one. The first event of every
    /// watch.
    Restarted,
    /// A key has a value.
    Put {
        /// The key.
        key: String,
        /// The value.
        value: Bytes,
        /// The revision.
        revision: u64,
    },
    /// A key was deleted or has expired.
    Gone {
        /// The key.
        key: String,
        /// The revision of the marker.
        revision: u64,
        /// Whether it was not renewed, rather than deleted.
        expired: bool,
    },
    /// All values that stood at the last `Restarted` have been told.
    Synced,
}

/// A watched bucket. Dropping it ends the watch.
#[derive(Debug)]
pub struct LeaseWatch {
    events: mpsc::Receiver<LeaseEvent>,
}

impl LeaseWatch {
    /// The next event; `None` only when the runtime ends. May be dropped and called again without
    /// loss.
    pub async fn next(&mut self) -> Option<LeaseEvent> {
        self.events.recv().await
    }
}

impl Bus {
    /// Takes a lease that nobody holds.
    ///
    /// # Errors
    /// When it cannot be sent at all.
    pub async fn lease_create(&self, key: &str, value: Bytes) -> Result<LeaseAnswer, Error> {
        let first = self.lease_write(key, value.clone(), 0, None).await?;
        if first != LeaseAnswer::Lost {
            return Ok(first);
        }
        // The sequence of a marker stands in the way: what expired or was deleted is free.
        let stream = &self.names().leases_stream;
        match self.last_from_leader(stream, &self.names().lease_subject(key)).await {
            Ok(Some(found)) if is_marker(&found) => {
                self.lease_write(key, value, found.seq, None).await
            }
            Ok(Some(_)) => Ok(LeaseAnswer::Lost),
            Ok(None) => self.lease_write(key, value, 0, None).await,
            // Nothing was written.
            Err(Error::Unavailable { .. } | Error::TimedOut { .. }) => Ok(LeaseAnswer::Lost),
            Err(error) => Err(error),
        }
    }

    /// Renews or changes a lease that stands at the given revision.
    ///
    /// # Errors
    /// When it cannot be sent at all.
    pub async fn lease_update(
        &self,
        key: &str,
        value: Bytes,
        revision: u64,
    ) -> Result<LeaseAnswer, Error> {
        self.lease_write(key, value, revision, None).await
    }

    /// Gives up a lease that stands at the given revision.
    ///
    /// # Errors
    /// When it cannot be sent at all.
    pub async fn lease_delete(&self, key: &str, revision: u64) -> Result<LeaseAnswer, Error> {
        self.lease_write(key, Bytes::new(), revision, Some("DEL")).await
    }

    async fn lease_write(
        &self,
        key: &str,
        value: Bytes,
        expected: u64,
        operation: Option<&str>,
    ) -> Result<LeaseAnswer, Error> {
        let mut headers = async_nats::HeaderMap::new();
        message::insert(&mut headers, message::EXPECTED_SUBJECT_SEQ, expected.to_string())?;
        if let Some(operation) = operation {
            message::insert(&mut headers, message::KV_OPERATION, operation)?;
        }
        let subject = self.names().lease_subject(key);
        Ok(self.store(&subject, headers, value).await?.into())
    }

    /// One lease, from the stream's leader.
    ///
    /// # Errors
    /// When the bucket is not there or does not answer.
    pub async fn lease_get(&self, key: &str) -> Result<Option<Lease>, Error> {
        let names = self.names();
        let found = self.last_from_leader(&names.leases_stream, &names.lease_subject(key)).await?;
        let Some(found) = found.filter(|found| !is_marker(found)) else { return Ok(None) };
        let now = self.stream_state(&names.leases_stream).await?.now.timestamp_millis();
        Ok(Some(lease(key, found, now)))
    }

    /// Every lease, from the stream's leader.
    ///
    /// # Errors
    /// When the bucket is not there or does not answer.
    pub async fn leases(&self) -> Result<Vec<Lease>, Error> {
        #[derive(serde::Deserialize)]
        struct Info {
            state: State,
        }
        #[derive(serde::Deserialize)]
        struct State {
            #[serde(default)]
            subjects: std::collections::BTreeMap<String, u64>,
        }
        let names = self.names();
        let what = format!("STREAM.INFO.{}", names.leases_stream);
        let info: Info = self.api(&what, &json!({ "subjects_filter": ">" })).await?;
        let now = self.stream_state(&names.leases_stream).await?.now.timestamp_millis();
        let keys = info.state.subjects.into_keys().take(LEASES_MAX);
        let reads = futures::stream::iter(keys).map(|subject| async move {
            let found = self.last_from_leader(&names.leases_stream, &subject).await?;
            let found = found.filter(|found| !is_marker(found));
            let key = names.lease_key(&subject);
            Ok::<_, Error>(found.zip(key).map(|(found, key)| lease(key, found, now)))
        });
        let found: Vec<Option<Lease>> = reads.buffered(READS_AT_ONCE).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Makes the bucket again if it is gone; one that is there is left as it is.
    ///
    /// # Errors
    /// When the server refuses or does not answer.
    pub async fn ensure_leases(&self, replicas: u8, ttl: Duration) -> Result<Change, Error> {
        let wanted = settings::leases(self.names(), replicas, ttl)?;
        match self.stream_info(&wanted.name).await {
            Ok(_) => Ok(Change::Unchanged),
            Err(Error::NotInitialised { .. }) => self.ensure_stream(&wanted).await,
            Err(error) => Err(error),
        }
    }

    /// Watches the leases: those that stand, then what happens to them, for as long as the handle
    /// lives.
    #[must_use]
    pub fn watch_leases(&self) -> LeaseWatch {
        let (tx, events) = mpsc::channel(WATCH_QUEUE);
        tokio::spawn(watch(self.clone(), tx));
        LeaseWatch { events }
    }
}

fn is_marker(message: &StoredMessage) -> bool {
    message.header(message::KV_OPERATION).is_some()
        || message.header(message::MARKER_REASON).is_some()
}

fn lease(key: &str, found: StoredMessage, now_ms: i64) -> Lease {
    let age = u64::try_from(now_ms - found.timestamp_ms).unwrap_or(0);
    Lease {
        key: key.to_owned(),
        value: found.payload,
        revision: found.seq,
        age: Duration::from_millis(age),
    }
}

/// Markers live for a second, so after a loss the values are told anew rather than what was missed.
async fn watch(bus: Bus, tx: mpsc::Sender<LeaseEvent>) {
    loop {
        let mut consumer = None;
        let reason = tokio::select! {
            reason = watch_once(&bus, &tx, &mut consumer) => reason,
            () = tx.closed() => None,
        };
        if let Some(name) = consumer {
            session::delete(&bus, &bus.names().leases_stream, &name).await;
        }
        let Some(reason) = reason else { return };
        tracing::debug!(reason, "lease watch lost");
        let mut connects = bus.connects();
        connects.mark_unchanged();
        tokio::select! {
            () = tokio::time::sleep(ring::jitter(WATCH_PAUSE)) => {}
            _ = connects.changed() => {}
            () = tx.closed() => return,
        }
    }
}

/// One consumer's life; gives why it ended, or nothing when the watcher is gone.
async fn watch_once(
    bus: &Bus,
    tx: &mpsc::Sender<LeaseEvent>,
    consumer: &mut Option<String>,
) -> Option<String> {
    let stream = &bus.names().leases_stream;
    let mut session = match Session::start(bus, stream, None, Begin::LastPerSubject).await {
        Ok(session) => session,
        Err(error) => return Some(error.to_string()),
    };
    *consumer = Some(session.name().to_owned());
    tx.send(LeaseEvent::Restarted).await.ok()?;
    let mut synced = session.pending_at_start == 0;
    if synced {
        tx.send(LeaseEvent::Synced).await.ok()?;
    }
    loop {
        match session.next().await {
            Step::Message { message, pending } => {
                if let Some(event) = lease_event(bus, message) {
                    tx.send(event).await.ok()?;
                }
                if !synced && pending == 0 {
                    synced = true;
                    tx.send(LeaseEvent::Synced).await.ok()?;
                }
            }
            Step::Idle if synced => {}
            Step::Idle => {
                synced = true;
                tx.send(LeaseEvent::Synced).await.ok()?;
            }
            Step::Lost(reason) => return Some(reason),
        }
    }
}

fn lease_event(bus: &Bus, message: StoredMessage) -> Option<LeaseEvent> {
    let key = bus.names().lease_key(&message.subject)?.to_owned();
    let revision = message.seq;
    Some(if is_marker(&message) {
        let expired = message.header(message::MARKER_REASON).is_some();
        LeaseEvent::Gone { key, revision, expired }
    } else {
        LeaseEvent::Put { key, value: message.payload, revision }
    })
}
