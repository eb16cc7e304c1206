//! Slots that do not fire: the reason that the leader gave, with what stood behind it.

use cronstream_core::live::{LIVE_OF_JOB_MAX, LIVE_OF_PARTITION_MAX, OWN_PARAMS_MAX_BYTES};
use cronstream_schemas::definition::MisfirePolicy;
use cronstream_schemas::event::{SkipReason, Skipped, SkippedWhat};
use cronstream_schemas::time::Timestamp;

use super::facts::{Command, Facts, Pause, Stored};
use super::ran::{takeover, which_run};
use super::verdict::{Explanation, Leader, Outcome};
use crate::output::{count, short};

pub(super) fn explain(
    facts: &Facts<'_>,
    stored: &Stored<Skipped>,
    slot: Option<Timestamp>,
) -> Explanation {
    let skipped = &stored.what;
    let slot = slot.unwrap_or(facts.asked);
    let why = match skipped.reason {
        SkipReason::Misfire => "it was missed, and the misfire policy lets it go",
        SkipReason::Overlap => "an earlier run of the job was live",
        SkipReason::Paused => "the job was paused",
        SkipReason::Deleted => "the job was deleted while the slot waited",
        SkipReason::Requested => "a command asked for that",
        SkipReason::JobBacklog => "as many runs of the job were live as may be",
        SkipReason::PartitionBacklog => "as many runs of the job's partition were live as may be",
    };
    let mut told =
        Explanation::new(Outcome::Skipped(skipped.reason), format!("it did not run: {why}"));
    told.revision = Some((skipped.revision, skipped.incarnation));
    told.leader = Some(Leader { node: skipped.node.clone(), epoch: skipped.epoch, at: skipped.at });
    match skipped.reason {
        SkipReason::Misfire => missed(&mut told, facts, skipped, slot),
        SkipReason::Overlap => {
            told.because(overlap(facts));
            told.because(facts.takeover.as_ref().map(takeover));
        }
        SkipReason::Paused => told.because(facts.pause.as_ref().map(pause)),
        SkipReason::Deleted => told
            .because(format!("deleted at {} by command {}", facts.newest.at, facts.newest.command)),
        SkipReason::Requested => told.because(
            facts.request.as_ref().map(|request| format!("asked by {}", by(&request.command))),
        ),
        SkipReason::JobBacklog => {
            told.because(format!(
                "overlap is allow, and {LIVE_OF_JOB_MAX} runs of the job had no result yet"
            ));
            told.because(backlog(facts));
        }
        SkipReason::PartitionBacklog => {
            told.because(format!(
                "one run of the job at least had no result yet, and so had {LIVE_OF_PARTITION_MAX} runs of its partition, \
                 or they held {OWN_PARAMS_MAX_BYTES} bytes of params of their own"
            ));
            told.because(backlog(facts));
        }
    }
    if let SkippedWhat::Slots { first, last, count: many } = &skipped.what
        && *many > 1
    {
        told.because(format!(
            "{} from {first} through {last} were skipped together",
            count(*many, "slot")
        ));
    }
    told
}

fn missed(told: &mut Explanation, facts: &Facts<'_>, skipped: &Skipped, slot: Timestamp) {
    let late = short(skipped.at.since(slot));
    match &facts.pause {
        Some(fell_into) => told.because(pause(fell_into)),
        None => {
            told.because(match &facts.takeover {
                Some(change) => {
                    let change = takeover(change);
                    format!("it was decided {late} after the slot, as nobody led: {change}")
                }
                None => format!(
                    "it was decided {late} after the slot: the leader had stood still, there was none, or the broker took no writes"
                ),
            });
        }
    }
    let Some(definition) = facts.then.and_then(|state| state.definition.as_ref()) else { return };
    let misfire = &definition.misfire;
    let rule = match misfire.policy {
        MisfirePolicy::FireOnce => {
            "fire_once: only the latest missed slot fires, if it is young enough".to_owned()
        }
        MisfirePolicy::FireAll => {
            format!("fire_all: only the latest {} missed slots fire", misfire.limit)
        }
        MisfirePolicy::Skip => "skip: no missed slot fires".to_owned(),
    };
    let window = misfire.window.map(|window| format!(", window {window}")).unwrap_or_default();
    told.because(format!(
        "misfire policy {rule} (late by more than {}{window})",
        misfire.threshold
    ));
}

fn overlap(facts: &Facts<'_>) -> String {
    let Some(before) = &facts.before else {
        return "overlap is skip; which run it was is no longer kept".to_owned();
    };
    let run = which_run(before);
    match before.ended {
        // The leader decides when it comes to the slot, and what it saw live was then another run.
        Some(at) if at < facts.asked => {
            format!("overlap is skip, and another run of the job was live; {run} had ended at {at}")
        }
        Some(at) => format!("overlap is skip, and {run} was live; it ended at {at}"),
        None => format!("overlap is skip, and {run} was live; it has not ended yet"),
    }
}

/// What lets runs come to their ends.
fn backlog(facts: &Facts<'_>) -> Option<String> {
    let definition = facts.then.and_then(|state| state.definition.as_ref())?;
    Some(format!(
        "runs are live until an executor of queue {} has ended them, a cancel has, or they expire: see `cronstream status`",
        definition.queue
    ))
}

/// Since when a pause lasts or until when it lasted, and whose command it was.
pub(super) fn pause(pause: &Pause) -> String {
    match &pause.ended {
        Some(ended) => {
            format!("the job was paused from {} until {}", by_at(&pause.begun), by_at(ended))
        }
        None => format!("the job is paused since {}", by_at(&pause.begun)),
    }
}

fn by_at(command: &Command) -> String {
    let author = command.author.as_ref().map(|author| format!(" of {author}")).unwrap_or_default();
    format!("{} (command {}{author})", command.at, command.seq)
}

/// A command with its sender and time.
pub(super) fn by(command: &Command) -> String {
    let author = command.author.as_ref().map(|author| format!(" of {author}")).unwrap_or_default();
    format!("command {}{author} at {}", command.seq, command.at)
}
