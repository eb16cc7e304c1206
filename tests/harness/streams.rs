//! The installation's streams, made by the test itself from nats-config/, for what is tested without the binary.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::nats::Nats;

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
/// When the server refuses one.
pub async fn create(nats: &Nats, copies: u8) -> Result<()> {
    for (name, mut config) in configs()? {
        config["num_replicas"] = json!(copies);
        nats.ask(&format!("STREAM.CREATE.{name}"), &config).await?;
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
