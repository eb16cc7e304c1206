//! Why a verb could not do what it was asked, and the exit code that says so to a script.
//!
//! Invariant: every code has a section of its name in `docs/reference/errors.md`; a message never holds a secret.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use cronstream_bus::Error as BusError;
use cronstream_executor::Error as ExecutorError;
use cronstream_scheduler::Error as TickerError;
use cronstream_schemas::calendar::CalendarId;
use cronstream_schemas::id::{Revision, RunId};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use cronstream_server::Error as ServerError;
use cronstream_telemetry::RelayError;

use crate::output::count;

/// What went wrong, one variant for each thing an operator would do differently.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The arguments do not go together.
    #[error("{0}")]
    Usage(String),
    /// A file named by the arguments cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file named by the arguments is there already, or cannot be written.
    #[error("cannot write {path}")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Documents cannot be read; each line names a place.
    #[error("{}", .0.join("\n"))]
    Documents(Vec<String>),
    /// Of what a file holds nothing became a job; what it is, is already printed.
    #[error("nothing of {path} became a job, {left_out} left out")]
    NothingImported {
        /// The file.
        path: PathBuf,
        /// How much is left out.
        left_out: u64,
    },
    /// Nobody could be asked whether to go on.
    #[error("{0} needs an answer and standard input is not a terminal")]
    NotAsked(String),
    /// The answer was no.
    #[error("nothing was done")]
    Declined,
    /// The cluster refused, or would refuse, something.
    #[error("{0}")]
    Rejected(String),
    /// The command is stored, or may be, but no verdict came in time.
    #[error("{what}: no verdict within {within}")]
    Indeterminate {
        /// The command.
        what: String,
        /// How long was waited.
        within: String,
        /// How to look what became of it.
        look: String,
    },
    /// The run that was waited for goes on.
    #[error("run {run} of {job} has not ended within {within}")]
    NotEnded {
        /// The run.
        run: RunId,
        /// Its job.
        job: JobId,
        /// How long was waited.
        within: String,
    },
    /// No job of that name.
    #[error("job {0} does not exist")]
    NoJob(JobId),
    /// No calendar of that name.
    #[error("calendar {0} does not exist")]
    NoCalendar(CalendarId),
    /// No trace of that run.
    #[error("run {0} is not known: no event of it is kept")]
    NoRun(RunId),
    /// The installation has another number of partitions.
    #[error("the installation has {}, not {asked}; their number cannot be changed", count(u64::from(*found), "partition"))]
    OtherPartitions {
        /// How many it has.
        found: u8,
        /// How many were asked for.
        asked: u8,
    },
    /// What is stored or answered cannot be read.
    #[error("{what} cannot be read: {problem}")]
    Unreadable {
        /// What.
        what: String,
        /// Why.
        problem: String,
    },
    /// The run that was waited for did not succeed.
    #[error("run {run} ended as {outcome}")]
    RunFailed {
        /// The run.
        run: RunId,
        /// How it ended.
        outcome: String,
    },
    /// Checks of `doctor` failed; what they found is already printed.
    #[error("{} failed, {unknown} could not be made", count(*bad as u64, "check"))]
    Unhealthy {
        /// How many failed.
        bad: usize,
        /// How many could not be made.
        unknown: usize,
    },
    /// Some tickers did not take a release.
    #[error("{0}")]
    NotReleased(String),
    /// The bus could not do it.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The ticker ended.
    #[error(transparent)]
    Ticker(#[from] TickerError),
    /// The executor ended.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    /// Metrics cannot be served there.
    #[error("cannot serve metrics on {address}")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The relay ended.
    #[error(transparent)]
    Relay(#[from] RelayError),
    /// The nats-server of `dev` could not be found, installed, started or ended.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The server that `dev` was pointed at lacks what it needs.
    #[error(transparent)]
    Unfit(BusError),
    /// A process of `dev` ended.
    #[error("{what} ended ({status}); {look}")]
    Ended {
        /// The process.
        what: String,
        /// How.
        status: std::process::ExitStatus,
        /// Where to look for the reason.
        look: String,
    },
    /// No such revision of a job is kept.
    #[error("revision {} of {job} is not known: it is none, or is no longer kept", revision.0)]
    NoRevision {
        /// The job.
        job: JobId,
        /// The revision.
        revision: Revision,
    },
    /// No revision of a job is known to have been in force at an instant.
    #[error("no revision of {job} is known to have been in force at {at}{}", since(*oldest))]
    NoRevisionAt {
        /// The job.
        job: JobId,
        /// The instant.
        at: Timestamp,
        /// Since when the oldest one that is kept was in force.
        oldest: Option<Timestamp>,
    },
    /// `lint` found nothing but warnings; they are already printed.
    #[error("{}", count(*.0, "warning"))]
    Warned(u64),
    /// `lint` found faults; they are already printed.
    #[error("{}, {}", count(*faults, "fault"), count(*warnings, "warning"))]
    Faulty {
        /// How many faults.
        faults: u64,
        /// How many warnings.
        warnings: u64,
    },
    /// Vectors disagree with the calendar; they are already printed.
    #[error("{disagree} of {} disagree", count(*of, "vector"))]
    Disagrees {
        /// How many.
        disagree: u64,
        /// Of how many.
        of: u64,
    },
    /// A measurement of `bench` could not be made.
    #[error("cannot measure: {0}")]
    Measurement(String),
    /// The terminal, standard output or the runtime failed.
    #[error("input or output failed")]
    Output(#[from] std::io::Error),
}

fn since(oldest: Option<Timestamp>) -> String {
    oldest.map(|oldest| format!("; the oldest that is kept is since {oldest}")).unwrap_or_default()
}

/// The exit codes of `docs/reference/cli.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// It was tried and failed.
    Failed = 1,
    /// It was asked for wrongly; nothing was tried.
    Usage = 2,
    /// The cluster refused it.
    Rejected = 3,
    /// Whether it was done is not known.
    Indeterminate = 4,
    /// No server could be reached.
    Connect = 5,
    /// What was asked for does not exist.
    NotFound = 6,
    /// The server has no installation, or another one.
    NotInitialised = 7,
    /// The run that was waited for did not succeed.
    RunFailed = 8,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The name of an error in the reference, and its exit code.
type Class = (&'static str, Exit);

impl Error {
    /// The error's name in the reference, and its exit code.
    pub(crate) fn class(&self) -> Class {
        match self {
            Self::Usage(_) => ("usage", Exit::Usage),
            Self::File { .. } => ("file-unreadable", Exit::Usage),
            Self::Unwritable { .. } => ("file-unwritable", Exit::Failed),
            Self::Documents(_) => ("documents-unreadable", Exit::Usage),
            Self::NothingImported { .. } => ("nothing-imported", Exit::Failed),
            Self::NotAsked(_) => ("not-a-terminal", Exit::Usage),
            Self::Declined => ("declined", Exit::Failed),
            Self::Rejected(_) => ("rejected", Exit::Rejected),
            Self::Indeterminate { .. } | Self::NotEnded { .. } => {
                ("indeterminate", Exit::Indeterminate)
            }
            Self::NoJob(_) => ("no-such-job", Exit::NotFound),
            Self::NoCalendar(_) => ("no-such-calendar", Exit::NotFound),
            Self::NoRun(_) => ("no-such-run", Exit::NotFound),
            Self::OtherPartitions { .. } => ("other-partitions", Exit::NotInitialised),
            Self::Unreadable { .. } => ("unreadable", Exit::Failed),
            Self::RunFailed { .. } => ("run-failed", Exit::RunFailed),
            Self::Unhealthy { .. } => ("unhealthy", Exit::Failed),
            Self::NotReleased(_) => ("not-released", Exit::Failed),
            Self::Bus(error) => class_of_bus(error),
            Self::Ticker(error) => class_of_ticker(error),
            Self::Executor(error) => class_of_executor(error),
            Self::Relay(error) => class_of_relay(error),
            Self::Metrics { .. } => ("port-taken", Exit::Failed),
            Self::Server(error) => class_of_server(error),
            Self::Unfit(_) => ("server-unsupported", Exit::NotInitialised),
            Self::Ended { .. } => ("process-ended", Exit::Failed),
            Self::NoRevision { .. } | Self::NoRevisionAt { .. } => {
                ("no-such-revision", Exit::NotFound)
            }
            Self::Warned(_) => ("lint-warnings", Exit::Failed),
            Self::Faulty { .. } => ("lint-faults", Exit::Usage),
            Self::Disagrees { .. } => ("vectors-disagree", Exit::Failed),
            Self::Measurement(_) => ("not-measured", Exit::Failed),
            Self::Output(_) => ("output-failed", Exit::Failed),
        }
    }

    /// What to do now, where the message does not say it.
    fn hint(&self) -> Option<String> {
        match self {
            Self::NotAsked(_) => return Some("add --yes".into()),
            Self::Indeterminate { look, .. } => return Some(look.clone()),
            Self::NotEnded { run, .. } => {
                return Some(format!("it goes on: `cronstream run {run}` shows where it is"));
            }
            Self::NoCalendar(id) => {
                return Some(format!("cronstream calendar list {}", id.namespace));
            }
            Self::NoJob(job) => return Some(format!("cronstream list {}", job.namespace)),
            Self::NoRevision { job, .. } | Self::NoRevisionAt { job, .. } => {
                return Some(format!("cronstream history {job}"));
            }
            Self::OtherPartitions { .. } => {
                let hint =
                    "leave --partitions out, or make another installation beside it with --prefix";
                return Some(hint.into());
            }
            Self::RunFailed { run, .. } => {
                return Some(format!("`cronstream run {run}` shows what happened"));
            }
            Self::Unfit(_) => {
                return Some("docs/operating/production.md says how to run one; without --nats, dev brings its own".into());
            }
            Self::Usage(_)
            | Self::File { .. }
            | Self::Unwritable { .. }
            | Self::Documents(_)
            | Self::NothingImported { .. }
            | Self::Declined
            | Self::Rejected(_)
            | Self::NoRun(_)
            | Self::Unreadable { .. }
            | Self::Unhealthy { .. }
            | Self::NotReleased(_)
            | Self::Bus(_)
            | Self::Ticker(_)
            | Self::Executor(_)
            | Self::Metrics { .. }
            | Self::Relay(_)
            | Self::Server(_)
            | Self::Ended { .. }
            | Self::Measurement(_)
            | Self::Warned(_)
            | Self::Faulty { .. }
            | Self::Disagrees { .. }
            | Self::Output(_) => {}
        }
        match self.class().0 {
            "cannot-connect" => Some(
                "is a nats-server running there, and are these its credentials? --nats, --creds, --nkey and \
                 --context name others"
                    .into(),
            ),
            name @ ("permission-denied" | "unavailable" | "node-name-taken") => {
                Some(format!("docs/reference/errors.md#{name}"))
            }
            _ => None,
        }
    }
}

const fn class_of_bus(error: &BusError) -> Class {
    match error {
        BusError::Connect { .. } => ("cannot-connect", Exit::Connect),
        BusError::Address(_)
        | BusError::Prefix(_)
        | BusError::Setting { .. }
        | BusError::TooLarge { .. } => ("usage", Exit::Usage),
        BusError::File { .. } => ("file-unreadable", Exit::Usage),
        BusError::NotInitialised { .. } => ("not-initialised", Exit::NotInitialised),
        BusError::Unsupported { .. } => ("server-unsupported", Exit::NotInitialised),
        BusError::Denied { .. } => ("permission-denied", Exit::Failed),
        BusError::Unavailable { .. } => ("unavailable", Exit::Failed),
        BusError::TimedOut { .. } => ("indeterminate", Exit::Indeterminate),
        BusError::Refused { .. }
        | BusError::Decode { .. }
        | BusError::TooMany { .. }
        | BusError::Header(_)
        | BusError::Subject(_)
        | BusError::Service { .. } => ("broker-refused", Exit::Failed),
    }
}

const fn class_of_ticker(error: &TickerError) -> Class {
    match error {
        TickerError::Bus(error) => class_of_bus(error),
        TickerError::NotInitialised { .. } => ("not-initialised", Exit::NotInitialised),
        TickerError::Settings { .. } => ("unreadable", Exit::Failed),
        TickerError::NameTaken(_) => ("node-name-taken", Exit::Failed),
        TickerError::Closed(_) => ("ticker-stopped", Exit::Failed),
    }
}

const fn class_of_executor(error: &ExecutorError) -> Class {
    match error {
        ExecutorError::Bus(error) => class_of_bus(error),
        ExecutorError::Name { .. }
        | ExecutorError::Concurrency { .. }
        | ExecutorError::TaskTwice(_)
        | ExecutorError::NoTasks(_) => ("usage", Exit::Usage),
        ExecutorError::File { .. } => ("file-unreadable", Exit::Usage),
        ExecutorError::Toml { .. }
        | ExecutorError::Tasks { .. }
        | ExecutorError::NoTaskInFile(_) => ("tasks-file-unreadable", Exit::Usage),
        ExecutorError::Http(_) => ("executor-stopped", Exit::Failed),
    }
}

const fn class_of_relay(error: &RelayError) -> Class {
    match error {
        RelayError::Bus(error) => class_of_bus(error),
        RelayError::Address(_) | RelayError::Header(_) => ("usage", Exit::Usage),
        RelayError::Client(_) => ("relay-stopped", Exit::Failed),
    }
}

fn class_of_server(error: &ServerError) -> Class {
    match error {
        ServerError::NotInstalled { .. } | ServerError::NoCacheFolder => {
            ("server-not-installed", Exit::Failed)
        }
        ServerError::TooOld { .. }
        | ServerError::NotAServer { .. }
        | ServerError::Incapable { .. }
        | ServerError::NoJetStream { .. } => ("server-unsupported", Exit::NotInitialised),
        ServerError::DataFolderBusy { .. } => ("data-folder-busy", Exit::Failed),
        ServerError::PortTaken { .. } | ServerError::NoFreePort { .. } => {
            ("port-taken", Exit::Failed)
        }
        ServerError::Rights { .. } => ("usage", Exit::Usage),
        _ => ("server-failed", Exit::Failed),
    }
}

/// The error as it is printed: its name, its message with the causes, and a hint.
pub(crate) struct Report<'a>(pub(crate) &'a Error);

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) = self.0.class();
        let mut said = self.0.to_string();
        let mut cause = std::error::Error::source(self.0);
        while let Some(error) = cause {
            let text = error.to_string();
            // Some errors repeat their cause in their own message.
            if !said.contains(&text) {
                said = format!("{said}: {text}");
            }
            cause = error.source();
        }
        write!(f, "error[{name}]: {said}")?;
        match self.0.hint() {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}
