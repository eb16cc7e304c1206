//! Slots that wait, as the fold has them: single ones, and ranges of many behind one message.
//!
//! ```text
//!   Held (slot)                                    HeldEnded + Fired | Skipped
//!   ───────────► one slot waits ────────────────────────────────────────────────► (gone)
//!
//!   Held (range)                   Fired…, Held (range, fewer left)     HeldEnded + Fired | Skipped
//!   ────────────► many slots wait ──────────────────────────────────►… ──────────────────────────► (gone)
//! ```
//!
//! Invariant: an entry is there from its first `Held` until its `HeldEnded`, under the last token of its subject.
//! When something may be done about it is a function of the fold, so that every leader computes the same instant.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cronstream_schemas::definition::Overlap;
use cronstream_schemas::event::{Cause, Fired, Held, HeldEnded, HeldReason};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use crate::calendar::Calendars;
use crate::draft::Draft;
use crate::job::Job;
use crate::partition::Partition;

/// The most entries of one job; the oldest beyond are skipped.
pub const HELD_MAX: usize = 100;
/// The most slots of catch-ups and backfills that one turn fires.
pub const CATCH_UP_PER_TURN: usize = 50;
/// The most runs of a job's catch-ups and backfills that are live at a time, where runs may stand side by side.
pub const CATCH_UP_LIVE_MAX: u32 = 10;
/// How long a partition waits for each slot of a catch-up or backfill that it has fired: at most 100 a second.
const PACE: Duration = Duration::from_millis(10);
/// No wait for the pace is longer; a longer one tells of a clock that was set back.
const PACE_WAIT_MAX: Duration = Duration::from_secs(1);

/// Where an entry stands among its job's: the last token of its subject.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    Slot(Timestamp),
    Range(String),
}

impl Key {
    pub(crate) fn of(held: &Held) -> Self {
        match &held.range {
            Some(range) => Self::Range(range.id.clone()),
            None => Self::Slot(held.slot),
        }
    }

    pub(crate) fn ended(ended: &HeldEnded) -> Self {
        match &ended.range {
            Some(range) => Self::Range(range.clone()),
            None => Self::Slot(ended.slot),
        }
    }
}

/// How many runs of a job are live.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) all: u32,
    /// Those of its catch-ups and backfills.
    pub(crate) of_range: u32,
}

/// Everything of one job that waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) entries: BTreeMap<Key, Arc<Held>>,
    /// When a slot of its catch-ups or backfills was fired last: whoever has waited longest is next.
    pub(crate) served: Timestamp,
    indexed: Option<Timestamp>,
}

impl Waiting {
    fn has_catch_up(&self) -> bool {
        self.entries.values().any(|held| held.why == HeldReason::CatchUp)
    }

    /// Whether a run is one of a catch-up or backfill.
    pub(crate) fn is_of_range(&self, fired: &Fired) -> bool {
        let slot = match &fired.cause {
            Cause::Backfill(_) => return true,
            Cause::Trigger(_) => return false,
            Cause::Slot(slot) => *slot,
        };
        self.entries.values().any(|held| {
            held.why == HeldReason::CatchUp
                && held.revision == fired.revision
                && held.range.as_ref().is_some_and(|it| slot > it.after && slot <= it.through)
        })
    }

    /// From when on something may be done about an entry; none while it waits for a run to end, or for a calendar that
    /// the job's revision in force `misses` as well.
    fn wake(
        &self,
        held: &Held,
        live: Live,
        (calendars, misses): (&Calendars, bool),
    ) -> Option<Timestamp> {
        let ready = match held.why {
            HeldReason::Hold | HeldReason::Jitter | HeldReason::Shifted => {
                return Some(held.due.unwrap_or(Timestamp::MIN));
            }
            HeldReason::Queued => live.all == 0,
            HeldReason::CalendarMissing => !(misses && is_missing(held, calendars)),
            HeldReason::CatchUp | HeldReason::Backfill if is_missing(held, calendars) => !misses,
            HeldReason::CatchUp | HeldReason::Backfill => {
                return self.served_if(may_go_on(held, live));
            }
        };
        self.served_if(ready).or_else(|| given_up_at(held))
    }

    fn served_if(&self, ready: bool) -> Option<Timestamp> {
        ready.then_some(self.served)
    }
}

/// Whether a slot of a catch-up or backfill may fire beside the runs that are live.
pub(crate) fn may_go_on(held: &Held, live: Live) -> bool {
    match held.definition.overlap {
        Overlap::Skip => live.all == 0,
        Overlap::Allow => live.of_range < CATCH_UP_LIVE_MAX,
    }
}

impl Partition {
    pub(crate) fn apply_held(&mut self, held: &Held) {
        if !is_backfill(held) {
            self.decide_through(&held.job, held.incarnation, last_slot(held));
        }
        let mut held = held.clone();
        self.shared.definition(&mut held.definition);
        let waiting = self.held.entry(held.job.clone()).or_default();
        let held = Arc::new(held);
        waiting.entries.insert(Key::of(&held), Arc::clone(&held));
        self.index_held(&held.job);
    }

    pub(crate) fn apply_held_ended(&mut self, ended: &HeldEnded) {
        let Some(waiting) = self.held.get_mut(&ended.job) else { return };
        waiting.entries.remove(&Key::ended(ended));
        self.shared.let_go();
        self.index_held(&ended.job);
    }

    /// Notes a first fire, which may be one of a catch-up or backfill.
    pub(crate) fn serve(&mut self, fired: &Fired) {
        let Some(waiting) = self.held.get_mut(&fired.job) else { return };
        if waiting.is_of_range(fired) {
            waiting.served = waiting.served.max(fired.fired_at);
            self.paced_until = self.paced_until.max(fired.fired_at).plus(PACE);
        }
    }

    /// How many runs of a job are live.
    pub(crate) fn live(&self, id: &JobId) -> Live {
        let Some(runs) = self.live.of(id) else { return Live::default() };
        // Only what waits tells which runs are of a catch-up: of a job of which nothing does, none is looked at.
        let of_range = match self.held.get(id).filter(|waiting| waiting.has_catch_up()) {
            Some(waiting) => {
                let fires = runs.shards().iter().filter_map(|shard| self.shards.get(shard));
                fires.filter(|shard| waiting.is_of_range(&shard.fired)).count()
            }
            None => runs.backfills(),
        };
        let count = |many: usize| u32::try_from(many).unwrap_or(u32::MAX);
        Live { all: count(runs.shards().len()), of_range: count(of_range) }
    }

    /// Puts a job's entries where the leader finds them once something may be done about them.
    pub(crate) fn index_held(&mut self, id: &JobId) {
        if !self.held.contains_key(id) {
            return;
        }
        let live = self.live(id);
        let misses = self.job(id).is_some_and(Job::misses_calendar);
        let Some(waiting) = self.held.get_mut(id) else { return };
        let wakes = waiting.entries.values();
        let wakes = wakes.filter_map(|held| waiting.wake(held, live, (&self.calendars, misses)));
        let wake = wakes.min().filter(|_| self.leading.is_some());
        if let Some(old) = std::mem::replace(&mut waiting.indexed, wake) {
            self.waiting.remove(&(old, id.clone()));
        }
        if let Some(wake) = wake {
            self.waiting.insert((wake, id.clone()));
        }
        if waiting.entries.is_empty() {
            self.held.remove(id);
        }
    }

    /// Looks again at what may wait for a calendar.
    pub(crate) fn index_missing(&mut self) {
        let waits = |waiting: &&Waiting| {
            waiting.entries.values().any(|held| held.definition.calendars.is_some())
        };
        let ids = self.held.iter().filter(|(_, waiting)| waits(waiting));
        let ids: Vec<JobId> = ids.map(|(id, _)| id.clone()).collect();
        ids.iter().for_each(|id| self.index_held(id));
    }

    /// Builds the index of what waits, for a leader.
    pub(crate) fn index_all_held(&mut self) {
        self.waiting.clear();
        self.held.values_mut().for_each(|waiting| waiting.indexed = None);
        let ids: Vec<JobId> = self.held.keys().cloned().collect();
        ids.iter().for_each(|id| self.index_held(id));
    }

    /// Until when no slot of a catch-up or backfill may fire.
    pub(crate) fn paced_until(&self, now: Timestamp) -> Option<Timestamp> {
        Some(self.paced_until).filter(|until| *until > now && until.since(now) <= PACE_WAIT_MAX)
    }

    /// When something may be done about what waits. What is ready and was not done waits for the pace, or for a
    /// batch that is out.
    pub(crate) fn held_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let to_come = self.waiting.iter().map(|(at, _)| *at).find(|at| *at > now);
        let ready = self.waiting.first().is_some_and(|(at, _)| *at <= now);
        let paced = self.paced_until(now).filter(|_| ready);
        [to_come, paced].into_iter().flatten().min()
    }
}

/// Whether a calendar that an entry's revision names is not known.
fn is_missing(held: &Held, calendars: &Calendars) -> bool {
    held.definition.calendars.as_ref().is_some_and(|wanted| calendars.working(wanted).is_err())
}

impl Draft<'_> {
    /// What waits of a job.
    pub(crate) fn held(&self, id: &JobId) -> Option<&Waiting> {
        self.held.get(id).or_else(|| self.base.held.get(id))
    }

    pub(crate) fn held_mut(&mut self, id: &JobId) -> &mut Waiting {
        let base = self.base;
        self.held
            .entry(id.clone())
            .or_insert_with(|| base.held.get(id).cloned().unwrap_or_default())
    }

    /// How many runs of a job are live.
    pub(crate) fn live(&self, id: &JobId) -> Live {
        let (base, fired) =
            (self.base.live(id), self.tables.fired.get(id).copied().unwrap_or_default());
        Live { all: base.all + fired.all, of_range: base.of_range + fired.of_range }
    }
}

/// Whether an entry's slots have, or will have, their own outcome besides.
pub(crate) fn is_backfill(held: &Held) -> bool {
    held.why == HeldReason::Backfill
}

/// The last slot that an entry holds.
pub(crate) fn last_slot(held: &Held) -> Timestamp {
    held.range.as_ref().map_or(held.slot, |range| range.through)
}

/// From when on an entry waits for nothing any more: its slots are missed. A backfill has its time.
pub(crate) fn given_up_at(held: &Held) -> Option<Timestamp> {
    let due = held.due.filter(|_| held.range.is_none()).unwrap_or_else(|| last_slot(held));
    let at = due.plus(held.fire_within.to_duration()).plus(Duration::from_millis(1));
    (!is_backfill(held)).then_some(at)
}

/// How many slots an entry holds.
pub(crate) fn slots_left(held: &Held) -> u64 {
    held.range.as_ref().map_or(1, |range| range.left)
}
