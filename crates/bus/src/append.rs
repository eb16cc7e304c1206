//! Compare-and-set appends: a message is stored only if the last one on its subject is the one
//! expected.

use async_nats::HeaderMap;
use bytes::Bytes;

use crate::batch::BATCH_MESSAGES;
use crate::connect::Bus;
use crate::error::Error;
use crate::message::{self, Headers, Ttl};
use crate::publish::{self, Outcome, Part, as_batch};

/// A message and what must stand before it on its subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// Its subject.
    pub subject: String,
    /// Headers of ours.
    pub headers: Headers,
    /// Its body.
    pub payload: Bytes,
    /// How long the server keeps it.
    pub ttl: Option<Ttl>,
    /// The id by which the stream refuses it a second time.
    pub msg_id: Option<String>,
    /// The sequence of the last message on its subject, 0 for none.
    pub expected_last_seq: u64,
}

/// What became of an append or a group of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendAnswer {
    /// Stored. A group is stored whole, in its order, at sequences without a gap up to this one.
    Stored {
        /// The sequence of the message, or of the group's last.
        seq: u64,
    },
    /// Another message stands there, or an id is known: read the last one. A lost answer to an
    /// earlier send of the same append looks the same. Nothing of this send is stored.
    Conflict,
    /// No answer, or the connection broke: read the last one.
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

impl From<Outcome> for AppendAnswer {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Stored { seq } => Self::Stored { seq },
            Outcome::Refused { .. } => Self::Conflict,
            Outcome::Retry { code } => Self::Retry { code },
            Outcome::Unknown => Self::Unknown,
            Outcome::Denied { subject } => Self::Denied { subject },
            Outcome::Failed { code, description } => Self::Failed { code, description },
        }
    }
}

impl Append {
    pub(crate) fn part(&self) -> Result<Part, Error> {
        self.part_beside(HeaderMap::new())
    }

    /// The message with its headers beside those of its batch.
    fn part_beside(&self, mut headers: HeaderMap) -> Result<Part, Error> {
        let own = self.headers.iter().map(|(name, value)| (*name, value.as_str()));
        message::keep(&mut headers, own, self.ttl, self.msg_id.as_deref())?;
        let expected = self.expected_last_seq.to_string();
        message::insert(&mut headers, message::EXPECTED_SUBJECT_SEQ, expected)?;
        Ok(Part { subject: self.subject.clone(), headers, payload: self.payload.clone() })
    }
}

impl Bus {
    /// Stores one message if its subject stands where expected.
    ///
    /// # Errors
    /// When it cannot be sent at all.
    pub async fn append(&self, append: &Append) -> Result<AppendAnswer, Error> {
        let Part { subject, headers, payload } = append.part()?;
        Ok(self.store(&subject, headers, payload).await?.into())
    }

    /// Stores one message, whatever stands before it on its subject.
    ///
    /// # Errors
    /// When it cannot be sent at all.
    pub async fn append_any(&self, subject: &str, payload: Bytes) -> Result<AppendAnswer, Error> {
        let headers = message::header_map(&Vec::new())?;
        Ok(self.store(subject, headers, payload).await?.into())
    }

    /// Stores a group of messages of one stream, on different subjects, if each of them stands
    /// where expected; or none of them.
    ///
    /// # Errors
    /// When the group is empty, too large, or cannot be sent at all.
    pub async fn append_batch(&self, appends: &[Append]) -> Result<AppendAnswer, Error> {
        match appends {
            [one] => self.append(one).await,
            many if (2..=BATCH_MESSAGES).contains(&many.len()) => {
                let id = publish::new_batch_id();
                let common = publish::batch_headers(&id)?;
                let mut parts = Vec::with_capacity(many.len());
                for (number, append) in (1..).zip(many) {
                    let mut part = append.part_beside(common.clone())?;
                    part.number(number)?;
                    parts.push(part);
                }
                Ok(self.store_batch(as_batch(parts, Some(id), many.len())?, ()).await?.into())
            }
            other => Err(Error::TooMany { count: other.len(), limit: BATCH_MESSAGES }),
        }
    }
}
