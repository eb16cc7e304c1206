//! Where spans wait for the publisher.
//!
//! Invariant: at most [`QUEUE_SPANS`] wait; whoever has more loses them, is not told, and it is counted.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cronstream_schemas::status::SpanCounters;
use tokio::sync::Notify;

use crate::encoded::{BATCH_SPANS, Encoded};

/// Spans that wait, at most: some 16 MiB.
pub const QUEUE_SPANS: usize = 32_768;

/// Buffers that are kept for the next batches, at most: some 2 MiB.
const SPARE_BUFFERS: usize = 8;

/// Writes spans when the publisher has time for it.
type Write = Box<dyn FnOnce(&mut Encoded) + Send>;

/// The way into the queue; cheap to clone.
#[derive(Debug, Clone)]
pub struct Spans(Arc<Queue>);

/// The other end of the queue.
#[derive(Debug)]
pub struct SpansReceiver(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// Told when there are spans again, and when there is a batch of them.
    more: Notify,
    published: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    entries: VecDeque<Entry>,
    /// In all entries; what bounds them.
    spans: usize,
    /// Whether the other end is gone.
    closed: bool,
    /// Empty ones, for the next batches.
    spare: Vec<Encoded>,
}

enum Entry {
    /// Spans that are written, of as many attempts as make a batch.
    Written(Encoded),
    /// Spans that are written when they are taken out.
    Later { count: usize, write: Write },
}

impl Entry {
    const fn count(&self) -> usize {
        match self {
            Self::Written(spans) => spans.count(),
            Self::Later { count, .. } => *count,
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({})", self.count())
    }
}

impl Waiting {
    fn put(&mut self, spans: &Encoded) {
        match self.entries.back_mut() {
            Some(Entry::Written(last)) if last.takes(spans) => last.append(spans),
            Some(_) | None => {
                let mut batch = self.spare.pop().unwrap_or_default();
                batch.append(spans);
                self.entries.push_back(Entry::Written(batch));
            }
        }
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `put` put so many spans in, if there is room.
    fn put(&self, count: usize, put: impl FnOnce(&mut Waiting)) {
        let mut waiting = self.waiting();
        if waiting.closed || waiting.spans + count > QUEUE_SPANS {
            drop(waiting);
            self.dropped.fetch_add(count as u64, Ordering::Relaxed);
            return;
        }
        put(&mut waiting);
        let before = waiting.spans;
        waiting.spans += count;
        drop(waiting);
        if before == 0 || (before < BATCH_SPANS && before + count >= BATCH_SPANS) {
            self.more.notify_one();
        }
    }
}

impl Spans {
    /// A queue and its other end. A queue whose other end is dropped takes nothing.
    #[must_use]
    pub fn channel() -> (Self, SpansReceiver) {
        let queue = Arc::new(Queue::default());
        (Self(Arc::clone(&queue)), SpansReceiver(queue))
    }

    /// Puts spans in.
    pub fn record(&self, spans: &Encoded) {
        self.0.put(spans.count(), |waiting| waiting.put(spans));
    }

    /// Puts spans in; `write` writes at most `count` of them, later and elsewhere.
    pub fn record_later(&self, count: usize, write: impl FnOnce(&mut Encoded) + Send + 'static) {
        let later = Entry::Later { count, write: Box::new(write) };
        self.0.put(count, |waiting| waiting.entries.push_back(later));
    }

    /// What has become of the spans so far.
    #[must_use]
    pub fn counters(&self) -> SpanCounters {
        SpanCounters {
            published: self.0.published.load(Ordering::Relaxed),
            dropped: self.0.dropped.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn published(&self, count: usize) {
        self.0.published.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn dropped(&self, count: usize) {
        self.0.dropped.fetch_add(count as u64, Ordering::Relaxed);
    }
}

impl SpansReceiver {
    /// Waits until so many spans are there: one, or a batch of them.
    pub(crate) async fn wait(&mut self, count: usize) {
        while self.0.waiting().spans < count {
            self.0.more.notified().await;
        }
    }

    /// Takes out so many spans as are there, and not many more than `most`.
    pub(crate) fn take(&mut self, most: usize) -> Vec<Encoded> {
        let (mut taken, mut count) = (Vec::new(), 0);
        let mut waiting = self.0.waiting();
        while count < most
            && let Some(entry) = waiting.entries.pop_front()
        {
            count += entry.count();
            taken.push(entry);
        }
        waiting.spans -= count;
        drop(waiting);
        let open = |entry| match entry {
            Entry::Written(spans) => spans,
            Entry::Later { write, .. } => {
                let mut spans = Encoded::default();
                write(&mut spans);
                spans
            }
        };
        taken.into_iter().map(open).collect()
    }

    /// Gives back what was taken, to be filled again.
    pub(crate) fn give_back(&mut self, buffers: impl IntoIterator<Item = Encoded>) {
        let mut waiting = self.0.waiting();
        for mut buffer in buffers {
            if waiting.spare.len() == SPARE_BUFFERS {
                break;
            }
            buffer.clear();
            waiting.spare.push(buffer);
        }
    }
}

impl Drop for SpansReceiver {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.closed = true;
        waiting.entries.clear();
        waiting.spans = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use futures::FutureExt as _;
    use opentelemetry_proto::tonic::trace::v1::Span;

    fn some(count: usize) -> Encoded {
        let mut spans = Encoded::default();
        (0..count).for_each(|_| spans.push(&Span::default()));
        spans
    }

    fn taken(receiver: &mut SpansReceiver, most: usize) -> Vec<usize> {
        receiver.take(most).iter().map(Encoded::count).collect()
    }

    #[test]
    fn a_full_queue_drops_counts_and_takes_again_when_there_is_room() {
        let (spans, mut receiver) = Spans::channel();
        let put = |count: usize| spans.record_later(count, move |out| out.append(&some(count)));
        put(QUEUE_SPANS - 1);
        put(2);
        assert_eq!(spans.counters().dropped, 2);
        spans.record(&some(1));
        spans.record(&some(1));
        assert_eq!(spans.counters().dropped, 3);
        assert_eq!(taken(&mut receiver, 1), [QUEUE_SPANS - 1]);
        put(5);
        assert_eq!(taken(&mut receiver, QUEUE_SPANS), [1, 5]);
        assert_eq!(spans.counters().dropped, 3);
        drop(receiver);
        put(1);
        assert_eq!(spans.counters().dropped, 4);
    }

    #[test]
    fn spans_that_are_written_lie_in_batches() {
        let (spans, mut receiver) = Spans::channel();
        (0..BATCH_SPANS).for_each(|_| spans.record(&some(3)));
        let batch = BATCH_SPANS - BATCH_SPANS % 3;
        assert_eq!(taken(&mut receiver, BATCH_SPANS), [batch, batch]);
        assert_eq!(taken(&mut receiver, BATCH_SPANS), [batch, 3 * BATCH_SPANS - 3 * batch]);
        assert_eq!(taken(&mut receiver, 1), Vec::<usize>::new());
    }

    #[test]
    fn whoever_waits_is_told_of_the_first_span_and_of_a_batch() {
        let (spans, mut receiver) = Spans::channel();
        for _ in 0..2 {
            let mut one = Box::pin(receiver.wait(1));
            assert!(one.as_mut().now_or_never().is_none());
            spans.record(&some(1));
            assert!(one.now_or_never().is_some());
            let mut batch = Box::pin(receiver.wait(BATCH_SPANS));
            spans.record(&some(BATCH_SPANS - 2));
            assert!(batch.as_mut().now_or_never().is_none());
            spans.record(&some(1));
            assert!(batch.now_or_never().is_some());
            receiver.take(BATCH_SPANS);
        }
    }
}
