//! Compare-and-set appends and groups of them.

use bytes::Bytes;
use cronstream_bus::{Append, AppendAnswer, Bus, Error, Ttl};

use crate::server::{Cluster, Server};

fn event(shard: usize, expected_last_seq: u64) -> Append {
    Append {
        subject: format!("cron.run.q.billing.nightly.r.{shard}"),
        headers: vec![("Cron-Run", "r".into())],
        payload: Bytes::from("{}"),
        ttl: Some(Ttl::Seconds(3600)),
        msg_id: None,
        expected_last_seq,
    }
}

async fn appends(bus: &Bus) {
    let first = bus.append(&event(0, 0)).await.unwrap();
    let AppendAnswer::Stored { seq } = first else { panic!("{first:?}") };
    assert_eq!(bus.append(&event(0, 0)).await.unwrap(), AppendAnswer::Conflict);
    assert_eq!(bus.append(&event(0, seq)).await.unwrap(), AppendAnswer::Stored { seq: seq + 1 });
    let last = bus.last_from_leader("CRON_RUNS", &event(0, 0).subject).await.unwrap().unwrap();
    assert_eq!((last.seq, last.header("Cron-Run")), (seq + 1, Some("r")));
    let none = bus.last_direct("CRON_RUNS", "cron.run.q.billing.nightly.r.9").await.unwrap();
    assert_eq!(none, None);
}

async fn groups(bus: &Bus) {
    let start = bus.stream_state("CRON_RUNS").await.unwrap().last_seq;
    let group: Vec<Append> = (100..150).map(|shard| event(shard, 0)).collect();
    let stored = bus.append_batch(&group).await.unwrap();
    assert_eq!(stored, AppendAnswer::Stored { seq: start + 50 });
    // One of them stands elsewhere: none is stored.
    let mut second: Vec<Append> = (0..50).map(|n| event(100 + n, start + 1 + n as u64)).collect();
    second[17].expected_last_seq = 1;
    assert_eq!(bus.append_batch(&second).await.unwrap(), AppendAnswer::Conflict);
    assert_eq!(bus.stream_state("CRON_RUNS").await.unwrap().last_seq, start + 50);
    second.remove(17);
    let stored = bus.append_batch(&second).await.unwrap();
    assert_eq!(stored, AppendAnswer::Stored { seq: start + 99 });
}

#[tokio::test]
async fn an_append_with_a_stale_expectation_conflicts() {
    let server = Server::start();
    appends(&server.bus().await).await;
}

#[tokio::test]
async fn a_group_is_stored_whole_or_not_at_all() {
    let server = Server::start();
    let bus = server.bus().await;
    groups(&bus).await;
    let too_many: Vec<Append> = (0..1001).map(|shard| event(shard, 0)).collect();
    let error = bus.append_batch(&too_many).await.unwrap_err();
    assert!(matches!(error, Error::TooMany { count: 1001, .. }), "{error}");
    assert!(bus.append_batch(&[]).await.is_err());
}

#[tokio::test]
async fn appends_and_groups_hold_on_three_replicas() {
    let cluster = Cluster::start();
    let bus = cluster.bus().await;
    appends(&bus).await;
    groups(&bus).await;
}

#[tokio::test]
async fn of_many_appends_at_once_one_wins() {
    let server = Server::start();
    let bus = server.bus().await;
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let bus = bus.clone();
            tokio::spawn(async move { bus.append(&event(0, 0)).await.unwrap() })
        })
        .collect();
    let mut won = 0;
    for task in tasks {
        match task.await.unwrap() {
            AppendAnswer::Stored { .. } => won += 1,
            AppendAnswer::Conflict => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(won, 1);
}

#[tokio::test]
async fn what_does_not_fit_is_refused_before_it_is_sent() {
    let server = Server::start();
    let bus = server.bus().await;
    let mut large = event(0, 0);
    large.payload = vec![0; 2 * 1024 * 1024].into();
    let error = bus.append(&large).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert!(bus.is_connected());
}
