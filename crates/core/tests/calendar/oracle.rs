//! The oracle of the laws: jobs that are generated together with their meaning, and brute force over the wall.
//!
//! It shares nothing with the engine: expressions come with their sets of values, wall times from jiff's own zone
//! database, and every second (or minute) of a window is looked at in turn. Which of its instants a wall time fires
//! at is told by the words of the definition: a fold has several, a gap none.

use std::collections::{BTreeMap, BTreeSet};

use cronstream_core::schedule::{Day, DaySet, Rules};
use cronstream_schemas::definition::{Fold, Gap};
use jiff::{
    Timestamp,
    civil::Date,
    tz::{Offset, TimeZone},
};
use proptest::prelude::*;

pub(crate) const DAY: i64 = 86_400;

/// A field as text, and the values the text means.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) text: String,
    pub(crate) values: BTreeSet<u32>,
}

impl Field {
    fn starred(&self) -> bool {
        self.text.starts_with('*')
    }
}

/// Counts from `first` to `last` one by one, around the end if need be, and takes every `step`th.
fn walk(first: u32, last: u32, step: u32, (low, high): (u32, u32)) -> BTreeSet<u32> {
    let mut values = BTreeSet::new();
    let (mut value, mut place) = (first, 0);
    loop {
        if place % step == 0 {
            values.insert(value);
        }
        if value == last {
            return values;
        }
        value = if value == high { low } else { value + 1 };
        place += 1;
    }
}

fn item(low: u32, high: u32) -> impl Strategy<Value = Field> {
    let bounds = (low, high);
    let all = || (low..=high).collect::<BTreeSet<_>>();
    prop_oneof![
        2 => Just(Field { text: "*".into(), values: all() }),
        2 => (1..=high + 2).prop_map(move |step| Field {
            text: format!("*/{step}"),
            values: walk(low, high, step, bounds),
        }),
        4 => (low..=high).prop_map(|value| Field {
            text: value.to_string(),
            values: BTreeSet::from([value]),
        }),
        2 => (low..=high, low..=high).prop_map(move |(first, last)| Field {
            text: format!("{first}-{last}"),
            values: walk(first, last, 1, bounds),
        }),
        1 => (low..=high, low..=high, 1..=high).prop_map(move |(first, last, step)| Field {
            text: format!("{first}-{last}/{step}"),
            values: walk(first, last, step, bounds),
        }),
        1 => (low..=high, 1..=high).prop_map(move |(first, step)| Field {
            text: format!("{first}/{step}"),
            values: walk(first, high, step, bounds),
        }),
    ]
}

fn field(low: u32, high: u32) -> impl Strategy<Value = Field> {
    prop::collection::vec(item(low, high), 1..=3).prop_map(|items| Field {
        text: items.iter().map(|item| item.text.as_str()).collect::<Vec<_>>().join(","),
        values: items.into_iter().flat_map(|item| item.values).collect(),
    })
}

/// A weekday field in the numbers 1 to 6, where no rule about Sunday is needed, or with it.
fn weekdays() -> impl Strategy<Value = Field> {
    let named = |text: &str, values: &[u32]| Field {
        text: text.into(),
        values: values.iter().copied().collect(),
    };
    prop_oneof![
        3 => Just(named("*", &[0, 1, 2, 3, 4, 5, 6])),
        2 => (1_u32..=6, 1_u32..=6).prop_map(|(first, last)| Field {
            text: format!("{first}-{last}"),
            values: walk(first, last, 1, (0, 6)),
        }),
        1 => Just(named("*/2", &[0, 2, 4, 6])),
        1 => Just(named("Fri-sun", &[5, 6, 0])),
        1 => Just(named("7", &[0])),
        1 => Just(named("0,SAT", &[0, 6])),
    ]
}

/// Few restrictions on days, so that a window of days is not empty.
fn dates() -> impl Strategy<Value = (Field, Field)> {
    let star = || Just(Field { text: "*".into(), values: (1..=31).collect() });
    let months = || Just(Field { text: "*".into(), values: (1..=12).collect() });
    (prop_oneof![3 => star(), 2 => field(1, 31)], prop_oneof![5 => months(), 1 => field(1, 12)])
}

/// An expression and, independently of the parser, what it means.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    pub(crate) seconds: Option<Field>,
    pub(crate) minutes: Field,
    pub(crate) hours: Field,
    pub(crate) days: Field,
    pub(crate) months: Field,
    pub(crate) weekdays: Field,
}

impl Expression {
    pub(crate) fn text(&self) -> String {
        let fields = [&self.minutes, &self.hours, &self.days, &self.months, &self.weekdays];
        let texts = self.seconds.iter().chain(fields).map(|field| field.text.as_str());
        texts.collect::<Vec<_>>().join(" ")
    }

    /// Whether it matches on the day of this number.
    pub(crate) fn on_day(&self, day: i64) -> bool {
        let date = date(day);
        let on_date = self.days.values.contains(&(date.day() as u32));
        let weekday = date.weekday().to_sunday_zero_offset() as u32;
        let on_weekday = self.weekdays.values.contains(&weekday);
        let both = self.days.starred() || self.weekdays.starred();
        self.months.values.contains(&(date.month() as u32))
            && if both { on_date && on_weekday } else { on_date || on_weekday }
    }

    pub(crate) fn elapsed(&self) -> bool {
        self.minutes.starred() || self.hours.starred()
    }
}

prop_compose! {
    pub(crate) fn expression(seconds: bool)(
        seconds in field(0, 59).prop_map(move |field| seconds.then_some(field)),
        minutes in field(0, 59),
        hours in field(0, 23),
        (days, months) in dates(),
        weekdays in weekdays(),
    ) -> Expression {
        Expression { seconds, minutes, hours, days, months, weekdays }
    }
}

/// A set of values as a mask.
fn mask(field: &Field) -> u64 {
    field.values.iter().fold(0, |mask, value| mask | 1 << value)
}

pub(crate) fn date(day: i64) -> Date {
    Offset::UTC.to_datetime(Timestamp::from_second(day * DAY).unwrap()).date()
}

/// What a job asks for: an expression, rules for clock changes, days.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) expr: Expression,
    pub(crate) rules: Rules,
    /// A seed for the days that are left out; `None` leaves out none.
    pub(crate) days: Option<u64>,
}

impl Job {
    pub(crate) fn on_day(&self, day: i64) -> bool {
        self.counts(day) && self.expr.on_day(day)
    }

    /// Whether the day is not left out: about two of three are not.
    fn counts(&self, day: i64) -> bool {
        let hash = |seed: u64| (seed ^ day as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        self.days.is_none_or(|seed| hash(seed) % 3 != 0)
    }

    /// The days that count, as the engine takes them: right from `from` to `to` (Unix seconds).
    pub(crate) fn day_set(&self, from: i64, to: i64) -> Option<DaySet> {
        self.days?;
        let mut set = DaySet::all();
        for number in from / DAY - 4..to / DAY + 5 {
            if let Some(day) = Day::from_number(number).filter(|_| !self.counts(number)) {
                set.remove(day);
            }
        }
        Some(set)
    }
}

pub(crate) fn job(seconds: bool) -> impl Strategy<Value = Job> {
    let gap = prop::sample::select(&[None, Some(Gap::End), Some(Gap::Skip), Some(Gap::Before)][..]);
    let fold =
        prop::sample::select(&[None, Some(Fold::First), Some(Fold::Last), Some(Fold::Both)][..]);
    let days = prop_oneof![2 => Just(None), 1 => any::<u64>().prop_map(Some)];
    (expression(seconds), gap, fold, days).prop_map(|(expr, gap, fold, days)| Job {
        expr,
        rules: Rules { gap, fold },
        days,
    })
}

/// The slots in `from..to` (Unix seconds), found by looking at the wall each `step` seconds.
pub(crate) fn brute_force(job: &Job, zone: &TimeZone, from: i64, to: i64, step: i64) -> Vec<i64> {
    // Long enough to see both passes of any fold, and what is before a skipped day.
    let (start, end) = (from - 50 * 3_600, to + 50 * 3_600);
    let first_day = start.div_euclid(DAY) - 2;
    let days: Vec<_> = (first_day..end / DAY + 3).map(|day| job.on_day(day)).collect();
    let expr = &job.expr;
    let (minutes, hours) = (mask(&expr.minutes), mask(&expr.hours));
    let seconds = expr.seconds.as_ref().map_or(1, mask);
    let due = |civil: i64| {
        let time = civil.rem_euclid(DAY);
        days[(civil.div_euclid(DAY) - first_day) as usize]
            && hours >> (time / 3_600) & minutes >> (time / 60 % 60) & seconds >> (time % 60) & 1
                == 1
    };
    let elapsed = expr.elapsed();
    let gap = job.rules.gap.unwrap_or(if elapsed { Gap::Skip } else { Gap::End });
    let fold = job.rules.fold.unwrap_or(if elapsed { Fold::Both } else { Fold::First });
    let at = Timestamp::from_second(start).unwrap();
    let mut offset = i64::from(zone.to_offset(at).seconds());
    let mut changes = zone.following(at).peekable();
    let mut slots = BTreeSet::new();
    let mut passes: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    let mut highest = start + offset - step;
    for at in (start..end).step_by(step as usize) {
        let before = offset;
        while let Some(change) = changes.next_if(|change| change.timestamp().as_second() <= at) {
            offset = i64::from(change.offset().seconds());
        }
        let civil = at + offset;
        for left_out in (highest + step..civil).step_by(step as usize).filter(|left| due(*left)) {
            match gap {
                Gap::End => slots.insert(at),
                Gap::Skip => false,
                Gap::Before => slots.insert(left_out - before),
            };
        }
        highest = highest.max(civil);
        if due(civil) {
            passes.entry(civil).or_default().push(at);
        }
    }
    for passes in passes.values() {
        match fold {
            Fold::First => slots.extend(passes.first()),
            Fold::Last => slots.extend(passes.last()),
            Fold::Both => slots.extend(passes),
        }
    }
    slots.into_iter().filter(|at| (from..to).contains(at)).map(|at| at * 1_000).collect()
}

/// A job on every day: each field a star, numbers, a range, or a star with a step.
pub(crate) fn written(minutes: &str, hours: &str) -> Expression {
    let read = |text: &str, (low, high): (u32, u32)| {
        let number = |text: &str| text.parse::<u32>().unwrap();
        let values = match (text.split_once('/'), text.split_once('-')) {
            (Some((_, step)), _) => walk(low, high, number(step), (low, high)),
            (_, Some((first, last))) => (number(first)..=number(last)).collect(),
            _ if text == "*" => (low..=high).collect(),
            _ => text.split(',').map(number).collect(),
        };
        Field { text: text.into(), values }
    };
    Expression {
        seconds: None,
        minutes: read(minutes, (0, 59)),
        hours: read(hours, (0, 23)),
        days: read("*", (1, 31)),
        months: read("*", (1, 12)),
        weekdays: read("*", (0, 6)),
    }
}
