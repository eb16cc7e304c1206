//! Calendars of files, brought into force: each behind those that it is built of.

use std::collections::BTreeSet;
use std::sync::Arc;

use cronstream_bus::Bus;
use cronstream_core::calendar::Calendars;
use cronstream_schemas::calendar::{CalendarDefinition, CalendarId};
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::CalendarState;
use cronstream_schemas::fault::Fault;
use cronstream_schemas::id::Revision;
use cronstream_schemas::verdict::Outcome;
use serde::Serialize;

use crate::apply::{Change, Located};
use crate::calendars;
use crate::documents::{Document, Kind};
use crate::error::Error;
use crate::jobs;
use crate::output::{count, printable};
use crate::send::Order;
use crate::session::Session;

/// What became of one calendar.
#[derive(Debug, Serialize)]
struct Applied {
    calendar: CalendarId,
    place: String,
    outcome: Change,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<Revision>,
    /// How many jobs go by it, as far as its owner knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faults: Vec<Located>,
}

/// Brings calendars to what their documents say; returns how many were rejected.
///
/// # Errors
/// When the log cannot be read or a command's fate is not known.
pub(crate) async fn apply_all(
    session: &Session,
    bus: &Bus,
    documents: Vec<Document>,
    dry_run: bool,
) -> Result<usize, Error> {
    let mut rejected = 0;
    // What a dry run takes for accepted.
    let mut assumed = Calendars::default();
    for (document, definition) in in_order(documents) {
        let applied = one(session, bus, (&document, definition), dry_run, &mut assumed).await?;
        rejected += usize::from(applied.outcome == Change::Rejected);
        session.out.object(&applied, || applied.describe(dry_run))?;
    }
    Ok(rejected)
}

/// The calendars that stand in files, as far as they can be read.
pub(crate) fn of_documents(documents: &[Document]) -> Calendars {
    let mut calendars = Calendars::default();
    for document in documents.iter().filter(|document| document.kind == Kind::Calendar) {
        if let Ok(definition) = CalendarDefinition::decode(document.body.as_bytes()) {
            calendars.apply(&Arc::new(state(&document.job, definition)));
        }
    }
    calendars
}

/// The state that a calendar would have.
fn state(id: &CalendarId, definition: CalendarDefinition) -> CalendarState {
    CalendarState {
        calendar: id.clone(),
        revision: Revision(u64::MAX),
        definition: Some(definition),
        command: u64::MAX,
        at: jobs::now(),
    }
}

type Read = (Document, Result<CalendarDefinition, Vec<Fault>>);

/// The documents with those first that others are built of; what is left of a cycle keeps its order.
fn in_order(documents: Vec<Document>) -> Vec<Read> {
    let mut left: Vec<Read> = documents
        .into_iter()
        .map(|document| {
            let definition = CalendarDefinition::decode(document.body.as_bytes());
            (document, definition)
        })
        .collect();
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waiting: BTreeSet<CalendarId> = left.iter().map(|(it, _)| it.job.clone()).collect();
        let ready = left.iter().position(|(document, definition)| {
            let mut parts = definition.iter().flat_map(CalendarDefinition::parts);
            parts.all(|part| *part == document.job || !waiting.contains(part))
        });
        ordered.push(left.remove(ready.unwrap_or(0)));
    }
    ordered
}

async fn one(
    session: &Session,
    bus: &Bus,
    (document, definition): (&Document, Result<CalendarDefinition, Vec<Fault>>),
    dry_run: bool,
    assumed: &mut Calendars,
) -> Result<Applied, Error> {
    let id = &document.job;
    let definition = match definition {
        Ok(definition) if document.faults.is_empty() => definition,
        Ok(_) => return Ok(Applied::rejected(document, document.faults.clone())),
        Err(faults) => {
            let new = faults
                .into_iter()
                .filter(|fault| !document.faults.iter().any(|known| known.path == fault.path));
            let all = document.faults.iter().cloned().chain(new).collect();
            return Ok(Applied::rejected(document, all));
        }
    };
    let wanted = definition.parts().cloned().chain([id.clone()]).collect();
    let known = calendars::with_parts(bus, wanted).await?;
    let found = known.get(id);
    let outcome = match found {
        None => Change::Created,
        Some(state) if state.definition.as_ref() == Some(&definition) => Change::Unchanged,
        Some(_) => Change::Changed,
    };
    let revision = found.map(|state| state.revision);
    let applied = Applied { revision, ..Applied::new(document, outcome) };
    if outcome == Change::Unchanged {
        return Ok(applied);
    }
    if dry_run {
        return Ok(foresee(document, applied, definition, &known, assumed));
    }
    let order = Order {
        verb: Verb::Calendar,
        job: id.clone(),
        body: document.body.clone().into_bytes(),
        expected: Some(revision.unwrap_or_default()),
    };
    match order.send(bus, session.timeout).await?.outcome {
        Outcome::CalendarAccepted { revision, jobs } => {
            Ok(Applied { revision: Some(revision), jobs: Some(jobs), ..applied })
        }
        Outcome::Rejected { faults, .. } => Ok(Applied::rejected(document, faults)),
        other @ (Outcome::Accepted { .. }
        | Outcome::Overridden { .. }
        | Outcome::Backfilling { .. }
        | Outcome::Fired { .. }
        | Outcome::Skipped { .. }
        | Outcome::Cancelled { .. }) => {
            let what = format!("the verdict on calendar {id}");
            Err(Error::Unreadable { what, problem: format!("{other:?} answers no calendar") })
        }
    }
}

/// Judges a calendar as its owner would, with those that this run would have defined before it.
fn foresee(
    document: &Document,
    applied: Applied,
    definition: CalendarDefinition,
    known: &Calendars,
    assumed: &mut Calendars,
) -> Applied {
    let mut all = known.clone();
    for state in assumed.iter() {
        all.apply(state);
    }
    if let Err(faults) = all.check(&document.job, &definition) {
        return Applied::rejected(document, faults);
    }
    assumed.apply(&Arc::new(state(&document.job, definition)));
    applied
}

impl Applied {
    fn new(document: &Document, outcome: Change) -> Self {
        Self {
            calendar: document.job.clone(),
            place: document.place.to_string(),
            outcome,
            revision: None,
            jobs: None,
            faults: Vec::new(),
        }
    }

    fn rejected(document: &Document, faults: Vec<Fault>) -> Self {
        let faults = faults.into_iter().map(|fault| Located::of(document, fault)).collect();
        Self { faults, ..Self::new(document, Change::Rejected) }
    }

    fn describe(&self, dry_run: bool) -> String {
        let word = match self.outcome {
            Change::Created => "created   ",
            Change::Changed => "changed   ",
            Change::Unchanged => "unchanged ",
            Change::Rejected => "rejected  ",
        };
        let would = if dry_run { " (dry run)" } else { "" };
        let revision = self.revision.map(|it| format!(", revision {}", it.0)).unwrap_or_default();
        let jobs = match self.jobs {
            Some(0) | None => String::new(),
            Some(many) => format!(", {} by it", went(many)),
        };
        let faults = self.faults.iter().map(|at| at.line());
        let faults: String = faults.map(|line| format!("\n  {}", printable(&line))).collect();
        format!("{word}calendar {}{would}{revision}{jobs}{faults}", self.calendar)
    }
}

fn went(jobs: u64) -> String {
    let verb = if jobs == 1 { "goes" } else { "go" };
    format!("{} {verb}", count(jobs, "job"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents;

    #[test]
    fn a_calendar_comes_behind_those_it_is_built_of_wherever_it_stands() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("all.yaml");
        let text = "calendar: a/top\ninclude: [{calendar: a/middle}]\n---\ncalendar: a/middle\nexclude: [{calendar: a/base}]\n---\ncalendar: a/base\ninclude: [{date: \"2027-01-01\"}]\n---\ncalendar: a/self\ninclude: [{calendar: a/self}]\n";
        std::fs::write(&file, text).unwrap();
        let ordered = in_order(documents::read(&[file]).unwrap());
        let names: Vec<_> = ordered.iter().map(|(document, _)| document.job.to_string()).collect();
        assert_eq!(names, ["a/base", "a/middle", "a/top", "a/self"]);
    }
}
