//! The checker: holds a [`History`] against the guarantees of `design.md` §6.
//!
//! Invariant: pure, and independent of the code under test but for the calendar and the wire types. A history
//! in which no fault did anything is no evidence: the answer is [`Verdict::Inconclusive`].

mod backfills;
mod due;
mod effects;
mod fencing;
mod runs;
mod slots;
mod violation;

use std::time::Duration;

use anyhow::{Result, bail};
use cronstream_schemas::time::Timestamp;

use crate::history::History;

pub use violation::Violation;

/// What is asked of a history.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Every slot up to here must have its outcome, and every run of such a slot its result.
    pub through: Timestamp,
    /// How much a ticker's clock may differ from the broker's.
    pub max_clock_error: Duration,
    /// Since when there were faults; at least one of them must have changed a leader or broken a
    /// connection. Absent: none were made.
    pub faults_since: Option<Timestamp>,
    /// Slots may still be held at the end.
    pub held_at_end: Held,
}

/// What a slot that is still held at the end means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// It has no outcome.
    Undecided,
    /// It was meant to be held.
    Fine,
}

/// The checker's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every guarantee held.
    Pass,
    /// These did not.
    Fail(Vec<Violation>),
    /// Nothing was put to the test.
    Inconclusive(String),
}

impl Verdict {
    /// Only [`Verdict::Pass`] is a success.
    ///
    /// # Errors
    /// The violations, at most fifty of them, or why nothing was tested.
    pub fn passed(self) -> Result<()> {
        const SHOWN_MAX: usize = 50;
        match self {
            Self::Pass => Ok(()),
            Self::Inconclusive(why) => bail!("inconclusive: {why}"),
            Self::Fail(violations) => {
                let shown: Vec<_> =
                    violations.iter().take(SHOWN_MAX).map(|it| format!("  {it:?}")).collect();
                bail!("{} violations:\n{}", violations.len(), shown.join("\n"))
            }
        }
    }
}

/// Checks a history.
#[must_use]
pub fn check(history: &History, terms: &Terms) -> Verdict {
    let slots = match slots::check(history, terms) {
        Ok(slots) => slots,
        Err(why) => return Verdict::Inconclusive(why),
    };
    let fencing = fencing::check(history);
    let mut violations: Vec<_> = history.oddities.iter().cloned().map(Violation::Odd).collect();
    violations.extend(slots.violations);
    violations.extend(fencing.violations);
    violations.extend(runs::check(history, terms));
    violations.extend(effects::check(history, terms));
    violations.extend(backfills::check(history, terms));
    if !violations.is_empty() {
        return Verdict::Fail(violations);
    }
    if slots.fired == 0 {
        return Verdict::Inconclusive("no slot has fired".into());
    }
    match terms.faults_since {
        Some(since) if !fencing.takeovers.iter().chain(&history.breaks).any(|at| *at >= since) => {
            Verdict::Inconclusive("no fault changed a leader or broke a connection".into())
        }
        Some(_) | None => Verdict::Pass,
    }
}
