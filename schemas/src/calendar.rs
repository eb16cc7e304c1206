//! Named calendars: sets of civil days that jobs share, published to `cron.calendar.<namespace>.<name>`.
//!
//! Invariant: a [`CalendarDefinition`] is within every bound named here. Which days it has follows from its rules
//! and from the calendars it is built of, never from a clock or a zone; a job reads the days in its own zone.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use chrono::{Datelike, NaiveDate};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::definition::{read, read_address, read_fields};
use crate::fault::{Fault, Faults};
use crate::name::JobId;

/// The most bytes of a calendar in all.
pub const CALENDAR_MAX_BYTES: usize = 128 * 1024;
/// The most rules of a calendar.
pub const RULES_MAX: usize = 2_000;
/// The most rules of a calendar that name another one.
pub const PARTS_MAX: usize = 64;
/// How deep calendars may be built of each other.
pub const DEPTH_MAX: usize = 8;
/// The first and the last year of a date.
pub const YEARS: (i32, i32) = (1970, 2239);

/// A calendar's address: `<namespace>/<name>`, of the same form as a job's.
pub type CalendarId = JobId;

/// A set of days: those that `include` names, without those that `exclude` names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CalendarDefinition {
    /// Free text for people, at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The days it has. Default: every day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<DayRule>>,
    /// The days it has not, whatever `include` names. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<DayRule>,
}

impl CalendarDefinition {
    /// Every rule, in its order.
    pub fn rules(&self) -> impl Iterator<Item = &DayRule> {
        self.include.iter().flatten().chain(&self.exclude)
    }

    /// The calendars it is built of.
    pub fn parts(&self) -> impl Iterator<Item = &CalendarId> {
        self.rules().filter_map(|rule| match rule {
            DayRule::Calendar(id) => Some(id),
            DayRule::Date(_)
            | DayRule::Range(_)
            | DayRule::Weekly(_)
            | DayRule::Yearly(_)
            | DayRule::NthWeekday(_)
            | DayRule::Easter(_) => None,
        })
    }
}

/// Days, by one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DayRule {
    /// One day: `2027-12-24`.
    Date(Date),
    /// Every day from one through another.
    Range(DateRange),
    /// These days of every week.
    Weekly(Vec<Weekday>),
    /// A day of every year, `12-25`, or a stretch of every year that may go over its end.
    Yearly(Yearly),
    /// A weekday of a month of every year, counted from its begin or its end.
    NthWeekday(NthWeekday),
    /// So many days after Easter Sunday of every year (Gregorian), -100 to 100: -2 is Good Friday.
    Easter(#[schemars(range(min = -100, max = 100))] i16),
    /// Every day of another calendar.
    Calendar(CalendarId),
}

/// From one day through another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DateRange {
    /// The first day.
    pub from: Date,
    /// The last day, not before the first.
    pub to: Date,
}

/// A day of every year, or a stretch of every year.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Yearly {
    /// One day; 29 February is in leap years alone.
    Day(MonthDay),
    /// Every day from one through another; over the end of the year when `to` lies before `from`.
    Range {
        /// The first day.
        from: MonthDay,
        /// The last day.
        to: MonthDay,
    },
}

/// The `nth` such weekday of a month; -1 is the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NthWeekday {
    /// The month, 1–12; absent for every month.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 12))]
    pub month: Option<u8>,
    /// The weekday.
    pub weekday: Weekday,
    /// Which one: 1 to 5 from the begin, -1 to -5 from the end.
    #[schemars(range(min = -5, max = 5))]
    pub nth: i8,
}

/// A day of the week.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum Weekday {
    /// Sunday.
    Sun,
    /// Monday.
    Mon,
    /// Tuesday.
    Tue,
    /// Wednesday.
    Wed,
    /// Thursday.
    Thu,
    /// Friday.
    Fri,
    /// Saturday.
    Sat,
}

/// A civil day, `2027-12-24`, of the years 1970–2239.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date(NaiveDate);

/// A day of a year, `12-25`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MonthDay {
    month: u8,
    day: u8,
}

/// A text that is no day.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not {1}")]
pub struct DayError(String, &'static str);

impl Date {
    /// What would be right.
    pub const HINT: &'static str = "a day of the years 1970 to 2239, such as 2027-12-24";

    /// Year, month 1–12 and day 1–31.
    #[must_use]
    pub fn parts(self) -> (i32, u32, u32) {
        (self.0.year(), self.0.month(), self.0.day())
    }
}

impl MonthDay {
    /// What would be right.
    pub const HINT: &'static str = "a month and a day that exists in it, such as 12-25";

    /// Month 1–12 and day 1–31.
    #[must_use]
    pub const fn parts(self) -> (u32, u32) {
        (self.month as u32, self.day as u32)
    }
}

impl FromStr for Date {
    type Err = DayError;

    fn from_str(text: &str) -> Result<Self, DayError> {
        let error = || DayError(text.chars().take(64).collect(), Self::HINT);
        let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").map_err(|_| error())?;
        let legal = text.len() == 10 && (YEARS.0..=YEARS.1).contains(&date.year());
        if legal { Ok(Self(date)) } else { Err(error()) }
    }
}

impl FromStr for MonthDay {
    type Err = DayError;

    fn from_str(text: &str) -> Result<Self, DayError> {
        let error = || DayError(text.chars().take(64).collect(), Self::HINT);
        // A leap year, so that 29 February is a day.
        let date = NaiveDate::parse_from_str(&format!("2000-{text}"), "%Y-%m-%d");
        let date = date.ok().filter(|_| text.len() == 5).ok_or_else(error)?;
        let small = |number: u32| u8::try_from(number).expect("a month or a day");
        Ok(Self { month: small(date.month()), day: small(date.day()) })
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.format("%Y-%m-%d"))
    }
}

impl fmt::Display for MonthDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}-{:02}", self.month, self.day)
    }
}

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for MonthDay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::read(deserializer)
    }
}

impl<'de> Deserialize<'de> for MonthDay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::read(deserializer)
    }
}

impl schemars::JsonSchema for Date {
    fn schema_name() -> Cow<'static, str> {
        "Date".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date" })
    }
}

impl schemars::JsonSchema for MonthDay {
    fn schema_name() -> Cow<'static, str> {
        "MonthDay".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9]{2}-[0-9]{2}$" })
    }
}

impl CalendarDefinition {
    /// Reads a calendar.
    ///
    /// # Errors
    /// Every fault of the document at once.
    pub fn decode(body: &[u8]) -> Result<Self, Vec<Fault>> {
        let mut faults = Faults::default();
        let mut calendar = Self::default();
        if body.len() > CALENDAR_MAX_BYTES {
            let problem = format!("the calendar has {} bytes", body.len());
            let expected = format!("at most {CALENDAR_MAX_BYTES} bytes; build it of several");
            return Err(vec![Fault::new("$", "", problem, expected)]);
        }
        let known = &["v", "title", "include", "exclude"];
        for (name, raw) in read_fields(body, "$", known, &mut faults) {
            match name {
                "title" => {
                    let expected = "a text of at most 200 characters";
                    let title: Option<String> = read(raw, "$.title", expected, &mut faults);
                    if title.as_ref().is_some_and(|title| title.chars().count() > 200) {
                        faults.push(Fault::new("$.title", raw.get(), "too long", expected));
                    }
                    calendar.title = title;
                }
                "include" => calendar.include = read_rules(raw, "$.include", &mut faults),
                "exclude" => {
                    calendar.exclude =
                        read_rules(raw, "$.exclude", &mut faults).unwrap_or_default();
                }
                _ => {}
            }
        }
        let rules = calendar.rules().count();
        if rules > RULES_MAX {
            let expected = format!("at most {RULES_MAX}; build it of several");
            faults.push(Fault::new("$", "", format!("{rules} rules"), expected));
        }
        let parts = calendar.parts().count();
        if parts > PARTS_MAX {
            let expected = format!("at most {PARTS_MAX}; put some of them together in one first");
            faults.push(Fault::new("$", "", format!("{parts} calendars in one"), expected));
        }
        if faults.is_empty() && rules == 0 && calendar.include.is_none() {
            let expected =
                "`include` or `exclude`, lists of rules such as {\"date\": \"2027-12-24\"}";
            faults.push(Fault::new("$", "", "names no day", expected));
        }
        if faults.is_empty() { Ok(calendar) } else { Err(faults.into_vec()) }
    }
}

const RULE: &str = "one of {\"date\": \"2027-12-24\"}, {\"range\": {\"from\": …, \"to\": …}}, {\"weekly\": [\"SAT\", \"SUN\"]}, {\"yearly\": \"12-25\"}, {\"nth_weekday\": {\"month\": 11, \"weekday\": \"THU\", \"nth\": 4}}, {\"easter\": -2}, {\"calendar\": \"billing/holidays\"}";

fn read_rules(raw: &RawValue, path: &str, faults: &mut Faults) -> Option<Vec<DayRule>> {
    let list: Vec<&RawValue> = read(raw, path, "a list of rules", faults)?;
    let each = list.iter().enumerate();
    Some(each.filter_map(|(at, raw)| read_rule(raw, &format!("{path}[{at}]"), faults)).collect())
}

fn read_rule(raw: &RawValue, path: &str, faults: &mut Faults) -> Option<DayRule> {
    let known = &["date", "range", "weekly", "yearly", "nth_weekday", "easter", "calendar"];
    let before = faults.clone();
    let fields = read_fields(raw.get().as_bytes(), path, known, faults);
    let [(name, value)] = fields[..] else {
        if *faults == before {
            faults.push(Fault::new(path, raw.get(), "not one rule", RULE));
        }
        return None;
    };
    let at = format!("{path}.{name}");
    let refuse = |faults: &mut Faults, problem: &str, expected: &str| {
        faults.push(Fault::new(&*at, value.get(), problem, expected));
        None
    };
    match name {
        "date" => read(value, &at, Date::HINT, faults).map(DayRule::Date),
        "range" => {
            let range: DateRange = read(value, &at, "{\"from\": day, \"to\": day}", faults)?;
            if range.to < range.from {
                return refuse(faults, "ends before it begins", "`to` at or after `from`");
            }
            Some(DayRule::Range(range))
        }
        "weekly" => {
            let expected = "a list of SUN, MON, TUE, WED, THU, FRI, SAT";
            let days: Vec<Weekday> = read(value, &at, expected, faults)?;
            if days.is_empty() || days.len() > 7 {
                return refuse(faults, "not one to seven weekdays", expected);
            }
            Some(DayRule::Weekly(days))
        }
        "yearly" => {
            let expected = "\"12-25\" or {\"from\": \"12-24\", \"to\": \"01-02\"}";
            read(value, &at, expected, faults).map(DayRule::Yearly)
        }
        "nth_weekday" => {
            let expected =
                "{\"month\": 1 to 12, \"weekday\": \"THU\", \"nth\": 1 to 5 or -1 to -5}";
            let nth: NthWeekday = read(value, &at, expected, faults)?;
            let month = nth.month.is_none_or(|month| (1..=12).contains(&month));
            if !month || nth.nth == 0 || !(-5..=5).contains(&nth.nth) {
                return refuse(faults, "out of range", expected);
            }
            Some(DayRule::NthWeekday(nth))
        }
        "easter" => {
            let expected = "a whole number from -100 to 100";
            let days: i16 = read(value, &at, expected, faults)?;
            if !(-100..=100).contains(&days) {
                return refuse(faults, "out of range", expected);
            }
            Some(DayRule::Easter(days))
        }
        _ => read_address(value, &at, faults).map(DayRule::Calendar),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calendar_is_read_back_as_it_was() {
        let body = r#"{"title":"t","include":[{"weekly":["MON","TUE"]},{"calendar":"a/b"}],"exclude":[
            {"date":"2027-01-01"},{"range":{"from":"2027-12-24","to":"2027-12-31"}},{"yearly":"12-25"},
            {"yearly":{"from":"12-24","to":"01-02"}},{"nth_weekday":{"month":5,"weekday":"MON","nth":-1}},
            {"nth_weekday":{"weekday":"FRI","nth":1}},{"easter":-2}]}"#;
        let calendar = CalendarDefinition::decode(body.as_bytes()).unwrap();
        assert_eq!(calendar.rules().count(), 9);
        let text = serde_json::to_string(&calendar).unwrap();
        assert_eq!(CalendarDefinition::decode(text.as_bytes()).unwrap(), calendar);
        assert_eq!(serde_json::from_str::<CalendarDefinition>(&text).unwrap(), calendar);
    }

    #[test]
    fn every_fault_of_a_calendar_is_named_by_its_path() {
        for (rule, path) in [
            (r#"{"date":"2027-02-29"}"#, "$.exclude[0].date"),
            (r#"{"date":"27-2-9"}"#, "$.exclude[0].date"),
            (r#"{"date":"1969-12-31"}"#, "$.exclude[0].date"),
            (r#"{"range":{"from":"2027-02-02","to":"2027-02-01"}}"#, "$.exclude[0].range"),
            (r#"{"weekly":[]}"#, "$.exclude[0].weekly"),
            (r#"{"weekly":["Caturday"]}"#, "$.exclude[0].weekly"),
            (r#"{"yearly":"02-30"}"#, "$.exclude[0].yearly"),
            (r#"{"nth_weekday":{"month":13,"weekday":"MON","nth":1}}"#, "$.exclude[0].nth_weekday"),
            (r#"{"nth_weekday":{"weekday":"MON","nth":0}}"#, "$.exclude[0].nth_weekday"),
            (r#"{"easter":101}"#, "$.exclude[0].easter"),
            (r#"{"calendar":"holidays"}"#, "$.exclude[0].calendar"),
            (r#"{"dates":"2027-01-01"}"#, "$.exclude[0].dates"),
            (r#"{}"#, "$.exclude[0]"),
            ("7", "$.exclude[0]"),
        ] {
            let body = format!(r#"{{"exclude":[{rule}]}}"#);
            let faults = CalendarDefinition::decode(body.as_bytes()).unwrap_err();
            assert_eq!(faults.iter().map(|f| &*f.path).collect::<Vec<_>>(), [path], "{body}");
        }
        for body in ["", "{}", "[]", r#"{"exclude":[]}"#, r#"{"holidays":[]}"#] {
            assert!(CalendarDefinition::decode(body.as_bytes()).is_err(), "{body}");
        }
        let many = format!(r#"{{"exclude":[{}]}}"#, vec![r#"{"easter":1}"#; 2_001].join(","));
        assert_eq!(
            CalendarDefinition::decode(many.as_bytes()).unwrap_err()[0].problem,
            "2001 rules"
        );
        let parts = |many| {
            let parts = vec![r#"{"calendar":"a/b"}"#; many].join(",");
            CalendarDefinition::decode(format!(r#"{{"exclude":[{parts}]}}"#).as_bytes())
        };
        assert!(parts(PARTS_MAX).is_ok());
        assert_eq!(parts(PARTS_MAX + 1).unwrap_err()[0].problem, "65 calendars in one");
    }
}
