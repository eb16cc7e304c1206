//! Places in the total order of due instants.
//!
//! Invariant: a partition's position never moves back.

use std::time::Duration;

use cronstream_schemas::event::Position;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

/// Up to which instant `position` decides the slots of `job`.
#[must_use]
pub fn decided_through(position: &Position, job: &JobId) -> Timestamp {
    match &position.job {
        Some(last) if job > last => position.due.minus(Duration::from_millis(1)),
        Some(_) | None => position.due,
    }
}

/// The later of two positions.
#[must_use]
pub fn later(a: Position, b: Position) -> Position {
    let key = |p: &Position| (p.due, p.job.is_none(), p.job.clone());
    if key(&b) > key(&a) { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_behind_the_cut_still_owe_the_slot() {
        let job = |text: &str| text.parse::<JobId>().unwrap();
        let due = Timestamp::from_millis(5_000);
        let cut = Position { due, job: Some(job("a/m")) };
        assert_eq!(decided_through(&cut, &job("a/m")), due);
        assert_eq!(decided_through(&cut, &job("a/n")), Timestamp::from_millis(4_999));
        let whole = Position { due, job: None };
        assert_eq!(decided_through(&whole, &job("a/n")), due);
        assert_eq!(later(cut.clone(), whole.clone()), whole);
        assert_eq!(later(whole.clone(), cut), whole);
    }
}
