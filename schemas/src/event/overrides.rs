//! What is asked for single slots of a job.
//!
//! Invariant: a job of which nothing is asked keeps no list.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::time::Timestamp;

/// What is asked for one slot to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Override {
    /// The slot.
    pub slot: Timestamp,
    /// When it is due instead; absent when it is to be skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Sequence of the command that asked for it.
    pub command: u64,
    /// It was shifted to an earlier instant and decided there, when the slots up to this one were: it is no slot to
    /// come any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Timestamp>,
}

impl Override {
    /// Whether its slot was decided ahead.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.done.is_some()
    }
}

/// What is asked for slots of a job, in their order. Cheap to clone, and one pointer in size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Vec<Override>")]
pub struct Overrides(Option<Arc<Vec<Override>>>);

impl Overrides {
    /// Whether nothing is asked for.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

impl Deref for Overrides {
    type Target = [Override];

    fn deref(&self) -> &[Override] {
        self.0.as_ref().map_or(&[], |all| all)
    }
}

impl<'a> IntoIterator for &'a Overrides {
    type Item = &'a Override;
    type IntoIter = std::slice::Iter<'a, Override>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<Vec<Override>> for Overrides {
    fn from(all: Vec<Override>) -> Self {
        Self((!all.is_empty()).then(|| Arc::new(all)))
    }
}

impl FromIterator<Override> for Overrides {
    fn from_iter<I: IntoIterator<Item = Override>>(all: I) -> Self {
        Vec::from_iter(all).into()
    }
}

impl Serialize for Overrides {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}
