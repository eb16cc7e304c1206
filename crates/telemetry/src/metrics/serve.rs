//! The HTTP endpoint of a node: three paths, read only.
//!
//! Invariant: at most [`CONNECTIONS_MAX`] connections, each of which sends its request within [`HEADER_WITHIN`].

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use super::page::{Format, Page};

/// Connections at a time, at most; more wait to be accepted.
pub const CONNECTIONS_MAX: usize = 32;
/// How long a client may take to send a request, or leave a connection idle.
const HEADER_WITHIN: Duration = Duration::from_secs(30);
/// How long a connection may last: Prometheus opens another one.
const CONNECTION_MAX: Duration = Duration::from_secs(600);
/// How long accepting pauses after it failed, as when all file descriptors are in use.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
const PLAIN: &str = "text/plain; charset=utf-8";

/// A listening endpoint; it answers until it is dropped.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    _task: AbortOnDropHandle<()>,
}

impl Endpoint {
    /// Listens and begins to answer.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn start(address: SocketAddr, page: Page) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        tracing::info!(%address, "serving /metrics, /healthz and /readyz");
        let task = AbortOnDropHandle::new(tokio::spawn(accept(listener, page)));
        Ok(Self { address, _task: task })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept(listener: TcpListener, page: Page) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = Arc::clone(&room).acquire_owned().await.expect("nobody closes it");
        match listener.accept().await {
            Ok((stream, _)) => {
                let page = page.clone();
                tokio::spawn(async move {
                    // A connection that is cut off or lasts too long is the client's to open again.
                    tokio::time::timeout(CONNECTION_MAX, converse(stream, page)).await.ok();
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection to /metrics was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, page: Page) {
    let answers = service_fn(|request| {
        let response = answer(&page, &request);
        async move { Ok::<_, Infallible>(response) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_WITHIN)
        .serve_connection(TokioIo::new(stream), answers);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection to /metrics ended early");
    }
}

fn answer(page: &Page, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut refusal = respond(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "GET only\n".into());
        refusal.headers_mut().insert(ALLOW, "GET, HEAD".parse().expect("it is plain ASCII"));
        return refusal;
    }
    let health = |(good, text): (bool, String)| {
        let status = if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        respond(status, PLAIN, text)
    };
    match request.uri().path() {
        "/metrics" => {
            let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
            let format = Format::of(accept.unwrap_or_default());
            respond(StatusCode::OK, format.content_type(), page.encode(format))
        }
        "/healthz" => health(page.healthz()),
        "/readyz" => health(page.readyz()),
        _ => respond(StatusCode::NOT_FOUND, PLAIN, "/metrics, /healthz or /readyz\n".into()),
    }
}

fn respond(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    Response::builder()
        .status(status)
        .header(CONTENT_TYPE, content_type)
        .body(Full::new(body.into()))
        .expect("all parts are valid")
}
