//! `skip-next` and `shift-next`: one slot to come does not fire, or fires at another instant.

use cronstream_schemas::command::{Shift, Skip, Verb};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use cronstream_schemas::verdict::{Outcome, Verdict};

use crate::args;
use crate::error::Error;
use crate::jobs;
use crate::output::distance;
use crate::send::{Order, granted};
use crate::session::Session;

pub(crate) async fn skip_next(session: &Session, wanted: &args::SkipNext) -> Result<(), Error> {
    let body = match wanted.slot {
        Some(slot) => {
            serde_json::to_vec(&Skip { slot: Some(slot) }).map_err(std::io::Error::other)?
        }
        None => Vec::new(),
    };
    overridden(session, Verb::Skip, &wanted.job, body).await
}

pub(crate) async fn shift_next(session: &Session, wanted: &args::ShiftNext) -> Result<(), Error> {
    let shift = Shift { slot: wanted.slot, to: wanted.to };
    let body = serde_json::to_vec(&shift).map_err(std::io::Error::other)?;
    overridden(session, Verb::Shift, &wanted.job, body).await
}

async fn overridden(
    session: &Session,
    verb: Verb,
    job: &JobId,
    body: Vec<u8>,
) -> Result<(), Error> {
    let bus = session.bus().await?;
    jobs::if_readable(&bus, job).await?;
    let order = Order { body, ..Order::plain(verb, job) };
    let verdict = order.send(&bus, session.timeout).await?;
    granted(&verdict, &format!("{verb} {job}"))?;
    session.out.object(&verdict, || describe(job, &verdict, jobs::now()))?;
    Ok(())
}

fn describe(job: &JobId, verdict: &Verdict, now: Timestamp) -> String {
    let Outcome::Overridden { slot, to } = &verdict.outcome else { return String::new() };
    let far = |at: Timestamp| format!("{at} ({})", distance(at, now));
    let back = format!("\n  taken back by: cronstream shift-next {job} --slot {slot} --to {slot}");
    match to {
        None => format!("{job} skips its slot {}{back}", far(*slot)),
        Some(to) if to == slot => format!("{job} is due as usual at {}", far(*slot)),
        Some(to) => format!("{job} is due at {} instead of {slot}{back}", far(*to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_is_said_with_the_way_back() {
        let job: JobId = "billing/nightly".parse().unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let slot = at("2027-01-01T03:00:00Z");
        let say = |to: Option<Timestamp>| {
            let outcome = Outcome::Overridden { slot, to };
            let verdict = Verdict { command: 7, job: None, verb: None, outcome };
            describe(&job, &verdict, at("2027-01-01T02:00:00Z"))
        };
        let back = "taken back by: cronstream shift-next billing/nightly --slot 2027-01-01T03:00:00.000Z --to 2027-01-01T03:00:00.000Z";
        let skipped = say(None);
        assert!(skipped.starts_with("billing/nightly skips its slot 2027-01-01T03:00:00.000Z ("));
        assert!(skipped.ends_with(back), "{skipped}");
        assert!(
            say(Some(at("2027-01-01T05:00:00Z"))).contains("due at 2027-01-01T05:00:00.000Z (")
        );
        assert!(!say(Some(slot)).contains("taken back"));
    }
}
