//! The connection: denials are told, an absent server is not waited for, another one is found.

use std::time::{Duration, Instant};

use bytes::Bytes;
use cronstream_bus::{
    Action, Bus, BusEvent, CommitAnswer, ConnectOptions, Error, FollowOptions, From,
};

use crate::batch::batch;
use crate::server::{Cluster, DEADLINE, Server, options, within};

const USERS: &str = r#"
authorization {
  users: [
    { user: root, password: root }
    { user: executor, password: "pw", permissions: {
        publish: { allow: ["cron.run.>", "$JS.API.STREAM.MSG.GET.CRON_RUNS"] }
        subscribe: { allow: ["_INBOX_executor.>"] } } }
  ]
}
"#;

fn as_user(server: &Server, user: &str, inbox_prefix: Option<&str>) -> ConnectOptions {
    let url = server.url().replace("nats://", &format!("nats://{user}@"));
    ConnectOptions { inbox_prefix: inbox_prefix.map(str::to_owned), ..options(&[url]) }
}

async fn denied(events: &mut tokio::sync::broadcast::Receiver<BusEvent>) -> (Action, String) {
    within("the event", async {
        loop {
            if let BusEvent::Denied { action, subject } = events.recv().await.unwrap() {
                return (action, subject);
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_denied_write_is_told_at_once_and_as_an_event() {
    let server = Server::start_with(USERS);
    let root = Bus::connect(as_user(&server, "root:root", None)).await.unwrap();
    root.init(&crate::server::init(1)).await.unwrap();
    let inbox = Some("_INBOX_executor");
    let bus = Bus::connect(as_user(&server, "executor:pw", inbox)).await.unwrap();
    let mut events = bus.events();
    let start = Instant::now();
    let answer = bus.commit(&batch(1, 3, 0)).await.unwrap();
    assert!(matches!(answer, CommitAnswer::Denied { .. }), "{answer:?}");
    let answer = bus.commit(&batch(1, 0, 0)).await.unwrap();
    let subject = "cron.cursor.0".to_owned();
    assert_eq!(answer, CommitAnswer::Denied { subject });
    let told = denied(&mut events).await;
    assert_eq!(told, (Action::Publish, "cron.fire.q.billing.nightly".into()));
    let error = bus.stream_state("CRON_LOG").await.unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error}");
    let options = FollowOptions { stream: "CRON_LOG".into(), filter: None, from: From::Oldest };
    assert!(bus.follow(options).await.is_err());
    assert!(bus.ensure_queue("q", Duration::from_secs(30)).await.is_err());
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    // And what is allowed goes on.
    assert!(bus.last_from_leader("CRON_RUNS", "cron.run.x").await.unwrap().is_none());
}

#[tokio::test]
async fn a_wrong_inbox_prefix_is_told_and_not_waited_for() {
    let server = Server::start_with(USERS);
    let bus = Bus::connect(as_user(&server, "executor:pw", None)).await.unwrap();
    let start = Instant::now();
    for _ in 0..3 {
        let error = bus.last_from_leader("CRON_RUNS", "cron.run.x").await.unwrap_err();
        assert!(
            matches!(&error, Error::Denied { subject } if subject.starts_with("_INBOX")),
            "{error}"
        );
    }
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}

#[tokio::test]
async fn nothing_is_sent_later_that_was_asked_without_a_connection() {
    let mut server = Server::start();
    let bus = server.bus().await;
    let mut events = bus.events();
    server.kill();
    within("disconnected", async {
        while events.recv().await.unwrap() != BusEvent::Disconnected {}
    })
    .await;
    let start = Instant::now();
    let answer = bus.commit(&batch(1, 2, 0)).await.unwrap();
    assert_eq!(answer, CommitAnswer::Retry { code: 503 });
    let command = bus.publish_command("cron.define.a.b", &Vec::new(), Bytes::new()).await;
    assert!(matches!(command, Err(Error::Unavailable { .. })), "{command:?}");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    server.restart();
    within("connected", async { while events.recv().await.unwrap() != BusEvent::Connected {} })
        .await;
    assert_eq!(bus.stream_state("CRON_COMMANDS").await.unwrap().last_seq, 0);
    assert!(bus.last_from_leader("CRON_LOG", "cron.cursor.0").await.unwrap().is_none());
}

#[tokio::test]
async fn a_dead_server_in_the_list_is_passed_over() {
    let mut dead = Server::start();
    dead.kill();
    let server = Server::start();
    for _ in 0..4 {
        let list = options(&[dead.url(), server.url()]);
        let bus = within("connect", Bus::connect(list)).await.unwrap();
        assert!(bus.is_connected());
    }
    let error = Bus::connect(dead.options()).await.unwrap_err();
    assert!(error.to_string().contains(&dead.port().to_string()), "{error}");
}

#[tokio::test]
async fn a_forced_reconnect_goes_elsewhere() {
    let cluster = Cluster::start();
    let bus = Bus::connect(options(&cluster.urls())).await.unwrap();
    for _ in 0..3 {
        let before = bus.server_name();
        let mut connects = bus.connects();
        connects.mark_unchanged();
        bus.force_reconnect().await;
        within("another server", connects.changed()).await.unwrap();
        within("its name", async {
            while bus.server_name() == before {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_verdict_reaches_the_inbox_it_was_asked_for() {
    let server = Server::start();
    let asker = Bus::connect(server.options()).await.unwrap();
    let mut inbox = asker.subscribe_inbox().await.unwrap();
    asker.flush().await.unwrap();
    let ticker = Bus::connect(server.options()).await.unwrap();
    let headers = vec![("Cron-Run", "r".to_owned())];
    ticker.publish_core(inbox.subject(), &headers, "ok".into()).await.unwrap();
    let verdict = within("the verdict", inbox.next()).await.unwrap();
    assert_eq!((&verdict.payload[..], verdict.headers().count()), (&b"ok"[..], 1));
    let elsewhere = ticker.publish_core("cron.cursor.0", &Vec::new(), Bytes::new()).await;
    assert!(matches!(elsewhere, Err(Error::Subject(_))), "{elsewhere:?}");
}

#[tokio::test]
async fn a_request_outside_of_jetstream_is_answered_refused_or_late() {
    let server = Server::start();
    let bus = Bus::connect(server.options()).await.unwrap();
    let ask = |subject: &'static str, timeout| {
        let bus = bus.clone();
        async move { bus.request_core(subject, &Vec::new(), "x".into(), timeout).await }
    };
    let nobody = ask("tasks.none", DEADLINE).await;
    assert!(matches!(nobody, Err(Error::Unavailable { .. })), "{nobody:?}");
    let client = async_nats::connect(server.url()).await.unwrap();
    let _deaf = client.subscribe("tasks.deaf").await.unwrap();
    // Its own answer comes behind the subscription.
    client.request("tasks.none", "".into()).await.unwrap_err();
    let late = ask("tasks.deaf", Duration::from_millis(200)).await;
    assert!(matches!(late, Err(Error::TimedOut { .. })), "{late:?}");
}

#[tokio::test]
async fn a_client_whose_server_hangs_moves_to_another() {
    let cluster = Cluster::start();
    let bus = cluster.bus().await;
    let before = bus.server_name();
    let hung = &cluster.servers[before.trim_start_matches('n').parse::<usize>().unwrap()];
    hung.signal("STOP");
    // What it was asked right before it stopped, it may still have answered.
    within("an answer from another server", async {
        while bus.stream_state("CRON_LOG").await.is_err() || bus.server_name() == before {
            tokio::task::yield_now().await;
        }
    })
    .await;
    hung.signal("CONT");
}

#[tokio::test]
async fn many_requests_broken_by_one_loss_do_not_shake_the_connection() {
    let mut server = Server::start();
    let bus = server.bus().await;
    let mut events = bus.events();
    let requests: Vec<_> = (0..100)
        .map(|_| {
            let bus = bus.clone();
            tokio::spawn(async move { bus.stream_state("CRON_LOG").await })
        })
        .collect();
    server.kill_and_restart(&bus).await;
    for request in requests {
        // Answered, refused or broken: any of them, but soon.
        within("the end of a request", request).await.unwrap().ok();
    }
    within("an answer", async { while bus.stream_state("CRON_LOG").await.is_err() {} }).await;
    let mut connects = 0;
    while let Ok(event) = events.try_recv() {
        assert!(!matches!(event, BusEvent::Moved { .. }), "{event:?}");
        connects += u32::from(event == BusEvent::Connected);
    }
    assert_eq!(connects, 1);
}
