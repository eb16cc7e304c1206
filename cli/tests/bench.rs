//! `cronstream bench` at tiny sizes: each measurement runs to its end and prints every row. Figures are not looked
//! at: this machine may be busy.

#![expect(clippy::unwrap_used, reason = "helpers of tests; the lint knows test functions only")]

use std::process::{Command, Stdio};

/// Runs one measurement and gives what its rows are of, with their settings.
fn rows(arguments: &[&str]) -> Vec<(String, String)> {
    let output = Command::new(env!("CARGO_BIN_EXE_cronstream"))
        .arg("bench")
        .args(arguments)
        .args(["--rounds", "1", "--json"])
        .env_remove("NATS_URL")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {talk}");
    let text = String::from_utf8(output.stdout).unwrap();
    let read = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(row["ours"].as_f64().is_some_and(f64::is_finite), "{row}");
        assert!(row["met"].is_boolean() && row["target"].is_string(), "{row}");
        let text = |field: &str| row[field].as_str().unwrap().to_owned();
        (text("what"), text("setting"))
    };
    text.lines().map(read).collect()
}

#[track_caller]
fn check(arguments: &[&str], expected: &[(&str, &str)]) {
    let rows = rows(arguments);
    let rows: Vec<(&str, &str)> =
        rows.iter().map(|(what, setting)| (what.as_str(), setting.as_str())).collect();
    assert_eq!(rows, expected, "{arguments:?}");
}

const R1_ALWAYS: &str = "R1, fsync always";
const R1_DEFAULT: &str = "R1, server default";

#[test]
fn fire_measures_throughput_and_lateness() {
    check(
        &["fire", "--jobs", "40", "--rate", "20", "--seconds", "1"],
        &[
            ("40 jobs due at once, one ticker", R1_ALWAYS),
            ("lateness at 20 fires/s for 1 s, p50", R1_ALWAYS),
            ("lateness at 20 fires/s for 1 s, p99", R1_ALWAYS),
        ],
    );
}

#[test]
fn run_measures_runs_traces_and_the_start_of_a_task() {
    let sizes = ["--runs", "40", "--samples", "5", "--concurrency", "16"];
    let settings = ["--setting", "r1-always", "--setting", "r1-default"];
    let plain = "no-op runs, one executor";
    let traced = "no-op runs, every run traced (raw: not traced)";
    check(
        &[&["run"][..], &sizes, &settings].concat(),
        &[
            (plain, R1_ALWAYS),
            (traced, R1_ALWAYS),
            (plain, R1_DEFAULT),
            (traced, R1_DEFAULT),
            ("fire stored to task started, p50 (raw: one round trip)", R1_ALWAYS),
        ],
    );
}

#[test]
fn load_measures_memory_and_the_start_from_the_log() {
    check(
        &["load", "--jobs", "100"],
        &[
            ("memory a job of 100, beyond id and params", R1_DEFAULT),
            ("start from the log", R1_DEFAULT),
        ],
    );
}

#[test]
fn idle_measures_processor_time_and_writes() {
    check(
        &["idle", "--jobs", "100", "--seconds", "1"],
        &[
            ("100 jobs, none due: processor time", R1_DEFAULT),
            ("100 jobs, none due: messages beside renewals in 1 s", R1_DEFAULT),
        ],
    );
}
