//! Arguments of the verbs that ask about slots and revisions, and change nothing but by `rollback`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cronstream_core::schedule::Zone;
use cronstream_schemas::definition::{self, When};
use cronstream_schemas::name::JobId;

use crate::instants;

/// How expressions are read.
#[derive(Debug, Clone, Args)]
pub(crate) struct Reading {
    /// Whose rules the expression follows.
    #[arg(long, value_enum, default_value = "crontab")]
    pub(crate) dialect: Dialect,
    /// What becomes of a wall time that a clock change leaves out [default: as Debian cron].
    #[arg(long, value_enum, value_name = "CHOICE")]
    pub(crate) gap: Option<Gap>,
    /// What becomes of a wall time that a clock change shows twice [default: as Debian cron].
    #[arg(long, value_enum, value_name = "CHOICE")]
    pub(crate) fold: Option<Fold>,
    /// Job that hash slots (`H`) are drawn for, `namespace/name`.
    #[arg(long, value_name = "JOB", default_value = "a/job")]
    pub(crate) job: JobId,
}

/// Whose rules an expression follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dialect {
    Crontab,
    Quartz,
}

/// What becomes of a wall time that a clock change leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Gap {
    End,
    Skip,
    Before,
}

/// What becomes of a wall time that a clock change shows twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fold {
    First,
    Last,
    Both,
}

impl From<Dialect> for definition::Dialect {
    fn from(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Crontab => Self::Crontab,
            Dialect::Quartz => Self::Quartz,
        }
    }
}

impl From<Gap> for definition::Gap {
    fn from(gap: Gap) -> Self {
        match gap {
            Gap::End => Self::End,
            Gap::Skip => Self::Skip,
            Gap::Before => Self::Before,
        }
    }
}

impl From<Fold> for definition::Fold {
    fn from(fold: Fold) -> Self {
        match fold {
            Fold::First => Self::First,
            Fold::Last => Self::Last,
            Fold::Both => Self::Both,
        }
    }
}

/// Arguments of `simulate`.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// Cron expression.
    #[arg(value_name = "EXPR", required_unless_present_any = ["file", "vectors"],
        conflicts_with_all = ["file", "vectors"])]
    pub(crate) expression: Option<String>,
    /// YAML or JSON file with definitions, and with the calendars that they use. May be given several times.
    #[arg(long, short, value_name = "PATH", conflicts_with_all = ["vectors", "zone", "dialect", "gap", "fold", "job"])]
    pub(crate) file: Vec<PathBuf>,
    /// File of expressions, zones, starts and the slots that follow by Debian cron, to hold the calendar against.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "to", "zone", "dialect", "gap", "fold", "job"])]
    pub(crate) vectors: Option<PathBuf>,
    /// Time zone that the expression is read in [default: that of its `TZ=`, else UTC].
    #[arg(long, value_name = "ZONE", value_parser = zone)]
    pub(crate) zone: Option<Zone>,
    /// No slot before this instant, or local time such as 2027-01-31 or 2027-01-31T03:00 [default: now].
    #[arg(long, value_name = "TIME", value_parser = instants::read)]
    pub(crate) from: Option<When>,
    /// No slot at or after this instant or local time [default: as many as -n says].
    #[arg(long, value_name = "TIME", value_parser = instants::read)]
    pub(crate) to: Option<When>,
    /// The most slots that are listed [default: 10, with --to 1000].
    #[arg(short, long = "number", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) number: Option<u32>,
    /// How the expression is read.
    #[command(flatten)]
    pub(crate) reading: Reading,
}

/// Arguments of `lint`.
#[derive(Debug, Args)]
pub(crate) struct Lint {
    /// Files or folders of definitions, `-` for standard input, or cron expressions.
    #[arg(value_name = "FILE|-|EXPR", required = true)]
    pub(crate) what: Vec<String>,
    /// Time zone that an expression is read in [default: that of its `TZ=`, else UTC].
    #[arg(long, value_name = "ZONE", value_parser = zone)]
    pub(crate) zone: Option<Zone>,
    /// How an expression is read.
    #[command(flatten)]
    pub(crate) reading: Reading,
}

/// Arguments of `forecast`.
#[derive(Debug, Args)]
pub(crate) struct Forecast {
    /// Where to begin: an instant, or a local time in --zone such as 2027-01-31 or 2027-01-31T03:00 [default: now].
    #[arg(long, value_name = "TIME", value_parser = instants::read)]
    pub(crate) from: Option<When>,
    /// Where to end, at most 31 days later [default: 24 hours later].
    #[arg(long, value_name = "TIME", value_parser = instants::read)]
    pub(crate) to: Option<When>,
    /// Time zone to show minutes in, and to read local times in.
    #[arg(long, value_name = "ZONE", value_parser = zone, default_value = "UTC")]
    pub(crate) zone: Zone,
    /// Definitions to take in place of the installation's. May be given several times.
    #[arg(long, short, value_name = "PATH")]
    pub(crate) file: Vec<PathBuf>,
    /// How many of the busiest minutes to list.
    #[arg(short, long = "number", default_value_t = 10, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) number: u32,
}

/// Arguments of `history`.
#[derive(Debug, Args)]
pub(crate) struct History {
    /// The job, `namespace/name`.
    pub(crate) job: JobId,
    /// Show what each revision changed.
    #[arg(long)]
    pub(crate) diff: bool,
    /// How many, the newest.
    #[arg(short, long = "number", default_value_t = 20, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) number: u32,
}

/// Arguments of `rollback`.
#[derive(Debug, Args)]
pub(crate) struct Rollback {
    /// The job, `namespace/name`.
    pub(crate) job: JobId,
    /// Revision whose definition is defined again.
    #[arg(long, value_name = "REVISION")]
    pub(crate) to: u64,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Arguments of `tz-report`.
#[derive(Debug, Args)]
pub(crate) struct TzReport {
    /// Where to begin: an instant, or a local time in --zone, else in UTC, such as 2027-01-31 or 2027-01-31T03:00
    /// [default: now].
    #[arg(long, value_name = "TIME", value_parser = instants::read)]
    pub(crate) from: Option<When>,
    /// Where to end [default: two years later].
    #[arg(long, value_name = "TIME", value_parser = instants::read)]
    pub(crate) to: Option<When>,
    /// Only jobs that are read in this zone.
    #[arg(long, value_name = "ZONE", value_parser = zone)]
    pub(crate) zone: Option<Zone>,
}

/// The arguments, with expressions that begin with a hyphen, such as `-1 * * * *`, behind a `--`: no option looks like
/// one, and what is wrong with it is for the calendar to say.
pub(crate) fn hyphened(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let arguments: Vec<OsString> = arguments.collect();
    if arguments.iter().any(|argument| argument == "--") {
        return arguments;
    }
    let is_expression = |argument: &OsString| {
        let behind = argument.to_str().and_then(|text| text.strip_prefix('-'));
        behind.is_some_and(|it| {
            it.starts_with(|c: char| c.is_ascii_digit() || c == '*') && it.contains([' ', '\t'])
        })
    };
    let (expressions, mut others): (Vec<_>, Vec<_>) =
        arguments.into_iter().partition(is_expression);
    if !expressions.is_empty() {
        others.push("--".into());
        others.extend(expressions);
    }
    others
}

/// Reads the name of a time zone.
///
/// # Errors
/// When it is none.
pub(crate) fn zone(name: &str) -> Result<Zone, String> {
    Zone::get(name).map_err(|error| error.to_string())
}
