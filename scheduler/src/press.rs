//! Group commit: batches of several partitions leave in one atomic batch, for one flush of the broker's disk.
//!
//! ```text
//!   partition 0: [event, event, cursor] ─┐
//!   partition 3: [event, cursor] ────────┼─► waiting ─► [ e e c  e c  e c ] ─► stored: each its own sequence
//!   partition 5: [event, cursor] ────────┘     └ four groups out at most        else: each settles by itself
//! ```
//!
//! A small atomic batch costs a broker with one replica two milliseconds, however small it is, so at a steady rate
//! eight partitions that commit each for itself wait for each other. A single message costs a fifth of that: where no
//! more than [`SINGLE_MAX`] wait that are one, fires that may go by themselves and cursors without events, they leave
//! as they are, beside a group as well.
//!
//! Invariant: each batch keeps its cursor and what that expects. A group is stored whole or not at all, and what is
//! not plainly stored is settled alone, so that no batch's fate hangs on another's.

use std::collections::VecDeque;
use std::sync::Arc;

use cronstream_bus::{BATCH_BYTES, BATCH_MESSAGES, Batch, Bus};
use cronstream_schemas::id::PARTITIONS_MAX;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, yield_now};

use crate::commit::{self, Open};

/// Groups that are out at once: the broker stores some while the next are made.
const GROUPS_OUT: usize = 4;
/// So many messages are worth a group while another is out; fewer wait for its answer. Two small groups hinder each
/// other in the broker more than the second gains.
const WORTH_ANOTHER: usize = BATCH_MESSAGES / 2;
/// Single messages that are out at once: more are a group's.
const SINGLE_MAX: usize = 8;

/// How a batch was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Whole; its cursor has this sequence.
    Whole(u64),
    /// Its one event by itself, at this sequence.
    Alone(u64),
}

/// A handle to the task that groups.
#[derive(Debug, Clone)]
pub(crate) struct Press {
    queue: mpsc::Sender<Entry>,
}

#[derive(Debug)]
struct Entry {
    batch: Arc<Batch>,
    /// Whether its event may go by itself.
    alone: bool,
    answer: oneshot::Sender<Result<Sent, Open>>,
}

/// What is out.
#[derive(Debug, Default)]
struct Out {
    groups: JoinSet<()>,
    single: JoinSet<()>,
}

impl Press {
    /// Starts the task; it ends when every handle is dropped and what is out is answered.
    pub(crate) fn start(bus: Bus) -> Self {
        let (queue, entries) = mpsc::channel(usize::from(PARTITIONS_MAX));
        tokio::spawn(run(bus, entries));
        Self { queue }
    }

    /// Sends a batch once, with others that are ready, or its event by itself if it may; gives the sequence, or what
    /// is open.
    pub(crate) async fn send(&self, batch: &Arc<Batch>, alone: bool) -> Result<Sent, Open> {
        let (answer, answered) = oneshot::channel();
        let entry = Entry { batch: Arc::clone(batch), alone, answer };
        match self.queue.send(entry).await {
            Ok(()) => answered.await.unwrap_or_else(|_| Err(Open::unknown(alone))),
            Err(_) => Err(Open::unknown(alone)),
        }
    }
}

async fn run(bus: Bus, mut entries: mpsc::Receiver<Entry>) {
    let (mut waiting, mut out) = (VecDeque::new(), Out::default());
    loop {
        tokio::select! {
            Some(_) = out.groups.join_next() => {}
            Some(_) = out.single.join_next() => {}
            entry = entries.recv() => match entry {
                Some(entry) => waiting.push_back(entry),
                None => break,
            },
        }
        // The loop decides for its partitions one after the other: let it finish.
        yield_now().await;
        while let Ok(entry) = entries.try_recv() {
            waiting.push_back(entry);
        }
        for entry in take_single(out.single.len(), &mut waiting) {
            let bus = bus.clone();
            out.single.spawn(async move { store_single(&bus, entry).await });
        }
        while leaves(out.groups.len(), &waiting) {
            let (bus, group) = (bus.clone(), take(&mut waiting));
            out.groups.spawn(async move { store(&bus, group).await });
        }
    }
    while out.groups.join_next().await.is_some() {}
    while out.single.join_next().await.is_some() {}
}

impl Entry {
    /// Whether it can leave as one message.
    fn is_single(&self) -> bool {
        self.alone || self.batch.messages.is_empty()
    }
}

/// Takes what leaves as single messages now: all that can, if it is not too much.
fn take_single(out: usize, waiting: &mut VecDeque<Entry>) -> Vec<Entry> {
    let single = waiting.iter().filter(|entry| entry.is_single()).count();
    if single == 0 || out + single > SINGLE_MAX {
        return Vec::new();
    }
    let (single, others): (Vec<_>, _) = waiting.drain(..).partition(Entry::is_single);
    waiting.extend(others);
    single
}

/// Stores the event of a batch by itself, or a cursor that has none.
async fn store_single(bus: &Bus, entry: Entry) {
    if !entry.alone {
        return store(bus, vec![entry]).await;
    }
    let told = commit::send_alone(bus, &entry.batch).await.map(Sent::Alone);
    // The node may have ended.
    entry.answer.send(told).ok();
}

/// Whether another group leaves now.
fn leaves(out: usize, waiting: &VecDeque<Entry>) -> bool {
    match out {
        0 => !waiting.is_empty(),
        GROUPS_OUT.. => false,
        _ => {
            waiting.iter().map(|entry| entry.batch.messages.len() + 1).sum::<usize>()
                >= WORTH_ANOTHER
        }
    }
}

/// Takes batches from the front until the next one finds no room, or has its cursor in the group already.
fn take(waiting: &mut VecDeque<Entry>) -> Vec<Entry> {
    let (mut group, mut messages, mut bytes) = (Vec::<Entry>::new(), 0, 0);
    while let Some(entry) = waiting.front() {
        messages += entry.batch.messages.len() + 1;
        bytes += entry.batch.size();
        let cursor = &entry.batch.cursor.subject;
        let twice = group.iter().any(|other| other.batch.cursor.subject == *cursor);
        let fits = messages <= BATCH_MESSAGES && bytes <= BATCH_BYTES && !twice;
        if !group.is_empty() && !fits {
            break;
        }
        group.extend(waiting.pop_front());
    }
    group
}

/// Stores a group, and tells each batch where its cursor is.
async fn store(bus: &Bus, group: Vec<Entry>) {
    let (batches, answers): (Vec<_>, Vec<_>) =
        group.into_iter().map(|entry| (entry.batch, entry.answer)).unzip();
    let stored = commit::send(bus, &batches).await;
    let mut behind: u64 = batches.iter().map(|batch| batch.messages.len() as u64 + 1).sum();
    let alone = batches.len() == 1;
    for (batch, answer) in batches.iter().zip(answers) {
        behind -= batch.messages.len() as u64 + 1;
        let told = match &stored {
            Ok(last) => Ok(Sent::Whole(last.saturating_sub(behind))),
            // The known id is in one of the batches; which one it is shows when each is sent alone.
            Err(open) => Err(Open { known_id: open.known_id && alone, ..open.clone() }),
        };
        // The node may have ended.
        answer.send(told).ok();
    }
}

#[cfg(test)]
mod tests {
    use cronstream_bus::OutMessage;

    use super::*;

    fn entry(partition: usize, messages: usize, bytes: usize) -> Entry {
        let batch = Batch {
            messages: vec![OutMessage::new("cron.fire.q.a.b", vec![0; bytes]); messages],
            cursor: OutMessage::new(format!("cron.cursor.{partition}"), "{}"),
            cursor_expected_seq: 0,
        };
        Entry { batch: Arc::new(batch), alone: false, answer: oneshot::channel().0 }
    }

    #[test]
    fn few_single_messages_leave_as_they_are_and_many_are_a_group() {
        let (alone, cursor, batch) = ((true, 1), (false, 0), (false, 1));
        for (out, waiting, expected) in [
            (0, vec![alone], 1),
            (0, vec![alone; SINGLE_MAX], SINGLE_MAX),
            (0, vec![alone; SINGLE_MAX + 1], 0),
            (1, vec![alone; SINGLE_MAX], 0),
            (SINGLE_MAX - 1, vec![cursor], 1),
            (0, vec![batch, alone, batch, cursor], 2),
            (0, vec![batch], 0),
        ] {
            let entries = waiting.iter().zip(0..).map(|(&(alone, messages), partition)| Entry {
                alone,
                ..entry(partition, messages, 1)
            });
            let mut entries: VecDeque<_> = entries.collect();
            assert_eq!(take_single(out, &mut entries).len(), expected, "{out} out, {waiting:?}");
            assert_eq!(entries.len(), waiting.len() - expected);
        }
    }

    #[test]
    fn the_first_batch_waits_for_nothing_and_small_ones_wait_for_its_answer() {
        for (out, waiting, expected) in [
            (0, vec![], false),
            (0, vec![1], true),
            (1, vec![1], false),
            (1, vec![200, 200], false),
            (1, vec![300, 300], true),
            (1, vec![BATCH_MESSAGES - 1], true),
            (GROUPS_OUT, vec![BATCH_MESSAGES - 1], false),
        ] {
            let entries = waiting.iter().enumerate().map(|(n, messages)| entry(n, *messages, 1));
            assert_eq!(leaves(out, &entries.collect()), expected, "{out} out, {waiting:?} waiting");
        }
    }

    /// How many batches each group takes.
    fn check(waiting: impl IntoIterator<Item = Entry>, expected: &[usize]) {
        let mut waiting: VecDeque<Entry> = waiting.into_iter().collect();
        let mut groups = Vec::new();
        while !waiting.is_empty() {
            groups.push(take(&mut waiting).len());
        }
        assert_eq!(groups, expected);
    }

    #[test]
    fn a_group_is_no_larger_than_one_batch_may_be() {
        check((0..8).map(|n| entry(n, 2, 10)), &[8]);
        check((0..3).map(|n| entry(n, BATCH_MESSAGES - 1, 1)), &[1, 1, 1]);
        check((0..4).map(|n| entry(n, 499, 1)), &[2, 2]);
        check((0..4).map(|n| entry(n, 1, 3 * 1024 * 1024)), &[2, 2]);
        check([entry(0, 1, 2 * BATCH_BYTES), entry(1, 1, 1)], &[1, 1]);
    }

    #[test]
    fn a_cursor_is_never_twice_in_a_group() {
        check([entry(0, 1, 1), entry(1, 1, 1), entry(0, 1, 1), entry(2, 1, 1)], &[2, 2]);
    }
}
