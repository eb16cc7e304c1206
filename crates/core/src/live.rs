//! Live runs: how many there may be, and what they hold in the memory of every ticker.
//!
//! ```text
//!   definition ── params ◄─┬─ run, run, run …      one allocation, which costs nothing besides
//!                          │
//!   own ── params ◄────────┴─ run, run             one allocation for the runs of a job that have the same, and not
//!                                                  the definition's: of triggers, and of revisions before
//! ```
//!
//! A run is live until it has a result, so runs that no executor takes pile up. [`Bounds`] says how far: a leader
//! begins no run beyond them. A fold takes every run that is in the log.
//!
//! Invariant: a run's params are its job's definition's allocation, or counted in exactly one entry of its job's
//! `own`; `own_bytes` is the sum of those entries. Where there is room is a function of the fold and of the batch so
//! far, so that every leader decides the same.

use std::cell::OnceCell;
use std::collections::HashMap;

use cronstream_schemas::definition::JobDefinition;
use cronstream_schemas::event::{Cause, Fired, JobState, SkipReason};
use cronstream_schemas::fault::Fault;
use cronstream_schemas::id::ShardId;
use cronstream_schemas::json::Json;
use cronstream_schemas::name::JobId;
use xxhash_rust::xxh3::xxh3_64;

use crate::draft::Draft;
use crate::partition::Partition;

/// The most runs of one job that are live at a time.
pub const LIVE_OF_JOB_MAX: u32 = 10_000;
/// The most runs of all jobs of a partition that are live at a time. A job that has none begins one all the same: what
/// others have left lying does not stop it.
pub const LIVE_OF_PARTITION_MAX: usize = 250_000;
/// The most bytes of params that the live runs of a partition hold besides the definitions in force.
pub const OWN_PARAMS_MAX_BYTES: usize = 64 * 1024 * 1024;

/// How many runs may be live, and what they may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Runs of one job: [`LIVE_OF_JOB_MAX`].
    pub of_job: u32,
    /// Runs of all jobs of a partition: [`LIVE_OF_PARTITION_MAX`].
    pub of_partition: usize,
    /// Bytes of params of their own in a partition: [`OWN_PARAMS_MAX_BYTES`].
    pub own_params: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            of_job: LIVE_OF_JOB_MAX,
            of_partition: LIVE_OF_PARTITION_MAX,
            own_params: OWN_PARAMS_MAX_BYTES,
        }
    }
}

/// The live runs of a partition, by job.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveRuns {
    by_job: HashMap<JobId, OfJob>,
    own_bytes: usize,
}

/// The live runs of one job.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfJob {
    /// In the order of their ids, which is about that of their instants.
    shards: Vec<ShardId>,
    /// How many of them are of backfills.
    backfills: usize,
    own: Vec<Own>,
}

/// Params that runs of a job share, and its definition does not.
#[derive(Debug, Clone)]
struct Own {
    params: Json,
    hash: u64,
    runs: usize,
}

impl Own {
    fn new(params: &Json, hash: u64, runs: usize) -> Self {
        Self { params: params.clone(), hash, runs }
    }

    fn bytes(&self) -> usize {
        self.params.as_str().len()
    }
}

fn hash(params: &Json) -> u64 {
    xxh3_64(params.as_str().as_bytes())
}

impl OfJob {
    pub(crate) fn shards(&self) -> &[ShardId] {
        &self.shards
    }

    pub(crate) const fn backfills(&self) -> usize {
        self.backfills
    }

    fn own_like(&self, params: &Json) -> Option<&Own> {
        if self.own.is_empty() {
            return None;
        }
        let hash = hash(params);
        self.own.iter().find(|own| own.hash == hash && own.params == *params)
    }

    fn own_bytes(&self) -> usize {
        self.own.iter().map(Own::bytes).sum()
    }

    /// Counts one run less; the bytes that are free by that.
    fn release(&mut self, params: &Json) -> usize {
        let Some(at) = self.own.iter().position(|own| own.params.is_same(params)) else { return 0 };
        self.own[at].runs -= 1;
        if self.own[at].runs > 0 { 0 } else { self.own.swap_remove(at).bytes() }
    }

    /// Counts one run more, whose params are not the definition's; the bytes that it takes.
    fn hold(&mut self, params: &Json) -> usize {
        if let Some(own) = self.own.iter_mut().find(|own| own.params.is_same(params)) {
            own.runs += 1;
            return 0;
        }
        self.own.push(Own::new(params, hash(params), 1));
        params.as_str().len()
    }
}

impl LiveRuns {
    pub(crate) fn of(&self, job: &JobId) -> Option<&OfJob> {
        self.by_job.get(job)
    }

    /// Lets a fire share what its job's definition, or another of its runs, has as well.
    pub(crate) fn share(&self, fired: &mut Fired, state: Option<&JobState>) {
        let definition = state.and_then(|state| state.definition.as_ref());
        if let Some(state) = state {
            fired.job = state.job.clone();
        }
        if let Some(definition) = definition {
            share(&mut fired.queue, &definition.queue);
            share(&mut fired.task, &definition.task);
            if fired.params == definition.params {
                fired.params = definition.params.clone();
                return;
            }
        }
        if let Some(own) = self.of(&fired.job).and_then(|runs| runs.own_like(&fired.params)) {
            fired.params = own.params.clone();
        }
    }

    /// Takes a run that begins, and shares what there is to be shared.
    pub(crate) fn begin(&mut self, fired: &Fired, definition: Option<&Json>) {
        let runs = self.by_job.entry(fired.job.clone()).or_default();
        let id = fired.shard_id();
        runs.shards.insert(runs.shards.partition_point(|other| *other < id), id);
        runs.backfills += usize::from(matches!(fired.cause, Cause::Backfill(_)));
        if !definition.is_some_and(|params| params.is_same(&fired.params)) {
            self.own_bytes += runs.hold(&fired.params);
        }
    }

    /// Takes a further fire of a run, whose params are those of the one before unless somebody forged it.
    pub(crate) fn fire_again(&mut self, before: &Fired, fired: &Fired, definition: Option<&Json>) {
        let Some(runs) = self.by_job.get_mut(&before.job) else { return };
        if before.params.is_same(&fired.params) {
            return;
        }
        self.own_bytes -= runs.release(&before.params);
        if !definition.is_some_and(|params| params.is_same(&fired.params)) {
            self.own_bytes += runs.hold(&fired.params);
        }
    }

    /// Lets go of a run that has ended.
    pub(crate) fn end(&mut self, fired: &Fired) {
        let Some(runs) = self.by_job.get_mut(&fired.job) else { return };
        let Ok(at) = runs.shards.binary_search(&fired.shard_id()) else { return };
        runs.shards.remove(at);
        let of_backfill = usize::from(matches!(fired.cause, Cause::Backfill(_)));
        runs.backfills = runs.backfills.saturating_sub(of_backfill);
        self.own_bytes -= runs.release(&fired.params);
        if runs.shards.is_empty() {
            self.by_job.remove(&fired.job);
        }
    }

    /// Lets a state that is about to be folded share the params of the one before it, or of a live run.
    pub(crate) fn share_state(&self, state: &mut JobState, before: Option<&Json>) {
        let Some(definition) = &mut state.definition else { return };
        if let Some(before) = before.filter(|before| **before == definition.params) {
            definition.params = before.clone();
        } else if let Some(own) =
            self.of(&state.job).and_then(|runs| runs.own_like(&definition.params))
        {
            definition.params = own.params.clone();
        }
    }

    /// Counts anew what the runs of a job hold besides its definition, which has other params now.
    pub(crate) fn redefined(&mut self, job: &JobId, before: Option<&Json>, after: Option<&Json>) {
        let is_as_before = match (before, after) {
            (Some(before), Some(after)) => before.is_same(after),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let Some(runs) = self.by_job.get_mut(job).filter(|_| !is_as_before) else { return };
        let was = runs.own_bytes();
        let shared = runs.shards.len() - runs.own.iter().map(|own| own.runs).sum::<usize>();
        if let (Some(before), true) = (before, shared > 0) {
            runs.own.push(Own::new(before, hash(before), shared));
        }
        runs.own.retain(|own| !after.is_some_and(|after| after.is_same(&own.params)));
        self.own_bytes = self.own_bytes + runs.own_bytes() - was;
    }

    /// The job whose runs hold most, and how many bytes.
    fn most(&self) -> Option<(JobId, usize)> {
        let held = self.by_job.iter().map(|(job, runs)| (job, runs.own_bytes()));
        let held = held.filter(|(_, bytes)| *bytes > 0);
        let most = held.max_by(|(a, most), (b, other)| (most, b).cmp(&(other, a)));
        most.map(|(job, held)| (job.clone(), held))
    }
}

fn share<T: Clone + PartialEq>(mine: &mut T, theirs: &T) {
    if *mine == *theirs {
        *mine = theirs.clone();
    }
}

impl Partition {
    /// The params of a job's definition in force.
    pub(crate) fn params_in_force(&self, id: &JobId) -> Option<&Json> {
        self.job(id)?.state.definition.as_ref().map(|definition| &definition.params)
    }

    /// How many bytes of params live runs hold besides the definitions in force.
    #[must_use]
    pub const fn own_params_bytes(&self) -> usize {
        self.live.own_bytes
    }
}

/// What the runs that a batch begins add to those of the fold.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    runs: usize,
    own: HashMap<(JobId, u64), usize>,
    /// The job whose runs hold most: a batch may reject many triggers, and looks for it once.
    most: OnceCell<Option<(JobId, usize)>>,
}

impl Draft<'_> {
    /// Notes a run that this batch begins.
    pub(crate) fn begin(&mut self, fired: &Fired) {
        self.begun.runs += 1;
        if self.is_own(&fired.job, &fired.params) {
            let of_run = (fired.job.clone(), hash(&fired.params));
            self.begun.own.insert(of_run, fired.params.as_str().len());
        }
    }

    /// Whether a run of `job` with these params shares them with nobody.
    fn is_own(&self, job: &JobId, params: &Json) -> bool {
        let definition = self.job(job).and_then(|job| job.state.definition.as_ref());
        !definition.is_some_and(|definition| definition.params == *params)
            && self.base.live.of(job).is_none_or(|runs| runs.own_like(params).is_none())
    }

    fn live_runs(&self) -> usize {
        self.base.shards.len() + self.begun.runs
    }

    /// How many bytes of own params live runs hold, those of this batch included.
    fn own_bytes(&self) -> usize {
        self.base.live.own_bytes + self.begun.own.values().sum::<usize>()
    }

    fn holds_too_much(&self, job: &JobId, params: &Json) -> bool {
        if !self.is_own(job, params) || self.begun.own.contains_key(&(job.clone(), hash(params))) {
            return false;
        }
        self.own_bytes() + params.as_str().len() > self.settings.bounds.own_params
    }

    /// Why a slot of a job whose runs may stand side by side begins none: too many are live. What others have left
    /// lying never stops a job of which none is.
    pub(crate) fn backlog(&self, job: &JobId, params: &Json) -> Option<SkipReason> {
        let (live, bounds) = (self.live(job).all, self.settings.bounds);
        if live >= bounds.of_job {
            return Some(SkipReason::JobBacklog);
        }
        let crowded = live > 0
            && (self.live_runs() >= bounds.of_partition || self.holds_too_much(job, params));
        crowded.then_some(SkipReason::PartitionBacklog)
    }

    /// Why a trigger begins no run: too many are live, or they hold too much.
    pub(crate) fn trigger_fault(
        &self,
        job: &JobId,
        definition: &JobDefinition,
        params: &Json,
    ) -> Option<Fault> {
        let bounds = self.settings.bounds;
        let queue = &definition.queue;
        let cure = format!("start executors for queue {queue}, or cancel runs; then again");
        if self.holds_too_much(job, params) {
            let (own, bytes) = (self.own_bytes(), params.as_str().len());
            let most = self.begun.most.get_or_init(|| self.base.live.most());
            let most = most.as_ref().map(|(job, held)| format!(", {job} {held} of them"));
            let whose = most.unwrap_or_default();
            let problem = format!(
                "live runs of the partition hold {own} bytes of own params{whose}; with {bytes} \
                 more it were over {}",
                bounds.own_params
            );
            let expected =
                format!("the job's own params, or a reference to stored ones; else {cure}");
            return Some(Fault::new("$.params", params.as_str(), problem, expected));
        }
        let problem = if self.backlog(job, params)? == SkipReason::JobBacklog {
            format!(
                "{} runs of the job are live, the most is {}",
                self.live(job).all,
                bounds.of_job
            )
        } else {
            let (runs, most) = (self.live_runs(), bounds.of_partition);
            format!("{runs} runs of the job's partition are live, the most is {most}")
        };
        Some(Fault::new("$subject", &job.to_string(), problem, cure))
    }
}
