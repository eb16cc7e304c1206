//! From a planned batch to its certain fate.
//!
//! Invariant: a batch is sent again only while the cursor stands where it expects it, and only as it was; the task
//! ends when the cursor shows whether it was stored. A new batch is computed only then, or by a new leader: after
//! a batch that was abandoned this node takes the partition over anew, whose cursor the old batch cannot pass.

use std::time::{Duration, Instant};

use bytes::Bytes;
use cronstream_bus::{Batch, Bus, CommitAnswer, Error, OutMessage, Prepared, StoredMessage, Ttl};
use cronstream_core::message::{Keep, envelope};
use cronstream_core::turn;
use cronstream_schemas::event::{Cursor, Decoded, Event, LogEvent};
use cronstream_schemas::header;
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::time::Timestamp;

use crate::input::Fate;

/// The shortest and longest wait before a batch is sent again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// How long a small batch may go without an answer before the cursor is read back; a second more for each MiB. A
/// broker that has died never answers, and its election is over long before a request's own timeout.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How long a batch is sent again before it is abandoned.
pub(crate) const ABANDON_AFTER: Duration = Duration::from_secs(60);
/// How long the cursor's reading may take before it is asked for again.
const READ_WITHIN: Duration = Duration::from_secs(1);
/// "Duplicate message id in a batch": one known id refuses all of it.
const KNOWN_ID: u64 = 10201;

/// The messages of a batch.
pub(crate) fn messages(prefix: &Prefix, batch: &turn::Batch) -> Batch {
    Batch {
        messages: events(prefix, batch).collect(),
        ..closing(prefix, batch.cursor_expected, &batch.cursor)
    }
}

/// The messages of a batch with their headers, made one by one: many take much room between.
pub(crate) fn prepared(prefix: &Prefix, batch: &turn::Batch) -> Result<Prepared, Error> {
    let closing = closing(prefix, batch.cursor_expected, &batch.cursor);
    Prepared::of(events(prefix, batch), closing)
}

fn events(prefix: &Prefix, batch: &turn::Batch) -> impl ExactSizeIterator<Item = OutMessage> {
    let at = batch.cursor.at;
    let events = batch.events.iter();
    events.map(move |planned| message(prefix, &planned.event, planned.body.clone(), at))
}

/// A cursor without events: behind one it shows whether the event before it was stored, which went by itself.
pub(crate) fn closing(prefix: &Prefix, expected: u64, cursor: &Cursor) -> Batch {
    let event = LogEvent::Cursor(cursor.clone());
    Batch {
        messages: Vec::new(),
        cursor: message(prefix, &event, event.encode(), cursor.at),
        headers: vec![(header::TICK, format!("{}.{}", cursor.epoch.0, cursor.tick.0))],
        cursor_expected_seq: expected,
    }
}

fn message(prefix: &Prefix, event: &LogEvent, body: impl Into<Bytes>, at: Timestamp) -> OutMessage {
    let envelope = envelope(prefix, event, at);
    let mut message = OutMessage::new(envelope.subject, body);
    message.headers = envelope.headers;
    message.ttl = Some(match envelope.keep {
        Keep::Never => Ttl::Never,
        Keep::For(duration) => Ttl::at_least(duration),
    });
    message.msg_id = envelope.message_id;
    message.rollup = envelope.rollup;
    message
}

/// What the last message on the cursor's subject says of a batch.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    Ours(u64),
    Unmoved,
    Moved,
}

fn standing(mine: &Cursor, expected: u64, last: Option<&StoredMessage>) -> Standing {
    let Some(last) = last else {
        return if expected == 0 { Standing::Unmoved } else { Standing::Moved };
    };
    let key = |cursor: &Cursor| (cursor.epoch, cursor.tick, cursor.holder);
    match LogEvent::decode(&last.payload) {
        Ok(Decoded::Known(LogEvent::Cursor(found))) if key(&found) == key(mine) => {
            Standing::Ours(last.seq)
        }
        _ if last.seq == expected => Standing::Unmoved,
        _ => Standing::Moved,
    }
}

async fn read_back(bus: &Bus, subject: &str) -> Result<Option<StoredMessage>, String> {
    let read = bus.last_from_leader(&bus.names().log, subject);
    match tokio::time::timeout(READ_WITHIN, read).await {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(_) => Err(format!("{subject} cannot be read back")),
    }
}

/// What a send has left open, until the cursor is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Open {
    /// What the broker said.
    pub(crate) why: String,
    /// Whether it knew an id in the batch.
    pub(crate) known_id: bool,
    /// The event went by itself, and may be stored or still come to be.
    pub(crate) alone: bool,
}

impl Open {
    /// Nothing was sent.
    pub(crate) fn not_sent(error: &Error) -> Self {
        Self { why: error.to_string(), known_id: false, alone: false }
    }

    /// Nothing was said.
    pub(crate) fn unknown(alone: bool) -> Self {
        Self { why: "no answer".into(), known_id: false, alone }
    }
}

/// Sends batches as one, once; gives the last cursor's sequence. `sent` is dropped when all of it is on its way.
pub(crate) async fn send<T>(
    bus: &Bus,
    batches: Vec<Result<Prepared, Error>>,
    sent: T,
) -> Result<u64, Open> {
    let bytes: usize = batches.iter().flatten().map(Prepared::size).sum();
    let sent = async { bus.commit_all(batches.into_iter().collect::<Result<_, _>>()?, sent).await };
    let patience = ANSWER_WITHIN + Duration::from_secs(1) * u32::try_from(bytes >> 20).unwrap_or(8);
    let answer = tokio::time::timeout(patience, sent).await;
    read(answer.unwrap_or(Ok(CommitAnswer::Unknown)), false)
}

/// Sends the event of a batch by itself, once; gives its sequence.
pub(crate) async fn send_alone(bus: &Bus, batch: &Batch) -> Result<u64, Open> {
    let answer = tokio::time::timeout(ANSWER_WITHIN, bus.commit_alone(batch)).await;
    read(answer.unwrap_or(Ok(CommitAnswer::Unknown)), true)
}

/// What an answer says of a batch, or of its event that went by itself.
fn read(answer: Result<CommitAnswer, Error>, alone: bool) -> Result<u64, Open> {
    let open = |why, known_id, alone| Err(Open { why, known_id, alone });
    match answer {
        Ok(CommitAnswer::Stored { last_seq }) => Ok(last_seq),
        Ok(CommitAnswer::Unknown) => Err(Open::unknown(alone)),
        // A leader of three may say so of what it has proposed.
        Ok(CommitAnswer::Retry { code }) => {
            open(format!("not available now ({code})"), false, alone)
        }
        Ok(CommitAnswer::Failed { code, description }) => {
            open(format!("{description} ({code})"), false, alone)
        }
        Ok(CommitAnswer::Denied { subject }) => {
            open(format!("permission denied for {subject}"), false, false)
        }
        Ok(CommitAnswer::Refused { code, description }) => {
            open(format!("{description} ({code})"), code == KNOWN_ID, false)
        }
        Err(error) => Err(Open::not_sent(&error)),
    }
}

/// Waits before another try, but not beyond the moment when the connection is made again; gives the next wait.
async fn rest(bus: &Bus, backoff: Duration) -> Duration {
    let mut connects = bus.connects();
    connects.mark_unchanged();
    tokio::select! {
        () = tokio::time::sleep(backoff) => (backoff * 2).min(BACKOFF.1),
        Ok(()) = connects.changed() => BACKOFF.0,
    }
}

/// Finds out whether a batch is stored that was sent, and sends it again while it is not and may be. One that was not
/// stored within `patience` is abandoned: what it says of times and lifetimes is of then. `stuck` is told why it
/// takes long.
pub(crate) async fn settle(
    bus: &Bus,
    (mut batch, mine): (Batch, &Cursor),
    mut open: Open,
    patience: Duration,
    stuck: impl Fn(String),
) -> Fate {
    let (mut backoff, began) = (BACKOFF.0, Instant::now());
    loop {
        let Open { why, known_id, .. } = open;
        tracing::debug!(
            partition = mine.partition.0,
            why,
            "batch not acknowledged; reading the cursor back"
        );
        loop {
            match read_back(bus, &batch.cursor.subject).await {
                Ok(last) => match standing(mine, batch.cursor_expected_seq, last.as_ref()) {
                    Standing::Ours(seq) => return Fate::Stored { seq },
                    Standing::Moved => return Fate::Fenced,
                    Standing::Unmoved => break,
                },
                Err(why) => {
                    stuck(why);
                    backoff = rest(bus, backoff).await;
                }
            }
        }
        if began.elapsed() > patience {
            return Fate::Abandoned { why };
        }
        // Before the cursor is read, a known id may be the same fire by the leader that came after this one.
        if known_id {
            tracing::error!(
                partition = mine.partition.0,
                "a known fire id met an unmoved cursor; sending without ids"
            );
            batch.messages.iter_mut().for_each(|message| message.msg_id = None);
        }
        stuck(why);
        backoff = rest(bus, backoff).await;
        open = match send(bus, vec![Prepared::new(batch.clone())], ()).await {
            Ok(seq) => return Fate::Stored { seq },
            Err(open) => open,
        };
    }
}

#[cfg(test)]
mod tests {
    use cronstream_bus::{ConnectOptions, InitOptions};
    use cronstream_schemas::event::Meta;
    use cronstream_schemas::id::{Epoch, Instance, Partition};
    use cronstream_server::{Server, ServerConfig, ensure};
    use tempfile::TempDir;
    use uuid::Uuid;

    use super::*;

    /// A server with an installation; dropped, it ends.
    async fn installation() -> (Bus, Server, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let binary = ensure(&mut |line| eprintln!("{line}")).await.unwrap();
        let server = Server::start(&binary, ServerConfig::new(folder.path())).await.unwrap();
        let servers = vec![server.url()];
        let bus = Bus::connect(ConnectOptions { servers, ..Default::default() }).await.unwrap();
        let meta = LogEvent::Meta(Meta { partitions: 1 }).encode();
        let lease_ttl = Duration::from_secs(5);
        bus.init(&InitOptions { replicas: 1, lease_ttl, meta }).await.unwrap();
        (bus, server, folder)
    }

    async fn sent(bus: &Bus, batches: &[&Batch]) -> Result<u64, Open> {
        let batches = batches.iter().map(|batch| Prepared::new((*batch).clone()));
        send(bus, batches.collect(), ()).await
    }

    fn cursor(epoch: u64) -> Cursor {
        let golden = include_bytes!("../../schemas/golden/v1/log/cursor.json");
        let Ok(Decoded::Known(LogEvent::Cursor(cursor))) = LogEvent::decode(golden) else {
            panic!("no cursor");
        };
        let holder = Instance(Uuid::from_u128(epoch.into()));
        Cursor { partition: Partition(0), epoch: Epoch(epoch), holder, ..cursor }
    }

    /// A batch of one message, on a subject of the log or one that no stream has.
    fn batch(cursor: &Cursor, subject: &str) -> Batch {
        let body = LogEvent::Cursor(cursor.clone()).encode();
        Batch {
            messages: vec![OutMessage::new(subject, "{}")],
            cursor: OutMessage::new("cron.cursor.0", body),
            headers: Vec::new(),
            cursor_expected_seq: 0,
        }
    }

    async fn settled(bus: &Bus, batch: Batch, mine: &Cursor) -> Fate {
        let patience = Duration::from_millis(200);
        settle(bus, (batch, mine), Open::unknown(false), patience, |_| {}).await
    }

    #[tokio::test]
    async fn a_batch_that_is_not_stored_for_too_long_is_abandoned_while_the_cursor_stands() {
        let (bus, _server, _folder) = installation().await;
        let mine = cursor(1);
        let fate = settled(&bus, batch(&mine, "nobody.has.this"), &mine).await;
        assert!(matches!(fate, Fate::Abandoned { .. }), "{fate:?}");
        // Nothing of it is there but the installation's own message.
        assert_eq!(bus.stream_state(&bus.names().log).await.unwrap().last_seq, 1);
    }

    #[tokio::test]
    async fn an_abandoned_batch_cannot_pass_the_cursor_of_the_next_term() {
        let (bus, _server, _folder) = installation().await;
        let (old, new) = (cursor(1), cursor(2));
        let late = batch(&old, "cron.fire.q.a.b");
        let takeover = batch(&new, "cron.rejected.a.b");
        sent(&bus, &[&takeover]).await.unwrap();
        let open = sent(&bus, &[&late]).await.unwrap_err();
        assert!(open.why.contains("10071"), "{open:?}");
        assert_eq!(settled(&bus, late, &old).await, Fate::Fenced);
        assert_eq!(bus.stream_state(&bus.names().log).await.unwrap().last_seq, 3);
    }

    #[tokio::test]
    async fn a_batch_waits_no_longer_than_until_the_connection_is_made_again() {
        let (bus, _server, _folder) = installation().await;
        let long = Duration::from_secs(3_600);
        let rested = tokio::time::timeout(Duration::from_secs(30), async {
            tokio::join!(rest(&bus, long), bus.force_reconnect()).0
        });
        assert_eq!(rested.await, Ok(BACKOFF.0));
        assert_eq!(rest(&bus, BACKOFF.0).await, BACKOFF.0 * 2);
        assert_eq!(rest(&bus, BACKOFF.1 / 4 * 3).await, BACKOFF.1);
    }

    #[tokio::test]
    async fn a_batch_whose_answer_was_lost_is_found_stored() {
        let (bus, _server, _folder) = installation().await;
        let mine = cursor(1);
        let seq = sent(&bus, &[&batch(&mine, "cron.fire.q.a.b")]).await.unwrap();
        let fate = settled(&bus, batch(&mine, "cron.fire.q.a.b"), &mine).await;
        assert_eq!(fate, Fate::Stored { seq });
    }

    #[tokio::test]
    async fn a_group_is_stored_whole_in_its_order_or_not_at_all() {
        let (bus, _server, _folder) = installation().await;
        let first = batch(&cursor(1), "cron.fire.q.a.b");
        let mut second = batch(&cursor(1), "cron.fire.q.a.c");
        second.cursor.subject = "cron.cursor.1".into();
        assert_eq!(sent(&bus, &[&first, &second]).await.unwrap(), 5);
        // The first one is stale now: the second one, which is not, is not stored with it either.
        second.cursor_expected_seq = 5;
        assert!(sent(&bus, &[&first, &second]).await.is_err());
        assert_eq!(bus.stream_state(&bus.names().log).await.unwrap().last_seq, 5);
        assert_eq!(sent(&bus, &[&second]).await.unwrap(), 7);
    }
}
