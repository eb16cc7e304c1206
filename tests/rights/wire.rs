//! A connection that tells what the server says to each single line it is sent.
//!
//! Invariant: a PING follows every line and its PONG is waited for, so an answer belongs to the line before it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long the server may take to say anything.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long an answer to a request may take; what never comes is waited for so long.
const REPLY_MAX: Duration = Duration::from_millis(1500);

/// A logged-in connection.
#[derive(Debug)]
pub(crate) struct Wire {
    reader: BufReader<TcpStream>,
    user: String,
    next: u64,
}

/// A message that came.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) id: u64,
    pub(crate) body: Vec<u8>,
}

/// What the server said to a line.
#[derive(Debug, Default)]
struct Said {
    errors: Vec<String>,
    messages: Vec<Message>,
}

impl Wire {
    /// Logs in.
    pub(crate) fn connect(port: u16, user: &str, password: &str) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.set_nodelay(true)?;
        let mut wire = Self { reader: BufReader::new(stream), user: user.to_owned(), next: 0 };
        let hello = serde_json::json!({
            "verbose": false, "pedantic": false, "headers": true, "no_responders": true,
            "user": user, "pass": password, "name": "rights",
        });
        wire.write(format!("CONNECT {hello}\r\n").as_bytes())?;
        match wire.settle()?.errors.pop() {
            None => Ok(wire),
            Some(error) => bail!("{user} cannot log in: {error}"),
        }
    }

    /// Publishes; gives the server's refusal, if it refuses.
    pub(crate) fn publish(
        &mut self,
        subject: &str,
        reply: Option<&str>,
        body: &[u8],
    ) -> Result<Option<String>> {
        let reply = reply.map_or_else(String::new, |reply| format!("{reply} "));
        let mut line = format!("PUB {subject} {reply}{}\r\n", body.len()).into_bytes();
        line.extend_from_slice(body);
        line.extend_from_slice(b"\r\n");
        self.write(&line)?;
        Ok(self.settle()?.errors.pop())
    }

    /// Subscribes and ends that again; gives the server's refusal, if it refuses.
    pub(crate) fn subscribe(&mut self, subject: &str) -> Result<Option<String>> {
        self.next += 1;
        let id = self.next;
        self.write(format!("SUB {subject} {id}\r\n").as_bytes())?;
        let refused = self.settle()?.errors.pop();
        self.write(format!("UNSUB {id}\r\n").as_bytes())?;
        self.settle()?;
        Ok(refused)
    }

    /// Publishes with headers and waits for the answer; `None` when none comes, or nobody listens.
    pub(crate) fn request(
        &mut self,
        subject: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        self.next += 1;
        let (id, inbox) = (self.next, format!("_INBOX.{}.{}", self.user, self.next));
        let mut block = String::from("NATS/1.0\r\n");
        for (name, value) in headers {
            block.push_str(&format!("{name}: {value}\r\n"));
        }
        block.push_str("\r\n");
        let sizes = (block.len(), block.len() + body.len());
        let mut lines = format!(
            "SUB {inbox} {id}\r\nUNSUB {id} 1\r\nHPUB {subject} {inbox} {} {}\r\n{block}",
            sizes.0, sizes.1
        )
        .into_bytes();
        lines.extend_from_slice(body);
        lines.extend_from_slice(b"\r\n");
        self.write(&lines)?;
        let deadline = Instant::now() + REPLY_MAX;
        loop {
            let Said { errors, messages } = self.settle()?;
            if let Some(error) = errors.first() {
                bail!("{} may not ask {subject}: {error}", self.user);
            }
            if let Some(message) = messages.into_iter().find(|message| message.id == id) {
                return Ok(Some(message.body).filter(|body| !body.is_empty()));
            }
            if Instant::now() > deadline {
                return Ok(None);
            }
        }
    }

    /// Waits until the server has taken everything sent so far.
    fn settle(&mut self) -> Result<Said> {
        self.write(b"PING\r\n")?;
        let mut said = Said::default();
        loop {
            let mut line = String::new();
            let read = self.reader.read_line(&mut line).context("the server is silent")?;
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            match *words.as_slice() {
                _ if read == 0 => bail!("the server closed the connection: {said:?}"),
                ["PONG"] => return Ok(said),
                ["PING"] => self.write(b"PONG\r\n")?,
                ["-ERR", ..] => {
                    said.errors.push(line.trim().to_owned());
                    if !line.contains("Permissions Violation") {
                        return Ok(said);
                    }
                }
                ["MSG", _, id, .., size] => said.messages.push(self.message(id, "0", size)?),
                ["HMSG", _, id, .., header, size] => {
                    said.messages.push(self.message(id, header, size)?);
                }
                _ => {}
            }
        }
    }

    fn message(&mut self, id: &str, header: &str, size: &str) -> Result<Message> {
        let (header, size): (usize, usize) = (header.parse()?, size.parse()?);
        let mut bytes = vec![0; size + 2];
        self.reader.read_exact(&mut bytes)?;
        bytes.truncate(size);
        Ok(Message { id: id.parse()?, body: bytes.split_off(header) })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.reader.get_mut().write_all(bytes)?)
    }
}
