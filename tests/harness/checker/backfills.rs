//! Each slot that a backfill asks for runs again once, or is skipped once.

use std::collections::BTreeMap;

use cronstream_schemas::event::{Cause, LogEvent, SkippedWhat};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use super::violation::Violation;
use super::{Held, Terms};
use crate::history::History;

/// What became of one backfill.
#[derive(Default)]
struct Backfill {
    /// How many slots each of its ranges had at first.
    asked: BTreeMap<String, u64>,
    fired: BTreeMap<Timestamp, u64>,
    skipped: u64,
}

/// Checks every backfill.
pub(super) fn check(history: &History, terms: &Terms) -> Vec<Violation> {
    let mut backfills: BTreeMap<(JobId, u64), Backfill> = BTreeMap::new();
    for stored in &history.log {
        match &stored.event {
            LogEvent::Held(held) => {
                let Some(range) = &held.range else { continue };
                if let Some(command) = range.command {
                    let backfill = backfills.entry((held.job.clone(), command)).or_default();
                    backfill.asked.entry(range.id.clone()).or_insert(range.left);
                }
            }
            LogEvent::Fired(fired) => {
                if let (Cause::Backfill(it), 1) = (&fired.cause, fired.fire_no) {
                    let backfill = backfills.entry((fired.job.clone(), it.command)).or_default();
                    *backfill.fired.entry(it.slot).or_default() += 1;
                }
            }
            LogEvent::Skipped(skipped) => {
                let SkippedWhat::Slots { count, .. } = skipped.what else { continue };
                if let Some(command) = skipped.backfill {
                    let key = (skipped.job.clone(), command);
                    backfills.entry(key).or_default().skipped += count;
                }
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
            | LogEvent::HeldEnded(_)
            | LogEvent::Rejected(_)
            | LogEvent::Cursor(_)
            | LogEvent::Meta(_) => {}
        }
    }
    let judge = |((job, command), backfill)| judge(job, command, &backfill, terms);
    backfills.into_iter().flat_map(judge).collect()
}

fn judge(job: JobId, command: u64, backfill: &Backfill, terms: &Terms) -> Vec<Violation> {
    let twice = backfill.fired.iter().filter(|(_, times)| **times > 1);
    let mut violations: Vec<_> = twice
        .map(|(slot, _)| Violation::BackfilledTwice { job: job.clone(), command, slot: *slot })
        .collect();
    let asked: u64 = backfill.asked.values().sum();
    let answered = backfill.fired.len() as u64 + backfill.skipped;
    // One that was asked for and ended in one batch leaves nothing but what was skipped.
    let whole = answered == asked || asked == 0;
    if !whole && (terms.held_at_end == Held::Undecided || answered > asked) {
        violations.push(Violation::BackfillMiscounted { job, command, asked, answered });
    }
    violations
}
