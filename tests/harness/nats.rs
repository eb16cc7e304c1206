//! A NATS client for the tests alone, written from the protocol and not from the bus.
//!
//! What the checker reads and what a foreign client publishes must not pass through the code under test. A
//! [`Nats`] is one connection to one server: when it breaks, every call fails and the caller connects anew.
//!
//! ```text
//! Nats (handle) ── Input::{Send, Subscribe} ──► loop: routes ──► one channel per subscription
//!                        reader task ── Input::{Frame, Closed} ──┘
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// How long a server may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// The longest protocol line.
const LINE_MAX: u64 = 64 * 1024;
/// The largest message with its headers.
const MESSAGE_MAX: usize = 8 * 1024 * 1024;
/// Inputs of the connection's loop that wait at most.
const INPUTS_MAX: usize = 1_024;
/// Messages of one subscription that wait at most; one more ends the connection.
const WAITING_MAX: usize = 65_536;

/// Names and values of a message's headers.
pub type Headers = Vec<(String, String)>;

/// A message as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its subject.
    pub subject: String,
    /// Where an answer is expected.
    pub reply: Option<String>,
    /// The status of a message without a publisher, such as 503.
    pub status: Option<u16>,
    /// Its headers.
    pub headers: Headers,
    /// Its body.
    pub body: Vec<u8>,
}

impl Message {
    /// The first header of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// A handle of one connection; cheap to clone.
#[derive(Debug, Clone)]
pub struct Nats {
    inputs: mpsc::Sender<Input>,
    next: Arc<AtomicU64>,
    inbox: Arc<str>,
}

/// Messages of one subject; it keeps its connection open.
#[derive(Debug)]
pub struct Subscription {
    messages: mpsc::Receiver<Message>,
    _connection: Nats,
}

impl Subscription {
    /// The next message; an error once the connection is gone.
    ///
    /// # Errors
    /// When the connection broke.
    pub async fn next(&mut self) -> Result<Message> {
        self.messages.recv().await.context("the connection to nats-server is gone")
    }
}

#[derive(Debug)]
enum Input {
    Send(Vec<u8>),
    Subscribe { id: u64, line: Vec<u8>, to: mpsc::Sender<Message> },
    Frame(Frame),
    Closed(String),
}

#[derive(Debug)]
enum Frame {
    Ping,
    Message { id: u64, message: Message },
    Error(String),
    Other,
}

impl Nats {
    /// Connects to the first of `urls` (`nats://host:port`) that answers.
    ///
    /// # Errors
    /// When none of them does.
    pub async fn connect(urls: &[String]) -> Result<Self> {
        let mut last = anyhow!("no address to connect to");
        for url in urls {
            match timeout(CONNECT_MAX, Self::connect_one(url)).await {
                Ok(Ok(nats)) => return Ok(nats),
                Ok(Err(error)) => last = error,
                Err(_) => last = anyhow!("{url} does not answer in {CONNECT_MAX:?}"),
            }
        }
        Err(last)
    }

    async fn connect_one(url: &str) -> Result<Self> {
        let address = url.strip_prefix("nats://").unwrap_or(url);
        let stream = TcpStream::connect(address).await.with_context(|| format!("connect {url}"))?;
        stream.set_nodelay(true)?;
        let (reader, mut writer) = stream.into_split();
        let mut reader = BufReader::new(reader);
        let hello = read_line(&mut reader).await?;
        if !hello.starts_with("INFO ") {
            bail!("{url} is not a nats-server: {hello:?}");
        }
        writer
            .write_all(b"CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,\"name\":\"cronstream-tests\"}\r\nPING\r\n")
            .await?;
        // The answer to the first PING says that the server has taken the CONNECT.
        while read_line(&mut reader).await? != "PONG" {}
        let (inputs, queue) = mpsc::channel(INPUTS_MAX);
        tokio::spawn(read_frames(reader, inputs.downgrade()));
        tokio::spawn(route(writer, queue));
        let inbox = format!("_INBOX.{}", uuid::Uuid::new_v4().simple()).into();
        Ok(Self { inputs, next: Arc::new(AtomicU64::new(1)), inbox })
    }

    /// Whether the connection is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inputs.is_closed()
    }

    /// A subject that nobody else listens on.
    #[must_use]
    pub fn new_inbox(&self) -> String {
        format!("{}.{}", self.inbox, self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Publishes, as `nats pub` would.
    ///
    /// # Errors
    /// When the connection is gone. Success says only that the bytes are on their way.
    pub async fn publish(&self, subject: &str, headers: &Headers, body: &[u8]) -> Result<()> {
        self.input(Input::Send(publish_frame(subject, None, headers, body))).await
    }

    /// Listens on a subject.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn subscribe(&self, subject: &str) -> Result<Subscription> {
        self.listen(subject, "").await
    }

    /// Publishes and waits for one answer.
    ///
    /// # Errors
    /// When the connection breaks, nobody listens, or no answer comes in time.
    pub async fn request(
        &self,
        subject: &str,
        headers: &Headers,
        body: &[u8],
        within: Duration,
    ) -> Result<Message> {
        let inbox = self.new_inbox();
        let mut answers = self.listen(&inbox, "once").await?;
        let frame = publish_frame(subject, Some(&inbox), headers, body);
        self.input(Input::Send(frame)).await?;
        let answer = timeout(within, answers.next())
            .await
            .map_err(|_| anyhow!("no answer on {subject} in {within:?}"))??;
        match answer.status {
            Some(503) => bail!("nobody listens on {subject}"),
            Some(_) | None => Ok(answer),
        }
    }

    async fn listen(&self, subject: &str, how: &str) -> Result<Subscription> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut line = format!("SUB {subject} {id}\r\n");
        if how == "once" {
            line.push_str(&format!("UNSUB {id} 1\r\n"));
        }
        let (to, messages) = mpsc::channel(if how == "once" { 1 } else { WAITING_MAX });
        self.input(Input::Subscribe { id, line: line.into_bytes(), to }).await?;
        Ok(Subscription { messages, _connection: self.clone() })
    }

    async fn input(&self, input: Input) -> Result<()> {
        self.inputs.send(input).await.map_err(|_| anyhow!("the connection to nats-server is gone"))
    }
}

fn publish_frame(subject: &str, reply: Option<&str>, headers: &Headers, body: &[u8]) -> Vec<u8> {
    let reply = reply.map_or_else(String::new, |reply| format!("{reply} "));
    let mut frame;
    if headers.is_empty() {
        frame = format!("PUB {subject} {reply}{}\r\n", body.len()).into_bytes();
    } else {
        let mut block = "NATS/1.0\r\n".to_owned();
        for (name, value) in headers {
            block.push_str(&format!("{name}: {value}\r\n"));
        }
        block.push_str("\r\n");
        let all = block.len() + body.len();
        frame = format!("HPUB {subject} {reply}{} {all}\r\n{block}", block.len()).into_bytes();
    }
    frame.extend_from_slice(body);
    frame.extend_from_slice(b"\r\n");
    frame
}

/// The connection's loop; it ends, and with it every subscription, when the connection breaks or the last
/// handle is dropped.
async fn route(mut writer: OwnedWriteHalf, mut inputs: mpsc::Receiver<Input>) {
    let mut routes: HashMap<u64, mpsc::Sender<Message>> = HashMap::new();
    while let Some(input) = inputs.recv().await {
        let written = match input {
            Input::Send(frame) => writer.write_all(&frame).await,
            Input::Subscribe { id, line, to } => {
                routes.retain(|_, to| !to.is_closed());
                routes.insert(id, to);
                writer.write_all(&line).await
            }
            Input::Frame(Frame::Ping) => writer.write_all(b"PONG\r\n").await,
            Input::Frame(Frame::Message { id, message }) => {
                let full = routes.get(&id).is_some_and(|to| {
                    matches!(to.try_send(message), Err(mpsc::error::TrySendError::Full(_)))
                });
                if full {
                    return tracing::warn!(id, WAITING_MAX, "a subscriber is too slow");
                }
                Ok(())
            }
            Input::Frame(Frame::Error(error)) => return tracing::warn!(error, "refused"),
            Input::Frame(Frame::Other) => Ok(()),
            Input::Closed(why) => return tracing::debug!(why, "connection closed"),
        };
        if let Err(error) = written {
            return tracing::debug!(%error, "connection broken");
        }
    }
}

/// Ends when the server closes the connection, which it does once the loop has dropped the writer.
async fn read_frames(mut reader: BufReader<OwnedReadHalf>, inputs: mpsc::WeakSender<Input>) {
    loop {
        let (input, last) = match read_frame(&mut reader).await {
            Ok(frame) => (Input::Frame(frame), false),
            Err(error) => (Input::Closed(error.to_string()), true),
        };
        // A strong sender here would keep the loop alive when the last handle is gone.
        let Some(inputs) = inputs.upgrade() else { return };
        if inputs.send(input).await.is_err() || last {
            return;
        }
    }
}

async fn read_frame(reader: &mut BufReader<OwnedReadHalf>) -> Result<Frame> {
    let line = read_line(reader).await?;
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (id, subject, reply, header, size) = match *words.as_slice() {
        ["PING"] => return Ok(Frame::Ping),
        ["PONG" | "+OK" | "INFO", ..] => return Ok(Frame::Other),
        ["-ERR", ..] => return Ok(Frame::Error(line)),
        ["MSG", subject, id, size] => (id, subject, None, "0", size),
        ["MSG", subject, id, reply, size] => (id, subject, Some(reply), "0", size),
        ["HMSG", subject, id, header, size] => (id, subject, None, header, size),
        ["HMSG", subject, id, reply, header, size] => (id, subject, Some(reply), header, size),
        _ => bail!("not the NATS protocol: {line:?}"),
    };
    let (id, header, size): (u64, usize, usize) = (id.parse()?, header.parse()?, size.parse()?);
    if header > size || size > MESSAGE_MAX {
        bail!("a message of {size} bytes with {header} of headers");
    }
    let mut bytes = vec![0; size + 2];
    reader.read_exact(&mut bytes).await?;
    bytes.truncate(size);
    let body = bytes.split_off(header);
    let (status, headers) = parse_headers(&bytes)?;
    let (subject, reply) = (subject.to_owned(), reply.map(str::to_owned));
    Ok(Frame::Message { id, message: Message { subject, reply, status, headers, body } })
}

fn parse_headers(block: &[u8]) -> Result<(Option<u16>, Headers)> {
    if block.is_empty() {
        return Ok((None, Vec::new()));
    }
    let text = std::str::from_utf8(block).context("headers that are not UTF-8")?;
    let mut lines = text.split("\r\n");
    let first = lines.next().and_then(|line| line.strip_prefix("NATS/1.0"));
    let first = first.context("headers without their version")?;
    let status = first.split_ascii_whitespace().next().and_then(|code| code.parse().ok());
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    Ok((status, headers))
}

async fn read_line(reader: &mut BufReader<OwnedReadHalf>) -> Result<String> {
    let mut line = String::new();
    reader.take(LINE_MAX).read_line(&mut line).await?;
    let line = line.strip_suffix("\r\n").context("the server closed the connection")?;
    Ok(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_counts_its_headers() {
        let headers = vec![("a".to_owned(), "b".to_owned())];
        let frame = publish_frame("s", Some("r"), &headers, b"xy");
        assert_eq!(frame, b"HPUB s r 18 20\r\nNATS/1.0\r\na: b\r\n\r\nxy\r\n");
        assert_eq!(publish_frame("s", None, &Vec::new(), b""), b"PUB s 0\r\n\r\n");
    }

    #[test]
    fn a_status_stands_in_the_first_line() {
        let (status, headers) = parse_headers(b"NATS/1.0 100 Idle\r\nX: 1: 2\r\n\r\n").unwrap();
        assert_eq!((status, headers), (Some(100), vec![("X".into(), "1: 2".into())]));
        assert!(parse_headers(b"nonsense").is_err());
    }
}
