//! What can be typed: the verbs with their arguments, and the options that every verb takes.

mod asking;
mod explaining;
mod importing;
mod objects;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use cronstream_core::schedule::Zone;
use cronstream_schemas::definition::When;
use cronstream_schemas::duration::Span;
use cronstream_schemas::id::RunId;
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::trace::TraceRatio;

use crate::instants;

pub(crate) use self::asking::{
    Forecast, History, Lint, Reading, Rollback, Simulate, TzReport, hyphened, zone,
};
pub(crate) use self::explaining::Explain;
pub(crate) use self::importing::{Import, ImportFormat, ImportFrom};
pub(crate) use self::objects::{
    Backfill, Calendar, CalendarApply, CalendarDays, CalendarDelete, CalendarGet, CalendarList,
    CalendarVerb, ShiftNext, SkipNext,
};

/// Event-sourced job scheduler on NATS JetStream.
#[derive(Debug, Parser)]
#[command(
    name = "cronstream",
    version,
    propagate_version = false,
    disable_help_subcommand = true,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 rejected, 4 indeterminate, 5 cannot \
                  connect, 6 not found, 7 not initialised, 8 the run did not succeed.\n\
                  Data goes to standard output, everything else to standard error."
)]
pub(crate) struct Cli {
    /// What every verb takes.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Options of every verb.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every verb")]
pub(crate) struct Global {
    /// Where the broker is and as whom to reach it.
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// Write JSON to standard output: one object, or one object per line for lists.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// How long to wait for an answer.
    #[arg(long, global = true, value_name = "DURATION", default_value = "10s")]
    pub(crate) timeout: Span,
    /// How log lines on standard error look.
    #[arg(long, global = true, value_enum, default_value = "human", value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
    /// Log more: everything Cronstream does.
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
}

/// Where the broker is.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Connection {
    /// Servers, separated by commas [env: NATS_URL] [default: nats://127.0.0.1:4222].
    #[arg(long, global = true, value_name = "URLS")]
    pub(crate) nats: Option<String>,
    /// Credentials file.
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "nkey")]
    pub(crate) creds: Option<PathBuf>,
    /// File with an nkey seed.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) nkey: Option<PathBuf>,
    /// File with the certificate authority of the servers.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Context of the `nats` command line to take the connection from.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// First token of the installation's subjects.
    #[arg(long, global = true, value_name = "PREFIX", default_value_t = Prefix::default())]
    pub(crate) prefix: Prefix,
    /// Prefix of the subjects on which answers come [default: _INBOX].
    #[arg(long, global = true, value_name = "SUBJECT")]
    pub(crate) inbox_prefix: Option<String>,
}

/// How log lines look: for people, or one JSON object a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Human,
    Json,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run everything on this machine, with example jobs.
    Dev(Dev),
    /// End what a `dev` that was killed has left.
    #[command(hide = true)]
    DevGuard(DevGuard),
    /// Print the accounts and users of a broker, from a table of rights.
    Accounts(Accounts),
    /// Create the streams and the bucket of an installation.
    Init(Init),
    /// Run a ticker: decide what is due and order it.
    Ticker(Ticker),
    /// Run an executor: do what is ordered on one queue.
    Executor(Executor),
    /// Run a relay: hand the spans of runs on to a collector.
    Relay(Relay),
    /// Define jobs and calendars from YAML or JSON files.
    Apply(Apply),
    /// Show a job.
    Get(Get),
    /// List jobs.
    List(List),
    /// Delete a job.
    Delete(Destroy),
    /// Let no slot of a job fire until it is resumed.
    Pause(OneJob),
    /// End a pause.
    Resume(OneJob),
    /// Run a job now.
    Trigger(Trigger),
    /// End a run.
    Cancel(Cancel),
    /// Let one slot of a job to come not fire.
    SkipNext(SkipNext),
    /// Let one slot of a job to come fire at another instant.
    ShiftNext(ShiftNext),
    /// Run past slots of a job again, each under the revision that was in force then.
    Backfill(Backfill),
    /// Define, show and delete named calendars.
    Calendar(Calendar),
    /// List the newest runs.
    Runs(Runs),
    /// Show what happened to a run.
    Run(Run),
    /// Show when a job is due next.
    Next(Next),
    /// Say why a job ran, ran late, did not run, or will run, at an instant.
    Explain(Explain),
    /// Write definitions from the schedules of cron, Kubernetes or Quartz.
    Import(Import),
    /// Show the slots of an expression or a definition, without a broker.
    Simulate(Simulate),
    /// Look for faults and surprises in definitions or an expression, without a broker.
    Lint(Lint),
    /// Show how many slots are due in each minute to come, and where they collide.
    Forecast(Forecast),
    /// List the revisions of a job, and what each changed.
    History(History),
    /// Define a revision of a job again.
    Rollback(Rollback),
    /// List coming slots that differ between a job's recorded zone data and the present one.
    TzReport(TzReport),
    /// Show partitions, leaders, lags and executors.
    Status,
    /// Look for what is wrong with the installation.
    Doctor,
    /// End the hold of tickers started with `--hold`.
    Release,
    /// List shards that failed for good.
    Dead(Dead),
    /// Measure Cronstream beside raw JetStream, on brokers of its own.
    Bench(crate::bench::Bench),
}

impl Verb {
    /// The verb as the broker shows it for this connection.
    pub(crate) const fn role(&self) -> &'static str {
        match self {
            Self::Dev(_) => "dev",
            Self::DevGuard(_) => "dev-guard",
            Self::Accounts(_) => "accounts",
            Self::Init(_) => "init",
            Self::Ticker(_) => "ticker",
            Self::Executor(_) => "executor",
            Self::Relay(_) => "relay",
            Self::Apply(_) => "apply",
            Self::Get(_) => "get",
            Self::List(_) => "list",
            Self::Delete(_) => "delete",
            Self::Pause(_) => "pause",
            Self::Resume(_) => "resume",
            Self::Trigger(_) => "trigger",
            Self::Cancel(_) => "cancel",
            Self::SkipNext(_) => "skip-next",
            Self::ShiftNext(_) => "shift-next",
            Self::Backfill(_) => "backfill",
            Self::Calendar(_) => "calendar",
            Self::Runs(_) => "runs",
            Self::Run(_) => "run",
            Self::Next(_) => "next",
            Self::Explain(_) => "explain",
            Self::Import(_) => "import",
            Self::Simulate(_) => "simulate",
            Self::Lint(_) => "lint",
            Self::Forecast(_) => "forecast",
            Self::History(_) => "history",
            Self::Rollback(_) => "rollback",
            Self::TzReport(_) => "tz-report",
            Self::Status => "status",
            Self::Doctor => "doctor",
            Self::Release => "release",
            Self::Dead(_) => "dead",
            Self::Bench(_) => "bench",
        }
    }
}

/// Arguments of `dev`.
#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// Folder for the data, with which the next start goes on
    /// [default: $XDG_DATA_HOME/cronstream/dev, else ~/.local/share/cronstream/dev].
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Port of the nats-server that is started, 0 for any free one [default: 4222, else a free one].
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// Show each run as a trace: start a Jaeger, found on PATH or in the cache, or built by Go in about six minutes.
    #[arg(long)]
    pub(crate) jaeger: bool,
    /// Stop after this long.
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) lasts: Option<Span>,
}

/// Arguments of `dev-guard`.
#[derive(Debug, Args)]
pub(crate) struct DevGuard {
    /// Data folder of the nats-server.
    pub(crate) dir: PathBuf,
    /// Process number of the `dev`.
    pub(crate) owner: u32,
}

/// Arguments of `accounts`.
#[derive(Debug, Args)]
pub(crate) struct Accounts {
    /// Table of rights, like nats-config/rights.toml [default: that one].
    #[arg(long, value_name = "FILE")]
    pub(crate) rights: Option<PathBuf>,
}

/// Arguments of `init`.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Copies that the broker keeps of everything: 1, 3 or 5 [default: 1, or as it is].
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) replicas: Option<u8>,
    /// Shares that the jobs are divided into, 1-32; cannot be changed later [default: 8, or as it is].
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=32))]
    pub(crate) partitions: Option<u8>,
    /// How long a silent ticker keeps its partitions, 1s-60s [default: 5s, or as it is].
    #[arg(long, value_name = "DURATION")]
    pub(crate) lease_ttl: Option<Span>,
}

/// Arguments of `ticker`.
#[derive(Debug, Args)]
pub(crate) struct Ticker {
    /// Name of this node, unique among the tickers [default: from the host name].
    #[arg(long)]
    pub(crate) node: Option<Name>,
    /// Fold and account, but fire nothing until `cronstream release`.
    #[arg(long)]
    pub(crate) hold: bool,
    /// Stop when standard input ends.
    #[arg(long, hide = true)]
    pub(crate) exit_with_parent: bool,
    /// How far this machine's clock may be from the broker's.
    #[arg(long, default_value = "500ms", value_name = "DURATION")]
    pub(crate) max_clock_error: Span,
    /// How often an idle partition's cursor is written.
    #[arg(long, default_value = "6h", value_name = "DURATION", hide = true)]
    pub(crate) cursor_refresh: Span,
    /// Share of the runs that are traced, 0-1.
    #[arg(long, value_name = "RATIO", default_value_t)]
    pub(crate) trace_ratio: TraceRatio,
    /// Address on which to serve /metrics, /healthz and /readyz, such as 127.0.0.1:9464 [default: none].
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Milliseconds by which the clock is taken to be off.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, hide = true)]
    pub(crate) test_clock_offset: i64,
    /// File with such milliseconds, read again and again.
    #[arg(long, value_name = "FILE", conflicts_with = "test_clock_offset", hide = true)]
    pub(crate) test_clock_offset_file: Option<PathBuf>,
}

/// Arguments of `executor`.
#[derive(Debug, Args)]
pub(crate) struct Executor {
    /// Queue to serve.
    #[arg(long, default_value = "default")]
    pub(crate) queue: Name,
    /// Attempts that run at once.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrency: u32,
    /// File that says what each task is.
    #[arg(long, value_name = "FILE")]
    pub(crate) tasks: PathBuf,
    /// Name of this node [default: from the host name].
    #[arg(long)]
    pub(crate) node: Option<Name>,
    /// How long running attempts may take to finish when the executor is told to stop.
    #[arg(long, default_value = "30s", value_name = "DURATION")]
    pub(crate) drain: Span,
    /// How long the broker waits for a sign of life before it delivers a fire again; one value for all
    /// executors of a queue.
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub(crate) ack_wait: Span,
    /// Address on which to serve /metrics, /healthz and /readyz, such as 127.0.0.1:9464 [default: none].
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Stop when standard input ends.
    #[arg(long, hide = true)]
    pub(crate) exit_with_parent: bool,
}

/// Arguments of `relay`.
#[derive(Debug, Args)]
pub(crate) struct Relay {
    /// Collector that takes OTLP over HTTP; its headers come from OTEL_EXPORTER_OTLP_HEADERS.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:4318")]
    pub(crate) otlp: String,
    /// Address on which to serve /metrics, /healthz and /readyz, such as 127.0.0.1:9464 [default: none].
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Name of this node [default: from the host name].
    #[arg(long)]
    pub(crate) node: Option<Name>,
    /// Stop when standard input ends.
    #[arg(long, hide = true)]
    pub(crate) exit_with_parent: bool,
}

/// Arguments of `apply`.
#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// YAML or JSON file, directory of such files, or `-` for standard input.
    #[arg(long = "file", short, value_name = "PATH", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Check and compare, publish nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// A job.
#[derive(Debug, Args)]
pub(crate) struct OneJob {
    /// The job, `namespace/name`.
    pub(crate) job: JobId,
}

/// Arguments of `get`.
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// The job, `namespace/name`.
    pub(crate) job: JobId,
    /// Print the document that `apply` takes: the job and its definition, as one line of JSON.
    #[arg(long)]
    pub(crate) definition: bool,
    /// Show the revision that was in force at this instant, or local time in the job's zone.
    #[arg(long, value_name = "TIME", value_parser = instants::read)]
    pub(crate) at: Option<When>,
}

/// A job that is deleted.
#[derive(Debug, Args)]
pub(crate) struct Destroy {
    /// The job, `namespace/name`.
    pub(crate) job: JobId,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Arguments of `list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only jobs of this namespace.
    pub(crate) namespace: Option<Name>,
    /// Deleted jobs too.
    #[arg(long)]
    pub(crate) deleted: bool,
}

/// Arguments of `trigger`.
#[derive(Debug, Args)]
pub(crate) struct Trigger {
    /// The job, `namespace/name`.
    pub(crate) job: JobId,
    /// JSON for the task in place of the job's own, or `@FILE` that holds it.
    #[arg(long, value_name = "JSON")]
    pub(crate) params: Option<String>,
    /// Key that makes the trigger safe to repeat: a second one with it starts nothing.
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Wait until the run has ended; exit with 8 unless it succeeded.
    #[arg(long)]
    pub(crate) wait: bool,
    /// How long to wait for the end of the run.
    #[arg(long, value_name = "DURATION", default_value = "1h", requires = "wait")]
    pub(crate) wait_timeout: Span,
}

/// Arguments of `cancel`.
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// The run; or its job, `namespace/name`, followed by the run.
    #[arg(value_name = "[JOB] RUN", num_args = 1..=2, required = true)]
    pub(crate) what: Vec<String>,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Arguments of `runs`.
#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// Only runs of this job, `namespace/name`.
    pub(crate) job: Option<JobId>,
    /// How many.
    #[arg(short, long = "number", default_value_t = 20, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) number: u32,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The run's id.
    #[arg(value_parser = run_id)]
    pub(crate) run: RunId,
}

/// Reads the id of a run.
///
/// # Errors
/// When it is none.
pub(crate) fn run_id(text: &str) -> Result<RunId, String> {
    let wrong = "not a run id (a UUID, as `cronstream runs` lists them)";
    text.parse().map_err(|_| wrong.to_owned())
}

/// Arguments of `next`.
#[derive(Debug, Args)]
pub(crate) struct Next {
    /// The job, `namespace/name`.
    pub(crate) job: JobId,
    /// How many.
    #[arg(short, long = "number", default_value_t = 5, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) number: u32,
    /// Your time zone; that of this machine has no say.
    #[arg(long, value_name = "ZONE", value_parser = zone, default_value = "UTC")]
    pub(crate) zone: Zone,
}

/// Arguments of `dead`.
#[derive(Debug, Args)]
pub(crate) struct Dead {
    /// Only shards of this job, `namespace/name`.
    pub(crate) job: Option<JobId>,
    /// How many, the newest.
    #[arg(short, long = "number", default_value_t = 20, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) number: u32,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_of_every_verb_may_stand_behind_the_verb() {
        let cli = Cli::try_parse_from(["cronstream", "get", "a/b", "--json", "--nats", "x:1"]);
        let cli = cli.unwrap();
        assert!(cli.global.json);
        assert_eq!(cli.global.connection.nats.as_deref(), Some("x:1"));
    }

    #[test]
    fn a_bare_number_is_no_duration() {
        let error = Cli::try_parse_from(["cronstream", "status", "--timeout", "10"]).unwrap_err();
        assert!(error.to_string().contains("is not a duration"), "{error}");
        assert!(error.to_string().contains("such as 10s"), "{error}");
    }

    #[test]
    fn what_is_no_run_id_is_told_what_one_is() {
        let error = Cli::try_parse_from(["cronstream", "run", "123"]).unwrap_err();
        assert!(error.to_string().contains("not a run id (a UUID"), "{error}");
    }
}
