//! `simulate`: the slots of an expression or of definitions, without a broker; or how the calendar agrees with Debian
//! cron.
//!
//! Invariant: the same input gives the same output, on every host: nothing is read but the arguments, the files and,
//! where `--from` is left out, the clock.

use std::time::Duration;

use cronstream_core::calendar::Calendars;
use cronstream_core::schedule::{Seed, Zone, parse};
use cronstream_schemas::definition::{JobDefinition, When};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use serde::Serialize;

use crate::args;
use crate::clock_changes::ClockChange;
use crate::error::Error;
use crate::jobs;
use crate::offline::{self, Candidate, Documents, Expression, Finding};
use crate::output::{count, table};
use crate::session::Session;
use crate::slots::{Moment, Timetable};
use crate::{instants, vectors, words};

/// Slots that are listed when `-n` says nothing: alone, and with `--to`.
const LISTED: usize = 10;
const LISTED_TO: usize = 1_000;
/// Further ahead than any definition is warned of.
const YEAR: Duration = Duration::from_secs(2 * 366 * 86_400);

/// What a definition does in a stretch of time.
#[derive(Debug, Serialize)]
struct Simulated {
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    job: JobId,
    words: String,
    expressions: Vec<Expression>,
    time_zone: String,
    tzdb: &'static str,
    from: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Timestamp>,
    /// How many slots there are from `from` up to `to`.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    slots: Vec<Row>,
    clock_changes: Vec<ClockChange>,
    warnings: Vec<Finding>,
}

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    moment: Moment,
    local: String,
}

/// The stretch of time that is asked for.
#[derive(Debug, Clone, Copy)]
struct Span {
    from: Timestamp,
    to: Option<Timestamp>,
}

impl Span {
    /// The stretch of the arguments, whose local times are those of the expression's zone, else UTC.
    fn of(wanted: &args::Simulate) -> Result<Self, Error> {
        let own = || {
            let text = wanted.expression.as_ref()?;
            let reading = &wanted.reading;
            let parsed = parse(text, reading.dialect.into(), Seed::of(&reading.job)).ok()?;
            Zone::get(&parsed.zone?).ok()
        };
        let zone = wanted.zone.or_else(own).unwrap_or(Zone::UTC);
        let read = |when: Option<When>, option| {
            when.map(|when| instants::on_clock(when, zone, option)).transpose()
        };
        let from = read(wanted.from, "--from")?.unwrap_or_else(jobs::now);
        let to = read(wanted.to, "--to")?;
        match to.filter(|to| *to <= from) {
            Some(to) => Err(Error::Usage(format!("--to {to} is not after {from}"))),
            None => Ok(Self { from, to }),
        }
    }
}

pub(crate) fn simulate(session: &Session, wanted: &args::Simulate) -> Result<(), Error> {
    if let Some(file) = &wanted.vectors {
        return vectors::compare(session, file);
    }
    let span = Span::of(wanted)?;
    let from = span.from;
    let Documents { jobs, calendars, judged } = match &wanted.expression {
        Some(expression) => {
            Documents::one(offline::of_expression(expression, wanted.zone, &wanted.reading, from))
        }
        None => offline::read(&wanted.file, from)?,
    };
    let total = (jobs.len() + judged.len()) as u64;
    let faults = judged.into_iter().map(|calendar| calendar.faults);
    let mut refused: Vec<Vec<Finding>> = faults.filter(|faults| !faults.is_empty()).collect();
    for candidate in jobs {
        match simulated(candidate, calendars.clone(), span, wanted.number) {
            Ok(simulated) => session.out.object(&simulated, || simulated.describe())?,
            Err(findings) => refused.push(findings),
        }
    }
    if refused.is_empty() {
        return Ok(());
    }
    let told: Vec<String> = refused.iter().flatten().map(Finding::describe).collect();
    let what = match wanted.expression {
        Some(_) => "the expression is refused".to_owned(),
        None => format!("{} of {} refused", refused.len(), count(total, "definition")),
    };
    Err(Error::Rejected(format!("{what}\n{}", told.join("\n"))))
}

fn simulated(
    candidate: Candidate,
    calendars: Calendars,
    Span { from, to }: Span,
    number: Option<u32>,
) -> Result<Simulated, Vec<Finding>> {
    let Candidate { place, job, expressions, definition, past: _, warnings } = candidate;
    let definition: JobDefinition = definition?;
    let anchor = definition.start.unwrap_or(from);
    let plain = |faults| Finding::all(faults, place.as_deref());
    let timetable = Timetable::new(&job, &definition, anchor, calendars).map_err(plain)?;
    let listed = if to.is_some() { LISTED_TO } else { LISTED };
    let most = number.map_or(listed, |number| usize::try_from(number).unwrap_or(listed));
    let moments = timetable.ahead((from, to.unwrap_or(Timestamp::MAX)), most, &[]);
    let zone = timetable.zone();
    let last = moments.last().map(|moment| moment.slot);
    let through = to.or(last).unwrap_or(from);
    // The clock changes of the stretch are told as such, those behind it are not asked for.
    let year = timetable.clock_changes(from, from.plus(YEAR));
    let mut warnings = warnings;
    warnings.retain(|one| !year.iter().any(|change| change.words == one.fault.problem));
    Ok(Simulated {
        words: words::spoken(&job, &definition),
        place,
        job,
        expressions,
        time_zone: definition.time_zone.clone(),
        tzdb: Zone::tzdb_version(),
        from,
        to,
        total: to.map(|to| timetable.count(from, to)),
        clock_changes: timetable.clock_changes(from, through),
        slots: moments
            .into_iter()
            .map(|moment| Row { local: words::local(moment.due, zone), moment })
            .collect(),
        warnings,
    })
}

impl Simulated {
    fn describe(&self) -> String {
        let place = self.place.as_ref().map(|place| format!("{place}: {}: ", self.job));
        let mut lines = vec![format!("{}{}", place.unwrap_or_default(), self.words)];
        let texts = self.expressions.iter().filter(|one| one.text != one.canonical);
        lines.extend(texts.map(|one| format!("{} is {}", one.text, one.canonical)));
        lines.extend(self.warnings.iter().map(|one| format!("warning: {}", one.describe())));
        if self.slots.is_empty() {
            lines.push(match self.to {
                Some(to) => format!("no slot from {} up to {to}", self.from),
                None => format!("no slot after {}", self.from),
            });
            return lines.join("\n");
        }
        let cells = |row: &Row| {
            let notes = row.moment.notes.join("; ");
            [row.moment.due.to_string(), row.local.clone(), notes]
        };
        let header = ["UTC", self.time_zone.as_str(), "NOTE"];
        lines.push(table(header, self.slots.iter().map(cells)));
        let noted = |words: &String| self.slots.iter().any(|row| row.moment.notes.contains(words));
        let silent = self.clock_changes.iter().filter(|change| !noted(&change.words));
        lines.extend(silent.map(|change| format!("note: {}", change.words)));
        if let Some(total) = self.total.filter(|total| *total > self.slots.len() as u64) {
            lines.push(format!("{} in all", count(total, "slot")));
        }
        lines.join("\n")
    }
}
