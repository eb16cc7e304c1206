//! When a leader reads back what it has stored, and what of it.
//!
//! ```text
//!   the log:  ── read ──┤ ours │ ours │ ours ├─ theirs ─┤ ours ├─ head
//!                       through ─── passed ──►  read      told apart by its sequence
//! ```
//!
//! What a leader stores comes back to it as messages of the log, which it has folded already. To deliver and read
//! them costs the broker and this node a third of what storing them did, just when the next fires wait: so in a burst
//! the log is read a little later, or as soon as no large batch is out, and from behind what this node has stored itself, where nobody
//! else's messages lie before that.
//!
//! Invariants: the log is never left unread for longer than [`LATER`]. Nothing is left out but what this node has
//! folded and what tells nothing to its other partitions.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use cronstream_core::turn::Batch;
use cronstream_schemas::event::LogEvent;

/// The longest that the log is left unread.
const LATER: Duration = Duration::from_secs(1);
/// Stretches of the log of which it is remembered that this node has stored them; more are read like any other.
const STRETCHES_MAX: usize = 1_024;

/// What is known of a leader's own messages. Instants are those of the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    /// The last message that is known to be stored.
    stored: u64,
    /// Since when the log is left unread; absent while no batch is out.
    since: Option<Duration>,
    /// The first and last message of each stretch that need not be read, none of which touches another.
    folded: BTreeMap<u64, u64>,
}

impl Echo {
    /// Notes that a batch of this node is stored up to `seq`.
    pub(crate) fn stored(&mut self, seq: u64) {
        self.stored = self.stored.max(seq);
    }

    /// Notes that a batch is folded, and where it is stored.
    pub(crate) fn folded(&mut self, batch: &Batch, stored: RangeInclusive<u64>) {
        if batch.events.iter().all(|planned| needs_no_reading(&planned.event)) {
            self.fold(*stored.start(), *stored.end());
        }
    }

    fn fold(&mut self, mut first: u64, mut last: u64) {
        if let Some((&before, &end)) = self.folded.range(..=first).next_back()
            && end.saturating_add(1) >= first
        {
            (first, last) = (before, last.max(end));
        }
        if let Some(end) = self.folded.remove(&last.saturating_add(1)) {
            last = end;
        }
        if self.folded.len() < STRETCHES_MAX || self.folded.contains_key(&first) {
            self.folded.insert(first, last);
        }
    }

    /// Whether a message need not be read.
    pub(crate) fn holds(&self, seq: u64) -> bool {
        self.folded.range(..=seq).next_back().is_some_and(|(_, last)| seq <= *last)
    }

    /// Up to where nothing needs to be read behind `through`.
    pub(crate) fn reaches(&self, through: u64) -> Option<u64> {
        let next = through.saturating_add(1);
        self.folded.range(..=next).next_back().map(|(_, last)| *last).filter(|last| *last > through)
    }

    /// Forgets what this node has stored: the log is read anew.
    pub(crate) fn forget(&mut self) {
        self.folded.clear();
    }

    /// Notes that the log is read up to `through`.
    pub(crate) fn read(&mut self, through: u64, now: Duration) {
        if through >= self.stored && self.since.is_some() {
            self.since = Some(now);
        }
        while self.folded.first_key_value().is_some_and(|(_, last)| *last <= through) {
            self.folded.pop_first();
        }
    }

    /// Notes whether a batch is out.
    pub(crate) fn busy(&mut self, busy: bool, now: Duration) {
        self.since = busy.then(|| self.since.unwrap_or(now));
    }

    /// Whether the log is read later.
    pub(crate) fn waits(&self, now: Duration) -> bool {
        self.since.is_some_and(|since| now.saturating_sub(since) < LATER)
    }
}

/// Whether a fold that has an event of its own partition learns nothing more from reading it. A span tells when its
/// fire was stored, and calendars and the jobs that name them concern the other partitions.
fn needs_no_reading(event: &LogEvent) -> bool {
    match event {
        LogEvent::Fired(fired) => !fired.is_traced(),
        LogEvent::JobRevised(_)
        | LogEvent::Held(_)
        | LogEvent::HeldEnded(_)
        | LogEvent::Skipped(_)
        | LogEvent::Rejected(_)
        | LogEvent::Cursor(_)
        | LogEvent::Meta(_)
        | LogEvent::CalendarRevised(_) => true,
        LogEvent::JobDefined(_)
        | LogEvent::JobPaused(_)
        | LogEvent::JobResumed(_)
        | LogEvent::JobDeleted(_)
        | LogEvent::JobOverridden(_)
        | LogEvent::CalendarDefined(_)
        | LogEvent::CalendarDeleted(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_left_unread_while_a_batch_is_out_but_not_for_long() {
        let (mut echo, at) = (Echo::default(), Duration::from_millis);
        assert!(!echo.waits(at(5)), "nothing is out");
        echo.busy(true, at(10));
        echo.busy(true, at(900));
        assert!(echo.waits(at(1_009)));
        assert!(!echo.waits(at(1_010)), "long enough");
        echo.stored(100);
        echo.read(99, at(1_020));
        assert!(!echo.waits(at(1_020)), "there is more of it");
        echo.read(100, at(1_030));
        assert!(echo.waits(at(1_040)), "it is read to its end");
        echo.busy(false, at(1_050));
        assert!(!echo.waits(at(1_050)), "nothing is out any more");
        echo.read(100, at(1_060));
        assert!(!echo.waits(at(1_060)));
    }

    #[test]
    fn the_log_is_passed_as_far_as_this_node_alone_has_written_it() {
        let mut echo = Echo::default();
        // In the order in which the batches of a group are settled, which is any.
        for (first, last) in [(31, 40), (11, 20), (21, 30), (51, 60)] {
            echo.fold(first, last);
        }
        for (through, expected) in
            [(9, None), (10, Some(40)), (35, Some(40)), (40, None), (49, None), (50, Some(60))]
        {
            assert_eq!(echo.reaches(through), expected, "{through}");
        }
        let held = (1..=70).filter(|seq| echo.holds(*seq));
        assert_eq!(held.collect::<Vec<_>>(), (11..=40).chain(51..=60).collect::<Vec<_>>());
        echo.read(40, Duration::ZERO);
        assert_eq!((echo.holds(40), echo.holds(51)), (false, true));
        echo.forget();
        assert_eq!(echo.reaches(50), None);
    }

    #[test]
    fn what_is_too_much_to_remember_is_read() {
        let mut echo = Echo::default();
        for number in 1..=2 * STRETCHES_MAX as u64 {
            echo.fold(number * 10, number * 10 + 1);
        }
        assert_eq!(echo.folded.len(), STRETCHES_MAX);
        assert!(echo.holds(11));
        // A stretch that goes on is none more.
        echo.fold(12, 19);
        assert_eq!((echo.reaches(9), echo.folded.len()), (Some(21), STRETCHES_MAX - 1));
    }

    #[test]
    fn what_concerns_other_partitions_or_is_told_of_as_a_span_is_read() {
        use cronstream_schemas::event::{Decoded, Event as _};
        for (text, expected) in [
            (include_str!("../../schemas/golden/v1/log/fired.json"), false),
            (include_str!("../../schemas/golden/v1/log/skipped.json"), true),
            (include_str!("../../schemas/golden/v1/log/cursor.json"), true),
            (include_str!("../../schemas/golden/v1/log/job_defined.json"), false),
            (include_str!("../../schemas/golden/v1/log/calendar_defined.json"), false),
        ] {
            let Ok(Decoded::Known(event)) = LogEvent::decode(text.as_bytes()) else {
                panic!("{text}")
            };
            assert_eq!(needs_no_reading(&event), expected, "{text}");
            if let LogEvent::Fired(fired) = event {
                let traceparent = fired.traceparent.replace("-01", "-00");
                assert!(needs_no_reading(&LogEvent::Fired(cronstream_schemas::event::Fired {
                    traceparent,
                    ..fired
                })));
            }
        }
    }
}
