//! `list`: the jobs of a namespace, or all of them, read in one pass over the log's last states.

use cronstream_schemas::event::JobState;
use cronstream_schemas::id::Revision;
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::time::Timestamp;
use serde::Serialize;

use crate::args;
use crate::error::Error;
use crate::jobs;
use crate::session::Session;
use crate::words;

/// A job in a list: small, whatever its params are.
#[derive(Debug, Serialize)]
struct Row {
    job: JobId,
    state: &'static str,
    revision: Revision,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

impl Row {
    fn new(state: JobState, now: Timestamp) -> Self {
        let next = jobs::next_slots(&state, now, 1).first().copied();
        let (word, schedule) =
            (words::job_state(&state), state.definition.as_ref().map(words::schedule));
        let JobState { job, revision, definition, .. } = state;
        let (queue, task, title) =
            definition.map(|d| (Some(d.queue), Some(d.task), d.title)).unwrap_or_default();
        Self { job, state: word, revision, schedule, queue, task, next, title }
    }

    fn cells(&self) -> [String; 7] {
        let name = |name: &Option<Name>| name.as_ref().map(ToString::to_string).unwrap_or_default();
        [
            self.job.to_string(),
            self.state.to_owned(),
            self.schedule.clone().unwrap_or_default(),
            name(&self.queue),
            name(&self.task),
            self.next.map(|next| next.to_string()).unwrap_or_default(),
            self.title.clone().unwrap_or_default(),
        ]
    }
}

pub(crate) async fn list(session: &Session, list: &args::List) -> Result<(), Error> {
    let bus = session.bus().await?;
    let now = jobs::now();
    let mut rows = Vec::new();
    jobs::for_each(&bus, list.namespace.as_ref(), |state| {
        if list.deleted || state.definition.is_some() {
            rows.push(Row::new(state, now));
        }
    })
    .await?;
    rows.sort_unstable_by(|a, b| a.job.cmp(&b.job));
    let header = ["JOB", "STATE", "SCHEDULE", "QUEUE", "TASK", "NEXT", "TITLE"];
    session.out.rows(header, &rows, Row::cells)?;
    Ok(())
}
