//! `rollback`: define a revision's definition again.
//!
//! Invariant: what is published is the definition that stood in the log, params bit for bit, on the condition that the
//! revision it was compared with is still in force.

use cronstream_schemas::command::Verb;
use cronstream_schemas::id::Revision;
use cronstream_schemas::verdict::Outcome;

use crate::args;
use crate::error::Error;
use crate::output::confirm;
use crate::revisions::{self, Change};
use crate::send::{Order, granted};
use crate::session::Session;
use crate::{announce, jobs};

pub(crate) async fn rollback(session: &Session, wanted: &args::Rollback) -> Result<(), Error> {
    let job = &wanted.job;
    let bus = session.bus().await?;
    let found = jobs::find(&bus, job).await?.ok_or_else(|| Error::NoJob(job.clone()))?;
    let to = Revision(wanted.to);
    let states = revisions::read(&bus, job).await?;
    let state = states.iter().rfind(|state| state.revision == to);
    let wanted_definition = state.and_then(|state| state.definition.as_ref());
    let Some(definition) = wanted_definition else {
        return Err(Error::NoRevision { job: job.clone(), revision: to });
    };
    let what = format!("roll {job} back to revision {}", to.0);
    match &found.definition {
        Some(current) => {
            let changes = revisions::diff(current, definition)?;
            if changes.is_empty() {
                session.out.talk(&format!("{job} says the same as revision {} already", to.0));
                return Ok(());
            }
            let told: Vec<String> = changes.iter().map(Change::describe).collect();
            session.out.talk(&format!(
                "revision {} of {job} becomes\n{}",
                found.revision.0,
                told.join("\n")
            ));
            confirm(&what, wanted.yes)?;
        }
        None => confirm(&format!("{job} is deleted: {what}, in a new life of it"), wanted.yes)?,
    }
    let body = serde_json::to_string(definition).map_err(std::io::Error::other)?;
    // A deleted job's revision is not in force: the new life begins from none.
    let expected = if found.definition.is_some() { found.revision } else { Revision::default() };
    let order =
        Order { verb: Verb::Define, job: job.clone(), body: body.into(), expected: Some(expected) };
    let verdict = order.send(&bus, session.timeout).await?;
    granted(&verdict, &what)?;
    session.out.object(&verdict, || {
        let (revision, next, warnings) = match &verdict.outcome {
            Outcome::Accepted { revision, next, warnings } => {
                (revision.0, next.as_slice(), warnings.as_slice())
            }
            Outcome::Fired { .. }
            | Outcome::Skipped { .. }
            | Outcome::Cancelled { .. }
            | Outcome::Overridden { .. }
            | Outcome::Backfilling { .. }
            | Outcome::CalendarAccepted { .. }
            | Outcome::Rejected { .. } => (0, &[][..], &[][..]),
        };
        let echo = announce::echo(job, definition, next);
        let warnings = announce::warnings(warnings);
        format!("{job} is at revision {revision}, as it was at {}\n{echo}{warnings}", to.0)
    })?;
    Ok(())
}
