//! `doctor`: look at the server, the installation, the nodes and the jobs, and name what is wrong with what to do.
//!
//! Invariant: a check that cannot be made says so; it never counts as passed. Nothing is changed, but that a
//! scratch stream is made and removed to try the server out.

use std::collections::BTreeMap;
use std::time::Instant;

use cronstream_bus::{Bus, Error as BusError, Topology};
use cronstream_schemas::command::Verb;
use cronstream_schemas::time::Timestamp;
use serde::Serialize;

use crate::cluster::Nodes;
use crate::error::Error;
use crate::output::{count, printable, short};
use crate::rights::Rights;
use crate::session::Session;
use crate::{ailments, init, jobs};

/// The smallest `max_payload` that takes every event (512 KiB) with its headers.
const PAYLOAD_MIN: usize = 576 * 1024;
/// How far this machine's clock may be from the broker's before it is told.
const CLOCK_ERROR_MAX_MS: u64 = 500;

/// One check and how it went.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    name: &'static str,
    verdict: Verdict,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// As it should be.
    Good,
    /// It works, but somebody should look at it.
    Warning,
    /// Something does not work.
    Bad,
    /// It could not be found out.
    Unknown,
}

impl Check {
    /// A check that found nothing wrong.
    pub(crate) fn good(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Good, detail: detail.into(), advice: None }
    }

    /// A check that found something, with what to do.
    pub(crate) fn found(
        name: &'static str,
        verdict: Verdict,
        detail: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { name, verdict, detail: detail.into(), advice: Some(advice.into()) }
    }

    /// A check that could not be made.
    fn unknown(name: &'static str, error: &Error) -> Self {
        Self { name, verdict: Verdict::Unknown, detail: error.to_string(), advice: None }
    }

    /// What it found, said beside another verb's output.
    pub(crate) fn note(&self) -> String {
        let advice = self.advice.as_ref().map(|advice| format!("; {}", printable(advice)));
        format!("note: {}{}", printable(&self.detail), advice.unwrap_or_default())
    }

    fn describe(&self) -> String {
        let word = match self.verdict {
            Verdict::Good => "ok",
            Verdict::Warning => "WARN",
            Verdict::Bad => "FAIL",
            Verdict::Unknown => "?",
        };
        let advice = self.advice.as_ref().map(|advice| format!("\n      -> {}", printable(advice)));
        format!(
            "{word:<4}  {}: {}{}",
            self.name,
            printable(&self.detail),
            advice.unwrap_or_default()
        )
    }
}

pub(crate) async fn doctor(session: &Session) -> Result<(), Error> {
    let bus = session.bus().await?;
    let (mut bad, mut unknown) = (0, 0);
    let mut tell = |checks: Vec<Check>| -> Result<(), Error> {
        for check in checks {
            bad += usize::from(check.verdict == Verdict::Bad);
            unknown += usize::from(check.verdict == Verdict::Unknown);
            session.out.object(&check, || check.describe())?;
        }
        Ok(())
    };
    let (server, led) = match server(&bus).await {
        Ok(check) => (check, true),
        Err(check) => (check, false),
    };
    tell(vec![server, payload(&bus)])?;
    tell(permissions(session, &bus).await)?;
    // Nothing that is asked of JetStream would be answered now.
    if !led {
        return Err(Error::Unhealthy { bad, unknown });
    }
    let topology = bus.check().await;
    tell(installation(&topology))?;
    tell(vec![clock(&bus).await])?;
    if let Ok(topology) = &topology {
        tell(replicas(topology))?;
        match nodes_and_jobs(session, &bus).await {
            Ok(checks) => tell(checks)?,
            Err(error) => tell(vec![Check::unknown("nodes and jobs", &error)])?,
        }
    }
    if bad + unknown > 0 { Err(Error::Unhealthy { bad, unknown }) } else { Ok(()) }
}

/// Whether the server can do what is needed; an error where JetStream has no leader to ask.
async fn server(bus: &Bus) -> Result<Check, Check> {
    const NAME: &str = "server";
    match bus.probe().await {
        Ok(capabilities) => {
            let version = capabilities.version.clone();
            let good = || Check::good(NAME, format!("nats-server {version} can do what is needed"));
            let lacks = |error: BusError| {
                let advice = "install nats-server 2.12.1 or newer and start it with -js";
                Check::found(NAME, Verdict::Bad, error.to_string(), advice)
            };
            Ok(capabilities.require().map_or_else(lacks, |()| good()))
        }
        Err(BusError::Unavailable { .. } | BusError::TimedOut { .. })
            if matches!(
                bus.stream_state(&bus.names().log).await,
                Err(BusError::Unavailable { .. } | BusError::TimedOut { .. })
            ) =>
        {
            let detail = "JetStream has no leader now: fewer than a majority of the brokers are up";
            let advice = "start the brokers that are down; an election takes 4 to 9 s. Nothing else of \
                          JetStream could be looked at";
            Err(Check::found(NAME, Verdict::Bad, detail, advice))
        }
        Err(error) => Ok(Check::unknown(NAME, &error.into())),
    }
}

/// Copies of streams that do not answer: one more that is lost may be one too many.
fn replicas(topology: &Topology) -> Vec<Check> {
    const NAME: &str = "replicas";
    let mut away: BTreeMap<&[String], Vec<&str>> = BTreeMap::new();
    for (stream, servers) in &topology.offline {
        away.entry(servers).or_default().push(stream);
    }
    let found = away.into_iter().map(|(servers, streams)| {
        let detail = format!(
            "{}: {} of {} offline ({})",
            streams.join(", "),
            servers.len(),
            topology.replicas,
            servers.join(", ")
        );
        let advice = "start that broker, or look at its log and at the routes between the brokers";
        Check::found(NAME, Verdict::Warning, detail, advice)
    });
    found.collect()
}

fn payload(bus: &Bus) -> Check {
    const NAME: &str = "max_payload";
    let size = bus.max_payload();
    if size >= PAYLOAD_MIN {
        return Check::good(NAME, format!("{size} bytes"));
    }
    let advice = "set max_payload: 1MB in the server's configuration";
    Check::found(NAME, Verdict::Bad, format!("{size} bytes, less than an event may have"), advice)
}

/// What this user may do, as the server tells it.
async fn permissions(session: &Session, bus: &Bus) -> Vec<Check> {
    const NAME: &str = "permissions";
    let rights = match Rights::ask(bus, session.timeout).await {
        Ok(rights) => rights,
        Err(error) => return vec![Check::unknown(NAME, &error)],
    };
    let prefix = bus.names().prefix();
    let verbs: Vec<(Verb, bool)> = Verb::ALL
        .into_iter()
        .map(|verb| (verb, rights.may_publish(&format!("{prefix}.{verb}.>"))))
        .collect();
    let words = |may: bool| {
        let verbs = verbs.iter().filter(|(_, can)| *can == may).map(|(verb, _)| verb.to_string());
        verbs.collect::<Vec<_>>().join(", ")
    };
    let mut checks = vec![if verbs.iter().all(|(_, may)| *may) {
        Check::good(NAME, "this user may send every command for every job")
    } else {
        let detail = format!("this user may not send for every job: {}", words(false));
        Check::found(NAME, Verdict::Warning, detail, "fine where it is meant so")
    }];
    let tickers_own = [format!("{prefix}.job.>"), format!("{prefix}.cursor.*")];
    if tickers_own.iter().all(|subject| rights.may_publish(subject)) {
        let detail = "this user may write decisions: it is root of the schedule";
        let advice = "give people a user without publish on the subjects of CRON_LOG";
        checks.push(Check::found(NAME, Verdict::Warning, detail, advice));
    }
    let inbox = format!("{}.>", session.connection().inbox_prefix.as_deref().unwrap_or("_INBOX"));
    if !rights.may_subscribe(&inbox) {
        let detail = format!("this user may not subscribe to {inbox}, where answers come");
        checks.push(Check::found(NAME, Verdict::Bad, detail, "name another one by --inbox-prefix"));
    }
    checks
}

fn installation(topology: &Result<Topology, BusError>) -> Vec<Check> {
    const NAME: &str = "installation";
    let topology = match topology {
        Ok(topology) => topology,
        Err(error @ BusError::NotInitialised { .. }) => {
            let advice = "cronstream init";
            return vec![Check::found(NAME, Verdict::Bad, error.to_string(), advice)];
        }
        Err(error) => {
            let detail = error.to_string();
            return vec![Check { name: NAME, verdict: Verdict::Unknown, detail, advice: None }];
        }
    };
    let mut checks = vec![match topology.meta.as_deref().map(init::partitions) {
        Some(Ok(partitions)) => Check::good(
            NAME,
            format!(
                "{}, {}, lease ttl {}",
                count(u64::from(partitions), "partition"),
                count(u64::from(topology.replicas), "replica"),
                short(topology.lease_ttl)
            ),
        ),
        Some(Err(error)) => Check::unknown(NAME, &error),
        None => Check::found(NAME, Verdict::Bad, "it has no settings", "cronstream init"),
    }];
    if !topology.drift.is_empty() {
        let detail = format!("settings differ from this version's: {}", topology.drift.join(", "));
        checks.push(Check::found(
            NAME,
            Verdict::Warning,
            detail,
            "cronstream init brings them up to date",
        ));
    }
    checks
}

/// This machine's clock against that of the log's leader.
async fn clock(bus: &Bus) -> Check {
    const NAME: &str = "clock";
    let (before, asked) = (jobs::now(), Instant::now());
    let state = match bus.stream_state(&bus.names().log).await {
        Ok(state) => state,
        Err(error) => return Check::unknown(NAME, &error.into()),
    };
    let half = asked.elapsed() / 2;
    let here = before.plus(half).as_millis();
    let there = Timestamp::from(state.now).as_millis();
    let detail = format!(
        "this machine is {}ms {} the broker, give or take {}",
        here.abs_diff(there),
        if here >= there { "ahead of" } else { "behind" },
        short(half)
    );
    if here.abs_diff(there) <= CLOCK_ERROR_MAX_MS {
        return Check::good(NAME, detail);
    }
    let advice = "synchronise the clocks (NTP) before a ticker runs here";
    Check::found(NAME, Verdict::Warning, detail, advice)
}

async fn nodes_and_jobs(session: &Session, bus: &Bus) -> Result<Vec<Check>, Error> {
    let nodes = Nodes::ask(bus, session.timeout).await?;
    let partitions = crate::cluster::partitions(bus).await?;
    let mut wanted = ailments::Wanted::default();
    jobs::for_each(bus, None, |state| wanted.add(&state)).await?;
    let mut checks = ailments::tickers(&nodes, partitions);
    checks.extend(ailments::executors(&nodes));
    checks.extend(wanted.checks(&nodes));
    Ok(checks)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn streams_that_miss_the_same_server_are_one_finding() {
        let offline = |stream: &str, server: &str| (stream.to_owned(), vec![server.to_owned()]);
        let topology = Topology {
            replicas: 3,
            lease_ttl: Duration::from_secs(5),
            meta: None,
            drift: Vec::new(),
            offline: vec![offline("CRON_LOG", "n2"), offline("CRON_RUNS", "n2")],
        };
        let told: Vec<String> = replicas(&topology).iter().map(Check::describe).collect();
        assert_eq!(told.len(), 1);
        assert!(
            told[0].starts_with("WARN  replicas: CRON_LOG, CRON_RUNS: 1 of 3 offline (n2)"),
            "{told:?}"
        );
    }
}
