//! JetStream as its JSON API is documented: store a message, ask for a stream, follow a stream.
//!
//! Invariant: [`Follow`] yields a stream's messages in order and without a gap that the stream itself does not
//! have, or an error.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cronstream_schemas::time::Timestamp;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::nats::{Headers, Message, Nats, Subscription};

/// How long one question to JetStream may take.
pub const ASK_MAX: Duration = Duration::from_secs(5);
/// How often a consumer says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// The silence after which a consumer counts as lost.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// What came of a message that was to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreAnswer {
    /// It is stored under this sequence.
    At(u64),
    /// Its id was known; the sequence of the first one.
    Duplicate(u64),
    /// JetStream refused it.
    Refused {
        /// JetStream's error code.
        code: u64,
        /// JetStream's words.
        description: String,
    },
}

/// The ends of a stream as its leader reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// Sequence of the first message.
    pub first: u64,
    /// Sequence of the last message ever stored.
    pub last: u64,
}

/// A message of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its sequence.
    pub sequence: u64,
    /// When the broker stored it.
    pub at: Timestamp,
    /// The message.
    pub message: Message,
}

/// A stream's messages, read one after the other.
#[derive(Debug)]
pub struct Follow {
    messages: Subscription,
    delivered: u64,
    /// On which the server is told that what it sent has been read.
    nats: Nats,
}

impl Nats {
    /// Stores a message and waits for the stream's answer.
    ///
    /// # Errors
    /// When there is no answer: unknown whether it is stored.
    pub async fn store(
        &self,
        subject: &str,
        headers: &Headers,
        body: &[u8],
    ) -> Result<StoreAnswer> {
        let answer = self.request(subject, headers, body, ASK_MAX).await?;
        let answer: Value = serde_json::from_slice(&answer.body)
            .with_context(|| format!("the answer to a message on {subject}"))?;
        if let Some(error) = answer.get("error") {
            let code = error["err_code"].as_u64().unwrap_or(0);
            let description = error["description"].as_str().unwrap_or("").to_owned();
            return Ok(StoreAnswer::Refused { code, description });
        }
        let sequence = answer["seq"].as_u64().context("an answer without a sequence")?;
        let duplicate = answer["duplicate"].as_bool().unwrap_or(false);
        Ok(if duplicate { StoreAnswer::Duplicate(sequence) } else { StoreAnswer::At(sequence) })
    }

    /// Asks JetStream's API; its error is an error.
    ///
    /// # Errors
    /// JetStream's words, or no answer.
    pub async fn ask(&self, api: &str, question: &Value) -> Result<Value> {
        let body = if question.is_null() { Vec::new() } else { serde_json::to_vec(question)? };
        let subject = format!("$JS.API.{api}");
        let answer = self.request(&subject, &Vec::new(), &body, ASK_MAX).await?;
        let answer: Value = serde_json::from_slice(&answer.body)?;
        match answer.get("error") {
            Some(error) => bail!("{subject}: {error}"),
            None => Ok(answer),
        }
    }

    /// The ends of a stream.
    ///
    /// # Errors
    /// JetStream's words, or no answer.
    pub async fn ends(&self, stream: &str) -> Result<Ends> {
        let info = self.ask(&format!("STREAM.INFO.{stream}"), &Value::Null).await?;
        let end = |name: &str| info["state"][name].as_u64().context("a stream without state");
        Ok(Ends { first: end("first_seq")?, last: end("last_seq")? })
    }

    /// Follows a stream from a sequence on, for ever.
    ///
    /// # Errors
    /// When the consumer cannot be made.
    pub async fn follow(&self, stream: &str, from: u64) -> Result<Follow> {
        let inbox = self.new_inbox();
        let messages = self.subscribe(&inbox).await?;
        let name = format!("tests-{}", uuid::Uuid::new_v4().simple());
        let config = json!({
            "name": name,
            "deliver_subject": inbox,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": from.max(1),
            "ack_policy": "none",
            "max_deliver": 1,
            "replay_policy": "instant",
            "mem_storage": true,
            "num_replicas": 1,
            "inactive_threshold": 30_000_000_000_u64,
            "idle_heartbeat": u64::try_from(HEARTBEAT.as_nanos())?,
            // Without it, the server ends a connection that has 64 MiB to read.
            "flow_control": true,
        });
        let question = json!({ "stream_name": stream, "action": "create", "config": config });
        self.ask(&format!("CONSUMER.CREATE.{stream}.{name}"), &question).await?;
        Ok(Follow { messages, delivered: 0, nats: self.clone() })
    }
}

impl Follow {
    /// The next message.
    ///
    /// # Errors
    /// When the consumer or the connection is gone, or a delivery was lost on the way.
    pub async fn next(&mut self) -> Result<Entry> {
        loop {
            if let Some(entry) = self.next_or_idle().await? {
                return Ok(entry);
            }
        }
    }

    /// The next message, or `None` when the consumer says that it has sent all there is.
    ///
    /// # Errors
    /// As [`Follow::next`].
    pub async fn next_or_idle(&mut self) -> Result<Option<Entry>> {
        let message = loop {
            let message = timeout(SILENCE_MAX, self.messages.next()).await;
            let message = message.context("the consumer is silent")??;
            let stalled = message.header("Nats-Consumer-Stalled").map(str::to_owned);
            match message.reply.clone().or(stalled).filter(|_| message.status == Some(100)) {
                Some(subject) => self.nats.publish(&subject, &Headers::new(), b"").await?,
                None => break message,
            }
        };
        match message.status {
            Some(100) => {
                let sent = message.header("Nats-Last-Consumer").context("no heartbeat")?;
                ensure!(sent.parse() == Ok(self.delivered), "{sent} deliveries were sent");
                Ok(None)
            }
            Some(status) => bail!("the consumer ended with status {status}"),
            None => {
                let (delivered, entry) = entry(message)?;
                ensure!(delivered == self.delivered + 1, "delivery {delivered} is out of turn");
                self.delivered = delivered;
                Ok(Some(entry))
            }
        }
    }
}

/// Reads `$JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.<delivery>.<nanoseconds>.<pending>`.
fn entry(message: Message) -> Result<(u64, Entry)> {
    let reply = message.reply.as_deref().unwrap_or_default();
    let tokens: Vec<&str> = reply.split('.').collect();
    let [.., sequence, delivered, nanos, _] = tokens[..] else {
        bail!("{reply:?} is no place in a stream");
    };
    let (sequence, delivered) = (sequence.parse()?, delivered.parse()?);
    let at = Timestamp::from_millis(nanos.parse::<i64>()? / 1_000_000);
    Ok((delivered, Entry { sequence, at, message }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_subject_tells_sequence_and_time() {
        let reply = "$JS.ACK.CRON_LOG.c.1.17.4.1800000000123456789.2";
        let message = Message {
            subject: "s".into(),
            reply: Some(reply.into()),
            status: None,
            headers: Vec::new(),
            body: Vec::new(),
        };
        let (delivered, entry) = entry(message).unwrap();
        let expected = (4, 17, Timestamp::from_millis(1_800_000_000_123));
        assert_eq!((delivered, entry.sequence, entry.at), expected);
    }
}
