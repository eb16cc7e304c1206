//! Nodes answer for themselves, all of them.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use cronstream_bus::{Bus, ConnectOptions, ServiceInfo};

use crate::server::{Server, within};

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
        connection.flush().await.unwrap();
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
