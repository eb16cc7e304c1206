//! A collector in this process, which takes spans, refuses, hangs, and goes away.
//!
//! Invariant: it ends with the value, and a new one can listen on the same port.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use cronstream_schemas::id::RunId;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message as _;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use crate::seen::Seen;

/// The largest body that is read.
const BODY_MAX: u64 = 4 * 1024 * 1024;

/// What it does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// It takes it.
    Accept,
    /// It takes it but for this many spans.
    Partly(i64),
    /// It answers with this status.
    Refuse(u16),
    /// It reads it and never answers.
    Hang,
}

#[derive(Debug)]
struct Inner {
    mood: watch::Sender<Mood>,
    requests: watch::Sender<u64>,
    spans: Mutex<Vec<Seen>>,
}

/// A collector on a loopback port.
#[derive(Debug)]
pub(crate) struct Collector {
    port: u16,
    inner: Arc<Inner>,
    task: Option<AbortOnDropHandle<()>>,
}

impl Collector {
    /// Starts one on a free port.
    pub(crate) async fn start(mood: Mood) -> Result<Self> {
        let inner = Inner {
            mood: watch::Sender::new(mood),
            requests: watch::Sender::new(0),
            spans: Mutex::default(),
        };
        let mut collector = Self { port: 0, inner: Arc::new(inner), task: None };
        collector.listen().await?;
        Ok(collector)
    }

    /// Listens, on the port it had before.
    pub(crate) async fn listen(&mut self) -> Result<()> {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.context("its port")?;
        self.port = listener.local_addr()?.port();
        let inner = Arc::clone(&self.inner);
        let task = tokio::spawn(async move {
            // Dropped with this task, so that no connection outlives it.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&inner)));
            }
        });
        self.task = Some(AbortOnDropHandle::new(task));
        Ok(())
    }

    /// Goes away.
    pub(crate) async fn leave(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            // Cancelled, as it was told.
            task.await.ok();
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn mood(&self, mood: Mood) {
        self.inner.mood.send_replace(mood);
    }

    /// Waits for so many more requests.
    pub(crate) async fn asked(&self, more: u64) -> Result<()> {
        let mut requests = self.inner.requests.subscribe();
        let enough = *requests.borrow() + more;
        let asked = requests.wait_for(|count| *count >= enough);
        tokio::time::timeout(crate::stage::PATIENCE, asked).await.context("no requests")??;
        Ok(())
    }

    /// What it took of a run, each span once.
    pub(crate) fn spans(&self, run: RunId) -> Vec<Seen> {
        let trace = run.0.simple().to_string();
        let mut spans: Vec<Seen> = Vec::new();
        for span in self.inner.spans().iter().filter(|span| span.trace == trace) {
            if !spans.contains(span) {
                spans.push(span.clone());
            }
        }
        spans
    }
}

impl Inner {
    fn spans(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, body: &[u8]) -> Result<()> {
        let request = ExportTraceServiceRequest::decode(body)?;
        let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        self.spans().extend(scopes.flat_map(|scope| &scope.spans).map(Seen::of_otlp));
        Ok(())
    }
}

async fn serve(stream: TcpStream, inner: Arc<Inner>) {
    let mut stream = BufReader::new(stream);
    loop {
        if let Err(error) = exchange(&mut stream, &inner).await {
            tracing::debug!(%error, "a relay is gone");
            return;
        }
    }
}

async fn exchange(stream: &mut BufReader<TcpStream>, inner: &Inner) -> Result<()> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        anyhow::ensure!(stream.read_line(&mut head).await? > 0, "closed");
    }
    let head = head.to_ascii_lowercase();
    anyhow::ensure!(head.starts_with("post /v1/traces "), "{head}");
    anyhow::ensure!(head.contains("content-type: application/x-protobuf"), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: u64 = length.context("a length")?.parse()?;
    let mut body = Vec::new();
    stream.take(length.min(BODY_MAX)).read_to_end(&mut body).await?;
    inner.requests.send_modify(|count| *count += 1);
    let mood = *inner.mood.borrow();
    let (status, answer) = match mood {
        Mood::Accept => {
            inner.take(&body)?;
            (200, ExportTraceServiceResponse::default())
        }
        Mood::Partly(rejected_spans) => {
            inner.take(&body)?;
            let error_message = "too old".to_owned();
            let partial_success = Some(ExportTracePartialSuccess { rejected_spans, error_message });
            (200, ExportTraceServiceResponse { partial_success })
        }
        Mood::Refuse(status) => (status, ExportTraceServiceResponse::default()),
        Mood::Hang => std::future::pending().await,
    };
    let answer = answer.encode_to_vec();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", answer.len());
    stream.write_all(head.as_bytes()).await?;
    Ok(stream.write_all(&answer).await?)
}
