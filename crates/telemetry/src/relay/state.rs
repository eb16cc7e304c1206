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
    /// Why no spans are pulled.
    pulling: Option<String>,
    /// Why the collector takes none.
    sending: Option<String>,
}

impl State {
    pub(super) fn new(node: Name, collector: &str) -> Self {
        let status = RelayStatus {
            collector: collector.to_owned(),
            waiting: None,
            counters: Default::default(),
        };
        let instance = Instance(uuid::Uuid::new_v4());
        Self { node, instance, inner: Mutex::new(Inner { status, pulling: None, sending: None }) }
    }

    pub(super) const fn node(&self) -> &Name {
        &self.node
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn taken(&self, spans: u64, rejected: u64) {
        let mut inner = self.inner();
        if inner.sending.take().is_some() {
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
        if inner.sending.as_ref() != Some(&trouble) {
            tracing::warn!(why, "the collector does not take spans: trying again");
            inner.sending = Some(trouble);
        }
    }

    pub(super) fn waiting(&self, waiting: Option<u64>) {
        self.inner().status.waiting = waiting;
    }

    /// Notes why no spans can be pulled, or that they can.
    pub(super) fn pulls(&self, trouble: Option<String>) {
        self.inner().pulling = trouble;
    }

    /// The report.
    pub(super) fn status(&self) -> NodeStatus {
        let inner = self.inner();
        NodeStatus {
            node: self.node.clone(),
            instance: self.instance,
            version: env!("CARGO_PKG_VERSION").into(),
            not_ready: inner.pulling.iter().chain(&inner.sending).cloned().collect(),
            role: Role::Relay(inner.status.clone()),
        }
    }

    /// The report's JSON.
    pub(super) fn report(&self) -> Bytes {
        serde_json::to_vec(&self.status()).expect("a status has string keys only").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_that_works_again_says_nothing_of_the_collector() {
        let state = State::new("r1".parse().unwrap(), "http://h");
        let not_ready = |state: &State| state.status().not_ready;
        state.failed("503");
        state.pulls(Some("no broker".into()));
        assert_eq!(not_ready(&state).len(), 2);
        state.pulls(None);
        assert_eq!(not_ready(&state), ["the collector does not take spans: 503"]);
        state.taken(1, 0);
        assert!(not_ready(&state).is_empty());
    }
}
