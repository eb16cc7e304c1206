//! Reading single messages and the state of a stream.
//!
//! What decides something is read from the stream's leader; a direct get may be answered by a
//! replica that is behind.

use std::collections::BTreeMap;

use async_nats::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde_json::json;

use crate::connect::{Bus, REQUEST_TIMEOUT};
use crate::error::Error;
use crate::exchange::{Group, code};
use crate::message::{self, StoredMessage};

/// The most subjects of a stream that are listed.
pub const SUBJECTS_MAX: usize = 1_000_000;

/// What a stream holds, as its leader knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamState {
    /// The sequence of its oldest message, or one more than the last when there is none.
    pub first_seq: u64,
    /// The sequence of its newest message, stored still or not.
    pub last_seq: u64,
    /// How many messages it holds.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When it was created; another time means another stream.
    pub created: DateTime<Utc>,
    /// The leader's clock when it answered.
    pub now: DateTime<Utc>,
    /// How many consumers it may have, -1 for the server's default.
    pub max_consumers: i64,
    /// How many it has.
    pub consumer_count: u64,
    /// How many replicas it is configured for.
    pub replicas: u64,
}

#[derive(serde::Deserialize)]
pub(crate) struct StreamInfo {
    pub(crate) config: serde_json::Value,
    created: DateTime<Utc>,
    state: RawState,
    #[serde(default)]
    ts: Option<DateTime<Utc>>,
    cluster: Option<Group>,
}

#[derive(serde::Deserialize)]
struct RawState {
    messages: u64,
    bytes: u64,
    first_seq: u64,
    last_seq: u64,
    consumer_count: u64,
}

#[derive(serde::Deserialize)]
struct GetAnswer {
    message: RawMessage,
}

/// A message as JetStream's API tells it, body and headers in base64.
#[derive(serde::Deserialize)]
struct RawMessage {
    subject: String,
    seq: u64,
    #[serde(default)]
    data: String,
    #[serde(default)]
    hdrs: String,
    time: DateTime<Utc>,
}

#[derive(serde::Deserialize)]
struct SubjectsPage {
    state: SubjectsState,
    cluster: Option<Group>,
    /// How many there are on all pages.
    #[serde(default)]
    total: usize,
}

#[derive(serde::Deserialize)]
struct SubjectsState {
    #[serde(default)]
    subjects: Option<BTreeMap<String, u64>>,
}

impl StreamInfo {
    /// The servers that keep a copy and do not answer their leader.
    pub(crate) fn offline(&self) -> Vec<String> {
        self.cluster.as_ref().map(Group::offline).unwrap_or_default()
    }

    pub(crate) fn state(&self) -> StreamState {
        let number = |key: &str| self.config.get(key).and_then(serde_json::Value::as_i64);
        StreamState {
            first_seq: self.state.first_seq,
            last_seq: self.state.last_seq,
            messages: self.state.messages,
            bytes: self.state.bytes,
            created: self.created,
            now: self.ts.unwrap_or_default(),
            max_consumers: number("max_consumers").unwrap_or(-1),
            consumer_count: self.state.consumer_count,
            replicas: number("num_replicas").and_then(|n| u64::try_from(n).ok()).unwrap_or(1),
        }
    }
}

impl Bus {
    /// What the stream's leader says of it. A server that is cut off from the others answers from its own copy, which
    /// may lack what was read already: that is no answer.
    pub(crate) async fn stream_info(&self, stream: &str) -> Result<StreamInfo, Error> {
        let what = format!("STREAM.INFO.{stream}");
        let info: StreamInfo = self.api(&what, &json!({})).await?;
        match &info.cluster {
            Some(group) if group.is_leaderless() => Err(Error::Unavailable { what }),
            Some(_) | None => Ok(info),
        }
    }

    /// The state of a stream, from its leader.
    ///
    /// # Errors
    /// When the stream is not there or does not answer.
    pub async fn stream_state(&self, stream: &str) -> Result<StreamState, Error> {
        Ok(self.stream_info(stream).await?.state())
    }

    /// Hands each subject below a filter to `each`, with how many messages are on it; at most
    /// [`SUBJECTS_MAX`] subjects.
    ///
    /// # Errors
    /// When the stream is not there or does not answer.
    pub async fn subjects(
        &self,
        stream: &str,
        filter: &str,
        mut each: impl FnMut(&str, u64),
    ) -> Result<(), Error> {
        let what = format!("STREAM.INFO.{stream}");
        let mut read = 0;
        loop {
            let ask = json!({ "subjects_filter": filter, "offset": read });
            let page: SubjectsPage = self.api(&what, &ask).await?;
            if page.cluster.as_ref().is_some_and(Group::is_leaderless) {
                return Err(Error::Unavailable { what });
            }
            let subjects = page.state.subjects.unwrap_or_default();
            subjects.iter().for_each(|(subject, count)| each(subject, *count));
            read += subjects.len();
            if subjects.is_empty() || read >= page.total.min(SUBJECTS_MAX) {
                return Ok(());
            }
        }
    }

    /// The last message on a subject, from the stream's leader.
    ///
    /// # Errors
    /// When the stream is not there or does not answer.
    pub async fn last_from_leader(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<StoredMessage>, Error> {
        self.get(stream, json!({ "last_by_subj": subject })).await
    }

    /// The message at a sequence, from the stream's leader.
    ///
    /// # Errors
    /// When the stream is not there or does not answer.
    pub async fn by_seq(&self, stream: &str, seq: u64) -> Result<Option<StoredMessage>, Error> {
        self.get(stream, json!({ "seq": seq })).await
    }

    /// The first message at or behind a sequence on subjects that match, from the stream's leader.
    ///
    /// # Errors
    /// When the stream is not there or does not answer.
    pub async fn next_from_leader(
        &self,
        stream: &str,
        seq: u64,
        filter: Option<&str>,
    ) -> Result<Option<StoredMessage>, Error> {
        self.get(stream, json!({ "seq": seq, "next_by_subj": filter.unwrap_or(">") })).await
    }

    /// The first message on subjects that match that was stored at or after an instant (Unix milliseconds), from the
    /// stream's leader. A subject without a wildcard is found by the server's index of subjects, block by block from
    /// the instant on.
    ///
    /// # Errors
    /// When the stream is not there or does not answer.
    pub async fn next_since(
        &self,
        stream: &str,
        at_ms: i64,
        filter: &str,
    ) -> Result<Option<StoredMessage>, Error> {
        let at = DateTime::<Utc>::from_timestamp_millis(at_ms).unwrap_or_default();
        self.get(stream, json!({ "start_time": at, "next_by_subj": filter })).await
    }

    /// The last message on a subject, from any replica: it may be an older one, so only
    /// compare-and-set may build on it.
    ///
    /// # Errors
    /// When the stream is not there or does not answer.
    pub async fn last_direct(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<StoredMessage>, Error> {
        let api = format!("$JS.API.DIRECT.GET.{stream}.{subject}");
        // Not a sign of health: a server that is cut off from the others answers this as well.
        let answer = self
            .exchange_within(&api, None, Bytes::new(), REQUEST_TIMEOUT)
            .await
            .map_err(|failure| failure.into_error(&api))?;
        let what = || format!("DIRECT.GET.{stream}");
        match answer.status.map(|status| status.as_u16()) {
            None | Some(200) => direct_message(answer).map(Some).ok_or_else(|| Error::Decode {
                what: what(),
                source: "headers are missing".into(),
            }),
            Some(404) => Ok(None),
            Some(status) => Err(Error::Refused {
                what: what(),
                code: u64::from(status),
                description: answer.description.unwrap_or_default(),
            }),
        }
    }

    /// Headers are base64 here, so none that a foreign client may have stored can break the
    /// connection.
    async fn get(
        &self,
        stream: &str,
        request: serde_json::Value,
    ) -> Result<Option<StoredMessage>, Error> {
        let what = format!("STREAM.MSG.GET.{stream}");
        match self.api::<GetAnswer>(&what, &request).await {
            Ok(answer) => {
                let decoded = answer.message.decode();
                decoded.map(Some).map_err(|source| Error::Decode { what, source: Box::new(source) })
            }
            Err(Error::Refused { code: code::NO_MESSAGE, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl RawMessage {
    fn decode(self) -> Result<StoredMessage, base64::DecodeError> {
        Ok(StoredMessage {
            seq: self.seq,
            timestamp_ms: self.time.timestamp_millis(),
            subject: self.subject,
            payload: STANDARD.decode(self.data)?.into(),
            headers: message::read_header_block(&STANDARD.decode(self.hdrs)?),
        })
    }
}

/// A direct answer is the message itself, with what is known about it in headers.
fn direct_message(answer: async_nats::Message) -> Option<StoredMessage> {
    let mut headers = HeaderMap::new();
    let (mut seq, mut subject, mut time) = (None, None, None);
    for (name, values) in answer.headers?.iter() {
        let first = values.first().map(async_nats::header::HeaderValue::as_str)?;
        let name: &str = name.as_ref();
        match name {
            "Nats-Sequence" => seq = first.parse().ok(),
            "Nats-Subject" => subject = Some(first.to_owned()),
            "Nats-Time-Stamp" => time = first.parse::<DateTime<Utc>>().ok(),
            "Nats-Stream" | "Nats-Num-Pending" | "Nats-Last-Sequence" => {}
            other => {
                for value in values {
                    headers.append(other, value.clone());
                }
            }
        }
    }
    Some(StoredMessage {
        seq: seq?,
        timestamp_ms: time?.timestamp_millis(),
        subject: subject?,
        payload: answer.payload,
        headers,
    })
}
