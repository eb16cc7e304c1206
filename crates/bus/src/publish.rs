//! Publishing outside of batches: commands, core requests, verdicts.
//!
//! Invariant: everything that is stored passes through [`Bus::store`], so each answer is read the
//! same way.

use std::time::Duration;

use async_nats::{HeaderMap, Subscriber};
use bytes::Bytes;
use futures::StreamExt;

use crate::connect::{Bus, Kind, REQUEST_TIMEOUT, Sign};
use crate::error::Error;
use crate::exchange::{ApiError, Failure, code};
use crate::message::{self, Headers, StoredMessage};

/// The subjects that verdicts may go to begin with this.
const INBOX_ROOT: &str = "_INBOX";

/// JetStream's answer to a message it was asked to store.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct PubAck {
    #[serde(default)]
    pub(crate) seq: u64,
    #[serde(default)]
    pub(crate) duplicate: bool,
    pub(crate) error: Option<ApiError>,
}

/// What became of a message or batch that was to be stored.
#[derive(Debug)]
pub(crate) enum Outcome {
    Stored { seq: u64 },
    Refused { code: u64, description: String },
    Retry { code: u64 },
    Unknown,
    Denied { subject: String },
    Failed { code: u64, description: String },
}

impl Outcome {
    /// Reads an answer. An error carries `seq: 0`, so it is looked at first.
    pub(crate) fn read(payload: &[u8]) -> Self {
        let Ok(ack) = serde_json::from_slice::<PubAck>(payload) else { return Self::Unknown };
        match ack.error {
            Some(ApiError { code: status, err_code, description }) => match err_code {
                code::WRONG_LAST_SEQ | code::WRONG_LAST_SEQ_IN_FLIGHT | code::BATCH_DUPLICATE => {
                    Self::Refused { code: err_code, description }
                }
                code::NOT_AVAILABLE
                | code::NOT_LEADER
                | code::DUPLICATE_IN_PROCESS
                | code::LAST_SEQ_NOT_READY
                | code::TOO_MANY_REQUESTS
                | code::BATCH_INCOMPLETE
                | code::BATCHES_IN_FLIGHT => Self::Retry { code: err_code },
                0 => Self::Failed { code: status, description },
                other => Self::Failed { code: other, description },
            },
            None if ack.duplicate => Self::Refused {
                code: code::BATCH_DUPLICATE,
                description: format!("a message with this id is stored at {}", ack.seq),
            },
            None => Self::Stored { seq: ack.seq },
        }
    }

    /// What it tells of the broker's health.
    pub(crate) const fn sign(&self) -> Option<Sign> {
        match self {
            Self::Retry { code: code::NO_RESPONDERS | code::NOT_AVAILABLE | code::NOT_LEADER } => {
                Some(Sign::Unavailable)
            }
            Self::Unknown => None,
            Self::Refused { code: code::WRONG_LAST_SEQ_IN_FLIGHT, .. }
            | Self::Retry { code: code::DUPLICATE_IN_PROCESS } => Some(Sign::InFlight),
            Self::Stored { .. } => Some(Sign::Answered(Kind::Write)),
            Self::Refused { .. }
            | Self::Retry { .. }
            | Self::Denied { .. }
            | Self::Failed { .. } => Some(Sign::Answered(Kind::Read)),
        }
    }

    pub(crate) fn from_failure(failure: Failure) -> Result<Self, Error> {
        match failure {
            Failure::Offline | Failure::NoResponders => {
                Ok(Self::Retry { code: code::NO_RESPONDERS })
            }
            Failure::Denied { subject } => Ok(Self::Denied { subject }),
            Failure::TimedOut | Failure::Broken => Ok(Self::Unknown),
            Failure::Invalid(error) => Err(error),
        }
    }
}

impl Bus {
    /// Stores one message and reads the answer.
    pub(crate) async fn store(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<Outcome, Error> {
        self.check_size(subject, payload.len())?;
        match self.exchange(subject, Some(headers), payload).await {
            Ok(answer) => Ok(Outcome::read(&answer.payload)),
            Err(failure) => Outcome::from_failure(failure),
        }
    }

    /// A message larger than the server takes would end the connection.
    pub(crate) fn check_size(&self, subject: &str, size: usize) -> Result<(), Error> {
        let limit = self.max_payload();
        if size > limit {
            return Err(Error::TooLarge { what: subject.to_owned(), size, limit });
        }
        Ok(())
    }

    /// Publishes a command and gives its sequence in the stream of commands.
    ///
    /// # Errors
    /// [`Error::TimedOut`] leaves it unknown whether the command is stored; after every other error
    /// it is not.
    pub async fn publish_command(
        &self,
        subject: &str,
        headers: &Headers,
        payload: Bytes,
    ) -> Result<u64, Error> {
        let mut map = message::header_map(headers)?;
        message::insert(&mut map, message::EXPECTED_STREAM, &self.names().commands)?;
        let what = subject.to_owned();
        match self.store(subject, map, payload).await? {
            Outcome::Stored { seq } => Ok(seq),
            Outcome::Unknown => Err(Error::TimedOut { what }),
            Outcome::Retry { .. } => Err(Error::Unavailable { what }),
            Outcome::Denied { subject } => Err(Error::Denied { subject }),
            Outcome::Refused { code, description } | Outcome::Failed { code, description } => {
                Err(Error::Refused { what, code, description })
            }
        }
    }

    /// Asks whoever answers on a subject, outside of JetStream. The answer's sequence and time are
    /// zero.
    ///
    /// # Errors
    /// When nobody listens, the user may not ask, or no answer comes in time.
    pub async fn request_core(
        &self,
        subject: &str,
        headers: &Headers,
        payload: Bytes,
        timeout: Duration,
    ) -> Result<StoredMessage, Error> {
        self.check_size(subject, payload.len())?;
        let map = message::header_map(headers)?;
        let answer = self.exchange_within(subject, Some(map), payload, timeout).await;
        answer.map(core_message).map_err(|failure| failure.into_error(subject))
    }

    /// Sends a verdict to an inbox and does not wait.
    ///
    /// # Errors
    /// When the subject is no inbox, or the message cannot be sent.
    pub async fn publish_core(
        &self,
        subject: &str,
        headers: &Headers,
        payload: Bytes,
    ) -> Result<(), Error> {
        if !is_inbox(subject) {
            return Err(Error::Subject(subject.chars().take(256).collect()));
        }
        self.check_size(subject, payload.len())?;
        let map = message::header_map(headers)?;
        if !self.is_connected() {
            return Err(Error::Unavailable { what: subject.to_owned() });
        }
        let publish = self.inner.client.publish_with_headers(subject.to_owned(), map, payload);
        publish.await.map_err(|_| Error::Subject(subject.to_owned()))
    }

    /// Opens an inbox of this connection, to be named in a command.
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn subscribe_inbox(&self) -> Result<Inbox, Error> {
        let subject = self.inner.client.new_inbox();
        let subscriber = self
            .inner
            .client
            .subscribe(subject.clone())
            .await
            .map_err(|_| Error::Unavailable { what: subject.clone() })?;
        Ok(Inbox { subject, subscriber })
    }

    /// Sends the parts of a batch in order and reads the answer to its first and last message. `sent` is dropped when
    /// the last one is handed to the connection.
    pub(crate) async fn store_batch<T>(&self, parts: Vec<Part>, sent: T) -> Result<Outcome, Error> {
        if !self.is_connected() {
            return Ok(Outcome::Retry { code: code::NO_RESPONDERS });
        }
        for part in &parts {
            self.check_size(&part.subject, part.payload.len())?;
        }
        let subjects = Subjects::of(&parts);
        let broken = self.broken(|denied| subjects.iter().any(|subject| subject == denied));
        let exchange = async {
            tokio::select! {
                outcome = self.send_batch(parts, &subjects, sent) => outcome,
                failure = broken => Outcome::from_failure(failure),
            }
        };
        let Ok(outcome) = tokio::time::timeout(REQUEST_TIMEOUT, exchange).await else {
            self.note(Sign::TimedOut(Kind::Write)).await;
            return Ok(Outcome::Unknown);
        };
        // The connection broke, or nothing was sent: that is no sign.
        if let Some(sign) = outcome.as_ref().ok().and_then(Outcome::sign) {
            self.note(sign).await;
        }
        outcome
    }

    async fn send_batch<T>(
        &self,
        parts: Vec<Part>,
        subjects: &Subjects,
        sent: T,
    ) -> Result<Outcome, Error> {
        let client = &self.inner.client;
        let inbox = client.new_inbox();
        let Ok(mut answers) = client.subscribe(inbox.clone()).await else {
            return Ok(Outcome::Retry { code: code::NO_RESPONDERS });
        };
        let last = parts.len().saturating_sub(1);
        for (index, Part { subject, headers, payload }) in parts.into_iter().enumerate() {
            let published = if index == 0 || index == last {
                let inbox = inbox.clone();
                client.publish_with_reply_and_headers(subject, inbox, headers, payload).await
            } else {
                client.publish_with_headers(subject, headers, payload).await
            };
            if published.is_err() {
                return Err(Error::Subject(
                    subjects.iter().nth(index).unwrap_or_default().to_owned(),
                ));
            }
        }
        drop(sent);
        while let Some(answer) = answers.next().await {
            if answer.status.is_some_and(|status| u64::from(status.as_u16()) == code::NO_RESPONDERS)
            {
                return Ok(Outcome::Retry { code: code::NO_RESPONDERS });
            }
            // The first message is answered with nothing when the batch may begin.
            if !answer.payload.is_empty() {
                return Ok(Outcome::read(&answer.payload));
            }
        }
        Ok(Outcome::Unknown)
    }
}

/// One message of a batch, ready to send.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) subject: String,
    pub(crate) headers: HeaderMap,
    pub(crate) payload: Bytes,
}

impl Part {
    /// Gives it its place in its batch, from 1.
    pub(crate) fn number(&mut self, number: usize) -> Result<(), Error> {
        message::insert(&mut self.headers, message::BATCH_SEQ, number.to_string())
    }
}

/// The subjects of a batch, in one text: they are looked at only when something is wrong.
#[derive(Debug)]
struct Subjects(String);

impl Subjects {
    fn of(parts: &[Part]) -> Self {
        let bytes = parts.iter().map(|part| part.subject.len() + 1).sum();
        let mut text = String::with_capacity(bytes);
        for part in parts {
            text.push_str(&part.subject);
            text.push('\n');
        }
        Self(text)
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split_terminator('\n')
    }
}

/// An id that no batch has had.
pub(crate) fn new_batch_id() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// What the headers of all messages of a batch begin with.
pub(crate) fn batch_headers(id: &str) -> Result<HeaderMap, Error> {
    let mut headers = message::roomy();
    message::insert(&mut headers, message::BATCH_ID, id)?;
    Ok(headers)
}

/// Puts the batch headers on messages that are to be stored together, of which the first `numbered` have those of the
/// batch `id` already.
pub(crate) fn as_batch(
    mut parts: Vec<Part>,
    id: Option<String>,
    numbered: usize,
) -> Result<Vec<Part>, Error> {
    let id = id.unwrap_or_else(new_batch_id);
    for (number, part) in (1..).zip(&mut parts).skip(numbered) {
        message::insert(&mut part.headers, message::BATCH_ID, &id)?;
        part.number(number)?;
    }
    if let Some(last) = parts.last_mut() {
        message::insert(&mut last.headers, message::BATCH_COMMIT, "1")?;
    }
    Ok(parts)
}

/// An inbox that waits for verdicts.
#[derive(Debug)]
pub struct Inbox {
    subject: String,
    subscriber: Subscriber,
}

impl Inbox {
    /// The subject to name in a command's reply header.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The next message; `None` when the connection is closed for good.
    pub async fn next(&mut self) -> Option<StoredMessage> {
        self.subscriber.next().await.map(core_message)
    }
}

fn core_message(message: async_nats::Message) -> StoredMessage {
    StoredMessage {
        seq: 0,
        timestamp_ms: 0,
        subject: message.subject.to_string(),
        payload: message.payload,
        headers: message.headers.unwrap_or_default(),
    }
}

/// Whether a subject lies under the root of inboxes and can be published to.
fn is_inbox(subject: &str) -> bool {
    let mut tokens = subject.split('.');
    tokens.next() == Some(INBOX_ROOT)
        && subject.len() <= 256
        && subject.contains('.')
        && tokens.all(|token| {
            !token.is_empty() && token.chars().all(|c| c.is_ascii_graphic() && c != '*' && c != '>')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_go_to_inboxes_only() {
        for (subject, allowed) in [
            ("_INBOX.ann.x1", true),
            ("_INBOX", false),
            ("_INBOX.", false),
            ("_INBOX.a.*", false),
            ("_INBOX.>", false),
            ("_INBOXES.a", false),
            ("cron.define.a.b", false),
            ("_INBOX.a b", false),
            ("$JS.API.STREAM.DELETE.CRON_LOG", false),
        ] {
            assert_eq!(is_inbox(subject), allowed, "{subject}");
        }
    }

    #[test]
    fn an_error_answer_is_an_error_though_it_carries_a_sequence() {
        let read = |text: &str| Outcome::read(text.as_bytes());
        let refused =
            r#"{"error":{"code":400,"err_code":10071,"description":"wrong"},"stream":"X","seq":0}"#;
        assert!(matches!(read(refused), Outcome::Refused { code: 10071, .. }));
        let busy = r#"{"error":{"code":429,"err_code":10210,"description":"many"},"seq":0}"#;
        assert!(matches!(read(busy), Outcome::Retry { code: 10210 }));
        let full = r#"{"error":{"code":503,"err_code":10077,"description":"full"},"seq":0}"#;
        assert!(matches!(read(full), Outcome::Failed { code: 10077, .. }));
        assert!(matches!(read(r#"{"stream":"X","seq":7}"#), Outcome::Stored { seq: 7 }));
        assert!(matches!(
            read(r#"{"stream":"X","seq":7,"duplicate":true}"#),
            Outcome::Refused { .. }
        ));
        assert!(matches!(read("nonsense"), Outcome::Unknown));
    }
}
