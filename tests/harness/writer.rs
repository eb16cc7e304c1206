//! A leader written by the test: with the cursor's guard, or deliberately without it.
//!
//! It shows that the checker sees what the guard prevents: two of these on one partition fire a slot twice exactly
//! when neither expects the cursor it has read.

use anyhow::{Result, bail};
use cronstream_schemas::event::{Cursor, Event, Fired, LogEvent, Position, RunEvent};
use cronstream_schemas::header;
use cronstream_schemas::id::{Epoch, Instance, Partition, Tick};
use cronstream_schemas::name::Name;
use cronstream_schemas::subject::{Prefix, RunKey};
use serde_json::json;

use crate::jetstream::StoreAnswer;
use crate::nats::{Headers, Nats};
use crate::world::now;

/// Whether a batch expects the cursor before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// It does: a batch of a leader that was replaced is refused.
    Cursor,
    /// It does not.
    None,
}

/// A leader of partition 0.
#[derive(Debug)]
pub struct Writer {
    nats: Nats,
    node: Name,
    guard: Guard,
    epoch: Epoch,
    holder: Instance,
    tick: Tick,
    cursor: u64,
}

impl Writer {
    /// Reads the cursor and takes the partition over.
    ///
    /// # Errors
    /// When the stream cannot be read.
    pub async fn take_over(nats: Nats, node: &str, guard: Guard) -> Result<Self> {
        let subject = Prefix::default().cursor(Partition(0));
        let question = json!({ "last_by_subj": subject });
        let (mut epoch, mut tick, mut cursor) = (Epoch(0), Tick(0), 0);
        // A partition that nobody has led has no cursor.
        if let Ok(answer) = nats.ask("STREAM.MSG.GET.CRON_LOG", &question).await {
            cursor = answer["message"]["seq"].as_u64().unwrap_or(0);
            let headers = answer["message"]["hdrs"].as_str().unwrap_or_default();
            (epoch, tick) = batch_of(headers).unwrap_or_default();
        }
        let holder = Instance(uuid::Uuid::new_v4());
        let (node, epoch) = (node.parse()?, Epoch(epoch.0 + 1));
        let mut writer = Self { nats, node, guard, epoch, holder, tick, cursor };
        match writer.batch(Vec::new()).await? {
            StoreAnswer::At(_) => Ok(writer),
            refused => bail!("the takeover is refused: {refused:?}"),
        }
    }

    /// The leader's term.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Writes one batch: the events with their subjects, and the cursor.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn batch(&mut self, events: Vec<(String, LogEvent)>) -> Result<StoreAnswer> {
        self.tick.0 += 1;
        let at = now();
        let cursor = LogEvent::Cursor(Cursor {
            partition: Partition(0),
            epoch: self.epoch,
            tick: self.tick,
            node: self.node.clone(),
            holder: self.holder,
            position: Position { due: at, job: None },
            commands_through: 0,
            dead_through: 0,
            at,
            doubt_before: None,
        });
        let batch = uuid::Uuid::new_v4().simple().to_string();
        let (prefix, mut number) = (Prefix::default(), 0);
        for (subject, event) in events {
            number += 1;
            let headers = self.headers(&batch, number);
            self.nats.publish(&subject, &headers, &event.encode()).await?;
        }
        let mut headers = self.headers(&batch, number + 1);
        headers.push(("Nats-Batch-Commit".into(), "1".into()));
        headers.push(("Nats-Rollup".into(), "sub".into()));
        headers.push(("Nats-TTL".into(), "never".into()));
        if self.guard == Guard::Cursor {
            let expected = ("Nats-Expected-Last-Subject-Sequence".into(), self.cursor.to_string());
            headers.push(expected);
        }
        let subject = prefix.cursor(Partition(0));
        let answer = self.nats.store(&subject, &headers, &cursor.encode()).await?;
        if let StoreAnswer::At(sequence) = answer {
            self.cursor = sequence;
        }
        Ok(answer)
    }

    /// Writes one event of a run, as an executor would.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn run_event(&self, fired: &Fired, event: &RunEvent) -> Result<StoreAnswer> {
        let key =
            RunKey { queue: fired.queue.clone(), job: fired.job.clone(), shard: fired.shard_id() };
        self.nats.store(&Prefix::default().run(&key), &Vec::new(), &event.encode()).await
    }

    fn headers(&self, batch: &str, number: u32) -> Headers {
        vec![
            (header::TICK.to_owned(), format!("{}.{}", self.epoch.0, self.tick.0)),
            ("Nats-Batch-Id".to_owned(), batch.to_owned()),
            ("Nats-Batch-Sequence".to_owned(), number.to_string()),
        ]
    }
}

/// Reads the batch from headers in base64, as the API returns them.
fn batch_of(headers: &str) -> Option<(Epoch, Tick)> {
    let text = String::from_utf8(decode_base64(headers)?).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(header::TICK)?.strip_prefix(':'))?;
    let (epoch, tick) = value.trim().split_once('.')?;
    Some((Epoch(epoch.parse().ok()?), Tick(tick.parse().ok()?)))
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let (mut bits, mut count) = (0_u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_stands_in_the_stored_headers() {
        assert_eq!(decode_base64("aGVsbG8="), Some(b"hello".to_vec()));
        // NATS/1.0\r\nCron-Tick: 3.14\r\n\r\n
        let headers = "TkFUUy8xLjANCkNyb24tVGljazogMy4xNA0KDQo=";
        assert_eq!(batch_of(headers), Some((Epoch(3), Tick(14))));
    }
}
