//! A NATS responder on the bare protocol, so that the tests need no second client library.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Answers the requests on one subject, one at a time.
pub(crate) struct Responder {
    read: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
}

impl Responder {
    pub(crate) async fn start(url: &str, subject: &str) -> Self {
        let address = url.strip_prefix("nats://").unwrap();
        let (read, write) = TcpStream::connect(address).await.unwrap().into_split();
        let mut responder = Self { read: BufReader::new(read), write };
        let hello = format!(
            "CONNECT {{\"verbose\":false,\"headers\":true,\"no_responders\":true}}\r\nSUB {subject} 1\r\nPING\r\n"
        );
        responder.write.write_all(hello.as_bytes()).await.unwrap();
        while responder.line().await != "PONG" {}
        responder
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.read.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    /// Waits for a request, answers it, and gives its headers and body.
    pub(crate) async fn answer(&mut self, headers: &str, body: &str) -> String {
        let head = loop {
            let line = self.line().await;
            match line.split(' ').next().unwrap() {
                "HMSG" => break line,
                "PING" => self.write.write_all(b"PONG\r\n").await.unwrap(),
                _ => {}
            }
        };
        let parts: Vec<_> = head.split(' ').collect();
        let (reply, size): (&str, usize) = (parts[3], parts[5].parse().unwrap());
        let mut request = vec![0; size + 2];
        self.read.read_exact(&mut request).await.unwrap();
        let headers = format!("NATS/1.0\r\n{headers}\r\n");
        let (head, all) = (headers.len(), headers.len() + body.len());
        let answer = format!("HPUB {reply} {head} {all}\r\n{headers}{body}\r\n");
        self.write.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(request).unwrap()
    }
}
