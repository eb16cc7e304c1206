//! `explain`: why a job ran, ran late, did not run, or will run, from what the log says of one instant.
//!
//! ```text
//!   read (subjects and times) ─► facts ─► verdict (pure) ─► sentences, or JSON
//!                                          ├─ ran       on time, late, waiting
//!                                          ├─ skipped   misfire, overlap, pause, request
//!                                          ├─ coming    to come, held, undecided
//!                                          └─ absent    no slot: calendar, window, start, end, clock change
//! ```
//!
//! Invariant: what is said is read from the log and the present calendars; what they do not tell is not guessed.

mod absent;
mod coming;
mod facts;
mod ran;
mod read;
mod skipped;
mod verdict;

#[cfg(test)]
mod tests;

use cronstream_core::schedule::Zone;
use cronstream_schemas::id::{Epoch, Incarnation, Revision, RunId};
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::time::Timestamp;
use serde::Serialize;

use crate::args;
use crate::error::Error;
use crate::explain::verdict::{Explanation, Leader, Outcome};
use crate::output::printable;
use crate::session::Session;
use crate::{instants, jobs, words};

/// An explanation as it is printed.
#[derive(Debug, Serialize)]
struct Told {
    job: JobId,
    /// The instant in question.
    at: Timestamp,
    /// What became of it: `ran`, `ran_late`, `skipped`, …
    outcome: &'static str,
    /// Why it was skipped or is held, as the log has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<serde_json::Value>,
    summary: String,
    because: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<Revision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    incarnation: Option<Incarnation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
    /// Who led the partition when it was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<LeaderTold>,
    /// From the slot to the first start.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot_before: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot_after: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
struct LeaderTold {
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<Epoch>,
    decided_at: Timestamp,
}

pub(crate) async fn explain(session: &Session, wanted: &args::Explain) -> Result<(), Error> {
    let bus = session.bus().await?;
    let newest = jobs::find(&bus, &wanted.job).await?;
    let newest = newest.ok_or_else(|| Error::NoJob(wanted.job.clone()))?;
    let zone = jobs::zone(&newest);
    let at = instants::on_clock(wanted.at, zone, "--at")?;
    let read = read::states(&bus, newest, at).await?;
    let facts = Box::pin(read::facts(&bus, &read, at)).await?;
    let explanation = verdict::explain(&facts);
    let told = Told::new(&wanted.job, at, explanation);
    session.out.object(&told, || told.text(zone))?;
    Ok(())
}

impl Told {
    fn new(job: &JobId, at: Timestamp, explanation: Explanation) -> Self {
        let Explanation { outcome, slot, summary, because, revision, run, leader, late, nearest } =
            explanation;
        Self {
            job: job.clone(),
            at,
            outcome: outcome.name(),
            reason: outcome.reason(),
            summary,
            because,
            slot,
            revision: revision.map(|(revision, _)| revision),
            incarnation: revision.map(|(_, incarnation)| incarnation),
            run,
            leader: leader.map(|Leader { node, epoch, at }| LeaderTold {
                node,
                epoch,
                decided_at: at,
            }),
            start_delay_ms: late.and_then(|late| u64::try_from(late.as_millis()).ok()),
            slot_before: nearest.0,
            slot_after: nearest.1,
        }
    }

    fn text(&self, zone: Zone) -> String {
        let clock = |at: Timestamp| match zone == Zone::UTC {
            true => at.to_string(),
            false => format!("{at} ({} {})", words::local(at, zone), zone.name()),
        };
        let mut lines = vec![format!("{} at {}: {}", self.job, clock(self.at), self.summary)];
        lines.extend(self.because.iter().map(|reason| format!("  - {reason}")));
        if let Some(revision) = self.revision {
            lines.push(format!("revision     {}", revision.0));
        }
        if let Some(leader) = &self.leader {
            let node = leader.node.as_ref().map_or("not recorded", Name::as_str);
            let term = leader.epoch.map(|epoch| format!(", term {}", epoch.0)).unwrap_or_default();
            lines.push(format!("leader       {node}{term}, decided at {}", leader.decided_at));
        }
        if let Some(run) = self.run {
            lines.push(format!("run          {run}"));
        }
        for (name, slot) in [("slot before", self.slot_before), ("slot after", self.slot_after)] {
            if let Some(slot) = slot {
                lines.push(format!("{name:<12} {}", clock(slot)));
            }
        }
        lines.iter().map(|line| printable(line)).collect::<Vec<_>>().join("\n")
    }
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::RanLate => "ran_late",
            Self::Waiting => "waiting",
            Self::NeverStarted => "never_started",
            Self::Skipped(_) => "skipped",
            Self::Held(_) => "held",
            Self::WillRun => "will_run",
            Self::WillNotRun => "will_not_run",
            Self::NoSlot => "no_slot",
            Self::NoJob => "no_job",
            Self::Undecided => "undecided",
            Self::NotKept => "not_kept",
        }
    }

    fn reason(self) -> Option<serde_json::Value> {
        match self {
            Self::Skipped(reason) => serde_json::to_value(reason).ok(),
            Self::Held(reason) => serde_json::to_value(reason).ok(),
            Self::Ran
            | Self::RanLate
            | Self::Waiting
            | Self::NeverStarted
            | Self::WillRun
            | Self::WillNotRun
            | Self::NoSlot
            | Self::NoJob
            | Self::Undecided
            | Self::NotKept => None,
        }
    }
}
