//! Every outcome by its facts; [`absent`] has those without a record.

mod absent;

use cronstream_core::calendar::Calendars;
use cronstream_core::plan::Plan;
use cronstream_schemas::definition::Draft;
use cronstream_schemas::event::{
    Cause, Fired, HeldReason, JobState, LogEvent, Overrides, RunEvent, SkipReason, Skipped,
};
use cronstream_schemas::id::{Epoch, Incarnation, Revision};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use serde_json::{Value, json};

use super::facts::{
    Before, Command, Decision, Facts, Pause, Pool, Record, Request, Stored, Takeover, in_force,
};
use super::verdict::{Explanation, Outcome, explain};

const DAY_BEFORE: &str = "2027-01-04T03:00:00Z";
const RUN: &str = "01a31bbc-507b-8dab-b5ee-be7b4b3cf84b";

pub(super) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn job() -> JobId {
    "billing/nightly".parse().unwrap()
}

/// A state in force after an instant, with this schedule.
pub(super) fn state(after: &str, revision: u64, schedule: &str) -> JobState {
    state_with(after, revision, &format!(r#"{{"task":"t","schedule":{schedule}}}"#))
}

fn state_with(after: &str, revision: u64, body: &str) -> JobState {
    JobState {
        job: job(),
        revision: Revision(revision),
        incarnation: Incarnation(1),
        definition: Draft::decode(body.as_bytes()).finish().ok(),
        anchor: at(after),
        effective_after: at(after),
        paused: None,
        overrides: Overrides::default(),
        tzdb: None,
        command: revision,
        at: at(after),
    }
}

pub(super) fn plan(state: &JobState) -> Plan {
    let definition = state.definition.as_ref().unwrap();
    Plan::compile(definition, &state.job, state.anchor, &Calendars::default()).unwrap()
}

fn fired(slot: &str, fired_at: &str, epoch: u64) -> Fired {
    let event = json!({ "fired": {
        "job": "billing/nightly", "revision": 1, "incarnation": 1, "run": RUN, "shard": 0, "shards": 1,
        "fire_no": 1, "cause": { "slot": slot }, "scheduled_at": slot, "fired_at": fired_at,
        "queue": "reports", "task": "t", "params": {}, "timeout": "1h", "start_by": slot, "run_by": slot,
        "keep_until": slot, "retry": { "max_attempts": 3, "base": "1s", "cap": "1m" }, "epoch": epoch,
        "traceparent": "", "node": format!("t{epoch}")
    }});
    match serde_json::from_value::<LogEvent>(event).unwrap() {
        LogEvent::Fired(fired) => fired,
        other => panic!("{other:?}"),
    }
}

fn skipped(reason: SkipReason, slot: &str, decided: &str, epoch: u64) -> Record {
    let event = json!({
        "job": "billing/nightly", "revision": 1, "incarnation": 1, "reason": reason, "at": decided,
        "what": { "slots": { "first": slot, "last": slot, "count": 1 } }, "epoch": epoch, "node": "t9"
    });
    let what: Skipped = serde_json::from_value(event).unwrap();
    Record::Skipped(Stored { at: at(decided), what })
}

fn step(at_text: &str, event: Value) -> Stored<RunEvent> {
    Stored { at: at(at_text), what: serde_json::from_value(event).unwrap() }
}

fn started(at_text: &str) -> Stored<RunEvent> {
    let place = json!({ "fire_no": 1, "delivery": 1, "attempt": 1 });
    let executor = json!({ "node": "e1", "instance": RUN });
    step(at_text, json!({ "started": { "place": place, "executor": executor } }))
}

fn succeeded(at_text: &str) -> Stored<RunEvent> {
    let place = json!({ "fire_no": 1, "delivery": 1, "attempt": 1 });
    let executor = json!({ "node": "e1", "instance": RUN });
    step(at_text, json!({ "succeeded": { "place": place, "executor": executor } }))
}

fn ran(slot: &str, fired_at: &str, epoch: u64) -> Record {
    let what = fired(slot, fired_at, epoch);
    Record::Fired(vec![Stored { at: at(fired_at), what }])
}

/// A run of the day before.
fn before(cause: Value, ended: Option<&str>) -> Before {
    Before {
        run: RUN.parse().unwrap(),
        cause: serde_json::from_value(cause).unwrap(),
        slot: at(DAY_BEFORE),
        ended: ended.map(at),
    }
}

fn slot_before(ended: Option<&str>) -> Before {
    before(json!({ "slot": DAY_BEFORE }), ended)
}

/// Another leader's decision before the slot, and the first one behind it.
fn takeover(first: &str) -> Takeover {
    let decision = |epoch: u64, text: &str| {
        let node = format!("t{epoch}").parse().ok();
        Decision { node, epoch: Epoch(epoch), at: at(text) }
    };
    Takeover { last: decision(5, "2027-01-04T03:00:00Z"), first: decision(6, first) }
}

fn command(seq: u64, text: &str) -> Command {
    Command { seq, at: at(text), author: Some("ada".into()) }
}

/// A job of every day at three, asked about on 5 January 2027, a day later.
struct Case {
    newest: JobState,
    history: Vec<JobState>,
    calendars: Calendars,
    asked: &'static str,
    now: &'static str,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            newest: state("2027-01-01T00:00:00Z", 1, r#"{"cron":"0 3 * * *"}"#),
            history: Vec::new(),
            calendars: Calendars::default(),
            asked: SLOT,
            now: "2027-01-06T00:00:00Z",
        }
    }
}

const SLOT: &str = "2027-01-05T03:00:00Z";

impl Case {
    fn with(body: &str) -> Self {
        let body = format!(r#"{{"task":"t","schedule":{{"cron":"0 3 * * *"}},{body}}}"#);
        let newest = state_with("2027-01-01T00:00:00Z", 1, &body);
        assert!(newest.definition.is_some(), "{body}");
        Self { newest, ..Self::default() }
    }

    /// The explanation, which has to have this outcome and say all of these.
    fn check(
        &self,
        set: impl FnOnce(&mut Facts<'_>),
        outcome: Outcome,
        says: &[&str],
    ) -> Explanation {
        let then = in_force(&self.history, &self.newest, at(self.asked));
        let mut facts = Facts {
            asked: at(self.asked),
            now: at(self.now),
            newest: &self.newest,
            then,
            calendars: &self.calendars,
            record: Record::Nothing,
            held_until: None,
            before: None,
            takeover: None,
            pause: None,
            request: None,
            decided: None,
            pool: None,
            run: Vec::new(),
        };
        set(&mut facts);
        let told = explain(&facts);
        let text = format!("{}\n{}", told.summary, told.because.join("\n"));
        assert_eq!(told.outcome, outcome, "{text}");
        for said in says {
            assert!(text.contains(said), "{said:?} is not in:\n{text}");
        }
        told
    }
}

#[test]
fn a_slot_that_ran_on_time_says_by_which_rule_and_where() {
    let told = Case::default().check(
        |facts| {
            facts.record = ran(SLOT, "2027-01-05T03:00:00.004Z", 5);
            facts.run =
                vec![started("2027-01-05T03:00:00.010Z"), succeeded("2027-01-05T03:01:00Z")];
        },
        Outcome::Ran,
        &["executor e1", "at 03:00", "succeeded at 2027-01-05T03:01", "after 1 start"],
    );
    assert_eq!(told.slot, Some(at(SLOT)));
    assert_eq!(told.nearest, (Some(at("2027-01-04T03:00:00Z")), Some(at("2027-01-06T03:00:00Z"))));
    assert_eq!(told.leader.unwrap().epoch, Some(Epoch(5)));
}

#[test]
fn a_late_run_says_which_part_was_late() {
    let late = |set: fn(&mut Facts<'_>), says: &[&str]| {
        Case::default().check(
            |facts| {
                facts.record = ran(SLOT, "2027-01-05T03:00:30Z", 6);
                facts.run = vec![started("2027-01-05T03:00:40Z")];
                set(facts);
            },
            Outcome::RanLate,
            says,
        );
    };
    late(
        |_| {},
        &["40.0s late", "leader t6 decided it 30.0s after", "waited 10.0s in queue reports"],
    );
    late(
        |facts| facts.takeover = Some(takeover("2027-01-05T03:00:29Z")),
        &["changed its leader", "t5 (term 5)", "t6 (term 6) took over", "nobody decided"],
    );
    late(
        |facts| {
            let (begun, ended) =
                (command(7, "2027-01-05T02:00:00Z"), command(8, "2027-01-05T03:00:29Z"));
            facts.pause = Some(Pause { begun, ended: Some(ended) });
        },
        &["paused from 2027-01-05T02:00:00.000Z (command 7 of ada) until"],
    );
    late(|facts| facts.held_until = Some(at("2027-01-05T03:00:30Z")), &["held until"]);
    late(
        |facts| {
            facts.held_until = Some(at("2027-01-05T03:00:30Z"));
            let backfill = json!({ "backfill": { "slot": DAY_BEFORE, "command": 13 } });
            facts.before = Some(before(backfill, Some("2027-01-05T03:00:29Z")));
        },
        &["held until", RUN, "asked for by backfill command 13, was live until then"],
    );
    late(
        |facts| {
            let to = Some(at("2027-01-05T03:00:30Z"));
            facts.request = Some(Request { command: command(9, "2027-01-05T01:00:00Z"), to });
        },
        &["shifted to 2027-01-05T03:00:30.000Z by command 9"],
    );
}

#[test]
fn jitter_is_told_as_the_reason_that_it_is() {
    let case = Case::with(r#""jitter":"10m""#);
    let jitter = Plan::compile(
        case.newest.definition.as_ref().unwrap(),
        &job(),
        at("2027-01-01T00:00:00Z"),
        &Calendars::default(),
    );
    let due = at(SLOT).plus(jitter.unwrap().jitter());
    let due_text: &'static str = Box::leak(due.to_string().into_boxed_str());
    case.check(
        |facts| {
            facts.record = ran(SLOT, due_text, 5);
            facts.run = vec![started(due_text)];
        },
        Outcome::RanLate,
        &["jitter: the job is due"],
    );
}

#[test]
fn what_no_executor_has_started_waits_or_has_expired() {
    let case = Case::default();
    case.check(
        |facts| facts.record = ran(SLOT, SLOT, 5),
        Outcome::Waiting,
        &["waits in queue reports"],
    );
    let with = |here, knowing| {
        move |facts: &mut Facts<'_>| {
            facts.record = ran(SLOT, SLOT, 5);
            facts.pool = Some(Pool { here, knowing });
        }
    };
    case.check(with(0, 0), Outcome::Waiting, &["no executor of queue reports answers now"]);
    case.check(
        with(2, 0),
        Outcome::Waiting,
        &["2 executors of queue reports answer now, and none knows task t"],
    );
    let told = case.check(with(2, 1), Outcome::Waiting, &["waits in queue reports"]);
    assert!(told.because.iter().all(|reason| !reason.contains("answer")), "{told:?}");
    case.check(
        |facts| {
            facts.record = ran(SLOT, SLOT, 5);
            let place = json!({ "fire_no": 0, "delivery": 0, "attempt": 0 });
            let end = json!({ "expired": { "place": place, "epoch": 5, "at": SLOT } });
            facts.run = vec![step("2027-01-05T05:00:00Z", end)];
        },
        Outcome::NeverStarted,
        &["ended as expired", "no executor of queue reports"],
    );
}

#[test]
fn attempts_that_failed_are_told_with_their_message() {
    Case::default().check(
        |facts| {
            facts.record = ran(SLOT, SLOT, 5);
            let place = json!({ "fire_no": 1, "delivery": 1, "attempt": 1 });
            let executor = json!({ "node": "e1", "instance": RUN });
            let failure = json!({ "kind": "timeout", "message": "took too long\nand more" });
            let failed = json!({ "place": place, "executor": executor, "failure": failure });
            facts.run = vec![
                started(SLOT),
                step("2027-01-05T03:10:00Z", json!({ "attempt_failed": failed.clone() })),
                started("2027-01-05T03:11:00Z"),
                step("2027-01-05T03:20:00Z", json!({ "failed": failed })),
            ];
        },
        Outcome::Ran,
        &["attempt 1 on e1 failed at", "(timeout): took too long", "failed at", "after 2 starts"],
    );
}

#[test]
fn triggers_and_backfills_say_that_they_are_no_slot_of_the_schedule() {
    let case = Case { asked: "2027-01-05T04:30:00Z", ..Case::default() };
    let by = |cause: Cause| {
        move |facts: &mut Facts<'_>| {
            let what = Fired { cause, ..fired("2027-01-05T04:30:00Z", "2027-01-05T04:30:00Z", 5) };
            facts.record = Record::Fired(vec![Stored { at: at("2027-01-05T04:30:00Z"), what }]);
            facts.run = vec![started("2027-01-05T04:30:00Z")];
        }
    };
    let trigger = serde_json::from_value(json!({ "trigger": { "command": 12, "key": "k" } }));
    case.check(by(trigger.unwrap()), Outcome::Ran, &["trigger \"k\", command 12"]);
    let backfill = serde_json::from_value(json!({ "backfill": { "slot": SLOT, "command": 13 } }));
    case.check(by(backfill.unwrap()), Outcome::Ran, &["a backfill, command 13, ran slot"]);
}

#[test]
fn a_missed_slot_says_what_kept_the_leader_and_which_policy_let_it_go() {
    let missed = |set: fn(&mut Facts<'_>), says: &[&str]| {
        Case::default().check(
            |facts| {
                facts.record = skipped(SkipReason::Misfire, SLOT, "2027-01-06T01:00:00Z", 9);
                set(facts);
            },
            Outcome::Skipped(SkipReason::Misfire),
            says,
        )
    };
    let told =
        missed(|_| {}, &["decided 22h0m after the slot", "fire_once", "late by more than 1m"]);
    assert_eq!(told.leader.unwrap().node.unwrap().as_str(), "t9");
    missed(
        |facts| {
            facts.takeover = Some(takeover("2027-01-06T01:00:00Z"));
        },
        &[
            "decided 22h0m after the slot, as nobody led",
            "t5 (term 5) decided last",
            "t6 (term 6) took over",
        ],
    );
    missed(
        |facts| {
            let begun = command(7, "2027-01-05T02:00:00Z");
            facts.pause = Some(Pause { begun, ended: Some(command(8, "2027-01-06T01:00:00Z")) });
        },
        &["paused from", "command 7 of ada"],
    );
}

#[test]
fn a_skipped_slot_names_the_run_or_the_command_that_kept_it() {
    let case = Case::default();
    let skip = |reason| move |facts: &mut Facts<'_>| facts.record = skipped(reason, SLOT, SLOT, 9);
    let overlap = |facts: &mut Facts<'_>| {
        skip(SkipReason::Overlap)(facts);
        facts.before = Some(slot_before(Some("2027-01-05T04:00:00Z")));
    };
    case.check(
        overlap,
        Outcome::Skipped(SkipReason::Overlap),
        &[RUN, "of 2027-01-04T03:00:00.000Z was live; it ended at 2027-01-05T04"],
    );
    let other = |facts: &mut Facts<'_>| {
        skip(SkipReason::Overlap)(facts);
        facts.before = Some(slot_before(Some("2027-01-04T04:00:00Z")));
    };
    case.check(
        other,
        Outcome::Skipped(SkipReason::Overlap),
        &["another run of the job was live", RUN, "had ended at 2027-01-04T04"],
    );
    let triggered = |facts: &mut Facts<'_>| {
        skip(SkipReason::Overlap)(facts);
        facts.before = Some(before(json!({ "trigger": { "command": 12 } }), None));
    };
    case.check(
        triggered,
        Outcome::Skipped(SkipReason::Overlap),
        &[RUN, "triggered by command 12", "was live; it has not ended yet"],
    );
    let late = |facts: &mut Facts<'_>| {
        skip(SkipReason::Overlap)(facts);
        facts.before = Some(slot_before(None));
        facts.takeover = Some(takeover("2027-01-05T03:10:00Z"));
    };
    case.check(late, Outcome::Skipped(SkipReason::Overlap), &["was live", "changed its leader"]);
    let requested = |facts: &mut Facts<'_>| {
        skip(SkipReason::Requested)(facts);
        facts.request = Some(Request { command: command(21, "2027-01-05T01:00:00Z"), to: None });
    };
    case.check(requested, Outcome::Skipped(SkipReason::Requested), &["asked by command 21 of ada"]);
    let paused = |facts: &mut Facts<'_>| {
        skip(SkipReason::Paused)(facts);
        facts.pause = Some(Pause { begun: command(7, "2027-01-05T02:00:00Z"), ended: None });
    };
    case.check(paused, Outcome::Skipped(SkipReason::Paused), &["is paused since"]);
    for (reason, says) in [
        (SkipReason::JobBacklog, "10000 runs of the job had no result yet"),
        (SkipReason::PartitionBacklog, "250000 runs of its partition"),
    ] {
        let says = [says, "an executor of queue default"];
        case.check(skip(reason), Outcome::Skipped(reason), &says);
    }
    let deleted = JobState { definition: None, command: 30, ..case.newest.clone() };
    let deleted = JobState {
        at: at("2027-01-05T05:00:00Z"),
        effective_after: at("2027-01-05T05:00:00Z"),
        ..deleted
    };
    let case = Case { history: vec![case.newest], newest: deleted, ..Case::default() };
    case.check(
        skip(SkipReason::Deleted),
        Outcome::Skipped(SkipReason::Deleted),
        &["deleted at 2027-01-05T05:00:00.000Z by command 30"],
    );
}

#[test]
fn a_held_slot_says_what_it_waits_for() {
    for (why, says) in [
        (HeldReason::Hold, "cronstream release"),
        (HeldReason::Jitter, "its jitter"),
        (HeldReason::Shifted, "shifted"),
        (HeldReason::CatchUp, "one after the other"),
        (HeldReason::Backfill, "backfill"),
        (HeldReason::Queued, "is live"),
        (HeldReason::CalendarMissing, "publish it again"),
    ] {
        let case = Case::default();
        let definition = serde_json::to_value(&case.newest.definition).unwrap();
        let held = json!({
            "job": "billing/nightly", "revision": 1, "incarnation": 1, "definition": definition,
            "slot": SLOT, "why": why, "fire_within": "24h"
        });
        let what = serde_json::from_value(held).unwrap();
        let held = Record::Held(Box::new(Stored { at: at(SLOT), what }));
        case.check(|facts| facts.record = held, Outcome::Held(why), &[says, "held since"]);
    }
}
