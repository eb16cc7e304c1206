//! What the command line does without a broker: help, arguments, files, exit codes, secrets.

#![expect(clippy::unwrap_used, reason = "helpers of tests; the lint knows test functions only")]

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn cronstream(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cronstream"))
        .args(arguments)
        .env_remove("NATS_URL")
        .env_remove("COLUMNS")
        .env("XDG_CONFIG_HOME", "/does/not/exist")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The exit code and standard error; standard output must be empty.
fn failure(arguments: &[&str]) -> (i32, String) {
    let output = cronstream(arguments);
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// An address of this machine that nothing listens on.
fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("nats://127.0.0.1:{}", listener.local_addr().unwrap().port())
}

fn verbs() -> Vec<String> {
    let help = String::from_utf8(cronstream(&["--help"]).stdout).unwrap();
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    list.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

fn repository(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(path)
}

#[test]
fn help_is_as_reviewed() {
    let mut text = String::from_utf8(cronstream(&["--help"]).stdout).unwrap();
    for verb in verbs() {
        let help = cronstream(&[&verb, "--help"]);
        let help = String::from_utf8(help.stdout).unwrap();
        // The options of every verb stand in the first help.
        let own = help.split("\nOptions of every verb:").next().unwrap();
        text.push_str(&format!("\n==== {verb}\n{own}"));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/help.txt");
    if std::env::var_os("CRONSTREAM_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == golden,
        "help differs from {}; run with CRONSTREAM_BLESS=1\n{text}",
        path.display()
    );
}

#[test]
fn every_verb_and_option_stands_in_the_reference() {
    let reference = std::fs::read_to_string(repository("docs/reference/cli.md")).unwrap();
    for verb in verbs() {
        assert!(
            reference.contains(&format!("## `{verb}`")),
            "{verb} is not in docs/reference/cli.md"
        );
        let help = String::from_utf8(cronstream(&[&verb, "--help"]).stdout).unwrap();
        let options = help.split_whitespace().filter(|word| word.starts_with("--"));
        for option in
            options.map(|option| option.trim_matches(|c: char| !c.is_alphanumeric() && c != '-'))
        {
            assert!(
                reference.contains(&format!("`{option}")),
                "{verb} {option} is not in docs/reference/cli.md"
            );
        }
    }
}

#[test]
fn every_error_has_a_section_in_the_reference() {
    let source = include_str!("../src/error.rs");
    let reference = std::fs::read_to_string(repository("docs/reference/errors.md")).unwrap();
    let names = source.split("(\"").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once('"')?;
        rest.trim_start_matches([',', ' ']).starts_with("Exit::").then_some(name)
    });
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        assert!(
            reference.contains(&format!("## {name}\n")),
            "{name} is not in docs/reference/errors.md"
        );
    }
}

#[test]
fn wrong_arguments_exit_with_2() {
    for arguments in [
        &["fly"][..],
        &["get", "nightly"],
        &["get", "a/b/c"],
        &["runs", "-n", "0"],
        &["ticker", "--node", "a.b"],
        &["status", "--timeout", "10"],
        &["get", "a/b", "--prefix", "Cron"],
        &["init", "--partitions", "33"],
        &["cancel", "a/b"],
        &["trigger", "a/b", "--params", "{"],
        &["trigger", "a/b", "--wait-timeout", "5s"],
        &["get", "a/b", "--context", "absent"],
        &["get", "a/b", "--context", "../etc"],
        &["get", "a/b", "--nats", ","],
    ] {
        let (code, error) = failure(arguments);
        assert_eq!(code, 2, "{arguments:?}: {error}");
    }
}

#[test]
fn a_tasks_file_is_read_before_anybody_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.toml");
    let path = path.to_str().unwrap();
    for (text, says) in [("[tasks]\n", "defines no task"), ("tasks.a.comand = []", "`command`?")] {
        std::fs::write(path, text).unwrap();
        let (code, error) = failure(&["executor", "--tasks", path, "--nats", &free_port()]);
        assert_eq!(code, 2, "{error}");
        assert!(error.contains("tasks-file-unreadable") && error.contains(says), "{error}");
    }
}

#[test]
fn a_server_that_is_not_there_exits_with_5() {
    let url = free_port();
    let (code, error) = failure(&["get", "a/b", "--nats", &url]);
    assert_eq!(code, 5);
    assert!(
        error.starts_with("error[cannot-connect]: cannot connect to nats at 127.0.0.1:"),
        "{error}"
    );
}

#[test]
fn a_secret_is_never_printed() {
    let address = free_port().replace("nats://", "nats://user:s3cret@");
    let token = free_port().replace("nats://", "nats://s3cret@");
    let broken = "nats://user:s3cret@ho st:x";
    for url in [&address, &token, broken] {
        for verb in
            [&["get", "a/b", "--verbose"][..], &["ticker", "--verbose", "--log-format", "json"]]
        {
            let (_, error) = failure(&[verb, &["--nats", url]].concat());
            assert!(error.contains("error[") && !error.contains("s3cret"), "{error}");
        }
    }
}

#[test]
fn unreadable_documents_are_named_by_file_and_line_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let definition = "task: t\nschedule: {every: 5s}\n";
    std::fs::write(
        folder.path().join("a.yaml"),
        format!("job: a/x\n{definition}---\njob: a/y\n  bad\n"),
    )
    .unwrap();
    std::fs::write(
        folder.path().join("b.yaml"),
        format!("# comment\njob: a/z\n{definition}---\njob: a/z\n{definition}"),
    )
    .unwrap();
    std::fs::write(folder.path().join("c.json"), "{\"job\":\"a/w\"\n").unwrap();
    let path = folder.path().to_str().unwrap();
    let (code, error) = failure(&["apply", "-f", path, "--nats", &free_port()]);
    assert_eq!(code, 2, "{error}");
    let b = format!("{path}/b.yaml");
    assert!(error.contains(&format!("{b}:6: job a/z stands already at {b}:2")), "{error}");
    assert!(error.contains(&format!("{path}/a.yaml:")), "{error}");
    assert!(error.contains(&format!("{path}/c.json:")), "{error}");
}
