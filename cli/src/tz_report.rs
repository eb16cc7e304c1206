//! `tz-report`: coming slots that are at other instants by the present zone data than by the data that a job's
//! revision was accepted under.
//!
//! Invariant: a job whose recorded version is not known here is listed as such, never passed over as unchanged.

use std::collections::BTreeMap;
use std::time::Duration;

use cronstream_core::calendar::Calendars;
use cronstream_core::schedule::{Day, Difference, PastError, Rules, Slots, Zone, differences};
use cronstream_schemas::definition::{DailyWindow, JobDefinition, Schedule, When};
use cronstream_schemas::event::JobState;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use serde::Serialize;

use crate::args;
use crate::clock_changes::{crons, days};
use crate::error::Error;
use crate::output::{count, printable, table};
use crate::session::Session;
use crate::{calendars, instants, jobs, words};

/// How far is looked when nothing is said.
const AHEAD: Duration = Duration::from_secs(2 * 366 * 86_400);
/// The most slots that are told of one job.
const TOLD_MAX: usize = 100;

/// What is found.
#[derive(Debug, Serialize)]
struct Report {
    from: Timestamp,
    to: Timestamp,
    /// The present version of the zone data.
    tzdb: &'static str,
    /// How many jobs were compared.
    compared: u64,
    /// How many have no slots that depend on a zone.
    without_zone: u64,
    /// Jobs of which slots differ.
    changed: Vec<Changed>,
    /// Jobs whose recorded version is not known here.
    unknown: Vec<Unknown>,
}

#[derive(Debug, Serialize)]
struct Changed {
    job: JobId,
    time_zone: String,
    /// The version that its revision was accepted under.
    recorded: String,
    slots: Vec<Moved>,
    /// Whether there are more.
    more: bool,
}

/// A slot by the recorded version and by the present one.
#[derive(Debug, Serialize)]
struct Moved {
    #[serde(skip_serializing_if = "Option::is_none")]
    was: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
struct Unknown {
    job: JobId,
    time_zone: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<String>,
    why: String,
}

pub(crate) async fn tz_report(session: &Session, wanted: &args::TzReport) -> Result<(), Error> {
    let zone = wanted.zone.unwrap_or(Zone::UTC);
    let from = instants::if_named(wanted.from, zone, "--from")?.unwrap_or_else(jobs::now);
    let to = instants::if_named(wanted.to, zone, "--to")?.unwrap_or_else(|| from.plus(AHEAD));
    if to <= from {
        return Err(Error::Usage(format!("--to {to} is not after {from}")));
    }
    let bus = session.bus().await?;
    let known = calendars::all(&bus).await?;
    let tzdb = Zone::tzdb_version();
    let mut report = Report {
        from,
        to,
        tzdb,
        compared: 0,
        without_zone: 0,
        changed: Vec::new(),
        unknown: Vec::new(),
    };
    jobs::for_each(&bus, None, |state| report.look_at(&state, &known, wanted.zone)).await?;
    report.changed.sort_by(|a, b| a.job.cmp(&b.job));
    report.unknown.sort_by(|a, b| a.job.cmp(&b.job));
    session.out.object(&report, || report.describe())?;
    Ok(())
}

impl Report {
    fn look_at(&mut self, state: &JobState, known: &Calendars, only: Option<Zone>) {
        let Some(definition) = &state.definition else { return };
        let zones = zones(&state.job, definition);
        if only.is_some_and(|only| !zones.iter().any(|zone| Zone::get(zone) == Ok(only))) {
            return;
        }
        if zones.is_empty() {
            self.without_zone += 1;
            return;
        }
        let time_zone = definition.time_zone.clone();
        let (job, recorded) = (state.job.clone(), state.tzdb.as_deref().cloned());
        let unknown = |why: String| Unknown {
            job: state.job.clone(),
            time_zone: definition.time_zone.clone(),
            recorded: state.tzdb.as_deref().cloned(),
            why,
        };
        let Some(version) = recorded else {
            let why = "its revision was accepted by a version that recorded none";
            return self.unknown.push(unknown(why.into()));
        };
        if !matches!(&*definition.schedule, Schedule::Cron(_) | Schedule::At(When::Local(_))) {
            let why = "only expressions and local times are compared, not the windows and days of an interval";
            return self.unknown.push(unknown(why.into()));
        }
        self.compared += 1;
        let (from, to) = (self.from.max(state.effective_after), self.to);
        match changes(state, definition, known, (&version, from, to)) {
            Ok((slots, _)) if slots.is_empty() => {}
            Ok((slots, more)) => {
                self.changed.push(Changed { job, time_zone, recorded: version, slots, more });
            }
            Err(error) => {
                self.compared -= 1;
                self.unknown.push(unknown(error.to_string()));
            }
        }
    }

    fn describe(&self) -> String {
        let mut lines = vec![format!(
            "zone data is {}; {} compared from {} to {}",
            self.tzdb,
            count(self.compared, "job"),
            self.from,
            self.to
        )];
        if self.changed.is_empty() {
            lines.push("no slot differs from what was recorded".into());
        }
        for changed in &self.changed {
            let Changed { job, time_zone, recorded, slots, more } = changed;
            lines.push(format!("{job} ({time_zone}), recorded under {recorded}:"));
            let zone = Zone::get(time_zone).unwrap_or(Zone::UTC);
            let instant = |at: &Option<Timestamp>| {
                at.map(|at| words::local(at, zone)).unwrap_or_else(|| "none".into())
            };
            let cells = slots.iter().map(|slot| {
                [format!("  {}", instant(&slot.was)), instant(&slot.is), by(slot).to_owned()]
            });
            lines.push(table(["  WAS", "IS", ""], cells));
            if *more {
                lines.push("  and more".into());
            }
        }
        if !self.unknown.is_empty() {
            let many = self.unknown.len() as u64;
            lines.push(format!("{} cannot be compared:", count(many, "job")));
            let line = |one: &Unknown| {
                printable(&format!("  {} ({}): {}", one.job, one.time_zone, one.why))
            };
            lines.extend(self.unknown.iter().map(line));
        }
        lines.join("\n")
    }
}

fn by(slot: &Moved) -> &'static str {
    match (slot.was, slot.is) {
        (Some(was), Some(is)) if is < was => "earlier",
        (Some(_), Some(_)) => "later",
        (Some(_), None) => "gone",
        (None, _) => "new",
    }
}

/// The zones that a definition's slots are read in.
fn zones(job: &JobId, definition: &JobDefinition) -> Vec<String> {
    match &*definition.schedule {
        Schedule::Cron(_) => crons(job, definition).into_iter().map(|(_, zone)| zone).collect(),
        Schedule::At(When::Local(_)) => vec![definition.time_zone.clone()],
        Schedule::Every(_) | Schedule::FixedDelay(_) | Schedule::At(When::Instant(_)) => {
            // Windows and calendar days are read in the zone too.
            let read = !definition.windows.is_empty() || definition.calendars.is_some();
            if read { vec![definition.time_zone.clone()] } else { Vec::new() }
        }
    }
}

/// The slots that differ, and whether there are more of them than are told.
fn changes(
    state: &JobState,
    definition: &JobDefinition,
    known: &Calendars,
    (version, from, to): (&str, Timestamp, Timestamp),
) -> Result<(Vec<Moved>, bool), PastError> {
    let rules = Rules { gap: definition.gap, fold: definition.fold };
    let mut found: BTreeMap<(Option<i64>, Option<i64>), ()> = BTreeMap::new();
    let mut more = false;
    for (cron, name) in crons(&state.job, definition) {
        let (was, is) = (Zone::at_version(&name, version)?, Zone::get(&name)?);
        let days = days(definition, known);
        let shift = definition.calendars.as_ref().and_then(|used| used.shift);
        let slots = |zone| Slots { cron: &cron, zone, rules, days: days.as_deref(), shift };
        let last = to.as_millis() - 1;
        let told = differences(&slots(was), &slots(is), from.as_millis(), last, TOLD_MAX);
        more |= told.through_ms < last;
        for Difference { was: before, is: now } in told.found {
            let before = before.filter(|at| counts(definition, was, *at));
            let now = now.filter(|at| counts(definition, is, *at));
            if before.is_some() || now.is_some() {
                found.insert((before, now), ());
            }
        }
    }
    if let Schedule::At(When::Local(at)) = &*definition.schedule {
        let (was, is) = zones_of(&definition.time_zone, version)?;
        let civil = at.civil_millis();
        let resolved = |zone: Zone| resolve(zone, civil, rules);
        let (before, now) = (resolved(was), resolved(is));
        let ahead = |at: &Option<i64>| at.is_some_and(|at| at >= from.as_millis());
        if before != now && (ahead(&before) || ahead(&now)) {
            found.insert((before, now), ());
        }
    }
    let at = |at: Option<i64>| at.map(Timestamp::from_millis);
    let mut moved: Vec<Moved> =
        found.into_keys().map(|(was, is)| Moved { was: at(was), is: at(is) }).collect();
    moved.sort_by_key(|slot| slot.was.into_iter().chain(slot.is).min());
    more |= moved.len() > TOLD_MAX;
    moved.truncate(TOLD_MAX);
    Ok((moved, more))
}

fn zones_of(name: &str, version: &str) -> Result<(Zone, Zone), PastError> {
    Ok((Zone::at_version(name, version)?, Zone::get(name)?))
}

/// The instant of a wall time, given in milliseconds since 1970 on the wall.
fn resolve(zone: Zone, civil_ms: i64, rules: Rules) -> Option<i64> {
    let second = civil_ms.div_euclid(1_000);
    let day = Day::from_number(second.div_euclid(86_400))?;
    let second = u32::try_from(second.rem_euclid(86_400)).ok()?;
    Some(zone.resolve(day, second, rules)? + civil_ms.rem_euclid(1_000))
}

/// Whether a slot lies within the definition's windows, its start and its end.
fn counts(definition: &JobDefinition, zone: Zone, at_ms: i64) -> bool {
    let at = Timestamp::from_millis(at_ms);
    let (_, second) = zone.civil(at_ms);
    let within = |window: &DailyWindow| {
        let (from, to) = (window.from_second(), window.to_second());
        if from < to { (from..to).contains(&second) } else { second >= from || second < to }
    };
    definition.start.is_none_or(|start| at >= start)
        && definition.end.is_none_or(|end| at < end)
        && (definition.windows.is_empty() || definition.windows.iter().any(within))
}
