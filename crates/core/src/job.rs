//! One job, as a fold of its events.
//!
//! Invariant: `decided_through` only rises within a state: a slot at or before it has, or has had, its outcome, or
//! is held.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use cronstream_schemas::event::JobState;
use cronstream_schemas::time::Timestamp;

use crate::calendar::Calendars;
use crate::overrides;
use crate::plan::Plan;
use crate::shared::Shared;

/// A job and what it owes.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its newest state; a deleted job keeps its tombstone.
    pub state: Arc<JobState>,
    /// Its schedule; absent when it is deleted, or defined by a version whose calendar this one cannot read.
    pub plan: Option<Plan>,
    /// Slots up to here are decided.
    pub decided_through: Timestamp,
    /// When the last run of a slot ended, by the broker's clock.
    pub(crate) ended: Timestamp,
    /// How many runs of slots are live.
    pub(crate) running: u32,
    /// Where the leader's due index has it.
    pub(crate) indexed: Option<Timestamp>,
    /// The hash of its id, once a table has it.
    pub(crate) hash: u32,
}

impl Job {
    /// A job from its first state.
    #[must_use]
    pub fn new(state: &Arc<JobState>, calendars: &Calendars) -> Self {
        Self {
            state: Arc::clone(state),
            plan: compile(state, calendars),
            decided_through: state.effective_after,
            ended: Timestamp::MIN,
            running: 0,
            indexed: None,
            hash: 0,
        }
    }

    /// Takes a newer state; an older one changes nothing.
    pub fn apply_state(&mut self, state: &Arc<JobState>, calendars: &Calendars) {
        // The same command twice is a state that a decision has moved on.
        let newer = |state: &JobState| (state.command, state.effective_after);
        if newer(state) <= newer(&self.state) {
            return;
        }
        self.decided_through = state.effective_after;
        self.plan = compile(state, calendars);
        self.state = Arc::clone(state);
    }

    /// Goes by other calendars from here on; what is decided stays decided.
    pub fn plan_again(&mut self, calendars: &Calendars) {
        self.plan = compile(&self.state, calendars);
    }

    /// Takes what other jobs have as well from where it is kept.
    pub(crate) fn share(&mut self, shared: &mut Shared) {
        if let Some(plan) = &mut self.plan {
            plan.share(shared);
        }
    }

    /// Notes that slots up to `through` of this incarnation are decided. The outcome of a slot that was decided ahead
    /// says nothing of those before it.
    pub fn decide_through(&mut self, through: Timestamp) {
        if !overrides::is_done(&self.state.overrides, through) {
            self.decided_through = self.decided_through.max(through);
        }
    }

    /// Whether the name is in use.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.state.definition.is_none()
    }

    /// Whether a calendar that it names is not known.
    pub(crate) fn misses_calendar(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.missing_calendar().is_some())
    }

    /// The plan, and the instant behind which its slots are undecided when everything due up to `position` is
    /// decided. None for a deleted job, and while a run is live whose end a fixed delay counts from.
    #[must_use]
    pub fn undecided(&self, position: Timestamp) -> Option<(Cow<'_, Plan>, Timestamp)> {
        let plan = self.plan.as_ref()?;
        let passed = position.minus(plan.jitter());
        if !plan.is_fixed_delay() {
            return Some((Cow::Borrowed(plan), self.decided_through.max(passed)));
        }
        if self.running > 0 {
            return None;
        }
        let base = self.decided_through.max(self.ended);
        let rebased = plan.rebased(base);
        let after = if self.has_vanished(plan, passed) { passed } else { base };
        Some((Cow::Owned(rebased), after))
    }

    /// Whether the records are gone that a fixed delay counts from. A run's end may be folded when the position is far
    /// beyond the slot that it brings about, so only the job's own records decide; they vanish when nobody works for
    /// as long as they are kept, and then the position does. It moves: the slots stay where the delay has them when it
    /// is counted on from the last record.
    fn has_vanished(&self, plan: &Plan, passed: Timestamp) -> bool {
        let base = self.decided_through;
        let is_first = base.max(self.ended) == self.state.effective_after;
        is_first && plan.rebased(base).next(base).is_some_and(|first| first <= passed)
    }

    /// The last slot that is decided, when everything due up to `position` is.
    #[must_use]
    pub(crate) fn last_decided(&self, position: Timestamp) -> Timestamp {
        let Some(plan) = &self.plan else { return self.decided_through };
        let passed = position.minus(plan.jitter());
        let through = passed.plus(Duration::from_millis(1));
        let last = match (plan.is_fixed_delay(), self.has_vanished(plan, passed)) {
            (true, true) => plan.rebased(self.decided_through).prev(through),
            (true, false) => None,
            (false, _) => plan.prev(through),
        };
        last.map_or(self.decided_through, |last| last.max(self.decided_through))
    }

    /// The next slot to decide, when everything due up to `position` is decided; none while paused or deleted.
    #[must_use]
    pub fn next_slot(&self, position: Timestamp) -> Option<Timestamp> {
        if self.state.paused.is_some() {
            return None;
        }
        let (plan, after) = self.undecided(position)?;
        overrides::next(&self.state.overrides, &plan, after)
    }

    /// When the next slot to decide is due, when everything due up to `position` is decided.
    #[must_use]
    pub fn next_due(&self, position: Timestamp) -> Option<Timestamp> {
        let jitter = self.plan.as_ref()?.jitter();
        let slot = self.next_slot(position)?;
        Some(overrides::due(&self.state.overrides, slot, slot.plus(jitter)))
    }
}

fn compile(state: &JobState, calendars: &Calendars) -> Option<Plan> {
    let definition = state.definition.as_ref()?;
    Plan::compile(definition, &state.job, state.anchor, calendars).ok()
}
