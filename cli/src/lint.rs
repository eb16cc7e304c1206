//! `lint`: every fault and every warning of definitions or of an expression, without a broker.
//!
//! Invariant: exit code 0 says nothing was found, 1 warnings alone, 2 faults.

use std::path::{Path, PathBuf};

use cronstream_schemas::calendar::CalendarId;
use cronstream_schemas::name::JobId;
use serde::Serialize;

use crate::args;
use crate::error::Error;
use crate::jobs;
use crate::offline::{self, Candidate, Expression, Finding};
use crate::output::printable;
use crate::session::Session;
use crate::words;

/// What is to be said of a definition.
#[derive(Debug, Serialize)]
struct Linted {
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    job: JobId,
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<String>,
    expressions: Vec<Expression>,
    faults: Vec<Finding>,
    warnings: Vec<Finding>,
}

/// What is to be said of a calendar.
#[derive(Debug, Serialize)]
struct LintedCalendar {
    place: String,
    calendar: CalendarId,
    faults: Vec<Finding>,
}

pub(crate) fn lint(session: &Session, wanted: &args::Lint) -> Result<(), Error> {
    let now = jobs::now();
    let (expressions, files): (Vec<_>, Vec<_>) =
        wanted.what.iter().partition(|what| is_expression(what));
    let judge = |text: &String| offline::of_expression(text, wanted.zone, &wanted.reading, now);
    let mut jobs: Vec<Candidate> = expressions.into_iter().map(judge).collect();
    let mut judged = Vec::new();
    if !files.is_empty() {
        let files: Vec<PathBuf> = files.into_iter().map(PathBuf::from).collect();
        let documents = offline::read(&files, now)?;
        jobs.extend(documents.jobs);
        judged = documents.judged;
    }
    let (mut faults, mut warnings) = (0, 0);
    for calendar in judged {
        faults += calendar.faults.len() as u64;
        let linted = LintedCalendar {
            place: calendar.place,
            calendar: calendar.calendar,
            faults: calendar.faults,
        };
        session.out.object(&linted, || linted.describe())?;
    }
    for candidate in jobs {
        let linted = Linted::new(candidate);
        faults += linted.faults.len() as u64;
        warnings += linted.warnings.len() as u64;
        session.out.object(&linted, || linted.describe())?;
    }
    match (faults, warnings) {
        (0, 0) => Ok(()),
        (0, warnings) => Err(Error::Warned(warnings)),
        (faults, warnings) => Err(Error::Faulty { faults, warnings }),
    }
}

/// Whether an argument is an expression: it is no file, and does not look like the name of one.
fn is_expression(text: &str) -> bool {
    let begins = |c: char| c.is_ascii_digit() || ['*', '?', '@'].contains(&c);
    let one = text.starts_with(begins) && !text.contains('.');
    let like = text.contains([' ', '\t']) || one;
    like && !Path::new(text).exists()
}

impl LintedCalendar {
    fn describe(&self) -> String {
        let faults = self.faults.iter().map(|found| format!("\nfault: {}", found.describe()));
        format!("{}: calendar {}{}", self.place, self.calendar, faults.collect::<String>())
    }
}

impl Linted {
    fn new(candidate: Candidate) -> Self {
        let Candidate { place, job, expressions, definition, past, mut warnings } = candidate;
        let (words, mut faults) = match definition {
            Ok(definition) => (Some(words::spoken(&job, &definition)), Vec::new()),
            Err(faults) => (None, faults),
        };
        if past.is_some() {
            // The fault says it already.
            warnings.retain(|found| found.code != Some("never-due"));
        }
        faults.extend(past);
        Self { place, job, words, expressions, faults, warnings }
    }

    fn describe(&self) -> String {
        let of = match &self.place {
            Some(place) => format!("{place}: {}", self.job),
            None => self.expressions.first().map_or("expression".into(), |it| printable(&it.text)),
        };
        let mut lines = Vec::new();
        if let Some(words) = &self.words {
            lines.push(format!("{of}: {words}"));
        }
        lines.extend(self.faults.iter().map(|found| format!("fault: {}", found.describe())));
        lines.extend(self.warnings.iter().map(|found| format!("warning: {}", found.describe())));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_told_from_a_file() {
        for text in ["* * * * *", "@daily", "0 3 * *", "TZ=UTC 0 3 * * *", "******", "no file here"]
        {
            assert!(is_expression(text), "{text}");
        }
        for text in ["-", "jobs.yaml", "2027.yaml", "jobs/", "Hourly", "/dev/null"] {
            assert!(!is_expression(text), "{text}");
        }
    }
}
