//! Tasks of a tasks file, from the fire to the stored result.

use std::path::Path;
use std::time::{Duration, Instant};

use cronstream_schemas::event::RunEvent;

use crate::support::{Node, World, fired};

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_the_tasks_file_runs_with_its_context() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        "report.sh",
        "cat > \"$CRON_RESULT\"\necho \"$CRON_JOB $CRON_ATTEMPT $CRON_FENCING_TOKEN $GREETING\"\n",
    );
    write(
        folder.path(),
        "tasks.toml",
        "[tasks.report]\ncommand = [\"/bin/sh\", \"report.sh\"]\nenv = { GREETING = \"hi\" }\nenv_pass = [\"PATH\"]\n",
    );
    let executor = world.executor("a").await.tasks_file(folder.path().join("tasks.toml"));
    let node = Node::run(executor);
    let fire = fired("nightly", "report", r#"{"n":12345678901234567890}"#);
    world.fire(&fire).await;
    let events = world.events(&fire, 2).await;
    let RunEvent::Succeeded(succeeded) = &events[1] else { panic!("{events:?}") };
    assert_eq!(succeeded.result.as_ref().unwrap().as_str(), r#"{"n":12345678901234567890}"#);
    let subject = crate::support::run_subject(&fire);
    let started = world.bus.by_seq(&world.bus.names().runs, 1).await.unwrap().unwrap();
    assert_eq!(started.subject, subject);
    let expected = format!("billing/nightly 1 {} hi\n", started.seq);
    assert_eq!(succeeded.output.as_ref().unwrap().stdout, expected);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_kills_the_commands_whole_group() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let script = format!(
        "echo before\n(sleep 60; echo late > {0}) &\n(sleep 60; echo late > {0}) &\nwait\n",
        mark.display()
    );
    write(folder.path(), "slow.sh", &script);
    let tasks = "tasks.slow = { command = [\"/bin/sh\", \"slow.sh\"], env_pass = [\"PATH\"] }\n";
    write(folder.path(), "tasks.toml", tasks);
    let executor = world.executor("a").await.tasks_file(folder.path().join("tasks.toml"));
    let node = Node::run(executor);
    let mut fire = fired("slow", "slow", "{}");
    fire.timeout = "500ms".parse().unwrap();
    world.fire(&fire).await;
    let events = world.events(&fire, 2).await;
    let RunEvent::AttemptFailed(failed) = &events[1] else { panic!("{events:?}") };
    assert_eq!(failed.failure.message, "no result within 500ms");
    assert_eq!(failed.output.as_ref().unwrap().stdout, "before\n");
    let lives = || {
        std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("slow.sh")
        })
    };
    // A process that is killed ends when it is its turn.
    let killed = Instant::now();
    while lives() {
        assert!(killed.elapsed() < Duration::from_secs(10), "a process of the group lives on");
        tokio::task::yield_now().await;
    }
    assert!(!mark.exists());
    node.stop().await;
}

/// Answers one HTTP request.
async fn answer_once(response: &'static str) -> u16 {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0);
        stream.write_all(response.as_bytes()).await.unwrap();
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http_task_hands_retry_after_to_the_leader() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    let port = answer_once(
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 90\r\ncontent-length: 4\r\n\r\nslow",
    )
    .await;
    let tasks = format!("tasks.ping.http.url = \"http://127.0.0.1:{port}/\"\n");
    write(folder.path(), "tasks.toml", &tasks);
    let executor = world.executor("a").await.tasks_file(folder.path().join("tasks.toml"));
    let node = Node::run(executor);
    let fire = fired("ping", "ping", "{}");
    world.fire(&fire).await;
    let events = world.events(&fire, 2).await;
    let RunEvent::AttemptFailed(failed) = &events[1] else { panic!("{events:?}") };
    assert_eq!(failed.retry_after.unwrap().to_duration(), Duration::from_secs(90));
    assert!(failed.failure.message.ends_with("answered 429 Too Many Requests: slow"));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nats_task_is_decided_by_the_replys_status() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "tasks.toml", "tasks.calc.nats.subject = \"svc.calc\"\n");
    let executor = world.executor("a").await.tasks_file(folder.path().join("tasks.toml"));
    let node = Node::run(executor);
    let nobody = fired("nobody", "calc", "{}");
    world.fire(&nobody).await;
    let events = world.events(&nobody, 2).await;
    let RunEvent::AttemptFailed(failed) = &events[1] else { panic!("{events:?}") };
    assert_eq!(failed.failure.message, "nobody answers on svc.calc");
    let mut service = crate::wire::Responder::start(&world.server.url(), "svc.calc").await;
    for (n, (status, body, expected)) in [
        ("Cron-Status: ok\r\n", r#"{"n":12345678901234567890}"#, "succeeded 1.1.1"),
        ("", r#"{"plain":true}"#, "succeeded 1.1.1"),
        ("Cron-Status: retry\r\n", "later", "attempt_failed 1.1.1"),
        ("Cron-Status: fail\r\n", "never", "failed 1.1.1"),
        ("Cron-Status: maybe\r\n", "", "failed 1.1.1"),
        (
            "Nats-Service-Error: broken\r\nNats-Service-Error-Code: 500\r\n",
            "",
            "attempt_failed 1.1.1",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let fire = fired(&format!("calc{n}"), "calc", r#"{"x":1.10}"#);
        world.fire(&fire).await;
        let asked = service.answer(status, body).await;
        assert!(asked.contains(&format!("Cron-Run: {}", fire.run)), "{asked}");
        assert!(asked.contains("Cron-Attempt: 1") && asked.contains("traceparent: 00-"), "{asked}");
        assert!(asked.contains(r#"{"x":1.10}"#), "{asked}");
        assert_eq!(world.transcript(&fire, 2).await, ["started 1.1.1", expected], "{status}");
    }
    node.stop().await;
}
