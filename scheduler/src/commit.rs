//! From a planned batch to its certain fate.
//!
//! Invariant: a batch is sent again only while the cursor stands where it expects it, and only as it was; the task
//! ends when the cursor shows whether it was stored. A new batch is computed only then.

use std::time::Duration;

use cronstream_bus::{Batch, Bus, CommitAnswer, OutMessage, StoredMessage, Ttl};
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
/// How long the cursor's reading may take before it is asked for again.
const READ_WITHIN: Duration = Duration::from_secs(1);
/// "Duplicate message id in a batch": one known id refuses all of it.
const KNOWN_ID: u64 = 10201;

/// The messages of a batch.
pub(crate) fn messages(prefix: &Prefix, batch: &turn::Batch) -> Batch {
    let at = batch.cursor.at;
    let tick = format!("{}.{}", batch.cursor.epoch.0, batch.cursor.tick.0);
    let cursor = LogEvent::Cursor(batch.cursor.clone());
    let stamped = |event: &LogEvent, body| {
        let mut message = message(prefix, event, body, at);
        message.headers.push((header::TICK, tick.clone()));
        message
    };
    Batch {
        messages: batch
            .events
            .iter()
            .map(|planned| stamped(&planned.event, planned.body.clone()))
            .collect(),
        cursor: stamped(&cursor, cursor.encode()),
        cursor_expected_seq: batch.cursor_expected,
    }
}

fn message(prefix: &Prefix, event: &LogEvent, body: Vec<u8>, at: Timestamp) -> OutMessage {
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

/// Stores a batch, or finds out that it never will be. `stuck` is told why it takes long.
pub(crate) async fn settle(
    bus: &Bus,
    mut batch: Batch,
    mine: &Cursor,
    stuck: impl Fn(String),
) -> Fate {
    let mut backoff = BACKOFF.0;
    let bytes: usize = batch.messages.iter().map(OutMessage::size).sum();
    let patience = ANSWER_WITHIN + Duration::from_secs(1) * u32::try_from(bytes >> 20).unwrap_or(8);
    loop {
        let mut known_id = false;
        let answer = tokio::time::timeout(patience, bus.commit(&batch)).await;
        let why = match answer.unwrap_or(Ok(CommitAnswer::Unknown)) {
            Ok(CommitAnswer::Stored { last_seq }) => return Fate::Stored { seq: last_seq },
            Ok(CommitAnswer::Retry { code }) => format!("not available now ({code})"),
            Ok(CommitAnswer::Denied { subject }) => format!("permission denied for {subject}"),
            Ok(CommitAnswer::Unknown) => "no answer".into(),
            Ok(CommitAnswer::Failed { code, description }) => format!("{description} ({code})"),
            Ok(CommitAnswer::Refused { code, description }) => {
                known_id = code == KNOWN_ID;
                format!("{description} ({code})")
            }
            Err(error) => error.to_string(),
        };
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
                    tokio::time::sleep(backoff).await;
                    backoff = (backoff * 2).min(BACKOFF.1);
                }
            }
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
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(BACKOFF.1);
    }
}
