//! The installation's streams, made by the test itself from nats-config/, for what is tested without the binary.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::nats::Nats;

/// How long a cluster may take until it has found room for a stream: its servers do not all know each other at once.
const CREATE_MAX: Duration = Duration::from_secs(30);
/// Between two tries.
const RETRY: Duration = Duration::from_millis(250);

/// The stream files of nats-config/.
const FILES: [&str; 5] = [
    include_str!("../../nats-config/streams/commands.json"),
    include_str!("../../nats-config/streams/log.json"),
    include_str!("../../nats-config/streams/runs.json"),
    include_str!("../../nats-config/streams/dead.json"),
    include_str!("../../nats-config/kv/leases.json"),
];

/// Makes the streams in so many copies.
///
/// # Errors
/// When the server goes on to refuse one.
pub async fn create(nats: &Nats, copies: u8) -> Result<()> {
    let deadline = Instant::now() + CREATE_MAX;
    for (name, mut config) in configs()? {
        config["num_replicas"] = json!(copies);
        while let Err(error) = nats.ask(&format!("STREAM.CREATE.{name}"), &config).await {
            if Instant::now() >= deadline {
                return Err(error);
            }
            sleep(RETRY).await;
        }
    }
    Ok(())
}

/// Deletes them with everything in them.
///
/// # Errors
/// When the server refuses one.
pub async fn delete(nats: &Nats) -> Result<()> {
    for (name, _) in configs()? {
        nats.ask(&format!("STREAM.DELETE.{name}"), &Value::Null).await?;
    }
    Ok(())
}

fn configs() -> Result<Vec<(String, Value)>> {
    let read = |file: &str| {
        let config: Value = serde_json::from_str(file)?;
        let name = config["name"].as_str().context("a stream without a name")?.to_owned();
        Ok((name, config))
    };
    FILES.into_iter().map(read).collect()
}
