//! What an executor counts and says of itself.
//!
//! Invariant: this is a report, and no decision reads it, but for the fires in hand: each is handled once at a time.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cronstream_schemas::event::Executor;
use cronstream_schemas::id::FireId;
use cronstream_schemas::name::Name;
use cronstream_schemas::status::{ExecutorCounters, ExecutorStatus, NodeStatus, Role};
use cronstream_telemetry::Spans;
use tokio::task::AbortHandle;

/// A number that only rises.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of [`ExecutorCounters`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) started: Counter,
    pub(crate) succeeded: Counter,
    pub(crate) attempt_failed: Counter,
    pub(crate) failed: Counter,
    pub(crate) interrupted: Counter,
    pub(crate) refused: Counter,
    pub(crate) stale: Counter,
    pub(crate) late: Counter,
    pub(crate) unknown_task: Counter,
}

/// What keeps an executor from its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    /// It cannot pull fires.
    Pull,
    /// It cannot store run events.
    Store,
}

/// Everything an executor says of itself.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) me: Executor,
    pub(crate) queue: Name,
    pub(crate) tasks: Vec<Name>,
    pub(crate) concurrency: u32,
    pub(crate) counters: Counters,
    pub(crate) spans: Spans,
    draining: AtomicBool,
    troubles: Mutex<BTreeMap<Trouble, String>>,
    /// The fires that this process handles, each with its task once that is begun.
    live: Mutex<HashMap<FireId, Option<AbortHandle>>>,
}

impl State {
    pub(crate) fn new(
        me: Executor,
        queue: Name,
        tasks: Vec<Name>,
        concurrency: u32,
        spans: Spans,
    ) -> Self {
        Self {
            me,
            queue,
            tasks,
            concurrency,
            counters: Counters::default(),
            spans,
            draining: AtomicBool::new(false),
            troubles: Mutex::default(),
            live: Mutex::default(),
        }
    }

    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Notes what is wrong, or that it no longer is.
    pub(crate) fn trouble(&self, what: Trouble, now: Option<String>) {
        let mut troubles = lock(&self.troubles);
        match now {
            Some(text) => troubles.insert(what, text),
            None => troubles.remove(&what),
        };
    }

    /// Marks a fire as being handled by this process; `None` when it already is.
    pub(crate) fn enter(self: &Arc<Self>, fire: FireId) -> Option<Live> {
        match lock(&self.live).entry(fire) {
            Entry::Occupied(_) => None,
            Entry::Vacant(place) => {
                place.insert(None);
                Some(Live { state: Arc::clone(self), fire })
            }
        }
    }

    /// Notes the task of a fire, unless it is over already.
    pub(crate) fn runs_as(&self, fire: FireId, task: AbortHandle) {
        if let Some(noted) = lock(&self.live).get_mut(&fire) {
            *noted = Some(task);
        }
    }

    /// Ends the task of every fire, as a crash does.
    pub(crate) fn abandon(&self) {
        let tasks: Vec<_> = lock(&self.live).values().flatten().cloned().collect();
        // A task that ends looks for its fire.
        tasks.iter().for_each(AbortHandle::abort);
    }

    /// The report.
    pub(crate) fn status(&self) -> NodeStatus {
        let draining = self.draining.load(Ordering::Relaxed);
        let mut not_ready: Vec<String> = lock(&self.troubles).values().cloned().collect();
        if draining {
            not_ready.push("draining".into());
        }
        let counters = &self.counters;
        NodeStatus {
            node: self.me.node.clone(),
            instance: self.me.instance,
            version: env!("CARGO_PKG_VERSION").into(),
            not_ready,
            role: Role::Executor(ExecutorStatus {
                queue: self.queue.clone(),
                tasks: self.tasks.clone(),
                concurrency: self.concurrency,
                running: u32::try_from(lock(&self.live).len()).unwrap_or(u32::MAX),
                draining,
                counters: ExecutorCounters {
                    started: counters.started.get(),
                    succeeded: counters.succeeded.get(),
                    attempt_failed: counters.attempt_failed.get(),
                    failed: counters.failed.get(),
                    interrupted: counters.interrupted.get(),
                    refused: counters.refused.get(),
                    stale: counters.stale.get(),
                    late: counters.late.get(),
                    unknown_task: counters.unknown_task.get(),
                },
                spans: Some(self.spans.counters()),
            }),
        }
    }

    /// The report's JSON.
    pub(crate) fn report(&self) -> Bytes {
        serde_json::to_vec(&self.status()).expect("a status has string keys only").into()
    }
}

/// A fire that this process handles; it no longer does once this is dropped.
#[derive(Debug)]
pub(crate) struct Live {
    state: Arc<State>,
    fire: FireId,
}

impl Drop for Live {
    fn drop(&mut self) {
        lock(&self.state.live).remove(&self.fire);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    use cronstream_schemas::id::{Incarnation, Instance, RunId, RunSeed, ShardId};
    use cronstream_schemas::time::Timestamp;

    #[tokio::test]
    async fn a_fire_is_entered_once_and_free_again_when_its_task_is_abandoned() {
        let me = Executor { node: "e".parse().unwrap(), instance: Instance(uuid::Uuid::nil()) };
        let queue = "q".parse().unwrap();
        let state = Arc::new(State::new(me, queue, Vec::new(), 1, Spans::channel().0));
        let job = "a/b".parse().unwrap();
        let run = RunId::derive(Timestamp::MIN, &job, Incarnation(1), RunSeed::Command(1));
        let fire = FireId { shard: ShardId { run, shard: 0 }, fire_no: 1 };

        let live = state.enter(fire).unwrap();
        assert!(state.enter(fire).is_none());
        let task = tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(live);
        });
        state.runs_as(fire, task.abort_handle());
        assert!(state.enter(fire).is_none());
        state.abandon();
        assert!(task.await.unwrap_err().is_cancelled());
        let live = state.enter(fire).unwrap();
        drop(live);
        state.runs_as(fire, tokio::spawn(async {}).abort_handle());
        assert!(state.enter(fire).is_some(), "a task that is over is not noted");
    }
}
