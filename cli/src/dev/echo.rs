//! An HTTP server that answers with what it was sent: what the example HTTP task asks.
//!
//! Invariant: a request is bounded in bytes and time, and so are the connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Connections at a time; more wait.
const CONNECTIONS_MAX: usize = 64;
/// How long a request may take.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// The most bytes of a request's head.
const HEAD_MAX: u64 = 16 * 1024;
/// The most bytes of its body: as many as params may have.
const BODY_MAX: u64 = 128 * 1024;
/// How long a listener that cannot accept waits before it tries again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens on a free port of this machine alone, as a task of `services`.
pub(super) async fn start(services: &mut JoinSet<()>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    services.spawn(serve(listener));
    Ok(address)
}

async fn serve(listener: TcpListener) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let permit = Arc::clone(&room).acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(async move {
                    let answered = timeout(REQUEST_MAX, answer(stream)).await;
                    tracing::debug!(?answered, "http request");
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Reads one request and sends its body back.
async fn answer(mut stream: TcpStream) -> io::Result<()> {
    let (read, mut write) = stream.split();
    let (status, body) = match read_request(BufReader::new(read)).await? {
        Some(body) => ("200 OK", body),
        None => ("400 Bad Request", b"\"not a request this echo understands\"".to_vec()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    write.write_all(head.as_bytes()).await?;
    write.write_all(&body).await?;
    write.shutdown().await
}

/// The body of a request; `None` when it is too large, or not told by its length.
async fn read_request(reader: impl AsyncBufReadExt + Unpin) -> io::Result<Option<Vec<u8>>> {
    let mut head = reader.take(HEAD_MAX);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if head.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let Some((name, value)) = line.split_once(':') else { continue };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => match value.trim().parse::<u64>() {
                Ok(told) if told <= BODY_MAX => length = told,
                Ok(_) | Err(_) => return Ok(None),
            },
            "transfer-encoding" => return Ok(None),
            _ => {}
        }
    }
    let mut body = Vec::new();
    let read = head.into_inner().take(length).read_to_end(&mut body).await?;
    Ok((read as u64 == length).then_some(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn exchange(request: &str) -> String {
        let mut services = JoinSet::new();
        let address = start(&mut services).await.unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn the_body_comes_back() {
        let answer = exchange("POST /echo HTTP/1.1\r\nContent-Length: 7\r\n\r\n{\"a\":1}").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n{\"a\":1}"), "{answer}");
    }

    #[tokio::test]
    async fn a_request_without_bounds_is_refused() {
        for request in [
            "POST / HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n".to_owned(),
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
            "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc".to_owned(),
            "nonsense".to_owned(),
        ] {
            let answer = exchange(&request).await;
            assert!(answer.starts_with("HTTP/1.1 400"), "{request}: {answer}");
        }
    }
}
