//! Which way a broker stores a group of events faster: in one atomic batch, or each event by itself.
//!
//! ```text
//!   work … work ─► nothing is out ─► trial: batch ─► trial: each ─► work …       every so many events
//! ```
//!
//! Where every write is flushed, a batch costs one flush instead of hundreds. Where none is, the staging of a batch
//! costs more than it saves. A group that is timed while others are out tells more of them than of itself, so a trial
//! has the broker to itself.
//!
//! Invariant: a trial is no longer than [`TRIAL_MAX`] as far as is known, and with few events there is none.

use std::cmp::Ordering;
use std::time::Duration;

/// How a group of events is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// In one atomic batch.
    Batch,
    /// Each by itself, all of them at once.
    Each,
}

/// Batches that are out at once: the broker stores one while the next is made. It takes 50 on a stream, of all
/// executors together.
const BATCHES_OUT: usize = 2;
/// So many events are worth a batch while another is out; fewer wait for its answer, and cost one batch less.
const WORTH_BATCH: usize = 500;
/// Groups of single events that are out at once, and how many events are worth one while others are.
const EACH_OUT: usize = 8;
const WORTH_EACH: usize = 64;
/// The fewest and the most events of a trial.
const TRIAL_EVENTS: (usize, usize) = (64, 500);
/// How long a trial may take.
const TRIAL_MAX: Duration = Duration::from_millis(30);
/// Trials of each way before the first choice is made.
const TRIALS: usize = 3;
/// The last trials of a way that count, of which the quickest does: what else the machine does makes a trial slower and
/// never quicker.
const REMEMBERED: usize = 8;
/// Single events are stored while others are still made, and a batch is not: they are the faster way as long as a trial
/// takes no more than this many times as long.
const EACH_WORTH: f64 = 1.1;
/// Events between two trials of each way: a trial takes as long as some hundreds.
const TRY_AFTER: usize = 64_000;

/// What leaves next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) way: Way,
    /// How many events it may have.
    pub(crate) most: usize,
    /// Nothing leaves until it is answered.
    pub(crate) is_trial: bool,
}

/// The last trials of a way, in seconds for an event.
#[derive(Debug, Default)]
struct Trials {
    taken: usize,
    last: [f64; REMEMBERED],
}

impl Trials {
    fn note(&mut self, seconds: f64) {
        self.last[self.taken % REMEMBERED] = seconds;
        self.taken += 1;
    }

    /// The quickest of the last ones, if there are enough.
    fn known(&self) -> Option<f64> {
        (self.taken >= TRIALS).then(|| self.quickest()).flatten()
    }

    fn quickest(&self) -> Option<f64> {
        self.last[..self.taken.min(REMEMBERED)].iter().copied().min_by(f64::total_cmp)
    }

    /// How many events a trial may have.
    fn events(&self) -> usize {
        let (fewest, most) = TRIAL_EVENTS;
        self.quickest().map_or(fewest, |seconds| {
            ((TRIAL_MAX.as_secs_f64() / seconds.max(1e-9)) as usize).clamp(fewest, most)
        })
    }
}

/// What is known of a broker.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    batch: Trials,
    each: Trials,
    /// A trial is out.
    trying: bool,
    /// Events that left since the last trial, at most.
    events: usize,
}

impl Pace {
    /// What leaves now, while so many groups are out and so many events wait, of which a group takes `full` at most.
    pub(crate) fn next(&mut self, out: usize, waiting: usize, full: usize) -> Option<Next> {
        if waiting == 0 || (self.trying && out > 0) {
            return None;
        }
        if waiting >= TRIAL_EVENTS.0
            && let Some(way) = self.to_try()
        {
            // What is out is waited for.
            self.trying = out == 0;
            let most = self.trials(way).events().min(full);
            return self.trying.then_some(Next { way, most, is_trial: true });
        }
        self.trying = false;
        let way = self.faster();
        let (groups, worth) = match way {
            Way::Batch => (BATCHES_OUT, WORTH_BATCH),
            Way::Each => (EACH_OUT, WORTH_EACH),
        };
        let leaves = out == 0 || (out < groups && waiting >= worth);
        leaves.then(|| {
            self.events = self.events.saturating_add(waiting.min(full));
            Next { way, most: full, is_trial: false }
        })
    }

    /// Notes how long a group took that was stored whole; anything else tells nothing.
    pub(crate) fn note(&mut self, next: Next, events: usize, took: Duration) {
        if !next.is_trial {
            return;
        }
        self.trying = false;
        self.events = if self.is_odd() { 0 } else { self.events };
        self.trials_mut(next.way).note(took.as_secs_f64() / events.max(1) as f64);
    }

    /// The way of a trial that is due. One of each way belong together.
    fn to_try(&self) -> Option<Way> {
        match self.batch.taken.cmp(&self.each.taken) {
            Ordering::Greater => Some(Way::Each),
            Ordering::Less => Some(Way::Batch),
            Ordering::Equal if self.batch.taken < TRIALS || self.events >= TRY_AFTER => {
                Some(Way::Batch)
            }
            Ordering::Equal => None,
        }
    }

    fn is_odd(&self) -> bool {
        self.batch.taken != self.each.taken
    }

    /// The way that is the faster one as far as is known: of few events a batch, which has one flush.
    fn faster(&self) -> Way {
        match (self.batch.known(), self.each.known()) {
            (Some(batch), Some(each)) if each < EACH_WORTH * batch => Way::Each,
            _ => Way::Batch,
        }
    }

    const fn trials(&self, way: Way) -> &Trials {
        match way {
            Way::Batch => &self.batch,
            Way::Each => &self.each,
        }
    }

    const fn trials_mut(&mut self, way: Way) -> &mut Trials {
        match way {
            Way::Batch => &mut self.batch,
            Way::Each => &mut self.each,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: usize = 1_000;
    /// Microseconds of a flush where every write is flushed.
    const FLUSH: usize = 350;

    /// Microseconds that a broker takes for a group.
    type Broker = fn(Way, usize) -> usize;

    fn flushes(way: Way, events: usize) -> usize {
        match way {
            Way::Batch => 2_000 + 15 * events,
            Way::Each => FLUSH * events,
        }
    }

    fn flushes_later(way: Way, events: usize) -> usize {
        match way {
            Way::Batch => 400 + 18 * events,
            Way::Each => 100 + 20 * events,
        }
    }

    /// Stores one group after the other; gives the trials and the other groups.
    fn store(pace: &mut Pace, broker: Broker, groups: usize) -> (Vec<(Way, usize)>, Vec<Way>) {
        let (mut trials, mut others) = (Vec::new(), Vec::new());
        for _ in 0..groups {
            let next = pace.next(0, FULL, FULL).expect("something waits");
            if next.is_trial {
                trials.push((next.way, next.most));
                assert_eq!(pace.next(1, FULL, FULL), None, "a trial has the broker to itself");
            } else {
                others.push(next.way);
            }
            let took = broker(next.way, next.most) as u64;
            pace.note(next, next.most, Duration::from_micros(took));
        }
        (trials, others)
    }

    #[test]
    fn the_first_event_waits_for_nothing_and_a_few_more_wait_for_its_answer() {
        let leaves = |pace: &mut Pace, out, waiting| pace.next(out, waiting, FULL).is_some();
        for (broker, out, waiting, expected) in [
            (flushes as Broker, 0, 0, false),
            (flushes, 0, 1, true),
            (flushes, 1, 1, false),
            (flushes, 1, WORTH_BATCH - 1, false),
            (flushes, 1, WORTH_BATCH, true),
            (flushes, BATCHES_OUT, FULL, false),
            (flushes_later, 0, 1, true),
            (flushes_later, 1, WORTH_EACH - 1, false),
            (flushes_later, EACH_OUT - 1, WORTH_EACH, true),
            (flushes_later, EACH_OUT, FULL, false),
        ] {
            let mut pace = Pace::default();
            store(&mut pace, broker, 2 * TRIALS);
            assert_eq!(leaves(&mut pace, out, waiting), expected, "{out} out, {waiting} wait");
        }
    }

    #[test]
    fn the_faster_way_is_taken_once_each_was_tried_and_both_are_tried_again() {
        for (broker, faster) in [(flushes as Broker, Way::Batch), (flushes_later, Way::Each)] {
            let mut pace = Pace::default();
            let (trials, others) = store(&mut pace, broker, 2 * TRIALS);
            assert!(trials.len() == 2 * TRIALS && others.is_empty(), "{trials:?}");
            let (trials, others) = store(&mut pace, broker, 4 * TRY_AFTER / FULL);
            assert!(others.iter().all(|way| *way == faster), "{faster:?}");
            let of = |wanted| trials.iter().filter(|(way, _)| *way == wanted).count();
            assert_eq!((of(Way::Batch), of(Way::Each)), (3, 3));
        }
    }

    #[test]
    fn a_broker_that_changes_is_noticed() {
        let mut pace = Pace::default();
        store(&mut pace, flushes, 2 * TRIALS + 1);
        let groups = (REMEMBERED + 1) * (TRY_AFTER / FULL + 2);
        store(&mut pace, flushes_later, groups);
        assert_eq!(pace.faster(), Way::Each);
        store(&mut pace, flushes, groups);
        assert_eq!(pace.faster(), Way::Batch);
    }

    #[test]
    fn a_trial_is_as_large_as_its_time_allows() {
        let mut pace = Pace::default();
        let (trials, _) = store(&mut pace, flushes, 2 * TRIALS + 2 * TRY_AFTER / FULL);
        let each = trials.iter().filter(|(way, _)| *way == Way::Each).map(|(_, events)| *events);
        let longest = each.max().unwrap() * FLUSH;
        assert!(longest <= TRIAL_MAX.as_micros() as usize, "{longest} us");
        assert_eq!(trials.last().map(|(_, events)| *events), Some(85));
        let mut pace = Pace::default();
        let (trials, _) = store(&mut pace, flushes_later, 2 * TRIALS);
        assert_eq!(trials.last(), Some(&(Way::Each, TRIAL_EVENTS.1)));
    }

    #[test]
    fn a_trial_that_told_nothing_is_made_again() {
        let mut pace = Pace::default();
        let first = pace.next(0, FULL, FULL);
        assert_eq!(pace.next(0, FULL, FULL), first);
        assert!(pace.next(0, 1, FULL).is_some_and(|next| !next.is_trial));
        assert_eq!(pace.next(1, 1, FULL), None);
        assert!(pace.next(0, 1, FULL).is_some());
    }

    #[test]
    fn a_trial_waits_until_nothing_is_out_and_few_events_make_none() {
        let mut pace = Pace::default();
        assert_eq!(pace.next(1, FULL, FULL), None);
        let few = pace.next(0, TRIAL_EVENTS.0 - 1, FULL);
        assert_eq!(few, Some(Next { way: Way::Batch, most: FULL, is_trial: false }));
        assert!(pace.next(0, TRIAL_EVENTS.0, FULL).is_some_and(|next| next.is_trial));
    }
}
