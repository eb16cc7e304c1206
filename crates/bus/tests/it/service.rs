//! Nodes answer for themselves, all of them.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use cronstream_bus::{Bus, ConnectOptions, ServiceInfo};

use crate::server::{DEADLINE, Server, within};

fn node(role: &str) -> ServiceInfo {
    ServiceInfo {
        role: role.into(),
        version: "0.1.0".into(),
        metadata: HashMap::from([("node".into(), "n1".into())]),
    }
}

#[tokio::test]
async fn every_node_of_the_installation_answers() {
    let server = Server::start();
    let bus = Bus::connect(server.options()).await.unwrap();
    let second = Bus::connect(server.options()).await.unwrap();
    let prefix = "acme".parse().unwrap();
    let other = Bus::connect(ConnectOptions { prefix, ..server.options() }).await.unwrap();
    let ticker = bus.serve(node("ticker"), || Bytes::from("\"ticker\"")).await.unwrap();
    let _executor = second.serve(node("executor"), || Bytes::from("\"executor\"")).await.unwrap();
    let _other = other.serve(node("ticker"), || Bytes::from("\"other\"")).await.unwrap();
    for connection in [&bus, &second, &other] {
        // Its own answer comes behind the subscriptions.
        let nobody = connection.request_core("nobody", &Vec::new(), Bytes::new(), DEADLINE).await;
        assert!(nobody.is_err());
    }
    let mut found: Vec<_> = bus.discover(Duration::from_secs(2)).await.unwrap();
    found.sort_by(|a, b| a.payload.cmp(&b.payload));
    let found: Vec<_> = found.iter().map(|node| &node.payload[..]).collect();
    assert_eq!(found, [&b"\"executor\""[..], b"\"ticker\""]);

    let client = async_nats::connect(server.url()).await.unwrap();
    let info = client.request("$SRV.INFO.cronstream-ticker", "".into()).await.unwrap();
    let info: serde_json::Value = serde_json::from_slice(&info.payload).unwrap();
    assert_eq!(info["metadata"]["node"], "n1");

    ticker.stop().await;
    within("the ticker is gone", async {
        while bus.discover(Duration::from_secs(2)).await.unwrap().len() != 1 {}
    })
    .await;
}

#[tokio::test]
async fn nobody_answers_where_nobody_serves() {
    let server = Server::start();
    let bus = Bus::connect(server.options()).await.unwrap();
    assert!(bus.discover(Duration::from_secs(1)).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_request_is_answered_by_one_of_the_group() {
    let server = Server::start();
    let bus = Bus::connect(server.options()).await.unwrap();
    let (mut first, mut second) = (
        bus.requests("svc.sum", "sum").await.unwrap(),
        bus.requests("svc.sum", "sum").await.unwrap(),
    );
    bus.flush().await.unwrap();
    let asking = bus.clone();
    let asked = tokio::spawn(async move {
        let headers = Vec::new();
        asking.request_core("svc.sum", &headers, "1".into(), Duration::from_secs(5)).await
    });
    let request = tokio::select! {
        request = first.next() => request,
        request = second.next() => request,
    };
    let request = request.unwrap();
    assert_eq!(&request.payload[..], b"1");
    request.answer(&vec![("Cron-Status", "ok".into())], "2".into()).await.unwrap();
    let answer = asked.await.unwrap().unwrap();
    assert_eq!((&answer.payload[..], answer.header("Cron-Status")), (&b"2"[..], Some("ok")));
}
