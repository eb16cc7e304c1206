//! Hash-slot advice: which jobs of the busiest minutes could be spread by `H`, and what that would do.
//!
//! Invariant: an advice keeps the hour, the days and the rate of its jobs; it moves them within the hour, the step or
//! the minute that they have now, and its expression is one that the grammar takes.

use std::collections::BTreeMap;

use cronstream_schemas::definition::{Dialect, JobDefinition, Schedule};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use super::{Forecast, MINUTE, NAMES_MAX, each};
use crate::schedule::{self, Seed};

/// Fewer slots than this in one second collide with nobody.
const COLLISION_MIN: u64 = 10;
/// A minute is a peak when it has this many times the mean.
const PEAK_TIMES: u64 = 3;
/// The most expressions that are told, those of the most jobs.
pub const ADVICE_MAX: usize = 100;
/// How many of the busiest minutes are looked at.
pub(super) const LOOKED_AT: usize = 10;

/// What a job has to be changed to, and for how many jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// The expression now.
    pub now: String,
    /// The expression with a hash slot.
    pub better: String,
    /// How many jobs have it.
    pub jobs: u64,
    /// Some of them.
    pub names: Vec<JobId>,
}

/// What following every advice would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effect {
    /// What to change, what concerns the most jobs first, at most [`ADVICE_MAX`].
    pub advice: Vec<Advice>,
    /// The load of the busiest minute now, and what it would be where hours begin as in UTC.
    pub minute: (u64, u64),
    /// The load of the busiest second of the busiest minutes now, and what it would be.
    pub second: (u64, u64),
}

/// An expression that stands alone in its schedule.
#[derive(Debug, Clone)]
pub(super) struct Expression {
    text: String,
    dialect: Dialect,
}

/// Over what a hash slot spreads a job's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spread {
    /// Over so many minutes of each hour.
    Minutes(usize),
    /// Over the seconds of a minute.
    Seconds,
}

/// How many jobs of a group `H` would put into each minute of an hour, and into each second of a minute.
#[derive(Debug, Clone)]
pub(super) struct Draws([[u64; 60]; 2]);

impl Draws {
    pub(super) fn of(job: &JobId) -> Self {
        let mut draws = Self([[0; 60]; 2]);
        draws.add(job);
        draws
    }

    pub(super) fn add(&mut self, job: &JobId) {
        for (field, value) in self.0.iter_mut().zip(Seed::of(job).minute_and_second()) {
            field[value] += 1;
        }
    }

    /// How many jobs `H/width` would put at each place of a stretch of `width` minutes, which divides the hour.
    fn minutes(&self, width: usize) -> Vec<u64> {
        (0..width).map(|at| self.0[0].iter().skip(at).step_by(width).sum()).collect()
    }

    const fn seconds(&self) -> &[u64; 60] {
        &self.0[1]
    }
}

impl Expression {
    pub(super) fn of(definition: &JobDefinition) -> Option<Self> {
        match &*definition.schedule {
            Schedule::Cron(all) => match all.as_slice() {
                [one] => Some(Self { text: one.clone(), dialect: definition.dialect }),
                _ => None,
            },
            Schedule::Every(_) | Schedule::FixedDelay(_) | Schedule::At(_) => None,
        }
    }
}

/// Whether an expression has a hash slot; some that have none may be taken for one that has.
pub(super) fn has_hash(expression: &str) -> bool {
    let begins = |item: &str| item.starts_with('H');
    expression.split([' ', '\t', ',']).any(begins)
}

impl Forecast {
    /// Which jobs of the busiest minutes could be spread, and what it would do.
    #[must_use]
    pub fn effect(&self) -> Effect {
        let busiest = self.collisions(LOOKED_AT);
        let Some(peak) = busiest.first() else { return Effect::default() };
        let in_second = busiest.iter().map(|one| one.in_second).max().unwrap_or(0);
        let mut effect = Effect {
            minute: (peak.slots, peak.slots),
            second: (in_second, in_second),
            ..Effect::default()
        };
        let mean = self.slots() / self.load.len() as u64;
        let minutes_apart = peak.slots >= COLLISION_MIN && peak.slots > PEAK_TIMES * mean;
        let seconds_apart = in_second >= COLLISION_MIN && in_second > PEAK_TIMES * peak.slots / 60;
        if !minutes_apart && !seconds_apart {
            return effect;
        }
        let begins: Vec<_> = busiest.iter().map(|one| one.minute).collect();
        // Another minute is the smaller change, and often takes the second with it.
        for minutes in [true, false] {
            let moved = self.moved(&begins, minutes);
            effect.advice = self.advice(&moved);
            if effect.advice.is_empty() {
                return effect;
            }
            let after = self.after(&moved);
            effect.minute.1 = after.iter().copied().max().unwrap_or(0);
            effect.second.1 = self.second_after(&moved, &after);
            if minutes_apart || effect.second.1 * 2 <= effect.second.0 {
                break;
            }
        }
        effect
    }

    /// What becomes of each group that is due in one of the minutes.
    fn moved(&self, begins: &[Timestamp], minutes: bool) -> Vec<Option<(String, Spread)>> {
        let moved = self.groups.iter().map(|group| {
            let there = begins.iter().any(|minute| {
                let end = Timestamp::from_millis(minute.as_millis() + MINUTE);
                super::due(&group.plan, *minute, end) > 0
            });
            group.expression.as_ref().filter(|_| there)?.spread(minutes)
        });
        moved.collect()
    }

    fn advice(&self, moved: &[Option<(String, Spread)>]) -> Vec<Advice> {
        let mut by_text: BTreeMap<(&str, &str), Advice> = BTreeMap::new();
        for (group, moved) in self.groups.iter().zip(moved) {
            let (Some(now), Some((better, _))) = (&group.expression, moved) else { continue };
            let advice = by_text.entry((&now.text, better)).or_insert_with(|| Advice {
                now: now.text.clone(),
                better: better.clone(),
                jobs: 0,
                names: Vec::new(),
            });
            advice.jobs += group.jobs;
            let room = NAMES_MAX - advice.names.len();
            advice.names.extend(group.names.iter().take(room).cloned());
        }
        let mut all: Vec<Advice> = by_text.into_values().collect();
        all.sort_by_key(|advice| std::cmp::Reverse(advice.jobs));
        all.truncate(ADVICE_MAX);
        all
    }

    /// The load of each minute, had every advice been followed.
    fn after(&self, moved: &[Option<(String, Spread)>]) -> Vec<u64> {
        let mut load = vec![0; self.load.len()];
        for (group, moved) in self.groups.iter().zip(moved) {
            let Some((_, Spread::Minutes(width))) = moved else {
                each(&group.plan, (self.from, self.to), MINUTE, |at, slots| {
                    load[at] += slots * group.jobs;
                });
                continue;
            };
            let draws = group.draws.minutes(*width);
            each(&group.plan, (self.from, self.to), MINUTE, |at, slots| {
                // What comes to lie before the stretch or behind it is not looked at.
                let begin = at as i64 - self.within(at, *width) as i64;
                for (minute, jobs) in (begin..).zip(&draws) {
                    let minute = usize::try_from(minute).ok();
                    if let Some(minute) = minute.and_then(|minute| load.get_mut(minute)) {
                        *minute += slots * jobs;
                    }
                }
            });
        }
        load
    }

    /// The place of a minute within its stretch of so many. The minutes of the hour are aligned in every zone whose
    /// offset is whole quarters; elsewhere it is about so.
    fn within(&self, at: usize, width: usize) -> usize {
        ((self.from.as_millis() / MINUTE) as usize + at) % width
    }

    /// The load of the busiest second of the busiest minutes, had every advice been followed.
    fn second_after(&self, moved: &[Option<(String, Spread)>], after: &[u64]) -> u64 {
        let mut order: Vec<usize> = (0..after.len()).collect();
        order.sort_by_key(|at| (std::cmp::Reverse(after[*at]), *at));
        order.truncate(LOOKED_AT);
        let busiest = order.into_iter().map(|at| self.seconds_after(moved, at));
        busiest.flatten().max().unwrap_or(0)
    }

    /// The load of each second of a minute, had every advice been followed.
    fn seconds_after(&self, moved: &[Option<(String, Spread)>], at: usize) -> [u64; 60] {
        let mut seconds = [0; 60];
        let (begin, end) = self.minute(at);
        for (group, moved) in self.groups.iter().zip(moved) {
            match moved.as_ref().map(|(_, spread)| *spread) {
                None => each(&group.plan, (begin, end), 1_000, |second, slots| {
                    seconds[second] += slots * group.jobs;
                }),
                Some(Spread::Minutes(width)) => {
                    let within = self.within(at, width);
                    let jobs = group.draws.minutes(width)[within];
                    let from = begin.as_millis() - within as i64 * MINUTE;
                    let to = Timestamp::from_millis(from + width as i64 * MINUTE);
                    let stretch = (Timestamp::from_millis(from), to);
                    each(&group.plan, stretch, 1_000, |second, slots| {
                        seconds[second % 60] += slots * jobs;
                    });
                }
                Some(Spread::Seconds) => each(&group.plan, (begin, end), MINUTE, |_, slots| {
                    for (second, jobs) in seconds.iter_mut().zip(group.draws.seconds()) {
                        *second += slots * jobs;
                    }
                }),
            }
        }
        seconds
    }
}

impl Expression {
    /// The expression with a hash slot for the minutes, or where that would not help for the seconds.
    fn spread(&self, minutes: bool) -> Option<(String, Spread)> {
        let found = if minutes { self.over_minutes() } else { None };
        let (text, spread) = found.or_else(|| self.over_seconds())?;
        let seed = Seed::of(&"a/b".parse().expect("a legal address"));
        schedule::parse(&text, self.dialect, seed).ok()?;
        Some((text, spread))
    }

    fn fields(&self) -> Option<(Vec<&str>, usize)> {
        let text = match self.text.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        // A zone may stand before the fields.
        let zone = usize::from(fields.first().is_some_and(|first| first.contains('=')));
        let seconds = self.dialect == Dialect::Quartz || fields.len() - zone > 5;
        (5..=7).contains(&(fields.len() - zone)).then_some((fields, zone + usize::from(seconds)))
    }

    fn over_minutes(&self) -> Option<(String, Spread)> {
        let (mut fields, minute) = self.fields()?;
        let (text, width) = match every(fields[minute])? {
            60 => ("H".to_owned(), 60),
            step => (format!("H/{step}"), step),
        };
        fields[minute] = &text;
        Some((fields.join(" "), Spread::Minutes(width)))
    }

    fn over_seconds(&self) -> Option<(String, Spread)> {
        let (mut fields, minute) = self.fields()?;
        let zone = usize::from(fields[0].contains('='));
        if minute == zone {
            fields.insert(zone, "H");
        } else if fields[zone].bytes().all(|byte| byte.is_ascii_digit()) {
            fields[zone] = "H";
        } else {
            return None;
        }
        Some((fields.join(" "), Spread::Seconds))
    }
}

/// How far apart the values of a field are, if they are evenly so over the hour: 60 for a single one.
fn every(field: &str) -> Option<usize> {
    let values: Vec<usize> = match field.split_once('/') {
        Some(("*", step)) => {
            let step = step.parse().ok().filter(|step| (2..60).contains(step))?;
            (0..60).step_by(step).collect()
        }
        Some(_) => return None,
        None => field.split(',').map(|value| value.parse().ok()).collect::<Option<_>>()?,
    };
    let step = 60 / values.len().max(1);
    let even = values.len() * step == 60;
    let apart = values.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(step));
    (even && apart && step > 1).then_some(step)
}
