//! Which job is due next: an index of jobs by their due instants.
//!
//! ```text
//!   insert ─► ready, in the order (instant, job) │ bucket │ bucket │ bucket …   of 33 seconds each, unordered
//!                    └─ iter, first              └─ prepare(horizon) orders a bucket once its time has come
//! ```
//!
//! A bucket is a list: to order a million jobs that lie ahead costs more than to plan them, and most are moved by
//! nothing but their own fire. For the same reason what is removed from a bucket stays in it as a stale entry until
//! the bucket is ordered, or until too much is stale. An entry that lies ahead is eight bytes: the job's hash stands
//! for its id, and the owner of the jobs tells whose it is once its time has come.
//!
//! Invariant: `ready` holds every entry before `ready_before` and no stale one; a bucket holds an entry for every job
//! of its time, and may hold stale ones and doubles.

use std::collections::{BTreeMap, BTreeSet};

use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

/// A bucket is 2^15 milliseconds.
const BUCKET_SHIFT: u32 = 15;
/// So many stale entries are always borne; beyond it, as many as there are true ones.
const STALE_MIN: usize = 1_024;

/// The most entries of a piece of a bucket.
const PIECE: usize = 512;

/// What a bucket has of a job: where in the bucket's time it is due, and its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    millis: u16,
    hash: u32,
}

impl Entry {
    fn new(at: Timestamp, hash: u32) -> Self {
        let millis = at.as_millis() & ((1 << BUCKET_SHIFT) - 1);
        Self { millis: millis as u16, hash }
    }

    /// When it is due as an entry of this bucket.
    fn at(self, bucket: i64) -> Timestamp {
        Timestamp::from_millis((bucket << BUCKET_SHIFT) + i64::from(self.millis))
    }
}

/// Entries of a bucket, in pieces: a list that doubles would leave as much behind in the allocator as it holds.
#[derive(Debug, Clone, Default)]
struct Bucket(Vec<Vec<Entry>>);

impl Bucket {
    fn push(&mut self, entry: Entry) {
        match self.0.last_mut() {
            Some(piece) if piece.len() < PIECE => piece.push(entry),
            Some(_) => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(entry);
                self.0.push(piece);
            }
            // Many buckets have one entry.
            None => self.0 = vec![vec![entry]],
        }
    }

    fn entries(&self) -> impl Iterator<Item = Entry> {
        self.0.iter().flatten().copied()
    }

    fn len(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

/// Jobs by their due instants.
#[derive(Debug, Clone, Default)]
pub struct Due {
    ready: BTreeSet<(Timestamp, JobId)>,
    /// The number of the first bucket that is not ready.
    ready_before: i64,
    buckets: BTreeMap<i64, Bucket>,
    /// Entries of buckets, stale ones with them.
    entries: usize,
    stale: usize,
}

impl Due {
    /// Takes a job in, whose id has this hash.
    pub fn insert(&mut self, at: Timestamp, job: &JobId, hash: u32) {
        let bucket = number(at);
        if bucket < self.ready_before {
            self.ready.insert((at, job.clone()));
        } else {
            self.buckets.entry(bucket).or_default().push(Entry::new(at, hash));
            self.entries += 1;
        }
    }

    /// Leaves out a job that was taken in with this instant.
    pub fn remove(&mut self, at: Timestamp, job: &JobId) {
        if number(at) >= self.ready_before {
            self.stale += 1;
        } else if self.ready.first().is_some_and(|(first, it)| *first == at && it == job) {
            self.ready.pop_first();
        } else {
            self.ready.remove(&(at, job.clone()));
        }
    }

    /// Orders what is due up to `horizon`. `jobs` tells which jobs with this hash are due at that instant still.
    pub fn prepare<'a, I>(&mut self, horizon: Timestamp, jobs: impl Fn(Timestamp, u32) -> I)
    where
        I: Iterator<Item = &'a JobId>,
    {
        let before = number(horizon) + 1;
        if before > self.ready_before {
            let later = self.buckets.split_off(&before);
            let due = std::mem::replace(&mut self.buckets, later);
            self.ready_before = before;
            let given: usize = due.values().map(Bucket::len).sum();
            let entries = due.iter().flat_map(|(number, bucket)| {
                bucket.entries().map(|entry| (entry.at(*number), entry.hash))
            });
            let mut ordered: Vec<_> =
                entries.flat_map(|(at, hash)| jobs(at, hash).map(move |job| (at, job))).collect();
            ordered.sort_unstable();
            ordered.dedup();
            self.entries -= given;
            // Jobs with the same hash may share an entry.
            self.stale = self.stale.saturating_sub(given.saturating_sub(ordered.len()));
            // Cloned last, when the sort has seen the ids: counts that no cache has hold each other up.
            let mut ordered = ordered.into_iter().map(|(at, job)| (at, job.clone())).collect();
            self.ready.append(&mut ordered);
        }
        if self.stale > STALE_MIN.max(self.entries / 2) {
            self.forget_stale(|at, hash| jobs(at, hash).next().is_some());
        }
    }

    fn forget_stale(&mut self, is_true: impl Fn(Timestamp, u32) -> bool) {
        for (number, bucket) in &mut self.buckets {
            let mut entries: Vec<_> = std::mem::take(bucket).entries().collect();
            entries.sort_unstable();
            entries.dedup();
            entries.retain(|entry| is_true(entry.at(*number), entry.hash));
            entries.into_iter().for_each(|entry| bucket.push(entry));
        }
        self.buckets.retain(|_, bucket| !bucket.0.is_empty());
        self.entries = self.buckets.values().map(Bucket::len).sum();
        self.stale = 0;
    }

    /// An instant at or before which nothing is due: that of the first entry, or of one that is stale.
    #[must_use]
    pub fn first(&self) -> Option<Timestamp> {
        let ready = self.ready.first().map(|(at, _)| *at);
        ready.or_else(|| {
            let (number, bucket) = self.buckets.first_key_value()?;
            bucket.entries().min().map(|first| first.at(*number))
        })
    }

    /// What is ready, in order; everything that is due up to the horizon of the last [`Self::prepare`] is among it.
    pub fn iter(&self) -> impl Iterator<Item = (Timestamp, &JobId)> {
        self.ready.iter().map(|(at, job)| (*at, job))
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

fn number(at: Timestamp) -> i64 {
    at.as_millis() >> BUCKET_SHIFT
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn job(number: u32) -> JobId {
        format!("a/j{number}").parse().unwrap()
    }

    /// Of many jobs the same one.
    fn hash(job: &JobId) -> u32 {
        job.name.as_str().bytes().map(u32::from).sum::<u32>() % 5
    }

    fn insert(index: &mut Due, truth: &mut BTreeMap<JobId, Timestamp>, at: Timestamp, job: JobId) {
        index.insert(at, &job, hash(&job));
        truth.insert(job, at);
    }

    fn prepare(index: &mut Due, truth: &BTreeMap<JobId, Timestamp>, horizon: i64) {
        index.prepare(at(horizon), |due, wanted| {
            let jobs = truth.iter().filter(move |(job, at)| **at == due && hash(job) == wanted);
            jobs.map(|(job, _)| job)
        });
    }

    /// What the index holds of entries up to `horizon`, when `truth` says where each job is due.
    fn due(
        index: &mut Due,
        truth: &BTreeMap<JobId, Timestamp>,
        horizon: i64,
    ) -> Vec<(Timestamp, JobId)> {
        prepare(index, truth, horizon);
        let due = index.iter().take_while(|(due, _)| *due <= at(horizon));
        due.map(|(at, job)| (at, job.clone())).collect()
    }

    #[test]
    fn entries_come_in_the_order_of_instant_and_job() {
        let mut index = Due::default();
        let mut truth = BTreeMap::new();
        for (millis, number) in [(70_000, 1), (10, 9), (10, 2), (200_000, 3), (9, 5)] {
            insert(&mut index, &mut truth, at(millis), job(number));
        }
        assert_eq!(index.first(), Some(at(9)));
        let order = [(9, 5), (10, 2), (10, 9), (70_000, 1)].map(|(ms, n)| (at(ms), job(n)));
        assert_eq!(due(&mut index, &truth, 70_000), order);
        index.remove(at(9), &job(5));
        index.remove(at(10), &job(9));
        assert_eq!(due(&mut index, &truth, 10), [(at(10), job(2))]);
        index.clear();
        assert_eq!(index.first(), None);
    }

    #[test]
    fn a_job_that_is_moved_for_ever_leaves_a_bounded_trace() {
        let mut index = Due::default();
        let mut truth = BTreeMap::new();
        for number in 0..100 {
            insert(&mut index, &mut truth, at(1_000_000), job(number));
        }
        for round in 0..50_000 {
            let (from, to) = (truth[&job(7)], at(1_000_000 + round % 3 * 40_000));
            index.remove(from, &job(7));
            insert(&mut index, &mut truth, to, job(7));
            prepare(&mut index, &truth, 0);
            assert!(index.entries <= 100 + 2 * STALE_MIN, "{}", index.entries);
        }
        assert_eq!(due(&mut index, &truth, 2_000_000).len(), 100);
    }

    proptest! {
        #[test]
        fn an_ordered_set_gives_the_same(
            steps in prop::collection::vec((0_u32..20, 0_i64..400_000, 0_u8..3), 1..200),
        ) {
            let mut index = Due::default();
            let mut truth: BTreeMap<JobId, Timestamp> = BTreeMap::new();
            let mut horizon = 0;
            for (number, millis, what) in steps {
                if what == 0 {
                    horizon = horizon.max(millis / 4);
                } else if let Some(old) = truth.remove(&job(number)) {
                    index.remove(old, &job(number));
                }
                if what == 2 {
                    insert(&mut index, &mut truth, at(millis), job(number));
                }
                let mut wanted: Vec<(Timestamp, JobId)> =
                    truth.iter().map(|(job, at)| (*at, job.clone())).collect();
                wanted.sort();
                prop_assert!(index.first() <= wanted.first().map(|(at, _)| *at) || wanted.is_empty());
                prop_assert!(index.first().is_some() || wanted.is_empty());
                wanted.retain(|(due, _)| *due <= at(horizon));
                prop_assert_eq!(due(&mut index, &truth, horizon), wanted);
            }
        }
    }
}
