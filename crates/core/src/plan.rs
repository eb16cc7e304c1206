//! A job's slots: the compiled form of its schedule.
//!
//! Invariant: slots are strictly increasing, and `next`, `prev` and `count` agree on them.

use cronstream_schemas::definition::Schedule;
use cronstream_schemas::duration::Span;
use cronstream_schemas::fault::Fault;
use cronstream_schemas::time::Timestamp;

use crate::schedule::{Cron, Zone};

/// When a job is due, compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// A cron expression in a zone.
    Cron(Cron, Zone),
    /// A fixed interval from an anchor; the first slot is one interval after it.
    Every {
        /// What the interval counts from.
        anchor: Timestamp,
        /// The interval; never zero.
        interval: Span,
    },
    /// One slot.
    At(Timestamp),
}

impl Plan {
    /// Compiles a schedule.
    ///
    /// # Errors
    /// One fault for the expression and one for the zone, where they are wrong.
    pub fn compile(
        schedule: &Schedule,
        time_zone: &str,
        anchor: Timestamp,
    ) -> Result<Self, Vec<Fault>> {
        let zone = Zone::get(time_zone).map_err(|e| {
            let expected = "an IANA name such as \"Europe/Berlin\"";
            Fault::new("$.time_zone", time_zone, e.to_string(), expected)
        });
        match (schedule, zone) {
            (Schedule::Cron(expr), zone) => match (Cron::parse(expr), zone) {
                (Ok(cron), Ok(zone)) => Ok(Self::Cron(cron, zone)),
                (Err(e), zone) => {
                    let problem = format!("{} at byte {}", e.message, e.position);
                    let fault = Fault::new("$.schedule.cron", &e.value, problem, e.hint);
                    Err(std::iter::once(fault).chain(zone.err()).collect())
                }
                (Ok(_), Err(fault)) => Err(vec![fault]),
            },
            (Schedule::Every(_) | Schedule::At(_), Err(fault)) => Err(vec![fault]),
            (Schedule::Every(interval), Ok(_)) => {
                Ok(Self::Every { anchor, interval: Span::from_millis(interval.as_millis().max(1)) })
            }
            (Schedule::At(at), Ok(_)) => Ok(Self::At(*at)),
        }
    }

    /// The first slot after `after`.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Cron(cron, zone) => {
                cron.next(*zone, after.as_millis()).map(Timestamp::from_millis)
            }
            Self::Every { anchor, interval } => {
                let passed = after.since(*anchor).as_millis() / u128::from(interval.as_millis());
                slot(*anchor, *interval, passed + 1)
            }
            Self::At(at) => (*at > after).then_some(*at),
        }
    }

    /// The last slot before `before`.
    #[must_use]
    pub fn prev(&self, before: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Cron(cron, zone) => {
                cron.prev(*zone, before.as_millis()).map(Timestamp::from_millis)
            }
            Self::Every { anchor, interval } => {
                let since = before.since(*anchor).as_millis().checked_sub(1)?;
                let number = since / u128::from(interval.as_millis());
                if number == 0 { None } else { slot(*anchor, *interval, number) }
            }
            Self::At(at) => (*at < before).then_some(*at),
        }
    }

    /// How many slots lie after `after`, up to and including `through`.
    #[must_use]
    pub fn count(&self, after: Timestamp, through: Timestamp) -> u64 {
        match self {
            Self::Cron(cron, zone) => cron.count(*zone, after.as_millis(), through.as_millis()),
            Self::Every { anchor, interval } => {
                let passed = |at: Timestamp| {
                    at.since(*anchor).as_millis() / u128::from(interval.as_millis())
                };
                u64::try_from(passed(through).saturating_sub(passed(after))).unwrap_or(u64::MAX)
            }
            Self::At(at) => u64::from(*at > after && *at <= through),
        }
    }
}

fn slot(anchor: Timestamp, interval: Span, number: u128) -> Option<Timestamp> {
    let offset = number.checked_mul(u128::from(interval.as_millis()))?;
    let millis = anchor.as_millis().checked_add(i64::try_from(offset).ok()?)?;
    (millis <= Timestamp::MAX.as_millis()).then(|| Timestamp::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn an_interval_counts_from_its_anchor() {
        let plan = Plan::Every { anchor: at(1_000), interval: Span::from_millis(300) };
        assert_eq!(plan.next(at(0)), Some(at(1_300)));
        assert_eq!(plan.next(at(1_000)), Some(at(1_300)));
        assert_eq!(plan.next(at(1_300)), Some(at(1_600)));
        assert_eq!(plan.prev(at(1_300)), None);
        assert_eq!(plan.prev(at(1_301)), Some(at(1_300)));
        assert_eq!(plan.count(at(0), at(1_900)), 3);
        assert_eq!(plan.count(at(1_300), at(1_900)), 2);
        assert_eq!(plan.next(Timestamp::MAX), None);
    }

    #[test]
    fn next_prev_and_count_agree() {
        let cron = Plan::Cron(Cron::parse("*/7 * * * *").unwrap(), Zone::UTC);
        let every = Plan::Every { anchor: at(5), interval: Span::from_millis(61_007) };
        for plan in [cron, every, Plan::At(at(100_000))] {
            let (mut slot, mut slots) = (Timestamp::MIN, 0);
            while let Some(next) = plan.next(slot).filter(|next| *next <= at(7_200_000)) {
                assert!(next > slot);
                slots += 1;
                assert_eq!(plan.prev(next.plus(std::time::Duration::from_millis(1))), Some(next));
                assert_eq!(plan.count(Timestamp::MIN, next), slots, "{plan:?}");
                slot = next;
            }
        }
    }
}
