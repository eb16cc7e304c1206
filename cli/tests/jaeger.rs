//! `cronstream dev --jaeger` prints an address for each run, and the run's trace is there. Without a Jaeger, and
//! without Go to build one, the test says that it is skipped.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// One GET of an address on this machine.
fn get(url: &str) -> Option<String> {
    let (host, path) = url.strip_prefix("http://")?.split_once('/')?;
    let mut stream = TcpStream::connect(host).ok()?;
    write!(stream, "GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn runs(program: &str, argument: &str) -> bool {
    let output = Command::new(program).arg(argument).output();
    output.is_ok_and(|output| output.status.success())
}

fn cached() -> bool {
    let home = std::env::var_os("HOME").unwrap_or_default();
    std::path::Path::new(&home).join(".cache/cronstream/bin/jaeger").is_file()
}

#[test]
fn each_run_has_an_address_under_which_its_trace_is_shown() {
    if !(cached() || runs("jaeger", "version") || runs("go", "version")) {
        eprintln!("SKIPPED(go): no Jaeger, and no Go to build one");
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let mut dev = Command::new(env!("CARGO_BIN_EXE_cronstream"))
        .args(["dev", "--json", "--jaeger", "--port", "0", "--data"])
        .arg(data.path())
        .env_remove("NATS_URL")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(data.path().join("talk")).unwrap())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(dev.stdout.take().unwrap()).lines();
    let run = lines.find_map(|line| {
        let line: serde_json::Value = serde_json::from_str(&line.ok()?).ok()?;
        Some((line["run"].as_str()?.replace('-', ""), line["trace"].as_str()?.to_owned()))
    });
    let talk = || std::fs::read_to_string(data.path().join("talk")).unwrap_or_default();
    let (run, trace) = run.unwrap_or_else(|| panic!("no run with an address: {}", talk()));
    assert!(trace.ends_with(&run), "{trace} is not of {run}");
    // With pages or without them, the query API is there.
    let query = trace.replace("/trace/", "/api/traces/");
    let whole = |answer: &String| ["fire", "attempt", "handler"].iter().all(|n| answer.contains(n));
    let deadline = Instant::now() + PATIENCE;
    while get(&query).filter(whole).is_none() {
        assert!(Instant::now() < deadline, "no trace at {query}: {}", talk());
        std::thread::sleep(LOOK);
    }
    let pid = Pid::from_raw(i32::try_from(dev.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert!(dev.wait().unwrap().success(), "{}", talk());
    assert_eq!(get(&query), None, "Jaeger outlives dev");
}
