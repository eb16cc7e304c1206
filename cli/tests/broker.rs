//! The command line against a real nats-server and a real ticker: what is printed and how it exits.

#![expect(clippy::unwrap_used, reason = "helpers of tests; the lint knows test functions only")]

mod world;

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use self::world::World;

const JOBS: &str = "\
job: billing/nightly
task: report
schedule: {cron: \"0 3 * * *\"}
time_zone: Europe/Berlin
params: {deep: [1, 1.5, '1.10']}
---
job: billing/often
task: report
queue: reports
schedule: {every: 1h}
title: \"a \\u001b[31mred\\u001b[0m title\"
";

#[tokio::test]
async fn a_server_without_an_installation_exits_with_7() {
    let world = World::start().await;
    for verb in [&["status"][..], &["list"], &["get", "a/b"], &["ticker"]] {
        let (code, error) = world.fails(verb);
        assert_eq!(code, 7, "{verb:?}: {error}");
        assert!(error.contains("cronstream init"), "{error}");
    }
}

#[tokio::test]
async fn repeating_init_changes_nothing_and_another_partition_count_is_refused() {
    let world = World::start().await;
    world.ok(&["init", "--partitions", "3", "--lease-ttl", "2s"]);
    let again = world.json(&["init"]).remove(0);
    assert_eq!((&again["partitions"], &again["lease_ttl"]), (&3.into(), &"2s".into()));
    let streams = again["streams"].as_array().unwrap();
    assert!(streams.iter().all(|stream| stream["change"] == "unchanged"), "{again}");
    let (code, error) = world.fails(&["init", "--partitions", "4"]);
    assert_eq!(code, 7);
    assert!(error.contains("has 3 partitions, not 4"), "{error}");
}

#[tokio::test]
async fn without_a_ticker_a_command_is_indeterminate_and_says_how_to_look() {
    let world = World::start().await;
    world.ok(&["init"]);
    let file = world.file("jobs.yaml", JOBS);
    let (code, error) = world.fails(&["apply", "-f", &file, "--timeout", "500ms"]);
    assert_eq!(code, 4);
    assert!(error.contains("cronstream get billing/"), "{error}");
    let (code, stdout, _) = world.all(&["doctor"]);
    assert_eq!(code, 1);
    assert!(stdout.contains("FAIL  tickers: none answers"), "{stdout}");
    assert_eq!(world.fails(&["release"]).0, 1);
}

#[tokio::test]
async fn apply_creates_then_leaves_alone_then_changes() {
    let mut world = World::start().await;
    world.ticker(&[]);
    let file = world.file("jobs.yaml", JOBS);
    let outcomes = |world: &World, more: &[&str]| -> Vec<String> {
        let rows = world.json(&[&["apply", "-f", &file], more].concat());
        rows.iter().map(|row| row["outcome"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(outcomes(&world, &["--dry-run"]), ["created", "created"]);
    assert_eq!(outcomes(&world, &[]), ["created", "created"]);
    assert_eq!(outcomes(&world, &[]), ["unchanged", "unchanged"]);
    world.file("jobs.yaml", &JOBS.replace("1h", "2h"));
    assert_eq!(outcomes(&world, &["--dry-run"]), ["unchanged", "changed"]);
    assert_eq!(outcomes(&world, &[]), ["unchanged", "changed"]);
    let job = world.json(&["get", "billing/nightly"]).remove(0);
    assert_eq!(job["definition"]["params"]["deep"][2], "1.10");
    let next = world.json(&["next", "billing/nightly", "-n", "2"]);
    assert!(next.iter().all(|row| row["time_zone"] == "Europe/Berlin"), "{next:?}");
    assert!(next[0]["local"].as_str().unwrap().contains("T03:00:00+"), "{next:?}");
    let list = world.ok(&["list", "billing"]);
    assert!(list.contains("\\u{1b}[31mred") && !list.contains('\u{1b}'), "{list}");
    assert_eq!(world.json(&["list", "other"]).len(), 0);
}

#[tokio::test]
async fn apply_names_tasks_that_nobody_will_run_and_says_nothing_where_each_is_known() {
    let mut world = World::start().await;
    world.ticker(&[]);
    let file = world.file("jobs.yaml", JOBS);
    let (_, _, stderr) = world.all(&["apply", "-f", &file]);
    assert!(stderr.contains("note: queues without executors: default, reports; "), "{stderr}");
    let tasks = world.file("tasks.toml", "[tasks.report]\ncommand = [\"true\"]\n");
    let executor = ["executor", "--node", "e1", "--queue", "reports", "--tasks", &tasks];
    let log = std::fs::File::create(world.folder.path().join("executor.log")).unwrap();
    let mut executor = world.command(&executor).stderr(log).spawn().unwrap();
    world.status_when(|status| status["executors"].as_array().is_some_and(|it| it.len() == 1));
    let served = JOBS.split_once("---\n").unwrap().1;
    let known = world.file("known.yaml", served);
    let unknown = world.file("unknown.yaml", &served.replace("task: report", "task: none"));
    let (code, _, stderr) = world.all(&["apply", "-f", &unknown]);
    assert_eq!(code, 0, "{stderr}");
    let note = "note: tasks that no executor of their queue knows: none on queue reports (job billing/often); ";
    assert!(stderr.contains(note), "{stderr}");
    let (code, _, stderr) = world.all(&["apply", "-f", &known, "--dry-run"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    executor.kill().unwrap();
    executor.wait().unwrap();
}

#[tokio::test]
async fn a_bad_document_is_rejected_with_every_fault_and_its_place_and_the_others_are_applied() {
    let mut world = World::start().await;
    world.ticker(&[]);
    let bad = "---\njob: billing/bad\ntask: a b\ntimeout: 90\nparams:\n  id: 12345678901234567890\nschedule: {cron: \"61 * * * *\"}\n";
    let file = world.file("jobs.yaml", &format!("{JOBS}{bad}"));
    let (code, stdout, stderr) = world.all(&["apply", "-f", &file]);
    assert_eq!(code, 3, "{stderr}");
    assert!(stdout.contains("created   billing/often"), "{stdout}");
    for fault in ["14: $.task", "15: $.timeout", "17: $.params.id", "18: $.schedule.cron"] {
        assert!(stdout.contains(&format!("{file}:{fault}")), "{fault}: {stdout}");
    }
    assert!(
        stdout.contains("12345678901234567890") && stdout.contains("a JSON file keeps"),
        "{stdout}"
    );
    assert_eq!(world.fails(&["get", "billing/bad"]).0, 6);
}

#[tokio::test]
async fn a_job_is_paused_resumed_and_deleted() {
    let mut world = World::start().await;
    world.ticker(&[]);
    let file = world.file("jobs.yaml", JOBS);
    world.ok(&["apply", "-f", &file]);
    let job = "billing/often";
    world.ok(&["pause", job]);
    assert!(world.ok(&["pause", job]).contains("paused already"));
    assert_eq!(world.json(&["get", job])[0]["state"], "paused");
    let (code, stdout, stderr) = world.all(&["resume", job]);
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains("no slot fell into the pause") && stdout.contains("resumed"),
        "{stderr}{stdout}"
    );
    let (_, stdout, stderr) = world.all(&["resume", job]);
    assert!(stdout.contains("is not paused") && !stdout.contains("resumed"), "{stderr}{stdout}");
    let (code, error) = world.fails(&["delete", job]);
    assert_eq!(code, 2, "nobody can be asked: {error}");
    world.ok(&["delete", job, "--yes"]);
    assert_eq!(world.fails(&["get", job]).0, 6);
    assert_eq!(world.json(&["list"]).len(), 1);
    assert_eq!(world.json(&["list", "--deleted"]).len(), 2);
}

#[tokio::test]
async fn a_triggered_run_is_found_waited_for_and_cancelled() {
    let mut world = World::start().await;
    world.ticker(&[]);
    let file = world.file("jobs.yaml", JOBS);
    world.ok(&["apply", "-f", &file]);
    let trigger =
        ["trigger", "billing/often", "--key", "k", "--params", "{\"n\":12345678901234567890}"];
    let verdict = world.json(&trigger).remove(0);
    let run = verdict["outcome"]["fired"]["run"].as_str().unwrap().to_owned();
    let (code, error) = world.fails(&trigger);
    assert_eq!(code, 3);
    assert!(error.contains(&run), "{error}");
    // Nothing runs it: there is no executor.
    assert_eq!(world.json(&["runs", "billing/often"])[0]["state"], "waiting");
    assert!(world.ok(&["run", &run]).contains("12345678901234567890"));
    let (code, stdout, _) = world.all(&["doctor"]);
    assert_eq!(code, 1);
    assert!(stdout.contains("queues without executors: default, reports"), "{stdout}");
    assert_eq!(world.fails(&["cancel", &run]).0, 2);
    world.ok(&["cancel", &run, "--yes"]);
    assert_eq!(world.json(&["run", &run])[0]["state"], "cancelled");
    assert_eq!(world.fails(&["cancel", "billing/often", &run, "--yes"]).0, 3);
    let unknown = "01a31bbc-507b-8dab-b5ee-be7b4b3cf84b";
    assert_eq!(world.fails(&["run", unknown]).0, 6);
    let wait = ["trigger", "billing/often", "--wait", "--wait-timeout", "200ms"];
    let (code, error) = world.fails(&wait);
    assert_eq!(code, 4, "{error}");
    assert!(
        error.contains("of billing/often has not ended within 0.2s\nhint: it goes on"),
        "{error}"
    );
}

#[tokio::test]
async fn status_names_the_leader_and_release_ends_a_hold() {
    let mut world = World::start().await;
    world.ticker(&["--hold"]);
    let file = world.file("jobs.yaml", JOBS);
    world.ok(&["apply", "-f", &file]);
    let led = |status: &Value| {
        let partitions = status["partitions"].as_array().cloned().unwrap_or_default();
        partitions.len() == 2 && partitions.iter().all(|partition| partition["leader"] == "t1")
    };
    world.status_when(|status| {
        status["tickers"][0]["role"]["ticker"]["hold"] == true && led(status)
    });
    let (code, error) = world.fails(&["trigger", "billing/often"]);
    assert_eq!(code, 3);
    assert!(error.contains("on hold"), "{error}");
    assert_eq!(world.json(&["release"])[0]["released"][0], "t1");
    world.status_when(|status| status["tickers"][0]["role"]["ticker"]["hold"] == false);
    world.ok(&["trigger", "billing/often"]);
}

#[tokio::test]
async fn a_queue_without_executors_is_shown_with_what_waits_there() {
    let mut world = World::start().await;
    world.ticker(&[]);
    let file = world.file("jobs.yaml", JOBS);
    world.ok(&["apply", "-f", &file]);
    world.ok(&["trigger", "billing/often"]);
    let status = world.json(&["status"]).remove(0);
    let queue = |name: &str| {
        let queues = status["queues"].as_array().unwrap();
        queues.iter().find(|queue| queue["queue"] == name).unwrap().clone()
    };
    let reports = queue("reports");
    assert_eq!((&reports["executors"], &reports["waiting"]), (&0.into(), &1.into()), "{status}");
    assert_eq!((&reports["jobs"], &queue("default")["waiting"]), (&1.into(), &0.into()));
    let text = world.ok(&["status"]);
    assert!(text.lines().any(|line| line.starts_with("reports") && line.contains(" 0 ")), "{text}");
}

#[tokio::test]
async fn the_document_that_get_prints_is_one_that_apply_takes() {
    let mut world = World::start().await;
    world.ticker(&[]);
    let params = "{\"n\":12345678901234567890, \"f\":1.10}";
    let job = format!(
        "{{\"job\":\"a/exact\",\"task\":\"t\",\"schedule\":{{\"every\":\"90s\"}},\"params\":{params}}}"
    );
    let files = [world.file("jobs.yaml", JOBS), world.file("exact.json", &job)];
    world.ok(&["apply", "-f", &files[0], "-f", &files[1]]);
    let list = world.json(&["list"]);
    assert_eq!(list[1]["schedule"]["cron"], "0 3 * * *", "{list:?}");
    assert_eq!(list[1]["time_zone"], "Europe/Berlin", "{list:?}");
    let jobs = list.iter().map(|row| row["job"].as_str().unwrap());
    let saved: String = jobs.map(|job| world.ok(&["get", job, "--definition"])).collect();
    assert!(saved.contains(params), "{saved}");
    let saved = world.file("saved.json", &saved);
    let again = world.json(&["apply", "-f", &saved]);
    assert_eq!(again.len(), 3);
    assert!(again.iter().all(|applied| applied["outcome"] == "unchanged"), "{again:?}");
    for job in list.iter().map(|row| row["job"].as_str().unwrap()) {
        world.ok(&["delete", job, "--yes"]);
    }
    let anew = world.json(&["apply", "-f", &saved]);
    assert!(anew.iter().all(|applied| applied["outcome"] == "created"), "{anew:?}");
    assert!(world.ok(&["get", "a/exact", "--json"]).contains(params));
}

#[tokio::test]
async fn runs_of_a_job_that_never_was_exit_with_6() {
    let mut world = World::start().await;
    world.ticker(&[]);
    for verb in ["runs", "dead"] {
        let (code, error) = world.fails(&[verb, "no/job"]);
        assert_eq!(code, 6, "{verb}: {error}");
    }
    let file = world.file("jobs.yaml", JOBS);
    world.ok(&["apply", "-f", &file]);
    assert_eq!(world.json(&["runs", "billing/often"]).len(), 0);
    assert_eq!(world.json(&["dead", "billing/often"]).len(), 0);
}

#[tokio::test]
async fn a_cluster_is_judged_by_who_is_up() {
    let binary = cronstream_server::ensure(&mut |line| eprintln!("{line}")).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = cronstream_server::Cluster::start(&binary, folder.path()).await.unwrap();
    let run = |url: &str, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cronstream"));
        let output = command.args(arguments).env("NATS_URL", url).stdin(Stdio::null()).output();
        let Output { status, stdout, stderr } = output.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code().unwrap(), text(stdout), text(stderr))
    };
    let url = cluster.urls().remove(0);
    let (code, _, error) = run(&url, &["init", "--replicas", "3"]);
    assert_eq!(code, 0, "{error}");
    cluster.nodes[2].kill().await.unwrap();
    let start = Instant::now();
    loop {
        let (_, stdout, _) = run(&url, &["doctor"]);
        if stdout.contains("WARN  replicas: ") && stdout.contains(": 1 of 3 offline (n2)") {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{stdout}");
    }
    cluster.nodes[1].kill().await.unwrap();
    let start = Instant::now();
    loop {
        let asked = Instant::now();
        let (code, _, error) = run(&url, &["status", "--timeout", "3s"]);
        if code == 1 {
            assert!(error.contains("error[unavailable]: stream CRON_LOG"), "{error}");
            assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
            break;
        }
        // The leader that is left takes a while to see that it is alone.
        assert!(start.elapsed() < Duration::from_secs(60), "{code} {error}");
    }
    // Each of its streams finds out by itself.
    let start = Instant::now();
    loop {
        let (code, stdout, _) = run(&url, &["doctor"]);
        assert_eq!(code, 1, "{stdout}");
        assert!(!stdout.contains("lacks"), "{stdout}");
        if stdout.contains("fewer than a majority of the brokers are up") {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{stdout}");
    }
}

#[tokio::test]
async fn a_ticker_whose_name_is_taken_never_says_that_it_started() {
    let mut world = World::start().await;
    world.ticker(&[]);
    world.status_when(|status| status["partitions"][0]["leader"] == "t1");
    let (code, error) = world.fails(&["ticker", "--node", "t1"]);
    assert_eq!(code, 1, "{error}");
    assert!(error.contains("error[node-name-taken]"), "{error}");
    assert!(!error.contains("ticker started"), "{error}");
    let log = std::fs::read_to_string(world.folder.path().join("ticker.log")).unwrap();
    assert!(log.contains("ticker started"), "{log}");
}

#[tokio::test]
async fn a_run_that_fails_is_told_with_why_and_warned_of_in_the_executors_log() {
    let mut world = World::start().await;
    world.ticker(&[]);
    let tasks = world.file("tasks.toml", "tasks.bad.command = [\"/bin/sh\", \"-c\", \"exit 7\"]");
    let job = "job: a/bad\ntask: bad\nmax_attempts: 1\nschedule: {every: 1h}\n";
    let job = world.file("jobs.yaml", job);
    world.ok(&["apply", "-f", &job]);
    let log = world.folder.path().join("executor.log");
    let mut executor = world.command(&["executor", "--tasks", &tasks]);
    let mut executor = executor.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
    let (code, stdout, error) = world.all(&["trigger", "a/bad", "--wait", "--wait-timeout", "30s"]);
    // The executor may tell it a moment later than the stream.
    let start = Instant::now();
    while !std::fs::read_to_string(&log).unwrap().contains("attempt failed") {
        assert!(start.elapsed() < Duration::from_secs(20), "{code} {error}");
        std::thread::yield_now();
    }
    executor.kill().unwrap();
    executor.wait().unwrap();
    assert_eq!(code, 8, "{error}");
    assert!(
        stdout.contains("failed") && stdout.contains("error: ") && stdout.contains('7'),
        "{stdout}"
    );
    assert!(error.contains("cronstream run "), "{error}");
    let log = std::fs::read_to_string(log).unwrap();
    let warned: Vec<&str> = log.lines().filter(|line| line.contains("attempt failed")).collect();
    assert_eq!(warned.len(), 1, "{log}");
    assert!(warned[0].contains("WARN") && warned[0].contains("a/bad"), "{log}");
}

/// Everybody without a login may do all; `dev` may work in namespace `billing` alone.
const USERS: &str = r#"
authorization { users = [
  { user: guest, password: guest }
  { user: dev, password: "p@ss", permissions: {
      publish: { allow: ["cron.*.billing.*", "$JS.API.DIRECT.GET.CRON_LOG.cron.job.billing.*"]
                 deny: ["cron.job.>", "cron.history.>", "cron.skipped.>", "cron.rejected.>"] }
      subscribe: { allow: ["_INBOX.dev.>"] } } }
] }
no_auth_user: guest
"#;

#[tokio::test]
async fn a_user_of_one_namespace_works_there_and_nowhere_else() {
    let mut world = World::start_with(USERS).await;
    world.ticker(&[]);
    let file = world.file("jobs.yaml", JOBS);
    let login = |login: &str| world.server.url().replace("nats://", &format!("nats://{login}@"));
    let url = login("dev:p%40ss");
    let me = ["--nats", &url, "--inbox-prefix", "_INBOX.dev"];
    let as_dev = |arguments: &[&str]| world.all(&[arguments, &me].concat());
    for verb in [
        &["apply", "-f", &file][..],
        &["get", "billing/often"],
        &["pause", "billing/often"],
        &["trigger", "billing/often"],
    ] {
        let (code, _, error) = as_dev(verb);
        assert_eq!(code, 0, "{verb:?}: {error}");
    }
    for verb in [&["list"][..], &["trigger", "other/job"], &["status"]] {
        let (code, _, error) = as_dev(verb);
        assert_eq!(code, 1, "{verb:?}: {error}");
        assert!(error.contains("error[permission-denied]"), "{error}");
    }
    let (code, error) = world.fails(&["get", "billing/often", "--nats", &login("dev:wrong")]);
    assert_eq!(code, 5, "{error}");
    assert!(!error.contains("wrong"), "{error}");
}

#[tokio::test]
async fn a_node_whose_log_has_lost_its_reader_still_stops_when_told_to() {
    let world = World::start().await;
    world.ok(&["init", "--partitions", "1"]);
    let tasks = world.file("tasks.toml", "[tasks.a]\ncommand = [\"true\"]\n");
    let ticker = ["ticker", "--node", "mute", "--verbose"];
    let executor = ["executor", "--node", "mute", "--verbose", "--tasks", &tasks];
    for arguments in [&ticker[..], &executor[..]] {
        let mut node = world.command(arguments).stderr(Stdio::piped()).spawn().unwrap();
        // The first line comes when signals are listened to; every later one finds nobody.
        let mut first = String::new();
        let mut log = std::io::BufReader::with_capacity(1, node.stderr.take().unwrap());
        std::io::BufRead::read_line(&mut log, &mut first).unwrap();
        drop(log);
        let role = if arguments[0] == "ticker" { "tickers" } else { "executors" };
        world.status_when(|status| !status[role].as_array().unwrap().is_empty());
        let told = Command::new("kill").args(["-TERM", &node.id().to_string()]).status().unwrap();
        assert!(told.success());
        let pid = node.id().to_string();
        let ended = tokio::task::spawn_blocking(move || node.wait().unwrap());
        let within = tokio::time::timeout(Duration::from_secs(10), ended).await;
        if within.is_err() {
            Command::new("kill").args(["-KILL", &pid]).status().unwrap();
        }
        let status = within.expect("the node ends").unwrap();
        assert_eq!(status.code(), Some(0), "{arguments:?} after {first}");
    }
}
