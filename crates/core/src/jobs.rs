//! The jobs of a partition by their ids.
//!
//! A table of the standard library keeps its keys beside its values and has up to twice as many places as entries;
//! here a place is one pointer, and the id is the one in the job's state. The hash is kept with the job, so that a
//! table that grows need not look at ids.
//!
//! Invariant: no two jobs have the same id.

use std::hash::{BuildHasher, RandomState};

use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use hashbrown::HashTable;

use crate::job::Job;

/// Jobs by their ids.
#[derive(Debug, Clone, Default)]
pub(crate) struct Jobs {
    table: HashTable<Box<Job>>,
    hasher: RandomState,
}

impl Jobs {
    pub(crate) fn get(&self, id: &JobId) -> Option<&Job> {
        let hash = self.hash(id);
        self.table.find(spread(hash), |job| is(job, hash, id)).map(Box::as_ref)
    }

    pub(crate) fn get_mut(&mut self, id: &JobId) -> Option<&mut Job> {
        let hash = self.hash(id);
        self.table.find_mut(spread(hash), |job| is(job, hash, id)).map(Box::as_mut)
    }

    /// Takes a job in, of which there is none yet.
    pub(crate) fn insert(&mut self, mut job: Job) -> &mut Job {
        job.hash = self.hash(&job.state.job);
        let hash = spread(job.hash);
        self.table.insert_unique(hash, Box::new(job), |job| spread(job.hash)).into_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&JobId, &Job)> {
        self.table.iter().map(|job| (&job.state.job, job.as_ref()))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.table.iter_mut().map(Box::as_mut)
    }

    /// The jobs that the leader's due index has at `at`, of those whose ids have this hash.
    pub(crate) fn due(&self, at: Timestamp, hash: u32) -> impl Iterator<Item = &JobId> {
        let jobs = self.table.iter_hash(spread(hash));
        jobs.filter(move |job| job.hash == hash && job.indexed == Some(at))
            .map(|job| &job.state.job)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    fn hash(&self, id: &JobId) -> u32 {
        self.hasher.hash_one(id) as u32
    }
}

/// The table takes a place from the lower bits, and what it looks at first from the upper ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

fn is(job: &Job, hash: u32, id: &JobId) -> bool {
    job.hash == hash && job.state.job == *id
}
