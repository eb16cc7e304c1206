//! Why a job did, or did not, run at an instant: one total function over what is known of it.
//!
//! Invariant: pure. Every outcome has a sentence that says what happened and reasons that say why; what is not known is
//! said to be not known.

use std::time::Duration;

use cronstream_core::plan::Plan;
use cronstream_schemas::event::{HeldReason, SkipReason};
use cronstream_schemas::id::{Epoch, Incarnation, Revision, RunId};
use cronstream_schemas::name::Name;
use cronstream_schemas::time::Timestamp;

use super::facts::{Facts, Record, slot_meant, slot_of};
use super::{absent, coming, ran, skipped};
use crate::clock_changes;

/// What became of the instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A run began when it was due.
    Ran,
    /// A run began late.
    RanLate,
    /// It has fired, and no executor has started it.
    Waiting,
    /// It has fired, and the run ended before any executor started it.
    NeverStarted,
    /// It did not fire.
    Skipped(SkipReason),
    /// It may not fire yet.
    Held(HeldReason),
    /// It is to come.
    WillRun,
    /// It is to come and, as things are, does not fire.
    WillNotRun,
    /// The job has no slot then.
    NoSlot,
    /// The job did not exist.
    NoJob,
    /// It is past and not decided yet.
    Undecided,
    /// What became of it is no longer kept.
    NotKept,
}

/// Who decided, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leader {
    /// The node, where the event names it.
    pub(super) node: Option<Name>,
    /// Its term.
    pub(super) epoch: Option<Epoch>,
    /// Its clock.
    pub(super) at: Timestamp,
}

/// What happened, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Explanation {
    /// What became of it.
    pub(super) outcome: Outcome,
    /// The slot that is meant.
    pub(super) slot: Option<Timestamp>,
    /// What happened, in a sentence.
    pub(super) summary: String,
    /// Why, and what else is worth knowing.
    pub(super) because: Vec<String>,
    /// The revision in force then.
    pub(super) revision: Option<(Revision, Incarnation)>,
    /// The run.
    pub(super) run: Option<RunId>,
    /// Who decided.
    pub(super) leader: Option<Leader>,
    /// How much later than its slot the run began.
    pub(super) late: Option<Duration>,
    /// The slots right before and after the instant.
    pub(super) nearest: (Option<Timestamp>, Option<Timestamp>),
}

impl Explanation {
    pub(super) fn new(outcome: Outcome, summary: impl Into<String>) -> Self {
        Self {
            outcome,
            slot: None,
            summary: summary.into(),
            because: Vec::new(),
            revision: None,
            run: None,
            leader: None,
            late: None,
            nearest: (None, None),
        }
    }

    /// Adds a reason, where there is one.
    pub(super) fn because(&mut self, reason: impl Into<Option<String>>) {
        self.because.extend(reason.into());
    }
}

/// The plan of the state in force then.
pub(super) fn plan_of(facts: &Facts<'_>) -> Option<Plan> {
    let state = facts.then?;
    let definition = state.definition.as_ref()?;
    Plan::compile(definition, &state.job, state.anchor, facts.calendars).ok()
}

/// Explains an instant.
pub(super) fn explain(facts: &Facts<'_>) -> Explanation {
    let plan = plan_of(facts);
    let own = match &facts.record {
        Record::Fired(fires) => fires.first().and_then(|it| slot_of(&it.what)),
        Record::Held(held) => Some(held.what.slot),
        Record::Nothing | Record::Skipped(_) => None,
    };
    let slot = own.or_else(|| slot_meant(plan.as_ref()?, facts.asked));
    let mut explanation = match (&facts.record, slot) {
        (Record::Fired(fires), _) => ran::explain(facts, fires, plan.as_ref()),
        (Record::Skipped(skipped), _) => skipped::explain(facts, skipped, slot),
        (Record::Held(held), _) => coming::held(facts, held),
        (Record::Nothing, Some(slot)) => coming::explain(facts, slot, plan.as_ref()),
        (Record::Nothing, None) => absent::explain(facts, plan.as_ref()),
    };
    explanation.slot = slot;
    if let Some(slot) = slot {
        moved_by_the_clock(&mut explanation, facts, slot);
    }
    if explanation.revision.is_none() {
        explanation.revision = facts.then.map(|state| (state.revision, state.incarnation));
    }
    if let Some(plan) = plan.filter(|plan| !plan.is_fixed_delay()) {
        explanation.nearest = absent::nearest(facts, &plan, slot.unwrap_or(facts.asked));
    }
    explanation
}

/// Says what a clock change does to the slot, where it does something.
fn moved_by_the_clock(told: &mut Explanation, facts: &Facts<'_>, slot: Timestamp) {
    let Some(state) = facts.then else { return };
    let Some(definition) = &state.definition else { return };
    let stretch = (slot.minus(absent::NEAR), slot.plus(absent::NEAR));
    for change in clock_changes::of(&state.job, definition, facts.calendars, stretch) {
        told.because(change.of(slot).map(|words| format!("a clock change: {words}")));
    }
}
