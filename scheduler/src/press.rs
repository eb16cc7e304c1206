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
//! A broker tells of the groups that it has at hand when all of them are stored, and stands idle until the next ones are
//! there. So the next ones leave first, and only then does the loop hear of those before, whose folding and planning
//! would take the processors from what is on its way: the loop works while the broker flushes its disk.
//!
//! Invariant: each batch keeps its cursor and what that expects. A group is stored whole or not at all, and what is
//! not plainly stored is settled alone, so that no batch's fate hangs on another's.

use std::collections::VecDeque;
use std::time::Duration;

use cronstream_bus::{BATCH_BYTES, BATCH_MESSAGES, Batch, Bus, Prepared};
use cronstream_schemas::id::PARTITIONS_MAX;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use crate::commit::{self, Open};

/// Groups that are out at once: the broker stores some while the next are made.
const GROUPS_OUT: usize = 4;
/// So many messages are worth a group while another is out; fewer wait for its answer. Two small groups hinder each
/// other in the broker more than the second gains.
const WORTH_ANOTHER: usize = BATCH_MESSAGES / 2;
/// Single messages that are out at once: more are a group's.
const SINGLE_MAX: usize = 8;

/// The longest that what is known of a group is kept back while large ones leave.
const TELL_WITHIN: Duration = Duration::from_millis(50);

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
    load: Load,
    answer: oneshot::Sender<Told>,
}

/// What waits to be sent.
#[derive(Debug)]
pub(crate) enum Load {
    /// A batch whose one event may go by itself.
    Alone(Batch),
    /// One whose headers are made by whoever hands it in: its group only has to be sent then.
    Whole(Prepared),
}

/// What is out.
#[derive(Debug, Default)]
struct Out {
    groups: JoinSet<Settled>,
    single: JoinSet<()>,
    /// Answers that are about to be told.
    telling: JoinSet<()>,
    /// Large groups on their way to the broker; each one's sender is dropped when it is with the connection.
    sending: Vec<watch::Receiver<()>>,
}

/// What a batch's sender is told.
type Told = Result<Sent, Open>;

/// What became of a group's batches.
#[derive(Debug)]
struct Settled {
    messages: usize,
    told: Vec<(oneshot::Sender<Told>, Told)>,
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
    pub(crate) async fn send(&self, load: Load) -> Told {
        let alone = matches!(load, Load::Alone(_));
        let (answer, answered) = oneshot::channel();
        match self.queue.send(Entry { load, answer }).await {
            Ok(()) => answered.await.unwrap_or_else(|_| Err(Open::unknown(alone))),
            Err(_) => Err(Open::unknown(alone)),
        }
    }
}

async fn run(bus: Bus, mut entries: mpsc::Receiver<Entry>) {
    let (mut waiting, mut out) = (VecDeque::new(), Out::default());
    loop {
        let settled = tokio::select! {
            Some(settled) = out.groups.join_next() => settled.ok(),
            Some(_) = out.single.join_next() => None,
            Some(_) = out.telling.join_next() => None,
            entry = entries.recv() => match entry {
                Some(entry) => {
                    waiting.push_back(entry);
                    None
                }
                None => break,
            },
        };
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
            out.launch(&bus, take(&mut waiting));
        }
        if let Some(settled) = settled {
            out.tell(settled);
        }
    }
    while let Some(settled) = out.groups.join_next().await {
        settled.ok().into_iter().for_each(Settled::tell);
    }
    while out.telling.join_next().await.is_some() {}
    while out.single.join_next().await.is_some() {}
}

impl Out {
    fn launch(&mut self, bus: &Bus, group: Vec<Entry>) {
        let (bus, (sent, sending)) = (bus.clone(), watch::channel(()));
        self.sending.retain(|sending| sending.has_changed().is_ok());
        if messages(&group) >= WORTH_ANOTHER {
            self.sending.push(sending);
        }
        self.groups.spawn(async move { store(&bus, group, sent).await });
    }

    /// Tells what became of a group: of a large one when those that are on their way have left.
    fn tell(&mut self, settled: Settled) {
        let sending = self.sending.clone();
        let is_free = sending.iter().all(|sending| sending.has_changed().is_err());
        if is_free || settled.messages < WORTH_ANOTHER {
            return settled.tell();
        }
        self.telling.spawn(async move {
            let all = async {
                for mut sending in sending {
                    sending.changed().await.ok();
                }
            };
            timeout(TELL_WITHIN, all).await.ok();
            settled.tell();
        });
    }
}

impl Settled {
    fn tell(self) {
        for (answer, told) in self.told {
            // The node may have ended.
            answer.send(told).ok();
        }
    }
}

impl Entry {
    /// Whether it can leave as one message.
    fn is_single(&self) -> bool {
        matches!(self.load, Load::Alone(_)) || self.messages() == 1
    }

    /// How many messages it has, the cursor included.
    fn messages(&self) -> usize {
        match &self.load {
            Load::Alone(batch) => batch.messages.len() + 1,
            Load::Whole(batch) => batch.messages(),
        }
    }

    fn size(&self) -> usize {
        match &self.load {
            Load::Alone(batch) => batch.size(),
            Load::Whole(batch) => batch.size(),
        }
    }

    /// The subject of its cursor.
    fn cursor(&self) -> &str {
        match &self.load {
            Load::Alone(batch) => &batch.cursor.subject,
            Load::Whole(batch) => batch.cursor(),
        }
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
    let Load::Alone(batch) = &entry.load else {
        return store(bus, vec![entry], ()).await.tell();
    };
    let told = commit::send_alone(bus, batch).await.map(Sent::Alone);
    // The node may have ended.
    entry.answer.send(told).ok();
}

/// Whether another group leaves now.
fn leaves(out: usize, waiting: &VecDeque<Entry>) -> bool {
    match out {
        0 => !waiting.is_empty(),
        GROUPS_OUT.. => false,
        _ => messages(waiting) >= WORTH_ANOTHER,
    }
}

/// How many messages there are, cursors included.
fn messages<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> usize {
    entries.into_iter().map(Entry::messages).sum()
}

/// Takes batches from the front until the next one finds no room, or has its cursor in the group already.
fn take(waiting: &mut VecDeque<Entry>) -> Vec<Entry> {
    let (mut group, mut messages, mut bytes) = (Vec::<Entry>::new(), 0, 0);
    while let Some(entry) = waiting.front() {
        messages += entry.messages();
        bytes += entry.size();
        let twice = group.iter().any(|other| other.cursor() == entry.cursor());
        let fits = messages <= BATCH_MESSAGES && bytes <= BATCH_BYTES && !twice;
        if !group.is_empty() && !fits {
            break;
        }
        group.extend(waiting.pop_front());
    }
    group
}

/// Stores a group; gives each batch where its cursor is. `sent` is dropped when all of it is on its way.
async fn store<T>(bus: &Bus, group: Vec<Entry>, sent: T) -> Settled {
    let messages = messages(&group);
    let mut behind = messages as u64;
    let (mut sizes, mut prepared, mut answers) = (Vec::new(), Vec::new(), Vec::new());
    for entry in group {
        sizes.push(entry.messages() as u64);
        prepared.push(match entry.load {
            Load::Alone(batch) => Prepared::new(batch),
            Load::Whole(batch) => Ok(batch),
        });
        answers.push(entry.answer);
    }
    let stored = commit::send(bus, prepared, sent).await;
    let alone = sizes.len() == 1;
    let told = sizes.into_iter().zip(answers).map(|(size, answer)| {
        behind -= size;
        let told = match &stored {
            Ok(last) => Ok(Sent::Whole(last.saturating_sub(behind))),
            // The known id is in one of the batches; which one it is shows when each is sent alone.
            Err(open) => Err(Open { known_id: open.known_id && alone, ..open.clone() }),
        };
        (answer, told)
    });
    Settled { messages, told: told.collect() }
}

#[cfg(test)]
mod tests {
    use cronstream_bus::OutMessage;

    use super::*;

    fn batch_of(partition: usize, messages: usize, bytes: usize) -> Batch {
        Batch {
            messages: vec![OutMessage::new("cron.fire.q.a.b", vec![0; bytes]); messages],
            cursor: OutMessage::new(format!("cron.cursor.{partition}"), "{}"),
            headers: Vec::new(),
            cursor_expected_seq: 0,
        }
    }

    fn entry(partition: usize, messages: usize, bytes: usize) -> Entry {
        let batch = Prepared::new(batch_of(partition, messages, bytes)).unwrap();
        Entry { load: Load::Whole(batch), answer: oneshot::channel().0 }
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
            let entries =
                waiting.iter().zip(0..).map(|(&(alone, messages), partition)| match alone {
                    true => Entry {
                        load: Load::Alone(batch_of(partition, messages, 1)),
                        ..entry(0, 0, 0)
                    },
                    false => entry(partition, messages, 1),
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

    /// A group of so many messages that is settled while another is on its way.
    fn settled(messages: usize) -> (Out, watch::Sender<()>, oneshot::Receiver<Told>) {
        let (mut out, (sender, sending)) = (Out::default(), watch::channel(()));
        let (answer, told) = oneshot::channel();
        out.sending.push(sending);
        out.tell(Settled { messages, told: vec![(answer, Ok(Sent::Whole(7)))] });
        (out, sender, told)
    }

    #[tokio::test]
    async fn what_became_of_a_group_is_told_when_the_next_one_has_left() {
        let (_out, sender, mut told) = settled(WORTH_ANOTHER);
        yield_now().await;
        assert!(told.try_recv().is_err(), "it is told too early");
        drop(sender);
        assert_eq!(told.await.unwrap(), Ok(Sent::Whole(7)));
    }

    #[tokio::test]
    async fn what_became_of_a_group_is_told_soon_though_the_next_one_is_stuck() {
        let (_out, _stuck, told) = settled(WORTH_ANOTHER);
        let told = timeout(10 * TELL_WITHIN, told).await;
        assert_eq!(told.unwrap().unwrap(), Ok(Sent::Whole(7)));
    }

    #[tokio::test]
    async fn what_became_of_a_small_group_is_told_at_once() {
        let (_out, _sender, mut told) = settled(WORTH_ANOTHER - 1);
        assert_eq!(told.try_recv().unwrap(), Ok(Sent::Whole(7)));
    }
}
