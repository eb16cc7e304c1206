//! Replay then follow, through everything that happens to a consumer.

use bytes::Bytes;
use cronstream_bus::{
    Append, AppendAnswer, Bus, Follow, FollowEvent, FollowOptions, From, StoredMessage,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::{Cluster, Server, within};

fn runs(from: From) -> FollowOptions {
    FollowOptions { stream: "CRON_RUNS".into(), filter: None, from }
}

fn commands(from: From) -> FollowOptions {
    FollowOptions { stream: "CRON_COMMANDS".into(), filter: None, from }
}

async fn publish(bus: &Bus, count: u64) -> u64 {
    let mut last = 0;
    for n in 0..count {
        let payload = Bytes::from(n.to_string());
        last = bus.publish_command("cron.define.a.b", &Vec::new(), payload).await.unwrap();
    }
    last
}

async fn append(bus: &Bus, shard: u64, expected_last_seq: u64) -> u64 {
    let append = Append {
        subject: format!("cron.run.q.a.b.r.{shard}"),
        headers: Vec::new(),
        payload: Bytes::from("{}"),
        ttl: None,
        msg_id: None,
        expected_last_seq,
    };
    match bus.append(&append).await.unwrap() {
        AppendAnswer::Stored { seq } => seq,
        other => panic!("{other:?}"),
    }
}

/// Everything up to a sequence, which must come in order and without a gap.
async fn read_through(follow: &mut Follow, next: u64, through: u64) -> Vec<StoredMessage> {
    let mut got: Vec<StoredMessage> = Vec::new();
    within(&format!("messages {next} to {through}"), async {
        while got.last().is_none_or(|message| message.seq < through) {
            match follow.next().await.unwrap() {
                FollowEvent::Messages(messages) => got.extend(messages),
                FollowEvent::CaughtUp { .. } => {}
                reset @ FollowEvent::Reset { .. } => panic!("{reset:?}"),
            }
        }
    })
    .await;
    let seqs: Vec<u64> = got.iter().map(|message| message.seq).collect();
    assert_eq!(seqs, (next..=through).collect::<Vec<_>>());
    got
}

/// The sequences of the next messages.
async fn read_some(follow: &mut Follow) -> Vec<u64> {
    within("messages", async {
        loop {
            match follow.next().await.unwrap() {
                FollowEvent::Messages(messages) => {
                    return messages.iter().map(|it| it.seq).collect();
                }
                FollowEvent::CaughtUp { .. } => {}
                reset @ FollowEvent::Reset { .. } => panic!("{reset:?}"),
            }
        }
    })
    .await
}

async fn caught_up(follow: &mut Follow) -> u64 {
    within("caught up", async {
        loop {
            match follow.next().await.unwrap() {
                FollowEvent::CaughtUp { through } => return through,
                FollowEvent::Messages(_) => {}
                reset @ FollowEvent::Reset { .. } => panic!("{reset:?}"),
            }
        }
    })
    .await
}

async fn consumers(bus: &Bus, stream: &str) -> u64 {
    bus.stream_state(stream).await.unwrap().consumer_count
}

#[tokio::test]
async fn what_stands_is_replayed_and_what_comes_is_followed() {
    let server = Server::start();
    let bus = server.bus().await;
    publish(&bus, 1200).await;
    let mut follow = bus.follow(commands(From::Oldest)).await.unwrap();
    let replayed = read_through(&mut follow, 1, 1200).await;
    assert_eq!(replayed[7].payload, "7");
    assert_eq!(caught_up(&mut follow).await, 1200);
    publish(&bus, 3).await;
    read_through(&mut follow, 1201, 1203).await;
}

#[tokio::test]
async fn an_empty_stream_is_caught_up_at_once() {
    let server = Server::start();
    let bus = server.bus().await;
    let mut follow = bus.follow(commands(From::Sequence(1))).await.unwrap();
    assert_eq!(caught_up(&mut follow).await, 0);
}

#[tokio::test]
async fn a_filter_is_caught_up_through_what_it_leaves_out() {
    let server = Server::start();
    let bus = server.bus().await;
    publish(&bus, 5).await;
    let filter = Some("cron.cancel.>".to_owned());
    let options = FollowOptions { filter, ..commands(From::Oldest) };
    let mut follow = bus.follow(options).await.unwrap();
    assert_eq!(caught_up(&mut follow).await, 5);
    publish(&bus, 2).await;
    follow.confirm();
    assert_eq!(caught_up(&mut follow).await, 7);
}

#[tokio::test]
async fn last_per_subject_gives_each_subject_once_and_then_everything() {
    let server = Server::start();
    let bus = server.bus().await;
    let mut last = [0; 3];
    for _ in 0..4 {
        for (shard, last) in last.iter_mut().enumerate() {
            *last = append(&bus, shard as u64, *last).await;
        }
    }
    let mut follow = bus.follow(runs(From::LastPerSubject)).await.unwrap();
    let replayed = read_through(&mut follow, 10, 12).await;
    assert_eq!(replayed.len(), 3);
    append(&bus, 0, last[0]).await;
    read_through(&mut follow, 13, 13).await;
}

#[tokio::test]
async fn a_kill_and_restart_of_the_server_loses_and_doubles_nothing() {
    let mut server = Server::start();
    let bus = server.bus().await;
    publish(&bus, 700).await;
    let mut follow = bus.follow(commands(From::Oldest)).await.unwrap();
    read_through(&mut follow, 1, 700).await;
    for round in 0..3 {
        server.kill_and_restart(&bus).await;
        let base = 700 + round * 10;
        publish(&bus, 10).await;
        read_through(&mut follow, base + 1, base + 10).await;
    }
    caught_up(&mut follow).await;
    assert_eq!(consumers(&bus, "CRON_COMMANDS").await, 1);
}

#[tokio::test]
async fn a_deleted_consumer_is_replaced_where_it_was() {
    let server = Server::start();
    let bus = server.bus().await;
    publish(&bus, 10).await;
    let mut follow = bus.follow(commands(From::Oldest)).await.unwrap();
    read_through(&mut follow, 1, 10).await;
    caught_up(&mut follow).await;
    let client = async_nats::connect(server.url()).await.unwrap();
    let names = client.request("$JS.API.CONSUMER.NAMES.CRON_COMMANDS", "".into()).await.unwrap();
    let names: serde_json::Value = serde_json::from_slice(&names.payload).unwrap();
    let name = names["consumers"][0].as_str().unwrap();
    let delete = format!("$JS.API.CONSUMER.DELETE.CRON_COMMANDS.{name}");
    client.request(delete, "".into()).await.unwrap();
    publish(&bus, 5).await;
    read_through(&mut follow, 11, 15).await;
}

#[tokio::test]
async fn a_dropped_handle_leaves_no_consumer() {
    let server = Server::start();
    let bus = server.bus().await;
    let mut follow = bus.follow(commands(From::Oldest)).await.unwrap();
    caught_up(&mut follow).await;
    assert_eq!(consumers(&bus, "CRON_COMMANDS").await, 1);
    drop(follow);
    within("the removal", async {
        while consumers(&bus, "CRON_COMMANDS").await > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_header_no_client_should_send_stops_nothing() {
    let server = Server::start();
    let bus = server.bus().await;
    publish(&bus, 3).await;
    let mut follow = bus.follow(commands(From::Oldest)).await.unwrap();
    read_through(&mut follow, 1, 3).await;
    poison(&server, 3).await;
    publish(&bus_again(&server).await, 3).await;
    let got = read_through(&mut follow, 4, 9).await;
    assert_eq!(got[0].payload, "poison");
    assert_eq!(got[0].header("Good"), Some("yes"));
    // And for one that begins in front of them.
    let mut second = bus.follow(commands(From::Oldest)).await.unwrap();
    read_through(&mut second, 1, 9).await;
}

async fn bus_again(server: &Server) -> Bus {
    Bus::connect(server.options()).await.unwrap()
}

/// Publishes commands with header bytes that are no text, as any program may.
async fn poison(server: &Server, count: usize) {
    let address = ("127.0.0.1", server.port());
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let header = b"NATS/1.0\r\nGood: yes\r\nBad Name: x\r\nLatin: \xe9t\xe9\r\n\r\n";
    let (h, all) = (header.len(), header.len() + 6);
    let mut wire = b"CONNECT {\"verbose\":false,\"headers\":true}\r\n".to_vec();
    for _ in 0..count {
        wire.extend(format!("HPUB cron.define.x.y {h} {all}\r\n").bytes());
        wire.extend(header);
        wire.extend(b"poison\r\n");
    }
    wire.extend(b"PING\r\n");
    socket.write_all(&wire).await.unwrap();
    let mut answer: Vec<u8> = Vec::new();
    within("pong", async {
        while !answer.windows(4).any(|four| four == b"PONG") {
            let mut buffer = [0; 1024];
            let n = socket.read(&mut buffer).await.unwrap();
            answer.extend(&buffer[..n]);
        }
    })
    .await;
}

async fn reset(follow: &mut Follow) -> (u64, u64) {
    within("the reset", async {
        loop {
            if let FollowEvent::Reset { first_seq, last_seq, .. } = follow.next().await.unwrap() {
                return (first_seq, last_seq);
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_start_before_the_oldest_message_is_a_reset() {
    let server = Server::start();
    let bus = server.bus().await;
    publish(&bus, 10).await;
    purge(&server, 5).await;
    let mut follow = bus.follow(commands(From::Sequence(3))).await.unwrap();
    assert_eq!(reset(&mut follow).await, (5, 10));
    read_through(&mut follow, 5, 10).await;
}

#[tokio::test]
async fn a_stream_made_anew_is_a_reset_and_replayed() {
    let server = Server::start();
    let bus = server.bus().await;
    publish(&bus, 10).await;
    let mut follow = bus.follow(commands(From::Oldest)).await.unwrap();
    read_through(&mut follow, 1, 10).await;
    let client = async_nats::connect(server.url()).await.unwrap();
    client.request("$JS.API.STREAM.DELETE.CRON_COMMANDS", "".into()).await.unwrap();
    bus.init(&crate::server::init(1)).await.unwrap();
    publish(&bus, 2).await;
    reset(&mut follow).await;
    read_through(&mut follow, 1, 2).await;
}

async fn purge(server: &Server, keep_from: u64) {
    let client = async_nats::connect(server.url()).await.unwrap();
    let body = format!("{{\"seq\":{keep_from}}}");
    client.request("$JS.API.STREAM.PURGE.CRON_COMMANDS", body.into()).await.unwrap();
}

#[tokio::test]
async fn a_slow_owner_gets_everything() {
    let server = Server::start();
    let bus = server.bus().await;
    publish(&bus, 5000).await;
    let mut follow = bus.follow(commands(From::Oldest)).await.unwrap();
    // The queue is full long before the first is taken.
    publish(&bus, 100).await;
    read_through(&mut follow, 1, 5100).await;
}

#[tokio::test]
async fn what_the_owner_knows_is_left_out_and_nothing_else() {
    let server = Server::start();
    let bus = server.bus().await;
    publish(&bus, 9000).await;
    let mut follow = bus.follow(commands(From::Oldest)).await.unwrap();
    let first = read_some(&mut follow).await;
    follow.pass(8900);
    let last = publish(&bus, 100).await;
    let mut seqs: Vec<u64> = first;
    while seqs.last() != Some(&last) {
        seqs.extend(read_some(&mut follow).await);
    }
    assert!(seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");
    assert!(seqs.len() < 8000, "{} of 9100 were given", seqs.len());
    let behind = seqs.iter().copied().filter(|seq| *seq > 8900);
    assert_eq!(behind.collect::<Vec<_>>(), (8901..=9100).collect::<Vec<_>>());
    follow.confirm();
    assert_eq!(caught_up(&mut follow).await, 9100);
    assert_eq!(consumers(&bus, "CRON_COMMANDS").await, 1);
}

#[tokio::test]
async fn what_was_known_of_another_stream_leaves_nothing_out() {
    let server = Server::start();
    let bus = server.bus().await;
    publish(&bus, 6200).await;
    let mut follow = bus.follow(commands(From::Oldest)).await.unwrap();
    read_through(&mut follow, 1, 6200).await;
    let client = async_nats::connect(server.url()).await.unwrap();
    client.request("$JS.API.STREAM.DELETE.CRON_COMMANDS", "".into()).await.unwrap();
    bus.init(&crate::server::init(1)).await.unwrap();
    publish(&bus, 6100).await;
    // It is told of the new stream, and the owner has not heard it yet.
    follow.pass(6200);
    reset(&mut follow).await;
    read_through(&mut follow, 1, 6100).await;
}

#[tokio::test]
async fn a_cluster_that_loses_a_server_is_followed_on() {
    let mut cluster = Cluster::start();
    let bus = cluster.bus().await;
    publish(&bus, 100).await;
    let mut follow = bus.follow(commands(From::Oldest)).await.unwrap();
    read_through(&mut follow, 1, 100).await;
    let here = bus.server_name();
    let index = here.trim_start_matches('n').parse::<usize>().unwrap();
    cluster.servers[index].kill();
    let last = within("a publication after the loss", async {
        loop {
            let payload = Bytes::from("after");
            match bus.publish_command("cron.define.a.b", &Vec::new(), payload).await {
                Ok(seq) => return seq,
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            }
        }
    })
    .await;
    read_through(&mut follow, 101, last).await;
}
