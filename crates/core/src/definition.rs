//! A definition that may come into force: its shape is right and so are its calendar and its bounds.
//!
//! Invariant: what [`check`] accepts can always be planned and fired.

use std::time::Duration;

use cronstream_schemas::definition::{Draft, JobDefinition, RETENTION_MAX, Schedule, defaults};
use cronstream_schemas::fault::Fault;
use cronstream_schemas::time::Timestamp;

use crate::plan::Plan;
use crate::retry;

/// Checks a draft against the calendar and the bounds that span fields.
///
/// # Errors
/// Every fault of the shape, the expression, the zone and the bounds at once.
pub fn check(mut draft: Draft) -> Result<JobDefinition, Vec<Fault>> {
    let zone = draft.time_zone.clone().unwrap_or_else(defaults::time_zone);
    let any = Schedule::At(Timestamp::MIN);
    let schedule = draft.schedule.as_ref().unwrap_or(&any);
    if let Err(faults) = Plan::compile(schedule, &zone, Timestamp::MIN) {
        faults.into_iter().for_each(|fault| draft.faults.push(fault));
    }
    let definition = draft.finish()?;
    let life = lifetime(&definition) + definition.retention.to_duration();
    if life > RETENTION_MAX.to_duration() {
        return Err(vec![Fault::new(
            "$.retention",
            &definition.retention.to_string(),
            format!(
                "start_within + max_attempts × timeout + back-offs + retention is {} days",
                life.as_secs() / 86_400
            ),
            format!("at most {RETENTION_MAX} in all"),
        )]);
    }
    Ok(definition)
}

/// From a run's first fire to its hard end: `start_within`, every attempt at its timeout, every back-off at
/// its longest.
#[must_use]
pub fn lifetime(definition: &JobDefinition) -> Duration {
    let attempts = definition.timeout.to_duration() * definition.max_attempts;
    let policy = retry::policy(definition.max_attempts);
    definition.start_within.to_duration() + attempts + retry::longest_total(&policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(body: &str) -> Vec<String> {
        let faults = check(Draft::decode(body.as_bytes())).unwrap_err();
        faults.into_iter().map(|fault| fault.path).collect()
    }

    #[test]
    fn calendar_faults_are_listed_beside_those_of_the_shape() {
        let body = r#"{"task":"a b","schedule":{"cron":"60 * * * *"},"time_zone":"Local"}"#;
        assert_eq!(faults(body), ["$.task", "$.schedule.cron", "$.time_zone"]);
    }

    #[test]
    fn a_run_that_outlives_its_records_is_refused() {
        let body = r#"{"task":"a","schedule":{"every":"1h"},"timeout":"30d","max_attempts":20}"#;
        assert_eq!(faults(body), ["$.retention"]);
    }

    #[test]
    fn a_zone_is_checked_even_where_the_schedule_needs_none() {
        let body = r#"{"task":"a","schedule":{"every":"1h"},"time_zone":"Mars/Olympus"}"#;
        assert_eq!(faults(body), ["$.time_zone"]);
    }
}
