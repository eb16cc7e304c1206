//! The checker itself: a good history passes, and each way to break a guarantee is told by its name.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test's own helpers may panic")]

use std::time::Duration;

use cronstream_schemas::event::{
    Cursor, Fired, Held, HeldReason, JobState, LogEvent, RunEvent, SkippedWhat, Started, Succeeded,
};
use cronstream_schemas::id::{
    Epoch, Incarnation, Instance, Partition, Revision, RunId, RunSeed, Tick,
};
use cronstream_schemas::time::Timestamp;
use cronstream_tests::checker::{Held as AtEnd, Terms, Verdict, Violation, check};
use cronstream_tests::history::{Effect, History, Oddity, Stored};
use cronstream_tests::sample::{self, BEGIN, SLOTS, Story, at, fired, good, job, skipped};

fn terms() -> Terms {
    Terms {
        through: at(SLOTS),
        max_clock_error: Duration::from_millis(500),
        faults_since: Some(BEGIN),
        held_at_end: AtEnd::Undecided,
    }
}

fn state(revision: u64, schedule: &str, from: Timestamp) -> JobState {
    sample::state(revision, schedule, BEGIN, from)
}

/// The history's event behind which another one is to be put, or that is to be broken.
fn position(history: &History, wanted: impl Fn(&LogEvent) -> bool) -> usize {
    history.log.iter().position(|stored| wanted(&stored.event)).unwrap()
}

fn fire_of(history: &History, second: u64) -> usize {
    position(history, |event| matches!(event, LogEvent::Fired(it) if it.scheduled_at == at(second)))
}

fn fire_mut(history: &mut History, second: u64) -> &mut Fired {
    let index = fire_of(history, second);
    let LogEvent::Fired(fired) = &mut history.log[index].event else { panic!("no fire") };
    fired
}

fn cursors_mut(history: &mut History) -> Vec<(&mut Option<(Epoch, Tick)>, &mut Cursor)> {
    let log = history.log.iter_mut();
    log.filter_map(|stored| match &mut stored.event {
        LogEvent::Cursor(cursor) => Some((&mut stored.tick, cursor)),
        _ => None,
    })
    .collect()
}

/// Puts a copy of an event, changed, behind all others, in a batch of its own that is well fenced.
fn append_batch(history: &mut History, event: LogEvent) {
    let cursor = history.log.last().unwrap().clone();
    let (epoch, tick) = cursor.tick.unwrap();
    let tick = Tick(tick.0 + 1);
    let LogEvent::Cursor(mut next) = cursor.event else { panic!("no cursor") };
    next.tick = tick;
    for event in [event, LogEvent::Cursor(next)] {
        let sequence = history.log.len() as u64 + 1;
        let (at, subject) = (cursor.at, cursor.subject.clone());
        history.log.push(Stored { sequence, at, subject, tick: Some((epoch, tick)), event });
    }
}

fn verdict(history: &History) -> Verdict {
    check(history, &terms())
}

#[test]
fn a_good_history_passes() {
    assert_eq!(verdict(&good()), Verdict::Pass);
}

#[test]
fn a_history_without_the_first_cursors_passes_because_rollup_takes_them() {
    let mut history = good();
    let last = history.log.len() - 1;
    let mut index = 0;
    history.log.retain(|stored| {
        index += 1;
        index > last - 3 || !matches!(stored.event, LogEvent::Cursor(_))
    });
    history.breaks.push(at(3));
    assert_eq!(verdict(&history), Verdict::Pass);
}

type Break = (&'static str, fn(&mut History), fn(&Violation) -> bool);

#[test]
fn each_wrong_number_of_outcomes_is_told() {
    let cases: [Break; 6] = [
        (
            "the same fire twice",
            |history| {
                let fired = history.log[fire_of(history, 1)].event.clone();
                append_batch(history, fired);
            },
            |it| matches!(it, Violation::FiredTwice { .. }),
        ),
        (
            "the same slot twice under another run id",
            |history| {
                let mut fired = fire_mut(history, 1).clone();
                fired.run = RunId::derive(at(1), &job(), Incarnation(2), RunSeed::Slot(at(1)));
                fired.epoch = Epoch(2);
                append_batch(history, LogEvent::Fired(fired));
            },
            |it| matches!(it, Violation::FiredTwice { .. }),
        ),
        (
            "a slot fired and skipped",
            |history| append_batch(history, skipped(6, 6, 2)),
            |it| matches!(it, Violation::TwoOutcomes { sequences, .. } if sequences.len() == 2),
        ),
        (
            "a slot skipped twice",
            |history| append_batch(history, skipped(3, 3, 1)),
            |it| matches!(it, Violation::TwoOutcomes { .. }),
        ),
        (
            "a due slot without outcome",
            |history| {
                let index = fire_of(history, 7);
                history.log.remove(index);
            },
            |it| matches!(it, Violation::NoOutcome { slot, .. } if *slot == at(7)),
        ),
        (
            "one shard of two without outcome",
            |history| fire_mut(history, 7).shards = 2,
            |it| matches!(it, Violation::NoOutcome { slot, .. } if *slot == at(7)),
        ),
    ];
    expect(&cases);
}

#[test]
fn each_outcome_that_does_not_fit_the_schedule_is_told() {
    let cases: [Break; 6] = [
        (
            "a slot that is not due",
            |history| {
                let slot = at(6).plus(Duration::from_millis(300));
                append_batch(history, LogEvent::Fired(fired(slot, 2, 1, Epoch(2))));
            },
            |it| matches!(it, Violation::NotDue { .. }),
        ),
        (
            "a slot of a paused job",
            |history| {
                let mut paused = state(2, r#"{"every":"1s"}"#, at(7));
                paused.paused = Some(at(7));
                paused.command = 3;
                let index = fire_of(history, 8);
                let tick = history.log[index].tick;
                let stored = Stored {
                    tick,
                    event: LogEvent::JobPaused(paused),
                    ..history.log[index].clone()
                };
                history.log.insert(index, stored);
            },
            |it| matches!(it, Violation::NotDue { slot, .. } if *slot == at(8)),
        ),
        (
            "a slot under the old revision",
            |history| fire_mut(history, 6).revision = Revision(1),
            |it| matches!(it, Violation::WrongRevision { .. }),
        ),
        (
            "a skipped range that counts wrong",
            |history| {
                let index = position(history, |event| matches!(event, LogEvent::Skipped(_)));
                let LogEvent::Skipped(it) = &mut history.log[index].event else { panic!() };
                it.what = SkippedWhat::Slots { first: at(3), last: at(4), count: 3 };
            },
            |it| matches!(it, Violation::WrongCount { expected: 2, .. }),
        ),
        (
            "a fire stored too early",
            |history| {
                let index = fire_of(history, 6);
                history.log[index].at = at(6).minus(Duration::from_millis(501));
            },
            |it| matches!(it, Violation::FiredEarly { .. }),
        ),
        (
            "a retry without its first fire",
            |history| fire_mut(history, 2).fire_no = 3,
            |it| matches!(it, Violation::FireGap { .. }),
        ),
    ];
    expect(&cases);
}

#[test]
fn each_broken_guarantee_of_the_leaders_is_told() {
    let cases: [Break; 5] = [
        (
            "a tick that stands twice",
            |history| {
                let mut cursors = cursors_mut(history);
                let (tick, cursor) = cursors.pop().unwrap();
                cursor.tick.0 -= 1;
                *tick = Some((cursor.epoch, cursor.tick));
            },
            |it| matches!(it, Violation::CursorFell { .. }),
        ),
        (
            "an epoch that falls",
            |history| {
                let mut cursors = cursors_mut(history);
                let (tick, cursor) = cursors.pop().unwrap();
                cursor.epoch = Epoch(1);
                *tick = Some((cursor.epoch, cursor.tick));
            },
            |it| matches!(it, Violation::CursorFell { .. }),
        ),
        (
            "two holders in one epoch",
            |history| {
                let mut cursors = cursors_mut(history);
                cursors.pop().unwrap().1.holder = Instance(uuid::Uuid::from_u128(77));
            },
            |it| matches!(it, Violation::TwoHolders { .. }),
        ),
        (
            "a fire without a batch",
            |history| {
                let mut alone = history.log[fire_of(history, 7)].clone();
                let of = Partition::of(&job(), 2);
                cursors_mut(history).into_iter().for_each(|(_, cursor)| cursor.partition = of);
                let mut other = history.log[1].clone();
                let LogEvent::Cursor(cursor) = &mut history.log[2].clone().event else { panic!() };
                cursor.partition = Partition(1 - of.0);
                (alone.sequence, alone.tick) = (history.log.len() as u64 + 1, None);
                (other.sequence, other.event) =
                    (alone.sequence + 1, LogEvent::Cursor(cursor.clone()));
                history.log.extend([alone, other]);
                history.partitions = 2;
            },
            |it| matches!(it, Violation::Unfenced { tick: None, .. }),
        ),
        (
            "a fire of a leader that was replaced",
            |history| {
                fire_mut(history, 7).epoch = Epoch(1);
                let index = fire_of(history, 7);
                history.log[index].tick = Some((Epoch(1), Tick(99)));
            },
            |it| matches!(it, Violation::Unfenced { tick: Some(_), .. }),
        ),
    ];
    expect(&cases);
}

#[test]
fn each_message_that_should_not_be_is_told() {
    let cases: [Break; 2] = [
        (
            "a message that no version wrote",
            |history| {
                let (subject, why) = ("cron.fire.q.a.b".into(), "truncated".into());
                history.oddities.push(Oddity::Unreadable { subject, sequence: 7, why });
            },
            |it| matches!(it, Violation::Odd(Oddity::Unreadable { .. })),
        ),
        (
            "a message that vanished",
            |history| {
                let subject = "cron.fire.q.a.b".into();
                history.oddities.push(Oddity::Vanished { subject, sequence: 7 });
            },
            |it| matches!(it, Violation::Odd(Oddity::Vanished { .. })),
        ),
    ];
    expect(&cases);
}

#[test]
fn each_broken_guarantee_of_the_runs_is_told() {
    let cases: [Break; 7] = [
        (
            "two terminal events",
            |history| {
                let last = history.runs.last().unwrap().clone();
                history.runs.push(Stored { sequence: last.sequence + 1, ..last });
            },
            |it| matches!(it, Violation::TwoTerminals { .. }),
        ),
        (
            "an event behind a terminal one",
            |history| {
                let started = history.runs[0].clone();
                history.runs.push(Stored { sequence: 99, ..started });
            },
            |it| matches!(it, Violation::AfterTerminal { sequence: 99, .. }),
        ),
        (
            "a run without a result",
            |history| drop(history.runs.pop()),
            |it| matches!(it, Violation::NoTerminal { slot, .. } if *slot == at(SLOTS)),
        ),
        (
            "a run that nobody fired",
            |history| {
                let mut run = history.runs[0].clone();
                let other = RunId::derive(at(1), &job(), Incarnation(1), RunSeed::Trigger("k"));
                run.subject = format!("cron.run.default.a.b.{other}.0");
                run.sequence = 99;
                history.runs.push(run);
            },
            |it| matches!(it, Violation::RunWithoutFire { sequence: 99, .. }),
        ),
        (
            "a failure without a dead letter",
            |history| history.dead.clear(),
            |it| matches!(it, Violation::NoDeadLetter { .. }),
        ),
        (
            "a dead letter of a run that succeeded",
            |history| history.dead[0].event.fired = fire_mut(&mut good(), 1).clone(),
            |it| matches!(it, Violation::WrongDeadLetter { .. }),
        ),
        (
            "two dead letters of one run",
            |history| {
                let letter = history.dead[0].clone();
                history.dead.push(letter);
            },
            |it| matches!(it, Violation::WrongDeadLetter { .. }),
        ),
    ];
    expect(&cases);
}

#[test]
fn each_effect_that_the_streams_do_not_explain_is_told() {
    let cases: [Break; 4] = [
        (
            "a task that began before its slot",
            |history| history.effects[0].at = at(1).minus(Duration::from_millis(501)),
            |it| matches!(it, Violation::EffectEarly { .. }),
        ),
        (
            "an attempt that ended twice",
            |history| {
                let end = history.effects[1].clone();
                history.effects.push(end);
            },
            |it| matches!(it, Violation::EffectTwice { .. }),
        ),
        (
            "a task without a Started event",
            |history| {
                let effect = Effect { token: 2, ..history.effects[0].clone() };
                history.effects.push(effect);
            },
            |it| matches!(it, Violation::EffectWithoutStart { token: 2, .. }),
        ),
        (
            "a task with the token of another run",
            |history| history.effects[0].token = history.effects.last().unwrap().token,
            |it| matches!(it, Violation::EffectWithoutStart { .. }),
        ),
    ];
    expect(&cases);
}

fn expect(cases: &[Break]) {
    for (what, spoil, expected) in cases {
        let mut history = good();
        spoil(&mut history);
        match verdict(&history) {
            Verdict::Fail(found) if found.iter().any(expected) => {}
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn a_history_in_which_no_fault_did_anything_is_no_evidence() {
    let mut history = good();
    let faults_since = Some(at(6));
    let late = Terms { faults_since, ..terms() };
    assert!(matches!(check(&history, &late), Verdict::Inconclusive(_)));
    history.breaks.push(at(7));
    assert_eq!(check(&history, &late), Verdict::Pass);
    history.breaks.clear();
    assert_eq!(check(&history, &Terms { faults_since: None, ..late }), Verdict::Pass);
    assert!(matches!(verdict(&History::default()), Verdict::Inconclusive(_)));
}

#[test]
fn only_a_pass_lets_a_test_pass() {
    assert!(Verdict::Pass.passed().is_ok());
    let error = Verdict::Inconclusive("no fault".into()).passed().unwrap_err();
    assert_eq!(error.to_string(), "inconclusive: no fault");
    let shard = fired(at(1), 1, 1, Epoch(1)).shard_id();
    let error = Verdict::Fail(vec![Violation::NoDeadLetter { shard }; 60]).passed().unwrap_err();
    assert!(error.to_string().starts_with("60 violations"));
    assert_eq!(error.to_string().lines().count(), 51);
}

#[test]
fn a_slot_may_be_held_to_the_end_where_the_cluster_was_told_to_hold() {
    let mut history = good();
    let definition = state(2, r#"{"every":"1s"}"#, BEGIN).definition.unwrap();
    append_batch(
        &mut history,
        LogEvent::Held(Held {
            job: job(),
            revision: Revision(2),
            incarnation: Incarnation(1),
            fire_within: definition.timeout,
            definition,
            slot: at(9),
            why: HeldReason::Hold,
            due: None,
            range: None,
        }),
    );
    let terms = Terms { through: at(9), ..terms() };
    assert!(matches!(check(&history, &terms), Verdict::Fail(_)));
    assert_eq!(check(&history, &Terms { held_at_end: AtEnd::Fine, ..terms }), Verdict::Pass);
}

#[test]
fn a_one_time_job_has_one_slot() {
    let mut story = Story::begin();
    let schedule = format!(r#"{{"at":"{}"}}"#, at(3));
    story.batch(vec![LogEvent::JobDefined(state(1, &schedule, BEGIN))]);
    let missing = Terms { faults_since: None, ..terms() };
    assert!(matches!(check(&story.history, &missing), Verdict::Fail(found) if found.len() == 1));
    story.now = at(3);
    let fired = fired(at(3), 1, 1, Epoch(1));
    story.batch(vec![LogEvent::Fired(fired.clone())]);
    story.attempt(&fired, |Started { place, executor }| {
        RunEvent::Succeeded(Succeeded { place, executor, result: None, output: None })
    });
    assert_eq!(check(&story.history, &missing), Verdict::Pass);
}
