//! Queues: fires are delivered at once, come again when they are not settled, and survive a lost
//! consumer.

use std::time::{Duration, Instant};

use cronstream_bus::{Bus, CommitAnswer, Delivery, Queue};

use crate::batch::{batch, cursor};
use crate::server::{Server, within};

async fn fire(bus: &Bus, tick: u64, count: usize) {
    let found = bus.last_from_leader("CRON_LOG", "cron.cursor.0").await.unwrap();
    let expected = found.map_or(0, |found| found.seq);
    let answer = bus.commit(&batch(tick, count, expected)).await.unwrap();
    assert!(matches!(answer, CommitAnswer::Stored { .. }), "{answer:?}");
    assert!(cursor(bus).await.0 > expected);
}

async fn fetch(queue: &Queue, n: usize) -> Vec<Delivery> {
    within("deliveries", async {
        loop {
            let got = queue.fetch(n, Duration::from_secs(5)).await.unwrap();
            if !got.is_empty() {
                return got;
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_fetch_gives_what_there_is_at_once() {
    let server = Server::start();
    let bus = server.bus().await;
    let queue = bus.ensure_queue("q", Duration::from_secs(30)).await.unwrap();
    fire(&bus, 1, 3).await;
    let start = Instant::now();
    let got = fetch(&queue, 16).await;
    assert_eq!(got.len(), 3);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!((got[0].delivered, &got[0].message.payload[..]), (1, &b"1.0"[..]));
    for delivery in got {
        delivery.ack().await.unwrap();
    }
    within("all settled", async {
        while bus.queue_state("q").await.unwrap().unwrap().unsettled > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_waiting_fetch_wakes_with_the_first_fire() {
    let server = Server::start();
    let bus = server.bus().await;
    let queue = bus.ensure_queue("q", Duration::from_secs(30)).await.unwrap();
    let waiting = queue.clone();
    let task = tokio::spawn(async move { waiting.fetch(16, Duration::from_secs(20)).await });
    within("a waiting pull", async {
        while bus.queue_state("q").await.unwrap().unwrap().waiting == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let start = Instant::now();
    fire(&bus, 1, 2).await;
    let got = within("the wake", task).await.unwrap().unwrap();
    assert!(!got.is_empty() && start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test]
async fn an_empty_queue_ends_a_fetch_with_nothing() {
    let server = Server::start();
    let bus = server.bus().await;
    let queue = bus.ensure_queue("q", Duration::from_secs(30)).await.unwrap();
    let start = Instant::now();
    assert!(queue.fetch(4, Duration::from_secs(2)).await.unwrap().is_empty());
    assert!(start.elapsed() >= Duration::from_millis(1900), "{:?}", start.elapsed());
    assert_eq!(bus.queue_state("other").await.unwrap(), None);
}

#[tokio::test]
async fn many_executors_that_wait_share_what_comes() {
    let server = Server::start();
    let bus = server.bus().await;
    bus.ensure_queue("q", Duration::from_secs(30)).await.unwrap();
    let (tx, mut rx) = tokio::sync::mpsc::channel(100);
    for _ in 0..8 {
        let (bus, tx) = (bus.clone(), tx.clone());
        tokio::spawn(async move {
            let queue = bus.ensure_queue("q", Duration::from_secs(30)).await.unwrap();
            loop {
                for delivery in queue.fetch(16, Duration::from_secs(5)).await.unwrap() {
                    delivery.ack().await.unwrap();
                    if tx.send(delivery.message.seq).await.is_err() {
                        return;
                    }
                }
            }
        });
    }
    for tick in 0..20 {
        fire(&bus, tick, 10).await;
    }
    let mut seqs = std::collections::BTreeSet::new();
    within("200 fires", async {
        while seqs.len() < 200 {
            assert!(seqs.insert(rx.recv().await.unwrap()), "delivered twice");
        }
    })
    .await;
}

#[tokio::test]
async fn a_fire_handed_back_or_forgotten_comes_again() {
    let server = Server::start();
    let bus = server.bus().await;
    let queue = bus.ensure_queue("q", Duration::from_secs(1)).await.unwrap();
    fire(&bus, 1, 1).await;
    let first = fetch(&queue, 1).await.remove(0);
    first.nak(Duration::from_millis(200)).await.unwrap();
    let second = fetch(&queue, 1).await.remove(0);
    assert_eq!((second.delivered, second.message.seq), (2, first.message.seq));
    // Kept alive past its ack wait, then forgotten.
    for _ in 0..3 {
        second.progress().await.unwrap();
        assert!(queue.fetch(1, Duration::from_secs(2)).await.unwrap().len() <= 1);
    }
    let third = fetch(&queue, 1).await.remove(0);
    assert!(third.delivered >= 3);
}

#[tokio::test]
async fn a_lost_consumer_is_made_again_and_nothing_is_lost() {
    let server = Server::start();
    let bus = server.bus().await;
    let queue = bus.ensure_queue("q", Duration::from_secs(30)).await.unwrap();
    fire(&bus, 1, 1).await;
    let client = async_nats::connect(server.url()).await.unwrap();
    client.request("$JS.API.CONSUMER.DELETE.CRON_LOG.q", "".into()).await.unwrap();
    assert_eq!(fetch(&queue, 4).await.len(), 1);
}

#[tokio::test]
async fn a_fetch_survives_a_kill_and_restart_of_the_server() {
    let mut server = Server::start();
    let bus = server.bus().await;
    let queue = bus.ensure_queue("q", Duration::from_secs(30)).await.unwrap();
    let waiting = queue.clone();
    let task = tokio::spawn(async move { waiting.fetch(4, Duration::from_secs(30)).await });
    within("a waiting pull", async {
        while bus.queue_state("q").await.unwrap().unwrap().waiting == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    server.kill_and_restart(&bus).await;
    assert!(within("the end of the fetch", task).await.unwrap().unwrap().is_empty());
    fire(&bus, 1, 2).await;
    assert_eq!(fetch(&queue, 4).await.len(), 2);
}
