//! Whether a node lives and can work, from its own reports.
//!
//! Invariant: before its first report a node is alive and not ready: starting may take long.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a node's loop may go without a report before it counts as stuck.
pub const LOOP_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Health(Mutex<Option<Report>>);

#[derive(Debug)]
struct Report {
    at: Instant,
    not_ready: Vec<String>,
}

impl Health {
    pub(super) fn report(&self, at: Instant, not_ready: Vec<String>) {
        *self.lock() = Some(Report { at, not_ready });
    }

    /// Why the process should be started again, if so.
    pub(super) fn stuck(&self, now: Instant) -> Option<String> {
        let report = self.lock();
        let age = now.saturating_duration_since(report.as_ref()?.at);
        (age > LOOP_MAX).then(|| format!("the loop has not turned for {} s", age.as_secs()))
    }

    /// Why it cannot work now; empty when it can.
    pub(super) fn not_ready(&self, now: Instant) -> Vec<String> {
        let stuck = self.stuck(now);
        match &*self.lock() {
            None => vec!["it is starting".to_owned()],
            Some(report) => stuck.into_iter().chain(report.not_ready.iter().cloned()).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Report>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_starting_node_lives_but_is_not_ready() {
        let health = Health::default();
        assert_eq!(health.stuck(Instant::now()), None);
        assert_eq!(health.not_ready(Instant::now()), ["it is starting"]);
    }

    #[test]
    fn reasons_are_those_of_the_newest_report() {
        let (health, now) = (Health::default(), Instant::now());
        health.report(now, vec!["its clock is off".into()]);
        assert_eq!(health.not_ready(now), ["its clock is off"]);
        assert_eq!(health.stuck(now), None);
        health.report(now, Vec::new());
        assert!(health.not_ready(now).is_empty());
    }

    #[test]
    fn a_loop_that_does_not_turn_is_stuck_and_not_ready() {
        let (health, now) = (Health::default(), Instant::now());
        health.report(now, Vec::new());
        assert_eq!(health.stuck(now + LOOP_MAX), None);
        let later = now + LOOP_MAX + Duration::from_secs(1);
        let why = "the loop has not turned for 6 s";
        assert_eq!(health.stuck(later).as_deref(), Some(why));
        assert_eq!(health.not_ready(later), [why]);
    }
}
