//! A job's history, read for a backfill: from the stream's leader, one revision at a time.
//!
//! Invariant: what is read is whole up to the command that waits for it. Only this partition's leader writes the
//! job's revisions, and it writes none while the command waits; the stream's leader has all of them.

use cronstream_bus::{Bus, Error};
use cronstream_core::backfill::Collector;
use cronstream_core::turn::HistoryRead;
use cronstream_schemas::event::{Decoded, Event, JobState, LogEvent};

/// Reads the revisions of a job that may own slots of the stretch that is asked for.
pub(crate) async fn read(bus: &Bus, read: &HistoryRead) -> Result<Vec<JobState>, Error> {
    let names = bus.names();
    let subject = names.prefix().history(&read.job);
    let mut collector = Collector::new(read.from, read.to);
    let mut next = 1;
    while let Some(message) = bus.next_from_leader(&names.log, next, Some(&subject)).await? {
        next = message.seq + 1;
        match LogEvent::decode(&message.payload) {
            Ok(Decoded::Known(LogEvent::JobRevised(state))) if state.job == read.job => {
                if !collector.take(state) {
                    break;
                }
            }
            other => {
                tracing::warn!(subject, seq = message.seq, ?other, "foreign message in a history");
            }
        }
    }
    Ok(collector.finish())
}
