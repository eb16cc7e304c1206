//! `history`: the revisions of a job, who defined each and when, and what it changed.
//!
//! Invariant: revisions are read by the job's own subject, `cron.history.<namespace>.<job>`; a reading holds at most
//! [`READ_MAX`] of them, the newest.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use cronstream_bus::{Bus, Error as BusError};
use cronstream_schemas::definition::JobDefinition;
use cronstream_schemas::event::{Decoded, Event as _, JobState, LogEvent};
use cronstream_schemas::header;
use cronstream_schemas::id::{Incarnation, Revision};
use cronstream_schemas::json::{Fields, Json};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Serialize;

use crate::args;
use crate::error::Error;
use crate::output::{printable, printable_json};
use crate::session::Session;
use crate::{follow, jobs};

/// The most revisions that are held, the newest.
pub(crate) const READ_MAX: usize = 10_000;
/// Commands whose senders are looked up at the same time.
const READS_IN_FLIGHT: usize = 16;

/// A revision as it is printed.
#[derive(Debug, Serialize)]
struct Row {
    job: JobId,
    revision: Revision,
    incarnation: Incarnation,
    at: Timestamp,
    /// Who sent it, as its sender says; absent once the command is no longer kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    /// Whether it is in force.
    in_force: bool,
    /// What it changed of the revision before; absent for the first of a life.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<Change>>,
}

/// A field that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    /// The field.
    pub(crate) field: String,
    /// Its value before; absent where it had its default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<Json>,
    /// Its value now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) now: Option<Json>,
}

pub(crate) async fn history(session: &Session, wanted: &args::History) -> Result<(), Error> {
    let bus = session.bus().await?;
    let job = &wanted.job;
    let current = jobs::find(&bus, job).await?;
    let states = read(&bus, job).await?;
    if states.is_empty() {
        return Err(Error::NoJob(job.clone()));
    }
    let number = usize::try_from(wanted.number).unwrap_or(usize::MAX);
    let first = states.len().saturating_sub(number);
    let authors = authors(&bus, &states[first..]).await?;
    let mut rows = Vec::new();
    for (at, author) in (first..states.len()).zip(authors) {
        let state = &states[at];
        let before = at.checked_sub(1).map(|before| &states[before]);
        rows.push(Row {
            job: job.clone(),
            revision: state.revision,
            incarnation: state.incarnation,
            at: state.at,
            author,
            in_force: current.as_ref().is_some_and(|current| {
                current.definition.is_some() && current.revision == state.revision
            }),
            changes: changes(before, state)?,
        });
    }
    rows.reverse();
    if session.json || !wanted.diff {
        let header = ["REVISION", "SINCE", "BY", "", "CHANGED"];
        session.out.rows(header, &rows, Row::cells)?;
    } else {
        let told: Vec<String> = rows.iter().map(Row::describe).collect();
        session.out.text(&told.join("\n"))?;
    }
    let deleted = current.filter(|current| current.definition.is_none());
    if let Some(tombstone) = deleted {
        session.out.talk(&format!("{job} is deleted since {}", tombstone.at));
    }
    Ok(())
}

/// The revisions of a job that are kept, oldest first; what a later version wrote is passed over.
///
/// # Errors
/// When the log cannot be read.
pub(crate) async fn read(bus: &Bus, job: &JobId) -> Result<Vec<JobState>, Error> {
    let subject = bus.names().prefix().history(job);
    let mut states = VecDeque::new();
    follow::from_oldest(bus, &bus.names().log, &subject, |message| {
        match LogEvent::decode(&message.payload) {
            Ok(Decoded::Known(LogEvent::JobRevised(state))) => states.push_back(state),
            Ok(_) | Err(_) => tracing::warn!(message.seq, "not a revision that this version knows"),
        }
        if states.len() > READ_MAX {
            states.pop_front();
        }
        ControlFlow::Continue(())
    })
    .await?;
    Ok(states.into())
}

/// What a revision changed of the one before; nothing to compare with at the begin of a life.
fn changes(before: Option<&JobState>, state: &JobState) -> Result<Option<Vec<Change>>, Error> {
    let before = before.filter(|before| before.incarnation == state.incarnation);
    match (before.and_then(|before| before.definition.as_ref()), &state.definition) {
        (Some(before), Some(now)) => Ok(Some(diff(before, now)?)),
        (None, _) | (_, None) => Ok(None),
    }
}

/// The fields in which two definitions differ, by name; params and other values as they are written.
///
/// # Errors
/// When one cannot be written as JSON.
pub(crate) fn diff(before: &JobDefinition, now: &JobDefinition) -> Result<Vec<Change>, Error> {
    let (before, now) = (written(before)?, written(now)?);
    let fields: std::collections::BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let differ = fields.into_iter().filter(|field| before.get(*field) != now.get(*field));
    Ok(differ
        .map(|field| Change {
            field: field.clone(),
            before: before.get(field).cloned(),
            now: now.get(field).cloned(),
        })
        .collect())
}

fn written(definition: &JobDefinition) -> Result<BTreeMap<String, Json>, Error> {
    let text = serde_json::to_string(definition).map_err(std::io::Error::other)?;
    let fields: Fields<'_> = serde_json::from_str(&text).map_err(std::io::Error::other)?;
    Ok(fields.0.into_iter().map(|(name, value)| (name, Json::from(value))).collect())
}

/// Who sent the commands behind revisions, where they are still kept and this user may read them.
async fn authors(bus: &Bus, states: &[JobState]) -> Result<Vec<Option<String>>, Error> {
    let reads = stream::iter(states).map(|state| async move {
        match bus.by_seq(&bus.names().commands, state.command).await {
            Ok(message) => {
                Ok(message.and_then(|message| message.header(header::AUTHOR).map(str::to_owned)))
            }
            Err(BusError::Denied { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    });
    reads.buffered(READS_IN_FLIGHT).try_collect().await
}

impl Row {
    fn cells(&self) -> [String; 5] {
        let changed = match &self.changes {
            None => "(defined)".to_owned(),
            Some(changes) => {
                let fields: Vec<&str> = changes.iter().map(|change| &*change.field).collect();
                fields.join(", ")
            }
        };
        let in_force = if self.in_force { "in force" } else { "" };
        [
            self.revision.0.to_string(),
            self.at.to_string(),
            self.author.clone().unwrap_or_default(),
            in_force.to_owned(),
            changed,
        ]
    }

    fn describe(&self) -> String {
        let by = self.author.as_ref().map(|author| format!(" by {author}")).unwrap_or_default();
        let in_force = if self.in_force { ", in force" } else { "" };
        let (revision, at) = (self.revision.0, self.at);
        let head = format!("revision {revision}, since {at}{}{in_force}", printable(&by));
        let Some(changes) = &self.changes else {
            return format!("{head}\n  (defined)");
        };
        let lines = changes.iter().map(Change::describe);
        std::iter::once(head).chain(lines).collect::<Vec<_>>().join("\n")
    }
}

impl Change {
    /// The change in two lines: what was, and what is.
    pub(crate) fn describe(&self) -> String {
        let line = |sign: char, value: &Option<Json>| {
            let value = value.as_ref()?;
            Some(format!("  {sign} {}: {}", printable(&self.field), printable_json(value.as_str())))
        };
        let lines = [line('-', &self.before), line('+', &self.now)];
        lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use cronstream_schemas::definition::Draft;

    use super::*;

    fn definition(more: &str) -> JobDefinition {
        let body = format!(r#"{{"task":"t","schedule":{{"every":"90s"}}{more}}}"#);
        Draft::decode(body.as_bytes()).finish().unwrap()
    }

    #[test]
    fn a_diff_names_what_changed_and_keeps_params_bit_for_bit() {
        let before = definition(r#","params":{"n":1.10},"title":"a""#);
        let now = definition(r#","params":{"n":1.1},"jitter":"5m""#);
        let told: Vec<String> = diff(&before, &now).unwrap().iter().map(Change::describe).collect();
        assert_eq!(
            told,
            [
                "  + jitter: \"5m\"",
                "  - params: {\"n\":1.10}\n  + params: {\"n\":1.1}",
                "  - title: \"a\""
            ]
        );
        assert_eq!(diff(&now, &now).unwrap(), []);
    }
}
