//! `skip-next` and `shift-next`: one slot to come does not fire, or fires at another instant.

use cronstream_bus::Bus;
use cronstream_core::schedule::Zone;
use cronstream_schemas::command::{Shift, Skip, Verb};
use cronstream_schemas::definition::When;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use cronstream_schemas::verdict::{Outcome, Verdict};

use crate::error::Error;
use crate::output::distance;
use crate::send::{Order, granted};
use crate::session::Session;
use crate::{args, instants, jobs};

pub(crate) async fn skip_next(session: &Session, wanted: &args::SkipNext) -> Result<(), Error> {
    let (bus, clock) = clock_of(session, &wanted.job).await?;
    let body = match wanted.slot {
        Some(slot) => {
            let slot = Some(clock.read(slot, "--slot")?);
            serde_json::to_vec(&Skip { slot }).map_err(std::io::Error::other)?
        }
        None => Vec::new(),
    };
    overridden(session, &bus, Order { body, ..Order::plain(Verb::Skip, &wanted.job) }).await
}

pub(crate) async fn shift_next(session: &Session, wanted: &args::ShiftNext) -> Result<(), Error> {
    let (bus, clock) = clock_of(session, &wanted.job).await?;
    let slot = wanted.slot.map(|slot| clock.read(slot, "--slot")).transpose()?;
    let shift = Shift { slot, to: clock.read(wanted.to, "--to")? };
    let body = serde_json::to_vec(&shift).map_err(std::io::Error::other)?;
    overridden(session, &bus, Order { body, ..Order::plain(Verb::Shift, &wanted.job) }).await
}

/// The clock on which local times are read: that of the job's zone, where the job may be read.
struct Clock(Option<Zone>);

impl Clock {
    fn read(&self, when: When, option: &str) -> Result<Timestamp, Error> {
        match (when, self.0) {
            (When::Instant(at), _) => Ok(at),
            (When::Local(_), Some(zone)) => instants::on_clock(when, zone, option),
            (When::Local(local), None) => Err(Error::Usage(format!(
                "{option} {local}: this user may not read the job's zone; add the offset"
            ))),
        }
    }
}

async fn clock_of(session: &Session, job: &JobId) -> Result<(Bus, Clock), Error> {
    let bus = session.bus().await?;
    let state = jobs::if_readable(&bus, job).await?;
    Ok((bus, Clock(state.as_ref().map(jobs::zone))))
}

async fn overridden(session: &Session, bus: &Bus, order: Order) -> Result<(), Error> {
    let (verb, job) = (order.verb, order.job.clone());
    let verdict = order.send(bus, session.timeout).await?;
    granted(&verdict, &format!("{verb} {job}"))?;
    session.out.object(&verdict, || describe(&job, &verdict, jobs::now()))?;
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
