//! JetStream by the client library alone, with nothing of ours in between: the measure that `cronstream bench`
//! holds the product against.
//!
//! ```text
//!   stored message ─► again ─► the same headers and bytes under another subject
//!                                 ├─ batch       one atomic batch, one answer
//!                                 └─ publish_all plain messages, a window of unanswered ones
//! ```
//!
//! Invariant: nothing here overcomes trouble: the first answer that is not "stored" is an error. It serves
//! measurements on servers made for them, and nothing else.

mod message;
mod read;

use std::time::Duration;

use async_nats::{Client, Request, Subscriber};
use bytes::Bytes;
use futures::StreamExt;
use serde_json::Value;

pub use message::{RawMessage, RawStored};
pub use read::RawPull;

use crate::error::Error;
use crate::message::{BATCH_COMMIT, BATCH_ID, BATCH_SEQ};
use crate::publish::PubAck;

/// How long an answer may take: a measurement with a pause as long as this is none.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// A connection of its own.
#[derive(Debug, Clone)]
pub struct Raw {
    client: Client,
}

impl Raw {
    /// Connects to one server.
    ///
    /// # Errors
    /// When it does not accept.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let options = async_nats::ConnectOptions::new().name("cronstream-bench-raw");
        let connected = options.connect(url).await;
        let client =
            connected.map_err(|source| Error::Connect { servers: url.to_owned(), source })?;
        Ok(Self { client })
    }

    /// Makes a stream with the settings of another one, on subjects that begin with `prefix`.
    ///
    /// # Errors
    /// When the other one is not there or the server refuses.
    pub async fn twin(&self, of: &str, name: &str, prefix: &str) -> Result<(), Error> {
        let mut found = self.api(&format!("STREAM.INFO.{of}"), &Value::Null).await?;
        let mut config = found["config"].take();
        let subjects = config["subjects"].as_array().cloned().unwrap_or_default();
        let moved =
            subjects.iter().filter_map(Value::as_str).map(|one| message::moved(one, prefix));
        config["subjects"] = moved.collect();
        config["name"] = Value::from(name);
        self.api(&format!("STREAM.CREATE.{name}"), &config).await.map(drop)
    }

    /// Asks JetStream's API.
    async fn api(&self, what: &str, body: &Value) -> Result<Value, Error> {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let answer = self.ask(format!("$JS.API.{what}"), Request::new().payload(body)).await?;
        let answer: Value = serde_json::from_slice(&answer)
            .map_err(|source| Error::Decode { what: what.to_owned(), source: Box::new(source) })?;
        match answer.get("error") {
            Some(error) => Err(Error::Refused {
                what: what.to_owned(),
                code: error["err_code"].as_u64().unwrap_or_default(),
                description: error["description"].as_str().unwrap_or_default().to_owned(),
            }),
            None => Ok(answer),
        }
    }

    async fn ask(&self, subject: String, request: Request) -> Result<Bytes, Error> {
        let what = subject.clone();
        let request = request.timeout(Some(ANSWER_WITHIN));
        match self.client.send_request(subject, request).await {
            Ok(answer) => Ok(answer.payload),
            Err(_) => Err(Error::TimedOut { what }),
        }
    }

    /// Stores one message; gives its sequence.
    ///
    /// # Errors
    /// When it is not stored.
    pub async fn publish(&self, message: RawMessage) -> Result<u64, Error> {
        let RawMessage { subject, headers, payload } = message;
        let what = subject.clone();
        let request = Request::new().headers(headers).payload(payload);
        stored(&what, &self.ask(subject, request).await?)
    }

    /// Stores messages in one atomic batch; gives the last one's sequence.
    ///
    /// # Errors
    /// When it is not stored.
    pub async fn batch(&self, messages: Vec<RawMessage>) -> Result<u64, Error> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let count = messages.len();
        for (index, mut message) in (1..).zip(messages) {
            message.headers.insert(BATCH_ID, id.as_str());
            message.headers.insert(BATCH_SEQ, index.to_string().as_str());
            if index == count {
                message.headers.insert(BATCH_COMMIT, "1");
                return self.publish(message).await;
            }
            self.send(message, None).await?;
        }
        Ok(0)
    }

    /// Stores messages one by one with at most `window` of them unanswered; gives the highest sequence.
    ///
    /// # Errors
    /// When one of them is not stored.
    pub async fn publish_all(
        &self,
        messages: Vec<RawMessage>,
        window: usize,
    ) -> Result<u64, Error> {
        let inbox = self.client.new_inbox();
        let mut answers = self.subscribe(&inbox).await?;
        let (mut open, mut last) = (0, 0);
        for message in messages {
            while open >= window {
                last = next_stored(&mut answers).await?.max(last);
                open -= 1;
            }
            self.send(message, Some(&inbox)).await?;
            open += 1;
        }
        for _ in 0..open {
            last = next_stored(&mut answers).await?.max(last);
        }
        Ok(last)
    }

    async fn send(&self, message: RawMessage, reply: Option<&str>) -> Result<(), Error> {
        let RawMessage { subject, headers, payload } = message;
        let what = subject.clone();
        let sent = match reply {
            Some(reply) => {
                let reply = reply.to_owned();
                self.client.publish_with_reply_and_headers(subject, reply, headers, payload).await
            }
            None => self.client.publish_with_headers(subject, headers, payload).await,
        };
        sent.map_err(|_| Error::Unavailable { what })
    }

    async fn subscribe(&self, subject: &str) -> Result<Subscriber, Error> {
        let what = subject.to_owned();
        self.client.subscribe(what.clone()).await.map_err(|_| Error::Unavailable { what })
    }
}

async fn next_stored(answers: &mut Subscriber) -> Result<u64, Error> {
    let what = "a window of messages";
    match tokio::time::timeout(ANSWER_WITHIN, answers.next()).await {
        Ok(Some(answer)) => stored(what, &answer.payload),
        Ok(None) | Err(_) => Err(Error::TimedOut { what: what.to_owned() }),
    }
}

fn stored(what: &str, answer: &[u8]) -> Result<u64, Error> {
    let what = what.to_owned();
    match serde_json::from_slice::<PubAck>(answer) {
        Ok(PubAck { error: None, duplicate: false, seq }) => Ok(seq),
        Ok(PubAck { error: None, seq, .. }) => Err(Error::Refused {
            what,
            code: 0,
            description: format!("a message with this id is stored at {seq}"),
        }),
        Ok(PubAck { error: Some(error), .. }) => {
            Err(Error::Refused { what, code: error.err_code, description: error.description })
        }
        Err(source) => Err(Error::Decode { what, source: Box::new(source) }),
    }
}
