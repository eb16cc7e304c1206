//! One short-lived consumer and what it delivers, until anything is odd about it.
//!
//! ```text
//!   create ─► pull ─► message … message ─► pull ─► …
//!      ▲                                any doubt │
//!      └── the owner, behind the last message ◄── Lost
//! ```
//!
//! Doubt is: a missing heartbeat, a gap in the consumer's own numbers, a new connection, or any
//! status that is not the end of a pull. Pulls follow each other, one at a time, so what is on its
//! way is bounded. The client's own batch reader loses its wake-up at an idle heartbeat, so pulls
//! are read here.

use std::time::Duration;

use async_nats::{Message, Subscriber};
use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use serde_json::json;
use tokio::sync::watch;

use crate::connect::Bus;
use crate::error::Error;
use crate::message::StoredMessage;
use crate::settings::nanos;

/// Messages asked for at a time.
pub(crate) const PULL_MESSAGES: u64 = 500;
/// Bytes asked for at a time.
const PULL_BYTES: u64 = 8 * 1024 * 1024;
/// How long a pull waits for messages.
const PULL_EXPIRES: Duration = Duration::from_secs(10);
/// How often the server says that it is there while it has nothing to deliver.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// So long without message or heartbeat is the end of a session.
const SILENCE_MAX: Duration = Duration::from_millis(2500);
/// How long the server keeps a consumer that nobody asks.
const INACTIVE_MAX: Duration = Duration::from_secs(30);
/// How long the removal of a consumer may take; the server does it itself later.
const DELETE_TIMEOUT: Duration = Duration::from_secs(1);

/// Where a consumer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// At the oldest message.
    Oldest,
    /// With the last message of each subject, then with all that follow.
    LastPerSubject,
    /// At a sequence.
    At(u64),
}

/// What a session gives.
#[derive(Debug)]
pub(crate) enum Step {
    /// A message, and how many more match behind it as far as the answering replica knows.
    Message { message: StoredMessage, pending: u64 },
    /// A pull ended with nothing more to deliver.
    Idle,
    /// The consumer is of no more use.
    Lost(String),
}

/// A consumer of this process.
#[derive(Debug)]
pub(crate) struct Session {
    bus: Bus,
    stream: String,
    name: String,
    inbox: String,
    subscriber: Subscriber,
    connects: watch::Receiver<u64>,
    /// The consumer's number of the next message.
    expected: u64,
    /// Messages the current pull may still bring.
    outstanding: u64,
    pull: u64,
    /// How many messages matched when the consumer was made.
    pub(crate) pending_at_start: u64,
}

/// What the reply subject of a delivered message tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) delivered: u64,
    pub(crate) stream_seq: u64,
    pub(crate) consumer_seq: u64,
    pub(crate) timestamp_ms: i64,
    pub(crate) pending: u64,
}

impl Place {
    /// Reads `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer
    /// seq>.<nanos>.<pending>`, or its newer form with domain and account before the stream.
    pub(crate) fn parse(reply: &str) -> Option<Self> {
        let rest = reply.strip_prefix("$JS.ACK.")?;
        let tokens: Vec<&str> = rest.split('.').collect();
        let numbers = match tokens.len() {
            7 => tokens.get(2..7)?,
            n if n >= 9 => tokens.get(4..9)?,
            _ => return None,
        };
        let number = |index: usize| numbers.get(index)?.parse::<u64>().ok();
        Some(Self {
            delivered: number(0)?,
            stream_seq: number(1)?,
            consumer_seq: number(2)?,
            timestamp_ms: i64::try_from(number(3)? / 1_000_000).ok()?,
            pending: number(4)?,
        })
    }
}

/// A delivered message as a stored one.
pub(crate) fn stored(message: Message, place: Place) -> StoredMessage {
    StoredMessage {
        seq: place.stream_seq,
        timestamp_ms: place.timestamp_ms,
        subject: message.subject.to_string(),
        payload: message.payload,
        headers: message.headers.unwrap_or_default(),
    }
}

#[derive(serde::Deserialize)]
struct ConsumerInfo {
    #[serde(default)]
    num_pending: u64,
}

impl Session {
    /// Makes a consumer that lives as long as it is asked, and listens to it.
    pub(crate) async fn start(
        bus: &Bus,
        stream: &str,
        filter: Option<&str>,
        begin: Begin,
    ) -> Result<Self, Error> {
        let mut connects = bus.connects();
        connects.mark_unchanged();
        let inbox = bus.inner.client.new_inbox();
        let subscriber = bus
            .inner
            .client
            .subscribe(format!("{inbox}.*"))
            .await
            .map_err(|_| Error::Unavailable { what: inbox.clone() })?;
        let name = format!("follow-{}", uuid::Uuid::new_v4().simple());
        let created = create(bus, stream, &name, filter, begin).await?;
        Ok(Self {
            bus: bus.clone(),
            stream: stream.to_owned(),
            name,
            inbox,
            subscriber,
            connects,
            expected: 1,
            outstanding: 0,
            pull: 0,
            pending_at_start: created.num_pending,
        })
    }

    /// The consumer's name, for its removal.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The next thing that happens. Not to be called again after `Lost`.
    pub(crate) async fn next(&mut self) -> Step {
        loop {
            if self.outstanding == 0
                && let Err(reason) = self.ask().await
            {
                return Step::Lost(reason);
            }
            let received = tokio::select! {
                biased;
                received = self.subscriber.next() => received,
                _ = self.connects.changed() => return Step::Lost("connected anew".into()),
                () = tokio::time::sleep(SILENCE_MAX) => return Step::Lost("no heartbeat".into()),
            };
            let Some(received) = received else { return Step::Lost("unsubscribed".into()) };
            if let Some(step) = self.read(received) {
                return step;
            }
        }
    }

    /// What is here already, if anything.
    pub(crate) fn next_now(&mut self) -> Option<Step> {
        while self.outstanding > 0 {
            let received = self.subscriber.next().now_or_never()?;
            let Some(received) = received else { return Some(Step::Lost("unsubscribed".into())) };
            if let Some(step) = self.read(received) {
                return Some(step);
            }
        }
        None
    }

    async fn ask(&mut self) -> Result<(), String> {
        self.pull += 1;
        let request = json!({
            "batch": PULL_MESSAGES, "max_bytes": PULL_BYTES,
            "expires": nanos(PULL_EXPIRES), "idle_heartbeat": nanos(HEARTBEAT),
        });
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{}", self.stream, self.name);
        let reply = format!("{}.{}", self.inbox, self.pull);
        let body = Bytes::from(request.to_string());
        if !self.bus.is_connected() {
            return Err("not connected".into());
        }
        let asked = self.bus.inner.client.publish_with_reply(subject, reply, body).await;
        asked.map_err(|error| error.to_string())?;
        self.outstanding = PULL_MESSAGES;
        Ok(())
    }

    fn read(&mut self, received: Message) -> Option<Step> {
        let status = received.status.map_or(200, |status| status.as_u16());
        match status {
            200 => self.read_message(received),
            100 => self.read_heartbeat(&received),
            404 | 408 => self.end_of_pull(&received),
            409 if is_end_of_pull(received.description.as_deref()) => self.end_of_pull(&received),
            other => {
                let text = received.description.unwrap_or_default();
                Some(Step::Lost(format!("status {other} {text}")))
            }
        }
    }

    fn read_message(&mut self, received: Message) -> Option<Step> {
        let Some(place) = received.reply.as_ref().and_then(|reply| Place::parse(reply)) else {
            // Somebody else wrote to this inbox.
            return None;
        };
        if place.consumer_seq != self.expected {
            let gap = format!("message {} came instead of {}", place.consumer_seq, self.expected);
            return Some(Step::Lost(gap));
        }
        self.expected += 1;
        self.outstanding = self.outstanding.saturating_sub(1);
        let pending = place.pending;
        Some(Step::Message { message: stored(received, place), pending })
    }

    /// A heartbeat tells the last number that was delivered: a higher one than ours means a lost
    /// message.
    fn read_heartbeat(&self, received: &Message) -> Option<Step> {
        let last = received.headers.as_ref()?.get("Nats-Last-Consumer")?.as_str();
        let last = last.parse::<u64>().ok()?;
        (last >= self.expected).then(|| Step::Lost(format!("message {} was lost", self.expected)))
    }

    fn end_of_pull(&mut self, received: &Message) -> Option<Step> {
        let current = format!("{}.{}", self.inbox, self.pull);
        if received.subject.as_str() != current {
            return None;
        }
        self.outstanding = 0;
        Some(Step::Idle)
    }
}

/// Conflicts (409) that merely end one pull.
fn is_end_of_pull(description: Option<&str>) -> bool {
    let text = description.unwrap_or_default().to_ascii_lowercase();
    text.contains("message size exceeds maxbytes") || text.contains("batch completed")
}

async fn create(
    bus: &Bus,
    stream: &str,
    name: &str,
    filter: Option<&str>,
    begin: Begin,
) -> Result<ConsumerInfo, Error> {
    let mut config = json!({
        "name": name, "ack_policy": "none", "replay_policy": "instant", "max_deliver": 1,
        "mem_storage": true, "num_replicas": 1, "inactive_threshold": nanos(INACTIVE_MAX),
    });
    let mut what = format!("CONSUMER.CREATE.{stream}.{name}");
    let filter = filter.or((begin == Begin::LastPerSubject).then_some(">"));
    if let Some(filter) = filter {
        config["filter_subject"] = json!(filter);
        what = format!("{what}.{filter}");
    }
    match begin {
        Begin::Oldest => config["deliver_policy"] = json!("all"),
        Begin::LastPerSubject => config["deliver_policy"] = json!("last_per_subject"),
        Begin::At(seq) => {
            config["deliver_policy"] = json!("by_start_sequence");
            config["opt_start_seq"] = json!(seq.max(1));
        }
    }
    bus.api(&what, &json!({ "stream_name": stream, "config": config })).await
}

/// Removes a consumer without insisting: the server removes it itself when nobody asks it.
pub(crate) async fn delete(bus: &Bus, stream: &str, name: &str) {
    let subject = format!("$JS.API.CONSUMER.DELETE.{stream}.{name}");
    let removed = bus.exchange_within(&subject, None, Bytes::new(), DELETE_TIMEOUT).await;
    if let Err(failure) = removed {
        tracing::debug!(stream, name, ?failure, "consumer left to the server to remove");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_reply_subject_are_read() {
        let place = Place {
            delivered: 2,
            stream_seq: 70,
            consumer_seq: 9,
            timestamp_ms: 1_600_000_000_123,
            pending: 4,
        };
        for reply in [
            "$JS.ACK.LOG.c.2.70.9.1600000000123456789.4",
            "$JS.ACK._.hash.LOG.c.2.70.9.1600000000123456789.4",
            "$JS.ACK.hub.hash.LOG.c.2.70.9.1600000000123456789.4.token",
        ] {
            assert_eq!(Place::parse(reply), Some(place), "{reply}");
        }
        for reply in
            ["", "_INBOX.x", "$JS.ACK.LOG.c.2.70.9", "$JS.ACK.LOG.c.x.70.9.1600000000123456789.4"]
        {
            assert_eq!(Place::parse(reply), None, "{reply}");
        }
    }
}
