//! Executors that die, or stop and go on: each fire keeps one result and its attempts are counted.

use std::sync::Arc;
use std::time::Duration;

use cronstream_executor::{ExecutorBuilder, TaskContext, TaskError};
use cronstream_schemas::event::{FailureKind, RunEvent};
use cronstream_schemas::json::Json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::support::{Node, World, connect, fired};

/// A task that never ends, and the signal that it has begun.
fn hangs(builder: ExecutorBuilder) -> (ExecutorBuilder, Arc<Notify>) {
    let running = Arc::new(Notify::new());
    let builder = {
        let running = Arc::clone(&running);
        builder.task("work", move |_, _: Json| {
            running.notify_one();
            std::future::pending::<Result<(), TaskError>>()
        })
    };
    (builder, running)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_is_delivered_again_and_counts() {
    let world = World::start().await;
    let (a, running) = hangs(world.executor("a").await);
    let a = Node::run(a);
    let fire = fired("work", "work", "{}");
    world.fire(&fire).await;
    running.notified().await;
    a.crash().await;
    let b = Node::run(world.executor("b").await.task("work", async |_, _: Json| Ok(())));
    assert_eq!(
        world.transcript(&fire, 3).await,
        ["started 1.1.1", "started 1.2.2", "succeeded 1.2.2"]
    );
    world.settled().await;
    b.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poison_task_ends_when_its_attempts_are_used_up() {
    let world = World::start().await;
    let mut fire = fired("work", "work", "{}");
    fire.retry.max_attempts = 2;
    world.fire(&fire).await;
    for node in ["a", "b"] {
        let (poisoned, running) = hangs(world.executor(node).await);
        let poisoned = Node::run(poisoned);
        running.notified().await;
        poisoned.crash().await;
    }
    let c = Node::run(world.executor("c").await.task("work", async |_, _: Json| Ok(())));
    let events = world.events(&fire, 3).await;
    let RunEvent::Failed(failed) = &events[2] else { panic!("{events:?}") };
    assert_eq!(failed.failure.kind, FailureKind::Crashed);
    assert_eq!(failed.failure.message, "b was lost during attempt 2 of 2");
    world.settled().await;
    c.stop().await;
}

/// An executor on a runtime of one thread, which its task blocks: nothing of it moves, as after SIGSTOP.
struct Frozen {
    thaw: std::sync::mpsc::Sender<()>,
    stop: CancellationToken,
    thread: std::thread::JoinHandle<()>,
}

fn freeze(url: String) -> Frozen {
    let (thaw, frozen) = std::sync::mpsc::channel();
    let frozen = Arc::new(std::sync::Mutex::new(frozen));
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let builder = ExecutorBuilder::new(connect(&url).await)
                .queue("reports")
                .node("frozen")
                .ack_wait(crate::support::ACK_WAIT)
                .task("work", move |_: TaskContext, _: Json| {
                    let frozen = Arc::clone(&frozen);
                    async move {
                        frozen.lock().unwrap().recv().unwrap();
                        Ok("from the dead")
                    }
                });
            builder.run(stopped).await.unwrap();
        });
    });
    Frozen { thaw, stop, thread }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombies_result_is_refused_and_counted() {
    let world = World::start().await;
    let zombie = freeze(world.server.url());
    let fire = fired("work", "work", "{}");
    world.fire(&fire).await;
    world.events(&fire, 1).await;
    let b = Node::run(world.executor("b").await.task("work", async |_, _: Json| Ok("alive")));
    let expected = ["started 1.1.1", "started 1.2.2", "succeeded 1.2.2"];
    assert_eq!(world.transcript(&fire, 3).await, expected);
    zombie.thaw.send(()).unwrap();
    let refused = |s: &serde_json::Value| s["role"]["executor"]["counters"]["refused"] == 1;
    world.status("frozen", refused).await;
    world.settled().await;
    assert_eq!(world.transcript(&fire, 3).await, expected);
    zombie.stop.cancel();
    tokio::task::spawn_blocking(|| zombie.thread.join().unwrap()).await.unwrap();
    b.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_settles_nothing_that_another_delivery_runs() {
    let world = World::start().await;
    let zombie = freeze(world.server.url());
    let fire = fired("work", "work", "{}");
    world.fire(&fire).await;
    world.events(&fire, 1).await;
    let (b, running) = hangs(world.executor("b").await);
    let b = Node::run(b);
    running.notified().await;
    zombie.thaw.send(()).unwrap();
    let refused = |s: &serde_json::Value| s["role"]["executor"]["counters"]["refused"] == 1;
    world.status("frozen", refused).await;
    zombie.stop.cancel();
    tokio::task::spawn_blocking(|| zombie.thread.join().unwrap()).await.unwrap();
    b.crash().await;
    let c = Node::run(world.executor("c").await.task("work", async |_, _: Json| Ok(())));
    assert_eq!(
        world.transcript(&fire, 4).await,
        ["started 1.1.1", "started 1.2.2", "started 1.3.3", "succeeded 1.3.3"]
    );
    world.settled().await;
    c.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_restarts_is_waited_for() {
    let mut world = World::start().await;
    let go = Arc::new(Notify::new());
    let executor = {
        let go = Arc::clone(&go);
        world.executor("a").await.ack_wait(Duration::from_secs(30)).task(
            "work",
            move |_, _: Json| {
                let go = Arc::clone(&go);
                async move {
                    go.notified().await;
                    Ok(())
                }
            },
        )
    };
    let node = Node::run(executor);
    let fire = fired("work", "work", "{}");
    world.fire(&fire).await;
    world.events(&fire, 1).await;
    world.server.kill().await.unwrap();
    go.notify_one();
    world.server.restart().await.unwrap();
    assert_eq!(world.transcript(&fire, 2).await, ["started 1.1.1", "succeeded 1.1.1"]);
    go.notify_one();
    let after = fired("after", "work", "{}");
    world.fire(&after).await;
    assert_eq!(world.transcript(&after, 2).await, ["started 1.1.1", "succeeded 1.1.1"]);
    world.settled().await;
    node.stop().await;
}
