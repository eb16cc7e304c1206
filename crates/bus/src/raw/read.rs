//! Consuming: a whole stream as fast as it comes, and a queue's durable by pulls.

use std::ops::ControlFlow;
use std::time::Duration;

use async_nats::Subscriber;
use bytes::Bytes;
use futures::StreamExt;
use serde_json::json;

use super::message::RawStored;
use super::{ANSWER_WITHIN, Raw};
use crate::error::Error;
use crate::settings::nanos;

/// Messages that one pull of a reading asks for; two pulls are out.
const READ_MESSAGES: u64 = 5_000;
/// How long a pull waits for messages.
const PULL_EXPIRES: Duration = Duration::from_secs(20);

/// Pulls from one durable, by one inbox.
#[derive(Debug)]
pub struct RawPull {
    raw: Raw,
    subject: String,
    inbox: String,
    deliveries: Subscriber,
}

impl Raw {
    /// Reads a stream from a sequence on and hands each message to `each` until that breaks, or until nothing is left.
    ///
    /// # Errors
    /// When the stream is not there or stops coming.
    pub async fn read(
        &self,
        stream: &str,
        from: u64,
        mut each: impl FnMut(RawStored) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let name = format!("raw-{}", uuid::Uuid::new_v4().simple());
        let config = json!({
            "name": name, "ack_policy": "none", "deliver_policy": "by_start_sequence", "opt_start_seq": from.max(1),
            "mem_storage": true, "num_replicas": 1, "inactive_threshold": nanos(PULL_EXPIRES * 2),
        });
        let body = json!({ "stream_name": stream, "config": config });
        let made = self.api(&format!("CONSUMER.CREATE.{stream}.{name}"), &body).await?;
        if made["num_pending"].as_u64() == Some(0) {
            return Ok(());
        }
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}");
        let mut pull = RawPull::open(self, subject).await?;
        let mut asked = 0;
        let mut got = 0;
        loop {
            while asked < got + 2 * READ_MESSAGES {
                pull.ask(READ_MESSAGES).await?;
                asked += READ_MESSAGES;
            }
            let Some(message) = pull.next().await? else { continue };
            got += 1;
            let pending = message.pending;
            if each(message).is_break() || pending == 0 {
                break;
            }
        }
        self.api(&format!("CONSUMER.DELETE.{stream}.{name}"), &json!({})).await.map(drop)
    }

    /// Makes a durable with explicit acknowledgements, as a queue has one.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn durable(&self, stream: &str, name: &str, filter: &str) -> Result<(), Error> {
        let mut config = crate::settings::executor(name, filter, Duration::from_secs(30));
        config.insert("description".into(), json!("cronstream bench"));
        let body = json!({ "stream_name": stream, "config": config });
        let what = format!("CONSUMER.CREATE.{stream}.{name}.{filter}");
        self.api(&what, &body).await.map(drop)
    }

    /// Pulls from a durable.
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn pull(&self, stream: &str, durable: &str) -> Result<RawPull, Error> {
        RawPull::open(self, format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}")).await
    }

    /// Acknowledges a delivery; it leaves with what is sent next.
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn ack(&self, delivery: &RawStored) -> Result<(), Error> {
        let acked = self.client.publish(delivery.reply.clone(), Bytes::from_static(b"+ACK")).await;
        acked.map_err(|_| Error::Unavailable { what: delivery.reply.to_string() })
    }

    /// Waits until everything sent so far has reached the server.
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn flush(&self) -> Result<(), Error> {
        let flushed = self.client.flush().await;
        flushed.map_err(|_| Error::Unavailable { what: "the connection".into() })
    }
}

impl RawPull {
    async fn open(raw: &Raw, subject: String) -> Result<Self, Error> {
        let inbox = raw.client.new_inbox();
        let deliveries = raw.subscribe(&inbox).await?;
        Ok(Self { raw: raw.clone(), subject, inbox, deliveries })
    }

    async fn ask(&self, messages: u64) -> Result<(), Error> {
        let body = json!({ "batch": messages, "expires": nanos(PULL_EXPIRES) }).to_string();
        let (subject, inbox) = (self.subject.clone(), self.inbox.clone());
        let asked = self.raw.client.publish_with_reply(subject, inbox, body.into()).await;
        asked.map_err(|_| Error::Unavailable { what: self.subject.clone() })
    }

    /// The next message; `None` for the end of a pull.
    async fn next(&mut self) -> Result<Option<RawStored>, Error> {
        let received = tokio::time::timeout(ANSWER_WITHIN, self.deliveries.next()).await;
        let Ok(Some(received)) = received else {
            return Err(Error::TimedOut { what: self.subject.clone() });
        };
        Ok(RawStored::read(received))
    }

    /// Asks for `count` messages and waits for all of them; fewer when the queue has no more.
    ///
    /// # Errors
    /// When they stop coming.
    pub async fn take(&mut self, count: usize) -> Result<Vec<RawStored>, Error> {
        let body = json!({ "batch": count, "no_wait": true }).to_string();
        let (subject, inbox) = (self.subject.clone(), self.inbox.clone());
        let asked = self.raw.client.publish_with_reply(subject, inbox, body.into()).await;
        asked.map_err(|_| Error::Unavailable { what: self.subject.clone() })?;
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            match self.next().await? {
                Some(message) => taken.push(message),
                None => break,
            }
        }
        Ok(taken)
    }
}
