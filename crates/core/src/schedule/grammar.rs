//! The crontab dialect: from text to [`Cron`].
//!
//! Each field is read piece by piece, so that a refusal can name the byte, and is rewritten as the
//! `cron` crate wants it: plain ascending ranges, Sunday = 1, no step over its span. The crate
//! then expands the lists. Two rules are read from the text alone: a field that *begins* with a
//! star makes day-of-month and day-of-week combine by AND, or makes the job follow elapsed time.
//!
//! Invariant: any input ends in a `Cron` with at least one match or in a [`ParseError`], within
//! work bounded by [`LENGTH_MAX`] and [`ITEMS_MAX`].

use std::{fmt::Write, str::FromStr};

use cron::{Schedule, TimeUnitSpec};

use super::{
    error::{ParseError, excerpt},
    fields::{Cron, DayRule, Pace},
};

/// The longest expression, in bytes.
const LENGTH_MAX: usize = 1_024;

/// The most items in one list: no field has more values.
const ITEMS_MAX: usize = 60;

const MACROS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

impl Cron {
    /// Compiles a crontab expression: five fields, six with seconds first, or a macro.
    ///
    /// # Errors
    /// Refuses what is not the crontab dialect, and what can never fire.
    pub fn parse(expr: &str) -> Result<Self, ParseError> {
        check_characters(expr)?;
        let text = expr.trim_matches(BLANKS);
        if text.starts_with('@') {
            parse_fields(expand_macro(expr, text)?)
        } else {
            parse_fields(expr)
        }
    }
}

const BLANKS: [char; 2] = [' ', '\t'];

/// A part of the expression and where it begins.
#[derive(Clone, Copy)]
struct Piece<'a> {
    position: usize,
    text: &'a str,
}

impl<'a> Piece<'a> {
    fn refuse(self, message: impl Into<String>, hint: impl Into<String>) -> ParseError {
        ParseError {
            position: self.position,
            value: excerpt(self.text),
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// The parts between separators, each with its own position.
    fn split(self, separators: &'static [char]) -> impl Iterator<Item = Self> + Clone + use<'a> {
        let mut position = self.position;
        self.text.split(separators).map(move |text| {
            let piece = Piece { position, text };
            position += text.len() + 1;
            piece
        })
    }

    fn split_once(self, separator: char) -> Option<(Self, Self)> {
        let (before, after) = self.text.split_once(separator)?;
        let position = self.position + before.len() + 1;
        Some((Piece { text: before, ..self }, Piece { position, text: after }))
    }
}

fn check_characters(expr: &str) -> Result<(), ParseError> {
    if expr.len() > LENGTH_MAX {
        let position = expr.floor_char_boundary(LENGTH_MAX);
        return Err(Piece { position, text: &expr[position..] }
            .refuse("expression is longer than 1024 bytes", "split it into several jobs"));
    }
    let strange = |(_, char): &(usize, char)| !char.is_ascii_graphic() && !BLANKS.contains(char);
    match expr.char_indices().find(strange) {
        None => Ok(()),
        Some((position, char)) => {
            let text = &expr[position..position + char.len_utf8()];
            Err(Piece { position, text }.refuse(
                "character that is not allowed",
                "write ASCII digits, names, `* ? , - /`, and blanks between the fields",
            ))
        }
    }
}

fn expand_macro(expr: &str, text: &str) -> Result<&'static str, ParseError> {
    if let Some((_, fields)) = MACROS.iter().find(|(name, _)| *name == text) {
        return Ok(fields);
    }
    let position = expr.len() - expr.trim_start_matches(BLANKS).len();
    let name = text.split(BLANKS).next().unwrap_or(text);
    let hint = match MACROS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some((known, _)) => format!("write `{known}`, alone and in lower case"),
        None if name.eq_ignore_ascii_case("@reboot") => {
            "a job belongs to no host that could boot; trigger it instead".into()
        }
        None if name.eq_ignore_ascii_case("@every") => {
            "an interval is a schedule of its own kind, not a cron expression".into()
        }
        None => "known are @yearly @annually @monthly @weekly @daily @midnight @hourly".into(),
    };
    Err(Piece { position, text }.refuse("unknown macro", hint))
}

fn parse_fields(expr: &str) -> Result<Cron, ParseError> {
    let whole = Piece { position: 0, text: expr };
    let fields: Vec<_> = whole.split(&BLANKS).filter(|piece| !piece.text.is_empty()).collect();
    check_shape(whole, &fields)?;
    match fields[..] {
        [minutes, hours, days, months, weekdays] => {
            let seconds = Piece { position: 0, text: "0" };
            compile(&[seconds, minutes, hours, days, months, weekdays])
        }
        [seconds, minutes, hours, days, months, weekdays] => {
            compile(&[seconds, minutes, hours, days, months, weekdays])
        }
        _ => Err(wrong_count(whole, &fields)),
    }
}

/// Refuses empty list items, often from blanks around commas, before the fields are counted.
fn check_shape(whole: Piece<'_>, fields: &[Piece<'_>]) -> Result<(), ParseError> {
    let Some(first) = fields.first() else {
        return Err(whole.refuse("empty expression", "write five fields, as `0 3 * * *`"));
    };
    if first.text.starts_with("TZ=") || first.text.starts_with("CRON_TZ=") {
        let hint = "name the zone beside the expression, not in it";
        return Err(first.refuse("zone inside the expression", hint));
    }
    for field in fields {
        if let Some(item) = field.split(&[',']).find(|item| item.text.is_empty()) {
            let end = field.position + field.text.len();
            let position = item.position.min(end - 1);
            return Err(Piece { position, text: &whole.text[position..end] }
                .refuse("empty list item", "write lists as `1,2`, without blanks"));
        }
    }
    Ok(())
}

fn wrong_count(whole: Piece<'_>, fields: &[Piece<'_>]) -> ParseError {
    let message = format!("expression has {} fields, not 5 or 6", fields.len());
    let hint = match fields {
        [one] if one.text.bytes().all(|byte| byte == b'*') => "write blanks between the stars",
        _ if fields.len() == 7 => "a year field is not supported; drop it",
        _ => "write `minute hour day month weekday`, with seconds before if you need them",
    };
    let position = fields.get(6).map_or(0, |surplus| surplus.position);
    Piece { position, text: &whole.text[position..] }.refuse(message, hint)
}

fn compile(fields: &[Piece<'_>; 6]) -> Result<Cron, ParseError> {
    let mut text = String::with_capacity(64);
    for (field, unit) in fields.iter().zip(&UNITS) {
        normalise(unit, *field, &mut text)?;
        text.push(' ');
    }
    text.push('*');
    let schedule = Schedule::from_str(&text)
        .map_err(|error| fields[0].refuse(error.to_string(), "report this expression"))?;
    let starred = |index: usize| fields[index].text.starts_with(['*', '?']);
    let cron = Cron {
        seconds: mask(schedule.seconds(), 0),
        minutes: mask(schedule.minutes(), 0),
        hours: mask(schedule.hours(), 0) as u32,
        days: mask(schedule.days_of_month(), 1) as u32,
        months: mask(schedule.months(), 1) as u16,
        weekdays: mask(schedule.days_of_week(), 1) as u8,
        day_rule: if starred(3) || starred(5) { DayRule::Both } else { DayRule::Either },
        pace: if starred(1) || starred(2) { Pace::Elapsed } else { Pace::Fixed },
    };
    if cron.has_days() {
        return Ok(cron);
    }
    Err(fields[3].refuse(
        format!("no month of `{}` has such a day: the job would never run", fields[4].text),
        "choose a day that exists; `28` is in every month",
    ))
}

fn mask(values: &impl TimeUnitSpec, lowest: u32) -> u64 {
    values.iter().fold(0, |mask, value| mask | 1 << (value - lowest))
}

/// What a field may hold.
struct Unit {
    name: &'static str,
    first: u32,
    /// The highest value; for weekdays the 7 that is Sunday again.
    last: u32,
    /// How many different values there are.
    cycle: u32,
    /// Names of the values from `first` on.
    names: &'static [&'static str],
    /// What the `cron` crate calls the value 0.
    shift: u32,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const UNITS: [Unit; 6] = [
    Unit { name: "second", first: 0, last: 59, cycle: 60, names: &[], shift: 0 },
    Unit { name: "minute", first: 0, last: 59, cycle: 60, names: &[], shift: 0 },
    Unit { name: "hour", first: 0, last: 23, cycle: 24, names: &[], shift: 0 },
    Unit { name: "day-of-month", first: 1, last: 31, cycle: 31, names: &[], shift: 0 },
    Unit { name: "month", first: 1, last: 12, cycle: 12, names: &MONTHS, shift: 0 },
    Unit { name: "day-of-week", first: 0, last: 7, cycle: 7, names: &WEEKDAYS, shift: 1 },
];

/// Ascending values `first`, `first + step`, … up to `last`. Values past the unit's highest have
/// wrapped around: 25 is one o'clock.
#[derive(Clone, Copy)]
struct Run {
    first: u32,
    last: u32,
    step: u32,
}

/// Appends `field` to `text` in the words of the `cron` crate.
fn normalise(unit: &Unit, field: Piece<'_>, text: &mut String) -> Result<(), ParseError> {
    let start = text.len();
    let mut whole = false;
    for (index, item) in field.split(&[',']).enumerate() {
        if index == ITEMS_MAX {
            let hint = "write ranges instead, as `0-30`";
            return Err(item.refuse(format!("{} has over 60 list items", unit.name), hint));
        }
        let run = read_item(unit, item)?;
        whole |= run.step == 1 && run.last - run.first + 1 >= unit.cycle;
        append(unit, run, text);
    }
    text.pop();
    if whole {
        text.truncate(start);
        text.push('*');
    }
    Ok(())
}

/// Writes a run as one ascending range, or two when it wraps around; a comma follows each.
fn append(unit: &Unit, run: Run, text: &mut String) {
    let highest = unit.first + unit.cycle - 1;
    let mut range = |first: u32, last: u32| {
        let (first, last) = (first + unit.shift, last + unit.shift);
        // The crate refuses steps over a field's span, so a lone first value is written plain.
        let written = match run.step {
            step if first + step > last => write!(text, "{first},"),
            1 => write!(text, "{first}-{last},"),
            step => write!(text, "{first}-{last}/{step},"),
        };
        written.expect("a string takes any text");
    };
    range(run.first, run.last.min(highest));
    let before_wrap = (highest - run.first) / run.step + 1;
    let wrapped = run.first + before_wrap * run.step;
    if wrapped <= run.last {
        range(wrapped - unit.cycle, run.last - unit.cycle);
    }
}

fn read_item(unit: &Unit, item: Piece<'_>) -> Result<Run, ParseError> {
    let (base, step) = match item.split_once('/') {
        Some((base, step)) => (base, Some(read_step(unit, step)?)),
        None => (item, None),
    };
    let (mut first, mut last) = if base.text == "*" || base.text == "?" {
        (unit.first, unit.last)
    } else if let Some((low, high)) = base.split_once('-') {
        (read_value(unit, low)?, read_value(unit, high)?)
    } else {
        let value = read_value(unit, base)?;
        (value, if step.is_some() { unit.last } else { value })
    };
    // Sunday is 0 at the start of a range and 7 at its end.
    if first == unit.first + unit.cycle {
        first = unit.first;
        last = if last == unit.last { unit.first } else { last };
    }
    if last < first {
        last += unit.cycle;
    }
    Ok(Run { first, last, step: step.unwrap_or(1) })
}

/// A step; one that is over the span of any field is as good as 100.
fn read_step(unit: &Unit, piece: Piece<'_>) -> Result<u32, ParseError> {
    match read_number(piece.text) {
        Some(0) => Err(piece.refuse(
            format!("{} step is 0", unit.name),
            "a step is 1 or more; `*/1` is the same as `*`",
        )),
        Some(step) => Ok(step.min(100)),
        None => Err(piece.refuse(
            format!("{} step is not a number", unit.name),
            "write a step as `*/5`, `10-40/5` or `5/15`",
        )),
    }
}

fn read_value(unit: &Unit, piece: Piece<'_>) -> Result<u32, ParseError> {
    let range = format!("{} to {}", unit.first, unit.last);
    if let Some(value) = read_number(piece.text) {
        if (unit.first..=unit.last).contains(&value) {
            return Ok(value);
        }
        let message = format!("{} is out of range", unit.name);
        return Err(piece.refuse(message, format!("use {range}")));
    }
    if let Some(index) = unit.names.iter().position(|name| name.eq_ignore_ascii_case(piece.text)) {
        return Ok(unit.first + index as u32);
    }
    Err(piece.refuse(format!("not a {}", unit.name), hint_for_value(unit, piece.text, &range)))
}

fn hint_for_value(unit: &Unit, text: &str, range: &str) -> String {
    let short = |name: &&&str| text.len() > 3 && text.to_ascii_lowercase().starts_with(**name);
    if let Some(name) = unit.names.iter().find(short) {
        return format!("names have three letters: `{name}`");
    }
    if text.contains('#') || text.to_ascii_uppercase().contains(['L', 'W', 'H']) {
        return format!("`L`, `W`, `#` and `H` are not supported; use {range}");
    }
    match (unit.names.first(), unit.names.last()) {
        (Some(first), Some(last)) => format!("use {range}, or {first} to {last}"),
        _ => format!("use {range}"),
    }
}

/// A decimal number of any length; a huge one is only known to be out of every range.
fn read_number(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.bytes().fold(0, |value: u32, digit| {
        value.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
    }))
}
