//! Which slots another release of the zone data moves.
//!
//! Invariant: only the stretches around a difference of the clocks are walked, and no more than
//! [`STEPS_MAX`] slots of them.

use std::collections::{BTreeMap, BTreeSet};

use super::{civil::DAY, slots::Slots, table::END};

/// The most slots that one question walks.
const STEPS_MAX: usize = 200_000;

/// What one clock change can reach, before it or after it, in milliseconds.
const REACH: i64 = 2 * DAY * 1_000;

/// A slot that is at another instant than before, or comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Difference {
    /// The instant before (Unix milliseconds); `None` is no such slot then.
    pub was: Option<i64>,
    /// The instant now (Unix milliseconds); `None` is no such slot now.
    pub is: Option<i64>,
}

/// The slots that differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differences {
    /// In order; one for each wall time that moved, came or went.
    pub found: Vec<Difference>,
    /// All slots up to and with this instant (Unix milliseconds) were compared.
    pub through_ms: i64,
}

/// Compares the slots after `from_ms` up to and with `through_ms` (Unix milliseconds) of one job
/// under two zones, until one has `limit` slots that the other has not, and one more.
#[must_use]
pub fn differences(
    was: &Slots<'_>,
    is: &Slots<'_>,
    from_ms: i64,
    through_ms: i64,
    limit: usize,
) -> Differences {
    let (mut gone, mut new) = (Vec::new(), Vec::new());
    let mut steps = 0;
    let stop = |gone: &[i64], new: &[i64], at| Differences {
        found: paired(was, is, gone, new),
        through_ms: at,
    };
    for (from, through) in stretches(was, is, from_ms, through_ms) {
        let within = |slot: &i64| *slot <= through;
        let (mut left, mut right) = (was.next(from), is.next(from));
        loop {
            left = left.filter(within);
            right = right.filter(within);
            let Some(at) = left.into_iter().chain(right).min() else { break };
            let (in_left, in_right) = (left == Some(at), right == Some(at));
            let full = !in_right && gone.len() == limit || !in_left && new.len() == limit;
            if steps == STEPS_MAX || full {
                return stop(&gone, &new, at - 1);
            }
            steps += 1;
            if in_left {
                left = was.next(at);
            }
            if in_right {
                right = is.next(at);
            }
            if in_left && !in_right {
                gone.push(at);
            } else if in_right && !in_left {
                new.push(at);
            }
        }
    }
    stop(&gone, &new, through_ms)
}

/// The stretches in which slots can differ, after the first and up to and with the second instant.
fn stretches(was: &Slots<'_>, is: &Slots<'_>, from: i64, through: i64) -> Vec<(i64, i64)> {
    let through = through.min(END * 1_000);
    if (was.cron, was.rules, was.days) != (is.cron, is.rules, is.days) {
        return vec![(from, through)];
    }
    let (low, high) = (from.saturating_sub(REACH), through.saturating_add(REACH));
    let changes = |slots: &Slots<'_>| slots.zone.transitions(low, high).map(|change| change.at_ms);
    let mut borders: Vec<_> = changes(was).chain(changes(is)).chain([low, high]).collect();
    borders.sort_unstable();
    let mut stretches: Vec<(i64, i64)> = Vec::new();
    for border in borders.windows(2) {
        if was.zone.offset_seconds(border[0]) == is.zone.offset_seconds(border[0]) {
            continue;
        }
        let start = border[0].saturating_sub(REACH).max(from);
        let end = border[1].saturating_add(REACH).min(through);
        match stretches.last_mut() {
            Some((_, last)) if *last >= start => *last = end,
            _ if start < end => stretches.push((start, end)),
            _ => {}
        }
    }
    stretches
}

/// Puts together what has the same wall time in both zones.
fn paired(was: &Slots<'_>, is: &Slots<'_>, gone: &[i64], new: &[i64]) -> Vec<Difference> {
    let mut by_wall: BTreeMap<_, _> = new.iter().map(|at| (is.zone.civil(*at), *at)).collect();
    let mut found: Vec<_> = gone
        .iter()
        .map(|at| Difference { was: Some(*at), is: by_wall.remove(&was.zone.civil(*at)) })
        .collect();
    let paired: BTreeSet<_> = found.iter().filter_map(|difference| difference.is).collect();
    let rest = new.iter().copied().filter(|at| !paired.contains(at));
    found.extend(rest.map(|at| Difference { was: None, is: Some(at) }));
    found.sort_by_key(|difference| difference.was.into_iter().chain(difference.is).min());
    found
}
