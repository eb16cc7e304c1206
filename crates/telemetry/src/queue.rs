//! Where spans wait for the publisher.
//!
//! Invariant: at most [`QUEUE_SPANS`] wait; whoever has more loses them, is not told, and it is counted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use cronstream_schemas::status::SpanCounters;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::sync::mpsc;

/// Spans that wait, at most: some 16 MiB.
pub const QUEUE_SPANS: usize = 32_768;

/// Makes spans when the publisher has time for it.
type Make = Box<dyn FnOnce() -> Vec<Span> + Send>;

/// The way into the queue; cheap to clone.
#[derive(Debug, Clone)]
pub struct Spans {
    queue: mpsc::UnboundedSender<Entry>,
    counts: Arc<Counts>,
}

/// The other end of the queue.
#[derive(Debug)]
pub struct SpansReceiver {
    queue: mpsc::UnboundedReceiver<Entry>,
    counts: Arc<Counts>,
}

/// Spans that are made when they are taken out.
struct Entry {
    count: usize,
    make: Make,
}

#[derive(Debug, Default)]
struct Counts {
    /// In the queue; what bounds it.
    waiting: AtomicUsize,
    published: AtomicU64,
    dropped: AtomicU64,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({})", self.count)
    }
}

impl Spans {
    /// A queue and its other end. A queue whose other end is dropped takes nothing.
    #[must_use]
    pub fn channel() -> (Self, SpansReceiver) {
        let (sender, queue) = mpsc::unbounded_channel();
        let counts = Arc::new(Counts::default());
        (Self { queue: sender, counts: Arc::clone(&counts) }, SpansReceiver { queue, counts })
    }

    /// Puts spans in; `make` gives at most `count` of them, later and elsewhere.
    pub fn record(&self, count: usize, make: impl FnOnce() -> Vec<Span> + Send + 'static) {
        let waiting = self.counts.waiting.fetch_add(count, Ordering::Relaxed);
        let entry = Entry { count, make: Box::new(make) };
        if waiting + count > QUEUE_SPANS || self.queue.send(entry).is_err() {
            self.counts.waiting.fetch_sub(count, Ordering::Relaxed);
            self.dropped(count);
        }
    }

    /// What has become of the spans so far.
    #[must_use]
    pub fn counters(&self) -> SpanCounters {
        SpanCounters {
            published: self.counts.published.load(Ordering::Relaxed),
            dropped: self.counts.dropped.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn published(&self, count: usize) {
        self.counts.published.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn dropped(&self, count: usize) {
        self.counts.dropped.fetch_add(count as u64, Ordering::Relaxed);
    }
}

impl SpansReceiver {
    /// The next spans; `None` when nobody can put any in.
    pub(crate) async fn next(&mut self) -> Option<Vec<Span>> {
        let entry = self.queue.recv().await?;
        Some(self.open(entry))
    }

    /// The next spans if there are some.
    pub(crate) fn next_now(&mut self) -> Option<Vec<Span>> {
        let entry = self.queue.try_recv().ok()?;
        Some(self.open(entry))
    }

    fn open(&self, entry: Entry) -> Vec<Span> {
        self.counts.waiting.fetch_sub(entry.count, Ordering::Relaxed);
        (entry.make)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_counts_and_takes_again_when_there_is_room() {
        let (spans, mut receiver) = Spans::channel();
        let put = |count: usize| spans.record(count, move || vec![Span::default(); count]);
        put(QUEUE_SPANS - 1);
        put(2);
        assert_eq!(spans.counters().dropped, 2);
        put(1);
        put(1);
        assert_eq!(spans.counters().dropped, 3);
        assert_eq!(receiver.next_now().map(|spans| spans.len()), Some(QUEUE_SPANS - 1));
        put(5);
        assert_eq!(receiver.next_now().map(|spans| spans.len()), Some(1));
        assert_eq!(receiver.next_now().map(|spans| spans.len()), Some(5));
        assert_eq!(spans.counters().dropped, 3);
        drop(receiver);
        put(1);
        assert_eq!(spans.counters().dropped, 4);
    }
}
