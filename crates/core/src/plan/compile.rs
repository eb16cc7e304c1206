//! From a definition to a plan.
//!
//! Invariant: compiling depends on the definition, the job's name, the anchor and the calendars alone. What can only
//! be told from the slots (that there are none, say) is no fault here: a calendar that changes must not make a job
//! unreadable.

use std::sync::Arc;

use cronstream_schemas::calendar::CalendarId;
use cronstream_schemas::definition::{
    Expressions, Gap, JobDefinition, LocalTime, Schedule, Shift, When,
};
use cronstream_schemas::duration::Span;
use cronstream_schemas::fault::Fault;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use xxhash_rust::xxh3::xxh3_64;

use super::interval::Interval;
use super::{Kind, Limits, Plan};
use crate::calendar::Calendars;
use crate::schedule::{
    Cron, Day, DaySet, Open, ParseError, Part, Rule, Rules, Seed, Union, Windows, Zone, read,
};

/// What the fields beside the schedule make of a definition.
struct Frame {
    zone: Zone,
    rules: Rules,
    days: Option<Arc<DaySet>>,
    windows: Option<Windows>,
}

pub(super) fn compile(
    definition: &JobDefinition,
    job: &JobId,
    anchor: Timestamp,
    calendars: &Calendars,
) -> Result<Plan, Vec<Fault>> {
    let crons = match &*definition.schedule {
        Schedule::Cron(expressions) => crons(expressions, definition, job),
        Schedule::Every(_) | Schedule::FixedDelay(_) | Schedule::At(_) => Ok(Vec::new()),
    };
    let (crons, zone) = match (crons, zone(&definition.time_zone)) {
        (Ok(crons), Ok(zone)) => (crons, zone),
        (Ok(_), Err(fault)) => return Err(vec![fault]),
        (Err(faults), zone) => return Err(faults.into_iter().chain(zone.err()).collect()),
    };
    let (days, missing) = days(definition, calendars);
    let rules = Rules { gap: definition.gap, fold: definition.fold };
    let frame = Frame { zone, rules, days, windows: Windows::of(&definition.windows) };
    let (kind, open) = kind(definition, &crons, anchor, frame)?;
    let start = definition.start.unwrap_or(Timestamp::MIN);
    let limits = Limits { start, end: definition.end, missing, open };
    Ok(Plan {
        kind,
        jitter_ms: jitter(job, definition.jitter),
        limits: (limits != Limits::default()).then(|| Arc::new(limits)),
    })
}

/// The days that the calendars leave, and the first calendar that is missing; all days while one is.
fn days(
    definition: &JobDefinition,
    calendars: &Calendars,
) -> (Option<Arc<DaySet>>, Option<CalendarId>) {
    match definition.calendars.as_ref().map(|wanted| calendars.working(wanted)) {
        None => (None, None),
        Some(Ok(days)) => (Some(days), None),
        Some(Err(missing)) => (None, Some(missing)),
    }
}

/// What makes the slots, and when those of an interval count.
fn kind(
    definition: &JobDefinition,
    crons: &[Cron],
    anchor: Timestamp,
    frame: Frame,
) -> Result<(Kind, Option<Open>), Vec<Fault>> {
    let step = |first: Timestamp, step: Span| Interval::new(first, step.as_millis());
    Ok(match &*definition.schedule {
        Schedule::Cron(_) => (cron(crons, shift(definition), frame), None),
        Schedule::Every(interval) => {
            let first = definition.start.unwrap_or_else(|| anchor.plus(interval.to_duration()));
            (Kind::Every(step(first, *interval)), frame.into_open())
        }
        Schedule::FixedDelay(delay) => {
            let first = anchor.plus(delay.to_duration());
            (Kind::FixedDelay(step(first, *delay)), frame.into_open())
        }
        Schedule::At(when) => {
            let at = match when {
                When::Instant(at) => at.as_millis(),
                When::Local(local) => instant(*local, &frame).ok_or_else(|| {
                    let problem = format!("the clocks of {} never show it", frame.zone.name());
                    let expected = "a time outside the gap of the clock change, or another `gap`";
                    vec![Fault::new("$.schedule.at", &local.to_string(), problem, expected)]
                })?,
            };
            let is_open = frame.into_open().is_none_or(|open| open.contains(at));
            (Kind::At(is_open.then_some(at)), None)
        }
    })
}

fn shift(definition: &JobDefinition) -> Option<Shift> {
    definition.calendars.as_ref()?.shift
}

fn cron(crons: &[Cron], shift: Option<Shift>, frame: Frame) -> Kind {
    let Frame { zone, rules, days, windows } = frame;
    if let ([cron], None, None) = (crons, &days, &windows) {
        return Kind::Cron(Arc::new(*cron), zone, rules);
    }
    let part = |cron: &Cron| Part { cron: *cron, days: days.clone(), shift };
    let parts = crons.iter().map(part).collect();
    Kind::Union(Arc::new(Union { parts, rules, open: Open { zone, days: None, windows } }))
}

impl Frame {
    /// When a job may be due that is not read from the wall; none when it always may.
    fn into_open(self) -> Option<Open> {
        let Self { zone, days, windows, rules: _ } = self;
        (days.is_some() || windows.is_some()).then_some(Open { zone, days, windows })
    }
}

/// Reads the expressions of a definition.
fn crons(
    expressions: &Expressions,
    definition: &JobDefinition,
    job: &JobId,
) -> Result<Vec<Cron>, Vec<Fault>> {
    let (seed, all) = (Seed::of(job), expressions.as_slice());
    let (mut crons, mut faults) = (Vec::with_capacity(all.len()), Vec::new());
    for (at, text) in all.iter().enumerate() {
        let path = || expression_path(at, all.len());
        match read(text, definition.dialect, seed) {
            Err(error) => faults.push(unreadable(path(), &error)),
            Ok((None, Rule::Cron(cron))) => crons.push(cron),
            Ok((Some(zone), Rule::Cron(_))) => {
                let problem = "names a zone of its own";
                let expected = "all expressions of a job in one zone, named in `time_zone`";
                faults.push(Fault::new(path(), zone, problem, expected));
            }
            Ok((_, Rule::Every(_))) => {
                let problem = "an interval beside other expressions";
                let expected = "a job of its own with {\"every\": …}";
                faults.push(Fault::new(path(), text, problem, expected));
            }
        }
    }
    if faults.is_empty() { Ok(crons) } else { Err(faults) }
}

/// The zone of this name.
pub(crate) fn zone(name: &str) -> Result<Zone, Fault> {
    Zone::get(name).map_err(|error| {
        let expected = "an IANA name such as \"Europe/Berlin\"";
        Fault::new("$.time_zone", name, error.to_string(), expected)
    })
}

/// The path of one of several expressions.
pub(crate) fn expression_path(at: usize, of: usize) -> String {
    if of == 1 { "$.schedule.cron".to_owned() } else { format!("$.schedule.cron[{at}]") }
}

pub(crate) fn unreadable(path: String, error: &ParseError) -> Fault {
    let problem = format!("{} at byte {}", error.message, error.position);
    Fault::new(path, &error.value, problem, error.hint.clone())
}

/// The instant of a wall time, by the rules of the job.
fn instant(local: LocalTime, frame: &Frame) -> Option<i64> {
    const DAY_MS: i64 = 86_400_000;
    let civil = local.civil_millis();
    let day = Day::from_number(civil.div_euclid(DAY_MS))?;
    let (second, milli) = (civil.rem_euclid(DAY_MS) / 1_000, civil.rem_euclid(1_000));
    let at = frame.zone.resolve(day, u32::try_from(second).ok()?, frame.rules)?;
    // What is due at the end of a gap is due as it ends.
    let moved_to_end = frame.rules.gap.is_none_or(|gap| gap == Gap::End)
        && i64::from(frame.zone.civil(at).1) != second;
    Some(if moved_to_end { at } else { at + milli })
}

/// The job's delay, in milliseconds: one below `jitter`, drawn from its name.
fn jitter(job: &JobId, jitter: Span) -> u32 {
    if jitter.as_millis() == 0 {
        return 0;
    }
    let mut bytes = Vec::with_capacity(144);
    for part in ["jitter", job.namespace.as_str(), job.name.as_str()] {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    let delay = (u128::from(xxh3_64(&bytes)) * u128::from(jitter.as_millis())) >> 64;
    u32::try_from(delay).unwrap_or(u32::MAX)
}
