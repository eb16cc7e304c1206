//! Runs as they happen: the events of the streams become lines.
//!
//! Invariant: what is remembered is bounded; a run whose start was not seen is shown without its start delay.

use std::collections::BTreeMap;
use std::io;

use cronstream_bus::{Bus, FollowEvent, StoredMessage};
use cronstream_schemas::event::{
    Decoded, Event as _, Failure, LogEvent, Output as Printed, RunEvent, Skipped, SkippedWhat,
};
use cronstream_schemas::id::ShardId;
use cronstream_schemas::json::Json;
use cronstream_schemas::time::Timestamp;
use serde::Serialize;

use super::line::{NotRun, Ran, header};
use crate::history::{Step, read_step};
use crate::output::{Output, printable};

/// Runs that are out at a time; of more, the oldest are shown without their start delay.
const RUNS_MAX: usize = 10_000;

/// What is known of the runs that are out.
#[derive(Debug)]
pub(super) struct Watch {
    out: Output,
    json: bool,
    /// What the address of a run's trace begins with.
    traces: Option<String>,
    starts: BTreeMap<ShardId, Starts>,
    header_shown: bool,
}

#[derive(Debug, Clone, Copy)]
struct Starts {
    /// The first attempt's, if it was seen.
    first: Option<Timestamp>,
    last: Timestamp,
}

/// How a shard ended, in words, with what it returned and printed.
struct End {
    result: Option<Json>,
    failure: Option<Failure>,
    printed: Option<Printed>,
}

impl Watch {
    /// Nothing is known yet.
    pub(super) fn new(out: Output, json: bool, traces: Option<String>) -> Self {
        Self { out, json, traces, starts: BTreeMap::new(), header_shown: false }
    }

    /// Shows what the log tells: slots that do not fire.
    pub(super) fn log(&mut self, event: &FollowEvent) -> io::Result<()> {
        let FollowEvent::Messages(messages) = event else { return Ok(()) };
        for message in messages {
            if let Ok(Decoded::Known(LogEvent::Skipped(skipped))) =
                LogEvent::decode(&message.payload)
            {
                let line = not_run(skipped);
                self.show(&line, || line.text())?;
            }
        }
        Ok(())
    }

    /// Shows what the run events tell: runs that have ended.
    pub(super) fn runs(&mut self, bus: &Bus, event: &FollowEvent) -> io::Result<()> {
        let FollowEvent::Messages(messages) = event else { return Ok(()) };
        messages.iter().try_for_each(|message| self.step(bus, message))
    }

    fn step(&mut self, bus: &Bus, message: &StoredMessage) -> io::Result<()> {
        let Some(step) = read_step(bus, message) else { return Ok(()) };
        let Decoded::Known(event) = &step.event else { return Ok(()) };
        let shard = step.key.shard;
        let end = match event {
            RunEvent::Started(started) => {
                let first = (started.place.attempt <= 1).then_some(step.at);
                let known = self.starts.get(&shard).and_then(|starts| starts.first);
                self.starts.insert(shard, Starts { first: known.or(first), last: step.at });
                if self.starts.len() > RUNS_MAX {
                    self.starts.pop_first();
                }
                return Ok(());
            }
            RunEvent::Interrupted(_) => return Ok(()),
            RunEvent::AttemptFailed(failed) => {
                let (job, attempt) = (&step.key.job, failed.place.attempt);
                let why = printable(&failed.failure.message);
                self.out.talk(&format!("{job}: attempt {attempt} failed, another follows: {why}"));
                return Ok(());
            }
            RunEvent::Succeeded(done) => {
                End { result: done.result.clone(), failure: None, printed: done.output.clone() }
            }
            RunEvent::Failed(failed) => End {
                result: None,
                failure: Some(failed.failure.clone()),
                printed: failed.output.clone(),
            },
            RunEvent::Expired(_) | RunEvent::Cancelled(_) | RunEvent::Lost(_) => {
                End { result: None, failure: None, printed: None }
            }
        };
        let starts = self.starts.remove(&shard);
        let trace = self.traces.as_ref().map(|url| format!("{url}{}", shard.run.0.simple()));
        let line = Ran { trace, ..ran(&step, event, starts, end) };
        self.show(&line, || line.text())
    }

    fn show<T: Serialize>(&mut self, line: &T, text: impl FnOnce() -> String) -> io::Result<()> {
        if !self.json && !self.header_shown {
            self.out.text(&header())?;
            self.header_shown = true;
        }
        self.out.object(line, text)
    }
}

fn ran(step: &Step, event: &RunEvent, starts: Option<Starts>, end: End) -> Ran {
    let run = step.key.shard.run;
    let millis = |from: Timestamp, to: Timestamp| {
        u64::try_from(to.since(from).as_millis()).unwrap_or(u64::MAX)
    };
    let first = starts.and_then(|starts| starts.first);
    Ran {
        job: step.key.job.clone(),
        run,
        scheduled_at: run.at(),
        start_delay_ms: first.map(|first| millis(run.at(), first)),
        took_ms: starts.map(|starts| millis(starts.last, step.at)),
        attempts: event.place().attempt,
        outcome: event.kind().to_owned(),
        result: end.result,
        failure: end.failure,
        printed: end.printed,
        trace: None,
    }
}

fn not_run(skipped: Skipped) -> NotRun {
    let (scheduled_at, count) = match skipped.what {
        SkippedWhat::Slots { first, count, .. } => (first, count),
        SkippedWhat::Trigger(_) => (skipped.at, 1),
    };
    let Skipped { job, reason, .. } = skipped;
    NotRun { job, scheduled_at, outcome: "skipped", reason, count }
}
