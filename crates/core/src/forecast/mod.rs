//! The load to come: how many slots of how many jobs are due in each minute, and where they collide.
//!
//! ```text
//!   jobs ─ alike ones as one group ─► slots walked, or counted by minute ─► load
//!                                       busiest minutes, by second ◄── groups
//! ```
//!
//! Invariant: memory grows with the minutes asked for and with the groups of jobs that differ in their slots,
//! never with slots; a group costs at most one step for each minute.

mod advice;

use std::collections::HashMap;
use std::time::Duration;

use cronstream_schemas::definition::{JobDefinition, Schedule, Terms};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

pub use self::advice::{ADVICE_MAX, Advice, Effect};
use crate::plan::Plan;

/// The longest stretch that is forecast, in minutes: 31 days.
pub const MINUTES_MAX: usize = 31 * 24 * 60;
/// The most names that are kept of jobs whose slots are the same.
pub const NAMES_MAX: usize = 10;

const TICK: Duration = Duration::from_millis(1);
const MINUTE: i64 = 60_000;

/// A stretch of time that cannot be forecast.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StretchError {
    /// It ends before it begins.
    #[error("{to} is not after {from}")]
    Empty {
        /// Its begin.
        from: Timestamp,
        /// Its end.
        to: Timestamp,
    },
    /// It is too long.
    #[error("{minutes} minutes are more than {MINUTES_MAX}, which is 31 days")]
    TooLong {
        /// How long it is.
        minutes: u64,
    },
}

/// How many slots are due, minute by minute.
#[derive(Debug)]
pub struct Forecast {
    from: Timestamp,
    to: Timestamp,
    load: Vec<u64>,
    groups: Vec<Group>,
    known: HashMap<String, usize>,
    jobs: u64,
}

/// Jobs that are due at the same instants.
#[derive(Debug)]
struct Group {
    plan: Plan,
    jobs: u64,
    names: Vec<JobId>,
    /// The one expression that an advice could change, with its dialect.
    expression: Option<advice::Expression>,
    /// Where hash slots would put the jobs.
    draws: advice::Draws,
}

/// A minute in which many slots are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collision {
    /// Where it begins.
    pub minute: Timestamp,
    /// How many slots are due in it.
    pub slots: u64,
    /// Its busiest second.
    pub second: Timestamp,
    /// How many slots are due in that second.
    pub in_second: u64,
    /// How many jobs are due in the minute.
    pub jobs: u64,
    /// Some of them, those of the largest groups first.
    pub names: Vec<JobId>,
}

impl Forecast {
    /// A forecast of the whole minutes from that of `from` up to `to`.
    ///
    /// # Errors
    /// When there are none, or more than [`MINUTES_MAX`].
    pub fn new(from: Timestamp, to: Timestamp) -> Result<Self, StretchError> {
        let begin = Timestamp::from_millis(from.as_millis() / MINUTE * MINUTE);
        if to <= from {
            return Err(StretchError::Empty { from, to });
        }
        let minutes = to.since(begin).as_millis().div_ceil(60_000);
        let fits = usize::try_from(minutes).ok().filter(|minutes| *minutes <= MINUTES_MAX);
        let Some(count) = fits else {
            let minutes = u64::try_from(minutes).unwrap_or(u64::MAX);
            return Err(StretchError::TooLong { minutes });
        };
        let end = begin.plus(Duration::from_millis(count as u64 * MINUTE.unsigned_abs()));
        Ok(Self {
            from: begin,
            to: end,
            load: vec![0; count],
            groups: Vec::new(),
            known: HashMap::new(),
            jobs: 0,
        })
    }

    /// Adds the slots of a job.
    pub fn add(&mut self, job: &JobId, definition: &JobDefinition, plan: &Plan) {
        self.jobs += 1;
        let key = key(job, definition, plan);
        if let Some(group) = self.known.get(&key).map(|at| &mut self.groups[*at]) {
            group.jobs += 1;
            group.draws.add(job);
            if group.names.len() < NAMES_MAX {
                group.names.push(job.clone());
            }
            return;
        }
        if due(plan, self.from, self.to) == 0 {
            return;
        }
        self.known.insert(key, self.groups.len());
        self.groups.push(Group {
            plan: plan.clone(),
            jobs: 1,
            names: vec![job.clone()],
            expression: advice::Expression::of(definition),
            draws: advice::Draws::of(job),
        });
    }

    /// Counts what was added.
    pub fn count(&mut self) {
        self.load.fill(0);
        for group in &self.groups {
            let jobs = group.jobs;
            each(&group.plan, (self.from, self.to), MINUTE, |at, slots| {
                self.load[at] += slots * jobs;
            });
        }
    }

    /// Where the first minute begins.
    #[must_use]
    pub fn from(&self) -> Timestamp {
        self.from
    }

    /// Where the last minute ends.
    #[must_use]
    pub fn to(&self) -> Timestamp {
        self.to
    }

    /// How many jobs were added.
    #[must_use]
    pub fn jobs(&self) -> u64 {
        self.jobs
    }

    /// How many slots are due in each minute, counted by [`Self::count`].
    #[must_use]
    pub fn load(&self) -> &[u64] {
        &self.load
    }

    /// How many slots are due in all.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.load.iter().sum()
    }

    /// The busiest minutes, at most `count`, the busiest first and of equal ones the earlier.
    #[must_use]
    pub fn collisions(&self, count: usize) -> Vec<Collision> {
        let mut order: Vec<usize> = (0..self.load.len()).filter(|at| self.load[*at] > 0).collect();
        order.sort_by_key(|at| (std::cmp::Reverse(self.load[*at]), *at));
        order.truncate(count);
        order.into_iter().map(|at| self.collision(at)).collect()
    }

    fn minute(&self, at: usize) -> (Timestamp, Timestamp) {
        let begin = self.from.as_millis() + at as i64 * MINUTE;
        (Timestamp::from_millis(begin), Timestamp::from_millis(begin + MINUTE))
    }

    fn collision(&self, at: usize) -> Collision {
        let (minute, end) = self.minute(at);
        let mut seconds = [0; 60];
        let mut there: Vec<&Group> = Vec::new();
        for group in &self.groups {
            let mut slots_there = 0;
            each(&group.plan, (minute, end), 1_000, |second, slots| {
                seconds[second] += slots * group.jobs;
                slots_there += slots;
            });
            if slots_there > 0 {
                there.push(group);
            }
        }
        there.sort_by_key(|group| std::cmp::Reverse(group.jobs));
        let busiest = (0..60).rev().max_by_key(|second| seconds[*second]).unwrap_or(0);
        let names = there.iter().flat_map(|group| &group.names).take(NAMES_MAX);
        Collision {
            minute,
            slots: self.load[at],
            second: minute.plus(Duration::from_secs(busiest as u64)),
            in_second: seconds[busiest],
            jobs: there.iter().map(|group| group.jobs).sum(),
            names: names.cloned().collect(),
        }
    }
}

/// How many slots of a plan are due in `from..to`.
fn due(plan: &Plan, from: Timestamp, to: Timestamp) -> u64 {
    let slot = |at: Timestamp| at.minus(plan.jitter()).minus(TICK);
    plan.count(slot(from), slot(to))
}

/// Hands each stretch of `width` milliseconds of `from..to` in which slots are due to `each`, by its number: slots
/// are walked where they are fewer than the stretches, else counted stretch by stretch.
fn each(
    plan: &Plan,
    (from, to): (Timestamp, Timestamp),
    width: i64,
    mut each: impl FnMut(usize, u64),
) {
    let stretches = ((to.as_millis() - from.as_millis()) / width) as u64;
    let total = due(plan, from, to);
    if total > stretches {
        for at in 0..stretches {
            let begin = Timestamp::from_millis(from.as_millis() + at as i64 * width);
            let slots = due(plan, begin, Timestamp::from_millis(begin.as_millis() + width));
            if slots > 0 {
                each(at as usize, slots);
            }
        }
        return;
    }
    let jitter = plan.jitter();
    let mut slot = if total == 0 { None } else { plan.next(from.minus(jitter).minus(TICK)) };
    while let Some(at) = slot {
        let due = at.plus(jitter);
        if due >= to {
            break;
        }
        // Instants before 1970 do not exist, so a slot may come out before `from`.
        if due >= from {
            each(((due.as_millis() - from.as_millis()) / width) as usize, 1);
        }
        slot = plan.next(at);
    }
}

/// What tells jobs with other slots apart.
fn key(job: &JobId, definition: &JobDefinition, plan: &Plan) -> String {
    let JobDefinition { schedule, terms, .. } = definition;
    let Terms { time_zone, dialect, gap, fold, calendars, start, end, windows, .. } = &**terms;
    // Slots that depend on the job itself: on its name, or on when it was defined.
    let own = match &**schedule {
        Schedule::Cron(all) => all.as_slice().iter().any(|one| advice::has_hash(one)),
        Schedule::Every(_) => start.is_none(),
        Schedule::FixedDelay(_) => true,
        Schedule::At(_) => false,
    };
    let own = own.then_some(job);
    let jitter = plan.jitter();
    format!(
        "{schedule:?} {time_zone} {dialect:?} {gap:?} {fold:?} {calendars:?} {start:?} {end:?} {windows:?} {jitter:?} {own:?}"
    )
}

#[cfg(test)]
mod tests {
    use cronstream_schemas::definition::Draft;

    use super::advice::LOOKED_AT;
    use super::*;
    use crate::calendar::Calendars;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn add(forecast: &mut Forecast, job: &str, fields: &str) {
        let body = format!(r#"{{"task":"t",{fields}}}"#);
        let definition = Draft::decode(body.as_bytes()).finish().unwrap();
        let job: JobId = job.parse().unwrap();
        let anchor = at("2027-01-01T00:00:00Z");
        let plan = Plan::compile(&definition, &job, anchor, &Calendars::default()).unwrap();
        forecast.add(&job, &definition, &plan);
    }

    fn hours(hours: u32) -> Forecast {
        let from = at("2027-01-04T00:00:00Z");
        Forecast::new(from, from.plus(Duration::from_secs(u64::from(hours) * 3_600))).unwrap()
    }

    #[test]
    fn slots_are_counted_by_minute_whether_they_are_walked_or_not() {
        let mut forecast = hours(2);
        add(&mut forecast, "a/hourly", r#""schedule":{"cron":"30 * * * *"}"#);
        add(&mut forecast, "a/fast", r#""schedule":{"every":"100ms"}"#);
        add(&mut forecast, "a/once", r#""schedule":{"at":"2027-01-04T00:30:59.999Z"}"#);
        add(&mut forecast, "a/never", r#""schedule":{"at":"2027-01-04T02:00:00Z"}"#);
        forecast.count();
        assert_eq!(forecast.load().len(), 120);
        assert_eq!((forecast.load()[0], forecast.load()[30], forecast.load()[90]), (600, 602, 601));
        assert_eq!((forecast.slots(), forecast.jobs()), (120 * 600 + 3, 4));
        let busiest = &forecast.collisions(1)[0];
        assert_eq!((busiest.minute, busiest.jobs), (at("2027-01-04T00:30:00Z"), 3));
        assert_eq!((busiest.second, busiest.in_second), (at("2027-01-04T00:30:00Z"), 11));
    }

    #[test]
    fn jitter_moves_slots_to_where_they_are_due() {
        let mut forecast = hours(1);
        add(&mut forecast, "a/x", r#""schedule":{"cron":"0 * * * *"},"jitter":"50m""#);
        let definition = br#"{"task":"t","schedule":{"cron":"0 * * * *"},"jitter":"50m"}"#;
        let definition = Draft::decode(definition).finish().unwrap();
        let job = "a/x".parse().unwrap();
        let plan = Plan::compile(&definition, &job, Timestamp::MIN, &Calendars::default()).unwrap();
        forecast.count();
        let minute = usize::try_from(plan.jitter().as_secs() / 60).unwrap();
        assert!(minute > 0);
        assert_eq!((forecast.slots(), forecast.load()[minute]), (1, 1));
    }

    #[test]
    fn alike_jobs_are_one_group_and_twenty_thousand_of_them_cost_as_one() {
        let mut forecast = hours(24);
        for number in 0..20_000 {
            let job = format!("a/j{number}");
            let body = if number % 2 == 0 { "*/5 * * * *" } else { "0 3 * * *" };
            add(&mut forecast, &job, &format!(r#""schedule":{{"cron":"{body}"}}"#));
        }
        forecast.count();
        assert_eq!(forecast.groups.len(), 2);
        assert_eq!(forecast.slots(), 10_000 * 288 + 10_000);
        let busiest = &forecast.collisions(3)[0];
        assert_eq!((busiest.slots, busiest.names.len()), (20_000, NAMES_MAX));
    }

    #[test]
    fn jobs_all_at_minute_zero_are_advised_to_take_hash_slots() {
        let mut forecast = hours(24);
        for number in 0..600 {
            add(&mut forecast, &format!("a/j{number}"), r#""schedule":{"cron":"0 * * * *"}"#);
        }
        add(&mut forecast, "a/alone", r#""schedule":{"cron":"17 4 * * *"}"#);
        forecast.count();
        let effect = forecast.effect();
        let texts: Vec<_> =
            effect.advice.iter().map(|one| (&*one.now, &*one.better, one.jobs)).collect();
        assert_eq!(texts, [("0 * * * *", "H * * * *", 600)]);
        assert_eq!((effect.minute, effect.second), ((600, 23), (600, 23)));
    }

    #[test]
    fn six_hundred_jobs_of_every_minute_are_advised_to_spread_over_its_seconds() {
        let mut forecast = hours(1);
        for number in 0..600 {
            add(&mut forecast, &format!("a/j{number}"), r#""schedule":{"cron":"* * * * *"}"#);
        }
        forecast.count();
        let effect = forecast.effect();
        assert_eq!(effect.advice.len(), 1);
        assert_eq!(effect.advice[0].better, "H * * * * *");
        assert_eq!((effect.minute, effect.second), ((600, 600), (600, 17)));
    }

    /// A short stretch has no quiet minutes to compare with, and a stretch that begins within the hour has not all of
    /// it: neither makes of five fields six, or counts what comes to lie elsewhere.
    #[test]
    fn five_fields_stay_five_and_what_moves_out_of_the_stretch_is_not_counted_in_it() {
        for (from, minutes) in [("2027-01-04T03:00:00Z", 2), ("2027-01-04T02:40:00Z", 30)] {
            let from = at(from);
            let to = from.plus(Duration::from_secs(60 * minutes));
            let mut forecast = Forecast::new(from, to).unwrap();
            for number in 0..120 {
                add(&mut forecast, &format!("a/j{number}"), r#""schedule":{"cron":"0 3 * * *"}"#);
            }
            forecast.count();
            let effect = forecast.effect();
            assert_eq!(effect.advice[0].better, "H 3 * * *");
            assert!(effect.minute.1 < 10 && effect.second.1 < 10, "{effect:?}");
        }
    }

    #[test]
    fn what_hash_slots_would_do_is_what_they_do() {
        let followed = |expression: &str| {
            let mut forecast = hours(24);
            for number in 0..500 {
                let body = format!(r#""schedule":{{"cron":"{expression}"}}"#);
                add(&mut forecast, &format!("a/j{number}"), &body);
            }
            add(&mut forecast, "a/fast", r#""schedule":{"every":"1s"}"#);
            forecast.count();
            forecast
        };
        for (now, better) in [("0 3 * * *", "H 3 * * *"), ("*/15 * * * *", "H/15 * * * *")] {
            let effect = followed(now).effect();
            assert_eq!(effect.advice[0].better, better);
            let then = followed(better).collisions(LOOKED_AT);
            assert_eq!(effect.minute.1, then[0].slots, "{now}");
            let second = then.iter().map(|one| one.in_second).max();
            assert_eq!(Some(effect.second.1), second, "{now}");
        }
    }

    #[test]
    fn jobs_of_every_minute_apart_are_spread_over_its_seconds_as_minutes_would_not_help() {
        let mut forecast = hours(1);
        for number in 0..1_200 {
            let body = format!(r#""schedule":{{"cron":"{} * * * *"}}"#, number % 60);
            add(&mut forecast, &format!("a/j{number}"), &body);
        }
        forecast.count();
        let effect = forecast.effect();
        assert!(!effect.advice.is_empty());
        assert!(effect.advice.iter().all(|one| one.better.starts_with("H ")), "{effect:?}");
    }

    #[test]
    fn what_is_spread_already_or_has_no_hash_slot_is_left_alone() {
        let mut forecast = hours(24);
        for number in 0..50 {
            add(&mut forecast, &format!("a/h{number}"), r#""schedule":{"cron":"H * * * *"}"#);
            add(&mut forecast, &format!("a/e{number}"), r#""schedule":{"every":"1h"}"#);
        }
        forecast.count();
        assert_eq!(forecast.slots(), 100 * 24);
        assert!(forecast.effect().advice.iter().all(|one| one.now == "H * * * *"));
    }

    #[test]
    fn a_stretch_is_whole_minutes_and_at_most_31_days() {
        let from = at("2027-01-01T00:00:30Z");
        let forecast = Forecast::new(from, from.plus(Duration::from_secs(60))).unwrap();
        assert_eq!((forecast.from(), forecast.load().len()), (at("2027-01-01T00:00:00Z"), 2));
        assert!(Forecast::new(from, from).is_err());
        let long = Forecast::new(from, at("2028-01-01T00:00:00Z")).unwrap_err();
        assert!(matches!(long, StretchError::TooLong { minutes: 525_600 }), "{long}");
    }
}
