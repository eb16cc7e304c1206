//! `calendar`: named sets of days that jobs share.

mod apply;

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, Datelike as _};
use cronstream_core::calendar::Calendars;
use cronstream_core::schedule::DaySet;
use cronstream_schemas::calendar::{CalendarDefinition, CalendarId};
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::CalendarState;
use cronstream_schemas::id::Revision;
use cronstream_schemas::time::Timestamp;
use serde::Serialize;

pub(crate) use self::apply::{apply_all, of_documents};
use crate::args::{self, CalendarVerb};
use crate::documents::{self, Kind};
use crate::error::Error;
use crate::output::{confirm, count, fields};
use crate::send::{Order, granted};
use crate::session::Session;
use crate::{calendars, jobs};

/// Does what a verb of `calendar` asks for.
///
/// # Errors
/// Those of the verb.
pub(crate) async fn calendar(session: &Session, wanted: &args::Calendar) -> Result<(), Error> {
    match &wanted.verb {
        CalendarVerb::Apply(apply) => self::apply(session, apply).await,
        CalendarVerb::List(list) => self::list(session, list).await,
        CalendarVerb::Get(get) => self::get(session, get).await,
        CalendarVerb::Delete(delete) => self::delete(session, delete).await,
        CalendarVerb::Days(days) => self::days(session, days).await,
    }
}

async fn apply(session: &Session, apply: &args::CalendarApply) -> Result<(), Error> {
    let documents = documents::read(&apply.files)?;
    if let Some(job) = documents.iter().find(|document| document.kind == Kind::Job) {
        let place = &job.place;
        return Err(Error::Usage(format!(
            "{place}: a job; `cronstream apply -f` takes jobs and calendars"
        )));
    }
    if documents.is_empty() {
        return Err(Error::Usage("no calendar stands in these files".into()));
    }
    let total = documents.len() as u64;
    let bus = session.bus().await?;
    match apply_all(session, &bus, documents, apply.dry_run).await? {
        0 => Ok(()),
        rejected => {
            Err(Error::Rejected(format!("{rejected} of {} rejected", count(total, "calendar"))))
        }
    }
}

/// A calendar in a list.
#[derive(Debug, Serialize)]
struct Row {
    calendar: CalendarId,
    revision: Revision,
    changed_at: Timestamp,
    /// How many days it has in this year; absent when a part is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    days_this_year: Option<usize>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    built_of: BTreeSet<CalendarId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

impl Row {
    fn new(state: &CalendarState, known: &Calendars, year: i32) -> Self {
        let definition = state.definition.as_ref();
        Self {
            calendar: state.calendar.clone(),
            revision: state.revision,
            changed_at: state.at,
            days_this_year: known.days(&state.calendar).map(|days| in_year(&days, year).len()),
            built_of: definition.into_iter().flat_map(CalendarDefinition::parts).cloned().collect(),
            title: definition.and_then(|definition| definition.title.clone()),
        }
    }

    fn days(&self) -> String {
        self.days_this_year.map_or("a part is missing".to_owned(), |days| days.to_string())
    }

    fn parts(&self) -> String {
        self.built_of.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }
}

async fn list(session: &Session, list: &args::CalendarList) -> Result<(), Error> {
    let bus = session.bus().await?;
    let known = calendars::all(&bus).await?;
    let year = this_year();
    let wanted = known.iter().filter(|state| {
        list.namespace.as_ref().is_none_or(|namespace| state.calendar.namespace == *namespace)
    });
    let rows: Vec<Row> = wanted.map(|state| Row::new(state, &known, year)).collect();
    let header = ["CALENDAR", "REVISION", "CHANGED", "DAYS THIS YEAR", "BUILT OF", "TITLE"];
    session.out.rows(header, &rows, |row| {
        [
            row.calendar.to_string(),
            row.revision.0.to_string(),
            row.changed_at.to_string(),
            row.days(),
            row.parts(),
            row.title.clone().unwrap_or_default(),
        ]
    })?;
    Ok(())
}

#[derive(Debug, Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    row: Row,
    definition: &'a Option<CalendarDefinition>,
}

async fn get(session: &Session, wanted: &args::CalendarGet) -> Result<(), Error> {
    let bus = session.bus().await?;
    let (known, state) = require(session, &bus, &wanted.calendar).await?;
    if wanted.definition {
        let definition = serde_json::to_string(&state.definition).map_err(std::io::Error::other)?;
        let id = serde_json::Value::from(state.calendar.to_string());
        let rest = definition.strip_prefix('{').unwrap_or_default();
        return Ok(session.out.text(&format!("{{\"calendar\":{id},{rest}"))?);
    }
    let row = Row::new(&state, &known, this_year());
    let shown = Shown { row, definition: &state.definition };
    session.out.object(&shown, || describe(&shown))?;
    Ok(())
}

fn describe(shown: &Shown<'_>) -> String {
    let row = &shown.row;
    let mut lines = vec![
        ("calendar", row.calendar.to_string()),
        ("title", row.title.clone().unwrap_or_default()),
        ("revision", format!("{}, since {}", row.revision.0, row.changed_at)),
        ("days this year", row.days()),
        ("built of", row.parts()),
    ];
    let rule = |rule| serde_json::to_string(rule).unwrap_or_default();
    if let Some(definition) = shown.definition {
        match &definition.include {
            None => lines.push(("include", "every day".into())),
            Some(rules) => lines.extend(rules.iter().map(|it| ("include", rule(it)))),
        }
        lines.extend(definition.exclude.iter().map(|it| ("exclude", rule(it))));
    }
    lines.retain(|(_, value)| !value.is_empty());
    fields(&lines)
}

async fn delete(session: &Session, wanted: &args::CalendarDelete) -> Result<(), Error> {
    let id = &wanted.calendar;
    let bus = session.bus().await?;
    confirm(&format!("delete calendar {id}"), wanted.yes)?;
    let verdict = Order::plain(Verb::CalendarDelete, id).send(&bus, session.timeout).await?;
    granted(&verdict, &format!("delete calendar {id}"))?;
    session.out.object(&verdict, || format!("deleted calendar {id}"))?;
    Ok(())
}

/// A day of a calendar.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct CalendarDay {
    day: String,
    weekday: &'static str,
}

async fn days(session: &Session, wanted: &args::CalendarDays) -> Result<(), Error> {
    let bus = session.bus().await?;
    let (known, state) = require(session, &bus, &wanted.calendar).await?;
    let days = known.days(&state.calendar).ok_or_else(|| Error::Unreadable {
        what: format!("calendar {}", wanted.calendar),
        problem: "a calendar that it is built of is gone, or they are built of each other".into(),
    })?;
    let year = wanted.year.unwrap_or_else(this_year);
    let rows = in_year(&days, year);
    let header = ["DAY", "WEEKDAY"];
    session.out.rows(header, &rows, |row| [row.day.clone(), row.weekday.to_owned()])?;
    session.out.talk(&format!("{} in {year}", count(rows.len() as u64, "day")));
    Ok(())
}

fn in_year(days: &DaySet, year: i32) -> Vec<CalendarDay> {
    const NAMES: [&str; 7] =
        ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
    let of_year = days.iter().skip_while(|day| day.year() < year);
    of_year
        .take_while(|day| day.year() == year)
        .map(|day| CalendarDay {
            day: day.to_string(),
            weekday: NAMES[day.weekday() as usize % NAMES.len()],
        })
        .collect()
}

/// A calendar that is defined, with those that it is built of.
async fn require(
    session: &Session,
    bus: &cronstream_bus::Bus,
    id: &CalendarId,
) -> Result<(Calendars, Arc<CalendarState>), Error> {
    let known = calendars::with_parts(bus, vec![id.clone()]).await?;
    let state = known.get(id).cloned().ok_or_else(|| Error::NoCalendar(id.clone()))?;
    let missing = known.days(id).is_none();
    if missing {
        session.out.talk(&format!("{id}: a calendar that it is built of is gone"));
    }
    Ok((known, state))
}

fn this_year() -> i32 {
    DateTime::from_timestamp_millis(jobs::now().as_millis()).map_or(1970, |now| now.year())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cronstream_core::schedule::Day;

    #[test]
    fn the_days_of_a_year_are_told_with_their_weekdays() {
        let days = ["2026-12-31", "2027-01-01", "2027-12-25", "2028-01-01"];
        let days: DaySet = days.iter().map(|text| Day::parse(text).unwrap()).collect();
        let found: Vec<_> =
            in_year(&days, 2027).into_iter().map(|it| (it.day, it.weekday)).collect();
        assert_eq!(found, [("2027-01-01".into(), "Friday"), ("2027-12-25".into(), "Saturday")]);
        assert!(in_year(&days, 2029).is_empty());
    }
}
