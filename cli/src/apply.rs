//! `apply`: bring jobs and calendars to what files say, the calendars first.
//!
//! Invariant: a job whose definition already says the same is left alone; a definition is published on the
//! condition that the revision it was compared with is still in force.

use std::time::Duration;

use cronstream_bus::{Bus, NodeStatus};
use cronstream_core::calendar::Calendars;
use cronstream_core::definition::{check, unknown_calendars, warnings};
use cronstream_core::plan::Plan;
use cronstream_schemas::command::Verb;
use cronstream_schemas::definition::{Draft, JobDefinition};
use cronstream_schemas::event::JobState;
use cronstream_schemas::fault::Fault;
use cronstream_schemas::id::Revision;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use cronstream_schemas::verdict::Outcome;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Serialize;

use crate::ailments::Wanted;
use crate::args;
use crate::cluster::Nodes;
use crate::documents::{self, Document, Kind};
use crate::error::Error;
use crate::output::{count, printable};
use crate::send::Order;
use crate::session::Session;
use crate::{announce, calendar, calendars, jobs, words};

/// Jobs that are compared and sent at the same time.
const IN_FLIGHT: usize = 16;
/// Slots that are told of a definition, as many as a verdict tells.
const NEXT_SHOWN: usize = 3;

/// How long executors may take to say what they know.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// What became of one job.
#[derive(Debug, Serialize)]
struct Applied {
    job: JobId,
    place: String,
    outcome: Change,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<Revision>,
    /// When it is due, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    next: Vec<Timestamp>,
    /// What the definition does that its writer may not expect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Located>,
    /// What it says now.
    #[serde(skip)]
    definition: Option<JobDefinition>,
    /// The words and the slots for people.
    #[serde(skip)]
    echo: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faults: Vec<Located>,
}

/// What an apply does to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    Created,
    Changed,
    Unchanged,
    Rejected,
}

/// A fault with the place in the file that it is about.
#[derive(Debug, Serialize)]
pub(crate) struct Located {
    place: String,
    #[serde(flatten)]
    fault: Fault,
}

impl Located {
    pub(crate) fn of(document: &Document, fault: Fault) -> Self {
        Self { place: document.place_of(&fault.path).to_string(), fault }
    }

    /// The place and the fault, in a line.
    pub(crate) fn line(&self) -> String {
        format!("{}: {}", self.place, self.fault)
    }
}

pub(crate) async fn apply(session: &Session, apply: &args::Apply) -> Result<(), Error> {
    let documents = documents::read(&apply.files)?;
    if documents.is_empty() {
        return Err(Error::Usage("no definition stands in these files".into()));
    }
    let bus = &session.bus().await?;
    let total = documents.len();
    let (calendars, documents): (Vec<_>, Vec<_>) =
        documents.into_iter().partition(|document| document.kind == Kind::Calendar);
    // A dry run looks at jobs as if the calendars beside them were accepted.
    let beside = calendar::of_documents(&calendars);
    let mut rejected = calendar::apply_all(session, bus, calendars, apply.dry_run).await?;
    let mut results = stream::iter(documents)
        .map(|document| one(session, bus, document, apply.dry_run.then_some(&beside)))
        .buffered(IN_FLIGHT);
    let mut wanted = Wanted::default();
    while let Some(applied) = results.try_next().await? {
        if let Some(definition) = &applied.definition {
            wanted.want(&applied.job, definition);
        }
        rejected += usize::from(applied.outcome == Change::Rejected);
        session.out.object(&applied, || applied.describe(apply.dry_run))?;
    }
    note_unknown(session, bus, &wanted).await;
    match rejected {
        0 => Ok(()),
        _ => Err(Error::Rejected(format!(
            "{rejected} of {} rejected",
            count(total as u64, "definition")
        ))),
    }
}

/// Says of which jobs no executor knows the task: their fires wait. Who may not ask is not told.
async fn note_unknown(session: &Session, bus: &Bus, wanted: &Wanted) {
    let mut missing = wanted.tasks();
    if missing.is_empty() {
        return;
    }
    let enough = |answer: &NodeStatus| {
        for (_, executor) in Nodes::read(vec![answer.clone()]).executors {
            missing
                .retain(|(queue, task)| *queue != executor.queue || !executor.tasks.contains(task));
        }
        missing.is_empty()
    };
    if let Ok(answers) = bus.discover_until(ANSWERS_WITHIN, enough).await {
        for check in wanted.faults(&Nodes::read(answers)) {
            session.out.talk(&check.note());
        }
    }
}

/// Checks and compares one document, and publishes it; a dry run, which has the calendars beside it, does not.
async fn one(
    session: &Session,
    bus: &Bus,
    document: Document,
    dry_run: Option<&Calendars>,
) -> Result<Applied, Error> {
    let definition = match checked(&document) {
        Ok(definition) => definition,
        Err(faults) => return Ok(Applied::rejected(&document, faults)),
    };
    let found = jobs::find(bus, &document.job).await?.filter(|state| state.definition.is_some());
    let outcome = match &found {
        None => Change::Created,
        Some(state) if says_the_same(state, &definition) => Change::Unchanged,
        Some(_) => Change::Changed,
    };
    let revision = found.as_ref().map(|state| state.revision);
    let mut applied = Applied::new(&document, outcome, revision);
    applied.definition = Some(definition.clone());
    if outcome == Change::Unchanged {
        return Ok(applied);
    }
    applied.words = Some(words::spoken(&document.job, &definition));
    if let Some(beside) = dry_run {
        // An interval that stays counts on from where it did.
        let stays = |state: &JobState| {
            let current = state.definition.as_ref().map(|current| &current.schedule);
            current == Some(&definition.schedule)
        };
        let anchor = found.filter(stays).map_or_else(jobs::now, |state| state.anchor);
        let mut known = calendars::of(bus, Some(&definition)).await?;
        for calendar in beside.iter() {
            known.apply(calendar);
        }
        applied.foresee(&document, &definition, anchor, &known);
        return Ok(applied);
    }
    let order = Order {
        verb: Verb::Define,
        job: document.job.clone(),
        body: document.body.clone().into_bytes(),
        expected: Some(revision.unwrap_or_default()),
    };
    match order.send(bus, session.timeout).await?.outcome {
        Outcome::Accepted { revision, next, warnings } => {
            applied.revision = Some(revision);
            applied.told(&document, &definition, next, warnings);
            Ok(applied)
        }
        Outcome::Rejected { faults, .. } => Ok(Applied::rejected(&document, faults)),
        other @ (Outcome::Fired { .. }
        | Outcome::Skipped { .. }
        | Outcome::Cancelled { .. }
        | Outcome::Overridden { .. }
        | Outcome::Backfilling { .. }
        | Outcome::CalendarAccepted { .. }) => {
            let what = format!("the verdict on define {}", document.job);
            Err(Error::Unreadable { what, problem: format!("{other:?} answers no define") })
        }
    }
}

/// The definition that a document stands for.
fn checked(document: &Document) -> Result<JobDefinition, Vec<Fault>> {
    let definition =
        check(Draft::decode(document.body.as_bytes()), &document.job, &Calendars::default());
    if document.faults.is_empty() {
        return definition;
    }
    let mut faults = document.faults.clone();
    // A value that could not be taken over is not judged a second time.
    let new = |fault: &Fault| !document.faults.iter().any(|known| known.path == fault.path);
    faults.extend(definition.err().unwrap_or_default().into_iter().filter(new));
    Err(faults)
}

/// Whether the definition in force differs from another one in nothing but blanks in its params.
fn says_the_same(state: &JobState, wanted: &JobDefinition) -> bool {
    state.definition.as_ref().is_some_and(|current| {
        let params_same =
            without_blanks(current.params.as_str()) == without_blanks(wanted.params.as_str());
        let mut current = current.clone();
        current.params = wanted.params.clone();
        params_same && current == *wanted
    })
}

/// JSON without the blanks outside of its texts.
fn without_blanks(json: &str) -> String {
    let (mut text, mut escaped) = (false, false);
    json.chars()
        .filter(|c| {
            match (text, escaped, c) {
                (true, true, _) => escaped = false,
                (true, false, '\\') => escaped = true,
                (_, false, '"') => text = !text,
                _ => {}
            }
            text || !matches!(c, ' ' | '\t' | '\n' | '\r')
        })
        .collect()
}

impl Applied {
    fn new(document: &Document, outcome: Change, revision: Option<Revision>) -> Self {
        Self {
            job: document.job.clone(),
            place: document.place.to_string(),
            outcome,
            revision,
            words: None,
            next: Vec::new(),
            warnings: Vec::new(),
            definition: None,
            echo: String::new(),
            faults: Vec::new(),
        }
    }

    /// Takes over what a verdict tells of an accepted definition.
    fn told(
        &mut self,
        document: &Document,
        definition: &JobDefinition,
        next: Vec<Timestamp>,
        warnings: Vec<Fault>,
    ) {
        self.echo = format!("\n{}", announce::echo(&document.job, definition, &next));
        self.next = next;
        self.warnings = warnings.into_iter().map(|fault| Located::of(document, fault)).collect();
    }

    /// Computes what a verdict would tell.
    fn foresee(
        &mut self,
        document: &Document,
        definition: &JobDefinition,
        anchor: Timestamp,
        known: &Calendars,
    ) {
        let now = jobs::now();
        let Ok(plan) = Plan::compile(definition, &document.job, anchor, known) else { return };
        let slots = std::iter::successors(plan.next(now), |slot| plan.next(*slot));
        let next = slots.take(NEXT_SHOWN).collect();
        self.told(document, definition, next, warnings(definition, &document.job, now));
        let unknown = unknown_calendars(definition, known);
        self.warnings.extend(unknown.into_iter().map(|fault| Located::of(document, fault)));
    }

    fn rejected(document: &Document, faults: Vec<Fault>) -> Self {
        let faults = faults.into_iter().map(|fault| Located::of(document, fault)).collect();
        Self { faults, ..Self::new(document, Change::Rejected, None) }
    }

    fn describe(&self, dry_run: bool) -> String {
        let job = &self.job;
        let would = if dry_run { " (dry run)" } else { "" };
        let revision = self.revision.map(|revision| revision.0);
        let head = match (self.outcome, revision) {
            (Change::Rejected, _) => format!("rejected  {job}{would}"),
            (Change::Unchanged, revision) => {
                format!("unchanged {job}{would}, revision {}", revision.unwrap_or_default())
            }
            (Change::Created, None) => format!("created   {job}{would}"),
            (Change::Created, Some(revision)) => format!("created   {job}, revision {revision}"),
            (Change::Changed, revision) if dry_run => {
                format!("changed   {job}{would}, now revision {}", revision.unwrap_or_default())
            }
            (Change::Changed, revision) => {
                format!("changed   {job}, revision {}", revision.unwrap_or_default())
            }
        };
        let line = |what: &str, at: &Located| format!("\n  {what}{}", printable(&at.line()));
        let faults: String = self.faults.iter().map(|at| line("", at)).collect();
        let warnings: String = self.warnings.iter().map(|at| line("warning: ", at)).collect();
        format!("{head}{}{faults}{warnings}", self.echo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_in_texts_count_and_others_do_not() {
        assert_eq!(without_blanks("{ \"a b\" :\n[1, \"x\\\" y\"] }"), r#"{"a b":[1,"x\" y"]}"#);
        assert_eq!(without_blanks(r#""a\\" "#), r#""a\\""#);
        assert_ne!(without_blanks(r#"{"n":1.10}"#), without_blanks(r#"{"n":1.1}"#));
    }
}
