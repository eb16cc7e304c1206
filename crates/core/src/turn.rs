//! A turn: what a partition's leader decides at one instant.
//!
//! Invariant: a turn reads the fold and changes nothing in it but the note of appends it hands out. Its batch
//! has at most [`EVENTS_MAX`] events and [`BYTES_MAX`] bytes, and whatever was not decided is still owed.

use std::borrow::Cow;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cronstream_schemas::event::{Cursor, Ended, Event, LogEvent, RunEvent};
use cronstream_schemas::id::{Epoch, Incarnation, Instance, ShardId, Tick};
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::subject::{Prefix, RunKey};
use cronstream_schemas::time::Timestamp;
use cronstream_schemas::trace::TraceRatio;
use cronstream_schemas::verdict::Verdict;

use crate::alone::{AHEAD, doubt_behind};
use crate::draft::Draft;
use crate::live::Bounds;
use crate::partition::Partition;
use crate::position;
use crate::shard::{Due, LastEvent, Shard};

/// The most events of a batch beside its cursor (a batch has at most 1,000 messages: nats-server 10199).
pub const EVENTS_MAX: usize = 999;
/// The most bytes of a batch's bodies and headers.
pub const BYTES_MAX: usize = 7 * 1024 * 1024;
/// The most appends to CRON_RUNS that one turn hands out.
pub const APPENDS_MAX: usize = 500;
/// The most commands that one turn applies.
pub const COMMANDS_MAX: usize = 400;

/// The leader's clock, and how far it may be trusted.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// The wall clock.
    pub wall: Timestamp,
    /// No position moves beyond this: the broker's clock plus `max_clock_error`.
    pub limit: Timestamp,
}

impl Now {
    /// Up to where slots may be decided.
    #[must_use]
    pub fn horizon(&self) -> Timestamp {
        self.wall.min(self.limit)
    }
}

/// What a leader is told at its start.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The installation's prefix.
    pub prefix: Prefix,
    /// Fold and account, fire nothing.
    pub hold: bool,
    /// How far a leader's clock may be from the broker's.
    pub max_clock_error: Duration,
    /// How old a cursor that lags behind the commands may become.
    pub cursor_refresh: Duration,
    /// Which share of the runs is traced.
    pub trace_ratio: TraceRatio,
    /// How many runs may be live, and what they may hold.
    pub bounds: Bounds,
}

/// An event and its JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The event.
    pub event: LogEvent,
    /// Its JSON.
    pub body: Bytes,
}

/// A verdict and the inbox that waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The inbox, as the command named it.
    pub inbox: String,
    /// The verdict.
    pub verdict: Verdict,
}

/// One atomic batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Its events, in order.
    pub events: Vec<Planned>,
    /// Its last message, and its lock.
    pub cursor: Cursor,
    /// The sequence that the last message on the cursor's subject must have.
    pub cursor_expected: u64,
    /// What to say once it is stored.
    pub replies: Vec<Reply>,
    /// The cursor that closes it, where its one event may be stored by itself: see [`crate::alone`].
    pub alone: Option<Cursor>,
}

/// An event that the leader appends to CRON_RUNS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunAppend {
    /// The shard's address.
    pub key: RunKey,
    /// The event.
    pub event: RunEvent,
    /// The sequence that the last message on the shard's subject must have.
    pub expected_seq: u64,
    /// How long it is kept at least.
    pub keep_until: Timestamp,
}

/// A job's accepted revisions, to be read from CRON_LOG in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryRead {
    /// The command that waits for them.
    pub command: u64,
    /// The job.
    pub job: JobId,
    /// The life that slots are asked of: what was before its first revision does not matter.
    pub incarnation: Incarnation,
    /// From which instant on slots are asked for.
    pub from: Timestamp,
    /// Up to which instant slots are asked for.
    pub to: Timestamp,
}

/// What a leader does next.
#[derive(Debug, Default)]
pub struct Turn {
    /// The batch to store.
    pub batch: Option<Batch>,
    /// The run events to append.
    pub appends: Vec<RunAppend>,
    /// What to read, for [`Partition::history_read`].
    pub history: Option<HistoryRead>,
    /// When to take the next turn if nothing else happens.
    pub wake_at: Option<Timestamp>,
    /// A command that waits until the log is read to its head: see [`Partition::read_log`].
    pub read_log: Option<u64>,
}

impl Partition {
    /// Decides what is due. With `may_commit` false (a batch is out) it only hands out appends.
    pub fn turn(&mut self, now: Now, settings: &Settings, may_commit: bool) -> Turn {
        let Some(cursor) = self.cursor.clone().filter(|_| self.may_lead()) else {
            return Turn::default();
        };
        self.drop_vanished(now.horizon());
        let mut appends = self.overdue(now, cursor.epoch);
        self.ending.extend(appends.iter().map(|append| append.key.shard));
        let mut turn = Turn::default();
        let mut waits = false;
        if may_commit {
            let jobs = &self.jobs;
            self.due.prepare(now.horizon().plus(AHEAD), |at, hash| jobs.due(at, hash));
            let tables = std::mem::take(&mut self.tables);
            let mut draft = Draft::new(self, (now, settings), cursor.epoch, tables);
            draft.apply_commands();
            let through = draft.slots_through();
            let position = draft.fire_due(through);
            draft.retry();
            waits = through < now.horizon();
            if !waits {
                draft.release_held();
                draft.catch_up();
            }
            let is_behind = draft.is_behind();
            let (planned, tables) = draft.finish();
            self.tables = tables;
            self.note_behind(is_behind, now.wall);
            appends.extend(planned.appends);
            let due = cursor.at.plus(settings.cursor_refresh) <= now.wall;
            let lags = cursor.commands_through < planned.commands_through;
            let wanted = self.wants_cursor(&position, now);
            // Jobs go by new days once a cursor says that they owe nothing from before.
            let days = self.replans.iter().any(|(from, _)| *from <= through);
            if !planned.events.is_empty() || planned.applied > 0 || (lags && due) || days || wanted
            {
                let position = position::later(cursor.position.clone(), position);
                let may_go_alone = !days
                    && planned.applied == 0
                    && self.may_go_alone(&planned.events, &cursor, now.wall);
                let (cursor, closing) = self.next_cursors(
                    Cursor {
                        tick: Tick(cursor.tick.0 + 1),
                        commands_through: planned.commands_through,
                        dead_through: self.dead_through(),
                        at: now.wall,
                        ..cursor
                    },
                    position,
                );
                turn.batch = Some(Batch {
                    events: planned.events,
                    cursor,
                    cursor_expected: self.cursor_seq,
                    replies: planned.replies,
                    alone: may_go_alone.then_some(closing),
                });
            }
            turn.wake_at = planned.wake_at;
            turn.history = planned.history.filter(|read| self.asks(read));
            turn.read_log = planned.read_log;
        }
        appends.truncate(APPENDS_MAX);
        self.ending.extend(appends.iter().map(|append| append.key.shard));
        turn.appends = appends;
        let slots = if waits { self.waited_at() } else { self.next_slot(now, settings) };
        let timer = self.timers.first().map(|(at, _)| *at);
        let next = slots.into_iter().chain(timer).chain(turn.wake_at);
        turn.wake_at = next.chain(self.cursor_by(now.wall)).min();
        turn
    }

    /// The cursor that begins a term: one epoch and one tick on, and nothing else moved.
    #[must_use]
    pub fn takeover(&self, now: Timestamp, node: &Name, holder: Instance) -> Cursor {
        let old = self.cursor.as_ref();
        Cursor {
            partition: self.number,
            epoch: Epoch(old.map_or(0, |cursor| cursor.epoch.0) + 1),
            tick: Tick(old.map_or(0, |cursor| cursor.tick.0) + 1),
            node: node.clone(),
            holder,
            position: self.position(),
            commands_through: self.commands_through(),
            dead_through: old.map_or(0, |cursor| cursor.dead_through),
            at: now,
            doubt_before: old.and_then(doubt_behind),
        }
    }

    /// Folds a batch that is stored; `last_seq` is the sequence of its cursor.
    pub fn commit(&mut self, batch: Batch, last_seq: u64) {
        let first = last_seq.saturating_sub(batch.events.len() as u64);
        for (seq, planned) in (first..).zip(batch.events) {
            self.fold_log(seq, Cow::Owned(planned.event));
        }
        self.apply_log(last_seq, &LogEvent::Cursor(batch.cursor));
    }

    /// Folds the event of a batch that is stored by itself, at `seq`.
    pub fn commit_alone(&mut self, batch: Batch, seq: u64) {
        for planned in batch.events {
            self.fold_log(seq, Cow::Owned(planned.event));
        }
    }

    /// When the next slot is due, or something that waits.
    fn next_slot(&self, now: Now, settings: &Settings) -> Option<Timestamp> {
        let held = self.held_wake(now.wall).filter(|_| !settings.hold);
        let days = self.replans.iter().map(|(from, _)| *from).min();
        self.due.first().into_iter().chain(held).chain(days).min()
    }

    fn may_lead(&self) -> bool {
        self.is_leading() && self.unknown().is_none()
    }

    fn dead_through(&self) -> u64 {
        let before = self.cursor.as_ref().map_or(0, |cursor| cursor.dead_through);
        let through =
            self.dead.keys().next().map_or(u64::MAX, |first| first - 1).min(self.runs_through);
        through.max(before)
    }

    /// Drops overdue shards whose events have vanished with their lifetime: no append can expect them any more.
    fn drop_vanished(&mut self, now: Timestamp) {
        let overdue = self.timers.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id);
        let is_gone = |id: &ShardId| self.shards.get(id).is_some_and(|s| s.fired.keep_until < now);
        let gone: Vec<ShardId> = overdue.filter(is_gone).collect();
        gone.into_iter().for_each(|id| self.drop_shard(id));
    }

    fn overdue(&self, now: Now, epoch: Epoch) -> Vec<RunAppend> {
        let mut appends = Vec::new();
        for (at, id) in &self.timers {
            if *at > now.horizon() || appends.len() >= APPENDS_MAX {
                break;
            }
            let Some(shard) = self.shards.get(id).filter(|_| !self.ending.contains(id)) else {
                continue;
            };
            let ended = Ended { place: place(shard), epoch, command: None };
            let event = match shard.timer().1 {
                Due::Retry => continue,
                Due::Expire => RunEvent::Expired(ended),
                Due::Lose => RunEvent::Lost(ended),
            };
            appends.push(append(shard, event));
        }
        appends
    }
}

/// The append of a leader's terminal event behind what is folded of a shard.
pub(crate) fn append(shard: &Shard, event: RunEvent) -> RunAppend {
    let fired = &shard.fired;
    RunAppend {
        key: RunKey { queue: fired.queue.clone(), job: fired.job.clone(), shard: fired.shard_id() },
        event,
        expected_seq: shard.last_seq(),
        keep_until: fired.keep_until,
    }
}

/// The place that a leader's terminal event repeats.
pub(crate) fn place(shard: &Shard) -> cronstream_schemas::event::Place {
    shard.last.as_ref().map(|last: &LastEvent| last.place).unwrap_or_default()
}

impl Planned {
    /// Encodes an event behind those that are in `room` already.
    #[must_use]
    pub fn new(event: LogEvent, room: &mut BytesMut) -> Self {
        let body = event.with_encoded(|body| {
            room.extend_from_slice(body);
            room.split().freeze()
        });
        Self { event, body }
    }
}
