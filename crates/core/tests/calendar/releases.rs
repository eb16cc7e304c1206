//! Zones as the releases of tzdb had them, and the slots that a newer one moves.

use cronstream_core::schedule::{
    Cron, Difference, PastError, Rules, Slots, Zone, ZoneError, differences,
};

use crate::{instant, show};

/// B028. Who has which clock since when: the release before the change, and an instant after it.
#[test]
fn a_zone_keeps_the_rules_of_its_release() {
    for (name, last, at, was, is) in [
        ("America/Tijuana", "2025b", "1970-06-01T00:00:00Z", -8, -7),
        ("Europe/Chisinau", "2025c", "2026-03-29T00:30:00Z", 3, 2),
        ("America/Vancouver", "2026a", "2027-01-15T00:00:00Z", -8, -7),
        ("Africa/Casablanca", "2026b", "2027-01-15T00:00:00Z", 1, 0),
        ("Africa/El_Aaiun", "2026b", "2087-12-31T00:00:00Z", 1, 0),
        ("America/Edmonton", "2026b", "2199-01-15T00:00:00Z", -7, -6),
        ("America/Inuvik", "2026c", "2030-01-15T00:00:00Z", -7, -6),
        ("America/Winnipeg", "2026d", "2027-01-15T00:00:00Z", -6, -5),
        ("America/Havana", "2026e", "2026-12-15T00:00:00Z", -5, -4),
    ] {
        let hours = |zone: Zone| zone.offset_seconds(instant(at)) / 3_600;
        let present = Zone::get(name).unwrap();
        assert_eq!(hours(present), is, "{name}");
        for release in Zone::tzdb_versions() {
            let zone = Zone::at_version(name, release).unwrap();
            let expected = if release <= last { was } else { is };
            assert_eq!(hours(zone), expected, "{name} in {release}");
            assert_eq!(zone == present, release > last, "{name} in {release}");
            assert_eq!(zone.name(), name);
        }
    }
}

#[test]
fn a_zone_whose_rules_met_those_of_today_again_has_them_from_then_on() {
    for (name, release, at, hours) in [
        ("America/Tijuana", "2025b", "2026-01-15T00:00:00Z", -8),
        ("America/Tijuana", "2025b", "2026-07-15T00:00:00Z", -7),
        ("America/Bogota", "2026c", "2026-01-15T00:00:00Z", -5),
        ("Asia/Tehran", "2026c", "1979-12-15T00:00:00Z", 3),
        ("Asia/Tehran", "2026c", "2026-01-15T00:00:00Z", 3),
        ("America/Havana", "2026e", "2028-01-15T00:00:00Z", -5),
        ("America/Havana", "2026e", "2028-07-15T00:00:00Z", -4),
    ] {
        let zone = Zone::at_version(name, release).unwrap();
        assert_ne!(zone, Zone::get(name).unwrap());
        assert_eq!(zone.offset_seconds(instant(at)).div_euclid(3_600), hours, "{name} at {at}");
        let present = Zone::get(name).unwrap();
        assert_eq!(zone.offset_seconds(instant(at)), present.offset_seconds(instant(at)), "{name}");
    }
}

#[test]
fn a_zone_without_other_rules_is_the_present_one() {
    for release in Zone::tzdb_versions() {
        for name in ["UTC", "Europe/Berlin", "US/Eastern", "Asia/Kolkata"] {
            assert_eq!(Zone::at_version(name, release).unwrap(), Zone::get(name).unwrap());
        }
    }
    // By a link, too.
    let vancouver = Zone::at_version("Canada/Pacific", "2025b").unwrap();
    assert_eq!(vancouver, Zone::at_version("America/Vancouver", "2026a").unwrap());
    assert_ne!(vancouver, Zone::get("Canada/Pacific").unwrap());
}

#[test]
fn unknown_releases_and_zones_are_refused() {
    for release in ["2025a", "2027a", "", "2026f-dirty", "2025B"] {
        let error = Zone::at_version("UTC", release).unwrap_err();
        let said = format!("unknown tzdb release `{release}`: known are 2025b to 2026f");
        assert_eq!(error.to_string(), said);
    }
    let error = Zone::at_version("Local", "2025b").unwrap_err();
    assert!(matches!(error, PastError::Zone(ZoneError { value, .. }) if value == "Local"));
}

/// What `2025b` and the bundled release make of a job, as `was -> is`.
fn moved(expr: &str, zone: &str, from: &str, through: &str, limit: usize) -> (Vec<String>, i64) {
    let cron = Cron::parse(expr).unwrap();
    let under =
        |zone| Slots { cron: &cron, zone, rules: Rules::default(), days: None, shift: None };
    let was = under(Zone::at_version(zone, "2025b").unwrap());
    let is = under(Zone::get(zone).unwrap());
    let found = differences(&was, &is, instant(from), instant(through), limit);
    let word = |at: Option<i64>| at.map_or("none".into(), show);
    let words = |found: &Difference| format!("{} -> {}", word(found.was), word(found.is));
    (found.found.iter().map(words).collect(), found.through_ms)
}

/// B028
#[test]
fn slots_that_a_release_moves_are_listed() {
    let (from, through) = ("2026-10-30T00:00:00Z", "2026-11-03T23:00:00Z");
    let (found, looked) = moved("30 6 * * *", "America/Vancouver", from, through, 100);
    assert_eq!(
        found,
        [
            "2026-11-01T14:30:00Z -> 2026-11-01T13:30:00Z",
            "2026-11-02T14:30:00Z -> 2026-11-02T13:30:00Z",
            "2026-11-03T14:30:00Z -> 2026-11-03T13:30:00Z",
        ]
    );
    assert_eq!(looked, instant(through));
    assert_eq!(moved("30 6 * * *", "Europe/Berlin", from, through, 100).0, [""; 0]);
    assert_eq!(
        moved("30 6 * * *", "America/Vancouver", from, "2026-10-31T12:00:00Z", 9).0,
        [""; 0]
    );
}

#[test]
fn slots_that_come_or_go_stand_alone() {
    // Havana's fold of 2026 does not come: what would fire in both passes fires once.
    let (from, through) = ("2026-11-01T03:00:00Z", "2026-11-01T07:00:00Z");
    let (found, _) = moved("*/30 0 * * *", "America/Havana", from, through, 100);
    assert_eq!(found, ["2026-11-01T05:00:00Z -> none", "2026-11-01T05:30:00Z -> none"]);
    // An hourly job is due at the same instants.
    assert_eq!(moved("0 * * * *", "America/Havana", from, through, 100).0, [""; 0]);
}

#[test]
fn a_report_ends_at_its_limit_and_says_where() {
    let (from, through) = ("2026-11-15T00:00:00Z", "2199-01-01T00:00:00Z");
    let (found, looked) = moved("30 6 * * *", "America/Vancouver", from, through, 5);
    assert_eq!(found.len(), 5);
    assert_eq!(show(looked), "2026-11-20T13:29:59Z");
    // Each second is due in both, so nothing is found; the walk is cut all the same.
    let (found, looked) = moved("* * * * * *", "America/Vancouver", from, through, 5);
    assert_eq!(found, [""; 0]);
    assert_eq!(looked, instant(from) + 200_001 * 1_000 - 1);
}
