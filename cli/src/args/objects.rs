//! Arguments of the verbs for calendars, and for single slots of a job.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use cronstream_schemas::calendar::{CalendarId, YEARS};
use cronstream_schemas::definition::When;
use cronstream_schemas::name::{JobId, Name};

use crate::instants;

/// Arguments of `calendar`.
#[derive(Debug, Args)]
pub(crate) struct Calendar {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: CalendarVerb,
}

/// What to do with calendars.
#[derive(Debug, Subcommand)]
pub(crate) enum CalendarVerb {
    /// Define calendars from YAML or JSON files; `cronstream apply` takes them beside jobs too.
    Apply(CalendarApply),
    /// List calendars.
    List(CalendarList),
    /// Show a calendar.
    Get(CalendarGet),
    /// Delete a calendar that nothing uses.
    Delete(CalendarDelete),
    /// List the days of a calendar in a year.
    Days(CalendarDays),
}

/// Arguments of `calendar apply`.
#[derive(Debug, Args)]
pub(crate) struct CalendarApply {
    /// YAML or JSON files, directories of such files, or `-` for standard input.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Check and compare, publish nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `calendar list`.
#[derive(Debug, Args)]
pub(crate) struct CalendarList {
    /// Only calendars of this namespace.
    pub(crate) namespace: Option<Name>,
}

/// Arguments of `calendar get`.
#[derive(Debug, Args)]
pub(crate) struct CalendarGet {
    /// The calendar, `namespace/name`.
    #[arg(value_name = "CALENDAR")]
    pub(crate) calendar: CalendarId,
    /// Print the document that `apply` takes: the calendar and its rules, as one line of JSON.
    #[arg(long)]
    pub(crate) definition: bool,
}

/// Arguments of `calendar delete`.
#[derive(Debug, Args)]
pub(crate) struct CalendarDelete {
    /// The calendar, `namespace/name`.
    #[arg(value_name = "CALENDAR")]
    pub(crate) calendar: CalendarId,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Arguments of `calendar days`.
#[derive(Debug, Args)]
pub(crate) struct CalendarDays {
    /// The calendar, `namespace/name`.
    #[arg(value_name = "CALENDAR")]
    pub(crate) calendar: CalendarId,
    /// The year, 1970-2239 [default: this one, in UTC].
    #[arg(long, value_parser = clap::value_parser!(i32).range(i64::from(YEARS.0)..=i64::from(YEARS.1)))]
    pub(crate) year: Option<i32>,
}

/// Arguments of `skip-next`.
#[derive(Debug, Args)]
pub(crate) struct SkipNext {
    /// The job, `namespace/name`.
    pub(crate) job: JobId,
    /// The slot, as `cronstream next` lists it [default: the next one].
    #[arg(long, value_name = "TIME", value_parser = instants::read)]
    pub(crate) slot: Option<When>,
}

/// Arguments of `shift-next`.
#[derive(Debug, Args)]
pub(crate) struct ShiftNext {
    /// The job, `namespace/name`.
    pub(crate) job: JobId,
    /// When the slot is due instead; its own instant takes a skip or a shift back.
    #[arg(long, value_name = "TIME", value_parser = instants::read)]
    pub(crate) to: When,
    /// The slot, as `cronstream next` lists it [default: the next one].
    #[arg(long, value_name = "TIME", value_parser = instants::read)]
    pub(crate) slot: Option<When>,
}

/// Arguments of `backfill`.
#[derive(Debug, Args)]
pub(crate) struct Backfill {
    /// The job, `namespace/name`.
    #[arg(value_name = "JOB")]
    pub(crate) job: JobId,
    /// The first instant whose slots run again.
    #[arg(long, value_name = "TIME", value_parser = instants::read)]
    pub(crate) from: When,
    /// The last instant whose slots run again; it has passed.
    #[arg(long, value_name = "TIME", value_parser = instants::read)]
    pub(crate) to: When,
    /// Show which slots would run again, publish nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do it without asking.
    #[arg(long)]
    pub(crate) yes: bool,
}
