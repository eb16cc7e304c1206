//! Slots and triggers that have fired: on time or late, how often they were started, and how the run ended.

use std::time::Duration;

use cronstream_core::plan::Plan;
use cronstream_schemas::event::{Cause, Fired, RunEvent};
use cronstream_schemas::name::Name;
use cronstream_schemas::time::Timestamp;

use super::facts::{Before, Decision, Facts, Pool, SECOND, Stored, Takeover};
use super::verdict::{Explanation, Leader, Outcome};
use crate::output::{count, short};
use crate::words;

/// What happens within this long is on time.
const ON_TIME: Duration = SECOND;
/// A slot is released within this long after the run that it waited for has ended.
const RELEASED: Duration = Duration::from_secs(2);

pub(super) fn explain(
    facts: &Facts<'_>,
    fires: &[Stored<Fired>],
    plan: Option<&Plan>,
) -> Explanation {
    let Some(first) = fires.first() else {
        return Explanation::new(Outcome::NotKept, "what became of it is no longer kept");
    };
    let fired = &first.what;
    let begun = facts.run.iter().find_map(|step| {
        let RunEvent::Started(started) = &step.what else { return None };
        Some((step.at, started.executor.node.to_string()))
    });
    let ended = facts.run.iter().find(|step| step.what.is_terminal());
    let due = due(facts, fired, plan);
    let mut told = match (&begun, ended) {
        (Some((at, node)), _) => {
            let late = at.since(fired.scheduled_at);
            let is_late = late > ON_TIME && matches!(fired.cause, Cause::Slot(_));
            let outcome = if is_late { Outcome::RanLate } else { Outcome::Ran };
            let how = if is_late { format!(", {} late", short(late)) } else { String::new() };
            let mut told =
                Explanation::new(outcome, format!("it ran on executor {node} at {at}{how}"));
            told.late = Some(late);
            told
        }
        (None, Some(end)) => Explanation::new(
            Outcome::NeverStarted,
            format!(
                "it was ordered, and ended as {} at {} before any executor started it",
                end.what.kind(),
                end.at
            ),
        ),
        (None, None) => Explanation::new(
            Outcome::Waiting,
            format!(
                "it was ordered at {} and waits in queue {} for an executor",
                first.at, fired.queue
            ),
        ),
    };
    told.run = Some(fired.run);
    told.revision = Some((fired.revision, fired.incarnation));
    told.leader =
        Some(Leader { node: fired.node.clone(), epoch: Some(fired.epoch), at: fired.fired_at });
    told.because(cause(facts, fired));
    decided_late(&mut told, facts, fired, due);
    let waited = begun.as_ref().map(|(at, _)| at.since(first.at)).filter(|it| *it > ON_TIME);
    told.because(waited.map(|waited| {
        format!(
            "ordered at {}, it waited {} in queue {} for an executor",
            first.at,
            short(waited),
            fired.queue
        )
    }));
    told.because(facts.pool.and_then(|pool| nobody(pool, fired)));
    attempts(&mut told, facts, fires, ended);
    told
}

/// Why no executor that answers will start a run.
fn nobody(pool: Pool, fired: &Fired) -> Option<String> {
    let Fired { queue, task, .. } = fired;
    match pool {
        Pool { here: 0, .. } => Some(format!(
            "no executor of queue {queue} answers now: cronstream executor --queue {queue} --tasks FILE"
        )),
        Pool { here, knowing: 0 } => Some(format!(
            "{} of queue {queue} {} now, and none knows task {task}: add it to their tasks file, or correct the job",
            count(here as u64, "executor"),
            if here == 1 { "answers" } else { "answer" }
        )),
        Pool { .. } => None,
    }
}

/// When the slot was due, other than the misfire policy has it.
fn due(facts: &Facts<'_>, fired: &Fired, plan: Option<&Plan>) -> Timestamp {
    let shifted = facts.request.as_ref().and_then(|request| request.to);
    let jitter = plan.map(Plan::jitter).filter(|_| matches!(fired.cause, Cause::Slot(_)));
    shifted.unwrap_or_else(|| fired.scheduled_at.plus(jitter.unwrap_or_default()))
}

fn cause(facts: &Facts<'_>, fired: &Fired) -> String {
    match &fired.cause {
        Cause::Slot(slot) => match facts.then.and_then(|state| state.definition.as_ref()) {
            Some(definition) => {
                format!(
                    "slot {slot} of revision {}: {}",
                    fired.revision.0,
                    words::spoken(&fired.job, definition)
                )
            }
            None => format!("slot {slot} of revision {}", fired.revision.0),
        },
        Cause::Trigger(trigger) => match &trigger.key {
            Some(key) => {
                format!("trigger {key:?}, command {}; no slot of the schedule", trigger.command)
            }
            None => format!("a trigger, command {}; no slot of the schedule", trigger.command),
        },
        Cause::Backfill(backfill) => {
            format!("a backfill, command {}, ran slot {} again", backfill.command, backfill.slot)
        }
    }
}

/// Why the leader fired later than the slot.
fn decided_late(told: &mut Explanation, facts: &Facts<'_>, fired: &Fired, due: Timestamp) {
    if !matches!(fired.cause, Cause::Slot(_)) {
        return;
    }
    if let Some((request, to)) = facts.request.as_ref().and_then(|it| Some((it, it.to?))) {
        told.because(format!(
            "it was shifted to {to} by command {} of {}",
            request.command.seq, request.command.at
        ));
    } else if due > fired.scheduled_at {
        let jitter = short(due.since(fired.scheduled_at));
        told.because(format!("jitter: the job is due {jitter} after each of its slots"));
    }
    let late = fired.fired_at.since(due);
    if late <= ON_TIME {
        return;
    }
    let mut explained = false;
    if let Some(until) = facts.held_until {
        let behind = facts.before.as_ref().filter(|it| held_back(it, fired.scheduled_at, until));
        told.because(match behind {
            Some(run) => {
                format!("it was held until {until}: {} was live until then", which_run(run))
            }
            None => format!("it was held until {until}"),
        });
        explained = true;
    }
    if let Some(pause) = &facts.pause {
        told.because(super::skipped::pause(pause));
        explained = true;
    }
    match facts.takeover.as_ref().filter(|it| it.first.at > due).map(takeover) {
        Some(change) => told.because(change),
        None if explained => {}
        None => told.because(format!(
            "the leader{} decided it {} after it was due: it had stood still, or the broker took no writes",
            fired.node.as_ref().map(|node| format!(" {node}")).unwrap_or_default(),
            short(late)
        )),
    }
    if facts
        .then
        .and_then(|it| it.definition.as_ref())
        .is_some_and(|it| late > it.misfire.threshold.to_duration())
    {
        told.because(
            "more than the misfire threshold late: of what was missed, the policy lets it fire"
                .to_owned(),
        );
    }
}

/// What a change of the leader did to the slots between.
pub(super) fn takeover(Takeover { last, first }: &Takeover) -> String {
    format!(
        "the partition changed its leader: {} decided last of this job at {}, {} took over and decided first at {}; in between nobody decided anything of it",
        leader(last),
        last.at,
        leader(first),
        first.at
    )
}

fn leader(decision: &Decision) -> String {
    let node = decision.node.as_ref().map_or("a node", Name::as_str);
    format!("{node} (term {})", decision.epoch.0)
}

/// A run by its cause.
pub(super) fn which_run(run: &Before) -> String {
    let Before { run, cause, slot, .. } = run;
    match cause {
        Cause::Slot(_) => format!("run {run} of {slot}"),
        Cause::Trigger(trigger) => {
            format!("run {run}, triggered by command {} at {slot},", trigger.command)
        }
        Cause::Backfill(it) => {
            format!("run {run} of {slot}, asked for by backfill command {},", it.command)
        }
    }
}

/// Whether a run that was live at a slot ended right before the slot was released.
fn held_back(run: &Before, slot: Timestamp, until: Timestamp) -> bool {
    run.ended.is_some_and(|ended| ended > slot && ended <= until && until.since(ended) <= RELEASED)
}

/// Attempts, retries and the end of the run.
fn attempts(
    told: &mut Explanation,
    facts: &Facts<'_>,
    fires: &[Stored<Fired>],
    ended: Option<&Stored<RunEvent>>,
) {
    for step in &facts.run {
        let line = match &step.what {
            RunEvent::AttemptFailed(failed) => Some(format!(
                "attempt {} on {} failed at {} ({}): {}",
                failed.place.attempt,
                failed.executor.node,
                step.at,
                words::failure_kind(failed.failure.kind),
                failed.failure.message.lines().next().unwrap_or_default()
            )),
            RunEvent::Interrupted(given_back) => Some(format!(
                "executor {} shut down at {} and gave it back",
                given_back.executor.node, step.at
            )),
            RunEvent::Failed(failed) => Some(format!(
                "the last attempt failed at {} ({}): {}",
                step.at,
                words::failure_kind(failed.failure.kind),
                failed.failure.message.lines().next().unwrap_or_default()
            )),
            RunEvent::Expired(_) => Some(format!(
                "no executor of queue {} started it by {}",
                fires.first().map_or("?", |it| it.what.queue.as_str()),
                step.at
            )),
            RunEvent::Lost(_) => {
                Some(format!("its hard end passed at {} without a result", step.at))
            }
            RunEvent::Cancelled(end) => Some(match end.command {
                Some(command) => format!("it was cancelled at {} by command {command}", step.at),
                None => format!("it was cancelled at {}", step.at),
            }),
            RunEvent::Started(_) | RunEvent::Succeeded(_) => None,
        };
        told.because(line);
    }
    let starts = facts.run.iter().filter(|it| matches!(it.what, RunEvent::Started(_))).count();
    told.because(match ended {
        Some(end) => Some(format!(
            "it {} at {}, after {}",
            end.what.kind(),
            end.at,
            count(starts as u64, "start")
        )),
        None if starts > 0 => Some("it has not ended yet".to_owned()),
        None => None,
    });
}
