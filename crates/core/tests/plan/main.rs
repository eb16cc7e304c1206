//! Plans: every kind of schedule with everything that filters, moves and delays its slots.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod compiled;
mod definitions;
mod interval_edges;
mod laws;
mod misfire_edges;
mod misfires;
mod slots;

use std::sync::Arc;

use cronstream_core::calendar::Calendars;
use cronstream_core::definition::check;
use cronstream_core::plan::Plan;
use cronstream_schemas::calendar::CalendarDefinition;
use cronstream_schemas::definition::{Draft, JobDefinition};
use cronstream_schemas::event::CalendarState;
use cronstream_schemas::id::Revision;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn job() -> JobId {
    "billing/nightly".parse().unwrap()
}

/// A definition with these fields, such as `"schedule":{"every":"5s"}`, checked.
fn define(fields: &str, calendars: &Calendars) -> JobDefinition {
    let body = format!(r#"{{"task":"t",{fields}}}"#);
    check(Draft::decode(body.as_bytes()), &job(), calendars)
        .unwrap_or_else(|faults| panic!("{body}: {faults:#?}"))
}

/// The plan of a definition with these fields, defined at the beginning of 2026.
fn plan(fields: &str) -> Plan {
    plan_with(fields, &Calendars::default())
}

fn plan_with(fields: &str, calendars: &Calendars) -> Plan {
    let definition = define(fields, calendars);
    Plan::compile(&definition, &job(), at("2026-01-01T00:00:00Z"), calendars).unwrap()
}

/// Calendars by their names and their rules.
fn calendars(all: &[(&str, &str)]) -> Calendars {
    let mut calendars = Calendars::default();
    for (command, (id, body)) in (1..).zip(all) {
        calendars.apply(&Arc::new(CalendarState {
            calendar: id.parse().unwrap(),
            revision: Revision(command),
            definition: Some(CalendarDefinition::decode(body.as_bytes()).unwrap()),
            command,
            at: Timestamp::MIN,
        }));
    }
    calendars
}

/// The slots after `from`, at most `count`.
fn coming(plan: &Plan, from: &str, count: usize) -> Vec<String> {
    let first = plan.next(at(from));
    let slots = std::iter::successors(first, |slot| plan.next(*slot));
    slots.take(count).map(|slot| slot.to_string().replace(".000Z", "Z")).collect()
}
