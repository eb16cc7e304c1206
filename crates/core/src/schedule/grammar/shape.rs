//! The shape of an expression: its characters, the zone before it, its fields and their number.
//!
//! Invariant: what leaves here as [`Fields`] has the right number of fields, none empty, and no
//! list with an empty item.

use cronstream_schemas::definition::Dialect;

use super::{
    super::{error::ParseError, zone::Zone},
    piece::Piece,
    unit::{DATE, Unit, WEEKDAY, units},
};

/// The longest expression, in bytes.
const LENGTH_MAX: usize = 1_024;

const BLANKS: [char; 2] = [' ', '\t'];

/// The fields of an expression.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    /// Seconds first, the year last; `0` and `*` where they are not written.
    pub(super) pieces: [Piece<'a>; 7],
    pub(super) units: &'static [Unit; 7],
    /// How many of them are written.
    pub(super) written: usize,
    /// Whether a `+` stood before the day-of-week: a day must match both day fields.
    pub(super) plus: bool,
}

impl Fields<'_> {
    /// Whether the field begins with a star, or with what is the same: `?`, the `/5` of Quartz.
    pub(super) fn starred(&self, index: usize) -> bool {
        self.pieces[index].text.starts_with(['*', '?', '/'])
    }
}

/// The expression without the blanks around it, and the zone of its prefix.
pub(super) fn lift_zone(expr: &str) -> Result<(Option<Piece<'_>>, Piece<'_>), ParseError> {
    check_characters(expr)?;
    let whole = Piece { position: 0, text: expr };
    let text = whole.trim(BLANKS);
    let prefix = first_word(text);
    let Some(length) = zone_prefix(text.text) else {
        return match prefix.text.contains('=') {
            true => Err(prefix.refuse(
                "not a zone prefix",
                "write it in capitals, as `TZ=Europe/Berlin 0 3 * * *`",
            )),
            false => Ok((None, text)),
        };
    };
    let zone = prefix.skip(length);
    if zone.text.is_empty() {
        return Err(
            prefix.refuse("zone without a name", "write it as `TZ=Europe/Berlin 0 3 * * *`")
        );
    }
    let rest = text.skip(prefix.text.len()).trim(BLANKS);
    if zone_prefix(rest.text).is_some() {
        return Err(first_word(rest).refuse("second zone", "write one `TZ=` only"));
    }
    Ok((Some(zone), rest))
}

fn zone_prefix(text: &str) -> Option<usize> {
    ["TZ=", "CRON_TZ="].iter().find(|name| text.starts_with(**name)).map(|name| name.len())
}

pub(super) fn first_word(text: Piece<'_>) -> Piece<'_> {
    let length = text.text.find(BLANKS).unwrap_or(text.text.len());
    Piece { text: &text.text[..length], ..text }
}

fn check_characters(expr: &str) -> Result<(), ParseError> {
    if expr.len() > LENGTH_MAX {
        let position = expr.floor_char_boundary(LENGTH_MAX);
        return Err(Piece { position, text: &expr[position..] }
            .refuse("expression is longer than 1024 bytes", "split it into several"));
    }
    let strange = |(_, char): &(usize, char)| !char.is_ascii_graphic() && !BLANKS.contains(char);
    match expr.char_indices().find(strange) {
        None => Ok(()),
        Some((position, char)) => {
            let text = &expr[position..position + char.len_utf8()];
            let hint = match char {
                '\r' => "lines from Windows end with it: leave it out",
                '\n' => "an expression is one line: leave the line break out",
                '\u{feff}' => "editors put this byte order mark before a text: leave it out",
                other if other.is_whitespace() => "write plain blanks between the fields",
                _ => "write ASCII digits, names, `* ? , - / # +`, and blanks between the fields",
            };
            let message = format!("character U+{:04X} is not allowed", u32::from(char));
            Err(Piece { position, text }.refuse(message, hint))
        }
    }
}

/// Splits `text` into its fields.
pub(super) fn split_fields(text: Piece<'_>, dialect: Dialect) -> Result<Fields<'_>, ParseError> {
    // Eight are enough to know that there are too many.
    let mut found = [Piece { position: text.position, text: "" }; 8];
    let mut count = 0;
    for piece in text.split(&BLANKS).filter(|piece| !piece.text.is_empty()).take(found.len()) {
        check_list(text, piece)?;
        found[count] = piece;
        count += 1;
    }
    if let Some(last) = found[..count].last() {
        check_zone_behind(*last)?;
    }
    let [a, b, c, d, e, f, g, _] = found;
    let (zero, star) = (Piece { text: "0", ..a }, Piece { text: "*", ..a });
    let pieces = match (count, dialect) {
        (5, Dialect::Crontab) => [zero, a, b, c, d, e, star],
        (6, Dialect::Crontab | Dialect::Quartz) => [a, b, c, d, e, f, star],
        (7, Dialect::Crontab | Dialect::Quartz) => [a, b, c, d, e, f, g],
        _ => return Err(wrong_count(text, &found[..count], dialect)),
    };
    if count == 6 {
        check_seconds_first(c, e, f)?;
    }
    let units = units(dialect);
    let mut fields = Fields { pieces, units, written: count, plus: false };
    match dialect {
        Dialect::Crontab => lift_plus(&mut fields)?,
        Dialect::Quartz => check_one_day_field(&fields)?,
    }
    for (unit, piece) in units.iter().zip(&fields.pieces) {
        check_question_mark(unit, *piece)?;
    }
    Ok(fields)
}

/// Refuses a zone where the last field is wanted.
fn check_zone_behind(last: Piece<'_>) -> Result<(), ParseError> {
    let name = last.text.rsplit('=').next().unwrap_or_default();
    match Zone::find(name) {
        Some(_) => {
            Err(last.refuse("zone behind the fields", format!("begin with it: `TZ={name} …`")))
        }
        None => Ok(()),
    }
}

/// Refuses six fields of which the last is a year or a star too many, so that the first was meant
/// to be the minute.
fn check_seconds_first(
    hour: Piece<'_>,
    month: Piece<'_>,
    weekday: Piece<'_>,
) -> Result<(), ParseError> {
    if is_year(weekday) {
        let hint = "a year is the seventh field, with seconds first: `0 0 3 1 1 * 2027`";
        return Err(weekday.refuse("year in the place of the day-of-week", hint));
    }
    const HINT: &str = "of six fields the first is the second; write `0` before them if it is the \
                        minute, or drop the last";
    let names = units(Dialect::Crontab)[WEEKDAY].names;
    let start = month.text.trim_start_matches('+').get(..3).unwrap_or_default();
    if names.iter().any(|name| name.eq_ignore_ascii_case(start)) {
        return Err(month.refuse("weekday in the place of the month", HINT));
    }
    match [(hour, "hour"), (month, "month")].into_iter().find(|(field, _)| field.text == "?") {
        Some((field, name)) => Err(field.refuse(format!("`?` in the {name}"), HINT)),
        None => Ok(()),
    }
}

/// Whether a field begins with a number of four digits.
fn is_year(field: Piece<'_>) -> bool {
    field.text.len() >= 4 && field.text.bytes().take(4).all(|byte| byte.is_ascii_digit())
}

/// Refuses empty list items, often from blanks around commas, before the fields are counted.
fn check_list(whole: Piece<'_>, field: Piece<'_>) -> Result<(), ParseError> {
    let Some(item) = field.split(&[',']).find(|item| item.text.is_empty()) else { return Ok(()) };
    let end = field.position + field.text.len();
    let position = item.position.min(end - 1);
    let (from, to) = (position - whole.position, end - whole.position);
    Err(Piece { position, text: &whole.text[from..to] }
        .refuse("empty list item", "write lists as `1,2`, without blanks"))
}

fn wrong_count(whole: Piece<'_>, found: &[Piece<'_>], dialect: Dialect) -> ParseError {
    let Some(first) = found.first() else {
        return whole.refuse("empty expression", "write five fields, as `0 3 * * *`");
    };
    let numbers = match dialect {
        Dialect::Crontab => "5, 6 or 7",
        Dialect::Quartz => "6 or 7",
    };
    let count = match found.len() {
        1 => "1 field".to_owned(),
        8 => "8 or more fields".to_owned(),
        count => format!("{count} fields"),
    };
    let message = format!("expression has {count}, not {numbers}");
    let hint = match (found.len(), dialect) {
        (1, _) if first.text.bytes().all(|byte| byte == b'*') => {
            "write blanks between the stars".to_owned()
        }
        (5, Dialect::Quartz) => {
            "Quartz wants seconds first; five fields are `dialect: crontab`".to_owned()
        }
        (_, Dialect::Quartz) => {
            "write `second minute hour day month weekday`, and a year after them if you need it"
                .to_owned()
        }
        (_, Dialect::Crontab) => "write `minute hour day month weekday`, with seconds before \
                                  and a year after them if you need them"
            .to_owned(),
    };
    match found.get(7) {
        Some(surplus) => {
            let text = &whole.text[surplus.position - whole.position..];
            Piece { text, ..*surplus }.refuse(message, hint)
        }
        None => whole.refuse(message, hint),
    }
}

/// `+MON`: both day fields must match, whatever they begin with.
fn lift_plus(fields: &mut Fields<'_>) -> Result<(), ParseError> {
    let weekdays = fields.pieces[WEEKDAY];
    if !weekdays.text.starts_with('+') {
        return Ok(());
    }
    fields.pieces[WEEKDAY] = weekdays.skip(1);
    fields.plus = true;
    if fields.starred(WEEKDAY) || weekdays.text.len() == 1 {
        let hint = "write `+` before weekdays, as `0 12 1 * +MON`";
        return Err(weekdays.refuse("`+` without weekdays", hint));
    }
    Ok(())
}

/// Quartz leaves one of the two day fields open, with a `?`.
fn check_one_day_field(fields: &Fields<'_>) -> Result<(), ParseError> {
    let (dates, weekdays) = (fields.pieces[DATE], fields.pieces[WEEKDAY]);
    match (dates.text == "?", weekdays.text == "?") {
        (true, false) | (false, true) => Ok(()),
        (true, true) => Err(weekdays.refuse(
            "day-of-month and day-of-week are both `?`",
            "write a `*` in one of them, as `0 0 12 * * ?`",
        )),
        (false, false) => Err(weekdays.refuse(
            "day-of-month and day-of-week are both given",
            "Quartz wants a `?` in one of them; `dialect: crontab` takes days that match either",
        )),
    }
}

fn check_question_mark(unit: &Unit, field: Piece<'_>) -> Result<(), ParseError> {
    match field.text.find('?') {
        None => Ok(()),
        Some(_) if unit.is_days() && field.text == "?" => Ok(()),
        Some(at) => {
            let hint = "`?` stands alone, for day-of-month or day-of-week; elsewhere write `*`";
            let mark = Piece { text: &field.text[at..], position: field.position + at };
            Err(mark.refuse(format!("`?` in the {}", unit.name), hint))
        }
    }
}
