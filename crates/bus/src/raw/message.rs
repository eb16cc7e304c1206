//! A message as it is sent and as it is found, headers and all.

use async_nats::{HeaderMap, Message, Subject};
use bytes::Bytes;

use crate::error::Error;
use crate::message::{BATCH_ID, EXPECTED_SUBJECT, EXPECTED_SUBJECT_SEQ, MSG_ID, OutMessage};

/// A message to be stored, ready but for what is new with each send.
#[derive(Debug, Clone)]
pub struct RawMessage {
    pub(super) subject: String,
    pub(super) headers: HeaderMap,
    pub(super) payload: Bytes,
}

impl RawMessage {
    /// A message with the headers that the product would send it with.
    ///
    /// # Errors
    /// When it has a header that may not be sent.
    pub fn new(message: &OutMessage) -> Result<Self, Error> {
        let (subject, payload) = (message.subject.clone(), message.payload.clone());
        Ok(Self { subject, headers: message.header_map()?, payload })
    }

    /// The subject.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Bytes of the body.
    #[must_use]
    pub fn len(&self) -> usize {
        self.payload.len()
    }

    /// Whether it has no body.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }

    /// The same message on another subject.
    #[must_use]
    pub fn on(mut self, subject: impl Into<String>) -> Self {
        self.subject = subject.into();
        self
    }

    /// The same message under an id that no stream knows.
    #[must_use]
    pub fn with_new_id(mut self) -> Self {
        self.headers.insert(MSG_ID, uuid::Uuid::new_v4().to_string().as_str());
        self
    }

    /// Demands a sequence of the last message on its subject, 0 for none.
    #[must_use]
    pub fn expecting(mut self, seq: u64) -> Self {
        self.headers.insert(EXPECTED_SUBJECT_SEQ, seq.to_string().as_str());
        self
    }

    /// Demands a sequence of the last message on another subject.
    #[must_use]
    pub fn fenced_by(mut self, subject: &str, seq: u64) -> Self {
        self.headers.insert(EXPECTED_SUBJECT, subject);
        self.expecting(seq)
    }
}

/// A message as a consumer delivers it.
#[derive(Debug, Clone)]
pub struct RawStored {
    /// Its sequence in the stream.
    pub seq: u64,
    /// When the broker stored it, nanoseconds since 1970.
    pub stored_ns: i64,
    /// Its subject.
    pub subject: String,
    /// Its body.
    pub payload: Bytes,
    pub(super) pending: u64,
    pub(super) reply: Subject,
    headers: HeaderMap,
}

impl RawStored {
    pub(super) fn read(message: Message) -> Option<Self> {
        let reply = message.reply?;
        // `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<nanos>.<pending>`; the newer form
        // has two tokens more in front.
        let tokens: Vec<&str> = reply.split('.').collect();
        let skip = if tokens.len() >= 11 { 4 } else { 2 };
        let number = |index: usize| tokens.get(skip + index)?.parse::<u64>().ok();
        let (seq, nanos, pending) = (number(3)?, number(5)?, number(6)?);
        Some(Self {
            seq,
            stored_ns: i64::try_from(nanos).ok()?,
            subject: message.subject.to_string(),
            payload: message.payload,
            pending,
            headers: message.headers.unwrap_or_default(),
            reply,
        })
    }

    /// Whether it was stored with others in one batch.
    #[must_use]
    pub fn is_of_batch(&self) -> bool {
        self.headers.get(BATCH_ID).is_some()
    }

    /// The message to be stored once more, under a prefix: the headers it was sent with and its body, bit for bit.
    /// What belongs to its batch and its place is left out.
    #[must_use]
    pub fn again(&self, prefix: &str) -> RawMessage {
        let mut headers = HeaderMap::new();
        for (name, values) in self.headers.iter() {
            let name_text: &str = name.as_ref();
            if !name_text.starts_with("Nats-Batch-")
                && ![EXPECTED_SUBJECT_SEQ, EXPECTED_SUBJECT].contains(&name_text)
            {
                values.iter().for_each(|value| headers.append(name.clone(), value.clone()));
            }
        }
        let subject = moved(&self.subject, prefix);
        RawMessage { subject, headers, payload: self.payload.clone() }
    }
}

/// A subject with another first token.
pub(super) fn moved(subject: &str, prefix: &str) -> String {
    match subject.split_once('.') {
        Some((_, rest)) => format!("{prefix}.{rest}"),
        None => prefix.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use async_nats::header::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn a_message_is_sent_again_with_its_headers_and_without_those_of_its_batch() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("Nats-Batch-Id", "x"),
            ("Nats-TTL", "9s"),
            (EXPECTED_SUBJECT_SEQ, "7"),
            ("Cron-Tick", "1.2"),
        ] {
            let name: HeaderName = name.parse().unwrap();
            headers.insert(name, value.parse::<HeaderValue>().unwrap());
        }
        let stored = RawStored {
            seq: 1,
            stored_ns: 0,
            subject: "cron.fire.q.a.b".into(),
            payload: Bytes::from_static(b"{}"),
            pending: 0,
            reply: Subject::from("x"),
            headers,
        };
        let again = stored.again("raw").expecting(3);
        assert_eq!((again.subject(), again.len(), again.is_empty()), ("raw.fire.q.a.b", 2, false));
        let mut names: Vec<&str> = again.headers.iter().map(|(name, _)| name.as_ref()).collect();
        names.sort_unstable();
        assert_eq!(names, ["Cron-Tick", EXPECTED_SUBJECT_SEQ, "Nats-TTL"]);
    }
}
