//! Definitions that name an instant which has passed.
//!
//! Invariant: what an earlier revision named already is never refused for having passed.

use std::time::Duration;

use cronstream_schemas::definition::{JobDefinition, Schedule};
use cronstream_schemas::fault::Fault;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use crate::calendar::Calendars;
use crate::plan::Plan;

/// The fault of a definition that comes into force at `now` and whose one instant, or whose `end`, has passed, unless
/// the revision in force before says the same.
#[must_use]
pub fn past(
    definition: &JobDefinition,
    job: &JobId,
    before: Option<&JobDefinition>,
    now: Timestamp,
) -> Option<Fault> {
    let once = |it: &JobDefinition| match &*it.schedule {
        Schedule::At(when) => {
            let plan = Plan::compile(it, job, now, &Calendars::default()).ok()?;
            Some((plan.prev(Timestamp::MAX)?, when.to_string()))
        }
        Schedule::Cron(_) | Schedule::Every(_) | Schedule::FixedDelay(_) => None,
    };
    let end = |it: &JobDefinition| Some((it.end?, it.end?.to_string()));
    let fault = |path: &str, named: Option<(Timestamp, String)>, known: Option<Timestamp>| {
        let (at, text) = named.filter(|(at, _)| *at <= now && known != Some(*at))?;
        let problem = format!("lies {} in the past and would never fire", in_words(now.since(at)));
        Some(Fault::new(path, &text, problem, "an instant to come"))
    };
    fault("$.schedule.at", once(definition), before.and_then(once).map(|(at, _)| at))
        .or_else(|| fault("$.end", end(definition), before.and_then(|before| before.end)))
}

/// A time in its largest unit.
fn in_words(time: Duration) -> String {
    const UNITS: [(&str, u64); 4] =
        [("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)];
    let secs = time.as_secs();
    match UNITS.into_iter().find(|(_, unit)| secs >= *unit).map(|(name, unit)| (name, secs / unit))
    {
        Some((name, 1)) => format!("1 {name}"),
        Some((name, many)) => format!("{many} {name}s"),
        None => "less than a second".to_owned(),
    }
}
