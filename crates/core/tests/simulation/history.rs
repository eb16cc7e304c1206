//! The history of a job, as a leader's shell reads it for a backfill.

use cronstream_core::backfill::{Collector, Unread};
use cronstream_core::turn::HistoryRead;
use cronstream_schemas::event::LogEvent;

use crate::world::World;

impl World {
    /// Reads from the log's leader; while the store is ill it does not answer.
    pub(crate) fn read_history(&mut self, n: usize, read: &HistoryRead) {
        let mut collector = Collector::new(read.from, read.to);
        for message in self.log.visible(0, self.now) {
            if let LogEvent::JobRevised(state) = &message.event
                && state.job == read.job
                && !collector.take(state.clone())
            {
                break;
            }
        }
        let history = if self.log.poison { Err(Unread::NoAnswer) } else { Ok(collector.finish()) };
        self.tickers[n].fold.history_read(read.command, history);
    }
}
