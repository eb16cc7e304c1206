//! What the clock changes of a zone do to the slots of a definition, in words.
//!
//! Invariant: pure; bounded by the clock changes of the stretch that is asked for.

use cronstream_core::calendar::Calendars;
use cronstream_core::schedule::{
    Cron, DaySet, NoteKind, Rule, Rules, Seed, Slots, Zone, clock_change_notes, parse,
};
use cronstream_schemas::definition::{JobDefinition, Schedule};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use serde::Serialize;
use std::sync::Arc;

/// The longest stretch that is looked at, so that a century of slots is not told a century of clock changes.
const STRETCH_MAX_MS: i64 = 20 * 366 * 86_400_000;

/// A clock change that does something to slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ClockChange {
    /// When the clock changes.
    pub(crate) at: Timestamp,
    /// Which way it goes.
    pub(crate) kind: Kind,
    /// How many wall times of the job it leaves out or shows twice.
    pub(crate) slots: u64,
    /// What becomes of them.
    pub(crate) words: String,
    /// The first and the last instant at which they run, in Unix milliseconds.
    #[serde(skip)]
    due_ms: Option<(i64, i64)>,
}

/// Which way a clock goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Forward: wall times are left out.
    Gap,
    /// Back: wall times come twice.
    Fold,
}

impl ClockChange {
    /// What it does to this slot, if it does something.
    pub(crate) fn of(&self, slot: Timestamp) -> Option<String> {
        let (first, last) = self.due_ms?;
        (first..=last).contains(&slot.as_millis()).then(|| self.words.clone())
    }
}

/// The expressions of a definition, compiled, each with the zone that it is read in.
pub(crate) fn crons(job: &JobId, definition: &JobDefinition) -> Vec<(Cron, String)> {
    let Schedule::Cron(all) = &*definition.schedule else { return Vec::new() };
    let compiled = all.as_slice().iter().filter_map(|text| {
        let parsed = parse(text, definition.dialect, Seed::of(job)).ok()?;
        let zone = parsed.zone.unwrap_or_else(|| definition.time_zone.clone());
        match parsed.rule {
            Rule::Cron(cron) => Some((cron, zone)),
            Rule::Every(_) => None,
        }
    });
    compiled.collect()
}

/// The days on which the slots of a definition count; none for all of them.
pub(crate) fn days(definition: &JobDefinition, calendars: &Calendars) -> Option<Arc<DaySet>> {
    calendars.working(definition.calendars.as_ref()?).ok()
}

/// The clock changes from one instant through another that do something to the slots of a definition.
pub(crate) fn of(
    job: &JobId,
    definition: &JobDefinition,
    calendars: &Calendars,
    (from, through): (Timestamp, Timestamp),
) -> Vec<ClockChange> {
    let rules = Rules { gap: definition.gap, fold: definition.fold };
    let from = from.as_millis();
    let through = through.as_millis().min(from.saturating_add(STRETCH_MAX_MS));
    let mut changes = Vec::new();
    for (cron, zone) in crons(job, definition) {
        let Ok(zone) = Zone::get(&zone) else { continue };
        // Moved days are not days of the expression: its own say what the clock does.
        let shifts = definition.calendars.as_ref().is_some_and(|used| used.shift.is_some());
        let days = if shifts { None } else { days(definition, calendars) };
        let slots = Slots { cron: &cron, zone, rules, days: days.as_deref(), shift: None };
        let told = clock_change_notes(&slots, from, through).into_iter().map(|note| ClockChange {
            at: Timestamp::from_millis(note.at_ms),
            kind: match note.kind {
                NoteKind::Gap => Kind::Gap,
                NoteKind::Fold => Kind::Fold,
            },
            slots: note.slots,
            words: note.words,
            due_ms: note.due_ms,
        });
        changes.extend(told);
    }
    changes.sort_by_key(|change| change.at);
    changes.dedup();
    changes
}
