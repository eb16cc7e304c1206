//! A collector that takes whatever is posted to it and only counts: for tests that are about who may send, not what.
//!
//! Invariant: it ends with the value.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// The largest body that is read.
const BODY_MAX: u64 = 16 * 1024 * 1024;

/// A collector on a free loopback port.
#[derive(Debug)]
pub struct Sink {
    address: String,
    taken: watch::Receiver<u64>,
    _task: AbortOnDropHandle<()>,
}

impl Sink {
    /// Starts it.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let (taken_tx, taken) = watch::channel(0);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let taken_tx = taken_tx.clone();
                tokio::spawn(async move {
                    if let Err(error) = serve(stream, &taken_tx).await {
                        tracing::debug!(%error, "a sender is gone");
                    }
                });
            }
        });
        Ok(Self { address, taken, _task: AbortOnDropHandle::new(task) })
    }

    /// Its `host:port`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Waits until it has taken something.
    ///
    /// # Errors
    /// When nothing comes in time.
    pub async fn taken(&self, within: Duration) -> Result<()> {
        let mut taken = self.taken.clone();
        let some = timeout(within, taken.wait_for(|count| *count > 0)).await;
        some.context("the collector gets nothing")?.map(|_| ()).context("the collector has ended")
    }
}

async fn serve(stream: TcpStream, taken: &watch::Sender<u64>) -> Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0_u64;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = Vec::new();
        (&mut stream).take(length.min(BODY_MAX)).read_to_end(&mut body).await?;
        taken.send_modify(|count| *count += 1);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await?;
    }
}
