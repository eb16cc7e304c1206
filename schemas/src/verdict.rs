//! Verdicts: what the sender of a command hears on its `Cron-Reply` inbox.
//!
//! Invariant: a verdict is sent after its batch is stored; it never tells of what may still be lost.

use serde::{Deserialize, Serialize};

use crate::command::Verb;
use crate::event::SkipReason;
use crate::fault::Fault;
use crate::id::{Revision, RunId};
use crate::name::JobId;
use crate::time::Timestamp;

/// The answer to one command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Verdict {
    /// Sequence of the command in CRON_COMMANDS.
    pub command: u64,
    /// The job, where one could be made out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// What was asked for, where it could be made out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verb: Option<Verb>,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The job's state has changed.
    Accepted {
        /// The revision in force.
        revision: Revision,
        /// The next slots, at most three; none for a paused or deleted job.
        next: Vec<Timestamp>,
        /// What is accepted and yet may not be what was meant, at most 50.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<Fault>,
    },
    /// A slot is skipped or shifted.
    Overridden {
        /// The slot.
        slot: Timestamp,
        /// When it is due instead; absent when it is skipped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Timestamp>,
    },
    /// A backfill has begun.
    Backfilling {
        /// How many slots run again.
        slots: u64,
    },
    /// A calendar has changed.
    CalendarAccepted {
        /// Its version in force: the sequence of the command.
        revision: Revision,
        /// How many jobs use it, as far as is known.
        jobs: u64,
    },
    /// A trigger has made a run.
    Fired {
        /// The run.
        run: RunId,
    },
    /// A trigger has made no run.
    Skipped {
        /// Why.
        reason: SkipReason,
    },
    /// A cancel has ended the run.
    Cancelled {
        /// The run.
        run: RunId,
    },
    /// Nothing has changed.
    Rejected {
        /// Every fault, at most 50.
        faults: Vec<Fault>,
        /// The run that the same trigger key already made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duplicate_of: Option<RunId>,
    },
}
