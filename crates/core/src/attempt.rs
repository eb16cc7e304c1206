//! What an executor does with a delivered fire: the five steps of `design.md` §4, without their I/O.
//!
//! Invariant: the caller appends what these functions return expecting the sequence they name, so of two
//! executors that decide from the same last event one wins. Only [`is_over`] allows an acknowledgement
//! without a result: an old delivery's ack settles the newer one too.
//!
//! ```text
//!            decide                     append                      outcome, append
//!   fire ──► Start ───────────────────► Started stands ──► task ──► Succeeded | AttemptFailed | Failed ──► ack
//!        ├─► FailCrashed ─► append ─────────────────────────────────────────────────────────────────────► ack
//!        ├─► Ack            │ refused, no answer
//!        └─► Leave          └─► after_refusal ─► Won | Resend | Ack | Again | Drop
//! ```

use cronstream_schemas::duration::Span;
use cronstream_schemas::event::{
    AttemptFailed, Executor, Failed, Failure, FailureKind, Fired, Output, Place, RunEvent, Started,
    Succeeded,
};
use cronstream_schemas::json::Json;
use cronstream_schemas::time::Timestamp;

/// The most bytes of a failure's message.
pub const MESSAGE_MAX_BYTES: usize = 4 * 1024;

/// A shard's last event, as far as its reader saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Last {
    /// Its sequence in CRON_RUNS.
    pub seq: u64,
    /// The event.
    pub event: RunEvent,
}

/// What to do with a delivered fire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The fire is over: acknowledge it and run nothing.
    Ack,
    /// The run's time is up and its end is the leader's to write: run nothing, look again later.
    Leave,
    /// Append `Started` at this place, then run the task.
    Start {
        /// Where the attempt stands.
        place: Place,
        /// The last sequence of the shard's subject, 0 for none.
        expected_seq: u64,
    },
    /// The last attempt that was left has crashed: append its end, then acknowledge.
    FailCrashed {
        /// The terminal event.
        event: RunEvent,
        /// The last sequence of the shard's subject.
        expected_seq: u64,
    },
}

/// What to do when an append was refused, or its answer never came, and the last event was read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// My own event stands, under this sequence.
    Won {
        /// Its sequence in CRON_RUNS.
        seq: u64,
    },
    /// Nothing has moved: send the same event with the same expectation again.
    Resend,
    /// The fire is over: acknowledge it.
    Ack,
    /// Nobody runs the fire: what was decided stood on a stale read. Before the task has run, [`decide`] again from
    /// this last event; after it, as [`Refusal::Drop`].
    Again,
    /// Another delivery has the shard: neither acknowledge nor refuse this one.
    Drop,
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskOutcome {
    /// It has a result.
    Success {
        /// What it returned.
        result: Option<Json>,
        /// What it printed.
        output: Option<Output>,
    },
    /// It has none.
    Failure {
        /// Why.
        failure: Failure,
        /// Whether another attempt may do better.
        retry: Retry,
        /// What it printed.
        output: Option<Output>,
    },
}

/// Whether another attempt may do better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Yes, not before this has passed, where the task said so.
    After(Option<Span>),
    /// No.
    Never,
}

/// Whether `last` ends the fire: it is terminal, belongs to a later fire, or is this fire's failure.
#[must_use]
pub const fn is_over(fire: &Fired, last: &RunEvent) -> bool {
    let (last_fire, this_fire) = (last.place().fire_no, fire.fire_no);
    match last {
        RunEvent::Succeeded(_)
        | RunEvent::Failed(_)
        | RunEvent::Expired(_)
        | RunEvent::Cancelled(_)
        | RunEvent::Lost(_) => true,
        RunEvent::AttemptFailed(_) => last_fire >= this_fire,
        RunEvent::Started(_) | RunEvent::Interrupted(_) => last_fire > this_fire,
    }
}

/// Step 1: what to do with a delivery of `fire`. A stale `last` is harmless, as the append expects its
/// sequence.
#[must_use]
pub fn decide(fire: &Fired, last: Option<&Last>, me: &Executor, now: Timestamp) -> Decision {
    let Some(last) = last else {
        if now > fire.start_by || now > fire.run_by {
            return Decision::Leave;
        }
        let place = Place { fire_no: fire.fire_no, delivery: 1, attempt: 1 };
        return Decision::Start { place, expected_seq: 0 };
    };
    if is_over(fire, &last.event) {
        return Decision::Ack;
    }
    if now > fire.run_by {
        return Decision::Leave;
    }
    let before = last.event.place();
    let expected_seq = last.seq;
    let delivery =
        if before.fire_no == fire.fire_no { before.delivery.saturating_add(1) } else { 1 };
    let attempt = before.attempt.saturating_add(1);
    let crashed = matches!(last.event, RunEvent::Started(_)) && before.fire_no == fire.fire_no;
    if crashed && attempt > fire.retry.max_attempts {
        let place = Place { fire_no: fire.fire_no, delivery, attempt: before.attempt };
        let event = RunEvent::Failed(Failed {
            place,
            executor: me.clone(),
            failure: crash(fire, &last.event),
            output: None,
        });
        return Decision::FailCrashed { event, expected_seq };
    }
    let place = Place { fire_no: fire.fire_no, delivery, attempt };
    Decision::Start { place, expected_seq }
}

fn crash(fire: &Fired, last: &RunEvent) -> Failure {
    let node = executor_of(last).map_or("an executor", |executor| executor.node.as_str());
    let message = format!(
        "{node} was lost during attempt {} of {}",
        last.place().attempt,
        fire.retry.max_attempts
    );
    Failure { kind: FailureKind::Crashed, message }
}

/// Steps 2 and 4, after a refusal or a timeout of `sent`, which expected `expected_seq`; `last` is read
/// after it. It may be stale as long as it is no older than `expected_seq`: then the same is sent again.
#[must_use]
pub fn after_refusal(
    fire: &Fired,
    sent: &RunEvent,
    expected_seq: u64,
    last: Option<&Last>,
) -> Refusal {
    let Some(last) = last else {
        return if expected_seq == 0 { Refusal::Resend } else { Refusal::Drop };
    };
    if is_same(sent, &last.event) {
        Refusal::Won { seq: last.seq }
    } else if last.seq == expected_seq {
        Refusal::Resend
    } else if is_over(fire, &last.event) {
        Refusal::Ack
    } else if last.event.place().fire_no == fire.fire_no
        && matches!(last.event, RunEvent::Started(_))
    {
        Refusal::Drop
    } else {
        Refusal::Again
    }
}

/// Whether an attempt whose `Started` has the sequence `token` is no longer the shard's last word, so that
/// its task has to be killed. A stale `last_seq` only delays the answer.
#[must_use]
pub const fn is_overtaken(token: u64, last_seq: Option<u64>) -> bool {
    match last_seq {
        Some(last_seq) => last_seq > token,
        None => false,
    }
}

/// The event that begins an attempt.
#[must_use]
pub const fn started(place: Place, me: Executor) -> RunEvent {
    RunEvent::Started(Started { place, executor: me })
}

/// The event that gives an attempt back: it does not count, so the place has one attempt less.
#[must_use]
pub const fn interrupted(place: Place, me: Executor) -> RunEvent {
    let place = Place { attempt: place.attempt.saturating_sub(1), ..place };
    RunEvent::Interrupted(Started { place, executor: me })
}

/// Step 4: the event that a task's end becomes. The last attempt's failure, or one that no retry helps, is
/// `Failed`.
#[must_use]
pub fn outcome(fire: &Fired, place: Place, me: Executor, task: TaskOutcome) -> RunEvent {
    match task {
        TaskOutcome::Success { result, output } => {
            RunEvent::Succeeded(Succeeded { place, executor: me, result, output })
        }
        TaskOutcome::Failure { mut failure, retry, output } => {
            cut(&mut failure.message, MESSAGE_MAX_BYTES);
            match retry {
                Retry::After(retry_after) if place.attempt < fire.retry.max_attempts => {
                    RunEvent::AttemptFailed(AttemptFailed {
                        place,
                        executor: me,
                        failure,
                        retry_after,
                        output,
                    })
                }
                Retry::After(_) | Retry::Never => {
                    RunEvent::Failed(Failed { place, executor: me, failure, output })
                }
            }
        }
    }
}

/// Whether two events are one: the same executor's, of the same kind, at the same place.
fn is_same(sent: &RunEvent, stored: &RunEvent) -> bool {
    let (ours, theirs) = (executor_of(sent), executor_of(stored));
    sent.kind() == stored.kind()
        && sent.place() == stored.place()
        && ours.is_some_and(|ours| theirs.is_some_and(|theirs| ours.instance == theirs.instance))
}

const fn executor_of(event: &RunEvent) -> Option<&Executor> {
    match event {
        RunEvent::Started(e) | RunEvent::Interrupted(e) => Some(&e.executor),
        RunEvent::AttemptFailed(e) => Some(&e.executor),
        RunEvent::Succeeded(e) => Some(&e.executor),
        RunEvent::Failed(e) => Some(&e.executor),
        RunEvent::Expired(_) | RunEvent::Cancelled(_) | RunEvent::Lost(_) => None,
    }
}

fn cut(text: &mut String, max_bytes: usize) {
    text.truncate(text.floor_char_boundary(max_bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    use cronstream_schemas::event::{Cause, Ended, RetryPolicy};
    use cronstream_schemas::id::{Epoch, Incarnation, Instance, Revision, RunId, RunSeed};
    use uuid::Uuid;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn fire(fire_no: u32, max_attempts: u32) -> Fired {
        let job = "billing/nightly".parse().unwrap();
        let run = RunId::derive(NOW, &job, Incarnation(1), RunSeed::Slot(NOW));
        Fired {
            job,
            revision: Revision(1),
            incarnation: Incarnation(1),
            run,
            shard: 0,
            shards: 1,
            fire_no,
            cause: Cause::Slot(NOW),
            scheduled_at: NOW,
            fired_at: NOW,
            queue: "reports".parse().unwrap(),
            task: "report".parse().unwrap(),
            params: Json::empty(),
            timeout: Span::from_secs(60),
            start_by: NOW.plus(std::time::Duration::from_secs(60)),
            run_by: NOW.plus(std::time::Duration::from_secs(600)),
            keep_until: NOW.plus(std::time::Duration::from_secs(6_000)),
            retry: RetryPolicy {
                max_attempts,
                base: Span::from_secs(1),
                cap: Span::from_secs(300),
            },
            epoch: Epoch(1),
            traceparent: run.trace_context("fire.0.1", true).to_string(),
            node: None,
            tzdb: None,
        }
    }

    fn executor(n: u128) -> Executor {
        let node = format!("e{n}").parse().unwrap();
        Executor { node, instance: Instance(Uuid::from_u128(n)) }
    }

    fn failure(retry: Retry) -> TaskOutcome {
        let failure = Failure { kind: FailureKind::Error, message: "no".into() };
        TaskOutcome::Failure { failure, retry, output: None }
    }

    fn success() -> TaskOutcome {
        TaskOutcome::Success { result: None, output: None }
    }

    fn text(event: &RunEvent) -> String {
        let Place { fire_no, delivery, attempt } = event.place();
        format!("{} {fire_no}.{delivery}.{attempt}", event.kind())
    }

    /// A shard's log and the executors that act on it, for transcripts.
    struct Shard {
        max_attempts: u32,
        log: Vec<RunEvent>,
    }

    impl Shard {
        fn new(max_attempts: u32) -> Self {
            Self { max_attempts, log: Vec::new() }
        }

        fn last(&self) -> Option<Last> {
            self.log.last().map(|event| Last { seq: self.log.len() as u64, event: event.clone() })
        }

        /// Compare-and-set, as the store does it.
        fn append(&mut self, event: RunEvent, expected_seq: u64) -> bool {
            let stands = expected_seq == self.log.len() as u64;
            if stands {
                self.log.push(event);
            }
            stands
        }

        /// Fire `fire_no` is delivered to executor `n`, which starts it, then ends as `task` says, or crashes.
        fn deliver(&mut self, fire_no: u32, n: u128, task: Option<TaskOutcome>) -> &'static str {
            let fire = fire(fire_no, self.max_attempts);
            match decide(&fire, self.last().as_ref(), &executor(n), NOW) {
                Decision::Ack => "ack",
                Decision::Leave => "leave",
                Decision::FailCrashed { event, expected_seq } => {
                    assert!(self.append(event, expected_seq));
                    "fail crashed"
                }
                Decision::Start { place, expected_seq } => {
                    assert!(self.append(started(place, executor(n)), expected_seq));
                    if let Some(task) = task {
                        let token = self.log.len() as u64;
                        assert!(self.append(outcome(&fire, place, executor(n), task), token));
                    }
                    "start"
                }
            }
        }

        fn transcript(&self) -> Vec<String> {
            self.log.iter().map(text).collect()
        }
    }

    #[test]
    fn a_first_delivery_starts_and_the_second_is_acknowledged() {
        let mut shard = Shard::new(3);
        assert_eq!(shard.deliver(1, 1, Some(success())), "start");
        assert_eq!(shard.deliver(1, 2, Some(success())), "ack");
        assert_eq!(shard.transcript(), ["started 1.1.1", "succeeded 1.1.1"]);
    }

    #[test]
    fn retries_and_crashes_count_together() {
        let mut shard = Shard::new(3);
        assert_eq!(shard.deliver(1, 1, Some(failure(Retry::After(None)))), "start");
        assert_eq!(shard.deliver(1, 2, None), "ack");
        assert_eq!(shard.deliver(2, 1, None), "start");
        assert_eq!(shard.deliver(2, 2, Some(failure(Retry::After(None)))), "start");
        assert_eq!(shard.deliver(2, 3, None), "ack");
        assert_eq!(
            shard.transcript(),
            [
                "started 1.1.1",
                "attempt_failed 1.1.1",
                "started 2.1.2",
                "started 2.2.3",
                "failed 2.2.3"
            ]
        );
    }

    #[test]
    fn a_poison_task_ends_in_a_crash_of_its_last_attempt() {
        let mut shard = Shard::new(2);
        assert_eq!(shard.deliver(1, 1, None), "start");
        assert_eq!(shard.deliver(1, 2, None), "start");
        assert_eq!(shard.deliver(1, 3, None), "fail crashed");
        assert_eq!(shard.deliver(1, 4, None), "ack");
        assert_eq!(shard.transcript(), ["started 1.1.1", "started 1.2.2", "failed 1.3.2"]);
        let Some(RunEvent::Failed(failed)) = shard.log.last() else { panic!("{:?}", shard.log) };
        assert_eq!(failed.failure.kind, FailureKind::Crashed);
        assert_eq!(failed.failure.message, "e2 was lost during attempt 2 of 2");
    }

    #[test]
    fn an_interrupted_attempt_does_not_count() {
        let mut shard = Shard::new(1);
        for (n, delivery) in [(1, 1), (2, 2), (3, 3)] {
            assert_eq!(shard.deliver(1, n, None), "start");
            let place = Place { fire_no: 1, delivery, attempt: 1 };
            let token = shard.log.len() as u64;
            assert!(shard.append(interrupted(place, executor(n)), token));
        }
        assert_eq!(shard.deliver(1, 4, Some(success())), "start");
        assert_eq!(
            shard.transcript(),
            [
                "started 1.1.1",
                "interrupted 1.1.0",
                "started 1.2.1",
                "interrupted 1.2.0",
                "started 1.3.1",
                "interrupted 1.3.0",
                "started 1.4.1",
                "succeeded 1.4.1"
            ]
        );
    }

    #[test]
    fn a_final_failure_ends_the_shard_with_attempts_left() {
        let mut shard = Shard::new(3);
        assert_eq!(shard.deliver(1, 1, Some(failure(Retry::Never))), "start");
        assert_eq!(shard.deliver(2, 1, None), "ack");
        assert_eq!(shard.transcript(), ["started 1.1.1", "failed 1.1.1"]);
    }

    #[test]
    fn every_last_event_has_its_decision() {
        let ended = |fire_no| {
            let place = Place { fire_no, delivery: 1, attempt: 1 };
            Ended { place, epoch: Epoch(1), command: None }
        };
        let at = |fire_no| Place { fire_no, delivery: 1, attempt: 1 };
        let failed =
            |fire_no| outcome(&fire(2, 3), at(fire_no), executor(1), failure(Retry::After(None)));
        // For an event of an earlier fire, of this fire, and of a later fire.
        type Case = (fn(u32) -> RunEvent, [&'static str; 3]);
        let begun: Case = (
            |n| started(Place { fire_no: n, delivery: 1, attempt: 1 }, executor(1)),
            ["start 2.1.2", "start 2.2.2", "ack"],
        );
        let back: Case = (
            |n| interrupted(Place { fire_no: n, delivery: 1, attempt: 1 }, executor(1)),
            ["start 2.1.1", "start 2.2.1", "ack"],
        );
        let check = |event: RunEvent, expected: &str| {
            let last = Last { seq: 7, event };
            let decision = match decide(&fire(2, 3), Some(&last), &executor(2), NOW) {
                Decision::Ack => "ack".to_owned(),
                Decision::Start { place, expected_seq: 7 } => {
                    format!("start {}.{}.{}", place.fire_no, place.delivery, place.attempt)
                }
                other => format!("{other:?}"),
            };
            assert_eq!(decision, expected, "{last:?}");
        };
        for (event, expected) in [begun, back] {
            for (fire_no, expected) in (1..).zip(expected) {
                check(event(fire_no), expected);
            }
        }
        for (fire_no, expected) in (1..).zip(["start 2.1.2", "ack", "ack"]) {
            check(failed(fire_no), expected);
            check(outcome(&fire(2, 3), at(fire_no), executor(1), success()), "ack");
            check(outcome(&fire(2, 3), at(fire_no), executor(1), failure(Retry::Never)), "ack");
            check(RunEvent::Expired(ended(fire_no)), "ack");
            check(RunEvent::Cancelled(ended(fire_no)), "ack");
            check(RunEvent::Lost(ended(fire_no)), "ack");
        }
    }

    #[test]
    fn nothing_starts_after_its_time_but_an_ended_fire_is_acknowledged() {
        let fire = fire(1, 3);
        let after = |at: Timestamp| at.plus(std::time::Duration::from_millis(1));
        let start = started(Place { fire_no: 1, delivery: 1, attempt: 1 }, executor(1));
        let start = Last { seq: 1, event: start };
        let decide = |last: Option<&Last>, now| decide(&fire, last, &executor(2), now);
        assert!(matches!(decide(None, fire.start_by), Decision::Start { .. }));
        assert_eq!(decide(None, after(fire.start_by)), Decision::Leave);
        assert!(matches!(decide(Some(&start), fire.run_by), Decision::Start { .. }));
        assert_eq!(decide(Some(&start), after(fire.run_by)), Decision::Leave);
        let place = start.event.place();
        let end = outcome(&fire, place, executor(1), success());
        assert_eq!(decide(Some(&Last { seq: 2, event: end }), Timestamp::MAX), Decision::Ack);
    }

    #[test]
    fn a_lost_answer_is_settled_by_what_stands() {
        let fire = fire(1, 3);
        let at = |delivery| Place { fire_no: 1, delivery, attempt: delivery };
        let mine = started(at(1), executor(1));
        let settle = |last: Option<(u64, RunEvent)>| {
            let last = last.map(|(seq, event)| Last { seq, event });
            after_refusal(&fire, &mine, 0, last.as_ref())
        };
        assert_eq!(settle(None), Refusal::Resend);
        assert_eq!(settle(Some((4, mine.clone()))), Refusal::Won { seq: 4 });
        assert_eq!(settle(Some((4, started(at(1), executor(2))))), Refusal::Drop);
        assert_eq!(settle(Some((5, started(at(2), executor(1))))), Refusal::Drop);
        assert_eq!(settle(Some((5, outcome(&fire, at(1), executor(2), success())))), Refusal::Ack);
        let failed = outcome(&fire, at(1), executor(2), failure(Retry::After(None)));
        assert_eq!(settle(Some((5, failed))), Refusal::Ack);
    }

    #[test]
    fn a_start_from_a_stale_read_is_decided_again() {
        let fire = fire(2, 3);
        let at = |fire_no| Place { fire_no, delivery: 1, attempt: fire_no };
        let mine = started(at(2), executor(1));
        let settle = |event| after_refusal(&fire, &mine, 4, Some(&Last { seq: 5, event }));
        let failed = outcome(&fire, at(1), executor(2), failure(Retry::After(None)));
        assert_eq!(settle(failed), Refusal::Again);
        assert_eq!(settle(started(at(1), executor(2))), Refusal::Again);
        assert_eq!(settle(interrupted(at(2), executor(2))), Refusal::Again);
        assert_eq!(settle(started(at(2), executor(2))), Refusal::Drop);
    }

    #[test]
    fn an_outcome_of_a_zombie_is_dropped_until_the_shard_is_over() {
        let fire = fire(1, 3);
        let place = Place { fire_no: 1, delivery: 1, attempt: 1 };
        let mine = outcome(&fire, place, executor(1), success());
        let settle = |seq, event| after_refusal(&fire, &mine, 4, Some(&Last { seq, event }));
        assert_eq!(settle(4, started(place, executor(1))), Refusal::Resend);
        assert_eq!(settle(5, mine.clone()), Refusal::Won { seq: 5 });
        let second = Place { delivery: 2, attempt: 2, ..place };
        assert_eq!(settle(5, started(second, executor(2))), Refusal::Drop);
        assert_eq!(settle(6, outcome(&fire, second, executor(2), success())), Refusal::Ack);
        let retry = Place { fire_no: 2, delivery: 1, attempt: 3 };
        assert_eq!(settle(7, started(retry, executor(2))), Refusal::Ack);
        assert_eq!(after_refusal(&fire, &mine, 4, None), Refusal::Drop);
    }

    #[test]
    fn only_a_later_event_overtakes_an_attempt() {
        assert!(!is_overtaken(4, None));
        assert!(!is_overtaken(4, Some(3)));
        assert!(!is_overtaken(4, Some(4)));
        assert!(is_overtaken(4, Some(5)));
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let message = "é".repeat(MESSAGE_MAX_BYTES);
        let failure = Failure { kind: FailureKind::Error, message };
        let task = TaskOutcome::Failure { failure, retry: Retry::Never, output: None };
        let event = outcome(&fire(1, 3), Place::default(), executor(1), task);
        let RunEvent::Failed(failed) = event else { panic!("{event:?}") };
        assert_eq!(failed.failure.message.len(), MESSAGE_MAX_BYTES);
    }
}
