//! One question to one server, over a connection of its own.
//!
//! Readiness and leadership are asked of a particular process. A NATS client would reconnect, and
//! could answer from another server; this speaks the few lines of the protocol that a single
//! request needs, and every failure is "not yet".

use std::{io, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};

/// How long one question may take. Without a leader a cluster does not answer at all, so this is
/// also how soon it is asked again.
const ASK_TIMEOUT: Duration = Duration::from_millis(500);
/// The longest protocol line that is read; a server's INFO is about 1 KiB.
const LINE_MAX: u64 = 64 * 1024;
/// The largest answer that is read.
const ANSWER_MAX: usize = 1024 * 1024;
/// How many protocol lines may come before the answer.
const LINES_MAX: usize = 64;

/// What a server says of itself when a client connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Whether JetStream runs there.
    pub(crate) jetstream: bool,
    /// Whether a client must say who it is, so that an anonymous question is refused.
    pub(crate) auth_required: bool,
}

/// Connects to the loopback port and reads the server's greeting.
pub(crate) async fn hello(port: u16) -> io::Result<Hello> {
    bounded(async { Ok(connect(port).await?.1) }).await
}

/// Asks the JetStream API of the server at the loopback port; an API error is an error.
pub(crate) async fn ask(port: u16, subject: &str, body: &str) -> io::Result<Value> {
    let answer = bounded(async {
        let (mut stream, _) = connect(port).await?;
        let request = format!(
            "CONNECT {{\"verbose\":false,\"headers\":true,\"no_responders\":true}}\r\n\
             SUB _INBOX.cronstream 1\r\n\
             PUB {subject} _INBOX.cronstream {}\r\n{body}\r\n",
            body.len(),
        );
        stream.write_all(request.as_bytes()).await?;
        read_answer(&mut stream).await
    })
    .await?;
    match answer.get("error") {
        Some(error) => Err(io::Error::other(error.to_string())),
        None => Ok(answer),
    }
}

async fn bounded<T>(question: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(ASK_TIMEOUT, question).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn connect(port: u16) -> io::Result<(BufReader<TcpStream>, Hello)> {
    let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await?);
    let line = read_line(&mut stream).await?;
    let info = line.strip_prefix("INFO ").ok_or_else(|| confused(&line))?;
    let info: Value = serde_json::from_str(info)?;
    let flag = |name: &str| info.get(name).and_then(Value::as_bool).unwrap_or(false);
    let hello = Hello { jetstream: flag("jetstream"), auth_required: flag("auth_required") };
    Ok((stream, hello))
}

async fn read_answer(stream: &mut BufReader<TcpStream>) -> io::Result<Value> {
    for _ in 0..LINES_MAX {
        let line = read_line(stream).await?;
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match *words.as_slice() {
            ["PING"] => stream.write_all(b"PONG\r\n").await?,
            ["MSG", _, _, size] => return read_json(stream, 0, size).await,
            // Headers come only with a status, such as 503: nobody answers.
            ["HMSG", _, _, header, size] => {
                let header = header.parse().map_err(|_| confused(&line))?;
                return read_json(stream, header, size).await;
            }
            ["-ERR", ..] => return Err(io::Error::other(line)),
            // PONG, +OK and later INFO lines need no answer.
            ["PONG" | "+OK" | "INFO", ..] => {}
            _ => return Err(confused(&line)),
        }
    }
    Err(io::Error::other("no answer among the first protocol lines"))
}

async fn read_json(
    stream: &mut BufReader<TcpStream>,
    header: usize,
    size: &str,
) -> io::Result<Value> {
    let size: usize = size.parse().map_err(|_| confused(size))?;
    if size > ANSWER_MAX || header > size {
        return Err(io::Error::other(format!("an answer of {size} bytes, {header} of headers")));
    }
    let mut bytes = vec![0; size];
    stream.read_exact(&mut bytes).await?;
    let (header, payload) = bytes.split_at(header);
    if payload.is_empty() {
        return Err(io::Error::other(String::from_utf8_lossy(header).trim().to_owned()));
    }
    Ok(serde_json::from_slice(payload)?)
}

async fn read_line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    stream.take(LINE_MAX).read_line(&mut line).await?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn confused(line: &str) -> io::Error {
    let start: String = line.chars().take(80).collect();
    io::Error::other(format!("not the NATS protocol: {start:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// Serves one connection with these bytes and returns what the question gave.
    async fn ask_of(said: &'static str) -> io::Result<Value> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(said.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut heard = Vec::new();
            let _ = stream.read_to_end(&mut heard).await;
        });
        let answer = ask(port, "$JS.API.INFO", "").await;
        server.await.unwrap();
        answer
    }

    #[tokio::test]
    async fn an_answer_is_found_behind_pings_and_infos() {
        let said = "INFO {\"jetstream\":true}\r\nPING\r\nINFO {}\r\nMSG i 1 8\r\n{\"a\": 1}\r\n";
        assert_eq!(ask_of(said).await.unwrap()["a"], 1);
    }

    #[tokio::test]
    async fn refusals_are_errors_with_the_servers_words() {
        for (said, words) in [
            ("INFO {}\r\nHMSG i 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n", "503"),
            ("INFO {}\r\nMSG i 1 28\r\n{\"error\":{\"err_code\":10008}}\r\n", "10008"),
            ("INFO {}\r\n-ERR 'Authorization Violation'\r\n", "Authorization"),
        ] {
            let error = ask_of(said).await.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[tokio::test]
    async fn nonsense_from_the_other_side_is_an_error() {
        for said in [
            "",
            "HTTP/1.1 400 Bad Request\r\n\r\n",
            "INFO nonsense\r\n",
            "INFO {}\r\nMSG i 1 99999999999\r\n",
            "INFO {}\r\nMSG i 1 x\r\n",
            "INFO {}\r\nHMSG i 1 9 3\r\nabc\r\n",
            "INFO {}\r\nMSG i 1 3\r\n{{{\r\n",
            "INFO {}\r\nWHAT\r\n",
        ] {
            ask_of(said).await.unwrap_err();
        }
    }
}
