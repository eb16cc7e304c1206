//! From fields to [`Cron`].
//!
//! Each field is read item by item, so that a refusal can name the byte. Plain values are written
//! as the `cron` crate wants them (ascending ranges, Sunday = 1, no step over its span) and the
//! crate expands the lists; days told by their place and years are ours.

use std::{fmt::Write, str::FromStr};

use cron::{Schedule, TimeUnitSpec};

use super::{
    super::{
        error::ParseError,
        fields::{Cron, DayRule, Days, Pace},
        hash::Seed,
        years::{YEAR_MAX, YEAR_MIN, Years},
    },
    item::{Counted, Item, Run, read_item, resolve},
    piece::Piece,
    shape::Fields,
    unit::{DATE, HOUR, MINUTE, MONTH, Unit, WEEKDAY, YEAR},
};

/// The most items of one list: no field has more values.
const ITEMS_MAX: usize = 100;

/// Compiles fields; hash slots need a seed.
pub(super) fn compile(fields: &Fields<'_>, seed: Option<Seed>) -> Result<Cron, ParseError> {
    let mut days = Days::NONE;
    let mut text = String::with_capacity(64);
    let mut plain = [false; YEAR];
    for (index, plain) in plain.iter_mut().enumerate() {
        let unit = &fields.units[index];
        *plain = normalise(
            unit,
            fields.pieces[index],
            seed,
            &mut Out { text: &mut text, days: &mut days },
        )?;
        text.push(' ');
    }
    text.push('*');
    let schedule = Schedule::from_str(&text)
        .map_err(|error| fields.pieces[0].refuse(error.to_string(), "report this expression"))?;
    if plain[DATE] {
        days.dates = mask(schedule.days_of_month(), 1) as u32;
    }
    if plain[WEEKDAY] {
        days.weekdays = mask(schedule.days_of_week(), 1) as u8;
    }
    days.drop_covered();
    let both = fields.plus || fields.starred(DATE) || fields.starred(WEEKDAY);
    days.rule = if both { DayRule::Both } else { DayRule::Either };
    let elapsed = fields.starred(MINUTE) || fields.starred(HOUR);
    let cron = Cron {
        seconds: mask(schedule.seconds(), 0),
        minutes: mask(schedule.minutes(), 0),
        hours: mask(schedule.hours(), 0) as u32,
        days,
        months: mask(schedule.months(), 1) as u16,
        years: read_years(&fields.units[YEAR], fields.pieces[YEAR])?,
        pace: if elapsed { Pace::Elapsed } else { Pace::Fixed },
    };
    if cron.has_days() { Ok(cron) } else { Err(never(fields, &cron)) }
}

fn never(fields: &Fields<'_>, cron: &Cron) -> ParseError {
    let restricted = |index: usize| !fields.starred(index);
    let at = if restricted(DATE) { DATE } else { WEEKDAY };
    let months = match fields.pieces[MONTH].text {
        "*" => String::new(),
        months => format!(" of `{months}`"),
    };
    let years = match fields.pieces[YEAR].text {
        "*" => String::new(),
        years => format!(" in `{years}`"),
    };
    let hint = match cron.days.rule {
        DayRule::Both if restricted(DATE) && restricted(WEEKDAY) => {
            "both day fields must match the same day; choose days that can meet"
        }
        DayRule::Both | DayRule::Either => "choose a day that exists; `28` is in every month",
    };
    fields.pieces[at]
        .refuse(format!("no month{months}{years} has such a day: the job would never run"), hint)
}

fn mask(values: &impl TimeUnitSpec, lowest: u32) -> u64 {
    values.iter().fold(0, |mask, value| mask | 1 << (value - lowest))
}

/// Where the items of a field go: values to the text for the `cron` crate, the rest to `days`.
struct Out<'a> {
    text: &'a mut String,
    days: &'a mut Days,
}

/// Appends `field` to the text in the words of the `cron` crate, or a star if it has no values;
/// tells whether it has.
fn normalise(
    unit: &Unit,
    field: Piece<'_>,
    seed: Option<Seed>,
    out: &mut Out<'_>,
) -> Result<bool, ParseError> {
    let start = out.text.len();
    let (mut whole, mut counted) = (false, None);
    for (index, item) in field.split(&[',']).enumerate() {
        if index == ITEMS_MAX {
            let hint = "write ranges instead, as `0-30`";
            let message = format!("{} has over {ITEMS_MAX} list items", unit.name);
            return Err(item.refuse(message, hint));
        }
        let run = match read_item(unit, item)? {
            Item::Run(run) => run,
            Item::Hash { low, high, step } => {
                let seed = seed.ok_or_else(|| {
                    item.refuse("hash slot without a job", "name the job that it is spread for")
                })?;
                resolve(unit, (low, high), step, seed)
            }
            Item::Counted(day) => {
                count(out.days, day);
                counted = Some(item);
                continue;
            }
        };
        whole |= run.step == 1 && run.last - run.first + 1 >= unit.cycle;
        append(unit, run, out.text);
    }
    if let Some(item) = counted.filter(|_| field.text.contains('*')) {
        let message = format!("`{}` in a list with a star", item.text);
        return Err(item.refuse(message, "write it alone or with plain values, as `1,15,L`"));
    }
    let plain = out.text.len() > start;
    if whole || !plain {
        out.text.truncate(start);
        out.text.push('*');
    } else {
        out.text.pop();
    }
    Ok(plain)
}

fn count(days: &mut Days, day: Counted) {
    match day {
        Counted::FromEnd(before) => days.from_end |= 1 << before,
        Counted::NearEnd(before) => days.near_end |= 1 << before,
        Counted::Near(day) => days.near |= 1 << (day - 1),
        Counted::LastOf(weekday) => days.last |= 1 << weekday,
        Counted::Nth { weekday, place } => days.nth[place as usize - 1] |= 1 << weekday,
    }
}

/// Writes a run as one ascending range, or two when it wraps around; a comma follows each.
fn append(unit: &Unit, run: Run, text: &mut String) {
    let highest = unit.highest();
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

fn read_years(unit: &Unit, field: Piece<'_>) -> Result<Years, ParseError> {
    if matches!(field.text, "*" | "*/1") {
        return Ok(Years::EVERY);
    }
    let mut named = [false; (YEAR_MAX - YEAR_MIN + 1) as usize];
    for (index, item) in field.split(&[',']).enumerate() {
        if index == ITEMS_MAX {
            let message = format!("year has over {ITEMS_MAX} list items");
            return Err(item.refuse(message, "write ranges instead, as `2027-2030`"));
        }
        if let Item::Run(run) = read_item(unit, item)? {
            for year in (run.first..=run.last).step_by(run.step as usize) {
                named[(year - YEAR_MIN) as usize] = true;
            }
        }
    }
    Years::of((YEAR_MIN..=YEAR_MAX).filter(|year| named[(year - YEAR_MIN) as usize])).ok_or_else(
        || {
            field.refuse(
                "years fall into more than four ranges and steps",
                "write ranges, as `2027-2030`, or several expressions",
            )
        },
    )
}
