//! `init`: create the streams and the bucket, or bring their settings up to date.
//!
//! Invariant: what is not asked for keeps its present value, so that repeating `init` changes nothing.

use cronstream_bus::{Bus, Change, Error as BusError, InitOptions, InitReport};
use cronstream_schemas::duration::Span;
use cronstream_schemas::event::{Decoded, Event as _, LogEvent, Meta};
use serde::Serialize;

use crate::args;
use crate::error::Error;
use crate::output::count;
use crate::session::Session;

const REPLICAS_DEFAULT: u8 = 1;
const PARTITIONS_DEFAULT: u8 = 8;
const LEASE_TTL_DEFAULT: Span = Span::from_secs(5);

/// What an `init` did.
#[derive(Debug, Serialize)]
struct Initialised {
    prefix: String,
    replicas: u8,
    partitions: u8,
    lease_ttl: Span,
    streams: Vec<Stream>,
}

#[derive(Debug, Serialize)]
struct Stream {
    name: String,
    change: &'static str,
}

pub(crate) async fn init(session: &Session, init: &args::Init) -> Result<(), Error> {
    let bus = session.bus().await?;
    bus.probe().await?.require()?;
    let found = Found::read(&bus).await?;
    let found_partitions = found.meta.as_deref().map(partitions).transpose()?;
    let replicas = init.replicas.or(found.replicas).unwrap_or(REPLICAS_DEFAULT);
    let lease_ttl = init.lease_ttl.or(found.lease_ttl).unwrap_or(LEASE_TTL_DEFAULT);
    let asked = init.partitions.or(found_partitions).unwrap_or(PARTITIONS_DEFAULT);
    refuse_another_count(found_partitions, asked)?;
    let meta = LogEvent::Meta(Meta { partitions: asked }).encode();
    let options = InitOptions { replicas, lease_ttl: lease_ttl.to_duration(), meta };
    let report = bus.init(&options).await?;
    // Another `init` may have been first.
    refuse_another_count(Some(partitions(&report.meta)?), asked)?;
    let prefix = bus.names().prefix().to_string();
    let streams = streams(report);
    let done = Initialised { prefix, replicas, partitions: asked, lease_ttl, streams };
    session.out.object(&done, || done.describe())?;
    Ok(())
}

/// The installation as it is; what is lost of it must not turn the rest back to the defaults.
#[derive(Debug, Default)]
struct Found {
    replicas: Option<u8>,
    lease_ttl: Option<Span>,
    meta: Option<Vec<u8>>,
}

impl Found {
    async fn read(bus: &Bus) -> Result<Self, Error> {
        let names = bus.names();
        let mut found = Self::default();
        for stream in [&names.log, &names.commands, &names.runs, &names.dead, &names.traces] {
            let Some(state) = present(bus.stream_state(stream).await)? else { continue };
            found.replicas = found.replicas.or(u8::try_from(state.replicas).ok());
            if stream == &names.log {
                let meta = bus.last_from_leader(stream, &names.prefix().meta()).await?;
                found.meta = meta.map(|message| message.payload.to_vec());
            }
        }
        found.lease_ttl = present(bus.lease_ttl().await)?.map(Span::from);
        Ok(found)
    }
}

/// Takes what is missing for nothing found.
fn present<T>(answer: Result<T, BusError>) -> Result<Option<T>, Error> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(BusError::NotInitialised { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The number of partitions in the installation's settings.
pub(crate) fn partitions(meta: &[u8]) -> Result<u8, Error> {
    match LogEvent::decode(meta) {
        Ok(Decoded::Known(LogEvent::Meta(meta))) => Ok(meta.partitions),
        Ok(_) | Err(_) => Err(Error::Unreadable {
            what: "the installation's settings".into(),
            problem: "a later version of cronstream wrote them".into(),
        }),
    }
}

fn refuse_another_count(found: Option<u8>, asked: u8) -> Result<(), Error> {
    match found {
        Some(found) if found != asked => Err(Error::OtherPartitions { found, asked }),
        Some(_) | None => Ok(()),
    }
}

fn streams(report: InitReport) -> Vec<Stream> {
    let word = |change| match change {
        Change::Created => "created",
        Change::Updated => "updated",
        Change::Unchanged => "unchanged",
    };
    report.streams.into_iter().map(|(name, change)| Stream { name, change: word(change) }).collect()
}

impl Initialised {
    fn describe(&self) -> String {
        let Self { prefix, replicas, partitions, lease_ttl, streams } = self;
        let streams: String = streams
            .iter()
            .map(|stream| format!("\n  {:<9} {}", stream.change, stream.name))
            .collect();
        format!(
            "installation {prefix}: {}, {}, lease ttl {lease_ttl}{streams}",
            count(u64::from(*replicas), "replica"),
            count(u64::from(*partitions), "partition")
        )
    }
}
