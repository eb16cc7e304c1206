//! `resume`: end a pause, and say what becomes of the slots that fell into it.

use cronstream_core::calendar::Calendars;
use cronstream_core::misfire;
use cronstream_schemas::command::Verb;
use cronstream_schemas::definition::Overlap;
use cronstream_schemas::event::JobState;
use cronstream_schemas::time::Timestamp;
use cronstream_schemas::verdict::Outcome;

use crate::args;
use crate::error::Error;
use crate::output::count;
use crate::send::{Order, granted};
use crate::session::Session;
use crate::{calendars, jobs};

pub(crate) async fn resume(session: &Session, wanted: &args::OneJob) -> Result<(), Error> {
    let job = &wanted.job;
    let bus = session.bus().await?;
    let before = jobs::if_readable(&bus, job).await?;
    let definition = before.as_ref().and_then(|before| before.definition.as_ref());
    let known = calendars::of(&bus, definition).await?;
    let forecast = before.as_ref().map(|before| announce(before, &known, jobs::now()));
    if let Some(Some(forecast)) = &forecast {
        session.out.talk(forecast);
    }
    let verdict = Order::plain(Verb::Resume, job).send(&bus, session.timeout).await?;
    granted(&verdict, &format!("resume {job}"))?;
    session.out.object(&verdict, || {
        let next = match &verdict.outcome {
            Outcome::Accepted { next, .. } => next.first().map(|next| format!(", next {next}")),
            Outcome::Fired { .. }
            | Outcome::Skipped { .. }
            | Outcome::Cancelled { .. }
            | Outcome::Overridden { .. }
            | Outcome::Backfilling { .. }
            | Outcome::CalendarAccepted { .. }
            | Outcome::Rejected { .. } => None,
        };
        let next = next.unwrap_or_default();
        match forecast {
            Some(None) => format!("{job} is not paused{next}"),
            Some(Some(_)) | None => format!("resumed {job}{next}"),
        }
    })?;
    Ok(())
}

/// What the misfire policy makes of a pause that ends now; none when the job is not paused.
fn announce(state: &JobState, known: &Calendars, now: Timestamp) -> Option<String> {
    let (job, since) = (&state.job, state.paused?);
    let Some(plan) = jobs::plan(state, known) else {
        return Some(format!("{job} is paused since {since}"));
    };
    let after = since.max(state.effective_after);
    let misfire = state.definition.as_ref()?.misfire;
    let owed = misfire::owed(&plan, &misfire, after, now, now);
    let skipped = owed.skipped.map_or(0, |range| range.count);
    let fell =
        |slots: u64| format!("{job}: {} fell into the pause (since {since})", count(slots, "slot"));
    Some(match (skipped, owed.due.as_slice()) {
        (0, []) => format!("{job}: no slot fell into the pause (since {since})"),
        (1, []) => format!("{}; it is skipped by the misfire policy", fell(1)),
        (skipped, []) => format!("{}; all are skipped by the misfire policy", fell(skipped)),
        (skipped, due @ [.., latest]) => format!(
            "{}; by the misfire policy {} at once (the latest is {latest}) and {} skipped{}",
            fell(skipped + due.len() as u64),
            if due.len() == 1 { "1 fires".to_owned() } else { format!("{} fire", due.len()) },
            if skipped == 1 { "1 is".to_owned() } else { format!("{skipped} are") },
            overlap(state)
        ),
    })
}

/// What may still keep such a slot from firing.
fn overlap(state: &JobState) -> &'static str {
    match state.definition.as_ref().map(|definition| definition.overlap) {
        Some(Overlap::Skip) => "; overlap: skip may skip more, while an earlier run is live",
        Some(Overlap::Allow) | None => "",
    }
}

#[cfg(test)]
mod tests {
    use cronstream_core::definition::check;
    use cronstream_schemas::definition::Draft;
    use cronstream_schemas::event::Overrides;
    use cronstream_schemas::id::{Incarnation, Revision};

    use super::*;

    fn paused(schedule: &str, since: &str) -> JobState {
        let body = format!(r#"{{"task":"t","schedule":{schedule}}}"#);
        let since: Timestamp = since.parse().unwrap();
        JobState {
            job: "a/b".parse().unwrap(),
            revision: Revision(1),
            incarnation: Incarnation(1),
            definition: Some(
                check(
                    Draft::decode(body.as_bytes()),
                    &"a/b".parse().unwrap(),
                    &Calendars::default(),
                )
                .unwrap(),
            ),
            anchor: since,
            effective_after: since,
            paused: Some(since),
            overrides: Overrides::default(),
            tzdb: None,
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
                "1 fires at once (the latest is 2027-01-01T02:00:00.000Z) and 23 are skipped; overlap: skip may",
            ),
            (
                r#"{"at":"2026-12-01T00:00:00Z"}"#,
                "2026-11-01T00:00:00Z",
                "1 slot fell into the pause (since 2026-11-01T00:00:00.000Z); it is skipped",
            ),
        ] {
            let text = announce(&paused(schedule, since), &Calendars::default(), now).unwrap();
            assert!(text.contains(says), "{text}");
        }
        let mut running = paused(r#"{"every":"5s"}"#, "2027-01-01T00:00:00Z");
        running.paused = None;
        assert_eq!(announce(&running, &Calendars::default(), now), None);
    }
}
