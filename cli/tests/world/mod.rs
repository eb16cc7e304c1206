//! A broker with an installation, for tests of the command line against the real thing.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![expect(clippy::print_stderr, reason = "an installation of the server is told")]

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use cronstream_server::{Server, ServerConfig};
use serde_json::Value;
use tempfile::TempDir;

/// A broker with an installation.
pub(crate) struct World {
    /// The broker.
    pub(crate) server: Server,
    /// Files of the test.
    pub(crate) folder: TempDir,
    pub(crate) ticker: Option<Child>,
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut ticker) = self.ticker.take() {
            ticker.kill().unwrap();
            ticker.wait().unwrap();
        }
    }
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with("").await
    }

    pub(crate) async fn start_with(settings: &str) -> Self {
        let binary = cronstream_server::ensure(&mut |line| eprintln!("{line}")).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut config = ServerConfig::new(folder.path().join("nats"));
        config.extra = settings.to_owned();
        let server = Server::start(&binary, config).await.unwrap();
        Self { server, folder, ticker: None }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cronstream"));
        command.args(arguments).env("NATS_URL", self.server.url()).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The exit code with both outputs.
    pub(crate) fn all(&self, arguments: &[&str]) -> (i32, String, String) {
        let Output { status, stdout, stderr } = self.run(arguments);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code().unwrap(), text(stdout), text(stderr))
    }

    /// Standard output of a success.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let (code, stdout, stderr) = self.all(arguments);
        assert_eq!(code, 0, "{arguments:?}: {stderr}{stdout}");
        stdout
    }

    /// The lines of JSON of a success.
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let text = self.ok(&[arguments, &["--json"]].concat());
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The exit code and the error.
    pub(crate) fn fails(&self, arguments: &[&str]) -> (i32, String) {
        let (code, _, stderr) = self.all(arguments);
        (code, stderr)
    }

    /// Starts a ticker; a command waits for it to lead.
    pub(crate) fn ticker(&mut self, options: &[&str]) {
        self.ok(&["init", "--partitions", "2", "--lease-ttl", "1s"]);
        let arguments = [&["ticker", "--node", "t1"], options].concat();
        let log = std::fs::File::create(self.folder.path().join("ticker.log")).unwrap();
        self.ticker = Some(self.command(&arguments).stderr(log).spawn().unwrap());
    }

    /// The first status that is as expected; a node renews its report once a second.
    pub(crate) fn status_when(&self, expected: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            // Each takes as long as it listens for further nodes.
            let status = self.json(&["status"]).remove(0);
            if expected(&status) {
                return status;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{status}");
        }
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}
