//! One item of a list: a value, a range, a step, a hash slot, or a day told by its place.

use cronstream_schemas::definition::Dialect;

use super::{
    super::{error::ParseError, hash::Seed},
    piece::Piece,
    unit::{Kind, Unit},
};

/// A step above this is over the span of any field, and as good as this.
pub(super) const STEP_MAX: u32 = 1_000;

/// What an item stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// Values.
    Run(Run),
    /// `H`: a value, or the first of a run, that the seed decides.
    Hash { low: u32, high: u32, step: Option<u32> },
    /// A day told by its place in the month.
    Counted(Counted),
}

/// A day told by its place in the month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// `L`, `L-3`: so many days before the last of the month.
    FromEnd(u32),
    /// `LW`, `L-3W`: the day of Monday to Friday nearest to the one so many days before the last.
    NearEnd(u32),
    /// `15W`: the day of Monday to Friday nearest to the day, in its month.
    Near(u32),
    /// `5L`: the last such weekday of the month; 0 is Sunday.
    LastOf(u32),
    /// `5#3`: the third such weekday of the month; 0 is Sunday, places count from 1.
    Nth { weekday: u32, place: u32 },
}

/// Ascending values `first`, `first + step`, … up to `last`. Values past the unit's highest have
/// wrapped around: 25 is one o'clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) step: u32,
}

impl Run {
    /// The highest value that the steps reach.
    pub(super) const fn reached(self) -> u32 {
        self.first + (self.last - self.first) / self.step * self.step
    }
}

/// Reads one item of a list.
pub(super) fn read_item(unit: &Unit, item: Piece<'_>) -> Result<Item, ParseError> {
    if item.text.starts_with(['H', 'h']) {
        return read_hash(unit, item);
    }
    let counted = match unit.kind {
        Kind::Dates => read_date(unit, item)?,
        Kind::Weekdays(_) if matches!(item.text, "L" | "l") => {
            return read_last_weekday(unit, item);
        }
        Kind::Weekdays(_) => read_weekday(unit, item)?,
        Kind::Plain | Kind::Years => None,
    };
    match counted {
        Some(counted) => Ok(Item::Counted(counted)),
        None => read_run(unit, item).map(Item::Run),
    }
}

/// The values that a hash slot has for a job.
pub(super) fn resolve(unit: &Unit, (low, high): (u32, u32), step: Option<u32>, seed: Seed) -> Run {
    let span = high - low + 1;
    let first = low + seed.draw(unit.name, step.unwrap_or(span).min(span));
    let last = if step.is_some() { high } else { first };
    let wrapped = if first > unit.highest() { unit.cycle } else { 0 };
    Run { first: first - wrapped, last: last - wrapped, step: step.unwrap_or(1) }
}

fn read_hash(unit: &Unit, item: Piece<'_>) -> Result<Item, ParseError> {
    const HINT: &str = "write `H`, `H/15`, `H(0-29)` or `H(0-29)/10`";
    if unit.kind == Kind::Years {
        return Err(item.refuse("hash slot in the year", "name the years, as `2027-2030`"));
    }
    let (range, step) = match item.skip(1).split_once('/') {
        Some((range, step)) => (range, Some(read_step(unit, step)?)),
        None => (item.skip(1), None),
    };
    if range.text.is_empty() {
        return Ok(Item::Hash { low: unit.first, high: unit.hash_last, step });
    }
    let inside = match range.text.as_bytes() {
        [b'(', .., b')'] => range.skip(1).without_last().split_once('-'),
        _ => None,
    };
    let (low, high) = inside.ok_or_else(|| item.refuse("not a hash slot", HINT))?;
    let (low, high) = (read_value(unit, low)?, read_value(unit, high)?);
    let (low, high) = in_order(unit, low, high);
    Ok(Item::Hash { low, high, step })
}

/// `L`, `L-3`, `LW`, `L-3W`, `15W`.
fn read_date(unit: &Unit, item: Piece<'_>) -> Result<Option<Counted>, ParseError> {
    if item.text.starts_with(['L', 'l']) {
        let rest = item.skip(1).text;
        let (rest, near) = match rest.strip_suffix(['W', 'w']) {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let before = match (rest, rest.strip_prefix('-').and_then(read_number)) {
            ("", _) => 0,
            (_, Some(before @ 1..=30)) => before,
            (_, Some(_)) => {
                return Err(item.refuse(
                    "day before the last is out of range",
                    "use L-1 to L-30; `L` is the last day",
                ));
            }
            (_, None) => {
                let hint = hint_for_value(unit, item.text);
                return Err(item.refuse("not a valid day-of-month", hint));
            }
        };
        return Ok(Some(if near { Counted::NearEnd(before) } else { Counted::FromEnd(before) }));
    }
    if item.text.ends_with(['W', 'w']) {
        let day = item.without_last();
        if read_number(day.text).is_none() {
            let hint = "`W` follows one day, as `15W`; `LW` is the last working day";
            return Err(item.refuse("not a valid day-of-month", hint));
        }
        return Ok(Some(Counted::Near(read_value(unit, day)?)));
    }
    Ok(None)
}

/// `5L`, `5#3`.
fn read_weekday(unit: &Unit, item: Piece<'_>) -> Result<Option<Counted>, ParseError> {
    let weekday = |piece| Ok((read_value(unit, piece)? - unit.first) % 7);
    if let Some((day, place)) = item.split_once('#') {
        let weekday = weekday(day)?;
        return match read_number(place.text) {
            Some(place @ 1..=5) => Ok(Some(Counted::Nth { weekday, place })),
            Some(_) | None => Err(place.refuse(
                "place of the weekday in its month is not 1 to 5",
                format!(
                    "write `{0}#1` to `{0}#5` for the first to the fifth, `{0}L` for the last",
                    day.text
                ),
            )),
        };
    }
    if !item.text.ends_with(['L', 'l']) {
        return Ok(None);
    }
    Ok(Some(Counted::LastOf(weekday(item.without_last())?)))
}

/// The weekday that is `L` alone: Saturday in Quartz, nothing elsewhere.
fn read_last_weekday(unit: &Unit, item: Piece<'_>) -> Result<Item, ParseError> {
    match unit.kind {
        Kind::Weekdays(Dialect::Quartz) => {
            Ok(Item::Run(Run { first: unit.last, last: unit.last, step: 1 }))
        }
        Kind::Weekdays(Dialect::Crontab) | Kind::Plain | Kind::Dates | Kind::Years => Err(item
            .refuse(
                "`L` without a weekday",
                "write `5L` for the last Friday; in `dialect: quartz` it is Saturday, here `6`",
            )),
    }
}

/// A value, a range, a star, with or without a step.
fn read_run(unit: &Unit, item: Piece<'_>) -> Result<Run, ParseError> {
    let (base, step) = match item.split_once('/') {
        Some((base, step)) => (base, Some((step, read_step(unit, step)?))),
        None => (item, None),
    };
    let (first, last) = if base.text == "*" || base.text == "?" {
        (unit.first, unit.highest())
    } else if let Some((low, high)) = base.split_once('-') {
        (read_value(unit, low)?, read_value(unit, high)?)
    } else if base.text.is_empty() && step.is_some() && unit.bare_step {
        (unit.first, unit.highest())
    } else if base.text.is_empty() && step.is_some() {
        let hint = format!("write `*{}`", item.text);
        return Err(item.refuse(format!("{} step without a start", unit.name), hint));
    } else {
        let value = read_value(unit, base)?;
        (value, if step.is_some() { unit.last } else { value })
    };
    if last < first && unit.kind == Kind::Years {
        let hint = "years do not wrap around; write the earlier year first";
        return Err(base.refuse("range of years ends before it begins", hint));
    }
    let (first, last) = in_order(unit, first, last);
    Ok(Run { first, last, step: step.map_or(1, |(_, step)| step) })
}

/// A range with its end above its start, past the unit's highest value if it wraps around. Sunday
/// is 0 at the start of a range and 7 at its end.
fn in_order(unit: &Unit, first: u32, last: u32) -> (u32, u32) {
    let (first, last) = match (first > unit.highest(), last > unit.highest()) {
        (true, true) => (unit.first, unit.first),
        (true, false) => (unit.first, last),
        (false, _) => (first, last),
    };
    (first, if last < first { last + unit.cycle } else { last })
}

/// A step; one that is over the span of any field is as good as [`STEP_MAX`].
fn read_step(unit: &Unit, piece: Piece<'_>) -> Result<u32, ParseError> {
    match read_number(piece.text) {
        Some(0) => Err(piece.refuse(
            format!("{} step is 0", unit.name),
            "a step is 1 or more; `*/1` is the same as `*`",
        )),
        Some(step) => Ok(step.min(STEP_MAX)),
        None => Err(piece.refuse(
            format!("{} step is not a number", unit.name),
            "write a step as `*/5`, `10-40/5` or `5/15`",
        )),
    }
}

fn read_value(unit: &Unit, piece: Piece<'_>) -> Result<u32, ParseError> {
    if let Some(value) = read_number(piece.text) {
        if (unit.first..=unit.last).contains(&value) {
            return Ok(value);
        }
        let message = format!("{} is out of range", unit.name);
        return Err(piece.refuse(message, hint_for_number(unit, value)));
    }
    if let Some(index) = unit.names.iter().position(|name| name.eq_ignore_ascii_case(piece.text)) {
        return Ok(unit.first + index as u32);
    }
    Err(piece.refuse(format!("not a valid {}", unit.name), hint_for_value(unit, piece.text)))
}

fn hint_for_number(unit: &Unit, value: u32) -> String {
    let range = unit.range();
    match unit.kind {
        Kind::Weekdays(Dialect::Quartz) if value == 0 => {
            "Quartz counts from 1 for Sunday to 7 for Saturday; 0 is Sunday in `dialect: crontab`"
                .into()
        }
        Kind::Plain | Kind::Dates | Kind::Weekdays(_) | Kind::Years => format!("use {range}"),
    }
}

fn hint_for_value(unit: &Unit, text: &str) -> String {
    let range = unit.range();
    let short = |name: &&&str| {
        text.get(..3).is_some_and(|start| text.len() > 3 && start.eq_ignore_ascii_case(name))
            && text.bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    if let Some(name) = unit.names.iter().find(short) {
        return format!("names have three letters: `{name}`");
    }
    let has = |letters: &[char]| text.contains(letters);
    match unit.kind {
        Kind::Dates if has(&['#']) => "`#` belongs to the day-of-week, as `FRI#3`".into(),
        Kind::Dates if has(&['L', 'l']) => {
            "`L` stands alone or as `L-3`, `LW` or `L-3W`, not in a range or with a step".into()
        }
        Kind::Dates if has(&['W', 'w']) => {
            "`W` follows one day, as `15W`, not in a range or with a step".into()
        }
        Kind::Weekdays(_) if text.ends_with(['W', 'w']) => {
            "`W` belongs to the day-of-month, as `15W`".into()
        }
        Kind::Weekdays(_) if text.starts_with(['L', 'l']) || has(&['#']) => {
            "`L` and `#` follow one weekday, as `FRIL` and `FRI#3`".into()
        }
        Kind::Weekdays(Dialect::Quartz) if text.starts_with('+') => {
            "Quartz has no `+`; it belongs to `dialect: crontab`".into()
        }
        Kind::Weekdays(Dialect::Crontab) if text.starts_with('+') => {
            "a `+` stands before the whole day-of-week field, as `+MON,FRI`".into()
        }
        Kind::Dates if text.starts_with('+') => {
            "a `+` stands before the day-of-week, as `0 12 1 * +MON`".into()
        }
        Kind::Plain if has(&['=']) => {
            "a zone stands first, in capitals: `TZ=Europe/Berlin 0 3 * * *`".into()
        }
        Kind::Plain | Kind::Dates | Kind::Weekdays(_) if has(&['~']) => {
            "for a value of the job's own write a hash slot, as `H(0-5)`".into()
        }
        Kind::Plain | Kind::Years if matches!(text, "L" | "l" | "W" | "w" | "LW") => {
            format!("`L`, `W` and `#` belong to the days; use {range}")
        }
        Kind::Plain | Kind::Dates | Kind::Weekdays(_) | Kind::Years => format!("use {range}"),
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
