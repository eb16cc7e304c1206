//! Every due slot has exactly one outcome, fires once, and not early.

use std::collections::{BTreeMap, BTreeSet};

use cronstream_schemas::event::{Cause, Fired, LogEvent, Skipped, SkippedWhat};
use cronstream_schemas::id::{FireId, Revision};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use super::due::{self, Due};
use super::violation::Violation;
use super::{Held, Terms};
use crate::history::{History, Stored};

/// What was found about the slots.
pub(super) struct Slots {
    /// What is wrong.
    pub(super) violations: Vec<Violation>,
    /// How many slots have fired.
    pub(super) fired: usize,
}

/// What is recorded of one slot.
#[derive(Default)]
struct Outcome {
    shards: BTreeSet<u16>,
    shards_expected: u16,
    skips: BTreeSet<u64>,
    first: u64,
    revision: Revision,
}

type Outcomes = BTreeMap<JobId, BTreeMap<Timestamp, Outcome>>;

/// Checks the slots of every job.
///
/// # Errors
/// Why they cannot be worked out.
pub(super) fn check(history: &History, terms: &Terms) -> Result<Slots, String> {
    let mut violations = fires(history, terms);
    let states = due::states(&history.log);
    let end = last_decided(history).max(terms.through);
    let mut dues = BTreeMap::new();
    for (job, states) in &states {
        dues.insert(job.clone(), due::slots(states, end)?);
    }
    let outcomes = outcomes(history, &dues, &mut violations);
    let held = held_at_end(history, terms);
    for (job, due) in &dues {
        let none = BTreeMap::new();
        let found = outcomes.get(job).unwrap_or(&none);
        let owed = due.range(..=terms.through);
        violations.extend(owed.filter_map(|(slot, revision)| {
            let decided = found.get(slot).is_some_and(|outcome| {
                !outcome.skips.is_empty() || outcome.shards.len() >= outcome.shards_expected.into()
            });
            let fine = decided || held.contains(&(job.clone(), *slot));
            (!fine).then(|| Violation::NoOutcome {
                job: job.clone(),
                slot: *slot,
                revision: *revision,
            })
        }));
    }
    for (job, slots) in &outcomes {
        let none = Due::new();
        let due = dues.get(job).unwrap_or(&none);
        violations.extend(slots.iter().filter_map(|(slot, it)| wrong_outcome(job, *slot, it, due)));
    }
    let fired = outcomes.values().flat_map(BTreeMap::values).filter(|it| !it.shards.is_empty());
    Ok(Slots { violations, fired: fired.count() })
}

/// The fires, in their order.
pub(super) fn fired(history: &History) -> impl Iterator<Item = (&Stored<LogEvent>, &Fired)> {
    history.log.iter().filter_map(|stored| match &stored.event {
        LogEvent::Fired(fired) => Some((stored, fired)),
        LogEvent::JobDefined(_)
        | LogEvent::JobPaused(_)
        | LogEvent::JobResumed(_)
        | LogEvent::JobDeleted(_)
        | LogEvent::JobOverridden(_)
        | LogEvent::CalendarDefined(_)
        | LogEvent::CalendarDeleted(_)
        | LogEvent::CalendarRevised(_)
        | LogEvent::JobRevised(_)
        | LogEvent::Held(_)
        | LogEvent::HeldEnded(_)
        | LogEvent::Skipped(_)
        | LogEvent::Rejected(_)
        | LogEvent::Cursor(_)
        | LogEvent::Meta(_) => None,
    })
}

/// Each fire stands once, after the one before it, and not early.
fn fires(history: &History, terms: &Terms) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut by_id: BTreeMap<FireId, u64> = BTreeMap::new();
    let mut by_slot: BTreeMap<(&JobId, Timestamp, u16, u32), u64> = BTreeMap::new();
    let shifted = due::shifted(&history.log);
    for (stored, fired) in fired(history) {
        let (job, slot, sequence) = (&fired.job, fired.scheduled_at, stored.sequence);
        let id = fired.id();
        let twice = match &fired.cause {
            Cause::Slot(slot) => by_slot.insert((job, *slot, fired.shard, fired.fire_no), sequence),
            Cause::Trigger(_) | Cause::Backfill(_) => None,
        };
        if let Some(first) = by_id.insert(id, sequence).or(twice) {
            let sequences = (first, sequence);
            violations.push(Violation::FiredTwice { job: job.clone(), slot, fire: id, sequences });
        }
        let before = FireId { fire_no: id.fire_no.saturating_sub(1), ..id };
        if id.fire_no != 1 && !by_id.contains_key(&before) {
            violations.push(Violation::FireGap { fire: id, sequence });
        }
        let due = shifted.get(&(job, slot)).map_or(slot, |to| slot.min(*to));
        if stored.at < due.minus(terms.max_clock_error) {
            violations.push(Violation::FiredEarly { job: job.clone(), slot, stored: stored.at });
        }
    }
    violations
}

fn skipped(history: &History) -> impl Iterator<Item = (u64, &Skipped)> {
    history.log.iter().filter_map(|stored| match &stored.event {
        LogEvent::Skipped(skipped) => Some((stored.sequence, skipped)),
        LogEvent::JobDefined(_)
        | LogEvent::JobPaused(_)
        | LogEvent::JobResumed(_)
        | LogEvent::JobDeleted(_)
        | LogEvent::JobOverridden(_)
        | LogEvent::CalendarDefined(_)
        | LogEvent::CalendarDeleted(_)
        | LogEvent::CalendarRevised(_)
        | LogEvent::JobRevised(_)
        | LogEvent::Fired(_)
        | LogEvent::Held(_)
        | LogEvent::HeldEnded(_)
        | LogEvent::Rejected(_)
        | LogEvent::Cursor(_)
        | LogEvent::Meta(_) => None,
    })
}

/// The latest slot that has an outcome.
fn last_decided(history: &History) -> Timestamp {
    let fired = fired(history).map(|(_, fired)| fired.scheduled_at);
    let skipped = skipped(history).filter_map(|(_, skipped)| match skipped.what {
        SkippedWhat::Slots { last, .. } if skipped.backfill.is_none() => Some(last),
        SkippedWhat::Slots { .. } | SkippedWhat::Trigger(_) => None,
    });
    fired.chain(skipped).max().unwrap_or_default()
}

/// Collects the outcomes by slot; a skipped range is spread over the slots that are due in it.
fn outcomes(
    history: &History,
    dues: &BTreeMap<JobId, Due>,
    violations: &mut Vec<Violation>,
) -> Outcomes {
    let mut outcomes = Outcomes::new();
    let mut outcome = |job: &JobId, slot, sequence, revision, note: &dyn Fn(&mut Outcome)| {
        let it: &mut Outcome = outcomes.entry(job.clone()).or_default().entry(slot).or_default();
        (it.first, it.revision) =
            if it.first == 0 { (sequence, revision) } else { (it.first, it.revision) };
        note(it);
    };
    for (stored, fired) in fired(history).filter(|(_, fired)| fired.fire_no == 1) {
        if let Cause::Slot(slot) = fired.cause {
            outcome(&fired.job, slot, stored.sequence, fired.revision, &|it| {
                it.shards.insert(fired.shard);
                it.shards_expected = fired.shards;
            });
        }
    }
    let none = Due::new();
    for (sequence, skipped) in skipped(history) {
        let (SkippedWhat::Slots { first, last, count }, None) = (&skipped.what, skipped.backfill)
        else {
            continue;
        };
        let (first, last, count) = (*first, *last, *count);
        let due = dues.get(&skipped.job).unwrap_or(&none);
        let mut slots: Vec<_> = Vec::new();
        if first <= last {
            slots.extend(due.range(first..=last).map(|(slot, _)| *slot));
        }
        if slots.len() as u64 != count {
            let (job, expected) = (skipped.job.clone(), slots.len() as u64);
            violations.push(Violation::WrongCount { job, sequence, found: count, expected });
        }
        // The ends are taken at their word, so that a range which is not due is seen.
        slots.extend([first, last]);
        for slot in slots {
            outcome(&skipped.job, slot, sequence, skipped.revision, &|it| {
                it.skips.insert(sequence);
            });
        }
    }
    outcomes
}

fn wrong_outcome(job: &JobId, slot: Timestamp, found: &Outcome, due: &Due) -> Option<Violation> {
    let job = job.clone();
    let Some(expected) = due.get(&slot).copied() else {
        return Some(Violation::NotDue { job, slot, sequence: found.first });
    };
    if found.skips.len() > 1 || (!found.skips.is_empty() && !found.shards.is_empty()) {
        let mut sequences: BTreeSet<u64> = found.skips.clone();
        sequences.insert(found.first);
        return Some(Violation::TwoOutcomes {
            job,
            slot,
            sequences: sequences.into_iter().collect(),
        });
    }
    let revision = found.revision;
    (revision != expected).then_some(Violation::WrongRevision {
        job,
        slot,
        found: revision,
        expected,
    })
}

/// Slots that are held at the end and may be.
fn held_at_end(history: &History, terms: &Terms) -> BTreeSet<(JobId, Timestamp)> {
    let mut held = BTreeSet::new();
    if terms.held_at_end == Held::Undecided {
        return held;
    }
    for stored in &history.log {
        match &stored.event {
            LogEvent::Held(it) => {
                held.insert((it.job.clone(), it.slot));
            }
            LogEvent::HeldEnded(it) => {
                held.remove(&(it.job.clone(), it.slot));
            }
            LogEvent::JobDefined(_)
            | LogEvent::JobPaused(_)
            | LogEvent::JobResumed(_)
            | LogEvent::JobDeleted(_)
            | LogEvent::JobOverridden(_)
            | LogEvent::CalendarDefined(_)
            | LogEvent::CalendarDeleted(_)
            | LogEvent::CalendarRevised(_)
            | LogEvent::JobRevised(_)
            | LogEvent::Fired(_)
            | LogEvent::Skipped(_)
            | LogEvent::Rejected(_)
            | LogEvent::Cursor(_)
            | LogEvent::Meta(_) => {}
        }
    }
    held
}
