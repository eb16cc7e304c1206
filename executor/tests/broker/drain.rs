//! An executor that is asked to stop finishes, or gives back without a failure.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cronstream_executor::TaskContext;
use cronstream_schemas::json::Json;
use tokio::sync::Notify;

use crate::support::{ACK_WAIT, Node, World, fired};

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_within_the_drain_is_finished_and_its_beats_go_on() {
    let world = World::start().await;
    let running = Arc::new(Notify::new());
    let executor = {
        let running = Arc::clone(&running);
        world.executor("a").await.task("long", move |_, _: Json| {
            running.notify_one();
            async {
                tokio::time::sleep(ACK_WAIT * 3).await;
                Ok(())
            }
        })
    };
    let a = Node::run(executor);
    let fire = fired("long", "long", "{}");
    world.fire(&fire).await;
    running.notified().await;
    a.ask_to_stop();
    world.status("a", |s| s["role"]["executor"]["draining"] == true).await;
    let b = Node::run(world.executor("b").await.task("long", async |_, _: Json| Ok(())));
    a.stop().await;
    assert_eq!(world.transcript(&fire, 2).await, ["started 1.1.1", "succeeded 1.1.1"]);
    world.settled().await;
    b.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_is_given_back_at_once_and_does_not_count() {
    let world = World::start().await;
    let running = Arc::new(Notify::new());
    let executor = {
        let running = Arc::clone(&running);
        // Far longer than the test: only being given back brings the fire to the other executor.
        let builder = world.executor("a").await.ack_wait(Duration::from_secs(300));
        builder.drain(Duration::from_millis(100)).task(
            "long",
            move |context: TaskContext, _: Json| {
                running.notify_one();
                async move {
                    context.cancelled().await;
                    Ok("half done")
                }
            },
        )
    };
    let a = Node::run(executor);
    let mut fire = fired("long", "long", "{}");
    fire.retry.max_attempts = 1;
    world.fire(&fire).await;
    running.notified().await;
    let b = world.executor("b").await.ack_wait(Duration::from_secs(300));
    let b = Node::run(b.task("long", async |_, _: Json| Ok("done")));
    let asked = Instant::now();
    a.stop().await;
    assert_eq!(
        world.transcript(&fire, 4).await,
        ["started 1.1.1", "interrupted 1.1.0", "started 1.2.1", "succeeded 1.2.1"]
    );
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    world.settled().await;
    b.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_executor_stops_at_once() {
    let world = World::start().await;
    let a = Node::run(world.executor("a").await.task("t", async |_, _: Json| Ok(())));
    world.status("a", |_| true).await;
    let asked = Instant::now();
    a.stop().await;
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
}
