//! The calendar from the outside: reported faults, refusals, laws, and Debian cron's own answers.
//!
//! A case is an expression, a zone and an instant; the transcript is the slots that follow it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod choices;
mod clock_changes;
mod day_bounds;
mod day_oracle;
mod debian_cron;
mod dialects;
mod docs;
mod fuzz;
mod gap_counts;
mod hash_slots;
mod laws;
mod lint_bounds;
mod lints;
mod local_time;
mod moved_days;
mod named_calendars;
mod normal_form;
mod note_instants;
mod open_edges;
mod oracle;
mod prefix_positions;
mod refusals;
mod release_edges;
mod releases;
mod rule_days;
mod syntax;
mod union_counts;
mod value_hints;
mod vector_verdicts;
mod word_bounds;
mod words;
mod zone_hints;

use chrono::{DateTime, SecondsFormat};
use cronstream_core::schedule::{Cron, Seed, Zone};

/// The seed of one job, for expressions without hash slots.
pub(crate) fn seed() -> Seed {
    Seed::of(&"billing/invoices".parse().unwrap())
}

pub(crate) fn instant(text: &str) -> i64 {
    DateTime::parse_from_rfc3339(text).unwrap().timestamp_millis()
}

pub(crate) fn show(ms: i64) -> String {
    DateTime::from_timestamp_millis(ms).unwrap().to_rfc3339_opts(SecondsFormat::Secs, true)
}

pub(crate) fn slots(expr: &str, zone: &str, from: &str) -> impl Iterator<Item = String> {
    let (cron, zone) = (Cron::parse(expr).unwrap(), Zone::get(zone).unwrap());
    let mut at = instant(from);
    std::iter::from_fn(move || {
        at = cron.next(zone, at)?;
        Some(show(at))
    })
}

/// The slots that follow `from` are exactly these, and `prev` walks them back.
#[track_caller]
pub(crate) fn check(expr: &str, zone: &str, from: &str, expected: &[&str]) {
    let found: Vec<_> = slots(expr, zone, from).take(expected.len()).collect();
    assert_eq!(found, expected, "`{expr}` in {zone} from {from}");
    let (cron, zone) = (Cron::parse(expr).unwrap(), Zone::get(zone).unwrap());
    let back: Vec<_> =
        expected.iter().skip(1).map(|slot| show(cron.prev(zone, instant(slot)).unwrap())).collect();
    assert_eq!(back, &expected[..expected.len() - 1], "prev of `{expr}`");
}

#[track_caller]
pub(crate) fn check_count(expr: &str, zone: &str, after: &str, through: &str, expected: u64) {
    let (cron, zone) = (Cron::parse(expr).unwrap(), Zone::get(zone).unwrap());
    assert_eq!(cron.count(zone, instant(after), instant(through)), expected, "`{expr}`");
}
