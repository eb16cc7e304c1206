//! A fire's life when nothing goes wrong around it: success, failure, retry, refusal, cancel.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cronstream_executor::{TaskContext, TaskError};
use cronstream_schemas::event::{Ended, FailureKind, RunEvent};
use cronstream_schemas::id::Epoch;
use cronstream_schemas::json::Json;
use tokio::sync::Notify;

use crate::support::{ACK_WAIT, Node, PATIENCE, World, fired};

#[tokio::test(flavor = "multi_thread")]
async fn a_success_is_stored_bit_for_bit_and_acknowledged() {
    let world = World::start().await;
    let echo = world.executor("a").await.task("echo", async |_, params: Json| Ok(params));
    let node = Node::run(echo);
    let params = r#"{"n":12345678901234567890, "f":1.10}"#;
    let fire = fired("echo", "echo", params);
    world.fire(&fire).await;
    let events = world.events(&fire, 2).await;
    let [RunEvent::Started(started), RunEvent::Succeeded(succeeded)] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(started.executor.node.as_str(), "a");
    assert_eq!((started.place.fire_no, started.place.delivery, started.place.attempt), (1, 1, 1));
    assert_eq!(succeeded.result.as_ref().unwrap().as_str(), params);
    world.settled().await;
    let counters = |name: &'static str| {
        move |s: &serde_json::Value| s["role"]["executor"]["counters"][name] == 1
    };
    let status = world.status("a", counters("succeeded")).await;
    assert_eq!(status["role"]["executor"]["tasks"], serde_json::json!(["echo"]));
    assert_eq!(status["not_ready"], serde_json::json!([]));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_retried_by_new_fires_until_the_last_attempt() {
    let world = World::start().await;
    let fails = world
        .executor("a")
        .await
        .task("fails", async |context: TaskContext, _: Json| {
            Err::<(), _>(TaskError::retry(format!("attempt {}", context.attempt)))
        })
        .task("gives-up", async |_, _: Json| Err::<(), _>(TaskError::fatal("never")))
        .task("panics", async |_, n: u32| if n == 0 { panic!("zero") } else { Ok(n) });
    let node = Node::run(fails);
    let mut fire = fired("fails", "fails", "{}");
    for fire_no in 1..=3 {
        fire.fire_no = fire_no;
        world.fire(&fire).await;
        world.events(&fire, 2 * fire_no as usize).await;
    }
    fire.fire_no = 4;
    world.fire(&fire).await;
    let gives_up = fired("gives-up", "gives-up", "{}");
    world.fire(&gives_up).await;
    assert_eq!(world.transcript(&gives_up, 2).await, ["started 1.1.1", "failed 1.1.1"]);
    let panics = fired("panics", "panics", "0");
    world.fire(&panics).await;
    let events = world.events(&panics, 2).await;
    let RunEvent::AttemptFailed(failed) = &events[1] else { panic!("{events:?}") };
    assert_eq!(failed.failure.message, "task panicked: zero");
    world.settled().await;
    assert_eq!(
        world.transcript(&fire, 6).await,
        [
            "started 1.1.1",
            "attempt_failed 1.1.1",
            "started 2.1.2",
            "attempt_failed 2.1.2",
            "started 3.1.3",
            "failed 3.1.3"
        ]
    );
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fire_that_is_over_runs_nothing() {
    let world = World::start().await;
    let fire = fired("over", "echo", "{}");
    let ended = Ended { place: Default::default(), epoch: Epoch(1), command: None };
    world.append_run(&fire, &RunEvent::Cancelled(ended)).await;
    world.fire(&fire).await;
    let echo = world.executor("a").await.task("echo", async |_, params: Json| Ok(params));
    let node = Node::run(echo);
    world.status("a", |s| s["role"]["executor"]["counters"]["stale"] == 1).await;
    world.settled().await;
    assert_eq!(world.transcript(&fire, 1).await, ["cancelled 0.0.0"]);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_the_task_within_ten_seconds_and_its_result_is_void() {
    let world = World::start().await;
    let (running, cancelled) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let task = {
        let (running, cancelled) = (Arc::clone(&running), Arc::clone(&cancelled));
        move |context: TaskContext, _: Json| {
            let (running, cancelled) = (Arc::clone(&running), Arc::clone(&cancelled));
            async move {
                running.notify_one();
                context.cancelled().await;
                cancelled.notify_one();
                Ok("too late")
            }
        }
    };
    // The real ack wait, as the bound depends on it.
    let executor = world.executor("a").await.ack_wait(Duration::from_secs(30)).task("waits", task);
    let node = Node::run(executor);
    let fire = fired("waits", "waits", "{}");
    world.fire(&fire).await;
    tokio::time::timeout(PATIENCE, running.notified()).await.unwrap();
    let place = world.events(&fire, 1).await[0].place();
    let asked = Instant::now();
    let ended = Ended { place, epoch: Epoch(1), command: Some(7) };
    world.append_run(&fire, &RunEvent::Cancelled(ended)).await;
    tokio::time::timeout(PATIENCE, cancelled.notified()).await.unwrap();
    assert!(asked.elapsed() <= Duration::from_secs(10), "{:?}", asked.elapsed());
    world.settled().await;
    assert_eq!(world.transcript(&fire, 2).await, ["started 1.1.1", "cancelled 1.1.1"]);
    world.status("a", |s| s["role"]["executor"]["counters"]["refused"] == 1).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_task_is_delivered_once_because_it_says_that_it_goes_on() {
    let world = World::start().await;
    let executor = world.executor("a").await.task("long", async |_, _: Json| {
        tokio::time::sleep(ACK_WAIT * 3).await;
        Ok(())
    });
    let node = Node::run(executor);
    let fire = fired("long", "long", "{}");
    world.fire(&fire).await;
    assert_eq!(world.transcript(&fire, 2).await, ["started 1.1.1", "succeeded 1.1.1"]);
    world.settled().await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_is_a_failure_of_its_own_kind() {
    let world = World::start().await;
    let executor = world.executor("a").await.task("hangs", async |_, _: Json| {
        std::future::pending::<()>().await;
        Ok(())
    });
    let node = Node::run(executor);
    let mut fire = fired("hangs", "hangs", "{}");
    fire.timeout = "200ms".parse().unwrap();
    world.fire(&fire).await;
    let events = world.events(&fire, 2).await;
    let RunEvent::AttemptFailed(failed) = &events[1] else { panic!("{events:?}") };
    assert_eq!(failed.failure.kind, FailureKind::Timeout);
    assert_eq!(failed.failure.message, "no result within 200ms");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_fire_is_dropped_and_a_newer_one_is_left_alone() {
    let world = World::start().await;
    let mut foreign = fired("foreign", "echo", "{}");
    foreign.job = "other/job".parse().unwrap();
    let bodies: [&[u8]; 4] = [b"", b"{", br#"{"meta":{"partitions":8}}"#, br#"{"fired_v9":{}}"#];
    for (n, body) in bodies.into_iter().enumerate() {
        let append = cronstream_bus::Append {
            subject: format!("cron.fire.reports.billing.foreign{n}"),
            headers: Vec::new(),
            payload: body.to_vec().into(),
            ttl: None,
            msg_id: None,
            expected_last_seq: 0,
        };
        world.bus.append(&append).await.unwrap();
    }
    let echo = world.executor("a").await.task("echo", async |_, params: Json| Ok(params));
    let node = Node::run(echo);
    let fire = fired("echo", "echo", "{}");
    world.fire(&fire).await;
    assert_eq!(world.transcript(&fire, 2).await, ["started 1.1.1", "succeeded 1.1.1"]);
    let wait = async {
        while world.bus.queue_state("reports").await.unwrap().unwrap().unsettled != 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("only the newer one stays unsettled");
    node.stop().await;
}
