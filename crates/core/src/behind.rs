//! Slots behind commands: what was stored before a slot was due takes effect before it, after an outage too.
//!
//! ```text
//!   ──── pause T1 ── define T2 ── pause T3 ──┬── slot ──┬── now          one turn applies T1 and leaves T2:
//!         applied     left        left       └ owed ────┘                it decides through T2, the next one goes on
//! ```
//!
//! A turn may leave commands: a job's state changes once in a batch, a batch has room for so many, and some wait for
//! a read. The slots that fell due behind the first one left wait for it, and so does what else waits for its time.
//!
//! Invariant: nobody can hold up a partition's slots by commands for longer than [`WAIT_MAX`]; nor at all by one that
//! waits for a read, unless it was stored before this leader's term: then it was first for everybody to see.

use std::collections::HashMap;
use std::time::Duration;

use cronstream_schemas::command::Verb;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use crate::draft::Draft;
use crate::partition::Partition;
use crate::turn::{COMMANDS_MAX, Settings};

/// How long slots wait at most for commands that were stored before they were due; then they go first.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// The commands that change a job, in their order: sequence and instant.
pub(crate) type Changes = HashMap<JobId, Vec<(u64, Timestamp)>>;

impl Partition {
    /// Whether slots have waited for commands for as long as they may, or the clock was set back meanwhile.
    fn has_waited(&self, now: Timestamp) -> bool {
        self.behind_since.is_some_and(|since| now < since || since.plus(WAIT_MAX) <= now)
    }

    /// Notes whether commands are left that slots wait for.
    pub(crate) fn note_behind(&mut self, is_behind: bool, now: Timestamp) {
        self.behind_since = self.behind_since.or(Some(now)).filter(|_| is_behind);
    }

    /// Notes that nothing could be decided for so long: what waits now has not waited for commands meanwhile.
    pub fn stood_still(&mut self, duration: Duration, now: Timestamp) {
        self.behind_since = self.behind_since.map(|since| since.plus(duration).min(now));
    }

    /// When slots that wait for commands go first.
    pub(crate) fn waited_at(&self) -> Option<Timestamp> {
        self.behind_since.map(|since| since.plus(WAIT_MAX))
    }
}

impl Draft<'_> {
    /// The first command that this turn leaves, if slots have fallen due behind it.
    fn left(&self) -> Option<Timestamp> {
        let (base, horizon) = (self.base, self.now.horizon());
        let first = base.commands.get(self.plans.applied)?;
        (first.at < horizon && base.position().due <= horizon).then_some(first.at)
    }

    /// Whether commands are left before which slots have fallen due that wait for them, or have waited long enough.
    pub(crate) fn is_behind(&self) -> bool {
        self.left().is_some()
    }

    /// Up to where this turn decides slots: behind the first command left, all of them wait for it.
    pub(crate) fn slots_through(&self) -> Timestamp {
        let (base, horizon) = (self.base, self.now.horizon());
        if base.has_waited(self.now.wall) {
            return horizon;
        }
        let waits_for_a_read = self.plans.history.is_some()
            || self.plans.read_log.is_some()
            || !self.plans.appends.is_empty();
        let left = self.left().filter(|at| !waits_for_a_read || *at < base.led_since);
        left.unwrap_or(horizon).min(self.in_force_through)
    }

    /// Up to where a state that comes into force by command `seq` decides slots at once: another change of its job
    /// may wait already. Behind that, this turn decides nobody's.
    pub(crate) fn through_next_change(&mut self, job: &JobId, seq: u64) -> Timestamp {
        let (base, horizon) = (self.base, self.now.horizon());
        if base.commands.len() <= 1 || base.has_waited(self.now.wall) {
            return horizon;
        }
        let changes = self.changes.get_or_insert_with(|| changes(self.settings, base));
        let of_job = changes.get(job).map_or(&[][..], Vec::as_slice);
        let next = of_job.iter().find(|(other, _)| *other > seq).map(|(_, at)| *at);
        // Commands beyond those of a turn are not looked at.
        let beyond = base.commands.get(COMMANDS_MAX).map(|command| command.at);
        let through = next.into_iter().chain(beyond).chain([horizon]).min().unwrap_or(horizon);
        // What the position has passed must be decided at once all the same.
        let through = through.max(base.position().due);
        self.in_force_through = self.in_force_through.min(through);
        through
    }
}

fn changes(settings: &Settings, base: &Partition) -> Changes {
    let mut changes = Changes::new();
    for command in base.commands.iter().take(COMMANDS_MAX) {
        if let Ok((verb, job)) = settings.prefix.parse_command(&command.subject)
            && is_change(verb)
        {
            changes.entry(job).or_default().push((command.seq, command.at));
        }
    }
    changes
}

/// Whether a command changes its job's state.
pub(crate) fn is_change(verb: Verb) -> bool {
    !matches!(verb, Verb::Trigger | Verb::Cancel) && !verb.is_of_calendar()
}
