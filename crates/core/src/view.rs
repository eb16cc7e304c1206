//! What may be seen of a partition from outside: how far it is, and what it holds.
//!
//! Invariant: nothing here changes the fold.

use cronstream_schemas::event::{Cursor, Held};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use crate::job::Job;
use crate::partition::{Partition, PendingDead};
use crate::shard::Shard;

impl Partition {
    /// Whether this fold leads: nobody else has written a cursor since it began to.
    #[must_use]
    pub const fn is_leading(&self) -> bool {
        self.leading.is_some()
    }

    /// The newest cursor.
    #[must_use]
    pub const fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    /// The sequence of the last message on the cursor's subject.
    #[must_use]
    pub const fn cursor_seq(&self) -> u64 {
        self.cursor_seq
    }

    /// The sequence of CRON_LOG that is folded.
    #[must_use]
    pub const fn log_through(&self) -> u64 {
        self.log_through
    }

    /// The sequence of CRON_COMMANDS up to which commands are applied.
    #[must_use]
    pub fn commands_through(&self) -> u64 {
        self.cursor.as_ref().map_or(0, |cursor| cursor.commands_through)
    }

    /// The sequence of CRON_COMMANDS up to which commands are applied, wait, or are another partition's.
    #[must_use]
    pub const fn commands_seen(&self) -> u64 {
        self.commands_seen
    }

    /// Up to which instant every slot is decided, at `now`: a leader that owes nothing is as far as its clock.
    #[must_use]
    pub fn decided_through(&self, now: Timestamp) -> Timestamp {
        let position = self.position().due;
        match self.due.first() {
            Some(due) if due <= now => position,
            Some(_) | None if self.is_leading() => position.max(now),
            Some(_) | None => position,
        }
    }

    /// How many commands wait.
    #[must_use]
    pub fn commands_waiting(&self) -> usize {
        self.commands.len()
    }

    /// The kind of an event that only a later version knows.
    #[must_use]
    pub fn unknown(&self) -> Option<&str> {
        self.unknown.as_deref()
    }

    /// How many jobs are not deleted.
    #[must_use]
    pub const fn defined(&self) -> usize {
        self.defined
    }

    /// A job, a deleted one included.
    #[must_use]
    pub fn job(&self, id: &JobId) -> Option<&Job> {
        self.jobs.get(id)
    }

    /// Every job, deleted ones included.
    pub fn jobs(&self) -> impl Iterator<Item = (&JobId, &Job)> {
        self.jobs.iter()
    }

    /// Every live shard.
    pub fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.shards.values().map(Box::as_ref)
    }

    /// Everything that waits, by job: single slots and ranges.
    pub fn held(&self) -> impl Iterator<Item = &Held> {
        self.held.values().flat_map(|waiting| waiting.entries.values()).map(AsRef::as_ref)
    }

    /// Whether anything but a cursor was folded.
    #[must_use]
    pub fn has_state(&self) -> bool {
        !(self.jobs.is_empty() && self.shards.is_empty())
    }

    /// Dead letters to write, with the sequence of the failure in CRON_RUNS, oldest first.
    pub fn dead(&self) -> impl Iterator<Item = (u64, &PendingDead)> {
        self.dead.iter().map(|(seq, dead)| (*seq, dead))
    }
}
