//! A server with the accounts of a table, and the program's verbs run as one of their users.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cronstream_server::{RightsTable, Server, ServerConfig, User};
use cronstream_tests::process::{Process, program};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use crate::wire::Wire;

/// How long a verb may take.
const CALL_MAX: Duration = Duration::from_secs(30);
/// Between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(100);

/// The users of these tests: two queues, and two namespaces of which one is called like a queue.
pub(crate) fn users() -> Vec<User> {
    let user = |name: &str, role: &str| User {
        name: name.into(),
        role: role.into(),
        queue: None,
        namespace: None,
    };
    let executor = |queue: &str| User {
        queue: Some(queue.into()),
        ..user(&format!("executor-{queue}"), "executor")
    };
    let publisher = |namespace: &str| User {
        namespace: Some(namespace.into()),
        ..user(&format!("publisher-{namespace}"), "publisher")
    };
    vec![
        user("operator", "operator"),
        user("ticker", "ticker"),
        executor("default"),
        executor("billing"),
        publisher("billing"),
        publisher("demo"),
        user("reader", "reader"),
        user("relay", "relay"),
    ]
}

/// A user of these tests by name.
pub(crate) fn named(name: &str) -> Result<User> {
    users().into_iter().find(|user| user.name == name).with_context(|| format!("no user {name}"))
}

/// A server with an installation on it.
#[derive(Debug)]
pub(crate) struct Stage {
    server: Server,
    program: PathBuf,
    dir: TempDir,
}

impl Stage {
    /// Starts a server with the accounts of `table`, and makes the streams as its operator.
    pub(crate) async fn start(table: &RightsTable, more: &str) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("cronstream-rights-").tempdir()?;
        let binary = cronstream_server::ensure(&mut |line| tracing::info!("{line}")).await?;
        let mut config = ServerConfig::new(dir.path().join("nats"));
        config.sync_always = false;
        config.extra = format!("{}\n{more}\n", with_passwords(table)?);
        let server = Server::start(&binary, config).await?;
        let stage = Self { server, program: program()?, dir };
        stage.call("operator", "init", &["--partitions", "2", "--lease-ttl", "1s"]).await?;
        Ok(stage)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A raw connection of a user.
    pub(crate) fn wire(&self, user: &str) -> Result<Wire> {
        self.wire_with(user, &password(user))
    }

    /// A raw connection with this login.
    pub(crate) fn wire_with(&self, user: &str, password: &str) -> Result<Wire> {
        Wire::connect(self.server.port(), user, password)
    }

    /// Starts a verb as a user.
    pub(crate) fn spawn(&self, user: &str, verb: &str, options: &[&str]) -> Result<Process> {
        let log = self.path(&format!("{verb}-{user}.log"));
        Process::spawn(&self.program, self.args(user, verb, options), log)
    }

    /// Runs a verb as a user to its end.
    pub(crate) async fn run(&self, user: &str, verb: &str, options: &[&str]) -> Result<Output> {
        let mut command = Command::new(&self.program);
        command.args(self.args(user, verb, options)).kill_on_drop(true);
        let output = timeout(CALL_MAX, command.output());
        Ok(output.await.with_context(|| format!("{verb} of {user} hangs"))??)
    }

    /// Runs a verb as a user, which has to succeed, and gives what it printed.
    pub(crate) async fn call(&self, user: &str, verb: &str, options: &[&str]) -> Result<String> {
        let output = self.run(user, verb, options).await?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{verb} of {user} failed: {errors}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Runs a verb as a user until the lines of JSON that it prints satisfy `good`.
    pub(crate) async fn until(
        &self,
        (user, verb): (&str, &str),
        options: &[&str],
        good: impl Fn(&[Value]) -> bool,
    ) -> Result<Vec<Value>> {
        let options: Vec<&str> = options.iter().chain(&["--json"]).copied().collect();
        let deadline = Instant::now() + CALL_MAX;
        loop {
            let text = self.call(user, verb, &options).await?;
            let lines = text.lines().map(serde_json::from_str);
            let lines: Vec<Value> = lines.collect::<serde_json::Result<_>>()?;
            if good(&lines) {
                return Ok(lines);
            }
            ensure!(Instant::now() < deadline, "{verb} of {user} says in the end: {text}");
            sleep(LOOK).await;
        }
    }

    fn args(&self, user: &str, verb: &str, options: &[&str]) -> Vec<OsString> {
        let url = format!("nats://{user}:{}@127.0.0.1:{}", password(user), self.server.port());
        let inbox = format!("_INBOX.{user}");
        let fixed = [verb, "--nats", url.as_str(), "--inbox-prefix", inbox.as_str()];
        fixed.iter().chain(options).map(OsString::from).collect()
    }
}

/// The password that these tests give a user.
pub(crate) fn password(user: &str) -> String {
    format!("pw-{user}")
}

fn with_passwords(table: &RightsTable) -> Result<String> {
    let mut text = table.render("cron")?;
    for user in table.users() {
        let variable = format!("${}\n", user.password_variable());
        ensure!(text.contains(&variable), "no {variable} in the configuration");
        text = text.replace(&variable, &format!("\"{}\"\n", password(&user.name)));
    }
    Ok(text)
}

/// A tasks file with a task `hello`.
pub(crate) fn tasks(folder: &Path) -> Result<PathBuf> {
    let file = folder.join("tasks.toml");
    std::fs::write(&file, "[tasks.hello]\ncommand = [\"/bin/sh\", \"-c\", \"echo hello\"]\n")?;
    Ok(file)
}
