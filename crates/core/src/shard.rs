//! One live shard of a run, as the leader sees it: a fold of its fires and its run events.
//!
//! ```text
//!             Fired#1                    Started / Interrupted            Succeeded, Failed
//!   (none) ───────────► waiting ────────────────────────────► running ───────────────────────► (dropped)
//!                          │ start_by                            │ AttemptFailed      ▲
//!                          ▼                                     ▼                    │ Fired#n+1
//!                       Expired                               backing off ────────────┘
//!                                            run_by, in any state: Lost
//! ```
//!
//! Invariant: a terminal event ends the shard whatever its fire_no; a fire behind it is void. A shard's
//! timer is a pure function of its events, so that every leader computes the same one.

use std::sync::Arc;

use cronstream_schemas::duration::Span;
use cronstream_schemas::event::{Failure, Fired, Place, RunEvent};
use cronstream_schemas::time::Timestamp;

use crate::retry;

/// What the fold keeps of a run event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastEvent {
    /// Its sequence in CRON_RUNS.
    pub seq: u64,
    /// Its broker timestamp.
    pub at: Timestamp,
    /// Where it stands.
    pub place: Place,
    /// What it says.
    pub kind: LastKind,
}

/// What a run event says to the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LastKind {
    /// Started or handed back: an executor has it, or a redelivery will come.
    Running,
    /// The attempt failed; the leader fires the next one.
    AttemptFailed {
        /// No retry before this has passed.
        retry_after: Option<Span>,
    },
    /// The shard has failed for good.
    Failed(Failure),
    /// Ended by a cancel with this command sequence.
    Cancelled {
        /// Sequence in CRON_COMMANDS.
        command: Option<u64>,
    },
    /// Ended otherwise.
    Ended,
}

impl LastEvent {
    /// What to keep of an event.
    #[must_use]
    pub fn of(seq: u64, at: Timestamp, event: &RunEvent) -> Self {
        let kind = match event {
            RunEvent::Started(_) | RunEvent::Interrupted(_) => LastKind::Running,
            RunEvent::AttemptFailed(e) => LastKind::AttemptFailed { retry_after: e.retry_after },
            RunEvent::Failed(e) => LastKind::Failed(e.failure.clone()),
            RunEvent::Cancelled(e) => LastKind::Cancelled { command: e.command },
            RunEvent::Succeeded(_) | RunEvent::Expired(_) | RunEvent::Lost(_) => LastKind::Ended,
        };
        Self { seq, at, place: event.place(), kind }
    }

    /// Whether it ends its shard.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        match self.kind {
            LastKind::Running | LastKind::AttemptFailed { .. } => false,
            LastKind::Failed(_) | LastKind::Cancelled { .. } | LastKind::Ended => true,
        }
    }
}

/// What a shard's timer asks the leader to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Fire the shard once more.
    Retry,
    /// End it as Expired: nothing has started it in time.
    Expire,
    /// End it as Lost: its hard end has passed.
    Lose,
}

/// A live shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// Its newest fire.
    pub fired: Arc<Fired>,
    /// Its newest run event.
    pub last: Option<LastEvent>,
    /// Where the leader's timer index has it.
    pub(crate) indexed: Option<Timestamp>,
}

impl Shard {
    /// A shard that has just been fired.
    #[must_use]
    pub const fn new(fired: Arc<Fired>) -> Self {
        Self { fired, last: None, indexed: None }
    }

    /// Takes a newer fire; an older one changes nothing.
    pub fn apply_fired(&mut self, fired: &Arc<Fired>) {
        if fired.fire_no > self.fired.fire_no {
            self.fired = Arc::clone(fired);
        }
    }

    /// Takes a newer run event; returns whether it ended the shard.
    pub fn apply_event(&mut self, event: LastEvent) -> bool {
        let newer = self.last.as_ref().is_none_or(|last| event.seq > last.seq);
        let terminal = event.is_terminal();
        if newer {
            self.last = Some(event);
        }
        terminal
    }

    /// The sequence that the next event of the shard's subject must expect; 0 when it has none.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| last.seq)
    }

    /// When the leader must act on this shard if nothing else happens, and how.
    #[must_use]
    pub fn timer(&self) -> (Timestamp, Due) {
        let fired = &self.fired;
        let hard_end = (fired.run_by, Due::Lose);
        let Some(last) = &self.last else {
            return (fired.start_by, Due::Expire).min_by_time(hard_end);
        };
        match &last.kind {
            LastKind::AttemptFailed { retry_after } if last.place.fire_no == fired.fire_no => {
                let place = last.place;
                let shard = fired.shard_id();
                let delay =
                    retry::delay(&fired.retry, place.attempt, shard, place.fire_no, *retry_after);
                (last.at.plus(delay), Due::Retry).min_by_time(hard_end)
            }
            LastKind::AttemptFailed { .. } | LastKind::Running => hard_end,
            LastKind::Failed(_) | LastKind::Cancelled { .. } | LastKind::Ended => hard_end,
        }
    }
}

trait MinByTime {
    fn min_by_time(self, other: Self) -> Self;
}

impl MinByTime for (Timestamp, Due) {
    fn min_by_time(self, other: Self) -> Self {
        if other.0 < self.0 { other } else { self }
    }
}
