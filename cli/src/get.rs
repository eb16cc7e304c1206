//! `get`: a job as it is in force.

use cronstream_bus::Bus;
use cronstream_schemas::definition::{JobDefinition, MisfirePolicy, Schedule, Shift};
use cronstream_schemas::event::{JobState, Override};
use cronstream_schemas::id::{Incarnation, Revision};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use serde::Serialize;

use crate::args;
use crate::error::Error;
use crate::jobs;
use crate::output::fields;
use crate::session::Session;
use crate::{calendars, instants, revisions, words};

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
    /// When it is due next; a shifted slot at its new instant.
    next: &'a [Timestamp],
    #[serde(skip_serializing_if = "<[Override]>::is_empty")]
    overrides: &'a [Override],
    #[serde(skip_serializing_if = "Option::is_none")]
    tzdb: Option<&'a String>,
    definition: &'a Option<JobDefinition>,
}

pub(crate) async fn get(session: &Session, wanted: &args::Get) -> Result<(), Error> {
    let bus = session.bus().await?;
    let job = &wanted.job;
    let current = jobs::find(&bus, job).await?.ok_or_else(|| Error::NoJob(job.clone()))?;
    let at = instants::if_named(wanted.at, jobs::zone(&current), "--at")?;
    let state = match at {
        Some(at) => in_force_at(session, &bus, &current, at).await?,
        None if current.definition.is_none() => return Err(Error::NoJob(job.clone())),
        None => current,
    };
    if wanted.definition {
        return Ok(session.out.text(&document(&state)?)?);
    }
    let known = calendars::of(&bus, state.definition.as_ref()).await?;
    let from = at.unwrap_or_else(jobs::now);
    let next = jobs::next_slots(&state, &known, from, NEXT_SHOWN);
    let shown = Shown {
        job: &state.job,
        state: words::job_state(&state),
        revision: state.revision,
        incarnation: state.incarnation,
        changed_at: state.at,
        paused: state.paused,
        next: &next,
        overrides: &state.overrides,
        tzdb: state.tzdb.as_deref(),
        definition: &state.definition,
    };
    session.out.object(&shown, || describe(&state, &next))?;
    Ok(())
}

/// The revision that was in force at an instant, as the log recorded it; of pauses it tells nothing.
async fn in_force_at(
    session: &Session,
    bus: &Bus,
    current: &JobState,
    at: Timestamp,
) -> Result<JobState, Error> {
    let job = &current.job;
    let states = revisions::read(bus, job).await?;
    let later = states.iter().position(|state| state.at > at).unwrap_or(states.len());
    let found = later.checked_sub(1).map(|found| &states[found]);
    let none =
        || Error::NoRevisionAt { job: job.clone(), at, oldest: states.first().map(|it| it.at) };
    let found = found.ok_or_else(none)?;
    let ended = current.definition.is_none() && current.incarnation == found.incarnation;
    if ended && current.at <= at {
        return Err(none());
    }
    let replaced = states.get(later).filter(|next| next.incarnation != found.incarnation);
    if let Some(next) = replaced {
        session.out.talk(&format!(
            "{job} was deleted some time before {}: this revision may have ended before {at}",
            next.at
        ));
    }
    session.out.talk(&format!("revision {} was in force at {at}", found.revision.0));
    Ok(found.clone())
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
    lines.push(("revision", format!("{}, last changed {}", state.revision.0, state.at)));
    if let Some(definition) = &state.definition {
        let labels: Vec<_> =
            definition.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        lines.extend([
            ("title", definition.title.as_deref().cloned().unwrap_or_default()),
            ("labels", labels.join(" ")),
            ("schedule", words::schedule(definition)),
            ("in words", in_words(&state.job, definition)),
        ]);
        lines.extend(limits(definition));
        lines.extend([
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
    let to_come = state.overrides.iter().filter(|asked| !asked.is_done());
    let asked = to_come.map(|asked| match asked.to {
        None => format!("{} is skipped", asked.slot),
        Some(to) => format!("{} is shifted to {to}", asked.slot),
    });
    lines.push(("asked", asked.collect::<Vec<_>>().join(", ")));
    lines.push(("zone data", state.tzdb.as_deref().cloned().unwrap_or_default()));
    lines.retain(|(_, value)| !value.is_empty());
    fields(&lines)
}

/// What filters, moves and delays the slots, and what becomes of missed ones, where it is not the default.
fn limits(definition: &JobDefinition) -> Vec<(&'static str, String)> {
    let list = |word: &str, names: &[JobId]| {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        (!names.is_empty()).then(|| format!("{word} {}", names.join(", ")))
    };
    let calendars = definition.calendars.as_ref().map(|used| {
        let shift = used.shift.map(|shift| match shift {
            Shift::Next => "moved to the next day they leave".to_owned(),
            Shift::Previous => "moved to the last day before that they leave".to_owned(),
        });
        let parts = [list("only", &used.only), list("except", &used.except), shift];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    });
    let windows: Vec<_> = definition.windows.iter().map(ToString::to_string).collect();
    let misfire = &definition.misfire;
    let policy = match misfire.policy {
        MisfirePolicy::FireOnce => "fire_once".to_owned(),
        MisfirePolicy::FireAll => format!("fire_all, at most {}", misfire.limit),
        MisfirePolicy::Skip => "skip".to_owned(),
    };
    let window = misfire.window.map(|window| format!(", window {window}")).unwrap_or_default();
    let misfired = format!("{policy}, threshold {}{window}", misfire.threshold);
    let text = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
    vec![
        ("gap", words::gap(definition.gap).to_owned()),
        ("fold", words::fold(definition.fold).to_owned()),
        ("calendars", calendars.unwrap_or_default()),
        ("start", text(definition.start)),
        ("end", text(definition.end)),
        ("windows", windows.join(", ")),
        (
            "jitter",
            if definition.jitter.as_millis() == 0 {
                String::new()
            } else {
                format!("below {}", definition.jitter)
            },
        ),
        ("misfire", if misfire.is_default() { String::new() } else { misfired }),
    ]
}

/// A cron expression in words; what else there is reads in words already.
fn in_words(job: &JobId, definition: &JobDefinition) -> String {
    match &*definition.schedule {
        Schedule::Cron(_) => words::spoken(job, definition),
        Schedule::Every(_) | Schedule::FixedDelay(_) | Schedule::At(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use cronstream_schemas::definition::Draft;
    use cronstream_schemas::event::Overrides;

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
            overrides: Overrides::default(),
            tzdb: None,
            command: 1,
            at,
        };
        let text = document(&state).unwrap();
        let rest = text.strip_prefix(r#"{"job":"a/b","#).unwrap();
        let again = Draft::decode(format!("{{{rest}").as_bytes()).finish().unwrap();
        assert_eq!(again, definition);
    }
}
