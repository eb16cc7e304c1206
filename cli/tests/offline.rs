//! The verbs that need no broker: `simulate`, `lint`, `forecast --file`.

#![expect(clippy::unwrap_used, reason = "helpers of tests; the lint knows test functions only")]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The exit code with both outputs; a zone of the host, which must not matter.
fn cronstream(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_cronstream"))
        .args(arguments)
        .env("TZ", "America/Los_Angeles")
        .env("NATS_URL", "nats://127.0.0.1:1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn ok(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = cronstream(arguments);
    assert_eq!(code, 0, "{arguments:?}: {stderr}{stdout}");
    stdout
}

/// The one line of JSON of a success.
fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&ok(&[arguments, &["--json"]].concat())).unwrap()
}

fn file(folder: &TempDir, name: &str, text: &str) -> String {
    let path: PathBuf = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn texts(rows: &Value, field: &str) -> Vec<String> {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row[field].as_str().unwrap().to_owned()).collect()
}

const MARCH: [&str; 4] = ["--from", "2027-03-27T00:00:00Z", "--to", "2027-03-30T00:00:00Z"];

#[test]
fn simulate_lists_slots_on_both_clocks_with_what_a_gap_does() {
    let arguments = [&["simulate", "30 2 * * *", "--zone", "Europe/Berlin"], &MARCH[..]].concat();
    let told = json(&arguments);
    assert_eq!(told["words"], "at 02:30 every day (Europe/Berlin)");
    assert_eq!(told["total"], 3);
    assert_eq!(
        texts(&told["slots"], "local"),
        ["2027-03-27T02:30:00+01:00", "2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00"]
    );
    let note = told["slots"][1]["notes"][0].as_str().unwrap();
    assert!(note.contains("02:30 does not exist"), "{note}");
    assert_eq!(told["clock_changes"][0]["kind"], "gap");
    assert_eq!(told["clock_changes"][0]["at"], "2027-03-28T01:00:00.000Z");
    let text = ok(&arguments);
    assert!(text.contains("2027-03-28T01:00:00.000Z  2027-03-28T03:00:00+02:00"), "{text}");
}

#[test]
fn simulate_obeys_gap_fold_and_dialect() {
    let skip = json(
        &[&["simulate", "30 2 * * *", "--zone", "Europe/Berlin", "--gap", "skip"], &MARCH[..]]
            .concat(),
    );
    assert_eq!(skip["total"], 2);
    let from = ["--from", "2027-10-30T12:00:00Z", "--to", "2027-10-31T12:00:00Z"];
    let both = ["simulate", "30 2 * * *", "--zone", "Europe/Berlin", "--fold", "both"];
    let both = json(&[&both[..], &from].concat());
    assert_eq!(
        texts(&both["slots"], "local"),
        ["2027-10-31T02:30:00+02:00", "2027-10-31T02:30:00+01:00"]
    );
    // In Quartz 2 is Monday.
    let quartz = ["simulate", "0 0 9 ? * 2", "--dialect", "quartz", "-n", "1"];
    let monday = json(&[&quartz[..], &["--from", "2027-01-01T00:00:00Z"]].concat());
    assert_eq!(texts(&monday["slots"], "slot"), ["2027-01-04T09:00:00.000Z"]);
}

#[test]
fn a_zone_in_the_expression_is_taken_and_contradicted_by_no_other() {
    let told = json(&["simulate", "TZ=Europe/Berlin 0 9 * * *", "-n", "1"]);
    assert_eq!(told["time_zone"], "Europe/Berlin");
    assert_eq!(
        cronstream(&["simulate", "TZ=Europe/Berlin 0 9 * * *", "--zone", "Asia/Tokyo"]).0,
        3
    );
}

#[test]
fn simulate_reads_calendars_beside_the_jobs_and_refuses_what_is_wrong_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let job =
        "---\njob: a/x\ntask: t\nschedule: {cron: '0 9 * * *'}\ncalendars: {only: [a/days]}\n";
    let good = format!("calendar: a/days\nexclude: [{{weekly: [SUN]}}, {{yearly: 12-25}}]\n{job}");
    let path = file(&folder, "good.yaml", &good);
    let told = json(&["simulate", "--file", &path, "--from", "2026-12-24T00:00:00Z", "-n", "3"]);
    let slots = texts(&told["slots"], "slot");
    assert_eq!(slots.iter().map(|slot| &slot[8..10]).collect::<Vec<_>>(), ["24", "26", "28"]);
    assert_eq!(told["slots"][1]["left_out"]["slots"], 1);
    assert_eq!(cronstream(&["lint", &path]).0, 0);
    let path =
        file(&folder, "bad.yaml", &format!("calendar: a/days\nexclude: [{{weekly: [X]}}]\n{job}"));
    let (code, stdout, _) = cronstream(&["lint", &path]);
    assert!(code == 2 && stdout.contains("bad.yaml:2: $.exclude[0].weekly"), "{stdout}");
    assert_eq!(cronstream(&["simulate", "--file", &path]).0, 3);
}

#[test]
fn simulate_draws_hash_slots_for_the_job_that_is_named() {
    let drawn = |job: &str| {
        let told = json(&["simulate", "H H * * *", "--job", job, "-n", "1"]);
        told["expressions"][0]["canonical"].as_str().unwrap().to_owned()
    };
    assert_eq!(drawn("billing/nightly"), drawn("billing/nightly"));
    assert_ne!(drawn("billing/nightly"), drawn("billing/daily"));
}

#[test]
fn an_expression_that_is_refused_is_marked_where_it_is_wrong_and_exits_with_3() {
    let (code, stdout, stderr) = cronstream(&["simulate", "0 61 * * *"]);
    assert_eq!((code, stdout.as_str()), (3, ""));
    assert!(stderr.contains("    0 61 * * *\n      ^^\n  hint: "), "{stderr}");
    for zone in ["Local", "+02:00", "EST", "Mars/Olympus"] {
        assert_eq!(cronstream(&["simulate", "0 3 * * *", "--zone", zone]).0, 2, "{zone}");
    }
    for wrong in [
        &["simulate"][..],
        &["simulate", "0 3 * * *", "--vectors", "x"],
        &["simulate", "--file", "x", "--zone", "UTC"],
        &[
            "simulate",
            "0 3 * * *",
            "--from",
            "2027-01-02T00:00:00Z",
            "--to",
            "2027-01-01T00:00:00Z",
        ],
        &["simulate", "0 3 * * *", "--from", "tomorrow"],
    ] {
        assert_eq!(cronstream(wrong).0, 2, "{wrong:?}");
    }
}

#[test]
fn simulate_reads_every_field_of_definitions_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(
        &folder,
        "jobs.yaml",
        "job: a/windows\ntask: t\nschedule: {cron: ['0 * * * *', '30 12 * * *']}\nwindows: ['09:00-13:00']\n\
         end: 2027-01-02T10:30:00Z\njitter: 5m\n---\njob: a/every\ntask: t\nschedule: {every: 90s}\nstart: 2027-01-01T00:00:00Z\n",
    );
    let span = ["--from", "2027-01-01T00:00:00Z", "--to", "2027-01-03T00:00:00Z"];
    let told = ok(&[&["simulate", "--file", &path, "--json"], &span[..]].concat());
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let slots = texts(&told[0]["slots"], "slot");
    assert_eq!(slots.len(), 7, "{slots:?}");
    assert_eq!(
        (slots[4].as_str(), told[0]["total"].as_u64()),
        ("2027-01-01T12:30:00.000Z", Some(7))
    );
    assert_ne!(told[0]["slots"][0]["due"], told[0]["slots"][0]["slot"]);
    assert_eq!(told[1]["total"], 2 * 86_400 / 90);
    assert_eq!(texts(&told[1]["slots"], "slot").len(), 1_000);
}

#[test]
fn the_vectors_of_debian_cron_agree_and_a_wrong_one_fails_the_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let good = "# expr\ttz\tstart\tnext\n\
        0 3 * * *\tEurope/Berlin\t2026-11-29T12:00:00Z\t2026-11-30T02:00:00+0000 2026-12-01T02:00:00+0000 2026-12-02T02:00:00+0000\n\
        0 0 * * FRI-MON\tUTC\t2026-11-29T12:00:00Z\tNEVER(41y)\n\
        0 0 L-3 * *\tUTC\t2026-11-29T12:00:00Z\tERR bad day-of-month\n";
    let path = file(&folder, "good.tsv", good);
    let told = json(&["simulate", "--vectors", &path]);
    assert_eq!(
        (&told["vectors"], &told["agree"], &told["disagree"]),
        (&3.into(), &1.into(), &0.into())
    );
    assert_eq!(told["documented"]["wrapping range"], 1);
    let wrong = format!(
        "{good}0 3 * * *\tUTC\t2026-11-29T12:00:00Z\t2026-11-30T04:00:00+0000 2026-12-01T03:00:00+0000 2026-12-02T03:00:00+0000\n"
    );
    let path = file(&folder, "wrong.tsv", &wrong);
    let (code, stdout, stderr) = cronstream(&["simulate", "--vectors", &path]);
    assert_eq!(code, 1);
    assert!(stdout.contains("line 5: 0 3 * * * (UTC)"), "{stdout}");
    assert!(stderr.contains("error[vectors-disagree]: 1 of 4 vectors"), "{stderr}");
    let path = file(&folder, "broken.tsv", "0 3 * * *\tUTC\n");
    assert_eq!(cronstream(&["simulate", "--vectors", &path]).0, 2);
}

#[test]
fn lint_exits_with_0_1_or_2_and_marks_each_piece() {
    for (expression, code, says) in [
        ("0 9 * * MON-FRI", 0, "at 09:00 on Monday to Friday (UTC)"),
        ("0 3 30 2 *", 2, "fault: $.schedule.cron: "),
        ("*/7 * * * *", 1, "    */7 * * * *\n    ^^^\n  hint: "),
        ("0 0 13 * FRI", 1, "    0 0 13 * FRI\n        ^^\n"),
        ("1,,2 * * * *", 2, "    1,,2 * * * *\n      ^"),
        ("******", 2, "fault: "),
        ("@reboot", 2, "fault: "),
    ] {
        let (found, stdout, stderr) = cronstream(&["lint", expression]);
        assert_eq!(found, code, "{expression}: {stdout}{stderr}");
        assert!(stdout.contains(says), "{expression}: {stdout}");
    }
    assert_eq!(cronstream(&["lint", "30 2 * * *", "--zone", "Europe/Berlin"]).0, 1);
    assert_eq!(cronstream(&["lint", "30 2 * * *", "--zone", "Asia/Tokyo"]).0, 0);
}

/// A ticker refuses an instant that has passed, and so does `lint`; it takes an expression twice, and `lint` warns.
#[test]
fn lint_refuses_an_instant_that_has_passed_and_warns_of_an_expression_that_says_the_same_again() {
    let folder = tempfile::tempdir().unwrap();
    let schedules = [
        ("{at: 2020-01-31T03:00:00Z}", 2, "fault", "in the past and would never fire"),
        ("{cron: ['0 3 * * *', '30 4 * * *', '00 3 * * *']}", 1, "warning", "$.schedule.cron[0]"),
    ];
    for (schedule, code, kind, says) in schedules {
        let body = format!("job: a/x\ntask: t\nschedule: {schedule}\n");
        let path = file(&folder, "jobs.yaml", &body);
        let (found, stdout, stderr) = cronstream(&["lint", &path]);
        assert_eq!(found, code, "{schedule}: {stdout}{stderr}");
        let lines: Vec<_> = stdout.lines().filter(|line| line.contains(": $.")).collect();
        assert_eq!(lines.len(), 1, "{schedule}: {stdout}");
        assert!(lines[0].starts_with(kind) && lines[0].contains(says), "{stdout}");
    }
}

#[test]
fn lint_names_every_fault_of_a_file_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(
        &folder,
        "jobs.yaml",
        "job: a/good\ntask: t\nschedule: {cron: '0 9 * * *'}\n---\njob: a/bad\ntask: a b\ntimeout: 90\n\
         schedule:\n  cron: ['0 9 * * *', '0 25 * * *']\ntime_zone: Local\n",
    );
    let (code, stdout, stderr) = cronstream(&["lint", &path, "--json"]);
    assert_eq!(code, 2, "{stderr}");
    let told: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told[0]["words"], "at 09:00 every day (UTC)");
    let mut faults = texts(&told[1]["faults"], "path");
    faults.sort();
    assert_eq!(faults, ["$.schedule.cron[1]", "$.task", "$.time_zone", "$.timeout"]);
    let faults = told[1]["faults"].as_array().unwrap();
    let cron = faults.iter().find(|fault| fault["path"] == "$.schedule.cron[1]").unwrap();
    assert_eq!((&cron["expression"], &cron["position"]), (&"0 25 * * *".into(), &2.into()));
    assert!(cron["place"].as_str().unwrap().ends_with("jobs.yaml:9"), "{cron}");
    assert_eq!(cronstream(&["lint", &file(&folder, "x.yaml", "a: [")]).0, 2);
}

#[test]
fn a_forecast_of_files_shows_collisions_and_what_hash_slots_would_do() {
    let folder = tempfile::tempdir().unwrap();
    let job =
        |number: u32| format!("job: a/j{number}\ntask: t\nschedule: {{cron: '* * * * *'}}\n---\n");
    let path = file(&folder, "jobs.yaml", &(0..600).map(job).collect::<String>());
    let span = ["--from", "2027-01-01T00:00:00Z", "--to", "2027-01-01T01:00:00Z"];
    let told = json(&[&["forecast", "--file", &path], &span[..]].concat());
    assert_eq!((&told["slots"], &told["busiest"][0]["in_second"]), (&36_000.into(), &600.into()));
    assert_eq!(told["advice"][0]["better"], "H * * * * *");
    assert_eq!(
        (&told["effect"]["second"], &told["effect"]["second_after"]),
        (&600.into(), &17.into())
    );
    assert_eq!(told["load"].as_array().unwrap().len(), 60);
    let text = ok(&[&["forecast", "--file", &path], &span[..]].concat());
    assert!(text.contains("busiest second 600 -> about 17"), "{text}");
    let far = ["--from", "2027-01-01T00:00:00Z", "--to", "2028-01-01T00:00:00Z"];
    assert_eq!(cronstream(&[&["forecast", "--file", &path], &far[..]].concat()).0, 2);
}

#[test]
fn an_expression_that_begins_with_a_hyphen_is_refused_as_an_expression() {
    for verb in ["simulate", "lint"] {
        let (code, stdout, stderr) = cronstream(&[verb, "-1 * * * *", "--zone", "Europe/Berlin"]);
        assert!(code == 3 || code == 2, "{code}: {stderr}");
        let said = format!("{stdout}{stderr}");
        assert!(said.contains("    -1 * * * *\n    ^"), "{verb}: {said}");
        assert!(!said.contains("unexpected argument"), "{verb}: {said}");
    }
    assert_eq!(cronstream(&["simulate", "0 3 * * *", "-x 1"]).0, 2);
}

#[test]
fn each_of_several_expressions_is_linted() {
    let (code, stdout, stderr) = cronstream(&["lint", "0 3 * * *", "60 * * * *"]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stdout.starts_with("0 3 * * *: at 03:00 every day (UTC)\nfault: "), "{stdout}");
    assert!(stdout.contains("    60 * * * *\n    ^^\n"), "{stdout}");
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "jobs.yaml", "job: a/b\ntask: t\nschedule: {cron: '0 9 * * *'}\n");
    let both = ok(&["lint", "0 3 * * *", &path]);
    assert!(both.contains("0 3 * * *: at 03:00") && both.contains("a/b: at 09:00"), "{both}");
}

#[test]
fn simulate_takes_days_and_local_times_of_the_zone() {
    let slots = |arguments: &[&str]| {
        let told = json(&[&["simulate"], arguments].concat());
        (told["from"].as_str().unwrap().to_owned(), texts(&told["slots"], "local"))
    };
    let day = ["--from", "2030-01-01", "--to", "2030-01-02T00:00:00"];
    let wanted =
        ("2029-12-31T23:00:00.000Z".to_owned(), vec!["2030-01-01T00:00:00+01:00".to_owned()]);
    assert_eq!(slots(&[&["0 0 * * *", "--zone", "Europe/Berlin"], &day[..]].concat()), wanted);
    assert_eq!(slots(&[&["TZ=Europe/Berlin 0 0 * * *"], &day[..]].concat()), wanted);
    assert_eq!(slots(&[&["0 0 * * *"], &day[..]].concat()).0, "2030-01-01T00:00:00.000Z");
    for (from, why) in [
        ("2030-02-30T00:00:00Z", "is no day of the calendar"),
        ("1969-12-31T00:00:00Z", "is before 1970"),
    ] {
        let (code, _, stderr) = cronstream(&["simulate", "0 0 * * *", "--from", from]);
        assert!(code == 2 && stderr.contains(why), "{stderr}");
    }
}

#[test]
fn a_reader_that_has_read_enough_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_cronstream"))
        .args(["simulate", "* * * * *", "-n", "100000"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The table is larger than any pipe, so the rest of it finds nobody.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_import_of_which_nothing_is_a_job_fails_and_says_why_of_each_line() {
    let folder = tempfile::tempdir().unwrap();
    let import = |text: &str| cronstream(&["import", "crontab", &file(&folder, "c", text)]);
    let (code, stdout, stderr) = import("<html>\n</html>\n");
    assert_eq!(code, 1);
    assert!(stderr.contains("error[nothing-imported]: nothing of "), "{stderr}");
    assert!(stdout.contains("Left out, line 2: </html>"), "{stdout}");
    assert_eq!(import("# nothing yet\n").0, 0);
    assert_eq!(import("<html>\n0 3 * * * /a\n").0, 0);
}
