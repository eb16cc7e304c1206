//! The loop of an executor: pull as many fires as there is room for, hand each to a task of its own, and at
//! the end finish or give back what runs.
//!
//! Invariant: no fire waits in this process. One whose task is not known here is handed back before the next
//! pull and takes no room. Dropping the loop drops every attempt, which the broker sees as a crash.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cronstream_bus::{Delivery, FETCH_MAX, Queue};
use cronstream_schemas::event::{Decoded, Event, Fired, LogEvent};
use cronstream_schemas::name::Name;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::attempt::{self, Shared};
use crate::backoff::{self, Backoff};
use crate::handlers::{Handler, STOP_GRACE};
use crate::state::{State, Trouble};

/// How long a pull waits for fires, and a stop for the last pull.
const PULL: Duration = Duration::from_secs(2);
/// Fires asked for at a time, at most.
const PULL_FIRES: usize = FETCH_MAX;
/// Fires asked for at a time, at most, while those that come are all unknown here: more than there is room for, so
/// that a known one behind thousands of them is found soon. Those that turn out to be too many are handed back.
const SCOUT_FIRES: usize = 64;
/// Attempts end in bursts, with the batch that stores their outcomes: where there is no room, so much of it is waited
/// for, or so long.
const BURST: (usize, Duration) = (256, Duration::from_millis(1));
/// Between two pulls that fail.
const PULL_RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long a fire of a newer version stays away.
const NEWER_VERSION: Duration = Duration::from_secs(300);
/// How long handing back may take, beyond the tasks' own grace, before the process leaves all the same.
const HAND_BACK: Duration = Duration::from_secs(5);

/// What the loop needs.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) queue: Queue,
    pub(crate) tasks: BTreeMap<Name, Handler>,
    pub(crate) concurrency: usize,
    pub(crate) drain: Duration,
    pub(crate) shared: Arc<Shared>,
    /// Cancelled when appends are no longer tried again.
    pub(crate) give_up: CancellationToken,
}

/// The attempts that go on; they end with it, as in a crash.
#[derive(Debug)]
struct Running {
    attempts: TaskTracker,
    state: Arc<State>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.state.abandon();
    }
}

impl Worker {
    /// Works until `stop`, then drains.
    pub(crate) async fn run(self, stop: &CancellationToken) {
        let room = Arc::new(Semaphore::new(self.concurrency));
        let running =
            Running { attempts: TaskTracker::new(), state: Arc::clone(&self.shared.state) };
        let mut backoff = Backoff::new(PULL_RETRY.0, PULL_RETRY.1);
        let mut scout = 1;
        // The last pull is waited for; what runs meanwhile drains already.
        let stopped = tokio::spawn({
            let stop = stop.clone();
            async move {
                stop.cancelled().await;
                Instant::now()
            }
        });
        while let Some(permits) = self.permits(&room, stop).await {
            let asked = permits.num_permits().max(scout);
            match self.pull(asked, permits, &running, stop).await {
                Ok(in_vain) => {
                    backoff.reset();
                    self.shared.state.trouble(Trouble::Pull, None);
                    scout = if in_vain { (asked * 2).min(SCOUT_FIRES) } else { 1 };
                }
                Err(error) => self.cannot_pull(&error, backoff.delay(), stop).await,
            }
        }
        let stopped = stopped.await.unwrap_or_else(|_| Instant::now());
        self.drain(&running.attempts, stopped).await;
    }

    /// Pulls once and begins what comes, as it comes; gives whether all that came was unknown here.
    async fn pull(
        &self,
        asked: usize,
        mut permits: OwnedSemaphorePermit,
        running: &Running,
        stop: &CancellationToken,
    ) -> Result<bool, cronstream_bus::Error> {
        let asked_at = Instant::now();
        // So that a delivery is young beside the ack wait.
        let mut pull = self.queue.pull(asked, PULL.min(self.shared.ack_wait / 3)).await?;
        let (mut any, mut known) = (false, false);
        while let Some(delivery) = pull.next().await? {
            any = true;
            if stop.is_cancelled() {
                hand_back(&delivery, Duration::ZERO).await;
                continue;
            }
            let Some((fire, handler)) = self.accept(&delivery).await else { continue };
            known = true;
            let id = fire.id();
            let Some(live) = running.state.enter(id) else {
                tracing::debug!(fire = %id, "delivered again while it runs here");
                continue;
            };
            let Some(permit) = permits.split(1) else {
                drop(live);
                hand_back(&delivery, Duration::ZERO).await;
                continue;
            };
            let shared = Arc::clone(&self.shared);
            // In a box: a task is moved whole when it begins and when it ends.
            let attempt = Box::pin(attempt::handle(shared, delivery, asked_at, fire, handler));
            let task = running.attempts.spawn(async move {
                attempt.await;
                drop((live, permit));
            });
            running.state.runs_as(id, task.abort_handle());
        }
        Ok(any && !known)
    }

    async fn cannot_pull(
        &self,
        error: &cronstream_bus::Error,
        delay: Duration,
        stop: &CancellationToken,
    ) {
        tracing::warn!(%error, queue = self.queue.name(), "cannot pull fires");
        let trouble = format!("cannot pull fires: {error}");
        self.shared.state.trouble(Trouble::Pull, Some(trouble));
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(delay) => {}
        }
    }

    /// Room for one fire at least, as soon as there is some; `None` when it is time to stop.
    async fn permits(
        &self,
        room: &Arc<Semaphore>,
        stop: &CancellationToken,
    ) -> Option<OwnedSemaphorePermit> {
        let is_full = room.available_permits() == 0;
        let mut permits = tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            permit = Arc::clone(room).acquire_owned() => permit.expect("nobody closes it"),
        };
        let burst = u32::try_from((self.concurrency / 4).min(BURST.0)).expect("a burst is small");
        if is_full && burst > 1 {
            let more = Arc::clone(room).acquire_many_owned(burst - 1);
            if let Ok(more) = tokio::time::timeout(BURST.1, more).await {
                permits.merge(more.expect("nobody closes it"));
            }
        }
        let more = room.available_permits().min(PULL_FIRES - permits.num_permits());
        let more = u32::try_from(more).expect("a pull is small");
        if let Ok(more) = Arc::clone(room).try_acquire_many_owned(more) {
            permits.merge(more);
        }
        Some(permits)
    }

    /// The fire in a delivery and its handler; settles what this executor cannot run.
    async fn accept(&self, delivery: &Delivery) -> Option<(Fired, Handler)> {
        let message = &delivery.message;
        let fire = match LogEvent::decode(&message.payload) {
            Ok(Decoded::Known(LogEvent::Fired(fire))) if self.is_ours(&fire, &message.subject) => {
                fire
            }
            Ok(Decoded::Unknown { kind }) => {
                tracing::warn!(kind, subject = message.subject, "fire of a newer version");
                hand_back(delivery, NEWER_VERSION).await;
                return None;
            }
            Ok(Decoded::Known(_)) | Err(_) => {
                tracing::error!(
                    seq = message.seq,
                    subject = message.subject,
                    "not a fire: dropped"
                );
                if let Err(error) = delivery.ack().await {
                    tracing::debug!(%error, "not acknowledged");
                }
                return None;
            }
        };
        match self.tasks.get(&fire.task) {
            Some(handler) => Some((fire, handler.clone())),
            None => {
                self.shared.state.counters.unknown_task.add();
                tracing::debug!(task = %fire.task, job = %fire.job, "task is not known here");
                hand_back(delivery, backoff::unknown_task(delivery.delivered)).await;
                None
            }
        }
    }

    fn is_ours(&self, fire: &Fired, subject: &str) -> bool {
        fire.queue.as_str() == self.queue.name()
            && self.shared.prefix.is_fire(subject, &fire.queue, &fire.job)
    }

    /// Lets what runs finish, then gives it back.
    async fn drain(&self, attempts: &TaskTracker, stopped: Instant) {
        self.shared.state.drain();
        attempts.close();
        let left = self.drain.saturating_sub(stopped.elapsed());
        if tokio::time::timeout(left, attempts.wait()).await.is_ok() {
            return;
        }
        tracing::info!(running = attempts.len(), "drain is over: giving back what still runs");
        self.shared.hand_back.cancel();
        if tokio::time::timeout(STOP_GRACE + HAND_BACK, attempts.wait()).await.is_ok() {
            return;
        }
        self.give_up.cancel();
        if tokio::time::timeout(HAND_BACK, attempts.wait()).await.is_err() {
            tracing::warn!(running = attempts.len(), "leaving with attempts that do not end");
        }
    }
}

async fn hand_back(delivery: &Delivery, delay: Duration) {
    if let Err(error) = delivery.nak(delay).await {
        tracing::debug!(%error, "not handed back: it comes again after the ack wait");
    }
}
