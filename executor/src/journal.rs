//! Group commit: events of different shards leave together, for one flush of the broker's disk.
//!
//! ```text
//!   attempts ──► waiting ──► [ ≤ 1,000 events, ≤ 4 MiB, no subject twice ] ──► at most two groups out: a batch,
//!                   └ at once where none is out, else when a group is worth it      or: each event by itself
//! ```
//!
//! Where every write is flushed, a batch costs one flush instead of hundreds. Where none is, the staging of a batch
//! costs more than it saves, and the same events leave together as single messages. Which of the two a broker does
//! faster is measured while it works.
//!
//! Invariant: each event keeps its own expectation and gets its own answer, so what a batch holds beside it
//! never decides what becomes of it.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use cronstream_bus::{Append, AppendAnswer, BATCH_MESSAGES, Bus};
use cronstream_schemas::id::ShardId;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, yield_now};
use tokio_util::task::AbortOnDropHandle;

/// Events in a batch, at most.
const BATCH_EVENTS: usize = BATCH_MESSAGES;
/// Bytes in a batch, at most.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Groups that are out at once: the broker stores one while the next is made. It takes 50 on a stream, of all
/// executors together.
const BATCHES_OUT: usize = 2;
/// So many events are worth a group while another is out; fewer wait for its answer, and cost one batch less.
const WORTH_ANOTHER: usize = BATCH_EVENTS / 2;
/// So many events tell how fast a way is.
const TELLING: usize = 64;
/// One group in so many is stored the other way, and is no larger than to tell: it may be a hundred times slower.
const TRY_OTHER: u32 = 128;
/// How much the newest group counts in the time that an event takes.
const NEWEST: f64 = 0.3;
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

/// Whether another batch leaves now.
const fn leaves(out: usize, waiting: usize) -> bool {
    match out {
        0 => waiting > 0,
        some => some < BATCHES_OUT && waiting >= WORTH_ANOTHER,
    }
}

/// How a group of events is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// In one atomic batch.
    Batch,
    /// Each by itself, all of them at once.
    Each,
}

/// Which way is the faster one here.
#[derive(Debug, Default)]
struct Pace {
    /// Seconds that an event takes in a batch, and by itself.
    batch: Option<f64>,
    each: Option<f64>,
    chosen: u32,
}

impl Pace {
    /// The way of the next group, and how many events it may have.
    fn choose(&mut self, waiting: usize) -> (Way, usize) {
        // Few events tell little of either way; a batch has the one flush.
        if waiting < TELLING {
            return (Way::Batch, BATCH_EVENTS);
        }
        self.chosen = self.chosen.wrapping_add(1);
        let (Some(batch), Some(each)) = (self.batch, self.each) else {
            return if self.batch.is_none() {
                (Way::Batch, BATCH_EVENTS)
            } else {
                (Way::Each, TELLING)
            };
        };
        let (faster, other) =
            if batch <= each { (Way::Batch, Way::Each) } else { (Way::Each, Way::Batch) };
        match self.chosen.is_multiple_of(TRY_OTHER) {
            true => (other, TELLING),
            false => (faster, BATCH_EVENTS),
        }
    }

    /// Notes how long a group took that was large enough to tell.
    fn note(&mut self, way: Way, events: usize, took: Duration) {
        if events < TELLING {
            return;
        }
        let now = took.as_secs_f64() / events as f64;
        let known = match way {
            Way::Batch => &mut self.batch,
            Way::Each => &mut self.each,
        };
        *known = Some(known.map_or(now, |before| before + NEWEST * (now - before)));
    }
}

async fn run(bus: Bus, mut entries: mpsc::Receiver<Entry>) {
    let (mut waiting, mut out) = (VecDeque::new(), JoinSet::new());
    let mut pace = Pace::default();
    loop {
        tokio::select! {
            Some(stored) = out.join_next() => if let Ok((way, events, took)) = stored {
                pace.note(way, events, took);
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
        while leaves(out.len(), waiting.len()) {
            let (way, most) = pace.choose(waiting.len());
            let (bus, group) = (bus.clone(), Group::take(&mut waiting, most));
            let events = group.len();
            out.spawn(async move {
                let began = Instant::now();
                store(&bus, way, group).await;
                (way, events, began.elapsed())
            });
        }
    }
}

/// Stores a group whole, else each event by itself.
async fn store(bus: &Bus, way: Way, group: Group) {
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
}

async fn one_by_one(bus: &Bus, appends: &[Append], replies: Vec<oneshot::Sender<AppendAnswer>>) {
    for (answer, reply) in bus.append_each(appends).await.into_iter().zip(replies) {
        reply.send(answer).ok();
    }
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
    fn the_first_event_waits_for_nothing_and_a_few_more_wait_for_its_answer() {
        for (out, waiting, expected) in [
            (0, 0, false),
            (0, 1, true),
            (1, 1, false),
            (1, WORTH_ANOTHER - 1, false),
            (1, WORTH_ANOTHER, true),
            (BATCHES_OUT, QUEUE_EVENTS, false),
        ] {
            assert_eq!(leaves(out, waiting), expected, "{out} out, {waiting} waiting");
        }
    }

    #[test]
    fn the_faster_way_is_taken_and_the_other_one_tried_now_and_then() {
        let (mut pace, took) = (Pace::default(), Duration::from_millis);
        let (batch, each) = ((Way::Batch, BATCH_EVENTS), (Way::Each, BATCH_EVENTS));
        assert_eq!(pace.choose(1), batch, "a few events tell nothing");
        assert_eq!(pace.choose(100), batch);
        pace.note(Way::Batch, 100, took(20));
        assert_eq!(pace.choose(100), (Way::Each, TELLING));
        pace.note(Way::Each, 100, took(10));
        let taken: Vec<_> = (0..TRY_OTHER).map(|_| pace.choose(100)).collect();
        assert_eq!(taken.iter().filter(|way| **way == (Way::Batch, TELLING)).count(), 1);
        assert!(taken.iter().filter(|way| **way == each).count() > 100);
        (0..20).for_each(|_| pace.note(Way::Each, 100, took(100)));
        pace.note(Way::Batch, 1, took(100_000));
        let taken: Vec<_> = (0..TRY_OTHER).map(|_| pace.choose(100)).collect();
        assert_eq!(taken.iter().filter(|way| **way == (Way::Each, TELLING)).count(), 1);
        assert!(taken.iter().filter(|way| **way == batch).count() > 100);
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
