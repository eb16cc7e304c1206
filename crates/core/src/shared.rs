//! What jobs have alike, kept once.
//!
//! ```text
//!   state of a job ─► share ─┬─ known: the part that other jobs have
//!                            └─ new: kept as it is, and noted by its hash
//! ```
//!
//! Invariant: sharing changes what a state costs and nothing else. A pool notes parts by weak pointers, so a part lives
//! no longer than the states that have it; of dead ones no more is left than a quarter of what was alive at the last
//! sweep, or [`SWEEP_MIN`].

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use cronstream_schemas::definition::{JobDefinition, Schedule, Terms};
use cronstream_schemas::event::JobState;
use cronstream_schemas::name::Name;

use crate::schedule::{Cron, Union};

/// So many parts may always die before dead ones are looked for.
const SWEEP_MIN: usize = 256;

/// Parts of one kind.
#[derive(Debug, Clone)]
pub(crate) struct Pool<T> {
    /// By the hash of the part. Of two parts with the same hash, one is not shared.
    parts: HashMap<u64, Weak<T>>,
    until_sweep: usize,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { parts: HashMap::new(), until_sweep: SWEEP_MIN }
    }
}

impl<T: Hash + PartialEq> Pool<T> {
    /// Puts the known part in place of an equal one.
    pub(crate) fn share(&mut self, part: &mut Arc<T>) {
        let mut hasher = Words::default();
        part.hash(&mut hasher);
        let hash = hasher.finish();
        match self.parts.get(&hash).and_then(Weak::upgrade) {
            Some(known) if *known == **part => *part = known,
            Some(_) => {}
            None => {
                self.parts.insert(hash, Arc::downgrade(part));
            }
        }
    }

    /// Notes that a part may have died.
    fn let_go(&mut self) {
        self.until_sweep -= 1;
        if self.until_sweep == 0 {
            self.parts.retain(|_, part| part.strong_count() > 0);
            self.parts.shrink_to(self.parts.len() + self.parts.len() / 2);
            self.until_sweep = SWEEP_MIN.max(self.parts.len() / 4);
        }
    }
}

/// A quick hash by words. Whoever makes two parts collide makes them cost what they cost alone.
#[derive(Default)]
struct Words(u64);

impl Hasher for Words {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Everything that the jobs of a partition have alike.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shared {
    terms: Pool<Terms>,
    schedules: Pool<Schedule>,
    releases: Pool<String>,
    /// Jobs stay in the fold, deleted ones too, and with them their namespaces.
    namespaces: HashSet<Name>,
    pub(crate) crons: Pool<Cron>,
    pub(crate) unions: Pool<Union>,
}

impl Shared {
    /// The state, with the parts that others have as well.
    pub(crate) fn state(&mut self, mut state: JobState) -> JobState {
        if let Some(definition) = &mut state.definition {
            self.definition(definition);
        }
        if let Some(tzdb) = &mut state.tzdb {
            self.releases.share(tzdb);
        }
        match self.namespaces.get(&state.job.namespace) {
            Some(known) => state.job.namespace = known.clone(),
            None => _ = self.namespaces.insert(state.job.namespace.clone()),
        }
        state
    }

    /// Notes that a state or a definition was replaced, or has ended.
    pub(crate) fn let_go(&mut self) {
        self.terms.let_go();
        self.schedules.let_go();
        self.releases.let_go();
        self.crons.let_go();
        self.unions.let_go();
    }

    /// Gives a definition the parts that others have as well.
    pub(crate) fn definition(&mut self, definition: &mut JobDefinition) {
        self.terms.share(&mut definition.terms);
        self.schedules.share(&mut definition.schedule);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_parts_become_one_and_different_ones_stay_apart() {
        let mut pool = Pool::default();
        let [mut a, mut b, mut c] = ["x", "x", "y"].map(|text| Arc::new(text.to_owned()));
        [&mut a, &mut b, &mut c].into_iter().for_each(|part| pool.share(part));
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!((a.as_str(), c.as_str()), ("x", "y"));
    }

    #[test]
    fn a_part_dies_with_the_last_that_has_it_and_is_forgotten() {
        let mut pool = Pool::default();
        for number in 0..100 * SWEEP_MIN {
            pool.share(&mut Arc::new(number));
            pool.let_go();
            assert!(pool.parts.len() <= SWEEP_MIN, "{}", pool.parts.len());
        }
        let mut living: Vec<_> = (0..50 * SWEEP_MIN).map(Arc::new).collect();
        living.iter_mut().for_each(|part| pool.share(part));
        assert!(pool.parts.len() >= living.len());
        while living.pop().is_some() {
            pool.let_go();
            assert!(pool.parts.len() <= living.len() * 3 / 2 + 2 * SWEEP_MIN);
        }
        assert!(pool.parts.capacity() <= 4 * SWEEP_MIN, "{}", pool.parts.capacity());
    }
}
