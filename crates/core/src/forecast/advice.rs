//! Hash-slot advice: which jobs of the busiest minutes could be spread by `H`, and what that would do.
//!
//! Invariant: an advice keeps the hour, the days and the rate of its jobs; it moves them within the hour, the step or
//! the minute that they have now, and its expression is one that the grammar takes.

use std::collections::BTreeMap;

use cronstream_schemas::definition::{Dialect, JobDefinition, Schedule};
use cronstream_schemas::name::JobId;

use super::{Forecast, MINUTE, NAMES_MAX, each};
use crate::schedule::{self, Seed};

/// Fewer slots than this in one second collide with nobody.
const COLLISION_MIN: u64 = 10;
/// A minute is a peak when it has this many times the mean.
const PEAK_TIMES: u64 = 3;
/// The most expressions that are told, those of the most jobs.
pub const ADVICE_MAX: usize = 100;
/// How many of the busiest minutes are looked at.
const LOOKED_AT: usize = 10;

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
    /// The load of the busiest minute now, and about what it would be.
    pub minute: (u64, u64),
    /// The load of the busiest second of the busiest minutes now, and about what it would be.
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
    Minutes(u64),
    /// Over the seconds of a minute.
    Seconds,
}

impl Expression {
    pub(super) fn of(definition: &JobDefinition) -> Option<Self> {
        match &definition.schedule {
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
        let moved: Vec<Option<(String, Spread)>> = self
            .groups
            .iter()
            .map(|group| {
                let there = begins.iter().any(|minute| {
                    let end = minute.as_millis() + MINUTE;
                    let end = cronstream_schemas::time::Timestamp::from_millis(end);
                    super::due(&group.plan, *minute, end) > 0
                });
                group.expression.as_ref().filter(|_| there)?.spread(minutes_apart)
            })
            .collect();
        effect.advice = self.advice(&moved);
        if !effect.advice.is_empty() {
            let after = self.after(&moved);
            effect.minute.1 = rounded(after.iter().copied().fold(0.0, f64::max));
            effect.second.1 = self.second_after(&moved, &after);
        }
        effect
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

    /// The load of each minute, had every advice been followed: hash slots spread evenly.
    fn after(&self, moved: &[Option<(String, Spread)>]) -> Vec<f64> {
        let mut load: Vec<f64> = self.load.iter().map(|slots| *slots as f64).collect();
        for (group, moved) in self.groups.iter().zip(moved) {
            let Some((_, Spread::Minutes(width))) = moved else { continue };
            let width = *width as usize;
            // Minutes of the hour are aligned in every zone whose offset is whole quarters; elsewhere it is about so.
            let first = (self.from.as_millis() / MINUTE) as usize;
            each(&group.plan, (self.from, self.to), MINUTE, |at, slots| {
                let moved = (slots * group.jobs) as f64;
                load[at] -= moved;
                let begin = at - ((first + at) % width).min(at);
                let stretch = begin..(begin + width).min(load.len());
                let share = moved / stretch.len() as f64;
                load[stretch].iter_mut().for_each(|minute| *minute += share);
            });
        }
        load
    }

    /// About the load of the busiest second, had every advice been followed.
    fn second_after(&self, moved: &[Option<(String, Spread)>], after: &[f64]) -> u64 {
        // What is spread over minutes stays at its second; what is spread over seconds is a 60th of its minute.
        let mut spread = vec![0.0; after.len()];
        for (group, moved) in self.groups.iter().zip(moved) {
            if let Some((_, Spread::Seconds)) = moved {
                each(&group.plan, (self.from, self.to), MINUTE, |at, slots| {
                    spread[at] += (slots * group.jobs) as f64;
                });
            }
        }
        let second = |(all, spread): (&f64, &f64)| all - spread + spread / 60.0;
        rounded(after.iter().zip(&spread).map(second).fold(0.0, f64::max))
    }
}

fn rounded(load: f64) -> u64 {
    // A load is not negative but for what adding and taking away leaves.
    load.max(0.0).round() as u64
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
fn every(field: &str) -> Option<u64> {
    let values: Vec<u64> = match field.split_once('/') {
        Some(("*", step)) => {
            let step = step.parse().ok().filter(|step| (2..60).contains(step))?;
            (0..60).step_by(step).map(|value| value as u64).collect()
        }
        Some(_) => return None,
        None => field.split(',').map(|value| value.parse().ok()).collect::<Option<_>>()?,
    };
    let step = 60 / u64::try_from(values.len()).ok()?.max(1);
    let even = values.len() as u64 * step == 60;
    let apart = values.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(step));
    (even && apart && step > 1).then_some(step)
}
