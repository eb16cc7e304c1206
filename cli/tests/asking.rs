//! The verbs that ask about slots and revisions, against a real nats-server: on a log that a ticker wrote, and on
//! states that are put into it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests; the lint knows test functions only"
)]

mod world;

use std::time::{Duration, Instant};

use cronstream_bus::{AppendAnswer, Batch, Bus, CommitAnswer, ConnectOptions, OutMessage};
use cronstream_schemas::time::Timestamp;
use serde_json::{Value, json};

use self::world::World;

/// A connection that writes what only a ticker may.
async fn bus(world: &World) -> Bus {
    let servers = vec![world.server.url().to_owned()];
    let options = ConnectOptions { servers, name: "test".into(), ..ConnectOptions::default() };
    Bus::connect(options).await.unwrap()
}

async fn store(bus: &Bus, subject: &str, event: &Value) {
    let stored = bus.append_any(subject, event.to_string().into()).await.unwrap();
    assert!(matches!(stored, AppendAnswer::Stored { .. }), "{subject}: {stored:?}");
}

/// An event that tells of a job's whole state.
fn state(kind: &str, job: &str, revision: u64, more: &Value) -> Value {
    let mut state = json!({
        "job": job, "revision": revision, "incarnation": 1, "anchor": "2026-01-01T00:00:00.000Z",
        "effective_after": "2026-01-01T00:00:00.000Z", "command": revision, "at": "2026-01-01T00:00:00.000Z",
        "definition": { "task": "t", "schedule": { "cron": "0 3 * * *" }, "time_zone": "Europe/Berlin" },
    });
    for (field, value) in more.as_object().unwrap() {
        state[field] = value.clone();
    }
    json!({ kind: state })
}

fn texts(rows: &[Value], field: &str) -> Vec<String> {
    rows.iter().map(|row| row[field].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn apply_echoes_words_next_slots_and_warnings() {
    let mut world = World::start().await;
    world.ticker(&[]);
    let job = |cron: &str| {
        format!("job: a/x\ntask: t\nschedule: {{cron: '{cron}'}}\ntime_zone: Europe/Berlin\n")
    };
    let five = world.file("five.yaml", &job("30 3 * * *"));
    let text = world.ok(&["apply", "-f", &five, "--dry-run"]);
    assert!(text.contains("\n  at 03:30 every day (Europe/Berlin)\n  next "), "{text}");
    let text = world.ok(&["apply", "-f", &five]);
    assert!(text.contains("\n  at 03:30 every day (Europe/Berlin)\n  next "), "{text}");
    assert_eq!(text.matches("\n  next ").count(), 3, "{text}");
    let six = world.file("six.yaml", &job("30 30 2 * * *"));
    let row = world.json(&["apply", "-f", &six]).remove(0);
    assert_eq!(row["words"], "at 02:30:30 every day (Europe/Berlin)");
    assert_eq!(row["next"].as_array().unwrap().len(), 3);
    let warning = row["warnings"][0]["problem"].as_str().unwrap();
    assert!(warning.contains("02:30:30"), "{warning}");
}

#[tokio::test]
async fn history_names_each_revision_and_rollback_defines_one_again() {
    let mut world = World::start().await;
    world.ticker(&[]);
    let define = |more: &str| {
        let file = world.file(
            "job.json",
            &format!(r#"{{"job":"a/x","task":"t","schedule":{{"every":"1h"}}{more}}}"#),
        );
        let apply = ["apply", "-f", &file, "--json"];
        let output = world.command(&apply).env("CRONSTREAM_AUTHOR", "ann").output().unwrap();
        let row: Value = serde_json::from_slice(&output.stdout).unwrap();
        row["revision"].as_u64().unwrap()
    };
    let first = define(r#","params":{"n":1.10}"#);
    let second = define(r#","params":{"n":1.10},"title":"new","timeout":"2h""#);
    let third = define(r#","title":"newer""#);
    let rows = world.json(&["history", "a/x"]);
    let revisions: Vec<_> = rows.iter().map(|row| row["revision"].as_u64().unwrap()).collect();
    assert_eq!(revisions, [third, second, first]);
    assert_eq!(texts(&rows, "author"), ["ann", "ann", "ann"]);
    assert_eq!((&rows[0]["in_force"], &rows[1]["in_force"]), (&true.into(), &false.into()));
    assert_eq!(rows[2].get("changes"), None);
    let changed = texts(rows[1]["changes"].as_array().unwrap(), "field");
    assert_eq!(changed, ["timeout", "title"].map(str::to_owned));
    let text = world.ok(&["history", "a/x", "--diff", "-n", "1"]);
    for line in ["- params: {\"n\":1.10}", "+ params: {}", "- title: \"new\"", "+ title: \"newer\""]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    let file = world.file("job.json", r#"{"job":"a/y","task":"t","schedule":{"every":"1h"}}"#);
    let mut apply = world.command(&["apply", "-f", &file]);
    // As in a container.
    apply.env_remove("CRONSTREAM_AUTHOR").env_remove("USER").env_remove("LOGNAME");
    assert!(apply.output().unwrap().status.success());
    let author = texts(&world.json(&["history", "a/y"]), "author").remove(0);
    assert!(author.contains('@') && !author.starts_with('@'), "{author}");
    let at = |row: &Value| row["at"].as_str().unwrap().to_owned();
    let then = world.json(&["get", "a/x", "--at", &at(&rows[1])]).remove(0);
    assert_eq!((&then["revision"], &then["definition"]["title"]), (&second.into(), &"new".into()));
    let (code, error) = world.fails(&["get", "a/x", "--at", "2020-01-01T00:00:00Z"]);
    assert_eq!(code, 6, "{error}");

    let to = first.to_string();
    assert_eq!(world.fails(&["rollback", "a/x", "--to", &to]).0, 2);
    assert_eq!(world.fails(&["rollback", "a/x", "--to", "999999", "--yes"]).0, 6);
    let (code, stdout, stderr) = world.all(&["rollback", "a/x", "--to", &to, "--yes"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains("- title: \"newer\"") && stdout.contains("every 1h"),
        "{stderr}{stdout}"
    );
    let job = world.json(&["get", "a/x"]).remove(0);
    assert!(job["revision"].as_u64().unwrap() > third);
    let text = world.ok(&["get", "a/x", "--definition"]);
    assert!(text.contains(r#""params":{"n":1.10}"#), "{text}");
    let (code, _, again) = world.all(&["rollback", "a/x", "--to", &to, "--yes"]);
    assert!(code == 0 && again.contains("says the same"), "{again}");
    assert_eq!(world.json(&["history", "a/x"]).len(), 4);

    world.ok(&["delete", "a/x", "--yes"]);
    assert_eq!(world.fails(&["get", "a/x", "--at", "2100-01-01T00:00:00Z"]).0, 6);
    world.ok(&["rollback", "a/x", "--to", &to, "--yes"]);
    assert_eq!(world.json(&["get", "a/x"]).remove(0)["state"], "active");
    assert_eq!(world.fails(&["history", "a/none"]).0, 6);
}

#[tokio::test]
async fn next_shows_both_zones_and_marks_what_was_asked_and_what_calendars_do() {
    let world = World::start().await;
    world.ok(&["init", "--partitions", "1"]);
    let bus = bus(&world).await;
    let first =
        world.json(&["simulate", "0 3 * * *", "--zone", "Europe/Berlin", "-n", "3"]).remove(0);
    let slot = |at: usize| first["slots"][at]["slot"].as_str().unwrap().to_owned();
    let behind: Timestamp = slot(2).parse().unwrap();
    let behind = behind.plus(Duration::from_secs(3_600)).to_string();
    let overrides = json!([
        { "slot": slot(0), "command": 5 },
        { "slot": slot(1), "to": behind, "command": 6 },
    ]);
    let asked = state("job_overridden", "a/asked", 4, &json!({ "overrides": overrides }));
    store(&bus, "cron.job.a.asked", &asked).await;
    let rows = world.json(&["next", "a/asked", "-n", "3", "--zone", "America/New_York"]);
    assert_eq!(texts(&rows, "state"), ["skipped", "due", "due"]);
    // In the order in which they are due.
    assert_eq!(texts(&rows, "due"), [slot(0), slot(2), behind.clone()]);
    assert_eq!(texts(&rows, "slot"), [slot(0), slot(2), slot(1)]);
    let next = &world.json(&["get", "a/asked"]).remove(0)["next"];
    assert_eq!((&next[0], &next[1]), (&slot(2).into(), &behind.into()));
    assert_eq!(rows[0]["your_zone"], "America/New_York");
    assert!(rows[1]["local"].as_str().unwrap().contains("T03:00:00+"), "{rows:?}");
    assert!(rows[1]["yours"].as_str().unwrap().contains("T2"), "{rows:?}");
    let text = world.ok(&["next", "a/asked", "-n", "3"]);
    assert!(text.starts_with("a/asked: at 03:00 every day (Europe/Berlin)\nYOURS (UTC)"), "{text}");
    assert!(text.contains("skipped as asked"), "{text}");

    let closed = json!({ "calendar_defined": {
        "calendar": "a/closed", "revision": 1, "command": 1, "at": "2026-01-01T00:00:00.000Z",
        "definition": { "exclude": [{ "range": { "from": "2027-01-01", "to": "2099-12-31" } }, { "weekly": ["SAT", "SUN"] }] },
    }});
    store(&bus, "cron.object.calendar.a.closed", &closed).await;
    let definition = |name: &str| {
        json!({ "definition": {
            "task": "t", "schedule": { "cron": "0 * * * *" }, "calendars": { "only": [name] },
            "start": "2026-12-04T22:00:00.000Z" } })
    };
    store(&bus, "cron.job.a.day", &state("job_defined", "a/day", 7, &definition("a/closed"))).await;
    store(&bus, "cron.job.a.lost", &state("job_defined", "a/lost", 8, &definition("a/gone"))).await;
    let told = world.json(&["get", "a/day"]).remove(0);
    assert!(told["next"].as_array().unwrap().len() <= 3);
    let (_, lost, _) = world.all(&["next", "a/lost", "-n", "1"]);
    assert!(lost.contains("calendar a/gone is not known"), "{lost}");
    let paused =
        state("job_paused", "a/paused", 9, &json!({ "paused": "2026-01-02T00:00:00.000Z" }));
    store(&bus, "cron.job.a.paused", &paused).await;
    let (_, stdout, stderr) = world.all(&["next", "a/paused", "-n", "1", "--json"]);
    let row: Value = serde_json::from_str(&stdout).unwrap();
    assert!(row["state"] == "paused" && stderr.contains("paused since"), "{stdout}{stderr}");
}

#[tokio::test]
async fn tz_report_lists_what_moved_and_says_what_it_cannot_know() {
    let world = World::start().await;
    world.ok(&["init", "--partitions", "1"]);
    let bus = bus(&world).await;
    let job = |zone: &str, tzdb: &str| {
        let definition =
            json!({ "task": "t", "schedule": { "cron": "0 12 * * *" }, "time_zone": zone });
        json!({ "definition": definition, "tzdb": tzdb })
    };
    for (name, zone, tzdb) in [
        ("havana", "America/Havana", "2025b"),
        ("berlin", "Europe/Berlin", "2025b"),
        ("old", "Europe/Berlin", "2019a"),
    ] {
        let event = state("job_defined", &format!("a/{name}"), 1, &job(zone, tzdb));
        store(&bus, &format!("cron.job.a.{name}"), &event).await;
    }
    store(&bus, "cron.job.a.none", &state("job_defined", "a/none", 1, &json!({}))).await;
    let span = ["--from", "2026-11-01T00:00:00Z", "--to", "2026-11-04T00:00:00Z"];
    let report = world.json(&[&["tz-report"], &span[..]].concat()).remove(0);
    assert_eq!(report["compared"], 2);
    assert_eq!(texts(report["changed"].as_array().unwrap(), "job"), ["a/havana"]);
    let slots = report["changed"][0]["slots"].as_array().unwrap();
    assert_eq!(texts(slots, "was")[0], "2026-11-01T17:00:00.000Z");
    assert_eq!(texts(slots, "is")[0], "2026-11-01T16:00:00.000Z");
    assert_eq!(texts(report["unknown"].as_array().unwrap(), "job"), ["a/none", "a/old"]);
    let text = world.ok(&[&["tz-report"], &span[..]].concat());
    assert!(text.contains("a/havana (America/Havana), recorded under 2025b:"), "{text}");
    let only = [&["tz-report", "--zone", "Europe/Berlin"], &span[..]].concat();
    let only = world.json(&only).remove(0);
    assert_eq!(only["changed"].as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn forecast_counts_the_jobs_of_the_installation_that_are_not_paused() {
    let world = World::start().await;
    world.ok(&["init", "--partitions", "1"]);
    let bus = bus(&world).await;
    for number in 0..20 {
        let event = state("job_defined", &format!("a/j{number}"), 1, &json!({}));
        store(&bus, &format!("cron.job.a.j{number}"), &event).await;
    }
    let paused = state("job_paused", "a/p", 1, &json!({ "paused": "2026-01-02T00:00:00.000Z" }));
    store(&bus, "cron.job.a.p", &paused).await;
    let span = ["--from", "2027-01-01T00:00:00Z", "--to", "2027-01-02T00:00:00Z"];
    let told =
        world.json(&[&["forecast", "--zone", "Europe/Berlin"], &span[..]].concat()).remove(0);
    assert_eq!(
        (&told["jobs"], &told["paused"], &told["slots"]),
        (&20.into(), &1.into(), &20.into())
    );
    assert_eq!(told["busiest"][0]["local"], "2027-01-01T03:00:00+01:00");
    assert_eq!(told["advice"][0]["better"], "H 3 * * *");
    // The same stretch on the clock of the zone.
    let span = ["--from", "2027-01-01T01:00", "--to", "2027-01-02T01:00"];
    let local =
        world.json(&[&["forecast", "--zone", "Europe/Berlin"], &span[..]].concat()).remove(0);
    assert_eq!((&local["from"], &local["to"]), (&told["from"], &told["to"]));
    let span = ["--from", "2027-01-01", "--to", "2027-02-01"];
    let report =
        world.json(&[&["tz-report", "--zone", "Europe/Berlin"], &span[..]].concat()).remove(0);
    assert_eq!(report["from"], "2026-12-31T23:00:00.000Z");
}

/// How many events the log has; more by command, in a release build:
/// `CRONSTREAM_LOG_EVENTS=10000000 cargo test --release -p cronstream --test asking long_log -- --nocapture`.
const LOG_EVENTS: &str = "CRONSTREAM_LOG_EVENTS";
/// How fast `next` is to be on ten million events.
const ANSWER_MAX: Duration = Duration::from_millis(200);

/// Stores so many events as a ticker would, in batches behind the cursor at `seq`; returns the cursor's sequence.
async fn fill(bus: &Bus, events: u64, seq: u64) -> u64 {
    const BATCH: u64 = 999;
    let mut batch = Batch {
        messages: Vec::new(),
        cursor: OutMessage::new("cron.cursor.0", "{}"),
        headers: Vec::new(),
        cursor_expected_seq: seq,
    };
    for first in (0..events).step_by(999) {
        let numbers = first..events.min(first + BATCH);
        let fire = |number: u64| {
            let subject = format!("cron.fire.default.b.j{}", number % 10_000);
            OutMessage::new(subject, vec![b' '; 200])
        };
        batch.messages = numbers.map(fire).collect();
        match bus.commit(&batch).await.unwrap() {
            CommitAnswer::Stored { last_seq } => batch.cursor_expected_seq = last_seq,
            other => panic!("{other:?}"),
        }
    }
    batch.cursor_expected_seq
}

#[tokio::test]
async fn next_and_history_do_not_scan_a_long_log() {
    let asked = std::env::var(LOG_EVENTS).ok().map(|number| number.parse::<u64>().unwrap());
    let events = asked.unwrap_or(20_000);
    let world = World::start().await;
    world.ok(&["init", "--partitions", "1"]);
    let bus = &bus(&world).await;
    let mut revision = state("job_revised", "a/x", 1, &json!({}));
    store(bus, "cron.history.a.x", &revision).await;
    store(bus, "cron.job.a.x", &state("job_defined", "a/x", 1, &json!({}))).await;
    let half = fill(bus, events / 2, 0).await;
    revision = state("job_revised", "a/x", 2, &json!({ "at": "2026-02-01T00:00:00.000Z" }));
    store(bus, "cron.history.a.x", &revision).await;
    fill(bus, events - events / 2, half).await;
    for verb in [
        &["next", "a/x", "-n", "20"][..],
        &["get", "a/x"],
        &["history", "a/x"],
        &["get", "a/x", "--at", "2026-01-15T00:00:00Z"],
    ] {
        let mut best = Duration::MAX;
        for _ in 0..5 {
            let start = Instant::now();
            world.ok(verb);
            best = best.min(start.elapsed());
        }
        eprintln!("{events} events: {} in {best:?}", verb.join(" "));
        // A debug build on a busy machine is only to show that it does not grow without bound.
        let within = if asked.is_some() { ANSWER_MAX } else { Duration::from_secs(5) };
        assert!(best <= within, "{verb:?} took {best:?} on {events} events");
    }
}
