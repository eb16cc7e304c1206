//! The fence: what a stale leader sends is refused, what was sent twice is stored once.

use std::time::Duration;

use cronstream_bus::{Batch, Bus, CommitAnswer, FollowEvent, FollowOptions, From, OutMessage, Ttl};

use crate::server::{Cluster, Server, within};

pub(crate) fn batch(tick: u64, events: usize, expected: u64) -> Batch {
    let event = |n: usize| {
        let mut message = OutMessage::new("cron.fire.q.billing.nightly", format!("{tick}.{n}"));
        message.ttl = Some(Ttl::at_least(Duration::from_secs(60)));
        message.msg_id = Some(format!("{tick}.{n}"));
        message.headers.push(("Cron-Tick", format!("1.{tick}")));
        message
    };
    Batch {
        messages: (0..events).map(event).collect(),
        cursor: OutMessage::new("cron.cursor.0", format!("cursor {tick}")),
        headers: Vec::new(),
        cursor_expected_seq: expected,
    }
}

pub(crate) async fn cursor(bus: &Bus) -> (u64, String) {
    let found = bus.last_from_leader("CRON_LOG", "cron.cursor.0").await.unwrap().unwrap();
    (found.seq, String::from_utf8(found.payload.to_vec()).unwrap())
}

#[tokio::test]
async fn a_stale_cursor_refuses_the_whole_batch() {
    let server = Server::start();
    let bus = server.bus().await;
    the_fence_holds(&bus).await;
}

#[tokio::test]
async fn a_stale_cursor_refuses_the_whole_batch_on_three_replicas() {
    let cluster = Cluster::start();
    let bus = cluster.bus().await;
    the_fence_holds(&bus).await;
}

async fn the_fence_holds(bus: &Bus) {
    let first = bus.commit(&batch(1, 3, 0)).await.unwrap();
    let CommitAnswer::Stored { last_seq } = first else { panic!("{first:?}") };
    assert_eq!(cursor(bus).await, (last_seq, "cursor 1".into()));

    let stale = bus.commit(&batch(2, 3, 0)).await.unwrap();
    assert!(matches!(stale, CommitAnswer::Refused { code: 10071 | 10164, .. }), "{stale:?}");
    assert_eq!(bus.stream_state("CRON_LOG").await.unwrap().last_seq, last_seq);

    let next = bus.commit(&batch(3, 997, last_seq)).await.unwrap();
    assert_eq!(next, CommitAnswer::Stored { last_seq: last_seq + 998 });
    // The old cursor was rolled up, the fires stayed.
    assert!(bus.by_seq("CRON_LOG", last_seq).await.unwrap().is_none());
    assert!(bus.by_seq("CRON_LOG", last_seq - 1).await.unwrap().is_some());
}

#[tokio::test]
async fn the_same_batch_after_a_lost_answer_is_refused_and_the_cursor_tells_why() {
    let server = Server::start();
    let bus = server.bus().await;
    let first = batch(1, 2, 0);
    let CommitAnswer::Stored { last_seq } = bus.commit(&first).await.unwrap() else { panic!() };
    // As if the answer had been lost.
    let again = bus.commit(&first).await.unwrap();
    assert!(matches!(again, CommitAnswer::Refused { code: 10071 | 10201, .. }), "{again:?}");
    assert_eq!(cursor(&bus).await, (last_seq, "cursor 1".into()));
}

#[tokio::test]
async fn a_known_id_refuses_the_batch_and_without_ids_it_is_stored() {
    let server = Server::start();
    let bus = server.bus().await;
    let CommitAnswer::Stored { last_seq } = bus.commit(&batch(1, 2, 0)).await.unwrap() else {
        panic!()
    };
    let mut known = batch(1, 2, last_seq);
    let refused = bus.commit(&known).await.unwrap();
    assert!(matches!(refused, CommitAnswer::Refused { code: 10201, .. }), "{refused:?}");
    known.messages.iter_mut().for_each(|message| message.msg_id = None);
    assert_eq!(bus.commit(&known).await.unwrap(), CommitAnswer::Stored { last_seq: last_seq + 3 });
}

#[tokio::test]
async fn a_cursor_alone_is_a_batch_of_one() {
    let server = Server::start();
    let bus = server.bus().await;
    let CommitAnswer::Stored { last_seq } = bus.commit(&batch(1, 0, 0)).await.unwrap() else {
        panic!()
    };
    let stale = bus.commit(&batch(2, 0, 0)).await.unwrap();
    assert!(matches!(stale, CommitAnswer::Refused { code: 10071, .. }), "{stale:?}");
    let stored = cursor_message(&bus).await;
    assert_eq!((stored.seq, stored.header("Nats-TTL")), (last_seq, Some("never")));
}

async fn cursor_message(bus: &Bus) -> cronstream_bus::StoredMessage {
    bus.last_from_leader("CRON_LOG", "cron.cursor.0").await.unwrap().unwrap()
}

#[tokio::test]
async fn a_message_with_a_ttl_goes_and_one_without_end_stays() {
    let server = Server::start();
    let bus = server.bus().await;
    let mut short = batch(1, 1, 0);
    short.messages[0].ttl = Some(Ttl::at_least(Duration::from_millis(300)));
    let CommitAnswer::Stored { last_seq } = bus.commit(&short).await.unwrap() else { panic!() };
    within("the fire expires", async {
        while bus.by_seq("CRON_LOG", last_seq - 1).await.unwrap().is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(cursor(&bus).await.0, last_seq);
}

#[tokio::test]
async fn an_event_may_roll_up_its_own_subject_and_nothing_else() {
    let server = Server::start();
    let bus = server.bus().await;
    let with_job = |tick: u64, expected: u64| {
        let mut batch = batch(tick, 1, expected);
        let mut job = OutMessage::new("cron.job.billing.nightly", format!("state {tick}"));
        job.rollup = true;
        job.ttl = Some(Ttl::Never);
        batch.messages.push(job);
        batch
    };
    let CommitAnswer::Stored { last_seq } = bus.commit(&with_job(1, 0)).await.unwrap() else {
        panic!()
    };
    bus.commit(&with_job(2, last_seq)).await.unwrap();
    // Two fires, one job, one cursor, the settings.
    assert_eq!(bus.stream_state("CRON_LOG").await.unwrap().messages, 5);
    let job = bus.last_direct("CRON_LOG", "cron.job.billing.nightly").await.unwrap().unwrap();
    assert_eq!(job.payload, "state 2");
    assert!(job.timestamp_ms > 1_600_000_000_000 && job.header("Nats-Rollup") == Some("sub"));
}

#[tokio::test]
async fn batches_of_many_partitions_at_once_are_all_stored() {
    let server = Server::start();
    let bus = server.bus().await;
    let commits = (0..32_u8).map(|partition| {
        let bus = bus.clone();
        tokio::spawn(async move {
            let subject = format!("cron.cursor.{partition}");
            let mut expected = 0;
            for tick in 0..10 {
                let mut batch = batch(tick, 5, expected);
                batch.messages.iter_mut().for_each(|message| message.msg_id = None);
                batch.cursor.subject.clone_from(&subject);
                let answer = bus.commit(&batch).await.unwrap();
                let CommitAnswer::Stored { last_seq } = answer else { panic!("{answer:?}") };
                expected = last_seq;
            }
        })
    });
    for commit in commits.collect::<Vec<_>>() {
        within("32 writers", commit).await.unwrap();
    }
    assert_eq!(bus.stream_state("CRON_LOG").await.unwrap().last_seq, 32 * 10 * 6 + 1);
}

#[tokio::test]
async fn the_log_can_be_followed_with_the_headers_it_was_given() {
    let server = Server::start();
    let bus = server.bus().await;
    bus.commit(&batch(7, 1, 0)).await.unwrap();
    let options = FollowOptions {
        stream: "CRON_LOG".into(),
        filter: Some("cron.fire.>".into()),
        from: From::Oldest,
    };
    let mut follow = bus.follow(options).await.unwrap();
    let Some(FollowEvent::Messages(messages)) = within("fires", follow.next()).await else {
        panic!()
    };
    assert_eq!(messages[0].header("Cron-Tick"), Some("1.7"));
    assert_eq!(messages[0].header("Nats-Msg-Id"), Some("7.0"));
    assert_eq!(messages[0].payload, "7.0");
}
