//! Zones as earlier releases of tzdb had them.
//!
//! `past.tsv` holds the zones whose clock differs from the bundled release at some instant since
//! 1970, for each release from its first line on; `examples/past_zones.rs` writes it. Of a zone it
//! keeps only the stretch that differs, so a row is: the zones, the last release that had these
//! rules, the Unix second from which they differ, the changes from then on as `second:offset`, and
//! what holds after those: a POSIX rule for ever, or the second from which the bundled data hold.
//!
//! Invariant: the last release named is the bundled one; a test sees to it.

use jiff::{Timestamp, tz::TimeZone};

use super::{
    table::{Change, END},
    zone::push_change,
};

const TABLE: &str = include_str!("past.tsv");

/// Rules that a zone had up to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Past {
    /// The canonical name.
    pub(super) zone: &'static str,
    /// The last release that had them.
    pub(super) through: &'static str,
    /// The rest of the row.
    rules: &'static str,
}

/// The releases that are known, from the oldest to the bundled one.
pub(super) fn releases() -> impl DoubleEndedIterator<Item = &'static str> + Clone {
    let first = TABLE.lines().next().unwrap_or_default();
    first.trim_start_matches("# releases ").split(' ')
}

/// Every zone that has other rules now; of one zone the oldest rules are first.
pub(super) fn all() -> impl Iterator<Item = Past> {
    TABLE.lines().filter(|line| !line.starts_with('#')).flat_map(|line| {
        let mut columns = line.splitn(3, '\t');
        let mut column = || columns.next().expect("`past.tsv` has the columns");
        let (zones, through, rules) = (column(), column(), column());
        zones.split(',').map(move |zone| Past { zone, through, rules })
    })
}

impl Past {
    /// The changes of the zone as they were, made of those of the bundled release.
    pub(super) fn changes(&self, present: &[Change]) -> Vec<Change> {
        let mut columns = self.rules.split('\t');
        let mut column = || columns.next().expect("`past.tsv` has the columns");
        let from = second(column());
        let listed: Vec<_> = column().split_terminator(',').map(change).collect();
        let then = column();
        let mut changes: Vec<_> = present.iter().copied().filter(|(at, _)| *at < from).collect();
        listed.iter().for_each(|change| push_change(&mut changes, *change));
        let last = listed.last().map_or(from - 1, |(at, _)| *at);
        if let Ok(until) = then.parse() {
            let rest = present.iter().filter(|(at, _)| *at >= until);
            rest.for_each(|change| push_change(&mut changes, *change));
        } else {
            let rule = TimeZone::posix(then).expect("`past.tsv` has POSIX rules");
            let after = Timestamp::from_second(last).expect("`past.tsv` is in jiff's range");
            for transition in rule.following(after) {
                let at = transition.timestamp().as_second();
                if at >= END {
                    break;
                }
                push_change(&mut changes, (at, transition.offset().seconds()));
            }
        }
        changes
    }
}

fn second(text: &str) -> i64 {
    text.parse().expect("`past.tsv` has Unix seconds")
}

fn change(text: &str) -> Change {
    let (at, offset) = text.split_once(':').expect("`past.tsv` has changes");
    (second(at), offset.parse().expect("`past.tsv` has offsets"))
}

#[cfg(test)]
mod tests {
    use super::{super::zone::Zone, *};

    #[test]
    fn the_bundled_release_is_the_last_one_known() {
        let known: Vec<_> = releases().collect();
        assert!(known.is_sorted() && known.first() == Some(&"2025b"), "{known:?}");
        let hint = "write `past.tsv` again: `cargo run --example past_zones`";
        assert_eq!(known.last(), Some(&Zone::tzdb_version()), "{hint}");
    }

    #[test]
    fn every_row_is_read_and_differs_from_the_present() {
        for past in all() {
            assert!(releases().any(|release| release == past.through));
            let zone = Zone::at_version(past.zone, past.through).unwrap();
            let present = Zone::get(past.zone).unwrap();
            assert_ne!(zone, present);
            assert_eq!(zone.name(), present.name());
            assert_ne!(zone.changes(), present.changes(), "{past:?}");
            assert!(zone.changes().is_sorted());
        }
        assert!(all().count() >= 11);
    }
}
