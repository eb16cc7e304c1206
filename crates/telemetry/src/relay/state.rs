//! What a relay counts and says of itself.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cronstream_schemas::id::Instance;
use cronstream_schemas::name::Name;
use cronstream_schemas::status::{NodeStatus, RelayStatus, Role};

/// Everything a relay says of itself.
#[derive(Debug)]
pub(super) struct State {
    node: Name,
    instance: Instance,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    status: RelayStatus,
    trouble: Option<String>,
}

impl State {
    pub(super) fn new(node: Name, collector: &str) -> Self {
        let status = RelayStatus {
            collector: collector.to_owned(),
            waiting: None,
            counters: Default::default(),
        };
        let instance = Instance(uuid::Uuid::new_v4());
        Self { node, instance, inner: Mutex::new(Inner { status, trouble: None }) }
    }

    pub(super) const fn node(&self) -> &Name {
        &self.node
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn taken(&self, spans: u64, rejected: u64) {
        let mut inner = self.inner();
        if inner.trouble.take().is_some() {
            tracing::info!("the collector takes spans again");
        }
        let counters = &mut inner.status.counters;
        counters.batches += 1;
        counters.spans += spans.saturating_sub(rejected);
        counters.rejected_spans += rejected;
    }

    pub(super) fn refused(&self) {
        self.inner().status.counters.dropped_batches += 1;
    }

    pub(super) fn failed(&self, why: &str) {
        let mut inner = self.inner();
        inner.status.counters.failures += 1;
        let trouble = format!("the collector does not take spans: {why}");
        if inner.trouble.as_ref() != Some(&trouble) {
            tracing::warn!(why, "the collector does not take spans: trying again");
            inner.trouble = Some(trouble);
        }
    }

    pub(super) fn waiting(&self, waiting: Option<u64>) {
        self.inner().status.waiting = waiting;
    }

    pub(super) fn trouble(&self, trouble: Option<String>) {
        self.inner().trouble = trouble;
    }

    /// The report.
    pub(super) fn status(&self) -> NodeStatus {
        let inner = self.inner();
        NodeStatus {
            node: self.node.clone(),
            instance: self.instance,
            version: env!("CARGO_PKG_VERSION").into(),
            not_ready: inner.trouble.iter().cloned().collect(),
            role: Role::Relay(inner.status.clone()),
        }
    }

    /// The report's JSON.
    pub(super) fn report(&self) -> Bytes {
        serde_json::to_vec(&self.status()).expect("a status has string keys only").into()
    }
}
