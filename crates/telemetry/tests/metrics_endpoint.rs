//! The endpoint as a client over TCP sees it.

#![expect(clippy::unwrap_used, reason = "the lint knows test functions only")]

use std::net::SocketAddr;

use cronstream_schemas::id::{Epoch, Instance, Partition, Tick};
use cronstream_schemas::status::{NodeStatus, PartitionStatus, Role, SpanCounters, TickerStatus};
use cronstream_schemas::time::Timestamp;
use cronstream_telemetry::metrics::{CONNECTIONS_MAX, Endpoint, TickerMetrics};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

async fn start(metrics: &TickerMetrics) -> Endpoint {
    Endpoint::start("127.0.0.1:0".parse().unwrap(), metrics.page()).await.unwrap()
}

async fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{request}Host: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn get(address: SocketAddr, path: &str) -> String {
    ask(address, &format!("GET {path} HTTP/1.1\r\n")).await
}

fn status(not_ready: &[&str], leading: bool) -> NodeStatus {
    let partition = PartitionStatus {
        partition: Partition(3),
        leading,
        epoch: Epoch(7),
        tick: Tick(1),
        decided_through: NOW.minus(std::time::Duration::from_millis(1_500)),
        commands_through: 0,
        commands_waiting: 12,
        jobs: 2,
        live_runs: 1,
        stopped: None,
    };
    NodeStatus {
        node: "t1".parse().unwrap(),
        instance: Instance(uuid::Uuid::nil()),
        version: "0".into(),
        not_ready: not_ready.iter().map(|&reason| reason.to_owned()).collect(),
        role: Role::Ticker(TickerStatus {
            hold: false,
            clock_ahead_ms: Some(-250),
            partitions: vec![partition],
            spans: Some(SpanCounters { published: 5, dropped: 2 }),
        }),
    }
}

#[tokio::test]
async fn readiness_follows_the_reports_and_names_the_reasons() {
    let metrics = TickerMetrics::default();
    let endpoint = start(&metrics).await;
    let ready = async || get(endpoint.address(), "/readyz").await;
    let answer = ready().await;
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("it is starting\n"),
        "{answer}"
    );
    assert!(get(endpoint.address(), "/healthz").await.starts_with("HTTP/1.1 200 "));
    metrics.report(&status(&["partition 1 is stopped: purged", "its clock is off"], true), NOW);
    let answer = ready().await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.ends_with("partition 1 is stopped: purged\nits clock is off\n"), "{answer}");
    metrics.report(&status(&[], true), NOW);
    assert!(ready().await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_report_becomes_metrics_and_a_standby_tells_nothing_of_the_leaders() {
    let metrics = TickerMetrics::default();
    let endpoint = start(&metrics).await;
    metrics.report(&status(&[], true), NOW);
    metrics.dead_letters(9);
    let body = get(endpoint.address(), "/metrics").await;
    for line in [
        "cronstream_leader{partition=\"3\"} 1",
        "cronstream_epoch{partition=\"3\"} 7",
        "cronstream_cursor_lag_seconds{partition=\"3\"} 1.5",
        "cronstream_command_lag{partition=\"3\"} 12",
        "cronstream_clock_ahead_seconds -0.25",
        "cronstream_spans_dropped_total 2",
        "cronstream_ready 1",
        "task_dead_letter_size 9",
    ] {
        assert!(body.lines().any(|it| it == line), "{line} is not in\n{body}");
    }
    metrics.report(&status(&["x"], false), NOW);
    let body = get(endpoint.address(), "/metrics").await;
    assert!(body.contains("cronstream_leader{partition=\"3\"} 0"), "{body}");
    assert!(body.contains("cronstream_ready 0"), "{body}");
    assert!(!body.contains("cronstream_cursor_lag_seconds{"), "{body}");
}

#[tokio::test]
async fn a_client_gets_the_format_it_asks_for() {
    let endpoint = start(&TickerMetrics::default()).await;
    let plain = get(endpoint.address(), "/metrics").await;
    assert!(plain.contains("content-type: text/plain; version=0.0.4"), "{plain}");
    assert!(!plain.contains("# EOF"), "{plain}");
    let accept =
        "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n";
    let open = ask(endpoint.address(), accept).await;
    assert!(open.contains("content-type: application/openmetrics-text; version=1.0.0"), "{open}");
    assert!(open.ends_with("# EOF\n"), "{open}");
}

#[tokio::test]
async fn only_three_paths_are_read_and_nothing_is_written() {
    let endpoint = start(&TickerMetrics::default()).await;
    assert!(get(endpoint.address(), "/").await.starts_with("HTTP/1.1 404 "));
    let post = ask(endpoint.address(), "POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n").await;
    assert!(post.starts_with("HTTP/1.1 405 ") && post.contains("allow: GET, HEAD"), "{post}");
    let head = ask(endpoint.address(), "HEAD /healthz HTTP/1.1\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    let noise = ask(endpoint.address(), "\u{1}\u{2} nonsense\r\n").await;
    assert!(noise.starts_with("HTTP/1.1 400 "), "{noise}");
}

#[tokio::test]
async fn idle_connections_are_bounded_and_a_freed_one_is_used() {
    let endpoint = start(&TickerMetrics::default()).await;
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        let mut stream = TcpStream::connect(endpoint.address()).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).await.unwrap();
        idle.push(stream);
    }
    let one_more = tokio::spawn(get_owned(endpoint.address()));
    // It waits for room; what is idle answers meanwhile.
    let first = &mut idle[0];
    first.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    assert!(!one_more.is_finished());
    let mut rest = String::new();
    first.read_to_string(&mut rest).await.unwrap();
    assert!(rest.contains("503"), "{rest}");
    assert!(one_more.await.unwrap().starts_with("HTTP/1.1 200 "));
}

async fn get_owned(address: SocketAddr) -> String {
    get(address, "/healthz").await
}
