//! init, check and probe.

use std::time::Duration;

use cronstream_bus::{Bus, Change, ConnectOptions, Error, InitOptions};

use crate::server::{Cluster, Server, init};

#[tokio::test]
async fn init_makes_everything_once_and_keeps_the_first_settings() {
    let server = Server::start();
    let bus = Bus::connect(server.options()).await.unwrap();
    let missing = bus.check().await.unwrap_err();
    assert!(missing.to_string().contains("cronstream init"), "{missing}");

    let first = bus.init(&init(1)).await.unwrap();
    assert!(first.meta_stored && first.streams.iter().all(|(_, c)| *c == Change::Created));
    let other = InitOptions { meta: b"other".to_vec(), ..init(1) };
    let second = bus.init(&other).await.unwrap();
    assert!(second.streams.iter().all(|(_, c)| *c == Change::Unchanged), "{second:?}");
    assert_eq!((second.meta, second.meta_stored), (init(1).meta, false));

    let found = bus.check().await.unwrap();
    assert_eq!(found.drift, Vec::<String>::new());
    assert_eq!((found.replicas, found.lease_ttl), (1, Duration::from_secs(2)));
    assert_eq!(found.meta, Some(init(1).meta));
}

#[tokio::test]
async fn init_changes_the_lease_ttl_and_nothing_else() {
    let server = Server::start();
    let bus = server.bus().await;
    let longer = InitOptions { lease_ttl: Duration::from_secs(9), ..init(1) };
    let report = bus.init(&longer).await.unwrap();
    let updated: Vec<_> =
        report.streams.iter().filter(|(_, c)| *c == Change::Updated).map(|(n, _)| n).collect();
    assert_eq!(updated, ["KV_CRON_LEASES"]);
    assert_eq!(bus.lease_ttl().await.unwrap(), Duration::from_secs(9));
}

#[tokio::test]
async fn a_small_disk_gets_a_smaller_stream_of_spans() {
    let server = Server::start_small();
    let bus = Bus::connect(server.options()).await.unwrap();
    let report = bus.init(&init(1)).await.unwrap();
    assert!(report.streams.iter().all(|(_, c)| *c == Change::Created), "{report:?}");
    assert_eq!(bus.check().await.unwrap().drift, ["CRON_TRACES.max_bytes"]);
    let again = bus.init(&init(1)).await.unwrap();
    assert!(again.streams.iter().all(|(_, c)| *c != Change::Created), "{again:?}");
}

#[tokio::test]
async fn an_installation_without_a_stream_of_spans_is_drift_until_init_makes_it() {
    let server = Server::start();
    let bus = server.bus().await;
    let client = async_nats::connect(server.url()).await.unwrap();
    client.request("$JS.API.STREAM.DELETE.CRON_TRACES", "".into()).await.unwrap();
    assert_eq!(bus.check().await.unwrap().drift, ["CRON_TRACES"]);
    assert!(bus.ensure_relay().await.is_err());
    let report = bus.init(&init(1)).await.unwrap();
    let created: Vec<_> =
        report.streams.iter().filter(|(_, c)| *c == Change::Created).map(|(n, _)| n).collect();
    assert_eq!(created, ["CRON_TRACES"]);
    bus.ensure_relay().await.unwrap();
}

/// An installation of the version before calendars and overrides.
#[tokio::test]
async fn init_adds_new_subjects_to_streams_that_exist_and_keeps_what_is_in_them() {
    let server = Server::start();
    let bus = server.bus().await;
    let client = async_nats::connect(server.url()).await.unwrap();
    let verbs = ["define", "delete", "pause", "resume", "trigger", "cancel"];
    let kinds = ["job", "history", "fire", "held", "skipped", "rejected"];
    let old = |kinds: &[&str], more: &[&str]| -> Vec<String> {
        let subjects = kinds.iter().map(|kind| format!("cron.{kind}.>"));
        subjects.chain(more.iter().map(|subject| (*subject).to_owned())).collect()
    };
    for (stream, subjects) in [
        ("CRON_COMMANDS", old(&verbs, &[])),
        ("CRON_LOG", old(&kinds, &["cron.cursor.*", "cron.meta"])),
    ] {
        let info =
            client.request(format!("$JS.API.STREAM.INFO.{stream}"), "".into()).await.unwrap();
        let info: serde_json::Value = serde_json::from_slice(&info.payload).unwrap();
        let mut config = info["config"].clone();
        config["subjects"] = subjects.into();
        let update = format!("$JS.API.STREAM.UPDATE.{stream}");
        let answer = client.request(update, config.to_string().into()).await.unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&answer.payload).unwrap();
        assert!(answer["error"].is_null(), "{answer}");
    }
    bus.publish_command("cron.define.a.b", &Vec::new(), "{}".into()).await.unwrap();
    let before = bus.publish_command("cron.calendar.a.b", &Vec::new(), "{}".into()).await;
    assert!(before.is_err(), "no stream takes it yet");
    let drift = bus.check().await.unwrap().drift;
    assert_eq!(drift, ["CRON_LOG.subjects", "CRON_COMMANDS.subjects"]);

    let report = bus.init(&init(1)).await.unwrap();
    let updated: Vec<_> =
        report.streams.iter().filter(|(_, c)| *c == Change::Updated).map(|(n, _)| n).collect();
    assert_eq!(updated, ["CRON_LOG", "CRON_COMMANDS"]);
    assert_eq!(bus.check().await.unwrap().drift, Vec::<String>::new());
    for verb in ["skip", "shift", "backfill", "calendar", "calendar-delete"] {
        let subject = format!("cron.{verb}.a.b");
        bus.publish_command(&subject, &Vec::new(), "{}".into()).await.unwrap();
    }
    assert_eq!(bus.stream_state("CRON_COMMANDS").await.unwrap().messages, 6);
}

#[tokio::test]
async fn two_installations_share_an_account() {
    let server = Server::start();
    let ours = server.bus().await;
    let prefix = "acme".parse().unwrap();
    let theirs = Bus::connect(ConnectOptions { prefix, ..server.options() }).await.unwrap();
    theirs.init(&init(1)).await.unwrap();
    let payload = || "{}".into();
    ours.publish_command("cron.define.a.b", &Vec::new(), payload()).await.unwrap();
    theirs.publish_command("acme.define.a.b", &Vec::new(), payload()).await.unwrap();
    assert_eq!(ours.stream_state("CRON_COMMANDS").await.unwrap().messages, 1);
    assert_eq!(theirs.stream_state("ACME_COMMANDS").await.unwrap().messages, 1);
    let elsewhere = ours.publish_command("acme.define.a.b", &Vec::new(), payload()).await;
    assert!(matches!(elsewhere, Err(Error::Refused { code: 10060, .. })), "{elsewhere:?}");
}

#[tokio::test]
async fn the_probe_accepts_this_server_and_leaves_nothing_behind() {
    let server = Server::start();
    let bus = Bus::connect(server.options()).await.unwrap();
    let found = bus.probe().await.unwrap();
    assert_eq!(found.missing, Vec::<&str>::new());
    assert_eq!(found.version, bus.server_version());
    found.require().unwrap();
    let names: std::collections::BTreeMap<String, serde_json::Value> =
        account_streams(&server).await;
    assert_eq!(names["total"], 0, "{names:?}");
}

#[tokio::test]
async fn a_server_without_jetstream_is_refused_by_name() {
    let server = Server::start_without_jetstream();
    let bus = Bus::connect(server.options()).await.unwrap();
    let error = bus.probe().await.unwrap().require().unwrap_err();
    assert!(error.to_string().contains("jetstream"), "{error}");
}

#[tokio::test]
async fn init_waits_for_a_cluster_that_is_still_forming() {
    let cluster = Cluster::start();
    let bus = cluster.bus().await;
    assert_eq!(bus.check().await.unwrap().replicas, 3);
    assert_eq!(bus.probe().await.unwrap().missing, Vec::<&str>::new());
}

async fn account_streams(server: &Server) -> std::collections::BTreeMap<String, serde_json::Value> {
    let client = async_nats::connect(server.url()).await.unwrap();
    let answer = client.request("$JS.API.STREAM.NAMES", "{}".into()).await.unwrap();
    serde_json::from_slice(&answer.payload).unwrap()
}
