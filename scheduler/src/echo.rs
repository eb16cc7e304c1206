//! When a leader reads back what it has stored.
//!
//! What a leader stores comes back to it as messages of the log, which it has folded already. To deliver and read
//! them costs the broker and this node a third of what storing them did, just when the next fires wait: so they are
//! read a little later, or as soon as no batch is out.
//!
//! Invariant: the log is never left unread for longer than [`LATER`].

use std::time::Duration;

/// The longest that the log is left unread.
const LATER: Duration = Duration::from_secs(1);

/// What is known of a leader's own messages. Instants are those of the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    /// The last message that is known to be stored.
    stored: u64,
    /// Since when the log is left unread; absent while no batch is out.
    since: Option<Duration>,
}

impl Echo {
    /// Notes that a batch of this node is stored up to `seq`.
    pub(crate) fn stored(&mut self, seq: u64) {
        self.stored = self.stored.max(seq);
    }

    /// Notes that the log is read up to `through`.
    pub(crate) fn read(&mut self, through: u64, now: Duration) {
        if through >= self.stored && self.since.is_some() {
            self.since = Some(now);
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
}
