//! `list`: the jobs of a namespace, or all of them, read in one pass over the log's last states.

use std::sync::Arc;

use cronstream_core::calendar::Calendars;
use cronstream_schemas::definition::Schedule;
use cronstream_schemas::event::JobState;
use cronstream_schemas::id::Revision;
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::time::Timestamp;
use serde::Serialize;

use crate::args;
use crate::error::Error;
use crate::session::Session;
use crate::{calendars, jobs, words};

/// A job in a list: small, whatever its params are.
#[derive(Debug, Serialize)]
struct Row {
    job: JobId,
    state: &'static str,
    revision: Revision,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<Arc<Schedule>>,
    /// The zone that it is read in.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_zone: Option<String>,
    /// Both in words.
    #[serde(skip)]
    when: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<Arc<String>>,
}

impl Row {
    fn new(state: JobState, known: &Calendars, now: Timestamp) -> Self {
        let next = jobs::next_slots(&state, known, now, 1).first().copied();
        let word = words::job_state(&state);
        let JobState { job, revision, definition, .. } = state;
        let when = definition.as_ref().map(words::schedule).unwrap_or_default();
        let mut row = Self {
            job,
            state: word,
            revision,
            schedule: None,
            time_zone: None,
            when,
            queue: None,
            task: None,
            next,
            title: None,
        };
        if let Some(definition) = definition {
            row.time_zone = Some(definition.time_zone.clone());
            row.queue = Some(definition.queue.clone());
            row.task = Some(definition.task.clone());
            row.schedule = Some(definition.schedule);
            row.title = definition.title;
        }
        row
    }

    fn cells(&self) -> [String; 7] {
        let name = |name: &Option<Name>| name.as_ref().map(ToString::to_string).unwrap_or_default();
        [
            self.job.to_string(),
            self.state.to_owned(),
            self.when.clone(),
            name(&self.queue),
            name(&self.task),
            self.next.map(|next| next.to_string()).unwrap_or_default(),
            self.title.as_deref().cloned().unwrap_or_default(),
        ]
    }
}

pub(crate) async fn list(session: &Session, list: &args::List) -> Result<(), Error> {
    let bus = session.bus().await?;
    let known = calendars::all(&bus).await?;
    let now = jobs::now();
    let mut rows = Vec::new();
    jobs::for_each(&bus, list.namespace.as_ref(), |state| {
        if list.deleted || state.definition.is_some() {
            rows.push(Row::new(state, &known, now));
        }
    })
    .await?;
    rows.sort_unstable_by(|a, b| a.job.cmp(&b.job));
    let header = ["JOB", "STATE", "SCHEDULE", "QUEUE", "TASK", "NEXT", "TITLE"];
    session.out.rows(header, &rows, Row::cells)?;
    Ok(())
}
