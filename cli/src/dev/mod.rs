//! `dev`: everything on this machine, with example jobs, until Ctrl-C.
//!
//! ```text
//!   nats-server ◄── ticker dev-1, ticker dev-2, executor dev-tasks     child processes, by an operator's commands
//!        ▲                                         │ asks
//!        │ follows the log and the runs            ▼
//!   this process: a line for each run      echo (HTTP), sum (NATS)
//!
//!   with --jaeger:  nats-server ─► relay dev-relay ─► jaeger
//! ```
//!
//! Invariant: nothing that `dev` has started outlives it, whichever way it ends; only the data folder stays.

mod account;
mod broker;
mod command;
mod crew;
mod echo;
mod examples;
mod folder;
mod guard;
mod jaeger;
mod line;
mod sum;
mod watch;

use std::time::Duration;

use cronstream_bus::{Bus, Follow, FollowOptions, From};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::args;
use crate::error::Error;
use crate::session::Session;
use crate::{connect, stop};
use account::Account;
use broker::Broker;
use command::{Line, Wire};
use crew::Crew;
use folder::Folder;
pub(crate) use guard::guard;
use jaeger::Tracing;
use watch::Watch;

/// How long a first definition may wait for tickers that wait for the lease of those before them.
const APPLY_TIMEOUT: &str = "30s";
/// How long the executor lets tasks finish. With two seconds more for one that does not listen to SIGTERM, the
/// whole is over in less than five.
const DRAIN: &str = "2s";
/// How often the account of what was caught up is looked at.
const ACCOUNT_EVERY: Duration = Duration::from_millis(250);

pub(crate) async fn dev(session: &Session, dev: &args::Dev) -> Result<(), Error> {
    let stop = stop::on_signal()?;
    let started = tokio::select! {
        started = Box::pin(Stage::start(session, dev)) => started,
        () = stop.cancelled() => return Ok(()),
    };
    let mut stage = started?;
    let outcome = stage.play(session, dev, &stop).await;
    let begun = Instant::now();
    session.out.talk("stopping: nothing new is fired, running tasks may finish");
    let ended = stage.end().await;
    let took = begun.elapsed().as_secs_f64();
    session.out.talk(&format!("stopped in {took:.1}s; `cronstream dev` goes on from here"));
    outcome.and(ended)
}

/// Everything that runs.
struct Stage {
    broker: Broker,
    crew: Crew,
    bus: Bus,
    log: Follow,
    runs: Follow,
    watch: Watch,
    account: Option<Account>,
    examples: Option<Line>,
    services: tokio::task::JoinSet<()>,
    tracing: Option<Tracing>,
}

impl Stage {
    /// Starts everything, telling what is done by which command.
    async fn start(session: &Session, dev: &args::Dev) -> Result<Self, Error> {
        let out = session.out;
        let folder = Folder::open(dev.data.as_deref())?;
        out.talk(&format!("data is in {}; Ctrl-C stops everything", folder.path().display()));
        let broker = Broker::start(session, dev, &folder).await?;
        let wire = Wire::new(broker.connection())?;
        let bus = connect::connect(broker.connection(), "dev").await?;
        broker.check(&bus).await?;
        run(session, &wire.line("init")).await?;

        let mut services = tokio::task::JoinSet::new();
        let echo = echo::start(&mut services).await?;
        sum::start(&bus, &mut services).await?;
        folder.write("tasks.toml", &examples::tasks(echo))?;
        out.talk(&format!(
            "the example tasks ask http://{echo} and the NATS subject {}: both answer from here",
            examples::SUM_SUBJECT
        ));

        let tracing = match dev.jaeger {
            true => Some(Tracing::start(out, &folder).await?),
            false => None,
        };

        // From here on every event is seen: nothing of ours has been started yet.
        let names = bus.names();
        let log = follow(&bus, &names.log).await?;
        let runs = follow(&bus, &names.runs).await?;
        let account = Account::open(&bus).await?;
        let crew = Crew::start(out, &folder, members(&wire, &folder, tracing.as_ref()));
        let examples = examples::missing(&bus).await?.map(|jobs| {
            let file = folder.write("jobs.yaml", &jobs)?;
            Ok::<_, Error>(
                wire.line("apply").arg("-f").arg(file).arg("--timeout").arg(APPLY_TIMEOUT),
            )
        });
        let examples = examples.transpose()?;
        let traces = tracing.as_ref().map(Tracing::trace_url);
        let watch = Watch::new(out, session.json, traces);
        Ok(Self { broker, crew, bus, log, runs, watch, account, examples, services, tracing })
    }

    /// Shows runs until it is time to stop, or something that is needed does not come back.
    async fn play(
        &mut self,
        session: &Session,
        dev: &args::Dev,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let examples = self.examples.take();
        let define = async {
            match &examples {
                Some(line) => run(session, line).await,
                None => Ok(()),
            }
        };
        tokio::pin!(define);
        let mut defining = examples.is_some();
        let over = async {
            match dev.lasts {
                Some(span) => tokio::time::sleep(span.to_duration()).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(over);
        let mut look = tokio::time::interval(ACCOUNT_EVERY);
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = &mut over => return Ok(()),
                defined = &mut define, if defining => {
                    defined?;
                    defining = false;
                }
                failed = self.crew.failed() => return Err(failed),
                status = self.broker.ended() => tokio::select! {
                    revived = self.broker.revive(session.out, status?) => revived?,
                    () = stop.cancelled() => return Ok(()),
                },
                event = self.log.next() => {
                    let event = event.ok_or_else(|| gone(&self.bus))?;
                    self.watch.log(&event)?;
                    if let Some(account) = &mut self.account {
                        account.log(&event);
                    }
                }
                event = self.runs.next() => {
                    self.watch.runs(&self.bus, &event.ok_or_else(|| gone(&self.bus))?)?;
                }
                _ = look.tick(), if self.account.is_some() => {
                    self.account = self.account.take().and_then(|account| account.told(session.out));
                }
            }
        }
    }

    /// Ends the tickers, then the executor, then the server; what is not done then is ended by force.
    async fn end(self) -> Result<(), Error> {
        let Self { broker, crew, bus, log, runs, mut services, tracing, .. } = self;
        crew.end().await;
        if let Some(tracing) = tracing {
            tracing.end().await?;
        }
        // Nothing of ours is on the server when it ends.
        services.shutdown().await;
        drop((log, runs, bus));
        broker.end().await
    }
}

/// The processes of an installation, in the order in which they are stopped.
fn members(wire: &Wire, folder: &Folder, tracing: Option<&Tracing>) -> Vec<(&'static str, Line)> {
    let ticker = |node: &'static str| (node, wire.line("ticker").arg("--node").arg(node));
    let executor = wire
        .line("executor")
        .arg("--node")
        .arg("dev-tasks")
        .arg("--tasks")
        .arg(folder.file("tasks.toml"))
        .arg("--drain")
        .arg(DRAIN);
    let relay = tracing.map(|tracing| {
        let line = wire.line("relay").arg("--node").arg("dev-relay").arg("--otlp");
        ("dev-relay", line.arg(tracing.otlp()))
    });
    let tickers = [ticker("dev-1"), ticker("dev-2")];
    tickers.into_iter().chain(relay).chain([("dev-tasks", executor)]).collect()
}

/// Runs a command to its end and shows what it says.
async fn run(session: &Session, line: &Line) -> Result<(), Error> {
    session.out.talk(&format!("$ {line}"));
    let output = line.output().await?;
    for text in output.lines() {
        session.out.talk(&format!("  {}", crate::output::printable(text)));
    }
    Ok(())
}

/// Follows a stream from its end on.
async fn follow(bus: &Bus, stream: &str) -> Result<Follow, Error> {
    let end = bus.stream_state(stream).await?.last_seq + 1;
    let options =
        FollowOptions { stream: stream.to_owned(), filter: None, from: From::Sequence(end) };
    Ok(bus.follow(options).await?)
}

fn gone(bus: &Bus) -> Error {
    cronstream_bus::Error::Unavailable { what: bus.server_name() }.into()
}
