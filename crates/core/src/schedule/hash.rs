//! Hash slots: the number that stands for `H`, different from job to job and the same for ever.
//!
//! Invariant: a draw depends on the job's two names and the field alone. To change how it is made
//! would move the slots of every job that uses `H`.

use cronstream_schemas::name::JobId;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// What the hash slots of a job are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed(u64);

impl Seed {
    /// The seed of a job.
    #[must_use]
    pub fn of(job: &JobId) -> Self {
        let mut bytes = Vec::with_capacity(144);
        for name in [&job.namespace, &job.name] {
            let name = name.as_str().as_bytes();
            bytes.extend_from_slice(&(name.len() as u64).to_le_bytes());
            bytes.extend_from_slice(name);
        }
        Self(xxh3_64(&bytes))
    }

    /// The minute and the second that `H` stands for.
    pub(crate) fn minute_and_second(self) -> [usize; 2] {
        ["minute", "second"].map(|field| self.draw(field, 60) as usize)
    }

    /// A number of `0..count` for the field of this name; `count` is not 0.
    pub(super) fn draw(self, field: &str, count: u32) -> u32 {
        (xxh3_64_with_seed(field.as_bytes(), self.0) % u64::from(count)) as u32
    }
}
