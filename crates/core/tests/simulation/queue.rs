//! The model of a queue's durable consumer: redelivery at any time, deaf acknowledgements.
//!
//! Invariant: an acknowledgement settles the message, whichever delivery of it is acknowledged.

use std::collections::BTreeMap;

use crate::rng::mix;

/// A consumer over the fires of CRON_LOG.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    /// Fires that are not acknowledged, and whether they wait to be pulled.
    waiting: BTreeMap<u64, bool>,
}

impl Queue {
    pub(crate) fn offer(&mut self, seq: u64) {
        self.waiting.insert(seq, true);
    }

    pub(crate) fn ready(&self) -> impl Iterator<Item = u64> {
        self.waiting.iter().filter(|(_, ready)| **ready).map(|(seq, _)| *seq)
    }

    pub(crate) fn delivered(&self) -> impl Iterator<Item = u64> {
        self.waiting.iter().filter(|(_, ready)| !**ready).map(|(seq, _)| *seq)
    }

    pub(crate) fn is_ready(&self, seq: u64) -> bool {
        self.waiting.get(&seq) == Some(&true)
    }

    pub(crate) fn pull(&mut self, seq: u64) {
        self.waiting.entry(seq).and_modify(|ready| *ready = false);
    }

    /// The wait for an acknowledgement has ended, or the delivery was refused.
    pub(crate) fn redeliver(&mut self, seq: u64) {
        self.waiting.entry(seq).and_modify(|ready| *ready = true);
    }

    pub(crate) fn acknowledge(&mut self, seq: u64) {
        self.waiting.remove(&seq);
    }

    pub(crate) fn key(&self) -> u64 {
        self.waiting.iter().fold(0, |key, (seq, ready)| mix(key, seq * 2 + u64::from(*ready)))
    }
}
