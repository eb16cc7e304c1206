//! Slots without an outcome: still to come, held, or past and not decided.

use std::time::Duration;

use cronstream_core::message::SKIPPED_FOR;
use cronstream_core::plan::Plan;
use cronstream_schemas::definition::Overlap;
use cronstream_schemas::event::{Held, HeldReason};
use cronstream_schemas::time::Timestamp;

use super::facts::{Facts, Stored};
use super::ran::which_run;
use super::skipped::{by, pause};
use super::verdict::{Explanation, Outcome};
use crate::output::short;
use crate::words;

/// A slot that is decided this long after it is due is on time: the leader's clock may lag behind this one.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn held(facts: &Facts<'_>, stored: &Stored<Held>) -> Explanation {
    let held = &stored.what;
    let why = match held.why {
        HeldReason::Hold => {
            "the cluster was started with --hold and is not released: `cronstream release`"
        }
        HeldReason::Jitter => "its jitter has not passed",
        HeldReason::Shifted => "it was shifted to a later instant",
        HeldReason::CatchUp => "it is one of many missed slots that fire one after the other",
        HeldReason::Backfill => "a backfill runs its slots one after the other",
        HeldReason::Queued => "a run of the job's catch-up or backfill is live",
        HeldReason::CalendarMissing => "a calendar that the job uses is gone: publish it again",
    };
    let mut told = Explanation::new(Outcome::Held(held.why), format!("it waits: {why}"));
    told.revision = Some((held.revision, held.incarnation));
    told.because(format!("held since {}", stored.at));
    if held.why == HeldReason::Queued {
        let live = facts.before.as_ref().filter(|run| run.ended.is_none());
        told.because(live.map(|run| format!("{} is live", which_run(run))));
    }
    told.because(held.due.map(|due| format!("it is due at {due}")));
    told.because(format!(
        "it fires when it is released, but no later than {} after its slot",
        short(held.fire_within.to_duration())
    ));
    if let Some(range) = &held.range {
        told.because(format!("{} slots wait with it, through {}", range.left, range.through));
    }
    told.because(facts.pause.as_ref().map(pause));
    told
}

pub(super) fn explain(facts: &Facts<'_>, slot: Timestamp, plan: Option<&Plan>) -> Explanation {
    let asked_for = facts.newest.overrides.iter().find(|it| it.slot == slot);
    let regular = slot.plus(plan.map(Plan::jitter).unwrap_or_default());
    let due = asked_for.and_then(|it| it.to).unwrap_or(regular);
    let passed = facts.decided.as_ref().is_some_and(|decided| decided.through > slot);
    if due.plus(PATIENCE) > facts.now {
        return to_come(facts, slot, due, plan);
    }
    let paused = facts.newest.paused.filter(|since| *since <= slot);
    let mut told = if let Some(since) = paused {
        let mut told = Explanation::new(
            Outcome::Undecided,
            "it did not run: the job is paused, and what becomes of the slot is decided when it is resumed",
        );
        told.because(match &facts.pause {
            Some(found) => pause(found),
            None => format!("paused since {since}, by command {}", facts.newest.command),
        });
        told
    } else if passed {
        let mut told = Explanation::new(
            Outcome::NotKept,
            "it was decided, and what became of it is no longer kept",
        );
        told.because(format!(
            "a slot that does not fire is kept for {} days, a run for the job's retention",
            SKIPPED_FOR.as_secs() / 86_400
        ));
        told
    } else {
        let mut told = Explanation::new(
            Outcome::Undecided,
            format!(
                "it has not run: nobody has decided it, {} after it was due",
                short(facts.now.since(due))
            ),
        );
        told.because(
            "the partition of the job has no leader, or one that cannot write: `cronstream status`"
                .to_owned(),
        );
        told
    };
    told.because(facts.decided.as_ref().map(|decided| {
        format!(
            "the partition is decided through {} (by {}, term {}, written {})",
            decided.through, decided.leader.0, decided.leader.1.0, decided.at
        )
    }));
    told
}

fn to_come(facts: &Facts<'_>, slot: Timestamp, due: Timestamp, plan: Option<&Plan>) -> Explanation {
    let newest = facts.newest;
    let asked_for = newest.overrides.iter().find(|it| it.slot == slot);
    let skipped = asked_for.is_some_and(|it| it.to.is_none());
    let missing = plan.and_then(Plan::missing_calendar);
    let away = short(due.since(facts.now));
    let mut told = if skipped {
        Explanation::new(Outcome::WillNotRun, "it will not run: it was asked to be skipped")
    } else if newest.paused.is_some() {
        Explanation::new(Outcome::WillNotRun, "it will not run, unless the job is resumed before")
    } else if let Some(calendar) = missing {
        let why = format!("it will wait: calendar {calendar} is not known");
        Explanation::new(Outcome::WillNotRun, why)
    } else {
        Explanation::new(Outcome::WillRun, format!("it will run at {due}, in {away}"))
    };
    if let Some(definition) = facts.then.and_then(|state| state.definition.as_ref()) {
        told.because(format!(
            "slot {slot} of revision {}: {}",
            newest.revision.0,
            words::spoken(&newest.job, definition)
        ));
    }
    if let Some(asked_for) = asked_for {
        let request = facts.request.as_ref().map(|request| by(&request.command));
        let request = request.unwrap_or_else(|| format!("command {}", asked_for.command));
        told.because(match asked_for.to {
            Some(to) => format!("it was shifted to {to} by {request}"),
            None => format!("skipped by {request}"),
        });
    } else if due > slot {
        told.because(format!("jitter: due {} after its slot", short(due.since(slot))));
    }
    told.because(match (&facts.pause, newest.paused) {
        (Some(found), Some(_)) => Some(pause(found)),
        (None, Some(since)) => Some(format!("the job is paused since {since}")),
        (_, None) => None,
    });
    if told.outcome == Outcome::WillRun {
        told.because(prevents(facts));
    }
    told
}

/// What could still keep a coming slot from firing.
fn prevents(facts: &Facts<'_>) -> String {
    let definition = facts.newest.definition.as_ref();
    let overlap = definition.is_some_and(|it| it.overlap == Overlap::Skip);
    let live = facts.before.as_ref().filter(|before| overlap && before.ended.is_none());
    match live {
        Some(before) => format!(
            "{} is live: should it still be then, the slot is skipped (overlap: skip)",
            which_run(before)
        ),
        None if overlap => {
            "an edit, a pause, a delete, or a run that is live then (overlap: skip) would prevent it".to_owned()
        }
        None => "an edit, a pause or a delete would prevent it".to_owned(),
    }
}
