//! What is said of a definition that comes into force: in words, with its next slots, and what to beware of.
//!
//! Invariant: every instant is shown in UTC and on the clocks of the job's zone.

use cronstream_core::schedule::Zone;
use cronstream_schemas::definition::JobDefinition;
use cronstream_schemas::fault::Fault;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use crate::output::printable;
use crate::words;

/// The definition in words, and under it its next slots.
pub(crate) fn echo(job: &JobId, definition: &JobDefinition, next: &[Timestamp]) -> String {
    let zone = Zone::get(&definition.time_zone).unwrap_or(Zone::UTC);
    let mut lines = vec![format!("  {}", words::spoken(job, definition))];
    lines.extend(next.iter().map(|slot| {
        if zone == Zone::UTC {
            format!("  next {slot}")
        } else {
            format!("  next {slot}, {}", words::local(*slot, zone))
        }
    }));
    if next.is_empty() {
        lines.push("  never due from now on".into());
    }
    lines.join("\n")
}

/// Warnings, each on a line.
pub(crate) fn warnings(warnings: &[Fault]) -> String {
    let line = |fault: &Fault| format!("\n  warning: {}", printable(&fault.to_string()));
    warnings.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use cronstream_schemas::definition::Draft;

    use super::*;

    #[test]
    fn five_and_six_fields_are_told_apart_in_words() {
        let echo_of = |cron: &str| {
            let body = format!(
                r#"{{"task":"t","schedule":{{"cron":"{cron}"}},"time_zone":"Europe/Berlin"}}"#
            );
            let definition = Draft::decode(body.as_bytes()).finish().unwrap();
            let next = ["2027-01-01T02:30:00Z".parse().unwrap()];
            echo(&"a/b".parse().unwrap(), &definition, &next)
        };
        assert_eq!(
            echo_of("30 3 * * *"),
            "  at 03:30 every day (Europe/Berlin)\n  next 2027-01-01T02:30:00.000Z, 2027-01-01T03:30:00+01:00"
        );
        assert!(echo_of("30 30 3 * * *").starts_with("  at 03:30:30 every day (Europe/Berlin)\n"));
    }
}
