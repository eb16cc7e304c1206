//! Leases: one winner, expiry without a renewal, markers that do not stand in the way.

use std::time::Duration;

use bytes::Bytes;
use cronstream_bus::{Bus, Change, LeaseAnswer, LeaseEvent};

use crate::server::{Cluster, Server, within};

async fn won(answer: impl Future<Output = Result<LeaseAnswer, cronstream_bus::Error>>) -> u64 {
    match answer.await.unwrap() {
        LeaseAnswer::Won { revision } => revision,
        other => panic!("{other:?}"),
    }
}

async fn race(bus: &Bus) {
    let tasks: Vec<_> = (0..20)
        .map(|node| {
            let bus = bus.clone();
            let value = Bytes::from(format!("node {node}"));
            tokio::spawn(async move { bus.lease_create("partition.0", value).await.unwrap() })
        })
        .collect();
    let mut winners = 0;
    for task in tasks {
        match task.await.unwrap() {
            LeaseAnswer::Won { .. } => winners += 1,
            LeaseAnswer::Lost | LeaseAnswer::Retry { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(winners, 1);
}

#[tokio::test]
async fn of_many_nodes_one_takes_the_lease() {
    let server = Server::start();
    race(&server.bus().await).await;
}

#[tokio::test]
async fn of_many_nodes_one_takes_the_lease_on_three_replicas() {
    let cluster = Cluster::start();
    race(&cluster.bus().await).await;
}

#[tokio::test]
async fn a_lease_is_renewed_by_revision_and_given_up() {
    let server = Server::start();
    let bus = server.bus().await;
    let first = won(bus.lease_create("partition.0", "a".into())).await;
    assert_eq!(bus.lease_create("partition.0", "b".into()).await.unwrap(), LeaseAnswer::Lost);
    let second = won(bus.lease_update("partition.0", "a".into(), first)).await;
    let stale = bus.lease_update("partition.0", "b".into(), first).await.unwrap();
    assert_eq!(stale, LeaseAnswer::Lost);
    won(bus.lease_create("node.n1", "n1".into())).await;

    let leases = bus.leases().await.unwrap();
    let keys: Vec<_> = leases.iter().map(|lease| (lease.key.as_str(), lease.revision)).collect();
    assert_eq!(keys, [("node.n1", second + 1), ("partition.0", second)]);
    assert!(leases.iter().all(|lease| lease.age < Duration::from_secs(2)));

    assert_eq!(bus.lease_delete("partition.0", first).await.unwrap(), LeaseAnswer::Lost);
    won(bus.lease_delete("partition.0", second)).await;
    assert_eq!(bus.lease_get("partition.0").await.unwrap(), None);
    let again = won(bus.lease_create("partition.0", "b".into())).await;
    let found = bus.lease_get("partition.0").await.unwrap().unwrap();
    assert_eq!((found.revision, found.value), (again, Bytes::from("b")));
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_expires_however_often_it_was() {
    let server = Server::start();
    let bus = server.bus().await;
    let mut watch = bus.watch_leases();
    let mut revision = won(bus.lease_create("partition.0", "a".into())).await;
    for _ in 0..3 {
        revision = won(bus.lease_update("partition.0", "a".into(), revision)).await;
    }
    within("the lease expires", async {
        loop {
            if let Some(LeaseEvent::Gone { key, expired, .. }) = watch.next().await {
                assert_eq!((key.as_str(), expired), ("partition.0", true));
                break;
            }
        }
    })
    .await;
    // The marker of the expiry does not stand in the way, and the new value expires as well.
    won(bus.lease_create("partition.0", "b".into())).await;
    within("the second lease expires", async {
        while !matches!(watch.next().await, Some(LeaseEvent::Gone { .. })) {}
    })
    .await;
}

#[tokio::test]
async fn a_watch_tells_what_stands_then_what_happens() {
    let server = Server::start();
    let bus = server.bus().await;
    let revision = won(bus.lease_create("partition.0", "a".into())).await;
    let mut watch = bus.watch_leases();
    let mut events = Vec::new();
    within("the view", async {
        for _ in 0..3 {
            events.push(watch.next().await.unwrap());
        }
    })
    .await;
    let key = || "partition.0".to_owned();
    let put = LeaseEvent::Put { key: key(), value: "a".into(), revision };
    assert_eq!(events, [LeaseEvent::Restarted, put, LeaseEvent::Synced]);
    let gone = won(bus.lease_delete("partition.0", revision)).await;
    let event = within("the deletion", watch.next()).await.unwrap();
    assert_eq!(event, LeaseEvent::Gone { key: key(), revision: gone, expired: false });
}

#[tokio::test]
async fn a_watch_begins_anew_after_a_restart() {
    let mut server = Server::start();
    let bus = server.bus().await;
    let mut watch = bus.watch_leases();
    within("first", async { while watch.next().await != Some(LeaseEvent::Synced) {} }).await;
    server.kill_and_restart(&bus).await;
    within("anew", async { while watch.next().await != Some(LeaseEvent::Restarted) {} }).await;
    within("synced", async { while watch.next().await != Some(LeaseEvent::Synced) {} }).await;
}

#[tokio::test]
async fn a_lost_bucket_is_made_again() {
    let server = Server::start();
    let bus = server.bus().await;
    let ttl = Duration::from_secs(2);
    assert_eq!(bus.ensure_leases(1, ttl).await.unwrap(), Change::Unchanged);
    let client = async_nats::connect(server.url()).await.unwrap();
    client.request("$JS.API.STREAM.DELETE.KV_CRON_LEASES", "".into()).await.unwrap();
    let answer = bus.lease_create("partition.0", "a".into()).await.unwrap();
    assert_eq!(answer, LeaseAnswer::Retry { code: 503 });
    assert_eq!(bus.ensure_leases(1, ttl).await.unwrap(), Change::Created);
    won(bus.lease_create("partition.0", "a".into())).await;
}
