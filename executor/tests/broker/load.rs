//! Many fires at once: group commit, two thousand running, thousands that nobody here knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cronstream_schemas::event::{Fired, RunEvent};
use cronstream_schemas::json::Json;
use tokio::sync::Semaphore;

use crate::support::{Node, World, fired};

fn many(count: usize, task: &str) -> Vec<Fired> {
    (0..count).map(|n| fired(&format!("{task}-{n}"), task, "{}")).collect()
}

async fn all_succeed(world: &World, count: usize) {
    world
        .wait("all results", |runs| {
            let results = runs.iter().filter(|(_, e)| matches!(e, RunEvent::Succeeded(_)));
            (results.count() >= count).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_at_once_leave_in_batches_and_keep_their_order() {
    let world = World::start().await;
    let executor = world.executor("a").await.concurrency(200);
    let node = Node::run(executor.task("echo", async |_, params: Json| Ok(params)));
    let fires = many(1_000, "echo");
    world.fire_all(&fires).await;
    all_succeed(&world, 1_000).await;
    for fire in &fires {
        let transcript = world.transcript(fire, 2).await;
        assert_eq!(transcript, ["started 1.1.1", "succeeded 1.1.1"], "{}", fire.job);
    }
    let batches = world.batches(2_000).await;
    assert!(batches < 400, "2,000 events left in {batches} batches");
    world.settled().await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_refused_event_takes_no_other_with_it() {
    let world = World::start().await;
    // Two executors get each fire's events in each other's way as often as they can.
    let fires = many(300, "echo");
    let go = Arc::new(Semaphore::new(0));
    let executor = |go: Arc<Semaphore>| {
        move |_, params: Json| {
            let go = Arc::clone(&go);
            async move {
                go.acquire().await?.forget();
                Ok(params)
            }
        }
    };
    let a = world.executor("a").await.concurrency(300).task("echo", executor(Arc::clone(&go)));
    let a = Node::run(a);
    world.fire_all(&fires).await;
    world.wait("all starts", |runs| (runs.len() >= 300).then_some(())).await;
    for fire in fires.iter().step_by(10) {
        let place = world.events(fire, 1).await[0].place();
        let ended = cronstream_schemas::event::Ended {
            place,
            epoch: cronstream_schemas::id::Epoch(1),
            command: None,
        };
        world.append_run(fire, &RunEvent::Cancelled(ended)).await;
    }
    go.add_permits(300);
    all_succeed(&world, 270).await;
    for (n, fire) in fires.iter().enumerate() {
        let end = if n % 10 == 0 { "cancelled 1.1.1" } else { "succeeded 1.1.1" };
        assert_eq!(world.transcript(fire, 2).await, ["started 1.1.1", end], "{}", fire.job);
    }
    world.settled().await;
    world.status("a", |s| s["role"]["executor"]["counters"]["refused"] == 30).await;
    a.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_run_at_once_on_one_queue() {
    let world = World::start().await;
    let (inside, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let executor = {
        let (inside, go) = (Arc::clone(&inside), Arc::clone(&go));
        world.executor("a").await.concurrency(2_000).task("wait", move |_, _: Json| {
            let (inside, go) = (Arc::clone(&inside), Arc::clone(&go));
            async move {
                if inside.fetch_add(1, Ordering::Relaxed) + 1 == 2_000 {
                    go.add_permits(2_000);
                }
                go.acquire().await?.forget();
                Ok(())
            }
        })
    };
    let node = Node::run(executor);
    world.fire_all(&many(2_000, "wait")).await;
    all_succeed(&world, 2_000).await;
    world.settled().await;
    node.stop().await;
}

/// How long a known fire behind thousands of unknown ones waits for its result, from the start of an executor.
async fn behind_thousands(world: &World, concurrency: usize, round: u32) -> Duration {
    let name = |n: usize| format!("no-{concurrency}-{round}-{n}");
    let unknown: Vec<_> = (0..5_000).map(|n| fired(&name(n), "nobody-knows", "{}")).collect();
    world.fire_all(&unknown).await;
    let known = fired(&format!("known-{concurrency}-{round}"), "known", "{}");
    world.fire(&known).await;
    let executor = world.executor("a").await.concurrency(concurrency);
    let begun = Instant::now();
    let node = Node::run(executor.task("known", async |_, _: Json| Ok(())));
    world.events(&known, 2).await;
    let took = begun.elapsed();
    let every = |s: &serde_json::Value| {
        s["role"]["executor"]["counters"]["unknown_task"].as_u64().unwrap() >= 5_000
    };
    world.status("a", every).await;
    node.stop().await;
    took
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_unknown_tasks_delay_a_known_one_by_less_than_a_second() {
    const DELAY_MAX: Duration = Duration::from_secs(1);
    let world = World::start().await;
    for concurrency in [1, 16] {
        // Other tests keep the machine busy: the fastest round counts.
        let mut fastest = Duration::MAX;
        for round in 0..3 {
            if fastest >= DELAY_MAX {
                fastest = fastest.min(behind_thousands(&world, concurrency, round).await);
            }
        }
        assert!(fastest < DELAY_MAX, "{fastest:?} with room for {concurrency}");
    }
}
