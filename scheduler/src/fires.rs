//! Which fires of a partition are to be told of as spans, and when.
//!
//! ```text
//!   log: Fired, Fired, Cursor ─► closed ─┬─ leading: told at once
//!                                        └─ standing by: remembered for a while ─► told at a takeover
//! ```
//!
//! Invariant: what is told is a function of the log, so that a leader which tells again what the one before it may
//! not have got out tells of the same spans. At most [`REMEMBERED_MAX`] fires are remembered.

use std::collections::VecDeque;

use cronstream_schemas::event::{Cursor, Fired};
use cronstream_schemas::id::Partition;
use cronstream_schemas::json::Json;
use cronstream_schemas::name::Name;
use cronstream_schemas::subject::Prefix;
use cronstream_telemetry::{Moment, Spans, StoredFire};

/// Fires that are remembered, at most.
const REMEMBERED_MAX: usize = 4_096;
/// How long before the newest one, in milliseconds: longer than a span takes from its fire to the broker.
const REMEMBERED_MILLIS: i64 = 5_000;

/// The fires of one partition.
#[derive(Debug, Default)]
pub(crate) struct Fires {
    /// Read, and their cursor is not yet.
    open: Vec<(Fired, i64)>,
    closed: VecDeque<Closed>,
}

/// A fire whose batch was read to its end.
#[derive(Debug)]
struct Closed {
    fired: Fired,
    /// Its broker timestamp, in milliseconds.
    stored: i64,
    /// Who fired it.
    node: Name,
}

impl Fires {
    /// Takes a fire that was read in the log, with its broker timestamp.
    pub(crate) fn read(&mut self, fired: Fired, stored: i64) {
        if !fired.is_traced() {
            return;
        }
        // Its span does not tell them, and they may be long.
        let fired = Fired { params: Json::empty(), ..fired };
        if let Some(node) = fired.node.clone() {
            self.closed.push_back(Closed { fired, stored, node });
        } else if self.open.len() < REMEMBERED_MAX {
            // A batch holds fewer: what is too much is none of a leader's.
            self.open.push((fired, stored));
        }
    }

    /// Takes the cursor behind them.
    pub(crate) fn close(&mut self, cursor: &Cursor) {
        let node = &cursor.node;
        let closed =
            self.open.drain(..).map(|(fired, stored)| Closed { fired, stored, node: node.clone() });
        self.closed.extend(closed);
    }

    /// Forgets what was told long ago.
    pub(crate) fn forget(&mut self) {
        let since = self.closed.back().map_or(0, |newest| newest.stored - REMEMBERED_MILLIS);
        let fresh = self.closed.len() - self.closed.partition_point(|one| one.stored < since);
        self.closed.drain(..self.closed.len() - fresh.min(REMEMBERED_MAX));
    }

    /// Tells of all of them.
    pub(crate) fn tell(&mut self, spans: &Spans, prefix: &Prefix, partition: Partition) {
        let closed = std::mem::take(&mut self.closed);
        if closed.is_empty() {
            return;
        }
        let prefix = prefix.clone();
        spans.record_later(closed.len(), move |out| {
            for Closed { fired, stored, node } in &closed {
                let stored = Moment::from_millis(*stored);
                StoredFire { fired, stored, partition, node, prefix: &prefix }.write(out);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use cronstream_schemas::event::{Decoded, Event as _, LogEvent};

    fn golden<T>(text: &str, pick: impl FnOnce(LogEvent) -> Option<T>) -> T {
        match LogEvent::decode(text.as_bytes()) {
            Ok(Decoded::Known(event)) => pick(event).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn fired() -> Fired {
        let text = include_str!("../../schemas/golden/v1/log/fired.json");
        golden(text, |event| if let LogEvent::Fired(fired) = event { Some(fired) } else { None })
    }

    fn cursor() -> Cursor {
        let text = include_str!("../../schemas/golden/v1/log/cursor.json");
        golden(text, |event| if let LogEvent::Cursor(it) = event { Some(it) } else { None })
    }

    #[test]
    fn a_standby_remembers_the_last_seconds_and_no_more_than_its_bound() {
        let mut fires = Fires::default();
        for second in 0..20 {
            fires.read(fired(), second * 1_000);
            fires.close(&cursor());
            fires.forget();
        }
        assert_eq!(fires.closed.len(), 6);
        for _ in 0..2 * REMEMBERED_MAX {
            fires.read(fired(), 20_000);
        }
        fires.close(&cursor());
        fires.forget();
        assert_eq!(fires.closed.len(), REMEMBERED_MAX);
    }

    #[test]
    fn a_fire_is_told_once_its_batch_is_read_to_the_end_and_not_again() {
        let (mut fires, (spans, _receiver)) = (Fires::default(), Spans::channel());
        let tell = |fires: &mut Fires| {
            fires.tell(&spans, &Prefix::default(), Partition(0));
            fires.closed.len()
        };
        fires.read(fired(), 1_000);
        assert_eq!((tell(&mut fires), fires.open.len()), (0, 1));
        fires.close(&cursor());
        assert_eq!((fires.open.len(), fires.closed.len()), (0, 1));
        assert_eq!(tell(&mut fires), 0);
        let untraced = fired().traceparent.replace("-01", "-00");
        fires.read(Fired { traceparent: untraced, ..fired() }, 2_000);
        assert_eq!(fires.open.len(), 0);
    }
}
