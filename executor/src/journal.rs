//! Group commit: events of different shards leave together, for one flush of the broker's disk.
//!
//! ```text
//!   attempts ──► waiting ──► [ ≤ 1,000 events, ≤ 4 MiB, no subject twice ] ──► two batches out at most,
//!                   └ at once where none is out, else when a group is worth it      or eight groups of single events
//! ```
//!
//! A batch is answered as a whole; of single events each attempt gets its answer as it comes. Which of the two a
//! broker does faster is tried while it works.
//!
//! Invariant: each event keeps its own expectation and gets its own answer, so what a batch holds beside it
//! never decides what becomes of it.

use std::collections::{HashSet, VecDeque};
use std::time::Instant;

use cronstream_bus::{Append, AppendAnswer, BATCH_MESSAGES, Bus};
use cronstream_schemas::id::ShardId;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, yield_now};
use tokio_util::task::AbortOnDropHandle;

use crate::pace::{Pace, Way};

/// Events in a batch, at most.
const BATCH_EVENTS: usize = BATCH_MESSAGES;
/// Bytes in a batch, at most.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Events that wait for the batch before them.
const QUEUE_EVENTS: usize = 2 * BATCH_EVENTS;
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
    /// Whose subject it is.
    shard: ShardId,
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
    pub(crate) fn append(
        &self,
        shard: ShardId,
        append: Append,
    ) -> impl Future<Output = AppendAnswer> {
        let (answer, answered) = oneshot::channel();
        // At once, so that the future has no room for the event; nearly always there is some in the queue.
        let waits = match self.queue.try_send(Entry { shard, append, answer }) {
            Ok(()) => None,
            Err(TrySendError::Full(entry) | TrySendError::Closed(entry)) => {
                Some(Box::pin(self.queue.send(entry)))
            }
        };
        async move {
            if let Some(waits) = waits
                && waits.await.is_err()
            {
                return AppendAnswer::Unknown;
            }
            answered.await.unwrap_or(AppendAnswer::Unknown)
        }
    }
}

/// What leaves in one batch.
#[derive(Debug, Default)]
struct Group {
    appends: Vec<Append>,
    answers: Vec<oneshot::Sender<AppendAnswer>>,
    shards: HashSet<ShardId>,
    bytes: usize,
}

impl Group {
    /// Takes an entry, or gives it back when it belongs in the next group.
    fn push(&mut self, entry: Entry) -> Option<Entry> {
        let bytes = entry.append.payload.len() + entry.append.subject.len() + OVERHEAD_BYTES;
        let full = self.len() >= BATCH_EVENTS
            || (!self.appends.is_empty() && self.bytes + bytes > BATCH_BYTES);
        if full || !self.shards.insert(entry.shard) {
            return Some(entry);
        }
        self.bytes += bytes;
        self.appends.push(entry.append);
        self.answers.push(entry.answer);
        None
    }

    const fn len(&self) -> usize {
        self.appends.len()
    }

    fn with_capacity(events: usize) -> Self {
        Self {
            appends: Vec::with_capacity(events),
            answers: Vec::with_capacity(events),
            shards: HashSet::with_capacity(events),
            bytes: 0,
        }
    }

    /// Takes entries from the front until the group is full, or has `most`.
    fn take(waiting: &mut VecDeque<Entry>, most: usize) -> Self {
        let mut group = Self::with_capacity(waiting.len().min(most));
        while group.len() < most
            && let Some(entry) = waiting.pop_front()
        {
            if let Some(left_over) = group.push(entry) {
                waiting.push_front(left_over);
                break;
            }
        }
        group
    }
}

async fn run(bus: Bus, mut entries: mpsc::Receiver<Entry>) {
    let (mut waiting, mut out) = (VecDeque::new(), JoinSet::new());
    let mut pace = Pace::default();
    loop {
        tokio::select! {
            Some(stored) = out.join_next() => if let Ok((next, events, Some(took))) = stored {
                pace.note(next, events, took);
            },
            entry = entries.recv(), if waiting.len() < QUEUE_EVENTS => match entry {
                Some(entry) => waiting.push_back(entry),
                // Nobody waits for an answer any more.
                None => return,
            },
        }
        // Attempts begin and end in bursts: let those that are ready say what they have.
        yield_now().await;
        while waiting.len() < QUEUE_EVENTS
            && let Ok(entry) = entries.try_recv()
        {
            waiting.push_back(entry);
        }
        while let Some(next) = pace.next(out.len(), waiting.len(), BATCH_EVENTS) {
            let (bus, group) = (bus.clone(), Group::take(&mut waiting, next.most));
            let events = group.len();
            out.spawn(async move {
                let began = Instant::now();
                let is_stored = store(&bus, next.way, group).await;
                (next, events, is_stored.then(|| began.elapsed()))
            });
        }
    }
}

/// Stores a group whole, else each event by itself; gives whether it stands whole.
async fn store(bus: &Bus, way: Way, group: Group) -> bool {
    let Group { appends, answers, .. } = group;
    if way == Way::Each {
        return one_by_one(bus, &appends, answers).await;
    }
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
            return true;
        }
        AppendAnswer::Conflict
        | AppendAnswer::Retry { .. }
        | AppendAnswer::Denied { .. }
        | AppendAnswer::Failed { .. }
            if count > 1 =>
        {
            one_by_one(bus, &appends, answers).await;
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
    false
}

/// Gives whether every event was stored.
async fn one_by_one(
    bus: &Bus,
    appends: &[Append],
    replies: Vec<oneshot::Sender<AppendAnswer>>,
) -> bool {
    let (mut replies, mut stored) = (replies.into_iter().map(Some).collect::<Vec<_>>(), 0);
    bus.append_each(appends, |index, answer| {
        stored += usize::from(matches!(answer, AppendAnswer::Stored { .. }));
        if let Some(reply) = replies.get_mut(index).and_then(Option::take) {
            // Whoever asked may be gone.
            reply.send(answer).ok();
        }
    })
    .await;
    stored == appends.len()
}

fn failed(error: &cronstream_bus::Error) -> AppendAnswer {
    AppendAnswer::Failed { code: 0, description: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    use cronstream_schemas::id::RunId;

    fn entry(subject: usize, bytes: usize) -> Entry {
        let run = RunId(uuid::Uuid::from_u128(subject as u128));
        let append = Append {
            subject: format!("cron.run.q.a.b.{subject}.0"),
            headers: Vec::new(),
            payload: vec![0; bytes].into(),
            ttl: None,
            msg_id: None,
            expected_last_seq: 0,
        };
        Entry { shard: ShardId { run, shard: 0 }, append, answer: oneshot::channel().0 }
    }

    #[test]
    fn what_finds_no_room_leaves_with_the_next_group_in_order() {
        let mut waiting: VecDeque<Entry> = [1, 2, 1, 3].map(|subject| entry(subject, 1)).into();
        let subjects = |group: Group| {
            let last = |append: &Append| append.subject.rsplit('.').nth(1).map(str::to_owned);
            group.appends.iter().filter_map(last).collect::<Vec<_>>()
        };
        assert_eq!(subjects(Group::take(&mut waiting, 3)), ["1", "2"]);
        assert_eq!(subjects(Group::take(&mut waiting, 1)), ["1"]);
        assert_eq!(subjects(Group::take(&mut waiting, 9)), ["3"]);
        assert!(waiting.is_empty());
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
