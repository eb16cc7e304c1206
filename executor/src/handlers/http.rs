//! An HTTP request of the executor's own tasks file: params are the body, the status decides.
//!
//! Invariant: redirects are not followed and at most 128 KiB of a response are read, so where a request goes
//! and what it costs is what the tasks file says. Failures show the URL without user, password and query.

use std::error::Error as _;
use std::time::Duration;

use cronstream_schemas::header;
use cronstream_schemas::json::{Json, OPAQUE_MAX_BYTES};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Method, Response, StatusCode, Url};

use super::retry_after;
use crate::clock;
use crate::task::{TaskContext, TaskError, TaskResult, body_as_result, too_large};

/// How long one connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The most characters of a refusing response's body in a failure's message.
const LAST_WORDS_CHARS: usize = 512;
/// By which a server can refuse a repetition.
const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// What to request.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    /// The method.
    pub(crate) method: Method,
    /// Where.
    pub(crate) url: Url,
    /// Headers beside ours; marked sensitive, so they are never printed.
    pub(crate) headers: HeaderMap,
    /// The executor's client.
    pub(crate) client: Client,
}

/// The client that all HTTP tasks of an executor share.
pub(crate) fn client() -> Result<Client, reqwest::Error> {
    // Another part of the program may have installed one; either will do.
    rustls::crypto::ring::default_provider().install_default().ok();
    Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("cronstream/", env!("CARGO_PKG_VERSION")))
        .build()
}

impl Http {
    /// Sends the request and reads the response.
    pub(crate) async fn run(&self, context: &TaskContext, params: &Json) -> TaskResult {
        let mut headers = self.headers.clone();
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        for (name, value) in ours(context) {
            let value = HeaderValue::try_from(value)
                .map_err(|error| TaskError::fatal(format!("header {name}: {error}")))?;
            headers.insert(name, value);
        }
        let request = self
            .client
            .request(self.method.clone(), self.url.clone())
            .headers(headers)
            .body(params.as_str().to_owned());
        let response = request.send().await.map_err(|error| self.broken(error))?;
        let status = response.status();
        if status.is_success() {
            return self.read_result(response).await;
        }
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| retry_after::parse(value.to_str().ok()?, clock::now()));
        let body = self.read(response).await.map(|(body, _)| body).unwrap_or_default();
        Err(refusal(&self.name(), status, retry_after, &body))
    }

    async fn read_result(&self, response: Response) -> TaskResult {
        let content_type = response.headers().get(CONTENT_TYPE).cloned();
        let is_json = || {
            let media =
                content_type.as_ref().and_then(|value| value.to_str().ok()).unwrap_or_default();
            let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            media == "application/json" || media.ends_with("+json")
        };
        match self.read(response).await? {
            (_, Whole::No { size }) => Err(too_large("the response", size)),
            (body, Whole::Yes) => body_as_result(&body, is_json),
        }
    }

    /// The body, as far as it is within the bound.
    async fn read(&self, mut response: Response) -> Result<(Vec<u8>, Whole), TaskError> {
        let announced = response.content_length().and_then(|n| usize::try_from(n).ok());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(error))? {
            let size = body.len() + chunk.len();
            if size > OPAQUE_MAX_BYTES {
                return Ok((body, Whole::No { size: announced.unwrap_or(size).max(size) }));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((body, Whole::Yes))
    }

    fn broken(&self, error: reqwest::Error) -> TaskError {
        let error = error.without_url();
        let mut message = format!("{}: {error}", self.name());
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        TaskError::retry(message)
    }

    /// The method and URL as they may be printed.
    fn name(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.set_fragment(None);
        // Fails only for URLs that cannot have a user, and then there is none to hide.
        url.set_username("").ok();
        url.set_password(None).ok();
        format!("{} {url}", self.method)
    }
}

/// Whether a body was read to its end.
enum Whole {
    Yes,
    No { size: usize },
}

fn ours(context: &TaskContext) -> [(&'static str, String); 7] {
    [
        (IDEMPOTENCY_KEY, context.idempotency_key()),
        (header::TRACEPARENT, context.traceparent.clone()),
        (header::RUN, context.run.to_string()),
        (header::JOB, context.job.to_string()),
        (header::ATTEMPT, context.attempt.to_string()),
        (header::SCHEDULED_AT, context.slot.to_string()),
        (header::FENCING_TOKEN, context.fencing_token.to_string()),
    ]
}

fn refusal(
    name: &str,
    status: StatusCode,
    retry_after: Option<Duration>,
    body: &[u8],
) -> TaskError {
    let body = String::from_utf8_lossy(body);
    let words: String = body.trim().chars().take(LAST_WORDS_CHARS).collect();
    let separator = if words.is_empty() { "" } else { ": " };
    let message = format!("{name} answered {status}{separator}{words}");
    let retryable = status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
        );
    match (retryable, retry_after) {
        (true, Some(after)) => TaskError::retry_after(message, after),
        (true, None) => TaskError::retry(message),
        (false, _) => TaskError::fatal(message),
    }
}

/// Reads the value of a header that is sent as the tasks file says it.
pub(crate) fn sensitive(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use crate::task::tests::context;

    /// Answers one request with these bytes; gives the request.
    async fn answer(response: String) -> (Url, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.ends_with(b"}") {
                let count = stream.read(&mut buffer).await.unwrap();
                request.extend_from_slice(&buffer[..count]);
            }
            stream.write_all(response.as_bytes()).await.unwrap();
            String::from_utf8(request).unwrap()
        });
        let url = format!("http://user:pass@127.0.0.1:{port}/hook?key=secret");
        (url.parse().unwrap(), served)
    }

    fn task(url: Url) -> Http {
        let headers = HeaderMap::from_iter([(
            reqwest::header::HeaderName::from_static("x-api-key"),
            sensitive("sesame").unwrap(),
        )]);
        Http { method: Method::POST, url, headers, client: client().unwrap() }
    }

    async fn exchange(status: &str, headers: &str, body: &str) -> (TaskResult, String) {
        let length = body.len();
        let response =
            format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
        let (url, served) = answer(response).await;
        let params = Json::parse(r#"{"n":12345678901234567890}"#).unwrap();
        let result = task(url).run(&context(), &params).await;
        (result, served.await.unwrap())
    }

    #[tokio::test]
    async fn a_success_carries_params_headers_and_result_bit_for_bit() {
        let json = "content-type: application/json; charset=utf-8\r\n";
        let (result, request) = exchange("200 OK", json, r#"{"m":98765432109876543210}"#).await;
        assert_eq!(result.unwrap().unwrap().as_str(), r#"{"m":98765432109876543210}"#);
        let request = request.to_ascii_lowercase();
        let key = context().idempotency_key();
        for part in [
            "post /hook?key=secret",
            "content-type: application/json",
            "x-api-key: sesame",
            &format!("idempotency-key: {key}"),
            "cron-attempt: 2",
            "cron-fencing-token: 77",
            "traceparent: 00-",
            r#"{"n":12345678901234567890}"#,
        ] {
            assert!(request.contains(part), "{part} in {request}");
        }
        let (result, _) = exchange("204 No Content", "", "").await;
        assert_eq!(result, Ok(None));
        let (result, _) = exchange("200 OK", "content-type: text/plain\r\n", "fine").await;
        assert_eq!(result.unwrap().unwrap().as_str(), r#""fine""#);
    }

    #[tokio::test]
    async fn the_status_decides_whether_to_try_again() {
        let name = |error: TaskError| format!("{error:?}");
        for (status, retried) in [
            ("408 Request Timeout", true),
            ("425 Too Early", true),
            ("429 Too Many Requests", true),
            ("500 Internal Server Error", true),
            ("503 Service Unavailable", true),
            ("301 Moved Permanently", false),
            ("400 Bad Request", false),
            ("404 Not Found", false),
        ] {
            let (result, _) =
                exchange(status, "location: http://127.0.0.1:1/\r\n", "no luck").await;
            let error = name(result.unwrap_err());
            assert_eq!(error.contains("After(None)"), retried, "{error}");
            assert!(error.contains(&format!("/hook answered {status}: no luck")), "{error}");
            assert!(!error.contains("secret") && !error.contains("pass"), "{error}");
        }
    }

    #[tokio::test]
    async fn retry_after_is_honoured() {
        let (result, _) = exchange("503 Service Unavailable", "retry-after: 120\r\n", "").await;
        let error = format!("{:?}", result.unwrap_err());
        assert!(error.contains("After(Some(2m))"), "{error}");
    }

    #[tokio::test]
    async fn a_response_over_the_bound_fails_for_good() {
        let (result, _) = exchange("200 OK", "", &"x".repeat(OPAQUE_MAX_BYTES + 1)).await;
        let expected = "the response has 131073 bytes, at most 131072 are kept";
        assert_eq!(result, Err(TaskError::fatal(expected)));
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_tried_again() {
        let error = task("http://u:secret@127.0.0.1:1/x?k=secret".parse().unwrap())
            .run(&context(), &Json::empty())
            .await
            .unwrap_err();
        let error = format!("{error:?}");
        assert!(error.contains("After(None)") && error.contains("refused"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
