//! `forecast`: how many slots are due in each minute to come, where they collide, and which jobs hash slots would
//! spread.
//!
//! Invariant: one pass over the jobs; memory is bounded by the minutes and by the jobs whose slots differ.

use std::time::Duration;

use cronstream_core::calendar::Calendars;
use cronstream_core::forecast::{Advice, Collision, Effect, Forecast};
use cronstream_core::plan::Plan;
use cronstream_core::schedule::Zone;
use cronstream_schemas::definition::JobDefinition;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use serde::Serialize;

use crate::args;
use crate::error::Error;
use crate::offline::{self, Finding};
use crate::output::{count, table};
use crate::session::Session;
use crate::{calendars, instants, jobs, words};

/// How far is looked when nothing is said.
const AHEAD: Duration = Duration::from_secs(86_400);

/// Expressions that are listed for people.
const ADVICE_SHOWN: usize = 10;

/// A forecast as it is printed.
#[derive(Debug, Serialize)]
struct Told {
    from: Timestamp,
    to: Timestamp,
    time_zone: &'static str,
    jobs: u64,
    /// Jobs that are paused; none of their slots is counted.
    paused: u64,
    /// Jobs that cannot be planned here.
    unplanned: u64,
    slots: u64,
    busiest: Vec<Minute>,
    advice: Vec<Proposal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<After>,
    /// How many slots are due in each minute, from `from` on.
    load: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct Minute {
    minute: Timestamp,
    local: String,
    slots: u64,
    jobs: u64,
    /// The busiest second of the minute, and its slots.
    second: Timestamp,
    in_second: u64,
    names: Vec<JobId>,
}

#[derive(Debug, Serialize)]
struct Proposal {
    now: String,
    better: String,
    jobs: u64,
    names: Vec<JobId>,
}

/// The busiest minute and second now, and after every proposal.
#[derive(Debug, Serialize)]
struct After {
    minute: u64,
    minute_after: u64,
    second: u64,
    second_after: u64,
}

/// What is read while the jobs go by.
struct Read {
    forecast: Forecast,
    from: Timestamp,
    paused: u64,
    unplanned: u64,
}

pub(crate) async fn forecast(session: &Session, wanted: &args::Forecast) -> Result<(), Error> {
    let read = |when, option| instants::if_named(when, wanted.zone, option);
    let from = read(wanted.from, "--from")?.unwrap_or_else(jobs::now);
    let to = read(wanted.to, "--to")?.unwrap_or_else(|| from.plus(AHEAD));
    let forecast = Forecast::new(from, to).map_err(|error| Error::Usage(error.to_string()))?;
    let mut read = Read { forecast, from, paused: 0, unplanned: 0 };
    if wanted.file.is_empty() {
        let bus = session.bus().await?;
        let known = calendars::all(&bus).await?;
        jobs::for_each(&bus, None, |state| {
            let Some(definition) = &state.definition else { return };
            if state.paused.is_some() {
                read.paused += 1;
            } else {
                read.add(&state.job, definition, state.anchor, &known);
            }
        })
        .await?;
    } else {
        let documents = offline::read(&wanted.file, from)?;
        let known = documents.calendars;
        let bad = documents.judged.iter().flat_map(|calendar| &calendar.faults);
        let mut faults: Vec<String> = bad.map(Finding::describe).collect();
        for candidate in documents.jobs {
            match candidate.definition {
                Ok(definition) => {
                    let anchor = definition.start.unwrap_or(from);
                    read.add(&candidate.job, &definition, anchor, &known);
                }
                Err(found) => faults.extend(found.iter().map(Finding::describe)),
            }
        }
        if !faults.is_empty() {
            return Err(Error::Rejected(faults.join("\n")));
        }
    }
    let told = read.finish(wanted);
    session.out.object(&told, || told.describe())?;
    Ok(())
}

impl Read {
    fn add(
        &mut self,
        job: &JobId,
        definition: &JobDefinition,
        anchor: Timestamp,
        known: &Calendars,
    ) {
        match Plan::compile(definition, job, anchor, known) {
            Ok(plan) if plan.missing_calendar().is_some() => self.unplanned += 1,
            // How long its runs take is not known: each is taken to end at once.
            Ok(plan) if plan.is_fixed_delay() => {
                let plan = plan.rebased(anchor.max(self.from));
                self.forecast.add(job, definition, &plan);
            }
            Ok(plan) => self.forecast.add(job, definition, &plan),
            Err(_) => self.unplanned += 1,
        }
    }

    fn finish(mut self, wanted: &args::Forecast) -> Told {
        self.forecast.count();
        let number = usize::try_from(wanted.number).unwrap_or(usize::MAX);
        let busiest = self.forecast.collisions(number);
        let effect = self.forecast.effect();
        let after = After {
            minute: effect.minute.0,
            minute_after: effect.minute.1,
            second: effect.second.0,
            second_after: effect.second.1,
        };
        let Effect { advice, .. } = effect;
        Told {
            from: self.forecast.from(),
            to: self.forecast.to(),
            time_zone: wanted.zone.name(),
            jobs: self.forecast.jobs(),
            paused: self.paused,
            unplanned: self.unplanned,
            slots: self.forecast.slots(),
            busiest: busiest.into_iter().map(|one| Minute::new(one, wanted.zone)).collect(),
            effect: (!advice.is_empty()).then_some(after),
            advice: advice.into_iter().map(Proposal::new).collect(),
            load: self.forecast.load().to_vec(),
        }
    }
}

impl Minute {
    fn new(collision: Collision, zone: Zone) -> Self {
        let Collision { minute, slots, second, in_second, jobs, names } = collision;
        let local = words::local(minute, zone);
        Self { minute, local, slots, jobs, second, in_second, names }
    }

    fn cells(&self) -> [String; 6] {
        [
            self.local.clone(),
            self.slots.to_string(),
            self.jobs.to_string(),
            self.in_second.to_string(),
            words::second_of(self.second),
            some(&self.names, self.jobs),
        ]
    }
}

impl Proposal {
    fn new(advice: Advice) -> Self {
        let Advice { now, better, jobs, names } = advice;
        Self { now, better, jobs, names }
    }
}

impl Told {
    fn describe(&self) -> String {
        let mean = self.slots as f64 / self.load.len() as f64;
        let mut lines = vec![format!(
            "{} of {} from {} to {}: {mean:.1} a minute on average",
            count(self.slots, "slot"),
            count(self.jobs, "job"),
            self.from,
            self.to
        )];
        if self.paused > 0 {
            lines.push(format!("{} not counted: paused", count(self.paused, "job")));
        }
        if self.unplanned > 0 {
            let jobs = count(self.unplanned, "job");
            lines.push(format!(
                "{jobs} not counted: a calendar of theirs is not known, or a later version wrote it"
            ));
        }
        if self.busiest.is_empty() {
            return lines.join("\n");
        }
        let header = ["MINUTE", "SLOTS", "JOBS", "IN ONE SECOND", "WHICH", "AMONG THEM"];
        lines.push(table(header, self.busiest.iter().map(Minute::cells)));
        if let Some(after) = &self.effect {
            lines.push("hash slots would spread them:".into());
            lines.extend(self.advice.iter().take(ADVICE_SHOWN).map(|one| {
                let (jobs, names) = (count(one.jobs, "job"), some(&one.names, one.jobs));
                format!("  {} -> {}  {jobs}: {names}", one.now, one.better)
            }));
            if let Some(more) = self.advice.len().checked_sub(ADVICE_SHOWN).filter(|more| *more > 0)
            {
                lines.push(format!(
                    "  and {} more; --json lists them",
                    count(more as u64, "expression")
                ));
            }
            let After { minute, minute_after, second, second_after } = after;
            lines.push(format!(
                "busiest minute {minute} -> about {minute_after}, busiest second {second} -> about {second_after}"
            ));
        }
        lines.join("\n")
    }
}

fn some(names: &[JobId], of: u64) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<_> = names.iter().take(SHOWN).map(ToString::to_string).collect();
    match of.saturating_sub(shown.len() as u64) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
