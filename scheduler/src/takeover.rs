//! May a candidate take over? What the streams' heads say of its fold.
//!
//! Invariant: a partition whose streams were purged, recreated or set back is stopped, never re-fired.

use std::time::Duration;

use cronstream_core::partition::Partition;
use cronstream_schemas::time::Timestamp;

use crate::input::Survey;

/// How far the clocks of brokers may differ that made the streams one after another, the log first.
const BROKER_SPREAD: Duration = Duration::from_secs(1);

/// What a candidate does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Take over.
    Go,
    /// Look again: another leader has written since.
    Again,
    /// Leave the partition alone, and say why.
    Stop(String),
}

/// Judges a fold that has been read to the survey's heads. The clocks of leaders and broker differ by at most
/// `max_clock_error`.
pub(crate) fn judge(partition: &Partition, survey: &Survey, max_clock_error: Duration) -> Verdict {
    let stored = survey.cursor.as_ref().map_or(0, |message| message.seq);
    if partition.log_through() > survey.log.last_seq && stored > 0 {
        return Verdict::Again;
    }
    if partition.cursor_seq() > stored && stored > 0 {
        return Verdict::Again;
    }
    if let Some(kind) = partition.unknown() {
        return Verdict::Stop(too_old(kind));
    }
    let Some(cursor) = partition.cursor() else {
        return virgin(partition, survey, stored);
    };
    if stored == 0 {
        return Verdict::Stop("the cursor is gone from the log: it was purged".into());
    }
    if partition.cursor_seq() < stored {
        return Verdict::Again;
    }
    let commands = &survey.commands;
    if commands.first_seq > cursor.commands_through + 1 {
        return Verdict::Stop(format!(
            "commands {} to {} are gone before they were applied",
            cursor.commands_through + 1,
            commands.first_seq - 1
        ));
    }
    // An applied command is older than the cursor that says so, whatever was restored since.
    let applied = commands.first_seq <= cursor.commands_through;
    if applied && survey.oldest_command.is_some_and(|at| at > cursor.at.plus(max_clock_error)) {
        return Verdict::Stop(format!(
            "command {} is younger than the cursor that says it is applied: the commands stream was recreated",
            commands.first_seq
        ));
    }
    if commands.last_seq < cursor.commands_through {
        return Verdict::Stop(format!(
            "the commands stream ends at {}, before {}, which is applied: it was recreated or set back",
            commands.last_seq, cursor.commands_through
        ));
    }
    if survey.runs.last_seq < cursor.dead_through {
        return Verdict::Stop(format!(
            "the runs stream ends at {}, before {}, which is folded: it was recreated or set back",
            survey.runs.last_seq, cursor.dead_through
        ));
    }
    match partition.set_back() {
        Some(run) => Verdict::Stop(format!(
            "run {run} has events, but the log does not know its fire: the log was set back"
        )),
        None => Verdict::Go,
    }
}

/// Why this binary may not lead a partition with an event of this kind.
pub(crate) fn too_old(kind: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("event kind {kind:?} is not known to version {version}: upgrade this node")
}

fn virgin(partition: &Partition, survey: &Survey, stored: u64) -> Verdict {
    if stored > 0 || partition.has_state() {
        return Verdict::Stop("the log has events of this partition and no cursor".into());
    }
    if survey.log.first_seq > 1 {
        return Verdict::Stop("the log was purged".into());
    }
    let others = [&survey.commands, &survey.runs].map(|stream| Timestamp::from(stream.created));
    let eldest = others.into_iter().chain(survey.oldest_command).min();
    if eldest.is_some_and(|at| at.plus(BROKER_SPREAD) < Timestamp::from(survey.log.created)) {
        return Verdict::Stop("the log is younger than the other streams: it was recreated".into());
    }
    Verdict::Go
}
