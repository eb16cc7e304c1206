//! The misfire rule: what becomes of slots that are decided late.
//!
//! Invariant: every slot after `decided_through` up to `through` is in exactly one of `skipped` and `due`;
//! the skipped ones are counted, never walked.

use std::time::Duration;

use cronstream_schemas::time::Timestamp;

use crate::plan::Plan;

/// A slot up to this old is late and fires (`design.md` §5).
pub const THRESHOLD: Duration = Duration::from_secs(60);
/// The latest missed slot fires when it is at most this old, or its period if that is shorter.
pub const WINDOW_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Slots that are missed for good.
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
    /// Slots that fire unless another policy forbids it, oldest first; at most 61 of them.
    pub due: Vec<Timestamp>,
}

const TICK: Duration = Duration::from_millis(1);

/// Applies the rule at `now` to the slots in (`after`, `through`].
#[must_use]
pub fn owed(plan: &Plan, after: Timestamp, through: Timestamp, now: Timestamp) -> Owed {
    let Some(latest) = plan.prev(through.plus(TICK)).filter(|latest| *latest > after) else {
        return Owed::default();
    };
    let late_after = now.minus(THRESHOLD).minus(TICK);
    let mut due = Vec::new();
    let missed_through = if latest > late_after {
        let mut slot = plan.next(after.max(late_after));
        while let Some(late) = slot.filter(|late| *late <= through) {
            due.push(late);
            slot = plan.next(late);
        }
        late_after
    } else if now.since(latest) <= fire_within(plan, latest) {
        due.push(latest);
        latest.minus(TICK)
    } else {
        latest
    };
    Owed { skipped: range(plan, after, missed_through), due }
}

/// How late the latest slot may be and still fire: its period, at most [`WINDOW_MAX`], at least [`THRESHOLD`].
#[must_use]
pub fn fire_within(plan: &Plan, slot: Timestamp) -> Duration {
    let period = plan.next(slot).map_or(WINDOW_MAX, |next| next.since(slot));
    period.min(WINDOW_MAX).max(THRESHOLD)
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
    use crate::schedule::{Cron, Zone};
    use cronstream_schemas::duration::Span;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn cron(expr: &str) -> Plan {
        Plan::Cron(Cron::parse(expr).unwrap(), Zone::UTC)
    }

    fn every(seconds: u64) -> Plan {
        Plan::Every { anchor: at("2026-01-01T00:00:00Z"), interval: Span::from_secs(seconds) }
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
        assert_eq!(owed(plan, at(after), now, now), Owed { skipped, due });
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
        let owed = owed(&every(1), after, now, now);
        assert_eq!(owed.due.len(), 61);
        assert_eq!(owed.skipped.unwrap().count, 30 * 86_400 - 61);
    }
}
