//! Group commit: events of different shards leave in one atomic batch, for one flush of the broker's disk.
//!
//! ```text
//!   attempts ──► queue ──► [ ≤ 500 events, ≤ 4 MiB, no subject twice ] ──► one batch out at a time
//!                                                   refused: each one by itself
//! ```
//!
//! Invariant: each event keeps its own expectation and gets its own answer, so what a batch holds beside it
//! never decides what becomes of it.

use std::collections::HashSet;
use std::time::Duration;

use cronstream_bus::{Append, AppendAnswer, Bus};
use futures::{StreamExt, stream};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

/// Events in a batch, at most.
const BATCH_EVENTS: usize = 500;
/// Bytes in a batch, at most.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// How long an event waits for company.
const GATHER: Duration = Duration::from_millis(1);
/// Events that wait for the batch before them.
const QUEUE_EVENTS: usize = 4 * BATCH_EVENTS;
/// Single appends in flight after a refused batch.
const SINGLES_IN_FLIGHT: usize = 64;
/// What a message takes beside its body, about.
const OVERHEAD_BYTES: usize = 512;

/// A handle to the task that stores run events.
#[derive(Debug)]
pub(crate) struct Journal {
    queue: mpsc::Sender<Entry>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Entry {
    append: Append,
    answer: oneshot::Sender<AppendAnswer>,
}

impl Journal {
    /// Starts the task.
    pub(crate) fn start(bus: Bus) -> Self {
        let (queue, entries) = mpsc::channel(QUEUE_EVENTS);
        let task = tokio::spawn(run(bus, entries));
        Self { queue, _task: AbortOnDropHandle::new(task) }
    }

    /// Stores one event if its subject stands where expected, together with others that are due.
    pub(crate) async fn append(&self, append: Append) -> AppendAnswer {
        let (answer, answered) = oneshot::channel();
        match self.queue.send(Entry { append, answer }).await {
            Ok(()) => answered.await.unwrap_or(AppendAnswer::Unknown),
            Err(_) => AppendAnswer::Unknown,
        }
    }
}

/// What is gathered for the next batch.
#[derive(Debug, Default)]
struct Group {
    entries: Vec<Entry>,
    subjects: HashSet<String>,
    bytes: usize,
}

impl Group {
    /// Takes an entry, or gives it back when it belongs in the next group.
    fn push(&mut self, entry: Entry) -> Option<Entry> {
        let bytes = entry.append.payload.len() + entry.append.subject.len() + OVERHEAD_BYTES;
        let full = self.entries.len() >= BATCH_EVENTS
            || (!self.entries.is_empty() && self.bytes + bytes > BATCH_BYTES);
        if full || self.subjects.contains(&entry.append.subject) {
            return Some(entry);
        }
        self.bytes += bytes;
        self.subjects.insert(entry.append.subject.clone());
        self.entries.push(entry);
        None
    }

    /// Takes entries that are there until the group is full; gives back the one that is left over.
    fn fill(&mut self, entries: &mut mpsc::Receiver<Entry>) -> Option<Entry> {
        while let Ok(entry) = entries.try_recv() {
            if let Some(entry) = self.push(entry) {
                return Some(entry);
            }
        }
        None
    }
}

async fn run(bus: Bus, mut entries: mpsc::Receiver<Entry>) {
    let mut left_over = None;
    // While a batch was out there was time enough to gather.
    let mut idle = true;
    loop {
        let first = match left_over.take() {
            Some(entry) => entry,
            None => match entries.try_recv() {
                Ok(entry) => entry,
                Err(_) => {
                    idle = true;
                    let Some(entry) = entries.recv().await else { return };
                    entry
                }
            },
        };
        let mut group = Group::default();
        left_over = group.push(first).or_else(|| group.fill(&mut entries));
        if idle && left_over.is_none() {
            tokio::time::sleep(GATHER).await;
            left_over = group.fill(&mut entries);
        }
        idle = false;
        store(&bus, group.entries).await;
    }
}

/// Stores a group whole, else each by itself.
async fn store(bus: &Bus, entries: Vec<Entry>) {
    let (appends, answers): (Vec<_>, Vec<_>) =
        entries.into_iter().map(|entry| (entry.append, entry.answer)).unzip();
    let count = appends.len() as u64;
    let answer = match bus.append_batch(&appends).await {
        Ok(answer) => answer,
        Err(error) => failed(&error),
    };
    match answer {
        AppendAnswer::Stored { seq } => {
            for (index, reply) in (1..).zip(answers) {
                let seq = seq.saturating_sub(count - index);
                // Whoever asked may be gone.
                reply.send(AppendAnswer::Stored { seq }).ok();
            }
        }
        AppendAnswer::Conflict
        | AppendAnswer::Retry { .. }
        | AppendAnswer::Denied { .. }
        | AppendAnswer::Failed { .. }
            if count > 1 =>
        {
            one_by_one(bus, appends, answers).await;
        }
        answer @ (AppendAnswer::Conflict
        | AppendAnswer::Unknown
        | AppendAnswer::Retry { .. }
        | AppendAnswer::Denied { .. }
        | AppendAnswer::Failed { .. }) => {
            for reply in answers {
                reply.send(answer.clone()).ok();
            }
        }
    }
}

async fn one_by_one(bus: &Bus, appends: Vec<Append>, answers: Vec<oneshot::Sender<AppendAnswer>>) {
    let singles = appends.into_iter().zip(answers);
    stream::iter(singles)
        .for_each_concurrent(SINGLES_IN_FLIGHT, async |(append, reply)| {
            let answer = bus.append(&append).await.unwrap_or_else(|error| failed(&error));
            reply.send(answer).ok();
        })
        .await;
}

fn failed(error: &cronstream_bus::Error) -> AppendAnswer {
    AppendAnswer::Failed { code: 0, description: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(subject: usize, bytes: usize) -> Entry {
        let append = Append {
            subject: format!("cron.run.q.a.b.{subject}.0"),
            headers: Vec::new(),
            payload: vec![0; bytes].into(),
            ttl: None,
            msg_id: None,
            expected_last_seq: 0,
        };
        Entry { append, answer: oneshot::channel().0 }
    }

    #[test]
    fn a_group_is_bounded_in_events_and_bytes_and_names_a_subject_once() {
        let mut group = Group::default();
        assert!(group.push(entry(0, 1)).is_none());
        assert!(group.push(entry(0, 1)).is_some(), "a subject twice");
        assert!((1..BATCH_EVENTS).all(|n| group.push(entry(n, 1)).is_none()));
        assert!(group.push(entry(BATCH_EVENTS, 1)).is_some(), "an event too many");
        let mut group = Group::default();
        assert!((0..8).all(|n| group.push(entry(n, BATCH_BYTES / 8 - 1024)).is_none()));
        assert!(group.push(entry(8, BATCH_BYTES / 8)).is_some(), "bytes too many");
        assert!(
            Group::default().push(entry(0, 2 * BATCH_BYTES)).is_none(),
            "one alone is let through"
        );
    }
}
