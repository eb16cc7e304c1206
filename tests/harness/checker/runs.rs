//! One result for each shard that was fired, the first terminal event, and nothing behind it.

use std::collections::{BTreeMap, BTreeSet};

use cronstream_schemas::event::{Fired, LogEvent, RunEvent};
use cronstream_schemas::id::ShardId;
use cronstream_schemas::subject::Prefix;

use super::Terms;
use super::violation::Violation;
use crate::history::History;

/// Checks CRON_RUNS and CRON_DEAD against the fires.
pub(super) fn check(history: &History, terms: &Terms) -> Vec<Violation> {
    let mut violations = Vec::new();
    let fired = fired(history);
    let terminals = follow(history, &fired, &mut violations);
    for (shard, fire) in &fired {
        if fire.scheduled_at <= terms.through && !terminals.contains_key(shard) {
            let (shard, job, slot) = (*shard, fire.job.clone(), fire.scheduled_at);
            violations.push(Violation::NoTerminal { shard, job, slot });
        }
    }
    dead_letters(history, terms, &terminals, &mut violations);
    violations
}

/// The first fire of each shard.
fn fired(history: &History) -> BTreeMap<ShardId, &Fired> {
    let mut shards = BTreeMap::new();
    for stored in &history.log {
        if let LogEvent::Fired(fired) = &stored.event {
            shards.entry(fired.shard_id()).or_insert(fired);
        }
    }
    shards
}

type Terminals<'a> = BTreeMap<ShardId, (u64, &'a RunEvent)>;

/// Follows every shard through its events and returns how each ended.
fn follow<'a>(
    history: &'a History,
    fired: &BTreeMap<ShardId, &Fired>,
    violations: &mut Vec<Violation>,
) -> Terminals<'a> {
    let prefix = Prefix::default();
    let mut terminals = Terminals::new();
    for stored in &history.runs {
        let Some(key) = prefix.parse_run(&stored.subject) else { continue };
        let (shard, sequence) = (key.shard, stored.sequence);
        if !fired.contains_key(&shard) {
            violations.push(Violation::RunWithoutFire { shard, sequence });
        }
        match (terminals.get(&shard), stored.event.is_terminal()) {
            (None, true) => {
                terminals.insert(shard, (sequence, &stored.event));
            }
            (Some((first, _)), true) => {
                violations.push(Violation::TwoTerminals { shard, sequences: (*first, sequence) });
            }
            (Some(_), false) => {
                let place = stored.event.place();
                violations.push(Violation::AfterTerminal { shard, place, sequence });
            }
            (None, false) => {}
        }
    }
    terminals
}

fn dead_letters(
    history: &History,
    terms: &Terms,
    terminals: &Terminals<'_>,
    violations: &mut Vec<Violation>,
) {
    let mut letters = BTreeSet::new();
    for stored in &history.dead {
        let shard = stored.event.fired.shard_id();
        let failed = match terminals.get(&shard).map(|(_, event)| *event) {
            Some(RunEvent::Failed(_) | RunEvent::Expired(_) | RunEvent::Lost(_)) => true,
            Some(RunEvent::Succeeded(_) | RunEvent::Cancelled(_)) | None => false,
            Some(RunEvent::Started(_) | RunEvent::Interrupted(_) | RunEvent::AttemptFailed(_)) => {
                false
            }
        };
        if !letters.insert(shard) || !failed {
            violations.push(Violation::WrongDeadLetter { shard, sequence: stored.sequence });
        }
    }
    for (shard, (_, event)) in terminals {
        let owed = matches!(event, RunEvent::Failed(_)) && shard.run.at() <= terms.through;
        if owed && !letters.contains(shard) {
            violations.push(Violation::NoDeadLetter { shard: *shard });
        }
    }
}
