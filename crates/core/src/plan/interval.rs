//! Slots at equal distances, as far as they are open.
//!
//! Invariant: the slots are `first`, `first + step`, `first + 2 × step`, … to the millisecond, without those that
//! are not open. Counting walks the stretches that are open, never the slots.

use cronstream_schemas::time::Timestamp;

use crate::schedule::Open;

/// Up to so many slots are looked at one by one: that is quicker than to count them by stretches.
const WALK_MAX: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Interval {
    first: i64,
    /// Never zero.
    step: i64,
}

impl Interval {
    pub(super) fn new(first: Timestamp, step_ms: u64) -> Self {
        let step = i64::try_from(step_ms).unwrap_or(i64::MAX).max(1);
        Self { first: first.as_millis(), step }
    }

    /// The same distances, from one step after `base`.
    pub(super) fn after(self, base: Timestamp) -> Self {
        Self { first: base.as_millis().saturating_add(self.step), ..self }
    }

    pub(super) fn next(self, after: i64, open: Option<&Open>) -> Option<i64> {
        let mut after = after;
        loop {
            let found = self.step_after(after)?;
            let Some(open) = open.filter(|open| !open.contains(found)) else {
                return Some(found);
            };
            after = open.next(found)? - 1;
        }
    }

    pub(super) fn prev(self, before: i64, open: Option<&Open>) -> Option<i64> {
        let mut before = before;
        loop {
            let found = self.step_before(before)?;
            let Some(open) = open.filter(|open| !open.contains(found)) else {
                return Some(found);
            };
            before = open.prev(found)? + 1;
        }
    }

    /// The slots after `after`, up to and with `through`.
    pub(super) fn count(self, after: i64, through: i64, open: Option<&Open>) -> u64 {
        let all = self.steps_through(through).saturating_sub(self.steps_through(after));
        let Some(open) = open.filter(|_| all > 0) else { return all };
        if all <= WALK_MAX {
            let next = |after: i64| self.next(after, Some(open)).filter(|slot| *slot <= through);
            return std::iter::successors(next(after), |slot| next(*slot)).count() as u64;
        }
        let stretches = open.stretches(after.max(self.first - 1) + 1, through + 1);
        stretches.map(|(from, to)| self.steps_through(to - 1) - self.steps_through(from - 1)).sum()
    }

    fn step_after(self, after: i64) -> Option<i64> {
        let steps = i64::try_from(self.steps_through(after)).ok()?;
        let found = self.first.checked_add(self.step.checked_mul(steps)?)?;
        (found <= Timestamp::MAX.as_millis()).then_some(found)
    }

    fn step_before(self, before: i64) -> Option<i64> {
        let steps = i64::try_from(self.steps_through(before - 1)).ok()?;
        (steps > 0).then(|| self.first + self.step * (steps - 1))
    }

    /// How many steps there are up to and with `at`.
    fn steps_through(self, at: i64) -> u64 {
        if at < self.first { 0 } else { ((at - self.first) / self.step) as u64 + 1 }
    }
}
