//! Several expressions of one job, and the windows of the day that their slots must lie in.
//!
//! ```text
//!                 change of the clock
//!   plain            │ by slots        plain
//!   ────────────┼────┼────┼───────────────────────────
//!    days × times  the rules   days × times
//! ```
//!
//! Away from clock changes a slot is a day that matches and a time that matches, so slots are counted by days: for
//! each day the expressions that match it, for each such set of expressions the times of any of them, once. Around a
//! change the slots are those of each expression by its rules, and are walked: it is a matter of hours.
//!
//! Invariant: a slot is one of any expression, once, and within the windows by the wall at its instant.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    sync::Arc,
};

use cronstream_schemas::definition::Shift;

use super::{
    civil::{DAY, Month},
    days::{DaySet, low_bits},
    fields::Cron,
    matches::Matches,
    open::{Open, Windows},
    slots::{Rules, Slots},
    table::END,
};

/// The minutes of a day.
const MINUTES: u32 = 1_440;

/// A clock change may reach this many seconds beyond its own length when others are near.
const NEAR: i64 = 2 * DAY;

/// An expression, and the days that count for it; `None` is all.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The expression.
    pub cron: Cron,
    /// The days.
    pub days: Option<Arc<DaySet>>,
    /// Where its slots of other days go; `None` is nowhere.
    pub shift: Option<Shift>,
}

impl Cron {
    /// Whether any of its times of the day lies in a window.
    #[must_use]
    pub fn meets(&self, windows: &Windows) -> bool {
        (0..MINUTES).any(|minute| self.seconds_of(minute) & windows.seconds_of(minute) != 0)
    }

    /// The seconds of a minute of the day that match; bit 0 is the first.
    fn seconds_of(&self, minute: u32) -> u64 {
        let has = self.hours >> (minute / 60) & 1 == 1 && self.minutes >> (minute % 60) & 1 == 1;
        if has { self.seconds } else { 0 }
    }
}

/// The expressions of a job, in its zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Union {
    /// One or more.
    pub parts: Box<[Part]>,
    /// What they do at clock changes.
    pub rules: Rules,
    /// When a slot counts.
    pub open: Open,
}

impl Hash for Union {
    /// Without the days: they are long, and two unions seldom differ in them alone.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts.iter().for_each(|part| (part.cron, part.shift).hash(state));
        (self.rules, self.open.zone, &self.open.windows).hash(state);
    }
}

impl Union {
    /// The first slot strictly after `after_ms` (Unix milliseconds); `None` is never.
    #[must_use]
    pub fn next(&self, after_ms: i64) -> Option<i64> {
        let mut after_ms = after_ms;
        loop {
            let found = self.slots().filter_map(|slots| slots.next(after_ms)).min()?;
            if self.is_open(found) {
                return Some(found);
            }
            after_ms = self.open.next(found)? - 1;
        }
    }

    /// The last slot strictly before `before_ms` (Unix milliseconds); `None` is no such slot.
    #[must_use]
    pub fn prev(&self, before_ms: i64) -> Option<i64> {
        let mut before_ms = before_ms;
        loop {
            let found = self.slots().filter_map(|slots| slots.prev(before_ms)).max()?;
            if self.is_open(found) {
                return Some(found);
            }
            before_ms = self.open.prev(found)? + 1;
        }
    }

    /// The number of slots after `after_ms` and up to and with `through_ms` (Unix milliseconds).
    #[must_use]
    pub fn count(&self, after_ms: i64, through_ms: i64) -> u64 {
        let from = after_ms.div_euclid(1_000).saturating_add(1).clamp(0, END);
        let to = through_ms.div_euclid(1_000).saturating_add(1).clamp(0, END);
        if let ([part], None) = (&self.parts[..], &self.open.windows) {
            return self.slots_of(part).count(from * 1_000 - 1, to * 1_000 - 1);
        }
        let (mut from, mut count) = (from, 0);
        let mut tally = Tally::default();
        for (start, end) in self.changes(from, to) {
            self.tally(from, start.min(to), &mut tally);
            count += self.walk(from.max(start), to.min(end));
            from = from.max(end);
        }
        self.tally(from, to, &mut tally);
        count + tally.count(self)
    }

    /// The seconds of `from..to` and beyond in which a clock change may have a say, in order and apart.
    fn changes(&self, from: i64, to: i64) -> Vec<(i64, i64)> {
        let ms = |second: i64| second.clamp(0, END) * 1_000;
        let changes: Vec<(i64, i64)> = self
            .open
            .zone
            .transitions(ms(from - 2 * NEAR), ms(to + 2 * NEAR))
            .map(|change| {
                let length = i64::from(change.offset_after - change.offset_before).abs();
                (change.at_ms / 1_000, length)
            })
            .collect();
        // The calendar may begin in what a change before it left.
        let mut apart: Vec<(i64, i64)> = vec![(0, 2 * 3_600)];
        for (at, _) in &changes {
            let near = changes.iter().filter(|(other, _)| (other - at).abs() <= NEAR);
            let reach: i64 = near.map(|(_, length)| length).sum();
            let (start, end) = (at - reach, at + reach);
            match apart.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                Some(_) | None => apart.push((start, end)),
            }
        }
        apart.retain(|(start, end)| *start < to && *end > from);
        apart
    }

    /// The number of slots in `from..to`, both seconds, one by one where there are several expressions.
    fn walk(&self, from: i64, to: i64) -> u64 {
        if from >= to {
            return 0;
        }
        if let [part] = &self.parts[..] {
            let slots = self.slots_of(part);
            let stretches = self.open.stretches(from * 1_000, to * 1_000);
            return stretches.map(|(from, to)| slots.count(from - 1, to - 1)).sum();
        }
        let next = |after: i64| self.next(after).filter(|slot| *slot < to * 1_000);
        std::iter::successors(next(from * 1_000 - 1), |slot| next(*slot)).count() as u64
    }

    /// Notes the slots in `from..to`, both seconds, where no clock change has a say.
    fn tally(&self, from: i64, to: i64, tally: &mut Tally) {
        if from >= to {
            return;
        }
        let offset = i64::from(self.open.zone.offset_seconds(from * 1_000));
        let (from, to) = (from + offset, to + offset);
        let (first, last) = (from.div_euclid(DAY), to.div_euclid(DAY));
        let (start, end) = (from.rem_euclid(DAY) as u32, to.rem_euclid(DAY) as u32);
        if first == last {
            return tally.part(self.matching(first), start, end);
        }
        tally.part(self.matching(first), start, DAY as u32);
        tally.part(self.matching(last), 0, end);
        let mut day = first + 1;
        while day < last {
            let (month, index) = Month::of_day(day);
            let end = (month.first_day() + i64::from(month.length())).min(last);
            let masks: Vec<u64> = self.parts.iter().map(|part| part.days_of(month)).collect();
            let reach = index + (end - day) as u32;
            if let [mask] = masks[..] {
                let days = mask & low_bits(reach) & !low_bits(index);
                tally.whole(1, u64::from(days.count_ones()));
            } else {
                (index..reach).for_each(|index| tally.whole(matching(&masks, index), 1));
            }
            day = end;
        }
    }

    /// Which expressions match a day.
    fn matching(&self, day: i64) -> u8 {
        let (month, index) = Month::of_day(day);
        let masks: Vec<u64> = self.parts.iter().map(|part| part.days_of(month)).collect();
        matching(&masks, index)
    }

    fn is_open(&self, slot: i64) -> bool {
        self.open.windows.is_none() || self.open.contains(slot)
    }

    fn slots(&self) -> impl Iterator<Item = Slots<'_>> {
        self.parts.iter().map(|part| self.slots_of(part))
    }

    fn slots_of<'a>(&self, part: &'a Part) -> Slots<'a> {
        let (zone, rules) = (self.open.zone, self.rules);
        Slots { cron: &part.cron, zone, rules, days: part.days.as_deref(), shift: part.shift }
    }
}

impl Part {
    fn days_of(&self, month: Month) -> u64 {
        let Self { cron, days, shift } = self;
        Matches { cron, days: days.as_deref(), shift: *shift }.days_of(month)
    }
}

/// Which of the parts have the day at `index`; bit 0 is the first part.
fn matching(masks: &[u64], index: u32) -> u8 {
    masks.iter().rev().fold(0, |parts, mask| parts << 1 | (mask >> index & 1) as u8)
}

/// Days by the expressions that match them.
#[derive(Default)]
struct Tally {
    whole: BTreeMap<u8, u64>,
    parts: Vec<(u8, u32, u32)>,
}

impl Tally {
    fn whole(&mut self, matching: u8, days: u64) {
        if matching != 0 {
            *self.whole.entry(matching).or_default() += days;
        }
    }

    fn part(&mut self, matching: u8, from: u32, to: u32) {
        if matching != 0 && from < to {
            self.parts.push((matching, from, to));
        }
    }

    fn count(&self, union: &Union) -> u64 {
        let mut times: BTreeMap<u8, Box<[u64]>> = BTreeMap::new();
        let matching = self.whole.keys().chain(self.parts.iter().map(|(matching, _, _)| matching));
        for matching in matching {
            times.entry(*matching).or_insert_with(|| union.times(*matching));
        }
        let whole = self.whole.iter().map(|(matching, days)| {
            days * times[matching].iter().map(|minute| u64::from(minute.count_ones())).sum::<u64>()
        });
        let parts =
            self.parts.iter().map(|(matching, from, to)| between(&times[matching], *from, *to));
        whole.chain(parts).sum()
    }
}

impl Union {
    /// The times of a day that any of these expressions matches, for each minute its seconds.
    fn times(&self, matching: u8) -> Box<[u64]> {
        let parts = || self.parts.iter().enumerate().filter(|(at, _)| matching >> at & 1 == 1);
        let seconds = |minute| {
            let any = parts().fold(0, |seconds, (_, part)| seconds | part.cron.seconds_of(minute));
            self.open.windows.as_ref().map_or(any, |windows| any & windows.seconds_of(minute))
        };
        (0..MINUTES).map(seconds).collect()
    }
}

/// The seconds from `from` to before `to` that are set.
fn between(times: &[u64], from: u32, to: u32) -> u64 {
    let minutes = (0..).zip(times).skip((from / 60) as usize).take_while(|(at, _)| at * 60 < to);
    minutes
        .map(|(at, seconds)| {
            let place = |second: u32| second.saturating_sub(at * 60).min(60);
            let wanted = low_bits(place(to)) & !low_bits(place(from));
            u64::from((seconds & wanted).count_ones())
        })
        .sum()
}
