//! Calendars and overrides by the command line, against a real nats-server and a real ticker.

#![expect(clippy::unwrap_used, reason = "helpers of tests; the lint knows test functions only")]

mod world;

use serde_json::Value;

use self::world::World;

/// A job, and its calendars in front of those they are built of.
const ALL: &str = "\
job: billing/nightly
task: report
schedule: {cron: \"0 3 * * *\"}
calendars: {only: [billing/working-days]}
---
calendar: billing/working-days
exclude:
  - {weekly: [SAT, SUN]}
  - {calendar: billing/holidays}
---
calendar: billing/holidays
title: Days off
include:
  - {date: \"2027-01-01\"}
  - {easter: -2}
";

fn texts(rows: &[Value], field: &str) -> Vec<String> {
    rows.iter().map(|row| row[field].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn calendars_and_jobs_of_one_file_are_applied_in_the_order_that_they_need() {
    let mut world = World::start().await;
    world.ticker(&[]);
    let file = world.file("all.yaml", ALL);
    let outcomes =
        |more: &[&str]| texts(&world.json(&[&["apply", "-f", &file], more].concat()), "outcome");
    assert_eq!(outcomes(&["--dry-run"]), ["created"; 3]);
    assert_eq!(world.json(&["calendar", "list"]).len(), 0, "a dry run publishes nothing");
    assert_eq!(outcomes(&[]), ["created"; 3]);
    assert_eq!(outcomes(&[]), ["unchanged"; 3]);
    let rows = world.json(&["calendar", "list", "billing"]);
    assert_eq!(texts(&rows, "calendar"), ["billing/holidays", "billing/working-days"]);
    assert_eq!(rows[1]["built_of"][0], "billing/holidays");
    let days = world.json(&["calendar", "days", "billing/holidays", "--year", "2027"]);
    assert_eq!(texts(&days, "day"), ["2027-01-01", "2027-03-26"]);
    let slots = world.json(&["next", "billing/nightly", "-n", "40"]);
    assert!(slots.iter().all(|row| !row["slot"].as_str().unwrap().starts_with("2027-01-01")));

    let changed = world.file(
        "holidays.json",
        r#"{"calendar":"billing/holidays","include":[{"range":{"from":"1970-01-01","to":"2239-12-30"}}]}"#,
    );
    let row = world.json(&["calendar", "apply", &changed]).remove(0);
    assert_eq!((&row["outcome"], &row["jobs"]), (&"changed".into(), &1.into()));
    let text = world.ok(&["calendar", "get", "billing/holidays", "--definition"]);
    let again = world.file("again.json", &text);
    assert_eq!(world.json(&["calendar", "apply", &again])[0]["outcome"], "unchanged");
}

#[tokio::test]
async fn what_is_wrong_with_a_calendar_is_told_with_its_place() {
    let mut world = World::start().await;
    world.ticker(&[]);
    let bad = "calendar: a/bad\ninclude:\n  - {date: \"2027-02-29\"}\n---\ncalendar: a/lost\ninclude:\n  - {calendar: a/none}\n";
    let file = world.file("bad.yaml", bad);
    for more in [&[][..], &["--dry-run"]] {
        let (code, stdout, stderr) = world.all(&[&["calendar", "apply", &file], more].concat());
        assert_eq!(code, 3, "{stderr}");
        assert!(stdout.contains(&format!("{file}:3: $.include[0].date")), "{stdout}");
        assert!(stdout.contains(&format!("{file}:7: $.include[0].calendar: no such")), "{stdout}");
    }
    let jobs = world.file("jobs.yaml", ALL);
    let (code, error) = world.fails(&["calendar", "apply", &jobs]);
    assert_eq!(code, 2);
    assert!(error.contains("jobs.yaml:1: a job"), "{error}");
    assert_eq!(world.fails(&["calendar", "get", "a/none"]).0, 6);
}

#[tokio::test]
async fn a_calendar_in_use_is_not_deleted() {
    let mut world = World::start().await;
    world.ticker(&[]);
    let file = world.file("all.yaml", ALL);
    world.ok(&["apply", "-f", &file]);
    for (calendar, user) in
        [("billing/holidays", "billing/working-days"), ("billing/working-days", "billing/nightly")]
    {
        let (code, error) = world.fails(&["calendar", "delete", calendar, "--yes"]);
        assert_eq!(code, 3);
        assert!(error.contains(&format!("found {user}")), "{error}");
    }
    let (code, error) = world.fails(&["calendar", "delete", "billing/working-days"]);
    assert_eq!(code, 2, "without --yes it asks: {error}");
    world.ok(&["delete", "billing/nightly", "--yes"]);
    world.ok(&["calendar", "delete", "billing/working-days", "--yes"]);
    world.ok(&["calendar", "delete", "billing/holidays", "--yes"]);
    assert_eq!(world.json(&["calendar", "list"]).len(), 0);
    let job = world.file(
        "job.json",
        r#"{"job":"a/x","task":"t","schedule":{"every":"1h"},"calendars":{"only":["billing/holidays"]}}"#,
    );
    let (code, stdout, _) = world.all(&["apply", "-f", &job]);
    assert_eq!(code, 3);
    assert!(stdout.contains("$.calendars.only[0]: no such calendar"), "{stdout}");
}

#[tokio::test]
async fn the_next_slot_is_skipped_shifted_and_given_back() {
    let mut world = World::start().await;
    world.ticker(&[]);
    let job = "a/x";
    let file =
        world.file("job.json", r#"{"job":"a/x","task":"t","schedule":{"cron":"0 3 * * *"}}"#);
    world.ok(&["apply", "-f", &file]);
    let slot = texts(&world.json(&["next", job, "-n", "1"]), "slot").remove(0);
    let told = world.ok(&["skip-next", job]);
    assert!(told.starts_with(&format!("a/x skips its slot {slot} (in ")), "{told}");
    let get = || world.json(&["get", job]).remove(0);
    assert_eq!(get()["overrides"][0]["slot"], slot.as_str());
    let (day, _) = slot.split_once('T').unwrap();
    let later = format!("{day}T05:00:00.000Z");
    let told = world.ok(&["shift-next", job, "--to", &later]);
    assert!(told.contains(&format!("is due at {later} (")), "{told}");
    assert_eq!(get()["overrides"][0]["to"], later.as_str());
    let told = world.ok(&["shift-next", job, "--slot", &slot, "--to", &slot]);
    assert!(told.contains("is due as usual"), "{told}");
    assert!(get()["overrides"].is_null());
    let (code, error) = world.fails(&["skip-next", job, "--slot", "2030-01-01T00:00:00Z"]);
    assert_eq!(code, 3);
    assert!(error.contains("no slot of this job") && error.contains(&slot), "{error}");
    assert_eq!(world.fails(&["skip-next", "a/none"]).0, 6);
}
