//! Real servers: started, killed, paused, restarted, and refused where they must be.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    time::{Duration, Instant},
};

use cronstream_server::{Binary, Cluster, Error, Server, ServerConfig, ensure};

#[expect(clippy::print_stderr, reason = "a person who waits for an installation is told")]
async fn binary() -> Binary {
    ensure(&mut |line| eprintln!("{line}")).await.expect("nats-server is found or installed")
}

fn config(dir: &Path) -> ServerConfig {
    ServerConfig { sync_always: false, ..ServerConfig::new(dir) }
}

fn is_refused(server: &Server) -> bool {
    TcpStream::connect(("127.0.0.1", server.port())).is_err()
}

/// Asks for a stream with three copies by the bare protocol; gives the answer.
fn create_stream(server: &Server, name: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port()))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let body = format!(r#"{{"name":"{name}","subjects":["{name}"],"num_replicas":3}}"#);
    write!(
        stream,
        "CONNECT {{\"verbose\":false}}\r\nSUB reply 1\r\n\
         PUB $JS.API.STREAM.CREATE.{name} reply {}\r\n{body}\r\n",
        body.len(),
    )?;
    let mut lines = BufReader::new(stream).lines();
    while !lines.next().ok_or(std::io::ErrorKind::UnexpectedEof)??.starts_with("MSG") {}
    lines.next().ok_or(std::io::ErrorKind::UnexpectedEof)?
}

#[tokio::test]
async fn a_killed_server_comes_back_on_its_port_and_data() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(&binary().await, config(dir.path())).await.unwrap();
    let (url, pid) = (server.url(), server.pid());
    server.kill().await.unwrap();
    assert!(is_refused(&server));
    assert!(matches!(server.pause(), Err(Error::NotRunning { .. })));
    server.restart().await.unwrap();
    assert_eq!(server.url(), url);
    assert_ne!(server.pid(), pid);
    server.stop().await.unwrap();
    server.stop().await.unwrap();
    assert!(is_refused(&server));
    let log = std::fs::read_to_string(server.log()).unwrap();
    assert_eq!(log.matches("Server is ready").count(), 2, "{log}");
}

#[tokio::test]
async fn a_paused_server_does_not_answer_until_it_is_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(&binary().await, config(dir.path())).await.unwrap();
    server.pause().unwrap();
    let paused = Instant::now();
    let late = loop {
        // A thread that was at work stops when it is its turn to learn of it.
        match server.wait_ready(Duration::from_millis(100)).await {
            Ok(()) => assert!(paused.elapsed() < Duration::from_secs(10), "it goes on"),
            Err(late) => break late,
        }
    };
    assert!(matches!(late, Error::NotReady { .. }), "{late}");
    server.resume().unwrap();
    server.wait_ready(Duration::from_secs(10)).await.unwrap();
    server.pause().unwrap();
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_data_folder_has_one_server() {
    let dir = tempfile::tempdir().unwrap();
    let binary = binary().await;
    let first = Server::start(&binary, config(dir.path())).await.unwrap();
    let second = Server::start(&binary, config(dir.path())).await.unwrap_err();
    assert!(matches!(second, Error::DataFolderBusy { .. }), "{second}");
    drop(first);
    Server::start(&binary, config(dir.path())).await.unwrap();
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let config = ServerConfig { port: Some(port), ..config(dir.path()) };
    let error = Server::start(&binary().await, config).await.unwrap_err();
    assert!(matches!(error, Error::PortTaken { port: p } if p == port), "{error}");
}

#[tokio::test]
async fn a_server_that_cannot_start_shows_its_own_words() {
    let dir = tempfile::tempdir().unwrap();
    let config = ServerConfig { extra: "no_such_setting: 1".to_owned(), ..config(dir.path()) };
    let error = Server::start(&binary().await, config).await.unwrap_err();
    assert!(error.to_string().contains("no_such_setting"), "{error}");
}

#[tokio::test]
async fn a_server_without_jetstream_is_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let config = ServerConfig { extra: "jetstream: disabled".to_owned(), ..config(dir.path()) };
    let error = Server::start(&binary().await, config).await.unwrap_err();
    assert!(error.to_string().contains("start it with `-js`"), "{error}");
}

#[tokio::test]
async fn a_cluster_gets_a_new_leader_and_takes_the_old_one_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(&binary().await, dir.path()).await.unwrap();
    assert_eq!(cluster.urls().len(), 3);
    let begun = Instant::now();
    loop {
        let answer = create_stream(&cluster.nodes[0], "LEDGER").unwrap();
        if !answer.contains("\"error\"") {
            break;
        }
        // A busy server may count another one as offline for a moment.
        assert!(begun.elapsed() < Duration::from_secs(30), "{answer}");
    }
    let leader = cluster.stream_leader("LEDGER").await.unwrap();
    cluster.nodes[leader].kill().await.unwrap();
    let next = cluster.stream_leader("LEDGER").await.unwrap();
    assert_ne!(next, leader);
    cluster.nodes[leader].restart().await.unwrap();
    cluster.wait_ready(Duration::from_secs(30)).await.unwrap();
    cluster.stop().await.unwrap();
}
