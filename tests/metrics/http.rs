//! Questions over HTTP/1.0, which has no chunks.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// How long anything may take to become so.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Between two questions of the same.
const LOOK: Duration = Duration::from_millis(100);

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Asks `host:port` for a path.
pub(crate) async fn get(address: &str, path: &str) -> Result<Answer> {
    timeout(ANSWER_MAX, ask(address, path)).await.context("no answer")?
}

async fn ask(address: &str, path: &str) -> Result<Answer> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let (head, body) = text.split_once("\r\n\r\n").context("a head and a body")?;
    let status = head.split(' ').nth(1).context("a status")?.parse()?;
    Ok(Answer { status, body: body.to_owned() })
}

/// Asks until the answer is as expected.
pub(crate) async fn until<T>(
    address: &str,
    path: &str,
    mut found: impl FnMut(&Answer) -> Option<T>,
) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = get(address, path).await;
        match answer.as_ref().ok().and_then(&mut found) {
            Some(found) => return Ok(found),
            None if Instant::now() >= deadline => bail!("{address}{path}: not {answer:?}"),
            None => sleep(LOOK).await,
        }
    }
}

/// Asks a Prometheus for an expression until a series of it has a value that is as expected.
pub(crate) async fn value(
    prometheus: &str,
    expression: &str,
    expected: impl Fn(f64) -> bool,
) -> Result<()> {
    let quoted: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let path = format!("/api/v1/query?query={quoted}");
    let found = |answer: &Answer| {
        let answer: Value = serde_json::from_str(&answer.body).ok()?;
        let series = answer["data"]["result"].as_array()?;
        let mut values = series.iter().filter_map(|it| it["value"][1].as_str()?.parse().ok());
        values.any(&expected).then_some(())
    };
    until(prometheus, &path, found).await.with_context(|| expression.to_owned())
}
