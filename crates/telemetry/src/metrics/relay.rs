//! What a relay counts.

use std::sync::Arc;

use cronstream_schemas::status::{NodeStatus, Role};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::book::Book;
use super::labels::Later;
use super::node::{NodeFamilies, reach};
use super::page::Page;

/// A relay's metrics; a cheap handle.
#[derive(Debug, Clone)]
pub struct RelayMetrics(Arc<Families>);

#[derive(Debug)]
struct Families {
    page: Page,
    node: NodeFamilies,
    waiting: Later<Gauge>,
    batches: Counter,
    spans: Counter,
    rejected: Counter,
    dropped: Counter,
    failures: Counter,
}

impl Default for RelayMetrics {
    fn default() -> Self {
        let mut book = Book::default();
        let node = NodeFamilies::new(&mut book, "relay");
        let counter = |book: &mut Book, name, help| book.add(name, &[], help, Counter::default());
        let families = Families {
            waiting: book.add(
                "cronstream_relay_waiting_batches",
                &[],
                "Batches of spans in CRON_TRACES that no collector has taken",
                Family::default(),
            ),
            batches: counter(
                &mut book,
                "cronstream_relay_batches",
                "Batches that the collector took",
            ),
            spans: counter(&mut book, "cronstream_relay_spans", "Spans in them"),
            rejected: counter(
                &mut book,
                "cronstream_relay_rejected_spans",
                "Spans that the collector took the batch of, but not these",
            ),
            dropped: counter(
                &mut book,
                "cronstream_relay_dropped_batches",
                "Batches that are lost: the collector refused them for good, or they were none",
            ),
            failures: counter(
                &mut book,
                "cronstream_relay_failures",
                "Tries that failed and are made again",
            ),
            page: Page::new(book),
            node,
        };
        Self(Arc::new(families))
    }
}

impl RelayMetrics {
    /// What is served.
    #[must_use]
    pub fn page(&self) -> Page {
        self.0.page.clone()
    }

    /// Takes the node's report; the loop lives as long as these come.
    pub fn report(&self, status: &NodeStatus) {
        let families = &self.0;
        families.node.report(families.page.health(), status);
        let Role::Relay(relay) = &status.role else { return };
        if let Some(waiting) = relay.waiting {
            let waiting = i64::try_from(waiting).unwrap_or(i64::MAX);
            families.waiting.get_or_create(&Vec::new()).set(waiting);
        }
        let counters = &relay.counters;
        reach(&families.batches, counters.batches);
        reach(&families.spans, counters.spans);
        reach(&families.rejected, counters.rejected_spans);
        reach(&families.dropped, counters.dropped_batches);
        reach(&families.failures, counters.failures);
    }
}
