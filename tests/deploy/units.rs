//! The systemd units: one for each role, with options that the program has, and no more rights than it needs.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use cronstream_tests::process::program;

use crate::compose::{read, root};
use crate::run::knows;

/// Every unit must say this.
const HARDENED: &[&str] = &[
    "DynamicUser=yes",
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "RestrictNamespaces=yes",
    "SystemCallFilter=@system-service",
    "Restart=always",
];
/// The highest exposure that `systemd-analyze security` may find, in tenths of its scale of ten.
const EXPOSURE_MAX: &str = "20";

fn units() -> Result<Vec<(String, String)>> {
    let mut units = Vec::new();
    for entry in std::fs::read_dir(root().join("deploy/systemd"))? {
        let name = entry?.file_name().into_string().ok().context("a name in UTF-8")?;
        units.push((name.clone(), read(&format!("deploy/systemd/{name}"))?));
    }
    units.sort();
    Ok(units)
}

fn setting<'a>(unit: &'a str, key: &str) -> Result<&'a str> {
    let value = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    value.with_context(|| format!("no {key}"))
}

#[test]
fn each_role_has_a_hardened_unit() -> Result<()> {
    let units = units()?;
    let names: Vec<&str> = units.iter().map(|(name, _)| name.as_str()).collect();
    ensure!(
        names
            == [
                "cronstream-executor@.service",
                "cronstream-relay.service",
                "cronstream-ticker.service"
            ]
    );
    for (name, unit) in &units {
        for line in HARDENED {
            ensure!(unit.lines().any(|it| it == *line), "{name}: no {line}");
        }
        let drain: u64 = setting(unit, "TimeoutStopSec")?.parse()?;
        ensure!(!name.contains("executor") || drain > 30, "{name} is killed while it drains");
        ensure!(!unit.contains("PASSWORD@") || unit.starts_with('#'), "{name} has a login in it");
    }
    Ok(())
}

#[test]
fn what_a_unit_starts_is_a_verb_with_options_that_it_has() -> Result<()> {
    let program = program()?;
    for (name, unit) in units()? {
        let start = setting(&unit, "ExecStart")?;
        let words: Vec<&str> = start.split(' ').collect();
        ensure!(words[0] == "/usr/local/bin/cronstream", "{name} starts {start}");
        let words: Vec<String> = words[1..].iter().map(ToString::to_string).collect();
        knows(&program, &words).context(name)?;
    }
    Ok(())
}

/// By systemd itself, with the program of this build in the place of the installed one.
#[test]
fn systemd_finds_nothing_wrong_with_a_unit() -> Result<()> {
    if !Path::new("/usr/bin/systemd-analyze").exists() {
        println!("SKIPPED(systemd-analyze)");
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let program = program()?;
    for (name, unit) in units()? {
        let name = name.replace("@.", "@default.");
        let path = dir.path().join(&name);
        let installed = program.to_str().context("a path of this test is UTF-8")?;
        std::fs::write(&path, unit.replace("/usr/local/bin/cronstream", installed))?;
        let checks: [&[&str]; 2] =
            [&["verify"], &["security", "--offline=true", "--threshold", EXPOSURE_MAX]];
        for check in checks {
            let output =
                Command::new("/usr/bin/systemd-analyze").args(check).arg(&path).output()?;
            let told = String::from_utf8_lossy(&output.stderr).into_owned()
                + &String::from_utf8_lossy(&output.stdout);
            ensure!(output.status.success(), "{name} {check:?}: {told}");
            ensure!(check[0] != "verify" || told.trim().is_empty(), "{name}: {told}");
        }
    }
    Ok(())
}
