//! A backup of a stream, taken and put back through JetStream's API as an operator does it.
//!
//! Invariant: what is put back is the stream as it was when the backup was taken, under the same sequences.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::jetstream::ASK_MAX;
use crate::nats::Nats;

/// The size of a piece.
const PIECE: usize = 64 * 1024;

/// A stream's content at one moment.
#[derive(Debug, Clone)]
pub struct Backup {
    stream: String,
    config: Value,
    state: Value,
    pieces: Vec<Vec<u8>>,
}

impl Backup {
    /// Reads a stream.
    ///
    /// # Errors
    /// When the server refuses or falls silent.
    pub async fn take(nats: &Nats, stream: &str) -> Result<Self> {
        let inbox = nats.new_inbox();
        let mut arriving = nats.subscribe(&inbox).await?;
        let question =
            json!({ "deliver_subject": inbox, "no_consumers": true, "chunk_size": PIECE });
        let told = nats.ask(&format!("STREAM.SNAPSHOT.{stream}"), &question).await?;
        let mut pieces = Vec::new();
        loop {
            let piece =
                timeout(ASK_MAX, arriving.next()).await.context("no more of the backup")??;
            if let Some(reply) = &piece.reply {
                nats.publish(reply, &Vec::new(), b"").await?;
            }
            if piece.body.is_empty() {
                break;
            }
            pieces.push(piece.body);
        }
        let (config, state) = (told["config"].clone(), told["state"].clone());
        Ok(Self { stream: stream.to_owned(), config, state, pieces })
    }

    /// The last sequence in it.
    ///
    /// # Errors
    /// When the server did not tell.
    pub fn last(&self) -> Result<u64> {
        self.state["last_seq"].as_u64().context("a backup without a last sequence")
    }

    /// Deletes the stream and puts this in its place.
    ///
    /// # Errors
    /// When the server refuses or falls silent.
    pub async fn put_back(&self, nats: &Nats) -> Result<()> {
        let Self { stream, config, state, pieces } = self;
        nats.ask(&format!("STREAM.DELETE.{stream}"), &Value::Null).await?;
        let question = json!({ "config": config, "state": state });
        let told = nats.ask(&format!("STREAM.RESTORE.{stream}"), &question).await?;
        let to = told["deliver_subject"].as_str().context("nowhere to put it")?;
        for piece in pieces {
            nats.request(to, &Vec::new(), piece, ASK_MAX).await?;
        }
        let done = nats.request(to, &Vec::new(), b"", ASK_MAX).await?;
        let done: Value = serde_json::from_slice(&done.body).context("the end of a restore")?;
        ensure!(done.get("error").is_none(), "{stream} is not put back: {done}");
        Ok(())
    }
}
