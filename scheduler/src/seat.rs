//! A partition and this node's part in it.
//!
//! ```text
//!             lease won            heads read, fold there       cursor stored
//!   Standby ───────────► Surveying ─────────────────────► TakingOver ──────────► Leading
//!      ▲                     │                                │                    │
//!      └─────────────────────┴── lease lost, fenced, left ────┴────────────────────┘
//!                            └── purged, set back, unknown event ──► Stopped
//! ```
//!
//! Invariant: a batch is planned only while leading, with a trusted lease, a good clock and no batch in flight.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cronstream_core::lease;
use cronstream_core::partition::Partition;
use cronstream_core::turn::Batch;
use cronstream_schemas::id::{Instance, Partition as Number};
use uuid::Uuid;

use crate::fires::Fires;
use crate::input::Survey;

/// A batch of so many events is one of a burst: what is stored then is read back later.
const BURST_EVENTS: usize = 100;
/// Dead letters that are written at once.
pub(crate) const DEAD_IN_FLIGHT_MAX: usize = 64;

/// This node's part in a partition.
#[derive(Debug)]
pub(crate) enum Stage {
    /// It folds.
    Standby,
    /// It holds the lease and reads the streams' heads.
    Surveying { instance: Instance, survey: Option<Box<Survey>>, looks: Looks },
    /// Its first cursor is out, or stored: what an earlier leader stored before it may still be to be read.
    TakingOver { instance: Instance, hear_through: u64, stored: Option<u64> },
    /// It decides.
    Leading(Leading),
    /// Nobody here may lead it.
    Stopped { why: String },
}

/// How often a candidate has looked at the heads in vain.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Looks {
    /// Another leader had written since.
    pub(crate) again: u32,
    /// They contradicted the fold.
    pub(crate) doubts: u32,
}

/// A leader's state.
#[derive(Debug)]
pub(crate) struct Leading {
    pub(crate) instance: Instance,
    /// The batch that is out.
    pub(crate) in_flight: Option<Arc<Batch>>,
    /// When it left, by the monotonic clock.
    pub(crate) sent: Duration,
    /// The cursor behind which the log tells what became of it.
    pub(crate) closed_at: Option<u64>,
    /// Until when no fire goes by itself, by the monotonic clock.
    pub(crate) whole_until: Duration,
    /// Commands are read at least to here before the first turn.
    pub(crate) hear_through: u64,
    /// The partition belongs to another node: nothing new is begun.
    pub(crate) leaving: bool,
    /// Appends to CRON_RUNS that are out.
    pub(crate) appends: usize,
    /// Dead letters that are out.
    pub(crate) dead: HashSet<u64>,
}

#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) partition: Partition,
    pub(crate) stage: Stage,
    /// Since when the lease looks free.
    pub(crate) free_since: Option<Duration>,
    /// The claim that was stepped down from last.
    pub(crate) left: Option<Instance>,
    /// Why the last batch is not stored yet.
    pub(crate) stuck: Option<String>,
    /// Batches that were refused since this node started.
    pub(crate) fenced: u64,
    /// The fires that were read and are not told of.
    pub(crate) fires: Fires,
    /// What the log is read for.
    pub(crate) reading: Option<Reading>,
}

/// A command that waits until the log is read to its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Its sequence.
    pub(crate) command: u64,
    /// The head that the log had after the command was read; absent until it is known.
    pub(crate) head: Option<u64>,
}

impl Seat {
    pub(crate) fn new(number: Number) -> Self {
        Self {
            partition: Partition::new(number),
            stage: Stage::Standby,
            free_since: None,
            left: None,
            stuck: None,
            fenced: 0,
            fires: Fires::default(),
            reading: None,
        }
    }

    pub(crate) fn key(&self) -> String {
        lease::partition_key(self.partition.number)
    }

    /// The claim under which the node acts here.
    pub(crate) fn instance(&self) -> Option<Instance> {
        match &self.stage {
            Stage::Surveying { instance, .. } | Stage::TakingOver { instance, .. } => {
                Some(*instance)
            }
            Stage::Leading(leading) => Some(leading.instance),
            Stage::Standby | Stage::Stopped { .. } => None,
        }
    }

    /// Whether giving up the lease now leaves nothing half done.
    pub(crate) fn is_quiet(&self) -> bool {
        match &self.stage {
            Stage::Leading(leading) => leading.in_flight.is_none() && leading.appends == 0,
            Stage::TakingOver { .. } => false,
            Stage::Standby | Stage::Surveying { .. } | Stage::Stopped { .. } => true,
        }
    }

    /// Whether it leads and a batch of it is out that is one of many.
    pub(crate) fn is_in_burst(&self) -> bool {
        let Stage::Leading(Leading { in_flight: Some(batch), .. }) = &self.stage else {
            return false;
        };
        batch.events.len() >= BURST_EVENTS
    }

    /// Whether it goes on only when the log is read to a cursor of its own.
    pub(crate) fn waits_for_log(&self) -> bool {
        match &self.stage {
            Stage::Surveying { .. } | Stage::TakingOver { .. } => true,
            Stage::Leading(leading) => self.reading.is_some() || leading.closed_at.is_some(),
            Stage::Standby | Stage::Stopped { .. } => false,
        }
    }

    /// Goes back to folding; what is out will show in the log.
    pub(crate) fn step_down(&mut self) {
        self.partition.follow();
        self.left = self.instance().or(self.left);
        self.stage = Stage::Standby;
        self.free_since = None;
        self.stuck = None;
        self.reading = None;
    }

    /// Leaves the partition alone for good.
    pub(crate) fn stop(&mut self, why: String) {
        tracing::error!(partition = self.partition.number.0, why, "partition stopped");
        self.step_down();
        self.stage = Stage::Stopped { why };
    }
}

/// A new claim: made at every takeover attempt.
pub(crate) fn new_instance() -> Instance {
    Instance(Uuid::new_v4())
}
