//! A process of the executor's own tasks file: params on stdin, result in a file, its group killed as one.
//!
//! Invariant: nothing of the process group outlives the attempt, whichever way it ends. A process that left
//! the group (`setsid`) is out of reach; it cannot hold up the attempt by keeping a pipe open.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use cronstream_core::attempt::TaskOutcome;
use cronstream_schemas::event::Output;
use cronstream_schemas::json::{Json, OPAQUE_MAX_BYTES};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};
use tokio::task::JoinSet;

use super::capture::Capture;
use super::{STOP_GRACE, stopped};
use crate::task::{TaskContext, TaskError, TaskResult, into_outcome, too_large};

/// How long output is read after the process has ended, when something else still holds the pipe.
const READ_GRACE: Duration = Duration::from_secs(1);
/// EX_TEMPFAIL of sysexits.h.
const TEMPFAIL: i32 = 75;
/// The most characters of a process's last words in a failure's message.
const LAST_WORDS_CHARS: usize = 512;

/// What to run.
#[derive(Clone)]
pub(crate) struct Command {
    /// The program; relative ones with a `/` are already joined to `cwd`.
    pub(crate) program: PathBuf,
    /// Its arguments.
    pub(crate) args: Vec<String>,
    /// Where it runs.
    pub(crate) cwd: PathBuf,
    /// Its environment beside `CRON_*` and `TRACEPARENT`.
    pub(crate) env: BTreeMap<String, OsString>,
}

impl std::fmt::Debug for Command {
    /// Without values of the environment, which may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Command")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys())
            .finish()
    }
}

/// A process group that is killed when this is dropped.
#[derive(Debug)]
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)))
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.0 {
            // Fails only when nobody is left in the group.
            kill_process_group(pid, signal).ok();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

impl Command {
    /// Runs the process to its end, or stops it when the context is cancelled.
    pub(crate) async fn run(&self, context: &TaskContext, params: &Json) -> TaskOutcome {
        let folder = match tempfile::Builder::new().prefix("cronstream-").tempdir() {
            Ok(folder) => folder,
            Err(error) => {
                let message = format!("cannot make a folder for the result: {error}");
                return TaskError::retry(message).into_outcome(None);
            }
        };
        let result_path = folder.path().join("result.json");
        let mut child = match self.spawn(context, &result_path) {
            Ok(child) => child,
            Err(error) => {
                let message = format!("cannot start {}: {error}", self.program.display());
                return TaskError::retry(message).into_outcome(None);
            }
        };
        let group = Group::of(&child);
        let captures = (Capture::default(), Capture::default());
        let mut pipes = JoinSet::new();
        if let Some(stdin) = child.stdin.take() {
            pipes.spawn(feed(stdin, params.clone()));
        }
        if let Some(stdout) = child.stdout.take() {
            pipes.spawn(captures.0.clone().read(stdout));
        }
        if let Some(stderr) = child.stderr.take() {
            pipes.spawn(captures.1.clone().read(stderr));
        }
        let status = wait(&mut child, &group, context).await;
        drop(group);
        let all = async { while pipes.join_next().await.is_some() {} };
        // Beyond the grace the rest of the output belongs to somebody else.
        tokio::time::timeout(READ_GRACE, all).await.ok();
        let output = output_of(&captures);
        let result = match status {
            Some(Ok(status)) if status.success() => read_result(&result_path).await,
            Some(Ok(status)) => Err(TaskError::retry(describe(status, output.as_ref()))),
            Some(Err(error)) => {
                Err(TaskError::retry(format!("cannot wait for the process: {error}")))
            }
            None => Err(stopped()),
        };
        into_outcome(result, output)
    }

    fn spawn(&self, context: &TaskContext, result_path: &Path) -> std::io::Result<Child> {
        tokio::process::Command::new(&self.program)
            .args(&self.args)
            .current_dir(&self.cwd)
            .env_clear()
            .envs(&self.env)
            .env("CRON_JOB", context.job.to_string())
            .env("CRON_RUN", context.run.to_string())
            .env("CRON_SHARD", context.shard.to_string())
            .env("CRON_SLOT", context.slot.to_string())
            .env("CRON_ATTEMPT", context.attempt.to_string())
            .env("CRON_FENCING_TOKEN", context.fencing_token.to_string())
            .env("CRON_RESULT", result_path)
            .env("TRACEPARENT", &context.traceparent)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }
}

/// Waits for the process; `None` when it was stopped because the context was cancelled.
async fn wait(
    child: &mut Child,
    group: &Group,
    context: &TaskContext,
) -> Option<std::io::Result<ExitStatus>> {
    tokio::select! {
        biased;
        status = child.wait() => return Some(status),
        () = context.cancelled() => {}
    }
    group.signal(Signal::TERM);
    if tokio::time::timeout(STOP_GRACE, child.wait()).await.is_err() {
        group.signal(Signal::KILL);
        // Killed, so there is nothing to learn from how it ended.
        child.wait().await.ok();
    }
    None
}

/// Writes params and closes the pipe; a process that does not read them is fine.
async fn feed(mut stdin: ChildStdin, params: Json) {
    if stdin.write_all(params.as_str().as_bytes()).await.is_ok() {
        stdin.shutdown().await.ok();
    }
}

fn output_of((stdout, stderr): &(Capture, Capture)) -> Option<Output> {
    let ((stdout, dropped_out), (stderr, dropped_err)) = (stdout.text(), stderr.text());
    let dropped = dropped_out + dropped_err;
    let printed = !stdout.is_empty() || !stderr.is_empty() || dropped > 0;
    printed.then_some(Output { stdout, stderr, dropped })
}

/// How a process failed, with the last line it wrote to stderr.
fn describe(status: ExitStatus, output: Option<&Output>) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(TEMPFAIL), _) => "exit status 75 (temporary failure)".to_owned(),
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    };
    let last_line =
        output.and_then(|output| output.stderr.lines().rfind(|line| !line.trim().is_empty()));
    match last_line {
        Some(line) => {
            let line: String = line.trim().chars().take(LAST_WORDS_CHARS).collect();
            format!("{how}: {line}")
        }
        None => how,
    }
}

/// The JSON in the result file; no file, or an empty one, is no result.
async fn read_result(path: &Path) -> TaskResult {
    let unreadable =
        |error: std::io::Error| TaskError::fatal(format!("cannot read CRON_RESULT: {error}"));
    let metadata = match tokio::fs::metadata(path).await {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    if !metadata.is_file() {
        return Err(TaskError::fatal("CRON_RESULT is no regular file"));
    }
    let limit = OPAQUE_MAX_BYTES as u64;
    if metadata.len() > limit {
        let size = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        return Err(too_large("CRON_RESULT", size));
    }
    let file = tokio::fs::File::open(path).await.map_err(unreadable)?;
    let mut text = String::new();
    file.take(limit).read_to_string(&mut text).await.map_err(unreadable)?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    Json::parse(&text)
        .map(Some)
        .map_err(|error| TaskError::fatal(format!("CRON_RESULT is not JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    use cronstream_core::attempt::Retry;
    use tokio::time::Instant;

    use crate::task::tests::context;

    fn shell(script: &str) -> Command {
        Command {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            cwd: std::env::temp_dir(),
            env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".into())]),
        }
    }

    async fn run(script: &str, params: &str) -> TaskOutcome {
        shell(script).run(&context(), &Json::parse(params).unwrap()).await
    }

    fn failure(outcome: TaskOutcome) -> (String, Retry, Output) {
        match outcome {
            TaskOutcome::Failure { failure, retry, output } => {
                (failure.message, retry, output.unwrap_or_default())
            }
            TaskOutcome::Success { .. } => panic!("{outcome:?}"),
        }
    }

    #[tokio::test]
    async fn params_come_on_stdin_and_the_result_file_is_the_result_bit_for_bit() {
        let params = r#"{"n":12345678901234567890, "f":1.10}"#;
        let outcome = run("cat > \"$CRON_RESULT\"; echo done", params).await;
        let TaskOutcome::Success { result, output } = outcome else { panic!("{outcome:?}") };
        assert_eq!(result.unwrap().as_str(), params);
        assert_eq!(output.unwrap().stdout, "done\n");
    }

    #[tokio::test]
    async fn the_environment_is_what_the_contract_names_and_nothing_else() {
        let outcome = run("env | cut -d= -f1 | sort | tr '\\n' ' '", "{}").await;
        let TaskOutcome::Success { output, .. } = outcome else { panic!("{outcome:?}") };
        let named = output.unwrap().stdout;
        let ours: Vec<_> = named
            .split_whitespace()
            .filter(|n| !["PWD", "SHLVL", "_", "OLDPWD"].contains(n))
            .collect();
        let expected = [
            "CRON_ATTEMPT",
            "CRON_FENCING_TOKEN",
            "CRON_JOB",
            "CRON_RESULT",
            "CRON_RUN",
            "CRON_SHARD",
            "CRON_SLOT",
            "PATH",
            "TRACEPARENT",
        ];
        assert_eq!(ours, expected);
    }

    #[tokio::test]
    async fn an_exit_status_is_a_failure_to_retry_with_the_last_words() {
        let (message, retry, output) =
            failure(run("echo one >&2; echo two >&2; exit 3", "{}").await);
        assert_eq!((message.as_str(), retry), ("exit status 3: two", Retry::After(None)));
        assert_eq!(output.stderr, "one\ntwo\n");
        let (message, retry, _) = failure(run("exit 75", "{}").await);
        assert_eq!(
            (message.as_str(), retry),
            ("exit status 75 (temporary failure)", Retry::After(None))
        );
        let (message, ..) = failure(run("kill -9 $$", "{}").await);
        assert_eq!(message, "killed by signal 9");
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named() {
        let mut command = shell("");
        command.program = "/nowhere/report.sh".into();
        let (message, retry, _) = failure(command.run(&context(), &Json::empty()).await);
        assert!(message.starts_with("cannot start /nowhere/report.sh: No such file"), "{message}");
        assert_eq!(retry, Retry::After(None));
    }

    #[tokio::test]
    async fn a_bad_result_file_fails_for_good_and_says_so() {
        for (script, expected) in [
            ("echo '{' > $CRON_RESULT", "CRON_RESULT is not JSON: "),
            (
                "head -c 200000 /dev/zero > $CRON_RESULT",
                "CRON_RESULT has 200000 bytes, at most 131072",
            ),
            ("mkfifo $CRON_RESULT", "CRON_RESULT is no regular file"),
        ] {
            let (message, retry, _) = failure(run(script, "{}").await);
            assert!(message.starts_with(expected), "{message}");
            assert_eq!(retry, Retry::Never);
        }
    }

    #[tokio::test]
    async fn output_is_bounded_and_never_blocks_the_process() {
        let outcome = run("head -c 5000000 /dev/zero | tr '\\0' x; echo end", "{}").await;
        let TaskOutcome::Success { output: Some(output), .. } = outcome else {
            panic!("{outcome:?}")
        };
        assert!(output.stdout.ends_with("xend\n"));
        assert_eq!(output.stdout.len() as u64 + output.dropped, 5_000_004);
        assert_eq!(output.stdout.len(), super::super::capture::KEPT_BYTES);
    }

    #[tokio::test]
    async fn params_that_nobody_reads_do_no_harm() {
        let params = format!("\"{}\"", "x".repeat(100_000));
        assert!(matches!(run("exec 0<&-; true", &params).await, TaskOutcome::Success { .. }));
    }

    /// Whether any process of the group lives; zombies that wait for init do not count.
    fn group_lives(group: &str) -> bool {
        std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
            let fields: Vec<_> = fields.split(' ').collect();
            fields[2] == group && fields[0] != "Z"
        })
    }

    /// What is killed ends when it is its turn; what is not sleeps for ten minutes.
    async fn group_ends(group: &str) {
        let killed = Instant::now();
        while group_lives(group) {
            assert!(killed.elapsed() < Duration::from_secs(20), "a process of the group lives on");
            tokio::task::yield_now().await;
        }
    }

    async fn cancel_when_printed(script: &str) -> (TaskOutcome, String, Duration) {
        let context = context();
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let script =
            script.replace("READY", &format!("echo $$ > {0}.new; mv {0}.new {0}", ready.display()));
        let command = shell(&script);
        let params = Json::empty();
        let mut running = std::pin::pin!(command.run(&context, &params));
        let started = Instant::now();
        let group = loop {
            assert!(started.elapsed() < Duration::from_secs(20), "the script never got ready");
            tokio::select! {
                outcome = &mut running => panic!("{outcome:?}"),
                () = tokio::time::sleep(Duration::from_millis(2)) => {}
            }
            if let Ok(text) = std::fs::read_to_string(&ready) {
                break text.trim().to_owned();
            }
        };
        assert!(group_lives(&group));
        let cancelled = Instant::now();
        context.cancel.cancel();
        let outcome = running.await;
        (outcome, group, cancelled.elapsed())
    }

    #[tokio::test]
    async fn a_cancel_ends_the_whole_group() {
        let script = "sleep 600 & sleep 600 & echo hi; READY; wait";
        let (outcome, group, took) = cancel_when_printed(script).await;
        let (message, _, output) = failure(outcome);
        assert_eq!((message.as_str(), output.stdout.as_str()), ("stopped", "hi\n"));
        assert!(took < STOP_GRACE, "{took:?}");
        group_ends(&group).await;
    }

    #[tokio::test]
    async fn a_process_that_ignores_the_request_is_killed_after_the_grace() {
        let script = "trap '' TERM; sleep 600 & READY; while true; do wait; done";
        let (outcome, group, took) = cancel_when_printed(script).await;
        failure(outcome);
        assert!(took >= STOP_GRACE && took < STOP_GRACE * 3, "{took:?}");
        group_ends(&group).await;
    }

    #[tokio::test]
    async fn a_grandchild_that_left_the_group_cannot_hold_up_the_attempt() {
        let started = Instant::now();
        let outcome = run("setsid sleep 30 & echo $! ; exit 0", "{}").await;
        let TaskOutcome::Success { output: Some(output), .. } = outcome else {
            panic!("{outcome:?}")
        };
        assert!(started.elapsed() < Duration::from_secs(20));
        let pid = output.stdout.trim().parse().unwrap();
        kill_process_group(Pid::from_raw(pid).unwrap(), Signal::KILL).ok();
    }
}
