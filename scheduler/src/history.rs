//! A job's history, read for a backfill: from the stream's leader, and no more of it than is asked for.
//!
//! ```text
//!   revisions   r1 ──── r2 ─────────── r3 ── r4
//!   slots                  from ──────────────── to
//!   looks            ◄ … ◄─4─◄2◄1┘                    further and further back, to one that began before `from`
//!   read             r2 ────────────── r3 ── r4
//! ```
//!
//! Invariant: what is read is whole up to the command that waits for it. Only this partition's leader writes the
//! job's revisions, and it writes none while the command waits; the stream's leader has all of them. The commands of
//! the partition wait meanwhile: it ends within [`WITHIN`], and within [`MESSAGES_MAX`] messages.

use std::time::Duration;

use cronstream_bus::{Bus, Error, StoredMessage};
use cronstream_core::backfill::{Collector, Unread};
use cronstream_core::turn::HistoryRead;
use cronstream_schemas::event::{Decoded, Event, JobState, LogEvent};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

/// The most messages of a history that are read one behind the other.
const MESSAGES_MAX: usize = 1_000;
/// How long a command may wait for a history.
const WITHIN: Duration = Duration::from_secs(10);
/// How often a reading is begun that fails.
const TRIES: u32 = 3;
/// How long a reading waits that has failed.
const PAUSE: Duration = Duration::from_millis(500);
/// How far before its first slot a backfill looks first; twice as far each time.
const BACK: Duration = Duration::from_secs(1);
/// How far it looks back at most: the log keeps no revision for longer.
const BACK_MAX: Duration = Duration::from_secs(512 * 86_400);

/// Reads the revisions of a job that may own slots of the stretch that is asked for.
pub(crate) async fn read(bus: &Bus, read: &HistoryRead) -> Result<Vec<JobState>, Unread> {
    let subject = bus.names().prefix().history(&read.job);
    let log = Log { bus, job: &read.job, subject };
    let tried = async {
        for attempt in 1..=TRIES {
            match collect(&log, read).await {
                Ok(history) => return history,
                Err(error) => {
                    let job = &read.job;
                    tracing::warn!(%job, command = read.command, attempt, %error, "history not read");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        Err(Unread::NoAnswer)
    };
    tokio::time::timeout(WITHIN, tried).await.unwrap_or(Err(Unread::NoAnswer))
}

/// A message of a history, and its revision; none in one that is foreign there.
struct Message {
    seq: u64,
    state: Option<JobState>,
}

/// The messages of one history.
trait Messages {
    /// The first that was stored at an instant or later.
    async fn since(&self, at: Timestamp) -> Result<Option<Message>, Error>;
    /// The first behind a sequence.
    async fn behind(&self, seq: u64) -> Result<Option<Message>, Error>;
}

struct Log<'a> {
    bus: &'a Bus,
    job: &'a JobId,
    subject: String,
}

impl Log<'_> {
    fn message(&self, stored: &StoredMessage) -> Message {
        let (subject, seq) = (&self.subject, stored.seq);
        let state = match LogEvent::decode(&stored.payload) {
            Ok(Decoded::Known(LogEvent::JobRevised(state))) if state.job == *self.job => {
                Some(state)
            }
            other => {
                tracing::warn!(subject, seq, ?other, "foreign message in a history");
                None
            }
        };
        Message { seq, state }
    }
}

impl Messages for Log<'_> {
    async fn since(&self, at: Timestamp) -> Result<Option<Message>, Error> {
        let log = &self.bus.names().log;
        let stored = self.bus.next_since(log, at.as_millis(), &self.subject).await?;
        Ok(stored.map(|stored| self.message(&stored)))
    }

    async fn behind(&self, seq: u64) -> Result<Option<Message>, Error> {
        let log = &self.bus.names().log;
        let stored = self.bus.next_from_leader(log, seq + 1, Some(&self.subject)).await?;
        Ok(stored.map(|stored| self.message(&stored)))
    }
}

async fn collect(
    messages: &impl Messages,
    read: &HistoryRead,
) -> Result<Result<Vec<JobState>, Unread>, Error> {
    let mut collector = Collector::new(read.from, read.to);
    let mut next = begin(messages, read).await?;
    for _ in 0..MESSAGES_MAX {
        let Some(message) = next else { return Ok(Ok(collector.finish())) };
        if let Some(state) = message.state
            && !collector.take(state)
        {
            return Ok(Ok(collector.finish()));
        }
        next = messages.behind(message.seq).await?;
    }
    Ok(if next.is_none() { Ok(collector.finish()) } else { Err(Unread::TooLong) })
}

/// The first message to read: one that is not behind the revision that was in force at the begin.
async fn begin(messages: &impl Messages, read: &HistoryRead) -> Result<Option<Message>, Error> {
    let is_early = |message: &Message| {
        message.state.as_ref().is_some_and(|state| {
            state.effective_after < read.from || state.revision.0 == read.incarnation.0
        })
    };
    let mut found = messages.since(read.from).await?;
    let mut back = BACK;
    while !found.as_ref().is_some_and(is_early) && back <= BACK_MAX {
        found = messages.since(read.from.minus(back)).await?;
        back *= 2;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use cronstream_schemas::definition::Draft;
    use cronstream_schemas::event::Overrides;
    use cronstream_schemas::id::{Incarnation, Revision};

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000).plus(Duration::from_secs(seconds))
    }

    /// Revisions in force from these seconds on, stored a moment later.
    struct History {
        begins: Vec<u64>,
        reads: Cell<usize>,
    }

    impl History {
        fn of(begins: impl IntoIterator<Item = u64>) -> Self {
            Self { begins: begins.into_iter().collect(), reads: Cell::new(0) }
        }

        fn message(&self, index: usize) -> Option<Message> {
            self.reads.set(self.reads.get() + 1);
            let (begin, number) = (*self.begins.get(index)?, index as u64 + 1);
            let body = br#"{"task":"t","schedule":{"every":"10s"}}"#;
            let state = JobState {
                job: "a/b".parse().unwrap(),
                revision: Revision(number),
                incarnation: Incarnation(1),
                definition: Some(Draft::decode(body).finish().unwrap()),
                anchor: at(0),
                effective_after: at(begin),
                paused: None,
                overrides: Overrides::default(),
                tzdb: None,
                command: number,
                at: at(begin),
            };
            Some(Message { seq: number, state: Some(state) })
        }
    }

    impl Messages for History {
        async fn since(&self, since: Timestamp) -> Result<Option<Message>, Error> {
            let stored = |begin: &u64| at(*begin).as_millis() + 5 < since.as_millis();
            Ok(self.message(self.begins.partition_point(stored)))
        }

        async fn behind(&self, seq: u64) -> Result<Option<Message>, Error> {
            Ok(self.message(seq as usize))
        }
    }

    /// The revisions that are handed on, and how many messages were asked for.
    async fn asked(history: &History, (from, to): (u64, u64)) -> (Result<Vec<u64>, Unread>, usize) {
        let job = "a/b".parse().unwrap();
        let read = HistoryRead {
            command: 1,
            job,
            incarnation: Incarnation(1),
            from: at(from),
            to: at(to),
        };
        let found = collect(history, &read).await.unwrap();
        let found = found.map(|states| states.iter().map(|state| state.revision.0).collect());
        (found, history.reads.get())
    }

    #[tokio::test]
    async fn reading_begins_at_the_revision_that_was_in_force_and_ends_with_the_stretch() {
        // One revision an hour, for 100 days.
        let history = History::of((0..2_400).map(|hour| hour * 3_600));
        let (found, reads) = asked(&history, (1_000 * 3_600 + 60, 1_002 * 3_600 + 60)).await;
        assert_eq!(found, Ok(vec![1_001, 1_002, 1_003]));
        assert!(reads < 25, "{reads}");
    }

    #[tokio::test]
    async fn a_begin_before_the_first_revision_reads_from_the_first() {
        let history = History::of([100, 200, 300]);
        assert_eq!(asked(&history, (0, 250)).await.0, Ok(vec![1, 2]));
        assert_eq!(asked(&History::of([]), (0, 250)).await.0, Ok(vec![]));
    }

    #[tokio::test]
    async fn more_than_a_thousand_messages_are_not_read() {
        // All within a second or so, a day before the stretch.
        let many = |count| History::of((0..count).map(|n| n / 1_000));
        assert_eq!(asked(&many(999), (86_400, 90_000)).await.0, Ok(vec![999]));
        let history = many(1_001);
        let (found, reads) = asked(&history, (86_400, 90_000)).await;
        assert_eq!(found, Err(Unread::TooLong));
        assert!(reads <= MESSAGES_MAX + 30, "{reads}");
    }
}
