//! `get`: a job as it is in force.

use cronstream_schemas::definition::JobDefinition;
use cronstream_schemas::event::JobState;
use cronstream_schemas::id::{Incarnation, Revision};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use serde::Serialize;

use crate::args;
use crate::error::Error;
use crate::jobs;
use crate::output::fields;
use crate::session::Session;
use crate::words;

/// Slots that are shown.
const NEXT_SHOWN: usize = 3;

#[derive(Debug, Serialize)]
struct Shown<'a> {
    job: &'a JobId,
    state: &'static str,
    revision: Revision,
    incarnation: Incarnation,
    changed_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<Timestamp>,
    next: &'a [Timestamp],
    definition: &'a Option<JobDefinition>,
}

pub(crate) async fn get(session: &Session, wanted: &args::Get) -> Result<(), Error> {
    let bus = session.bus().await?;
    let state = jobs::require(&bus, &wanted.job).await?;
    if wanted.definition {
        return Ok(session.out.text(&document(&state)?)?);
    }
    let next = jobs::next_slots(&state, jobs::now(), NEXT_SHOWN);
    let shown = Shown {
        job: &state.job,
        state: words::job_state(&state),
        revision: state.revision,
        incarnation: state.incarnation,
        changed_at: state.at,
        paused: state.paused,
        next: &next,
        definition: &state.definition,
    };
    session.out.object(&shown, || describe(&state, &next))?;
    Ok(())
}

/// The job as `apply` reads it. Params are in it bit for bit.
fn document(state: &JobState) -> Result<String, Error> {
    let json = |value| serde_json::to_string(value).map_err(std::io::Error::other);
    let definition = serde_json::to_string(&state.definition).map_err(std::io::Error::other)?;
    let fields = definition.strip_prefix('{').unwrap_or_default();
    Ok(format!("{{\"job\":{},{fields}", json(&state.job.to_string())?))
}

fn describe(state: &JobState, next: &[Timestamp]) -> String {
    let mut lines = vec![("job", state.job.to_string())];
    let standing = match state.paused {
        Some(since) => format!("paused since {since}"),
        None => words::job_state(state).to_owned(),
    };
    lines.push(("state", standing));
    lines.push(("revision", format!("{}, since {}", state.revision.0, state.at)));
    if let Some(definition) = &state.definition {
        let labels: Vec<_> =
            definition.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        lines.extend([
            ("title", definition.title.clone().unwrap_or_default()),
            ("labels", labels.join(" ")),
            ("schedule", words::schedule(definition)),
            ("task", format!("{} on queue {}", definition.task, definition.queue)),
            ("params", definition.params.as_str().to_owned()),
            ("timeout", definition.timeout.to_string()),
            ("start within", definition.start_within.to_string()),
            ("max attempts", definition.max_attempts.to_string()),
            ("overlap", words::overlap(definition.overlap).to_owned()),
            ("retention", definition.retention.to_string()),
        ]);
    }
    let next: Vec<_> = next.iter().map(ToString::to_string).collect();
    lines.push(("next", next.join(", ")));
    lines.retain(|(_, value)| !value.is_empty());
    fields(&lines)
}

#[cfg(test)]
mod tests {
    use cronstream_schemas::definition::Draft;

    use super::*;

    #[test]
    fn the_document_has_every_field_of_the_definition_and_its_params_bit_for_bit() {
        let body = r#"{"task":"t","schedule":{"every":"90s"},"params":{"n":12345678901234567890, "f":1.10}}"#;
        let definition = Draft::decode(body.as_bytes()).finish().unwrap();
        let at = Timestamp::MIN;
        let state = JobState {
            job: "a/b".parse().unwrap(),
            revision: Revision(1),
            incarnation: Incarnation(1),
            definition: Some(definition.clone()),
            anchor: at,
            effective_after: at,
            paused: None,
            command: 1,
            at,
        };
        let text = document(&state).unwrap();
        let rest = text.strip_prefix(r#"{"job":"a/b","#).unwrap();
        let again = Draft::decode(format!("{{{rest}").as_bytes()).finish().unwrap();
        assert_eq!(again, definition);
    }
}
