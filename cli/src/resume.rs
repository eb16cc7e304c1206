//! `resume`: end a pause, and say what becomes of the slots that fell into it.

use cronstream_core::misfire;
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::JobState;
use cronstream_schemas::time::Timestamp;
use cronstream_schemas::verdict::Outcome;

use crate::args;
use crate::error::Error;
use crate::jobs;
use crate::send::{Order, granted};
use crate::session::Session;

pub(crate) async fn resume(session: &Session, wanted: &args::OneJob) -> Result<(), Error> {
    let job = &wanted.job;
    let bus = session.bus().await?;
    if let Some(before) = jobs::if_readable(&bus, job).await? {
        session.out.talk(&announce(&before, jobs::now()));
    }
    let verdict = Order::plain(Verb::Resume, job).send(&bus, session.timeout).await?;
    granted(&verdict, &format!("resume {job}"))?;
    session.out.object(&verdict, || {
        let next = match &verdict.outcome {
            Outcome::Accepted { next, .. } => next.first().map(|next| format!(", next {next}")),
            Outcome::Fired { .. }
            | Outcome::Skipped { .. }
            | Outcome::Cancelled { .. }
            | Outcome::Rejected { .. } => None,
        };
        format!("resumed {job}{}", next.unwrap_or_default())
    })?;
    Ok(())
}

/// What the misfire policy makes of a pause that ends now.
fn announce(state: &JobState, now: Timestamp) -> String {
    let job = &state.job;
    let (Some(since), Some(plan)) = (state.paused, jobs::plan(state)) else {
        return format!("{job} is not paused");
    };
    let after = since.max(state.effective_after);
    let owed = misfire::owed(&plan, after, now, now);
    let skipped = owed.skipped.map_or(0, |range| range.count);
    let due = owed.due.len();
    match (skipped, owed.due.as_slice()) {
        (0, []) => format!("{job}: no slot fell into the pause (since {since})"),
        (skipped, []) => format!(
            "{job}: {skipped} slots fell into the pause (since {since}) and are skipped by the misfire policy"
        ),
        (skipped, [.., latest]) => format!(
            "{job}: {} slots fell into the pause (since {since}); by the misfire policy {due} fire at once \
             (the latest is {latest}) and {skipped} are skipped",
            skipped + due as u64
        ),
    }
}

#[cfg(test)]
mod tests {
    use cronstream_core::definition::check;
    use cronstream_schemas::definition::Draft;
    use cronstream_schemas::id::{Incarnation, Revision};

    use super::*;

    fn paused(schedule: &str, since: &str) -> JobState {
        let body = format!(r#"{{"task":"t","schedule":{schedule}}}"#);
        let since: Timestamp = since.parse().unwrap();
        JobState {
            job: "a/b".parse().unwrap(),
            revision: Revision(1),
            incarnation: Incarnation(1),
            definition: Some(check(Draft::decode(body.as_bytes())).unwrap()),
            anchor: since,
            effective_after: since,
            paused: Some(since),
            command: 2,
            at: since,
        }
    }

    #[test]
    fn the_misfire_policy_is_told_in_numbers() {
        let now = "2027-01-01T02:00:30Z".parse().unwrap();
        for (schedule, since, says) in [
            (r#"{"cron":"0 3 * * *"}"#, "2027-01-01T00:00:00Z", "no slot fell"),
            (r#"{"cron":"*/5 * * * *"}"#, "2027-01-01T00:00:00Z", "24 slots"),
            (
                r#"{"cron":"*/5 * * * *"}"#,
                "2027-01-01T00:00:00Z",
                "1 fire at once (the latest is 2027-01-01T02:00:00.000Z) and 23 are skipped",
            ),
            (
                r#"{"at":"2026-12-01T00:00:00Z"}"#,
                "2026-11-01T00:00:00Z",
                "1 slots fell into the pause (since 2026-11-01T00:00:00.000Z) and are skipped",
            ),
        ] {
            let text = announce(&paused(schedule, since), now);
            assert!(text.contains(says), "{text}");
        }
    }
}
