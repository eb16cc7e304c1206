//! Whether a server can do what Cronstream stands on, tried out on a scratch stream of this
//! account.
//!
//! The oldest server that passes is 2.12.1; 2.12.0 refuses batches whose messages have ids.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::batch::{Batch, CommitAnswer};
use crate::connect::Bus;
use crate::error::Error;
use crate::exchange::code;
use crate::message::{OutMessage, Ttl};
use crate::settings::nanos;
use crate::topology::patiently;

/// How long the trial waits for a cluster that is still forming.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long messages of the scratch stream live, should it not be removed.
const SCRATCH_LIFE: Duration = Duration::from_secs(60);

/// What was tried and what failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The server's version.
    pub version: String,
    /// What the server cannot do; empty is good.
    pub missing: Vec<&'static str>,
}

impl Capabilities {
    /// Refuses a server that lacks something.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with what is missing.
    pub fn require(self) -> Result<(), Error> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let missing = self.missing.into_iter().map(str::to_owned).collect();
        Err(Error::Unsupported { version: self.version, missing })
    }
}

impl Bus {
    /// Tries atomic batches with a fence, rollup, per-message TTL and message ids, on a stream made
    /// for it and removed afterwards.
    ///
    /// # Errors
    /// When the trial itself cannot be made, such as for lack of permission.
    pub async fn probe(&self) -> Result<Capabilities, Error> {
        let version = self.server_version();
        let id = uuid::Uuid::new_v4().simple().to_string();
        let stream = self.names().prefix().stream(&format!("PROBE_{id}"));
        let root = format!("{}.probe.{id}", self.names().prefix());
        let config = json!({
            "name": stream, "subjects": [format!("{root}.>")], "storage": "file",
            "num_replicas": 1, "max_age": nanos(SCRATCH_LIFE), "duplicate_window": nanos(SCRATCH_LIFE),
            "allow_atomic": true, "allow_rollup_hdrs": true, "allow_msg_ttl": true,
            "allow_direct": true,
        });
        // A server that says it has no JetStream may still be in a cluster that has; a forming
        // cluster has it soon.
        let has_jetstream = self.inner.client.try_server_info().is_some_and(|info| info.jetstream);
        let patience = if has_jetstream { PATIENCE } else { Duration::ZERO };
        let deadline = Instant::now() + patience;
        let create = format!("STREAM.CREATE.{stream}");
        let missing = match patiently(deadline, || self.api::<Value>(&create, &config)).await {
            Ok(info) => {
                let missing = self.try_out(&stream, &root, &info).await;
                let (delete, body) = (format!("STREAM.DELETE.{stream}"), json!({}));
                let deadline = Instant::now() + PATIENCE;
                patiently(deadline, || self.api::<Value>(&delete, &body)).await?;
                missing?
            }
            // A server that has JetStream and cannot use it has lost the others: nothing is known of it.
            Err(Error::Unavailable { .. }) if !has_jetstream => vec!["jetstream"],
            // A strict server of an older kind names the field it does not know.
            Err(Error::Refused { description, .. }) if description.contains("unknown field") => {
                vec!["atomic batches"]
            }
            Err(Error::Unavailable { .. }) => {
                return Err(Error::Unavailable { what: "jetstream".to_owned() });
            }
            Err(error) => return Err(error),
        };
        Ok(Capabilities { version, missing })
    }

    async fn try_out(
        &self,
        stream: &str,
        root: &str,
        info: &Value,
    ) -> Result<Vec<&'static str>, Error> {
        let mut missing = Vec::new();
        if info["config"]["allow_msg_ttl"] != true {
            missing.push("per-message ttl");
        }
        if info["config"]["allow_atomic"] != true {
            missing.push("atomic batches");
            return Ok(missing);
        }
        let batch = |id: &str, expected: u64| {
            let mut event = OutMessage::new(format!("{root}.event"), "{}");
            event.msg_id = Some(id.to_owned());
            event.ttl = Some(Ttl::Seconds(60));
            Batch {
                messages: vec![event],
                cursor: OutMessage::new(format!("{root}.cursor"), "{}"),
                headers: Vec::new(),
                cursor_expected_seq: expected,
            }
        };
        if self.settle(&batch("a", 0)).await? != (CommitAnswer::Stored { last_seq: 2 }) {
            missing.push("fenced atomic batches with message ids");
            return Ok(missing);
        }
        let stale = self.settle(&batch("b", 0)).await?;
        if !matches!(stale, CommitAnswer::Refused { code: code::WRONG_LAST_SEQ, .. }) {
            missing.push("refusal of a stale fence");
        }
        let known = self.settle(&batch("a", 2)).await?;
        if !matches!(known, CommitAnswer::Refused { code: code::BATCH_DUPLICATE, .. }) {
            missing.push("refusal of known message ids in a batch");
        }
        let next = self.settle(&batch("c", 2)).await?;
        let rolled_up = self.by_seq(stream, 2).await?.is_none();
        if !matches!(next, CommitAnswer::Stored { .. }) || !rolled_up {
            missing.push("rollup in a batch");
        }
        Ok(missing)
    }

    /// Commits, and waits for a scratch stream that has no leader yet.
    async fn settle(&self, batch: &Batch) -> Result<CommitAnswer, Error> {
        let what = || batch.cursor.subject.clone();
        let answer = patiently(Instant::now() + PATIENCE, || async {
            match self.commit(batch).await? {
                CommitAnswer::Retry { .. } => Err(Error::Unavailable { what: what() }),
                answer => Ok(answer),
            }
        })
        .await?;
        // A silent server is no reason to say what it cannot do.
        if answer == CommitAnswer::Unknown {
            return Err(Error::TimedOut { what: what() });
        }
        Ok(answer)
    }
}
