//! The canonical text of a compiled expression: crontab fields in ascending order.
//!
//! Invariant: the text parses back to an equal [`Cron`], and is shorter than the longest
//! expression that is accepted.

use std::fmt::Write;

use super::{
    days::low_bits,
    fields::{Cron, DayRule, Days, Pace},
};

impl Cron {
    /// The expression in normal form: crontab dialect, numbers, ascending; five fields, six if it
    /// has seconds, seven if it has years. `22-2` becomes `0-2,22,23`.
    #[must_use]
    pub fn canonical(&self) -> String {
        let every = self.years.is_every();
        let mut text = String::with_capacity(32);
        if self.seconds != 1 || !every {
            field(&mut text, self.seconds, 0, 60, starred(self.seconds, 60));
        }
        let (minutes, hours) = self.clock_stars();
        field(&mut text, self.minutes, 0, 60, minutes);
        field(&mut text, u64::from(self.hours), 0, 24, hours);
        self.days.write_dates(&mut text);
        field(&mut text, u64::from(self.months), 1, 12, starred(u64::from(self.months), 12));
        self.days.write_weekdays(&mut text);
        if !every {
            for (first, last, step) in self.years.progressions() {
                write_run(&mut text, first, last, step);
            }
            end_field(&mut text);
        }
        text.pop();
        text
    }

    /// How the minute and the hour are written. One of them begins with a star if the job follows
    /// elapsed time, and none does if it does not.
    fn clock_stars(&self) -> (Star, Star) {
        if self.pace == Pace::Fixed {
            return (Star::No, Star::No);
        }
        match (starred(self.minutes, 60), starred(u64::from(self.hours), 24)) {
            // A field that began with a star holds its lowest value.
            (Star::No, Star::No) if self.minutes & 1 == 1 && self.hours != 1 => {
                (Star::Lowest, Star::No)
            }
            (Star::No, Star::No) => (Star::No, Star::Lowest),
            stars => stars,
        }
    }
}

/// How a field may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Star {
    /// With a value.
    No,
    /// With a star that stands for all it holds.
    Whole,
    /// With a star for the lowest value, before the others.
    Lowest,
}

/// Whether a star, with a step or without, stands for all values.
fn starred(mask: u64, cycle: u32) -> Star {
    let steps = |step: &u32| mask == progression(0, cycle - 1, *step);
    if (1..cycle).any(|step| steps(&step)) { Star::Whole } else { Star::No }
}

/// The mask of `first`, `first + step`, … up to `last`.
pub(super) fn progression(first: u32, last: u32, step: u32) -> u64 {
    (first..=last).step_by(step as usize).fold(0, |mask, value| mask | 1 << value)
}

/// Ends the field: a blank takes the place of the last comma.
fn end_field(text: &mut String) {
    text.pop();
    text.push(' ');
}

fn field(text: &mut String, mask: u64, first: u32, cycle: u32, star: Star) {
    match star {
        Star::No => list(text, mask, first),
        Star::Whole => {
            let step = (mask & !1).checked_ilog2().map_or(cycle, |_| (mask & !1).trailing_zeros());
            text.push('*');
            if step > 1 {
                push(text, format_args!("/{step}"));
            }
            text.push(',');
        }
        Star::Lowest => {
            push(text, format_args!("*/{cycle},"));
            list(text, mask & !1, first);
        }
    }
    end_field(text);
}

/// Writes the values of a mask, bit 0 being `first`; a comma follows each item.
fn list(text: &mut String, mask: u64, first: u32) {
    if mask.count_ones() > 2 {
        let (low, high) = (mask.trailing_zeros(), 63 - mask.leading_zeros());
        let step = (mask & (mask - 1)).trailing_zeros() - low;
        if mask == progression(low, high, step) {
            return write_run(text, low + first, high + first, step);
        }
    }
    let mut left = mask;
    while left != 0 {
        let low = left.trailing_zeros();
        let length = (left >> low).trailing_ones();
        write_run(text, low + first, low + length - 1 + first, 1);
        left &= !(low_bits(length) << low);
    }
}

/// Writes `first`, `first + step`, … `last` as one item, or as two values; a comma follows each.
fn write_run(text: &mut String, first: u32, last: u32, step: u32) {
    match ((last - first) / step, step) {
        (0, _) => push(text, format_args!("{first},")),
        (1, _) => push(text, format_args!("{first},{last},")),
        (_, 1) => push(text, format_args!("{first}-{last},")),
        _ => push(text, format_args!("{first}-{last}/{step},")),
    }
}

fn push(text: &mut String, words: std::fmt::Arguments<'_>) {
    text.write_fmt(words).expect("a string takes any text");
}

impl Days {
    fn write_dates(&self, text: &mut String) {
        if self.rule == DayRule::Both && self.any_date() {
            return text.push_str("* ");
        }
        list(text, u64::from(self.dates), 1);
        for before in bits(u64::from(self.from_end)) {
            match before {
                0 => text.push_str("L,"),
                _ => push(text, format_args!("L-{before},")),
            }
        }
        for day in bits(u64::from(self.near)) {
            push(text, format_args!("{}W,", day + 1));
        }
        for before in bits(u64::from(self.near_end)) {
            match before {
                0 => text.push_str("LW,"),
                _ => push(text, format_args!("L-{before}W,")),
            }
        }
        end_field(text);
    }

    fn write_weekdays(&self, text: &mut String) {
        if self.rule == DayRule::Both {
            if self.any_weekday() {
                return text.push_str("* ");
            }
            if !self.any_date() {
                text.push('+');
            }
        }
        list(text, u64::from(self.weekdays), 0);
        for weekday in bits(u64::from(self.last)) {
            push(text, format_args!("{weekday}L,"));
        }
        for (place, weekdays) in (1..).zip(self.nth) {
            for weekday in bits(u64::from(weekdays)) {
                push(text, format_args!("{weekday}#{place},"));
            }
        }
        end_field(text);
    }
}

/// The places of the bits that are set, lowest first.
pub(super) fn bits(mask: u64) -> impl Iterator<Item = u32> {
    (0..64).filter(move |bit| mask >> bit & 1 == 1)
}
