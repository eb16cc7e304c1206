//! The node's two clocks: the wall clock says what is due, the monotonic clock measures waits.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cronstream_schemas::time::Timestamp;

use crate::ClockOffset;

#[derive(Debug)]
pub(crate) struct Clock {
    began: Instant,
    offset: ClockOffset,
    offset_ms: i64,
}

impl Clock {
    pub(crate) fn new(offset: ClockOffset) -> Self {
        let mut clock = Self { began: Instant::now(), offset, offset_ms: 0 };
        clock.reread();
        clock
    }

    /// Reads the offset again, where it may change.
    pub(crate) fn reread(&mut self) {
        match &self.offset {
            ClockOffset::None => {}
            ClockOffset::Fixed(millis) => self.offset_ms = *millis,
            ClockOffset::File(path) => {
                let text = std::fs::read_to_string(path).unwrap_or_default();
                self.offset_ms = text.trim().parse().unwrap_or(self.offset_ms);
            }
        }
    }

    pub(crate) fn wall(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(millis.saturating_add(self.offset_ms))
    }

    /// How long it is until an instant, to the nanosecond: [`Clock::wall`] is up to a millisecond behind.
    pub(crate) fn until(&self, at: Timestamp) -> Duration {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let beyond = Duration::from_nanos(u64::from(since.subsec_nanos() % 1_000_000));
        at.since(self.wall()).saturating_sub(beyond)
    }

    /// Tells the monotonic time later, from another task.
    pub(crate) fn stopwatch(&self) -> impl Fn() -> Duration + Send + 'static {
        let began = self.began;
        move || began.elapsed()
    }

    pub(crate) fn monotonic(&self) -> Duration {
        self.began.elapsed()
    }
}
