//! The other side of HTTP tasks: each request waits until the test answers it.

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::stage::PATIENCE;

/// A server on a loopback port that serves one request after the other.
#[derive(Debug)]
pub(crate) struct Web {
    listener: TcpListener,
}

/// A request that waits for its answer.
#[derive(Debug)]
pub(crate) struct Call {
    stream: TcpStream,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Web {
    pub(crate) async fn start() -> Result<Self> {
        Ok(Self { listener: TcpListener::bind(("127.0.0.1", 0)).await? })
    }

    /// The tasks of a tasks file that call it by this name.
    pub(crate) fn task(&self, name: &str) -> Result<String> {
        let address = self.listener.local_addr()?;
        Ok(format!("[tasks.{name}]\nhttp.url = \"http://{address}/\"\n"))
    }

    /// The next request.
    pub(crate) async fn next(&self) -> Result<Call> {
        let accepted = timeout(PATIENCE, self.listener.accept()).await.context("nobody calls")?;
        let mut stream = BufReader::new(accepted?.0);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            anyhow::ensure!(stream.read_line(&mut head).await? > 0, "half a request: {head}");
        }
        let length = head.to_ascii_lowercase();
        let length = length.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length = length.map_or(Ok(0), |length| length.trim().parse())?;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        Ok(Call { stream: stream.into_inner(), head, body: String::from_utf8(body)? })
    }
}

impl Call {
    /// Answers with a status line, further headers, and a body.
    pub(crate) async fn answer(mut self, status: &str, headers: &str, body: &str) -> Result<()> {
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(answer.as_bytes()).await?;
        Ok(self.stream.shutdown().await?)
    }
}
