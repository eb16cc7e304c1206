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
use crate::message::{self, Headers, OutMessage, Ttl};
use crate::publish::{self, Outcome, Part, as_batch};

/// Messages in a batch, the cursor included; the server's own limit.
pub const BATCH_MESSAGES: usize = 1000;
/// Bytes in a batch.
pub const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Events and the cursor that fences them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The events, in order.
    pub messages: Vec<OutMessage>,
    /// Headers that each of its messages has beside its own; none may begin with `Nats-`.
    pub headers: Headers,
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
        let headers = message::bytes_of(&self.headers);
        let messages = self.messages.iter().chain([&self.cursor]);
        messages.map(|message| message.size() + headers).sum()
    }

    /// The one event, fenced by the cursor before it.
    fn alone(&self) -> Result<Part, Error> {
        let [message] = &self.messages[..] else {
            return Err(Error::TooMany { count: self.messages.len(), limit: 1 });
        };
        let mut headers = message.header_map()?;
        for (name, value) in &self.headers {
            message::insert_own(&mut headers, name, value)?;
        }
        let expected = self.cursor_expected_seq.to_string();
        message::insert(&mut headers, message::EXPECTED_SUBJECT_SEQ, &expected)?;
        message::insert(&mut headers, message::EXPECTED_SUBJECT, &self.cursor.subject)?;
        let (subject, payload) = (message.subject.clone(), message.payload.clone());
        Ok(Part { subject, headers, payload })
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
    /// The batch id that its parts have already, with their numbers.
    id: Option<String>,
}

impl Prepared {
    /// Makes the headers of a batch.
    ///
    /// # Errors
    /// When one may not be sent.
    pub fn new(mut batch: Batch) -> Result<Self, Error> {
        let messages = std::mem::take(&mut batch.messages);
        Self::of(messages.into_iter(), batch)
    }

    /// Makes the headers of messages and of a batch that ends with its cursor behind them.
    ///
    /// # Errors
    /// When one may not be sent.
    pub fn of(
        events: impl ExactSizeIterator<Item = OutMessage>,
        batch: Batch,
    ) -> Result<Self, Error> {
        let common_bytes = message::bytes_of(&batch.headers);
        let count = events.len() + batch.messages.len() + 1;
        // One that is larger than what may still come beside it goes by itself, mostly.
        let id = (count > BATCH_MESSAGES / 2).then(publish::new_batch_id);
        let mut common = match &id {
            Some(id) => publish::batch_headers(id)?,
            None => message::roomy(),
        };
        for (name, value) in &batch.headers {
            message::insert_own(&mut common, name, value)?;
        }
        let cursor = OutMessage { ttl: Some(Ttl::Never), rollup: true, ..batch.cursor };
        let (mut parts, mut size) = (Vec::with_capacity(count), 0);
        for (number, message) in (1..).zip(events.chain(batch.messages).chain([cursor])) {
            size += message.size() + common_bytes;
            let mut part = message.into_part(common.clone())?;
            if id.is_some() {
                part.number(number)?;
            }
            parts.push(part);
        }
        if let Some(Part { headers, .. }) = parts.last_mut() {
            let expected = batch.cursor_expected_seq.to_string();
            message::insert(headers, message::EXPECTED_SUBJECT_SEQ, expected)?;
        }
        Ok(Self { parts, size, id })
    }

    /// How many messages it has, the cursor included.
    #[must_use]
    pub const fn messages(&self) -> usize {
        self.parts.len()
    }

    /// Bytes it takes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// The subject of its cursor.
    #[must_use]
    pub fn cursor(&self) -> &str {
        self.parts.last().map_or("", |part| &part.subject)
    }
}

/// The parts of batches that are stored together: one that is the only one goes as it is.
fn together(batches: Vec<Prepared>) -> Result<Vec<Part>, Error> {
    let count = batches.iter().map(Prepared::messages).sum();
    check(count, batches.iter().map(Prepared::size).sum())?;
    let mut batches = batches.into_iter();
    let Some(Prepared { mut parts, id, .. }) = batches.next() else {
        return Err(Error::TooMany { count: 0, limit: BATCH_MESSAGES });
    };
    let numbered = if id.is_some() { parts.len() } else { 0 };
    parts.extend(batches.flat_map(|batch| batch.parts));
    if parts.len() == 1 { Ok(parts) } else { as_batch(parts, id, numbered) }
}

impl Bus {
    /// Sends a batch. Sending the same batch again is safe: it takes a new batch id, and its cursor
    /// admits it once.
    ///
    /// # Errors
    /// When the batch breaks a limit or has a header that may not be sent; then nothing was sent.
    pub async fn commit(&self, batch: &Batch) -> Result<CommitAnswer, Error> {
        self.commit_all(vec![Prepared::new(batch.clone())?], ()).await
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
        let mut parts = together(batches)?;
        let outcome = match parts.len() {
            1 => {
                let Part { subject, headers, payload } = parts.remove(0);
                self.store(&subject, headers, payload).await?
            }
            _ => self.store_batch(parts, sent).await?,
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
            headers: vec![("Cron-Tick", "1.2".into())],
            cursor_expected_seq: 0,
        }
    }

    /// The messages of batches that are sent together, each with so many events.
    fn sent(events: &[usize]) -> Vec<Part> {
        let prepared = events.iter().map(|events| Prepared::new(batch(*events, 1)).unwrap());
        together(prepared.collect()).unwrap()
    }

    fn header(part: &Part, name: &str) -> Option<String> {
        part.headers.get(name).map(|value| value.as_str().to_owned())
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
        for events in [2, BATCH_MESSAGES - 1] {
            let parts = sent(&[events]);
            let cursor = &parts[events];
            assert_eq!(cursor.subject, "cron.cursor.0");
            assert_eq!(header(cursor, message::ROLLUP).as_deref(), Some("sub"));
            assert_eq!(header(cursor, message::TTL).as_deref(), Some("never"));
            assert_eq!(header(cursor, message::BATCH_COMMIT).as_deref(), Some("1"));
            assert_eq!(header(cursor, message::EXPECTED_SUBJECT_SEQ).as_deref(), Some("0"));
            assert_eq!(header(&parts[events - 1], message::BATCH_COMMIT), None);
            assert_eq!(header(&parts[0], message::ROLLUP), None);
        }
    }

    #[test]
    fn batches_that_go_together_are_numbered_without_a_gap_under_one_id() {
        for events in [&[1][..], &[1, 2], &[700], &[700, 200], &[100, 700], &[0, 3, 0]] {
            let parts = sent(events);
            let (id, last) = (header(&parts[0], message::BATCH_ID), parts.len());
            assert_eq!(last, events.iter().map(|events| events + 1).sum::<usize>());
            assert!(id.is_some());
            for (number, part) in (1..).zip(&parts) {
                let place = (header(part, message::BATCH_ID), header(part, message::BATCH_SEQ));
                assert_eq!(place, (id.clone(), Some(number.to_string())), "{events:?}");
                let commits = header(part, message::BATCH_COMMIT).is_some();
                assert_eq!(commits, number == last, "{events:?}, {number}");
                assert_eq!(header(part, "Cron-Tick").as_deref(), Some("1.2"));
            }
        }
    }

    #[test]
    fn a_cursor_by_itself_is_no_batch() {
        let parts = sent(&[0]);
        assert_eq!((parts.len(), header(&parts[0], message::BATCH_ID)), (1, None));
        assert_eq!(header(&parts[0], message::EXPECTED_SUBJECT_SEQ).as_deref(), Some("0"));
        assert!(together(Vec::new()).is_err());
    }

    #[test]
    fn an_event_by_itself_expects_the_cursor_and_is_the_only_one() {
        let part = Batch { cursor_expected_seq: 7, ..batch(1, 1) }.alone().unwrap();
        assert_eq!(header(&part, message::EXPECTED_SUBJECT_SEQ).as_deref(), Some("7"));
        assert_eq!(header(&part, message::EXPECTED_SUBJECT).as_deref(), Some("cron.cursor.0"));
        assert_eq!(header(&part, "Cron-Tick").as_deref(), Some("1.2"));
        assert_eq!(header(&part, message::BATCH_ID), None);
        assert!(batch(0, 1).alone().is_err());
        assert!(batch(2, 1).alone().is_err());
    }

    #[test]
    fn a_header_of_all_messages_cannot_instruct_the_server() {
        let wrong = Batch { headers: vec![("nats-rollup", "all".into())], ..batch(1, 1) };
        assert!(wrong.alone().is_err());
        assert!(Prepared::new(wrong).is_err());
    }

    #[test]
    fn each_send_takes_a_new_batch_id() {
        for events in [1, 700] {
            assert_ne!(
                header(&sent(&[events])[0], message::BATCH_ID),
                header(&sent(&[events])[0], message::BATCH_ID)
            );
        }
    }
}
