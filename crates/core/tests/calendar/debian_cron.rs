//! Agreement with Debian cron: vectors made by its own parser and main-loop rules on tzdb 2025b.
//!
//! `data/debian-cron.tsv` holds the curated rows and every eleventh of the random ones; the first
//! line of the file says how the vectors were made. Each disagreement must be on the list of
//! [`Deviation`]s, which says why ours is right.

use std::collections::BTreeMap;

use chrono::DateTime;
use cronstream_core::schedule::{Cron, Zone};

const VECTORS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/debian-cron.tsv"));

/// Why a row may disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Deviation {
    /// `FRI-MON`: there an empty set that never fires, here the days from Friday to Monday.
    WrappingRange,
    /// `?`: there an error, here the same as a star.
    QuestionMark,
    /// `5#3`: there the `#3` is dropped without a word, here it is refused.
    SilentSuffix,
    /// The zone has other rules since tzdb 2025b, and the slots lie after the change.
    ZoneChanged,
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Refused,
    Never,
    Slots(Vec<i64>),
}

struct Row<'a> {
    expr: String,
    zone: &'a str,
    start: i64,
    expected: Answer,
}

fn instant(text: &str) -> i64 {
    DateTime::parse_from_str(&text.replace('Z', "+0000"), "%Y-%m-%dT%H:%M:%S%z")
        .unwrap()
        .timestamp_millis()
}

fn read(line: &str) -> Row<'_> {
    let columns: Vec<_> = line.split('\t').collect();
    let [expr, zone, start, answer] = columns[..] else { panic!("not a vector: {line}") };
    let expected = match answer {
        refused if refused.starts_with("ERR") => Answer::Refused,
        never if never.starts_with("NEVER") => Answer::Never,
        slots => Answer::Slots(slots.split(' ').map(instant).collect()),
    };
    Row { expr: expr.replace("\\t", "\t"), zone, start: instant(start), expected }
}

fn ours(row: &Row<'_>) -> Answer {
    let zone = Zone::get(row.zone).unwrap();
    let Ok(cron) = Cron::parse(&row.expr) else { return Answer::Refused };
    let mut at = row.start;
    let slots: Vec<_> = std::iter::from_fn(|| {
        at = cron.next(zone, at)?;
        Some(at)
    })
    .take(3)
    .collect();
    if slots.is_empty() { Answer::Never } else { Answer::Slots(slots) }
}

/// Agreement, with the two words for one thing: what never fires is refused by us at once, and the
/// random vectors look ahead for nine years only.
fn agrees(row: &Row<'_>, ours: &Answer) -> bool {
    const NINE_YEARS: i64 = 9 * 365 * 86_400_000;
    match (&row.expected, ours) {
        (Answer::Never, Answer::Refused) => true,
        (Answer::Never, Answer::Slots(slots)) => {
            row.zone != "UTC" && slots[0] > row.start + NINE_YEARS
        }
        (expected, ours) => expected == ours,
    }
}

/// When the rules of a zone differ between tzdb 2025b and the bundled release. Under 2025b all rows
/// agree.
fn changed(zone: &str) -> Option<(i64, i64)> {
    match zone {
        // Summer time did not end in the autumn of 2026.
        "America/Havana" => Some(("2026-11-01T04:00:00Z", "2027-03-14T06:00:00Z")),
        // Clocks change at 01:00 UTC, not an hour before.
        "Europe/Chisinau" => Some(("2022-03-26T23:00:00Z", "2199-12-31T00:00:00Z")),
        _ => None,
    }
    .map(|(first, last)| (instant(first), instant(last)))
}

/// The entry of the list that covers a disagreement.
fn deviation(row: &Row<'_>, ours: &Answer) -> Option<Deviation> {
    match (&row.expected, ours) {
        (Answer::Never, Answer::Slots(_)) => {
            let wrapping = ["0 0 * * FRI-MON", "0 0 * * 6-1", "0 0 * NOV-FEB *"];
            wrapping.contains(&row.expr.as_str()).then_some(Deviation::WrappingRange)
        }
        (Answer::Refused, Answer::Slots(_)) => {
            row.expr.contains('?').then_some(Deviation::QuestionMark)
        }
        (Answer::Slots(_), Answer::Refused) => {
            row.expr.contains('#').then_some(Deviation::SilentSuffix)
        }
        (Answer::Slots(theirs), Answer::Slots(ours)) => {
            let (theirs, ours) = theirs.iter().zip(ours).find(|(theirs, ours)| theirs != ours)?;
            let (first, last) = changed(row.zone)?;
            let affected = first <= *theirs.max(ours) && *theirs.min(ours) <= last;
            affected.then_some(Deviation::ZoneChanged)
        }
        _ => None,
    }
}

#[test]
fn every_vector_agrees_or_is_a_listed_deviation() {
    let mut listed = BTreeMap::new();
    let mut unlisted = Vec::new();
    let mut rows = 0;
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let row = read(line);
        let ours = ours(&row);
        rows += 1;
        if agrees(&row, &ours) {
            continue;
        }
        match deviation(&row, &ours) {
            Some(kind) => *listed.entry(kind).or_insert(0) += 1,
            None => unlisted.push(format!("{line}\n    ours: {ours:?}")),
        }
    }
    println!("{rows} rows; listed deviations: {listed:?}");
    assert!(rows > 1_400);
    assert!(unlisted.is_empty(), "{} disagreements:\n{}", unlisted.len(), unlisted.join("\n"));
}
