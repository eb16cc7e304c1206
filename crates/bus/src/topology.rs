//! The streams and the bucket of an installation: made by `init`, checked by everyone else.
//!
//! Invariant: an installation's settings in `<prefix>.meta` are written once, by compare-and-set
//! from nothing.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::append::{Append, AppendAnswer};
use crate::connect::Bus;
use crate::error::Error;
use crate::message::Ttl;
use crate::settings::{self, StreamSettings};

/// How long `init` waits for a cluster that is still forming.
const INIT_PATIENCE: Duration = Duration::from_secs(30);
/// How long it waits between two tries.
const INIT_PAUSE: Duration = Duration::from_millis(250);
/// "No suitable peers": what a cluster answers whose members have not all reported yet.
const NO_PEERS: u64 = 10005;
/// "Insufficient storage resources": a stream's `max_bytes` counts against the server's limit at once.
const NO_STORAGE: u64 = 10047;
/// By what a bound in bytes that is too much is divided, and the least that it becomes.
const BYTES_STEP: u64 = 8;
const BYTES_MIN: u64 = 1024 * 1024;

/// What an installation is to be like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitOptions {
    /// Copies of each stream: 1, 3 or 5.
    pub replicas: u8,
    /// The life of a lease that is not renewed, 1 to 60 s.
    pub lease_ttl: Duration,
    /// The installation's settings, to be stored if there are none.
    pub meta: Vec<u8>,
}

/// What `init` did with a stream or the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It was made.
    Created,
    /// Its settings were brought up to date.
    Updated,
    /// It was as it should be.
    Unchanged,
}

/// What `init` did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitReport {
    /// Each stream with what happened to it, the one behind the lease bucket included.
    pub streams: Vec<(String, Change)>,
    /// The settings that are in force: those asked for, or those found.
    pub meta: Vec<u8>,
    /// Whether the settings asked for were stored now.
    pub meta_stored: bool,
}

/// An installation as it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Copies of the log.
    pub replicas: u8,
    /// The life of a lease that is not renewed.
    pub lease_ttl: Duration,
    /// The installation's settings.
    pub meta: Option<Vec<u8>>,
    /// Settings that are not as this binary would make them, as `<stream>.<setting>`; a stream of spans that is
    /// missing by its name alone.
    pub drift: Vec<String>,
    /// Streams of which a copy does not answer, each with the names of those servers.
    pub offline: Vec<(String, Vec<String>)>,
}

impl Bus {
    /// Makes or updates the streams and the bucket and stores the installation's settings if there
    /// are none.
    ///
    /// # Errors
    /// When the server refuses, or stays unavailable for 30 s.
    pub async fn init(&self, options: &InitOptions) -> Result<InitReport, Error> {
        let names = self.names();
        let mut wanted = settings::streams(names, options.replicas);
        wanted.push(settings::leases(names, options.replicas, options.lease_ttl)?);
        let deadline = Instant::now() + INIT_PATIENCE;
        let mut streams = Vec::new();
        for stream in wanted {
            let change = patiently(deadline, || self.ensure_within_limits(&stream)).await?;
            streams.push((stream.name.clone(), change));
        }
        let (meta, meta_stored) = patiently(deadline, || self.ensure_meta(&options.meta)).await?;
        Ok(InitReport { streams, meta, meta_stored })
    }

    /// Looks at the installation without changing it.
    ///
    /// # Errors
    /// [`Error::NotInitialised`] when a stream or the bucket is missing.
    pub async fn check(&self) -> Result<Topology, Error> {
        let names = self.names();
        let log = self.stream_info(&names.log).await?;
        let replicas = u8::try_from(log.state().replicas).unwrap_or(u8::MAX);
        let (mut drift, mut offline) = (Vec::new(), Vec::new());
        for stream in settings::streams(names, replicas) {
            let found = match self.stream_info(&stream.name).await {
                Ok(found) => {
                    let away = found.offline();
                    if !away.is_empty() {
                        offline.push((stream.name.clone(), away));
                    }
                    found.config
                }
                // Made by a version without traces: everything else works.
                Err(Error::NotInitialised { .. }) if stream.name == names.traces => {
                    drift.push(stream.name);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let settings = settings::drift(&stream.config, &found);
            drift.extend(settings.iter().map(|setting| format!("{}.{setting}", stream.name)));
        }
        let lease_ttl = self.lease_ttl().await?;
        let meta = self.last_from_leader(&names.log, &names.meta).await?;
        let meta = meta.map(|message| message.payload.to_vec());
        Ok(Topology { replicas, lease_ttl, meta, drift, offline })
    }

    /// The life of a lease, read from the bucket.
    ///
    /// # Errors
    /// [`Error::NotInitialised`] when there is no bucket.
    pub async fn lease_ttl(&self) -> Result<Duration, Error> {
        let config = self.stream_info(&self.names().leases_stream).await?.config;
        let nanos = config.get("max_age").and_then(Value::as_u64).unwrap_or_default();
        Ok(Duration::from_nanos(nanos))
    }

    pub(crate) async fn ensure_stream(&self, wanted: &StreamSettings) -> Result<Change, Error> {
        match self.stream_info(&wanted.name).await {
            Ok(found) if settings::drift(&wanted.config, &found.config).is_empty() => {
                Ok(Change::Unchanged)
            }
            Ok(found) => {
                let mut config = match found.config {
                    Value::Object(config) => config,
                    _ => Map::new(),
                };
                config.extend(wanted.config.clone());
                self.api::<Value>(&format!("STREAM.UPDATE.{}", wanted.name), &config).await?;
                Ok(Change::Updated)
            }
            Err(Error::NotInitialised { .. }) => {
                let what = format!("STREAM.CREATE.{}", wanted.name);
                self.api::<Value>(&what, &wanted.config).await?;
                Ok(Change::Created)
            }
            Err(error) => Err(error),
        }
    }

    /// Like [`Bus::ensure_stream`]; a stream that is bounded in bytes gets fewer where the server has not so many left.
    async fn ensure_within_limits(&self, wanted: &StreamSettings) -> Result<Change, Error> {
        let mut wanted = wanted.clone();
        loop {
            let bytes = wanted.config.get("max_bytes").and_then(Value::as_u64).unwrap_or(0);
            match self.ensure_stream(&wanted).await {
                Err(error) if bytes > BYTES_MIN && is_short_of_storage(&error) => {
                    let fewer = (bytes / BYTES_STEP).max(BYTES_MIN);
                    wanted.config.insert("max_bytes".into(), fewer.into());
                }
                ensured => return ensured,
            }
        }
    }

    async fn ensure_meta(&self, meta: &[u8]) -> Result<(Vec<u8>, bool), Error> {
        let names = self.names();
        if let Some(found) = self.last_from_leader(&names.log, &names.meta).await? {
            return Ok((found.payload.to_vec(), false));
        }
        let append = Append {
            subject: names.meta.clone(),
            headers: Vec::new(),
            payload: meta.to_vec().into(),
            ttl: Some(Ttl::Never),
            msg_id: None,
            expected_last_seq: 0,
        };
        let what = names.meta.clone();
        match self.append(&append).await? {
            AppendAnswer::Stored { .. } => Ok((meta.to_vec(), true)),
            // Tried again, it finds what stands there.
            AppendAnswer::Conflict | AppendAnswer::Unknown | AppendAnswer::Retry { .. } => {
                Err(Error::Unavailable { what })
            }
            AppendAnswer::Denied { subject } => Err(Error::Denied { subject }),
            AppendAnswer::Failed { code, description } => {
                Err(Error::Refused { what, code, description })
            }
        }
    }
}

/// Whether a server, or each member of a cluster, has less room left than a stream is promised.
fn is_short_of_storage(error: &Error) -> bool {
    let Error::Refused { code, description, .. } = error else { return false };
    *code == NO_STORAGE || (*code == NO_PEERS && description.contains("storage"))
}

/// Tries again, until the deadline, while the broker is not there yet.
pub(crate) async fn patiently<T, F>(
    deadline: Instant,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    loop {
        match attempt().await {
            Err(
                Error::Unavailable { .. }
                | Error::TimedOut { .. }
                | Error::Refused { code: NO_PEERS, .. },
            ) if Instant::now() < deadline => tokio::time::sleep(INIT_PAUSE).await,
            done => return done,
        }
    }
}
