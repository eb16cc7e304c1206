//! Definitions judged without a broker: what a ticker would refuse, what it would warn of, and where it stands.
//!
//! Invariant: the verdict is the ticker's own, by the same functions; a fault in an expression names its byte.

use std::path::PathBuf;

use cronstream_core::calendar::Calendars;
use cronstream_core::definition::{check, coded_warnings, past};
use cronstream_core::schedule::{self, ParseError, Rule, Seed, Zone};
use cronstream_schemas::calendar::{CalendarDefinition, CalendarId};
use cronstream_schemas::definition::{Dialect, Draft, JobDefinition, Schedule};
use cronstream_schemas::fault::Fault;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use serde::Serialize;

use crate::args::Reading;
use crate::documents::{self, Document, Kind};
use crate::error::Error;
use crate::output::printable;
use crate::{calendar, caret, words};

/// A definition and what is to be said of it.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// Where it stands; absent for one that was typed.
    pub(crate) place: Option<String>,
    /// Its job.
    pub(crate) job: JobId,
    /// Its expressions.
    pub(crate) expressions: Vec<Expression>,
    /// The definition, or everything that is wrong with it.
    pub(crate) definition: Result<JobDefinition, Vec<Finding>>,
    /// The instant that it names and that has passed: it can come into force only where it is in force already.
    pub(crate) past: Option<Finding>,
    /// What it does that its writer may not expect.
    pub(crate) warnings: Vec<Finding>,
}

/// A cron expression that is accepted.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Expression {
    /// As it was written.
    pub(crate) text: String,
    /// In normal form.
    pub(crate) canonical: String,
    /// In words.
    pub(crate) words: String,
}

/// A fault or a warning.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    /// The file and line; absent for what was typed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<String>,
    /// What it is about.
    #[serde(flatten)]
    pub(crate) fault: Fault,
    /// The kind of warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<&'static str>,
    /// Where in an expression.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<Spot>,
}

/// A place in an expression.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Spot {
    /// The expression.
    pub(crate) expression: String,
    /// The byte, from 0.
    pub(crate) position: usize,
    #[serde(skip)]
    length: usize,
}

impl Finding {
    fn of(fault: Fault, document: Option<&Document>) -> Self {
        let place = document.map(|document| document.place_of(&fault.path).to_string());
        Self { place, fault, code: None, at: None }
    }

    /// Faults that stand nowhere in particular.
    pub(crate) fn all(faults: Vec<Fault>, place: Option<&str>) -> Vec<Self> {
        let place = place.map(str::to_owned);
        let plain = |fault| Self { place: place.clone(), fault, code: None, at: None };
        faults.into_iter().map(plain).collect()
    }

    /// The finding as people read it, with a mark under its piece.
    pub(crate) fn describe(&self) -> String {
        let place = self.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        let Some(at) = &self.at else {
            return format!("{place}{}", printable(&self.fault.to_string()));
        };
        let marked = caret::under(&at.expression, at.position, at.length).replace('\n', "\n    ");
        let Fault { path, problem, expected, .. } = &self.fault;
        let said = printable(&format!("{path}: {problem}"));
        format!("{place}{said}\n    {marked}\n  hint: {}", printable(expected))
    }
}

/// The definition that an expression alone stands for.
pub(crate) fn of_expression(
    expression: &str,
    zone: Option<Zone>,
    reading: &Reading,
    now: Timestamp,
) -> Candidate {
    let mut body = serde_json::json!({
        "task": "simulate",
        "schedule": { "cron": expression },
    });
    let choices = [
        ("dialect", serde_json::to_value(Dialect::from(reading.dialect))),
        ("gap", serde_json::to_value(reading.gap.map(cronstream_schemas::definition::Gap::from))),
        (
            "fold",
            serde_json::to_value(reading.fold.map(cronstream_schemas::definition::Fold::from)),
        ),
    ];
    if let Some(zone) = zone {
        body["time_zone"] = zone.name().into();
    }
    for (name, choice) in choices {
        if let Some(choice) = choice.ok().filter(|choice| !choice.is_null()) {
            body[name] = choice;
        }
    }
    judge((&body.to_string(), None), &reading.job, &Calendars::default(), now)
}

/// What stands in files.
#[derive(Debug)]
pub(crate) struct Documents {
    /// The jobs.
    pub(crate) jobs: Vec<Candidate>,
    /// The calendars as jobs read them, as far as they are right.
    pub(crate) calendars: Calendars,
    /// Every calendar with what is wrong with it.
    pub(crate) judged: Vec<Judged>,
}

/// A calendar and what is wrong with it.
#[derive(Debug)]
pub(crate) struct Judged {
    /// Where it stands.
    pub(crate) place: String,
    /// The calendar.
    pub(crate) calendar: CalendarId,
    /// What is wrong with it, but for parts that stand in no file.
    pub(crate) faults: Vec<Finding>,
}

impl Documents {
    /// One definition that stands in no file.
    pub(crate) fn one(candidate: Candidate) -> Self {
        Self { jobs: vec![candidate], calendars: Calendars::default(), judged: Vec::new() }
    }
}

/// Reads files, and judges every definition that stands in them.
///
/// # Errors
/// When a file cannot be read.
pub(crate) fn read(paths: &[PathBuf], now: Timestamp) -> Result<Documents, Error> {
    let documents = documents::read(paths)?;
    if documents.is_empty() {
        return Err(Error::Usage("no definition stands in these files".into()));
    }
    let calendars = calendar::of_documents(&documents);
    let (mut jobs, mut judged) = (Vec::new(), Vec::new());
    for document in &documents {
        match document.kind {
            Kind::Job => {
                let body = (document.body.as_str(), Some(document));
                jobs.push(judge(body, &document.job, &calendars, now));
            }
            Kind::Calendar => judged.push(judge_calendar(document)),
        }
    }
    Ok(Documents { jobs, calendars, judged })
}

fn judge_calendar(document: &Document) -> Judged {
    let faults = CalendarDefinition::decode(document.body.as_bytes()).err().unwrap_or_default();
    let written = &document.faults;
    let new = faults.into_iter().filter(|fault| !written.iter().any(|it| it.path == fault.path));
    let faults = written.iter().cloned().chain(new).map(|it| Finding::of(it, Some(document)));
    Judged {
        place: document.place.to_string(),
        calendar: document.job.clone(),
        faults: faults.collect(),
    }
}

/// Judges one definition.
fn judge(
    (body, document): (&str, Option<&Document>),
    job: &JobId,
    calendars: &Calendars,
    now: Timestamp,
) -> Candidate {
    let draft = Draft::decode(body.as_bytes());
    let mut expressions = Vec::new();
    let (mut faults, mut lints) = (Vec::new(), Vec::new());
    let dialect = draft.dialect.unwrap_or_default();
    if let Some(Schedule::Cron(all)) = &draft.schedule {
        for (number, text) in all.as_slice().iter().enumerate() {
            let many = all.as_slice().len() > 1;
            let path = if many { format!("[{number}]") } else { String::new() };
            let path = format!("$.schedule.cron{path}");
            match read_expression(job, dialect, text) {
                Ok((expression, found)) => {
                    lints.extend(found.into_iter().map(|lint| of_lint(&path, text, lint)));
                    expressions.push(expression);
                }
                Err(error) => faults.push(of_error(&path, text, error)),
            }
        }
    }
    if let Some(document) = document {
        for found in faults.iter_mut().chain(&mut lints) {
            found.place = Some(document.place_of(&found.fault.path).to_string());
        }
    }
    let written = document.map(|document| document.faults.clone()).unwrap_or_default();
    let definition = match check(draft, job, calendars) {
        Ok(definition) if faults.is_empty() && written.is_empty() => Ok(definition),
        other => {
            // A value that could not be taken over is not judged a second time.
            let known: Vec<String> = written.iter().map(|fault| fault.path.clone()).collect();
            let more = other.err().unwrap_or_default().into_iter();
            let more = more.filter(|fault| !known.contains(&fault.path));
            let told = !faults.is_empty();
            let more = more.filter(|fault| !(told && fault.path.starts_with("$.schedule.cron")));
            let more: Vec<Fault> = written.into_iter().chain(more).collect();
            faults.extend(more.into_iter().map(|fault| Finding::of(fault, document)));
            Err(faults)
        }
    };
    let past = definition.as_ref().ok().and_then(|it| past(it, job, None, now));
    if let Ok(definition) = &definition {
        let said: Vec<String> = lints.iter().map(|lint| lint.fault.problem.clone()).collect();
        let more = coded_warnings(definition, job, now).into_iter();
        let is_said = |fault: &Fault| said.iter().any(|said| fault.problem.contains(said));
        let more = more.filter(|warning| !is_said(&warning.fault));
        lints.extend(more.map(|warning| Finding {
            code: Some(warning.code),
            ..Finding::of(warning.fault, document)
        }));
    }
    Candidate {
        place: document.map(|document| document.place.to_string()),
        job: job.clone(),
        expressions,
        definition,
        past: past.map(|fault| Finding::of(fault, document)),
        warnings: lints,
    }
}

fn read_expression(
    job: &JobId,
    dialect: Dialect,
    text: &str,
) -> Result<(Expression, Vec<schedule::Lint>), ParseError> {
    let parsed = schedule::parse(text, dialect, Seed::of(job))?;
    let lints = match &parsed.rule {
        Rule::Cron(cron) => schedule::lint(text, dialect, cron),
        Rule::Every(_) => Vec::new(),
    };
    let words = words::rule(&parsed.rule);
    Ok((Expression { text: text.to_owned(), canonical: parsed.text, words }, lints))
}

fn of_error(path: &str, text: &str, error: ParseError) -> Finding {
    let at = Spot {
        expression: text.to_owned(),
        position: error.position,
        length: error.value.trim_end().len(),
    };
    let fault = Fault::new(path, &error.value, error.message, error.hint);
    Finding { place: None, fault, code: None, at: Some(at) }
}

fn of_lint(path: &str, text: &str, lint: schedule::Lint) -> Finding {
    // A lint names where its piece begins; a piece ends at a blank.
    let rest = text.get(lint.position..).unwrap_or_default();
    let length = rest.find([' ', '\t']).unwrap_or(rest.len());
    let at = Spot { expression: text.to_owned(), position: lint.position, length };
    let fault = Fault::new(path, &rest[..length], lint.message, lint.hint);
    Finding { place: None, fault, code: Some(lint.code), at: Some(at) }
}
