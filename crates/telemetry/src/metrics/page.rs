//! What one node serves.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use prometheus_client::encoding::{prometheus_text, text};

use super::book::{Book, Definition};
use super::health::Health;

/// The metrics and the health of one node; a cheap handle.
#[derive(Debug, Clone)]
pub struct Page(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    book: Book,
    health: Health,
}

/// How metrics are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Prometheus,
    OpenMetrics,
}

impl Format {
    /// What a client with this `Accept` header is given.
    pub(super) fn of(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

impl Page {
    pub(super) fn new(book: Book) -> Self {
        Self(Arc::new(Inner { book, health: Health::default() }))
    }

    /// Every metric on it, in the order of the reference.
    #[must_use]
    pub fn definitions(&self) -> &[Definition] {
        &self.0.book.definitions
    }

    /// The metrics as Prometheus text.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.encode(Format::Prometheus)
    }

    pub(super) fn encode(&self, format: Format) -> String {
        let (mut body, registry) = (String::new(), &self.0.book.registry);
        let written = match format {
            Format::Prometheus => prometheus_text::encode(&mut body, registry),
            Format::OpenMetrics => text::encode(&mut body, registry),
        };
        written.expect("a string takes every write");
        body
    }

    pub(super) fn health(&self) -> &Health {
        &self.0.health
    }

    /// The answer to `/healthz`: whether all is well, and words.
    pub(super) fn healthz(&self) -> (bool, String) {
        match self.health().stuck(Instant::now()) {
            None => (true, "ok\n".to_owned()),
            Some(why) => (false, format!("{why}\n")),
        }
    }

    /// The answer to `/readyz`: whether the node is ready, and a reason on each line.
    pub(super) fn readyz(&self) -> (bool, String) {
        let reasons = self.health().not_ready(Instant::now());
        if reasons.is_empty() {
            return (true, "ready\n".to_owned());
        }
        let mut text = String::new();
        for reason in reasons {
            writeln!(text, "{reason}").expect("a string takes every write");
        }
        (false, text)
    }
}
