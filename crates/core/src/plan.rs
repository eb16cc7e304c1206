//! A job's slots: the compiled form of its schedule.
//!
//! ```text
//!   cron, cron, …  ─┐
//!   every, delay   ─┼─ days of calendars ─ windows of the day ─ start, end ─► slots ─ + jitter ─► due instants
//!   at             ─┘
//! ```
//!
//! Invariant: slots are strictly increasing, and `next`, `prev` and `count` agree on them. None of the three walks
//! slots; what is looked at one by one is at most days, windows and clock changes.

mod compile;
mod interval;

use std::sync::Arc;
use std::time::Duration;

use cronstream_schemas::calendar::CalendarId;
use cronstream_schemas::definition::JobDefinition;
use cronstream_schemas::fault::Fault;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

pub(crate) use self::compile::{expression_path, unreadable, zone};
use self::interval::Interval;
use crate::calendar::Calendars;
use crate::schedule::{Cron, Open, Rules, Slots, Union, Zone};
use crate::shared::Shared;

/// When a job is due, compiled. Cheap to clone; what is rare is shared.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    kind: Kind,
    jitter_ms: u32,
    limits: Option<Arc<Limits>>,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// One expression on any day.
    Cron(Arc<Cron>, Zone, Rules),
    Union(Arc<Union>),
    Every(Interval),
    FixedDelay(Interval),
    /// None when the calendars or the windows leave it out.
    At(Option<i64>),
}

/// What few jobs have.
#[derive(Debug, PartialEq, Default)]
struct Limits {
    start: Timestamp,
    end: Option<Timestamp>,
    missing: Option<CalendarId>,
    /// When the slots of an interval count; always where there is none.
    open: Option<Open>,
}

impl Plan {
    /// Compiles the schedule of a definition, with everything that filters and delays its slots. `anchor` is when
    /// its interval was first defined. A calendar that is not known is no fault: see [`Self::missing_calendar`].
    ///
    /// # Errors
    /// One fault for each expression and for the zone, where they are wrong.
    pub fn compile(
        definition: &JobDefinition,
        job: &JobId,
        anchor: Timestamp,
        calendars: &Calendars,
    ) -> Result<Self, Vec<Fault>> {
        compile::compile(definition, job, anchor, calendars)
    }

    /// The first slot after `after`.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let mut after = after.as_millis();
        let Some(limits) = &self.limits else {
            return self.kind.next(after, None).map(Timestamp::from_millis);
        };
        after = after.max(limits.start.as_millis() - 1);
        let slot = self.kind.next(after, limits.open.as_ref()).map(Timestamp::from_millis)?;
        limits.end.is_none_or(|end| slot < end).then_some(slot)
    }

    /// The last slot before `before`.
    #[must_use]
    pub fn prev(&self, before: Timestamp) -> Option<Timestamp> {
        let Some(limits) = &self.limits else {
            return self.kind.prev(before.as_millis(), None).map(Timestamp::from_millis);
        };
        let before = limits.end.map_or(before, |end| before.min(end));
        let slot =
            self.kind.prev(before.as_millis(), limits.open.as_ref()).map(Timestamp::from_millis)?;
        (slot >= limits.start).then_some(slot)
    }

    /// How many slots lie after `after`, up to and including `through`.
    #[must_use]
    pub fn count(&self, after: Timestamp, through: Timestamp) -> u64 {
        let (mut after, mut through) = (after.as_millis(), through.as_millis());
        if let Some(limits) = &self.limits {
            after = after.max(limits.start.as_millis() - 1);
            through = limits.end.map_or(through, |end| through.min(end.as_millis() - 1));
        }
        let open = self.limits.as_ref().and_then(|limits| limits.open.as_ref());
        if after < through { self.kind.count(after, through, open) } else { 0 }
    }

    /// How long after its slot the job is due: the same for all its slots, and stable by its name.
    #[must_use]
    pub fn jitter(&self) -> Duration {
        Duration::from_millis(self.jitter_ms.into())
    }

    /// The first calendar that the job names and nobody knows: its slots are then those of the plan without
    /// calendars, and are held.
    #[must_use]
    pub fn missing_calendar(&self) -> Option<&CalendarId> {
        self.limits.as_ref()?.missing.as_ref()
    }

    /// The expressions, in their order.
    pub(crate) fn crons(&self) -> impl Iterator<Item = &Cron> {
        let (one, parts) = match &self.kind {
            Kind::Cron(cron, _, _) => (Some(cron.as_ref()), None),
            Kind::Union(union) => (None, Some(&union.parts)),
            Kind::Every(_) | Kind::FixedDelay(_) | Kind::At(_) => (None, None),
        };
        one.into_iter().chain(parts.into_iter().flatten().map(|part| &part.cron))
    }

    /// Takes what other jobs have as well from where it is kept.
    pub(crate) fn share(&mut self, shared: &mut Shared) {
        match &mut self.kind {
            Kind::Cron(cron, _, _) => shared.crons.share(cron),
            Kind::Union(union) => shared.unions.share(union),
            Kind::Every(_) | Kind::FixedDelay(_) | Kind::At(_) => {}
        }
    }

    /// Whether the slots count from the end of the run before.
    #[must_use]
    pub fn is_fixed_delay(&self) -> bool {
        matches!(self.kind, Kind::FixedDelay(_))
    }

    /// The plan with its delay counted from `base`; any other than a fixed delay stays as it is.
    #[must_use]
    pub fn rebased(&self, base: Timestamp) -> Self {
        let kind = match &self.kind {
            Kind::FixedDelay(interval) => Kind::FixedDelay(interval.after(base)),
            Kind::Cron(..) | Kind::Union(_) | Kind::Every(_) | Kind::At(_) => self.kind.clone(),
        };
        Self { kind, ..self.clone() }
    }
}

impl Kind {
    fn next(&self, after: i64, open: Option<&Open>) -> Option<i64> {
        match self {
            Self::Cron(cron, zone, rules) => slots(cron, *zone, *rules).next(after),
            Self::Union(union) => union.next(after),
            Self::Every(interval) | Self::FixedDelay(interval) => interval.next(after, open),
            Self::At(at) => at.filter(|at| *at > after),
        }
    }

    fn prev(&self, before: i64, open: Option<&Open>) -> Option<i64> {
        match self {
            Self::Cron(cron, zone, rules) => slots(cron, *zone, *rules).prev(before),
            Self::Union(union) => union.prev(before),
            Self::Every(interval) | Self::FixedDelay(interval) => interval.prev(before, open),
            Self::At(at) => at.filter(|at| *at < before),
        }
    }

    fn count(&self, after: i64, through: i64, open: Option<&Open>) -> u64 {
        match self {
            Self::Cron(cron, zone, rules) => slots(cron, *zone, *rules).count(after, through),
            Self::Union(union) => union.count(after, through),
            Self::Every(interval) | Self::FixedDelay(interval) => {
                interval.count(after, through, open)
            }
            Self::At(at) => u64::from(at.is_some_and(|at| at > after && at <= through)),
        }
    }
}

fn slots(cron: &Cron, zone: Zone, rules: Rules) -> Slots<'_> {
    Slots { cron, zone, rules, days: None, shift: None }
}

#[cfg(test)]
mod tests {
    use cronstream_schemas::definition::Draft;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn plan(fields: &str, anchor: i64) -> Plan {
        let body = format!(r#"{{"task":"t",{fields}}}"#);
        let definition = Draft::decode(body.as_bytes()).finish().unwrap();
        Plan::compile(&definition, &"a/b".parse().unwrap(), at(anchor), &Calendars::default())
            .unwrap()
    }

    #[test]
    fn an_interval_counts_from_its_anchor() {
        let plan = plan(r#""schedule":{"every":"300ms"}"#, 1_000);
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
    fn a_plan_is_small() {
        assert!(size_of::<Option<Plan>>() <= 40, "{}", size_of::<Option<Plan>>());
    }
}
