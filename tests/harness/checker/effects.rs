//! What the tasks wrote of themselves agrees with the streams.

use std::collections::{BTreeMap, BTreeSet};

use cronstream_schemas::event::RunEvent;
use cronstream_schemas::id::{RunId, ShardId};
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::time::Timestamp;

use super::slots::fired;
use super::violation::Violation;
use super::{Terms, due};
use crate::history::{History, Mark};

/// Checks the effect file against CRON_RUNS.
pub(super) fn check(history: &History, terms: &Terms) -> Vec<Violation> {
    let prefix = Prefix::default();
    let mut started = BTreeMap::new();
    for stored in &history.runs {
        if let (RunEvent::Started(event), Some(key)) =
            (&stored.event, prefix.parse_run(&stored.subject))
        {
            started.insert(stored.sequence, (key.shard, event.place.attempt));
        }
    }
    // A run of a slot that was shifted to an earlier instant is due there.
    let shifted = due::shifted(&history.log);
    let due: BTreeMap<RunId, Timestamp> = fired(history)
        .filter_map(|(_, it)| Some((it.run, *shifted.get(&(&it.job, it.scheduled_at))?)))
        .collect();
    let mut violations = Vec::new();
    let mut seen = BTreeSet::new();
    for effect in &history.effects {
        let (run, slot, at) = (effect.run, effect.slot, effect.at);
        let (attempt, token) = (effect.attempt, effect.token);
        let first = due.get(&run).map_or(slot, |to| slot.min(*to));
        if effect.mark == Mark::Start && at < first.minus(terms.max_clock_error) {
            violations.push(Violation::EffectEarly { run, slot, at });
        }
        if !seen.insert((run, effect.shard, attempt, token, effect.mark == Mark::End)) {
            violations.push(Violation::EffectTwice { run, attempt, token });
        }
        let shard = ShardId { run, shard: effect.shard };
        if started.get(&token) != Some(&(shard, attempt)) {
            violations.push(Violation::EffectWithoutStart { run, attempt, token });
        }
    }
    violations
}
