//! The misfire rule: what becomes of slots that are decided late.
//!
//! ```text
//!   after             now - window        now - threshold       now
//!   ──┼────────────────────┼─────────────────────┼───────────────┼──►
//!     │      skipped       │ the latest: fire_once │ late, and fire│
//!     │                    │ the latest limit: fire_all            │
//! ```
//!
//! Where runs may not overlap, the late slots stand in the row behind those of a catch-up.
//!
//! Invariant: every slot after `after` up to `through` is in exactly one of `skipped`, `catch_up` and `due`, in this
//! order of time; the skipped ones are counted, never walked.

use std::time::Duration;

use cronstream_schemas::definition::{JobDefinition, Misfire, MisfirePolicy};
use cronstream_schemas::time::Timestamp;

use crate::plan::Plan;

/// The oldest missed slot that may fire, unless the job says otherwise; for `fire_once` its period if that is shorter.
pub const WINDOW_MAX: Duration = Duration::from_secs(24 * 3_600);
/// The most slots that are only late at once. Older ones are missed, even within the threshold.
pub const LATE_MAX: usize = 1_000;

/// Slots that share an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub first: Timestamp,
    /// The last.
    pub last: Timestamp,
    /// How many.
    pub count: u64,
}

/// What a job owes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Owed {
    /// Missed slots that do not fire.
    pub skipped: Option<Range>,
    /// Missed slots that fire later, paced and in their order; more than one, and at most the job's `limit`.
    pub catch_up: Option<Range>,
    /// Slots that fire unless another policy forbids it, oldest first; at most [`LATE_MAX`] and one missed one.
    pub due: Vec<Timestamp>,
}

impl Owed {
    /// The same, with the slots that are only late behind the missed ones of a catch-up: where runs may not overlap,
    /// only a row gives each of them its turn.
    #[must_use]
    pub fn in_a_row(mut self) -> Self {
        if let (Some(range), Some(last)) = (&mut self.catch_up, self.due.last()) {
            range.last = *last;
            range.count += self.due.len() as u64;
            self.due.clear();
        }
        self
    }
}

const TICK: Duration = Duration::from_millis(1);

/// Applies the rule at `now` to the slots in (`after`, `through`]. A slot's age counts from its due instant: it is
/// `now` less the slot and the job's jitter.
#[must_use]
pub fn owed(
    plan: &Plan,
    misfire: &Misfire,
    after: Timestamp,
    through: Timestamp,
    now: Timestamp,
) -> Owed {
    let late_after = missed_through(plan, misfire, now);
    let now = now.minus(plan.jitter());
    let Some(first) = plan.next(after).filter(|first| *first <= through) else {
        return Owed::default();
    };
    let late = if first > late_after && plan.next(first).is_none_or(|second| second > through) {
        vec![first]
    } else {
        latest(plan, after.max(late_after), through, LATE_MAX)
    };
    if late.first() == Some(&first) {
        return Owed { due: late, ..Owed::default() };
    }
    let before = late.first().map_or(through.plus(TICK), |late| *late);
    let missed = plan.prev(before).unwrap_or(first);
    let caught_up = match misfire.policy {
        MisfirePolicy::Skip => None,
        // The latest of all slots fires already.
        MisfirePolicy::FireOnce if !late.is_empty() => None,
        MisfirePolicy::FireOnce => {
            let fires = now.since(missed) <= fire_within(plan, misfire, missed);
            fires.then_some(Range { first: missed, last: missed, count: 1 })
        }
        MisfirePolicy::FireAll => {
            let oldest = now.minus(fire_within(plan, misfire, missed)).minus(TICK);
            let limit = usize::try_from(misfire.limit).unwrap_or(usize::MAX);
            let slots = latest(plan, after.max(oldest), missed, limit);
            let first = slots.first().copied();
            first.map(|first| Range { first, last: missed, count: slots.len() as u64 })
        }
    };
    let skipped_through = caught_up.map_or(missed, |range| range.first.minus(TICK));
    let one = caught_up.filter(|range| range.count == 1).map(|range| range.last);
    Owed {
        skipped: range(plan, after, skipped_through),
        catch_up: caught_up.filter(|range| range.count > 1),
        due: one.into_iter().chain(late).collect(),
    }
}

/// The last instant whose slot, undecided at `now`, is missed and not only late.
pub(crate) fn missed_through(plan: &Plan, misfire: &Misfire, now: Timestamp) -> Timestamp {
    now.minus(plan.jitter()).minus(misfire.threshold.to_duration()).minus(TICK)
}

/// The latest slots in (`after`, `through`], at most `limit`, oldest first.
fn latest(plan: &Plan, after: Timestamp, through: Timestamp, limit: usize) -> Vec<Timestamp> {
    let prev = |before: Timestamp| plan.prev(before).filter(|slot| *slot > after);
    let slots = std::iter::successors(prev(through.plus(TICK)), |slot| prev(*slot));
    let mut slots: Vec<Timestamp> = slots.take(limit).collect();
    slots.reverse();
    slots
}

/// How old a missed slot may be and still fire by the job's policy: never less than the threshold.
#[must_use]
pub fn fire_within(plan: &Plan, misfire: &Misfire, slot: Timestamp) -> Duration {
    let window = match (misfire.policy, misfire.window) {
        (MisfirePolicy::Skip, _) => Duration::ZERO,
        (MisfirePolicy::FireOnce | MisfirePolicy::FireAll, Some(window)) => window.to_duration(),
        (MisfirePolicy::FireAll, None) => WINDOW_MAX,
        (MisfirePolicy::FireOnce, None) => {
            let period = plan.next(slot).map_or(WINDOW_MAX, |next| next.since(slot));
            period.min(WINDOW_MAX)
        }
    };
    window.max(misfire.threshold.to_duration())
}

/// What becomes of a job's missed slots. A fixed delay has no backlog: each run moves what comes after it.
#[must_use]
pub fn in_effect(definition: &JobDefinition, plan: &Plan) -> Misfire {
    match definition.misfire.policy {
        MisfirePolicy::FireAll if plan.is_fixed_delay() => {
            Misfire { policy: MisfirePolicy::FireOnce, ..definition.misfire }
        }
        MisfirePolicy::FireAll | MisfirePolicy::FireOnce | MisfirePolicy::Skip => {
            definition.misfire
        }
    }
}

/// All slots in (`after`, `through`] as one range.
#[must_use]
pub fn range(plan: &Plan, after: Timestamp, through: Timestamp) -> Option<Range> {
    let last = plan.prev(through.plus(TICK)).filter(|last| *last > after)?;
    let first = plan.next(after)?;
    Some(Range { first, last, count: plan.count(after, through) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::Calendars;
    use cronstream_schemas::definition::Draft;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn plan(schedule: &str) -> Plan {
        let body = format!(r#"{{"task":"t","schedule":{schedule}}}"#);
        let definition = Draft::decode(body.as_bytes()).finish().unwrap();
        let anchor = at("2026-01-01T00:00:00Z");
        Plan::compile(&definition, &"a/b".parse().unwrap(), anchor, &Calendars::default()).unwrap()
    }

    fn cron(expr: &str) -> Plan {
        plan(&format!(r#"{{"cron":"{expr}"}}"#))
    }

    fn every(seconds: u64) -> Plan {
        plan(&format!(r#"{{"every":"{seconds}s"}}"#))
    }

    fn check(
        plan: &Plan,
        after: &str,
        now: &str,
        skipped: Option<(&str, &str, u64)>,
        due: &[&str],
    ) {
        let now = at(now);
        let skipped =
            skipped.map(|(first, last, count)| Range { first: at(first), last: at(last), count });
        let due = due.iter().map(|slot| at(slot)).collect();
        assert_eq!(
            owed(plan, &Misfire::default(), at(after), now, now),
            Owed { skipped, catch_up: None, due }
        );
    }

    #[test]
    fn an_on_time_slot_is_due_and_nothing_is_skipped() {
        check(
            &cron("* * * * *"),
            "2026-03-01T10:00:00Z",
            "2026-03-01T10:01:00.004Z",
            None,
            &["2026-03-01T10:01:00Z"],
        );
        check(&cron("* * * * *"), "2026-03-01T10:00:00Z", "2026-03-01T10:00:59.999Z", None, &[]);
    }

    #[test]
    fn a_hundred_and_one_missed_minutes_collapse_to_one_fire() {
        check(
            &cron("* * * * *"),
            "2026-03-01T10:00:00Z",
            "2026-03-01T11:41:30Z",
            Some(("2026-03-01T10:01:00Z", "2026-03-01T11:40:00Z", 100)),
            &["2026-03-01T11:41:00Z"],
        );
    }

    #[test]
    fn a_daily_job_missed_by_an_hour_still_runs_that_day() {
        check(
            &cron("30 12 * * *"),
            "2026-03-01T11:30:00Z",
            "2026-03-01T13:30:00Z",
            None,
            &["2026-03-01T12:30:00Z"],
        );
    }

    #[test]
    fn a_weekly_job_missed_by_two_days_is_skipped() {
        check(
            &cron("0 0 * * 1"),
            "2026-03-01T00:00:00Z",
            "2026-03-04T00:00:00Z",
            Some(("2026-03-02T00:00:00Z", "2026-03-02T00:00:00Z", 1)),
            &[],
        );
    }

    #[test]
    fn six_hours_of_a_five_minute_job_leave_one_fire() {
        check(
            &every(300),
            "2026-03-01T00:00:00Z",
            "2026-03-01T06:02:00Z",
            Some(("2026-03-01T00:05:00Z", "2026-03-01T05:55:00Z", 71)),
            &["2026-03-01T06:00:00Z"],
        );
    }

    #[test]
    fn a_thirty_day_outage_of_a_one_second_job_is_counted_and_not_walked() {
        let (after, now) = (at("2026-03-01T00:00:00Z"), at("2026-03-31T00:00:00Z"));
        let owed = owed(&every(1), &Misfire::default(), after, now, now);
        assert_eq!(owed.due.len(), 61);
        assert_eq!(owed.skipped.unwrap().count, 30 * 86_400 - 61);
    }
}
