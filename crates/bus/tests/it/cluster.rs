//! What only three servers show: elections, and a client whose server is cut off.

use std::time::{Duration, Instant};

use cronstream_bus::{Bus, CommitAnswer};

use crate::batch::{batch, cursor};
use crate::server::{Cluster, within};

/// Sends a batch until its fate is known, as a leader does.
async fn commit_whatever(bus: &Bus, tick: u64, expected: u64) -> u64 {
    let batch = batch(tick, 3, expected);
    loop {
        match bus.commit(&batch).await.unwrap() {
            CommitAnswer::Stored { last_seq } => return last_seq,
            CommitAnswer::Refused { .. } | CommitAnswer::Unknown => {
                let Ok(Some(found)) = bus.last_from_leader("CRON_LOG", "cron.cursor.0").await
                else {
                    continue;
                };
                if found.payload == format!("cursor {tick}") {
                    return found.seq;
                }
                assert_eq!(found.seq, expected, "somebody else's cursor");
            }
            CommitAnswer::Retry { .. } => tokio::time::sleep(Duration::from_millis(50)).await,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn every_batch_is_stored_once_through_a_broker_leaders_death() {
    let mut cluster = Cluster::start();
    let bus = cluster.bus().await;
    let mut seq = 0;
    for tick in 1..=5 {
        seq = within("a batch", commit_whatever(&bus, tick, seq)).await;
    }
    let leader = leader_of(&bus, &cluster, "CRON_LOG").await;
    cluster.servers[leader].kill();
    let start = Instant::now();
    for tick in 6..=10 {
        seq = within("a batch after the death", commit_whatever(&bus, tick, seq)).await;
    }
    println!("written again {:?} after the leader's death", start.elapsed());
    assert_eq!(cursor(&bus).await, (seq, "cursor 10".into()));
    // Ten ticks of three fires, the cursor and the settings; not one fire twice.
    let state = bus.stream_state("CRON_LOG").await.unwrap();
    assert_eq!(state.messages, 32);
}

/// The index of the server that leads a stream.
async fn leader_of(bus: &Bus, cluster: &Cluster, stream: &str) -> usize {
    let client = async_nats::connect(cluster.urls()).await.unwrap();
    within("a leader", async {
        loop {
            let subject = format!("$JS.API.STREAM.INFO.{stream}");
            let answer = client.request(subject, "".into()).await.unwrap();
            let info: serde_json::Value = serde_json::from_slice(&answer.payload).unwrap();
            if let Some(name) = info["cluster"]["leader"].as_str() {
                return name.trim_start_matches('n').parse::<usize>().unwrap();
            }
            bus.flush().await.unwrap();
        }
    })
    .await
}
