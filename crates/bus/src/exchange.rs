//! One request and its answer, on any subject; JetStream's API on top of it.
//!
//! The bus speaks JetStream's documented JSON itself, on the plain NATS client: publishing needs
//! headers, error codes and certainty about what was sent that a higher layer hides.

use std::time::Duration;

use async_nats::{HeaderMap, Message, Request, RequestErrorKind};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::broadcast::error::RecvError;

use crate::connect::{Bus, Kind, REQUEST_TIMEOUT, Sign};
use crate::error::Error;
use crate::event::{Action, BusEvent};

/// JetStream's error codes that callers distinguish.
pub(crate) mod code {
    pub(crate) const NOT_AVAILABLE: u64 = 10008;
    pub(crate) const NOT_LEADER: u64 = 10009;
    pub(crate) const CONSUMER_NOT_FOUND: u64 = 10014;
    pub(crate) const NO_MESSAGE: u64 = 10037;
    pub(crate) const STREAM_NOT_FOUND: u64 = 10059;
    pub(crate) const WRONG_LAST_SEQ: u64 = 10071;
    pub(crate) const DUPLICATE_IN_PROCESS: u64 = 10158;
    pub(crate) const LAST_SEQ_NOT_READY: u64 = 10163;
    pub(crate) const WRONG_LAST_SEQ_IN_FLIGHT: u64 = 10164;
    pub(crate) const TOO_MANY_REQUESTS: u64 = 10167;
    pub(crate) const BATCH_INCOMPLETE: u64 = 10176;
    pub(crate) const BATCH_DUPLICATE: u64 = 10201;
    pub(crate) const BATCHES_IN_FLIGHT: u64 = 10210;
    /// The status of "nobody listens there", which is what a stream without leader looks like.
    pub(crate) const NO_RESPONDERS: u64 = 503;
}

/// A server that keeps a copy answers its leader every second; after this it is away.
const PEER_SILENCE_MAX: Duration = Duration::from_secs(10);

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no connection; nothing was sent.
    Offline,
    /// Nobody listens on that subject; nothing was done.
    NoResponders,
    /// The user may not publish there, or may not receive the answer.
    Denied { subject: String },
    /// No answer in time: unknown whether it was done.
    TimedOut,
    /// The connection broke meanwhile: unknown whether it was done.
    Broken,
    /// It cannot be sent at all.
    Invalid(Error),
}

impl Failure {
    pub(crate) fn into_error(self, what: &str) -> Error {
        let what = what.to_owned();
        match self {
            Self::Offline | Self::NoResponders => Error::Unavailable { what },
            Self::Denied { subject } => Error::Denied { subject },
            Self::TimedOut | Self::Broken => Error::TimedOut { what },
            Self::Invalid(error) => error,
        }
    }
}

/// The error object in JetStream's answers.
#[derive(Debug, Clone, serde::Deserialize)]
pub(crate) struct ApiError {
    /// An HTTP-like status.
    pub(crate) code: u64,
    #[serde(default)]
    pub(crate) err_code: u64,
    #[serde(default)]
    pub(crate) description: String,
}

#[derive(serde::Deserialize)]
struct ErrorOnly {
    error: Option<ApiError>,
}

/// Who leads a stream, in answers about it.
#[derive(serde::Deserialize)]
pub(crate) struct Group {
    #[serde(default)]
    leader: String,
    /// The others that keep it, as the leader sees them.
    #[serde(default)]
    replicas: Option<Vec<Peer>>,
}

/// A server that keeps a copy of a stream.
#[derive(serde::Deserialize)]
struct Peer {
    name: String,
    #[serde(default)]
    offline: bool,
    /// Whether it has what its leader has.
    #[serde(default)]
    current: bool,
    /// Nanoseconds since it said something.
    #[serde(default)]
    active: u64,
}

impl Peer {
    /// The server calls one that was killed offline only after minutes.
    fn is_away(&self) -> bool {
        self.offline || (!self.current && Duration::from_nanos(self.active) > PEER_SILENCE_MAX)
    }
}

impl Group {
    /// Whether nobody leads: a server without a majority answers all the same, from its own copy.
    pub(crate) fn is_leaderless(&self) -> bool {
        self.leader.is_empty()
    }

    /// The servers that keep a copy and do not answer their leader.
    pub(crate) fn offline(&self) -> Vec<String> {
        let peers = self.replicas.iter().flatten();
        peers.filter(|peer| peer.is_away()).map(|peer| peer.name.clone()).collect()
    }
}

/// What an answer says of the server: one that is cut off from the others refuses by 10008, or tells of a stream
/// that nobody leads. Until it notices, it refuses writes for other reasons too: only a stored message shows that the
/// others are there.
fn sign_of(kind: Kind, payload: &[u8]) -> Sign {
    #[derive(serde::Deserialize)]
    struct Answer {
        error: Option<ApiError>,
        cluster: Option<Group>,
    }
    let Ok(Answer { error, cluster }) = serde_json::from_slice(payload) else {
        return Sign::Answered(Kind::Read);
    };
    match error.map(|error| error.err_code) {
        Some(code::NOT_AVAILABLE | code::NOT_LEADER) => Sign::Unavailable,
        Some(code::WRONG_LAST_SEQ_IN_FLIGHT | code::DUPLICATE_IN_PROCESS) => Sign::InFlight,
        Some(_) => Sign::Answered(Kind::Read),
        None if cluster.is_some_and(|group| group.is_leaderless()) => Sign::Unavailable,
        None => Sign::Answered(kind),
    }
}

impl Bus {
    /// Sends a request that counts for the connection's health, and waits for the answer.
    pub(crate) async fn exchange(
        &self,
        subject: &str,
        headers: Option<HeaderMap>,
        payload: Bytes,
    ) -> Result<Message, Failure> {
        let kind = if subject.starts_with("$JS.API.") { Kind::Read } else { Kind::Write };
        let answer = self.exchange_within(subject, headers, payload, REQUEST_TIMEOUT).await;
        match &answer {
            Ok(answer) => self.note(sign_of(kind, &answer.payload)).await,
            Err(Failure::Denied { .. }) => self.note(Sign::Answered(kind)).await,
            Err(Failure::NoResponders) => self.note(Sign::Unavailable).await,
            Err(Failure::TimedOut) => self.note(Sign::TimedOut(kind)).await,
            Err(Failure::Offline | Failure::Broken | Failure::Invalid(_)) => {}
        }
        answer
    }

    /// Sends a request and waits for the answer, a denial, a broken connection or the timeout.
    pub(crate) async fn exchange_within(
        &self,
        subject: &str,
        headers: Option<HeaderMap>,
        payload: Bytes,
        timeout: Duration,
    ) -> Result<Message, Failure> {
        if !self.is_connected() {
            return Err(Failure::Offline);
        }
        if self.inbox_is_denied() {
            return Err(Failure::Denied { subject: format!("{}.>", self.inner.inbox_prefix) });
        }
        let size = payload.len();
        let mut request = Request::new().payload(payload).timeout(Some(timeout));
        if let Some(headers) = headers {
            request = request.headers(headers);
        }
        let broken = self.broken(|denied| denied == subject);
        tokio::select! {
            answer = self.inner.client.send_request(subject.to_owned(), request) => {
                answer.map_err(|error| self.request_failure(error.kind(), subject, size))
            }
            failure = broken => Err(failure),
        }
    }

    fn request_failure(&self, kind: RequestErrorKind, subject: &str, size: usize) -> Failure {
        let what = subject.to_owned();
        match kind {
            RequestErrorKind::TimedOut => Failure::TimedOut,
            RequestErrorKind::Other => Failure::Broken,
            RequestErrorKind::NoResponders => Failure::NoResponders,
            RequestErrorKind::InvalidSubject => Failure::Invalid(Error::Subject(what)),
            RequestErrorKind::MaxPayloadExceeded => {
                let limit = self.max_payload();
                Failure::Invalid(Error::TooLarge { what, size, limit })
            }
        }
    }

    /// Resolves when the connection breaks or a subject that concerns the caller is denied. Listens
    /// from the call on, not from the first poll.
    pub(crate) fn broken(&self, concerns: impl Fn(&str) -> bool) -> impl Future<Output = Failure> {
        let mut events = self.events();
        let inbox = self.inner.inbox_prefix.clone();
        async move {
            loop {
                match events.recv().await {
                    Ok(BusEvent::Disconnected | BusEvent::Closed) => return Failure::Broken,
                    Ok(BusEvent::Denied { action: Action::Publish, subject })
                        if concerns(&subject) =>
                    {
                        return Failure::Denied { subject };
                    }
                    Ok(BusEvent::Denied { action: Action::Subscribe, subject })
                        if subject.starts_with(&inbox) =>
                    {
                        return Failure::Denied { subject };
                    }
                    Ok(
                        BusEvent::Connected
                        | BusEvent::LameDuck
                        | BusEvent::SlowConsumer
                        | BusEvent::Denied { .. }
                        | BusEvent::Moved { .. }
                        | BusEvent::Error(_),
                    )
                    | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Failure::Broken,
                }
            }
        }
    }

    /// Asks JetStream's API; `what` is the subject without `$JS.API.`.
    pub(crate) async fn api<T: DeserializeOwned>(
        &self,
        what: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        let decode = |source| Error::Decode { what: what.to_owned(), source: Box::new(source) };
        let body = serde_json::to_vec(body).map_err(decode)?;
        let answer = self
            .exchange(&format!("$JS.API.{what}"), None, body.into())
            .await
            .map_err(|failure| failure.into_error(what))?;
        let ErrorOnly { error } = serde_json::from_slice(&answer.payload).map_err(decode)?;
        match error {
            Some(error) => Err(error.into_error(what)),
            None => serde_json::from_slice(&answer.payload).map_err(decode),
        }
    }
}

impl ApiError {
    fn into_error(self, what: &str) -> Error {
        match self.err_code {
            code::NOT_AVAILABLE | code::NOT_LEADER => Error::Unavailable { what: what.to_owned() },
            code::STREAM_NOT_FOUND => Error::NotInitialised { what: stream_of(what).to_owned() },
            _ => Error::Refused {
                what: what.to_owned(),
                code: if self.err_code == 0 { self.code } else { self.err_code },
                description: self.description,
            },
        }
    }
}

/// The stream that a request to the API is about.
fn stream_of(what: &str) -> &str {
    let mut tokens = what.split('.').skip(1);
    let verb = tokens.next();
    let stream = if verb == Some("MSG") { tokens.nth(1) } else { tokens.next() };
    stream.unwrap_or(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stored_message_shows_that_a_write_goes_through() {
        for (payload, expected) in [
            (r#"{"stream":"CRON_LOG","seq":7}"#, "Answered(Write)"),
            (
                r#"{"error":{"code":400,"err_code":10071,"description":"wrong last"}}"#,
                "Answered(Read)",
            ),
            (
                r#"{"error":{"code":503,"err_code":10008,"description":"not available"}}"#,
                "Unavailable",
            ),
            (r#"{"error":{"code":400,"err_code":10164,"description":"wrong last"}}"#, "InFlight"),
            (r#"{"state":{},"cluster":{"name":"c","replicas":[]}}"#, "Unavailable"),
            (r#"{"state":{},"cluster":{"name":"c","leader":"n1"}}"#, "Answered(Write)"),
            ("not json", "Answered(Read)"),
        ] {
            let sign = format!("{:?}", sign_of(Kind::Write, payload.as_bytes()));
            assert_eq!(sign, expected, "{payload}");
        }
    }

    #[test]
    fn servers_that_do_not_answer_their_leader_are_named() {
        let group = r#"{"leader":"n0","replicas":[{"name":"n1","current":true,"active":1},
            {"name":"n2","current":false,"offline":true,"active":9,"lag":3},
            {"name":"n3","current":false,"active":11000000000,"lag":3},
            {"name":"n4","current":false,"active":9000000,"lag":3}]}"#;
        let offline = |text| serde_json::from_str::<Group>(text).unwrap().offline();
        assert_eq!(offline(group), ["n2", "n3"]);
        assert!(offline(r#"{"leader":"n0","replicas":null}"#).is_empty());
        assert!(offline(r#"{"leader":"n0"}"#).is_empty());
    }

    #[test]
    fn a_missing_stream_is_named() {
        for what in [
            "STREAM.INFO.CRON_LOG",
            "STREAM.MSG.GET.CRON_LOG",
            "CONSUMER.CREATE.CRON_LOG.q.cron.fire.q.>",
            "CONSUMER.INFO.CRON_LOG.q",
        ] {
            assert_eq!(stream_of(what), "CRON_LOG", "{what}");
        }
    }
}
