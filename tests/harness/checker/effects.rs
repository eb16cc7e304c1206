//! What the tasks wrote of themselves agrees with the streams.

use std::collections::{BTreeMap, BTreeSet};

use cronstream_schemas::event::RunEvent;
use cronstream_schemas::id::ShardId;
use cronstream_schemas::subject::Prefix;

use super::Terms;
use super::violation::Violation;
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
    let mut violations = Vec::new();
    let mut seen = BTreeSet::new();
    for effect in &history.effects {
        let (run, slot, at) = (effect.run, effect.slot, effect.at);
        let (attempt, token) = (effect.attempt, effect.token);
        if effect.mark == Mark::Start && at < slot.minus(terms.max_clock_error) {
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
