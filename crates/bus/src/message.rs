//! Messages as they are sent and as they are stored.
//!
//! Invariant: headers that begin with `Nats-` are instructions to the server and are written by
//! this crate alone, so no caller can express `Nats-Rollup: all`, which would wipe a stream.

use std::sync::LazyLock;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::header::{HeaderName, HeaderValue};
use bytes::Bytes;

use crate::error::Error;
use crate::publish::Part;

pub(crate) const MSG_ID: &str = "Nats-Msg-Id";
pub(crate) const ROLLUP: &str = "Nats-Rollup";
pub(crate) const TTL: &str = "Nats-TTL";
pub(crate) const EXPECTED_STREAM: &str = "Nats-Expected-Stream";
pub(crate) const EXPECTED_SUBJECT_SEQ: &str = "Nats-Expected-Last-Subject-Sequence";
pub(crate) const EXPECTED_SUBJECT: &str = "Nats-Expected-Last-Subject-Sequence-Subject";
pub(crate) const BATCH_ID: &str = "Nats-Batch-Id";
pub(crate) const BATCH_SEQ: &str = "Nats-Batch-Sequence";
pub(crate) const BATCH_COMMIT: &str = "Nats-Batch-Commit";
pub(crate) const MARKER_REASON: &str = "Nats-Marker-Reason";
pub(crate) const KV_OPERATION: &str = "KV-Operation";

/// The headers that the caller of a publishing function adds.
pub type Headers = Vec<(&'static str, String)>;

/// How long the server keeps a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ttl {
    /// For ever, whatever the stream's age limit.
    Never,
    /// Whole seconds.
    Seconds(u64),
}

impl Ttl {
    /// At least this long: whole seconds, rounded up, one at least.
    #[must_use]
    pub fn at_least(duration: Duration) -> Self {
        let up = u64::from(duration.subsec_nanos() > 0);
        Self::Seconds(duration.as_secs().saturating_add(up).max(1))
    }

    pub(crate) fn header(self) -> String {
        match self {
            Self::Never => "never".into(),
            Self::Seconds(seconds) => format!("{}s", seconds.max(1)),
        }
    }
}

/// A message to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutMessage {
    /// Its subject.
    pub subject: String,
    /// Headers of ours; none may begin with `Nats-`.
    pub headers: Headers,
    /// Its body.
    pub payload: Bytes,
    /// How long the server keeps it; `None` leaves it to the stream.
    pub ttl: Option<Ttl>,
    /// The id by which the stream refuses it a second time.
    pub msg_id: Option<String>,
    /// Whether it replaces what stands on its subject.
    pub rollup: bool,
}

impl OutMessage {
    /// A message with a body and nothing else.
    #[must_use]
    pub fn new(subject: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self {
            subject: subject.into(),
            headers: Vec::new(),
            payload: payload.into(),
            ttl: None,
            msg_id: None,
            rollup: false,
        }
    }

    /// Bytes it takes in a batch: subject, headers of the caller and body.
    #[must_use]
    pub fn size(&self) -> usize {
        self.subject.len() + bytes_of(&self.headers) + self.payload.len()
    }

    pub(crate) fn header_map(&self) -> Result<HeaderMap, Error> {
        self.clone().into_part(HeaderMap::new()).map(|part| part.headers)
    }

    /// The message with its headers beside those of `headers`.
    pub(crate) fn into_part(self, mut headers: HeaderMap) -> Result<Part, Error> {
        keep(&mut headers, self.headers, self.ttl, self.msg_id)?;
        if self.rollup {
            insert(&mut headers, ROLLUP, "sub")?;
        }
        Ok(Part { subject: self.subject, headers, payload: self.payload })
    }
}

/// Bytes that headers take.
pub(crate) fn bytes_of(headers: &Headers) -> usize {
    headers.iter().map(|(name, value)| name.len() + value.len()).sum()
}

/// The names that most messages of a batch have, without values, and room for three more headers. A map that grows
/// hashes what it holds again, which a copy of this one need not.
pub(crate) fn roomy() -> HeaderMap {
    static ROOMY: LazyLock<HeaderMap> = LazyLock::new(|| {
        let without_value = |name: &str| (name.to_owned(), serde_json::Value::Array(Vec::new()));
        let names = [TTL, MSG_ID, BATCH_ID, BATCH_SEQ].map(without_value);
        serde_json::from_value(serde_json::Value::Object(names.into_iter().collect()))
            .unwrap_or_default()
    });
    ROOMY.clone()
}

/// Sets the caller's headers, checked, and how long the message is kept under which id.
pub(crate) fn keep<V: Into<String>>(
    map: &mut HeaderMap,
    headers: impl IntoIterator<Item = (&'static str, V)>,
    ttl: Option<Ttl>,
    msg_id: Option<V>,
) -> Result<(), Error> {
    for (name, value) in headers {
        insert_own(map, name, value)?;
    }
    if let Some(ttl) = ttl {
        insert(map, TTL, ttl.header())?;
    }
    if let Some(id) = msg_id {
        insert(map, MSG_ID, id)?;
    }
    Ok(())
}

/// The caller's headers, checked.
pub(crate) fn header_map(headers: &Headers) -> Result<HeaderMap, Error> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        insert_own(&mut map, name, value)?;
    }
    Ok(map)
}

/// Sets one header of the caller's; an instruction to the server is an error.
pub(crate) fn insert_own(
    map: &mut HeaderMap,
    name: &'static str,
    value: impl Into<String>,
) -> Result<(), Error> {
    let reserved = name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("nats-"));
    if reserved {
        return Err(Error::Header(name.to_owned()));
    }
    insert(map, name, value)
}

/// Sets one header; a name or value that cannot be sent is an error, not a panic.
pub(crate) fn insert(
    map: &mut HeaderMap,
    name: &'static str,
    value: impl Into<String>,
) -> Result<(), Error> {
    let value = value.into();
    // The client panics at what it cannot send.
    let named = name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
    if name.is_empty() || !named || value.bytes().any(|byte| matches!(byte, b'\r' | b'\n')) {
        return Err(Error::Header(format!("{name}: {value}").chars().take(128).collect()));
    }
    map.insert(HeaderName::from_static(name), value);
    Ok(())
}

/// A message as it stands in a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its sequence in the stream.
    pub seq: u64,
    /// When the broker stored it, milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Its subject.
    pub subject: String,
    /// Its body.
    pub payload: Bytes,
    pub(crate) headers: HeaderMap,
}

impl StoredMessage {
    /// The first value of a header; names are case-sensitive.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(HeaderValue::as_str)
    }

    /// Every header with every value of it.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers
            .iter()
            .flat_map(|(name, values)| values.iter().map(move |v| (name.as_ref(), v.as_str())))
    }
}

/// Reads a header block as tolerantly as it can be read; what is not a header is left out.
pub(crate) fn read_header_block(block: &[u8]) -> HeaderMap {
    let text = String::from_utf8_lossy(block);
    let mut map = HeaderMap::new();
    for line in text.lines().skip(1) {
        let Some((name, value)) = line.split_once(':') else { continue };
        if let (Ok(name), Ok(value)) =
            (name.parse::<HeaderName>(), value.trim().parse::<HeaderValue>())
        {
            map.append(name, value);
        }
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttls_are_whole_seconds_rounded_up() {
        for (millis, text) in [(0, "1s"), (1, "1s"), (1000, "1s"), (1001, "2s"), (1900, "2s")] {
            assert_eq!(Ttl::at_least(Duration::from_millis(millis)).header(), text, "{millis}");
        }
        assert_eq!(Ttl::Never.header(), "never");
    }

    #[test]
    fn callers_cannot_set_instructions_to_the_server() {
        for name in ["Nats-Rollup", "nats-rollup", "NATS-TTL", "Nats-Expected-Last-Sequence"] {
            let mut message = OutMessage::new("cron.x", "");
            message.headers.push((name, "all".into()));
            assert!(matches!(message.header_map(), Err(Error::Header(_))), "{name}");
        }
    }

    #[test]
    fn a_header_that_cannot_be_sent_is_refused() {
        for (name, value) in [
            ("Cron-Reply", "a\r\nNats-Rollup: all"),
            ("Cron-Reply", "a\nb"),
            ("Bad Name", "x"),
            ("Bad:Name", "x"),
            ("Naïve", "x"),
            ("", "x"),
        ] {
            let mut message = OutMessage::new("cron.x", "");
            message.headers.push((name, value.into()));
            assert!(message.header_map().is_err(), "{name}");
        }
    }

    #[test]
    fn a_roomy_map_has_no_header_yet_and_a_message_only_its_own() {
        let headers = |map: &HeaderMap| map.iter().map(|(_, values)| values.len()).sum::<usize>();
        assert_eq!((roomy().len(), headers(&roomy())), (4, 0));
        let mut message = OutMessage::new("cron.x", "");
        message.headers.push(("Cron-Reply", "a".into()));
        let part = message.into_part(roomy()).unwrap();
        assert_eq!((part.headers.len(), headers(&part.headers)), (5, 1));
    }

    #[test]
    fn a_broken_header_block_yields_what_can_be_read() {
        let map = read_header_block(
            b"NATS/1.0\r\nGood: yes\r\nno colon\r\nBad Name: x\r\nLatin: \xe9t\xe9\r\n\r\n",
        );
        assert_eq!(map.get("Good").unwrap().as_str(), "yes");
        assert_eq!(map.len(), 2);
    }
}
