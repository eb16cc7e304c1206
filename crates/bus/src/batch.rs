//! The fenced batch: what a partition's leader decided in one tick, stored whole or not at all.
//!
//! ```text
//! [ event … event ]  +  cursor { expects the cursor before it, replaces it, is kept for ever }
//! ```
//!
//! A leader whose cursor is stale adds nothing: the server refuses the batch. One batch of a
//! partition may be in flight. A single event may be stored by itself, fenced by the cursor before it.

use crate::connect::Bus;
use crate::error::Error;
use crate::message::{self, OutMessage, Ttl};
use crate::publish::{Outcome, Part, as_batch};

/// Messages in a batch, the cursor included; the server's own limit.
pub const BATCH_MESSAGES: usize = 1000;
/// Bytes in a batch.
pub const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Events and the cursor that fences them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The events, in order.
    pub messages: Vec<OutMessage>,
    /// The cursor; it is stored last, rolled up and without an end of life whatever its own fields
    /// say.
    pub cursor: OutMessage,
    /// The sequence of the cursor before it, 0 when there is none.
    pub cursor_expected_seq: u64,
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitAnswer {
    /// All of it is stored.
    Stored {
        /// The cursor's sequence.
        last_seq: u64,
    },
    /// Refused as out of turn, or because an id in it is known: read the cursor back. A lost answer
    /// to an earlier send of the same batch looks the same.
    Refused {
        /// 10071, 10164 or 10201.
        code: u64,
        /// The server's text.
        description: String,
    },
    /// No answer, or the connection broke: read the cursor back.
    Unknown,
    /// Not stored, because the server could not just then: send it again after a while.
    Retry {
        /// 503, 10008, 10158, 10167, 10176, 10210 or the like.
        code: u64,
    },
    /// The user may not write this subject.
    Denied {
        /// The subject.
        subject: String,
    },
    /// The server could not store it for a reason that will not pass by itself, such as a full
    /// disk.
    Failed {
        /// JetStream's error code.
        code: u64,
        /// Its text.
        description: String,
    },
}

impl Batch {
    /// Checks the limits that the server would enforce or that keep it healthy.
    ///
    /// # Errors
    /// When there are too many messages or bytes.
    pub fn check(&self) -> Result<(), Error> {
        check(self.messages.len() + 1, self.size())
    }

    /// Bytes it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.messages.iter().map(OutMessage::size).sum::<usize>() + self.cursor.size()
    }

    /// The one event, fenced by the cursor before it.
    fn alone(&self) -> Result<Part, Error> {
        let [message] = &self.messages[..] else {
            return Err(Error::TooMany { count: self.messages.len(), limit: 1 });
        };
        let mut headers = message.header_map()?;
        let expected = self.cursor_expected_seq.to_string();
        message::insert(&mut headers, message::EXPECTED_SUBJECT_SEQ, &expected)?;
        message::insert(&mut headers, message::EXPECTED_SUBJECT, &self.cursor.subject)?;
        let (subject, payload) = (message.subject.clone(), message.payload.clone());
        Ok(Part { subject, headers, payload })
    }

    fn parts(&self) -> Result<Vec<Part>, Error> {
        let mut parts = Vec::with_capacity(self.messages.len() + 1);
        let part = |message: &OutMessage| {
            let (subject, payload) = (message.subject.clone(), message.payload.clone());
            Ok::<_, Error>(Part { subject, headers: message.header_map()?, payload })
        };
        for message in &self.messages {
            parts.push(part(message)?);
        }
        let cursor = OutMessage { ttl: Some(Ttl::Never), rollup: true, ..self.cursor.clone() };
        let mut cursor = part(&cursor)?;
        let expected = self.cursor_expected_seq.to_string();
        message::insert(&mut cursor.headers, message::EXPECTED_SUBJECT_SEQ, &expected)?;
        parts.push(cursor);
        Ok(parts)
    }
}

/// Checks what is sent together: messages with their cursors, and bytes.
fn check(count: usize, size: usize) -> Result<(), Error> {
    if count > BATCH_MESSAGES {
        return Err(Error::TooMany { count, limit: BATCH_MESSAGES });
    }
    if size > BATCH_BYTES {
        return Err(Error::TooLarge { what: "a batch".into(), size, limit: BATCH_BYTES });
    }
    Ok(())
}

impl From<Outcome> for CommitAnswer {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Stored { seq } => Self::Stored { last_seq: seq },
            Outcome::Refused { code, description } => Self::Refused { code, description },
            Outcome::Retry { code } => Self::Retry { code },
            Outcome::Unknown => Self::Unknown,
            Outcome::Denied { subject } => Self::Denied { subject },
            Outcome::Failed { code, description } => Self::Failed { code, description },
        }
    }
}

/// A batch whose headers are made: what is left is to send it, with others or without.
#[derive(Debug)]
pub struct Prepared {
    parts: Vec<Part>,
    size: usize,
}

impl Prepared {
    /// Makes the headers of a batch.
    ///
    /// # Errors
    /// When one may not be sent.
    pub fn new(batch: &Batch) -> Result<Self, Error> {
        Ok(Self { parts: batch.parts()?, size: batch.size() })
    }

    /// Bytes it takes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }
}

impl Bus {
    /// Sends a batch. Sending the same batch again is safe: it takes a new batch id, and its cursor
    /// admits it once.
    ///
    /// # Errors
    /// When the batch breaks a limit or has a header that may not be sent; then nothing was sent.
    pub async fn commit(&self, batch: &Batch) -> Result<CommitAnswer, Error> {
        self.commit_all(vec![Prepared::new(batch)?], ()).await
    }

    /// Sends several batches as one: all of them are stored without a gap, in their order, or none
    /// is. `sent` is dropped when the last message is handed to the connection, or nothing will be.
    ///
    /// # Errors
    /// When they break a limit together; then nothing was sent.
    pub async fn commit_all<T>(
        &self,
        batches: Vec<Prepared>,
        sent: T,
    ) -> Result<CommitAnswer, Error> {
        let count = batches.iter().map(|batch| batch.parts.len()).sum();
        check(count, batches.iter().map(|batch| batch.size).sum())?;
        let mut parts = batches.into_iter().map(|batch| batch.parts);
        let mut all = parts.next().unwrap_or_default();
        all.extend(parts.flatten());
        let outcome = match all.len() {
            1 => {
                let Part { subject, headers, payload } = all.remove(0);
                self.store(&subject, headers, payload).await?
            }
            _ => self.store_batch(as_batch(all)?, sent).await?,
        };
        Ok(outcome.into())
    }

    /// Stores the event of a batch that has one, and leaves the cursor where it is, which must be where the batch
    /// expects it. Sent again, it may be stored again: the cursor does not move by it.
    ///
    /// # Errors
    /// When the batch has not exactly one event, or a header that may not be sent; then nothing was sent.
    pub async fn commit_alone(&self, batch: &Batch) -> Result<CommitAnswer, Error> {
        let Part { subject, headers, payload } = batch.alone()?;
        Ok(self.store(&subject, headers, payload).await?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(messages: usize, bytes: usize) -> Batch {
        Batch {
            messages: vec![OutMessage::new("cron.fire.q.a.b", vec![0; bytes]); messages],
            cursor: OutMessage::new("cron.cursor.0", "{}"),
            cursor_expected_seq: 0,
        }
    }

    fn parts(batch: &Batch) -> Vec<Part> {
        as_batch(batch.parts().unwrap()).unwrap()
    }

    #[test]
    fn limits_are_checked_before_anything_is_sent() {
        assert!(batch(999, 1).check().is_ok());
        assert!(matches!(batch(1000, 1).check(), Err(Error::TooMany { count: 1001, .. })));
        assert!(batch(16, 512 * 1024 - 64).check().is_ok());
        assert!(matches!(batch(17, 512 * 1024).check(), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn the_cursor_is_last_rolled_up_and_kept_for_ever() {
        let parts = parts(&batch(2, 1));
        let header = |index: usize, name: &str| {
            let part: &Part = &parts[index];
            part.headers.get(name).map(|value| value.as_str().to_owned())
        };
        assert_eq!(parts[2].subject, "cron.cursor.0");
        assert_eq!(header(2, message::ROLLUP).as_deref(), Some("sub"));
        assert_eq!(header(2, message::TTL).as_deref(), Some("never"));
        assert_eq!(header(2, message::BATCH_COMMIT).as_deref(), Some("1"));
        assert_eq!(header(2, message::EXPECTED_SUBJECT_SEQ).as_deref(), Some("0"));
        assert_eq!(header(1, message::BATCH_COMMIT), None);
        assert_eq!(header(0, message::ROLLUP), None);
    }

    #[test]
    fn an_event_by_itself_expects_the_cursor_and_is_the_only_one() {
        let part = Batch { cursor_expected_seq: 7, ..batch(1, 1) }.alone().unwrap();
        let header = |name: &str| part.headers.get(name).map(|value| value.as_str().to_owned());
        assert_eq!(header(message::EXPECTED_SUBJECT_SEQ).as_deref(), Some("7"));
        assert_eq!(header(message::EXPECTED_SUBJECT).as_deref(), Some("cron.cursor.0"));
        assert_eq!(header(message::BATCH_ID), None);
        assert!(batch(0, 1).alone().is_err());
        assert!(batch(2, 1).alone().is_err());
    }

    #[test]
    fn each_send_takes_a_new_batch_id() {
        let id = || {
            let parts = parts(&batch(1, 1));
            parts[0].headers.get(message::BATCH_ID).unwrap().as_str().to_owned()
        };
        assert_ne!(id(), id());
    }
}
