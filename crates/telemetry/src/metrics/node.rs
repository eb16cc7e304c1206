//! What every role tells of itself.

use std::sync::atomic::Ordering;
use std::time::Instant;

use cronstream_schemas::status::{NodeStatus, SpanCounters};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::book::Book;
use super::health::Health;
use super::labels::Build;

/// The families of every role.
#[derive(Debug)]
pub(super) struct NodeFamilies {
    ready: Gauge,
}

/// The families of the roles that make spans.
#[derive(Debug)]
pub(super) struct SpanFamilies {
    published: Counter,
    dropped: Counter,
}

impl NodeFamilies {
    pub(super) fn new(book: &mut Book, role: &'static str) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let build = Family::<Build, Gauge>::default();
        build.get_or_create(&Build { version, role }).set(1);
        book.add(
            "cronstream_build_info",
            &["version", "role"],
            "The binary that runs: always 1",
            build,
        );
        let ready = book.add(
            "cronstream_ready",
            &[],
            "1 when the node can do its work; /readyz says why it cannot",
            Gauge::default(),
        );
        Self { ready }
    }

    pub(super) fn report(&self, health: &Health, status: &NodeStatus) {
        self.ready.set(status.not_ready.is_empty().into());
        health.report(Instant::now(), status.not_ready.clone());
    }
}

impl SpanFamilies {
    pub(super) fn new(book: &mut Book) -> Self {
        Self {
            published: book.add(
                "cronstream_spans_published",
                &[],
                "Spans stored in CRON_TRACES",
                Counter::default(),
            ),
            dropped: book.add(
                "cronstream_spans_dropped",
                &[],
                "Spans lost: the queue was full, or the broker did not take them",
                Counter::default(),
            ),
        }
    }

    pub(super) fn report(&self, spans: Option<SpanCounters>) {
        let Some(spans) = spans else { return };
        reach(&self.published, spans.published);
        reach(&self.dropped, spans.dropped);
    }
}

/// Sets a counter to a total that is counted elsewhere and only rises.
pub(super) fn reach(counter: &Counter, total: u64) {
    counter.inner().store(total, Ordering::Relaxed);
}
