//! One exchange with a collector, by the rules of OTLP over HTTP.
//!
//! Invariant: no login is shown or logged, no redirect is followed, and at most [`ANSWER_MAX_BYTES`] of an answer are
//! read.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url};

/// Where a collector takes traces.
const PATH: &str = "v1/traces";
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");
/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one exchange may take.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of an answer is read.
const ANSWER_MAX_BYTES: usize = 64 * 1024;
/// How much of it is told.
const WORDS_MAX_CHARS: usize = 256;
/// The longest `Retry-After` that is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// Why a relay cannot work.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The collector's address is none.
    #[error("collector address {0:?} is not of the form http://host:4318")]
    Address(String),
    /// A header for the collector cannot be sent.
    #[error("header {0:?} for the collector cannot be sent")]
    Header(String),
    /// The HTTP client cannot be made.
    #[error("no HTTP client")]
    Client(#[source] reqwest::Error),
    /// The bus could not be used.
    #[error(transparent)]
    Bus(#[from] cronstream_bus::Error),
}

/// What became of a batch.
#[derive(Debug)]
pub(super) enum Sent {
    /// The collector has it, but for `rejected` spans.
    Taken { spans: u64, rejected: u64, words: String },
    /// It never will: this batch is not to its liking, or is none.
    Refused { why: String },
    /// It may later, not before `after`.
    Again { after: Duration, why: Option<String> },
}

/// A collector.
#[derive(Debug)]
pub(super) struct Collector {
    client: Client,
    url: Url,
    shown: String,
}

impl Collector {
    pub(super) fn new(base: &str, headers: &[(String, String)]) -> Result<Self, RelayError> {
        // Another part of the program may have installed one; either will do.
        rustls::crypto::ring::default_provider().install_default().ok();
        let (url, shown) = address(base)?;
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let wrong = || RelayError::Header(name.clone());
            let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            map.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?, value);
        }
        let client = Client::builder()
            .default_headers(map)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(EXCHANGE_TIMEOUT)
            .user_agent(concat!("cronstream/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(RelayError::Client)?;
        Ok(Self { client, url, shown })
    }

    /// Its address without a login.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Sends a batch, once.
    pub(super) async fn send(&self, body: &Bytes) -> Sent {
        let Ok(request) = ExportTraceServiceRequest::decode(body.clone()) else {
            return Sent::Refused { why: "it holds no spans".into() };
        };
        let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        let spans = scopes.map(|scope| scope.spans.len() as u64).sum();
        let post = self.client.post(self.url.clone()).header(CONTENT_TYPE, PROTOBUF);
        match post.body(body.clone()).send().await {
            Ok(response) => read(response, spans).await,
            Err(error) => Sent::Again { after: Duration::ZERO, why: Some(broken(error)) },
        }
    }
}

/// Where to send batches to, and how that is shown.
fn address(base: &str) -> Result<(Url, String), RelayError> {
    let shown = |url: &Url| {
        let mut url = url.clone();
        // They fail only for addresses that have no host.
        url.set_username("").ok();
        url.set_password(None).ok();
        url.to_string()
    };
    // A text that is no address is not told: it may hold a password.
    let unreadable = || RelayError::Address("…".into());
    let mut url: Url = base.parse().map_err(|_| unreadable())?;
    if !url.has_host() {
        return Err(unreadable());
    }
    let usable = matches!(url.scheme(), "http" | "https");
    if !usable || url.query().is_some() || url.fragment().is_some() {
        url.set_query(None);
        return Err(RelayError::Address(shown(&url)));
    }
    let whole = url.path().trim_end_matches('/').to_owned();
    if !whole.ends_with(PATH) {
        url.set_path(&format!("{whole}/{PATH}"));
    }
    let shown = shown(&url);
    Ok((url, shown))
}

async fn read(response: Response, spans: u64) -> Sent {
    let status = response.status();
    let after = retry_after(response.headers());
    let body = body(response).await;
    if status.is_success() {
        let partial = ExportTraceServiceResponse::decode(body.as_slice())
            .ok()
            .and_then(|answer| answer.partial_success);
        let (rejected, words) = match partial {
            Some(partial) => (
                u64::try_from(partial.rejected_spans).unwrap_or(0).min(spans),
                words(partial.error_message.as_bytes()),
            ),
            None => (0, String::new()),
        };
        return Sent::Taken { spans, rejected, words };
    }
    let why = format!("{status} {}", words(&body)).trim_end().to_owned();
    if is_about_the_batch(status) {
        Sent::Refused { why }
    } else {
        Sent::Again { after, why: Some(why) }
    }
}

/// Whether a status judges the batch, so that another one may fare better. An address that does not exist or a
/// login that is not accepted would be the end of every batch: they are tried until somebody has seen to it.
fn is_about_the_batch(status: StatusCode) -> bool {
    let about_us = [
        StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN,
        StatusCode::NOT_FOUND,
        StatusCode::METHOD_NOT_ALLOWED,
        StatusCode::PROXY_AUTHENTICATION_REQUIRED,
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_EARLY,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    status.is_client_error() && !about_us.contains(&status)
}

fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0)).min(RETRY_AFTER_MAX)
}

/// The start of an answer, as far as it comes.
async fn body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk[..chunk.len().min(ANSWER_MAX_BYTES - body.len())]);
        if body.len() == ANSWER_MAX_BYTES {
            break;
        }
    }
    body
}

/// What an answer says, as far as it can be read by a person.
fn words(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let plain = text.chars().map(|c| if c.is_control() || c == '\u{fffd}' { ' ' } else { c });
    plain.take(WORDS_MAX_CHARS).collect::<String>().trim().to_owned()
}

fn broken(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        message.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_completed_and_shown_without_its_login() {
        let both = |base: &str| {
            let (url, shown) = address(base).unwrap();
            (url.to_string(), shown)
        };
        let plain = "http://h:4318/v1/traces".to_owned();
        for base in ["http://h:4318", "http://h:4318/", "http://h:4318/v1/traces"] {
            assert_eq!(both(base), (plain.clone(), plain.clone()), "{base}");
        }
        let (url, shown) = both("https://u:secret@h/otlp");
        assert_eq!(url, "https://u:secret@h/otlp/v1/traces");
        assert_eq!(shown, "https://h/otlp/v1/traces");
        for wrong in [
            "h:4318",
            "u:secret@h",
            "ftp://u:secret@h",
            "http://u:secret@h/?k=secret",
            "",
            "secret",
        ] {
            let message = address(wrong).unwrap_err().to_string();
            assert!(!message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn a_refused_batch_is_told_from_a_refused_relay() {
        for (status, about_the_batch) in [
            (400, true),
            (413, true),
            (422, true),
            (401, false),
            (403, false),
            (404, false),
            (408, false),
            (429, false),
            (500, false),
            (503, false),
            (301, false),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(is_about_the_batch(status), about_the_batch, "{status}");
        }
    }
}
