//! The label sets, all of them bounded.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;

/// Task, queue or job names that are told apart in one process; what comes later is [`OTHER`].
pub const NAMES_MAX: usize = 200;
/// The value for names beyond [`NAMES_MAX`].
pub(super) const OTHER: &str = "other";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByTask {
    pub(super) task_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByOutcome {
    pub(super) task_name: String,
    pub(super) status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByQueue {
    pub(super) queue: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct BySkip {
    pub(super) job_name: String,
    pub(super) reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByPartition {
    pub(super) partition: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Build {
    pub(super) version: &'static str,
    pub(super) role: &'static str,
}

/// A gauge without labels that is absent until it is known.
pub(super) type Later<G> = Family<Vec<(&'static str, &'static str)>, G>;

/// The names that have become label values.
#[derive(Debug, Default)]
pub(super) struct Names(RwLock<HashSet<String>>);

impl Names {
    /// The label value of a name.
    pub(super) fn value(&self, name: &str) -> String {
        if self.0.read().unwrap_or_else(PoisonError::into_inner).contains(name) {
            return name.to_owned();
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= NAMES_MAX && !known.contains(name) {
            return OTHER.to_owned();
        }
        known.insert(name.to_owned());
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_bound_are_other_and_the_first_ones_stay() {
        let names = Names::default();
        for number in 0..NAMES_MAX {
            let name = format!("task-{number}");
            assert_eq!(names.value(&name), name);
        }
        assert_eq!(names.value("one-too-many"), OTHER);
        assert_eq!(names.value("task-0"), "task-0");
    }
}
