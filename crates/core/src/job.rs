//! One job, as a fold of its events.
//!
//! Invariant: `decided_through` only rises within a state: a slot at or before it has, or has had, its outcome.

use std::sync::Arc;

use cronstream_schemas::event::JobState;
use cronstream_schemas::time::Timestamp;

use crate::plan::Plan;

/// A job and what it owes.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its newest state; a deleted job keeps its tombstone.
    pub state: Arc<JobState>,
    /// Its schedule; absent when it is deleted, or defined by a version whose calendar this one cannot read.
    pub plan: Option<Plan>,
    /// Slots up to here are decided.
    pub decided_through: Timestamp,
    /// Where the leader's due index has it.
    pub(crate) indexed: Option<Timestamp>,
}

impl Job {
    /// A job from its first state.
    #[must_use]
    pub fn new(state: &Arc<JobState>) -> Self {
        Self {
            state: Arc::clone(state),
            plan: compile(state),
            decided_through: state.effective_after,
            indexed: None,
        }
    }

    /// Takes a newer state; an older one changes nothing.
    pub fn apply_state(&mut self, state: &Arc<JobState>) {
        if state.command <= self.state.command {
            return;
        }
        self.decided_through = state.effective_after;
        self.plan = compile(state);
        self.state = Arc::clone(state);
    }

    /// Notes that slots up to `through` of this incarnation are decided.
    pub fn decide_through(&mut self, through: Timestamp) {
        self.decided_through = self.decided_through.max(through);
    }

    /// Whether the name is in use.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.state.definition.is_none()
    }

    /// The next slot to decide, when everything up to `position` is decided; none while paused or deleted.
    #[must_use]
    pub fn next_due(&self, position: Timestamp) -> Option<Timestamp> {
        if self.state.paused.is_some() {
            return None;
        }
        self.plan.as_ref()?.next(self.decided_through.max(position))
    }
}

fn compile(state: &JobState) -> Option<Plan> {
    let definition = state.definition.as_ref()?;
    Plan::compile(&definition.schedule, &definition.time_zone, state.anchor).ok()
}
