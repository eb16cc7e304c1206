//! The quick start: the README's first command does what the README says, stops when told to, and goes on.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::spawn;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The cron example is due every half minute; a first start may have to install nats-server.
const FIRST_RUNS_MAX: Duration = Duration::from_secs(15 * 60);
const LINE_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(5);
/// After a kill the guard gives tickers and executor three seconds.
const ORPHANS_MAX: Duration = Duration::from_secs(20);
/// Processes that are no children of ours send no signal when they end.
const LOOK: Duration = Duration::from_millis(20);

/// A `cronstream dev` with the lines it prints.
struct Dev {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Dev {
    fn start(data: &Path, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cronstream"))
            .args(["dev", "--port", "0", "--data"])
            .arg(data)
            .args(more)
            .env_remove("NATS_URL")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program of this build starts");
        let (tx, lines) = channel();
        let stdout = child.stdout.take().expect("stdout is piped");
        let (stdout, stderr) = (BufReader::new(stdout), child.stderr.take());
        let stderr = BufReader::new(stderr.expect("stderr is piped"));
        let also = tx.clone();
        spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| tx.send(line)));
        spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| also.send(line)));
        Self { child, lines, seen: Vec::new() }
    }

    /// Waits for a line, already seen or still to come.
    fn line(&mut self, what: &str, within: Duration, is: impl Fn(&str) -> bool) -> String {
        if let Some(line) = self.seen.iter().find(|line| is(line)) {
            return line.clone();
        }
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            assert!(line.is_ok(), "no line: {what}; it printed\n{}", self.seen.join("\n"));
            let line = line.unwrap_or_default();
            self.seen.push(line.clone());
            if is(&line) {
                return line;
            }
        }
    }

    fn contains(&mut self, text: &str) -> String {
        self.line(text, LINE_MAX, |line| line.contains(text))
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a child has a number"), signal).expect("it runs");
    }

    /// Waits for the end, and tells how long it took.
    fn ended(&mut self, within: Duration) -> (ExitStatus, Duration) {
        let begun = Instant::now();
        let (tx, done) = channel::<()>();
        let number = self.child.id();
        // A hang would be seen only by the whole test's limit: end it and fail.
        let watchdog = spawn(move || {
            if done.recv_timeout(within).is_err() {
                let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
                pid.map(|pid| kill_process(pid, Signal::KILL));
            }
        });
        let status = self.child.wait().expect("a child can be waited for");
        drop(tx);
        watchdog.join().expect("the watchdog does not panic");
        (status, begun.elapsed())
    }

    /// The processes that it has started.
    fn processes(&self) -> Vec<Pid> {
        let own = i32::try_from(self.child.id()).expect("a process number");
        let children = processes().into_iter().filter(|process| process.parent == own);
        children.filter_map(|process| Pid::from_raw(process.number)).collect()
    }
}

/// A process that has not ended.
struct Process {
    number: i32,
    parent: i32,
}

/// All of this machine; one that has ended and was not waited for does not count.
fn processes() -> Vec<Process> {
    let lines: Vec<String> = match std::fs::read_dir("/proc/self") {
        // `<number> (<name>) <state> <parent> …`, and the name may hold anything.
        Ok(_) => std::fs::read_dir("/proc")
            .expect("it holds a folder for each process")
            .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok())
            .filter_map(|stat| {
                let (number, rest) = stat.split_once(' ')?;
                Some(format!("{number} {}", rest.rsplit_once(") ")?.1))
            })
            .collect(),
        Err(_) => {
            let output = Command::new("ps").args(["-A", "-o", "pid=,stat=,ppid="]).output();
            let output = output.expect("there is /proc or ps").stdout;
            String::from_utf8_lossy(&output).lines().map(str::to_owned).collect()
        }
    };
    let read = |line: &String| {
        let mut words = line.split_whitespace();
        let (number, state, parent) = (words.next()?, words.next()?, words.next()?);
        let (number, parent) = (number.parse().ok()?, parent.parse().ok()?);
        (!state.starts_with('Z')).then_some(Process { number, parent })
    };
    lines.iter().filter_map(read).collect()
}

impl Drop for Dev {
    fn drop(&mut self) {
        // What it has started ends with it; a test that failed leaves nothing either.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn live(pids: &[Pid]) -> Vec<Pid> {
    let processes = processes();
    let lives =
        |pid: &Pid| processes.iter().any(|process| process.number == pid.as_raw_nonzero().get());
    pids.iter().copied().filter(lives).collect()
}

#[test]
fn the_first_command_runs_every_example_stops_in_time_and_goes_on() {
    let folder = tempfile::tempdir().expect("a folder for the data");
    let mut dev = Dev::start(folder.path(), &[]);
    dev.line("a run", FIRST_RUNS_MAX, |line| line.contains("succeeded"));
    for verb in ["init", "ticker", "executor", "apply"] {
        dev.contains(&format!("cronstream {verb} --nats nats://127.0.0.1:"));
    }
    for job in ["example/command", "example/berlin", "example/http", "example/nats"] {
        let run = dev.line(job, LINE_MAX, |line| {
            line.contains(&format!("  {job} ")) && line.contains("  succeeded")
        });
        let late = run.split_whitespace().nth(2).expect("a column of lateness");
        assert!(late.ends_with('s'), "{run}");
    }
    let processes = dev.processes();
    // The server, its guard, two tickers and the executor.
    assert_eq!(processes.len(), 5, "{processes:?}");
    dev.signal(Signal::INT);
    let (status, took) = dev.ended(STOP_MAX);
    assert!(status.success() && took < STOP_MAX, "{status} after {took:?}");
    assert!(live(&processes).is_empty(), "left over: {:?}", live(&processes));

    let mut dev = Dev::start(folder.path(), &["--json", "--for", "12s"]);
    let caught_up = dev.contains("continuing: ");
    assert!(caught_up.contains("continuing: 4 jobs, last slot 20"), "{caught_up}");
    assert!(caught_up.contains("skipped as missed"), "{caught_up}");
    let run = dev.line("a run as JSON", LINE_MAX, |line| {
        line.starts_with('{') && line.contains(r#""outcome":"succeeded""#)
    });
    let run: serde_json::Value = serde_json::from_str(&run).expect("a line of JSON");
    assert!(run["start_delay_ms"].is_u64() && run["job"].is_string(), "{run}");
    let (status, _) = dev.ended(LINE_MAX);
    assert!(status.success(), "{status}");
    assert!(!dev.seen.iter().any(|line| line.contains("cronstream apply")), "defined again");
}

#[test]
fn a_child_that_dies_comes_back_and_a_dev_that_is_killed_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder for the data");
    let mut dev = Dev::start(folder.path(), &[]);
    dev.line("a run", FIRST_RUNS_MAX, |line| line.contains("succeeded"));
    let before = dev.processes();
    let server = dev.contains("nats-server ");
    let server = server.rsplit(' ').next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    kill_process(server.expect("a process number"), Signal::KILL).expect("the server runs");
    dev.contains("nats-server is back");
    let others = before.iter().filter(|pid| Some(**pid) != server);
    for pid in others {
        kill_process(*pid, Signal::KILL).expect("it runs");
    }
    for node in ["dev-1", "dev-2", "dev-tasks"] {
        dev.contains(&format!("{node} ended (signal: 9 (SIGKILL)): starting it again"));
    }
    dev.seen.clear();
    dev.line("a run by the new ones", LINE_MAX, |line| line.contains("succeeded"));

    // The guard is gone, killed as the others: the next start ends the server.
    let after = dev.processes();
    dev.signal(Signal::KILL);
    dev.ended(LINE_MAX);
    let mut dev = Dev::start(folder.path(), &[]);
    dev.contains("left by a `cronstream dev` that was killed");
    dev.line("a run", LINE_MAX, |line| line.contains("succeeded"));
    let more = dev.processes();
    assert_eq!(more.len(), 5, "{more:?}");

    // This time the guard lives.
    dev.signal(Signal::KILL);
    dev.ended(LINE_MAX);
    let all: Vec<Pid> = after.into_iter().chain(more).collect();
    let deadline = Instant::now() + ORPHANS_MAX;
    while !live(&all).is_empty() {
        assert!(Instant::now() < deadline, "left over: {:?}", live(&all));
        std::thread::park_timeout(LOOK);
    }
}
