//! From the text of an expression to [`Cron`] or an interval.
//!
//! ```text
//! TZ=Europe/Berlin 30 2 * * +MON ─ shape ─► zone, fields ─ item ─► items ─ compile ─► Cron
//!                  @daily, @every 90m ─┘                                └─ lint ─► warnings
//! ```
//!
//! Two rules are read from the text alone: a field that *begins* with a star makes day-of-month
//! and day-of-week combine by AND, or makes the job follow elapsed time.
//!
//! Invariant: any input ends in a rule with at least one match or in a [`ParseError`], within work
//! bounded by the length of an expression and the items of a list.

mod compile;
mod item;
mod lint;
mod memo;
mod piece;
mod shape;
mod unit;

use cronstream_schemas::{
    definition::{Dialect, EVERY_MAX, EVERY_MIN},
    duration::{Span, SpanError},
};

pub use self::lint::{Lint, lint};
use self::{
    compile::compile,
    piece::Piece,
    shape::{first_word, lift_zone, split_fields},
};
use super::{error::ParseError, fields::Cron, hash::Seed, zone::Zone};

const MACROS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// A parsed expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The zone of a `TZ=` or `CRON_TZ=` prefix, by its canonical name.
    pub zone: Option<String>,
    /// When the job is due.
    pub rule: Rule,
    /// The rule as crontab text in normal form, without the prefix.
    pub text: String,
}

/// When a job is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// At the times that match.
    Cron(Cron),
    /// At a fixed interval: `@every 90m`. It is within the bounds of `schedule.every`.
    Every(Span),
}

impl Rule {
    /// When the job is due in English words, as `at 02:30 on Monday to Friday` or `every 1h30m`.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Cron(cron) => cron.describe(),
            Self::Every(span) => format!("every {span}"),
        }
    }
}

/// Compiles an expression of a job.
///
/// ```
/// use cronstream_core::schedule::{Seed, parse};
/// use cronstream_schemas::definition::Dialect;
///
/// let seed = Seed::of(&"billing/invoices".parse()?);
/// let parsed = parse("TZ=Europe/Berlin 0 0 8 ? * 6L", Dialect::Quartz, seed)?;
/// assert_eq!(parsed.zone.as_deref(), Some("Europe/Berlin"));
/// assert_eq!(parsed.text, "0 8 * * 5L");
/// assert_eq!(parsed.rule.describe(), "at 08:00 on the last Friday of every month");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Refuses what is not in the dialect, and what can never fire.
pub fn parse(expr: &str, dialect: Dialect, seed: Seed) -> Result<Parsed, ParseError> {
    let (zone, rule) = read(expr, dialect, seed)?;
    let text = match rule {
        Rule::Cron(cron) => cron.canonical(),
        Rule::Every(span) => format!("@every {span}"),
    };
    Ok(Parsed { zone: zone.map(str::to_owned), rule, text })
}

/// The canonical name of the zone before an expression of a job, and its rule.
pub(crate) fn read(
    expr: &str,
    dialect: Dialect,
    seed: Seed,
) -> Result<(Option<&'static str>, Rule), ParseError> {
    let (zone, text) = lift_zone(expr)?;
    let known = |zone: Piece<'_>| match Zone::get(zone.text) {
        Ok(known) => Ok(known.name()),
        Err(error) => Err(zone.refuse("unknown time zone", error.hint)),
    };
    let zone = zone.map(known).transpose()?;
    let rule = if text.text.starts_with('@') {
        match expand_macro(text, dialect)? {
            Macro::Fields(fields) => Rule::Cron(compile_macro(fields)?),
            Macro::Every(span) => Rule::Every(span),
        }
    } else {
        let anew = || compile(&split_fields(text, dialect)?, Some(seed));
        Rule::Cron(memo::compiled(text.text, dialect, anew)?)
    };
    Ok((zone, rule))
}

impl Cron {
    /// Compiles an expression of the crontab dialect that belongs to no job: without a zone, an
    /// interval or hash slots.
    ///
    /// # Errors
    /// Refuses what is not in the dialect, and what can never fire.
    pub fn parse(expr: &str) -> Result<Self, ParseError> {
        let (zone, text) = lift_zone(expr)?;
        if let Some(zone) = zone {
            let hint = "name the zone beside the expression, not in it";
            return Err(zone.refuse("zone inside the expression", hint));
        }
        if !text.text.starts_with('@') {
            return compile(&split_fields(text, Dialect::Crontab)?, None);
        }
        match expand_macro(text, Dialect::Crontab)? {
            Macro::Fields(fields) => compile_macro(fields),
            Macro::Every(_) => {
                Err(text.refuse("interval where times are wanted", "write times, as `0 3 * * *`"))
            }
        }
    }
}

/// What a word with an `@` stands for.
enum Macro {
    Fields(&'static str),
    Every(Span),
}

fn compile_macro(fields: &'static str) -> Result<Cron, ParseError> {
    let text = Piece { position: 0, text: fields };
    compile(&split_fields(text, Dialect::Crontab)?, None)
}

fn expand_macro(text: Piece<'_>, dialect: Dialect) -> Result<Macro, ParseError> {
    if dialect == Dialect::Quartz {
        let hint = "Quartz has none; they belong to `dialect: crontab`";
        return Err(text.refuse("word with `@` in a Quartz expression", hint));
    }
    if let Some((_, fields)) = MACROS.iter().find(|(name, _)| *name == text.text) {
        return Ok(Macro::Fields(fields));
    }
    let name = first_word(text);
    if name.text == "@every" {
        let interval = text.skip(name.text.len()).trim([' ', '\t']);
        return read_interval(text, interval).map(Macro::Every);
    }
    let known = MACROS.iter().map(|(known, _)| *known).chain(["@every"]);
    let hint = match known.into_iter().find(|known| known.eq_ignore_ascii_case(name.text)) {
        Some(known) => format!("write `{known}` in lower case, with nothing after it"),
        None if name.text.eq_ignore_ascii_case("@reboot") => {
            "a job belongs to no host that could boot; trigger it instead".into()
        }
        None => {
            "known are @yearly @annually @monthly @weekly @daily @midnight @hourly @every".into()
        }
    };
    Err(text.refuse("unknown macro", hint))
}

/// The interval of `@every`: the text and the bounds of `schedule.every`.
fn read_interval(whole: Piece<'_>, interval: Piece<'_>) -> Result<Span, ParseError> {
    if interval.text.is_empty() {
        return Err(whole.refuse("`@every` without an interval", "write it as `@every 90m`"));
    }
    let bounds = format!("use {EVERY_MIN} to {EVERY_MAX}");
    match interval.text.parse::<Span>() {
        Ok(span) if (EVERY_MIN..=EVERY_MAX).contains(&span) => Ok(span),
        Ok(_) | Err(SpanError::TooLong(_)) => {
            Err(interval.refuse("interval is out of range", bounds))
        }
        Err(SpanError::Form(_)) => Err(interval.refuse("not a duration", SpanError::HINT)),
    }
}
