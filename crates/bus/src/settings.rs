//! The settings of nats-config/, embedded, with an installation's names in place of the default
//! ones.

use std::time::Duration;

use cronstream_schemas::subject::Prefix;
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::names::Names;

/// The configuration of one nats-server, as nats-config/ has it.
pub const SERVER_CONF: &str = include_str!("../../../nats-config/server.conf");

const COMMANDS: &str = include_str!("../../../nats-config/streams/commands.json");
const LOG: &str = include_str!("../../../nats-config/streams/log.json");
const RUNS: &str = include_str!("../../../nats-config/streams/runs.json");
const DEAD: &str = include_str!("../../../nats-config/streams/dead.json");
const TRACES: &str = include_str!("../../../nats-config/streams/traces.json");
const LEASES: &str = include_str!("../../../nats-config/kv/leases.json");
const EXECUTOR: &str = include_str!("../../../nats-config/consumers/executor.json");
const RELAY: &str = include_str!("../../../nats-config/consumers/relay.json");

/// The shortest and longest life of a lease.
const LEASE_TTL: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(60);
/// The prefix that the files are written with, and its form in stream names.
const WRITTEN: (&str, &str) = ("cron.", "CRON_");

/// A stream's name and its configuration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StreamSettings {
    pub(crate) name: String,
    pub(crate) config: Map<String, Value>,
}

/// The five streams of an installation, the log first: one that is younger than another was made again.
pub(crate) fn streams(names: &Names, replicas: u8) -> Vec<StreamSettings> {
    [LOG, COMMANDS, RUNS, DEAD, TRACES].map(|text| stream(text, names.prefix(), replicas)).into()
}

/// The stream behind the lease bucket.
pub(crate) fn leases(names: &Names, replicas: u8, ttl: Duration) -> Result<StreamSettings, Error> {
    if !LEASE_TTL.contains(&ttl) {
        let value = format!("{ttl:?}");
        return Err(Error::Setting { what: "lease ttl", value, range: "1s to 60s" });
    }
    let mut leases = stream(LEASES, names.prefix(), replicas);
    leases.config.insert("max_age".into(), json!(nanos(ttl)));
    leases.config.insert("duplicate_window".into(), json!(nanos(ttl)));
    Ok(leases)
}

/// The durable consumer of a queue.
pub(crate) fn executor(queue: &str, filter: &str, ack_wait: Duration) -> Map<String, Value> {
    let mut config = object(EXECUTOR);
    config.insert("durable_name".into(), json!(queue));
    config.insert("name".into(), json!(queue));
    config.insert("filter_subject".into(), json!(filter));
    config.insert("ack_wait".into(), json!(nanos(ack_wait)));
    config
}

/// The durable consumer of the relays.
pub(crate) fn relay(name: &str, filter: &str) -> Map<String, Value> {
    let mut config = object(RELAY);
    config.insert("durable_name".into(), json!(name));
    config.insert("name".into(), json!(name));
    config.insert("filter_subject".into(), json!(filter));
    config
}

/// A duration as JetStream's API takes it.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The settings of ours that a stream's configuration does not have.
pub(crate) fn drift(ours: &Map<String, Value>, theirs: &Value) -> Vec<String> {
    let differs = |(key, value): &(&String, &Value)| {
        let their = theirs.get(key.as_str()).unwrap_or(&Value::Null);
        *value != their && !(their.is_null() && is_empty(value))
    };
    ours.iter().filter(differs).map(|(key, _)| key.clone()).collect()
}

/// The server leaves out what is empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

fn stream(text: &str, prefix: &Prefix, replicas: u8) -> StreamSettings {
    let mut config = object(text);
    let upper = prefix.stream("");
    let rename = |text: &str| match text.strip_prefix(WRITTEN.0) {
        Some(rest) => format!("{prefix}.{rest}"),
        None => text.replacen(WRITTEN.1, &upper, 1),
    };
    let name = rename(config.get("name").and_then(Value::as_str).unwrap_or_default());
    if let Some(Value::Array(subjects)) = config.get_mut("subjects") {
        for subject in subjects {
            *subject = json!(rename(subject.as_str().unwrap_or_default()));
        }
    }
    config.insert("name".into(), json!(name));
    config.insert("num_replicas".into(), json!(replicas));
    StreamSettings { name, config }
}

fn object(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).expect("the embedded files of nats-config are JSON objects: tested")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(prefix: &str) -> Names {
        Names::new(&prefix.parse().unwrap())
    }

    #[test]
    fn the_files_carry_the_names_the_code_uses() {
        for prefix in ["cron", "acme"] {
            let names = names(prefix);
            let found: Vec<_> = streams(&names, 3).into_iter().map(|stream| stream.name).collect();
            assert_eq!(
                found,
                [&names.log, &names.commands, &names.runs, &names.dead, &names.traces]
                    .map(Clone::clone)
            );
            let leases = leases(&names, 1, Duration::from_secs(5)).unwrap();
            assert_eq!(leases.name, names.leases_stream);
            assert_eq!(leases.config["subjects"], json!([names.lease_subject(">")]));
        }
    }

    #[test]
    fn subjects_and_replicas_are_the_installations() {
        let log = streams(&names("acme"), 3).remove(0);
        assert_eq!(log.config["num_replicas"], 3);
        let subjects = log.config["subjects"].as_array().unwrap();
        assert!(
            subjects.contains(&json!("acme.cursor.*")) && subjects.contains(&json!("acme.meta"))
        );
    }

    #[test]
    fn only_the_log_and_the_leases_allow_rollup() {
        let mut all = streams(&names("cron"), 1);
        all.push(leases(&names("cron"), 1, Duration::from_secs(5)).unwrap());
        let rollup: Vec<_> =
            all.iter().filter(|s| s.config["allow_rollup_hdrs"] == true).map(|s| &s.name).collect();
        assert_eq!(rollup, ["CRON_LOG", "KV_CRON_LEASES"]);
    }

    #[test]
    fn no_stream_takes_what_is_not_ours_or_loses_by_an_acknowledgement() {
        for stream in streams(&names("acme"), 1) {
            let config = &stream.config;
            assert_eq!(config["retention"], "limits", "{}", stream.name);
            assert_eq!(config["deny_delete"], true, "{}", stream.name);
            let of_another = ["mirror", "sources", "republish"];
            assert!(of_another.iter().all(|key| !config.contains_key(*key)), "{}", stream.name);
            let subjects = config["subjects"].as_array().unwrap();
            let ours = |subject: &Value| subject.as_str().unwrap().starts_with("acme.");
            assert!(!subjects.is_empty() && subjects.iter().all(ours), "{subjects:?}");
        }
    }

    #[test]
    fn a_lease_ttl_out_of_range_is_refused() {
        for millis in [0, 999, 60_001] {
            assert!(leases(&names("cron"), 1, Duration::from_millis(millis)).is_err(), "{millis}");
        }
    }

    #[test]
    fn drift_overlooks_what_the_server_leaves_out() {
        let ours = json!({"a": 1, "b": false, "c": "x", "d": 0});
        let theirs = json!({"a": 2, "c": "x"});
        assert_eq!(drift(ours.as_object().unwrap(), &theirs), ["a"]);
    }
}
