//! A Jaeger for `cronstream dev --jaeger` and for the tests: found, installed, started.
//!
//! ```text
//!   PATH ──► cache folder ──► go build ──► Jaeger::start ─► spans in by OTLP/HTTP, traces out by the query API
//! ```
//!
//! Invariants: it listens on this machine alone, keeps its traces in memory, and its folder is locked for as long as
//! it lives, so that [`end_orphan`](crate::end_orphan) finds it when its owner was killed.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::binary::{Locator, Say};
use crate::error::Error;
use crate::install::{self, file_error};
use crate::lock::{DataLock, InstallLock};
use crate::{log, ports};

/// The program's package and version. `go install` refuses a module with `replace` directives, so it is built as a
/// dependency; the directive concerns nothing that is linked in.
pub const PINNED_JAEGER: &str = "github.com/jaegertracing/jaeger/cmd/jaeger@v1.76.0";
/// Where people look for its pages, and where it takes spans.
const USUAL: Ports = Ports { query: 16_686, otlp: 4_318 };
/// A build takes six minutes on two cores; a slow machine gets more.
const BUILD_MAX: Duration = Duration::from_secs(40 * 60);
/// How long a program may take to print its version.
const VERSION_MAX: Duration = Duration::from_secs(10);
/// How long it may take to answer; 300 ms are usual.
const READY_MAX: Duration = Duration::from_secs(30);
/// How often a starting one is looked at.
const POLL: Duration = Duration::from_millis(20);
/// How long one question may take.
const ASK_MAX: Duration = Duration::from_secs(2);
/// How much of an answer is read.
const ANSWER_MAX: u64 = 16 * 1024 * 1024;
/// How many pairs of free ports are tried.
const PORT_TRIES: u32 = 5;
/// What a build without the pages of the user interface shows in their place.
const NO_PAGES: &str = "not the Jaeger UI you are looking for";

/// Where a Jaeger listens, on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ports {
    query: u16,
    otlp: u16,
}

/// A Jaeger process that this process started.
#[derive(Debug)]
pub struct Jaeger {
    child: Child,
    ports: Ports,
    has_pages: bool,
    _lock: DataLock,
}

impl Locator {
    /// Finds a Jaeger on `PATH` or in the cache folder, or builds one.
    pub async fn ensure_jaeger(&self, say: Say<'_>) -> Result<PathBuf, Error> {
        if let Some(found) = self.find_jaeger().await {
            return Ok(found);
        }
        let _turn = InstallLock::acquire(self.cache(), || {
            say("another process installs something: waiting for it");
        })
        .await?;
        // The process that was waited for may have done it.
        match self.find_jaeger().await {
            Some(found) => Ok(found),
            None => build(&self.cached_jaeger(), say).await,
        }
    }

    /// A Jaeger that is there.
    pub async fn find_jaeger(&self) -> Option<PathBuf> {
        let on_path = self.path().iter().map(|folder| folder.join("jaeger"));
        for program in on_path.chain([self.cached_jaeger()]) {
            if program.is_file() && is_jaeger(&program).await {
                return Some(program);
            }
        }
        None
    }

    fn cached_jaeger(&self) -> PathBuf {
        self.cached_path().with_file_name("jaeger")
    }
}

async fn is_jaeger(program: &Path) -> bool {
    let mut command = Command::new(program);
    command.arg("version");
    install::run(command, VERSION_MAX).await.is_ok_and(|printed| printed.contains("gitVersion"))
}

async fn build(target: &Path, say: Say<'_>) -> Result<PathBuf, Error> {
    let bin = target.parent().expect("the cached program lies in the cache's bin folder");
    say(&format!(
        "building Jaeger into {}: go get {PINNED_JAEGER} (about six minutes on two cores)",
        bin.display()
    ));
    std::fs::create_dir_all(bin).map_err(file_error("create folder", bin))?;
    // In the same folder, so that the last step is a rename within one file system.
    let work = tempfile::Builder::new()
        .prefix(".install-")
        .tempdir_in(bin)
        .map_err(file_error("create a folder in", bin))?;
    let (package, _) = PINNED_JAEGER.split_once('@').expect("it names a version");
    let started = Instant::now();
    for args in [
        &["mod", "init", "cronstream/jaeger"][..],
        &["get", PINNED_JAEGER],
        &["build", "-trimpath", "-ldflags=-s -w", "-o", "jaeger", package],
    ] {
        let mut command = Command::new("go");
        command.args(args).current_dir(work.path());
        // Neither a C compiler nor the caller's cross-build or vendor settings have a say.
        command.env("CGO_ENABLED", "0").env("GOFLAGS", "").env_remove("GOOS").env_remove("GOARCH");
        let built = install::run(command, BUILD_MAX).await;
        built.map_err(|source| Error::NoJaeger { source: Box::new(source) })?;
    }
    std::fs::rename(work.path().join("jaeger"), target)
        .map_err(file_error("put in place", target))?;
    say(&format!("built {} in {:.0?}", target.display(), started.elapsed()));
    Ok(target.to_owned())
}

impl Jaeger {
    /// Starts one on the usual ports, or on free ones where those are taken, and waits until it answers.
    pub async fn start(program: &Path, dir: &Path) -> Result<Self, Error> {
        match Self::start_on(program, dir, USUAL).await {
            Err(Error::PortTaken { .. }) => Self::start_anywhere(program, dir).await,
            started => started,
        }
    }

    /// Starts one on free ports and waits until it answers.
    pub async fn start_anywhere(program: &Path, dir: &Path) -> Result<Self, Error> {
        for _ in 0..PORT_TRIES {
            let free = ports::free(2)?;
            match Self::start_on(program, dir, Ports { query: free[0], otlp: free[1] }).await {
                // Somebody took one between the choice and the start: choose again.
                Err(Error::PortTaken { .. }) => {}
                started => return started,
            }
        }
        Err(Error::NoFreePort { tries: PORT_TRIES })
    }

    async fn start_on(program: &Path, dir: &Path, ports: Ports) -> Result<Self, Error> {
        for port in [ports.query, ports.otlp] {
            if std::net::TcpListener::bind(("127.0.0.1", port)).is_err() {
                return Err(Error::PortTaken { port });
            }
        }
        std::fs::create_dir_all(dir).map_err(file_error("create folder", dir))?;
        let lock = DataLock::acquire(dir).await?;
        let (file, log) = (dir.join("jaeger.yaml"), dir.join("jaeger.log"));
        let others = ports::free(1)?;
        std::fs::write(&file, config(ports, others[0])).map_err(file_error("write", &file))?;
        let log_start = log::length(&log);
        let mut open = OpenOptions::new();
        let stderr = open.create(true).append(true).open(&log).map_err(file_error("open", &log))?;
        let child = Command::new(program)
            .arg("--config")
            .arg(format!("file:{}", file.display()))
            .stdin(lock.as_stdin()?)
            .stdout(Stdio::null())
            .stderr(stderr)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| Error::Spawn { command: program.display().to_string(), source })?;
        lock.note(child.id())?;
        let mut jaeger = Self { child, ports, has_pages: false, _lock: lock };
        jaeger.wait_ready(&log, log_start).await?;
        Ok(jaeger)
    }

    async fn wait_ready(&mut self, log: &Path, log_start: u64) -> Result<(), Error> {
        let deadline = Instant::now() + READY_MAX;
        loop {
            let pid = self.child.id().unwrap_or_default();
            let ended = self.child.try_wait().map_err(|source| Error::Signal { pid, source })?;
            if let Some(status) = ended {
                let tail = log::tail(log, log_start);
                if tail.contains("address already in use") {
                    return Err(Error::PortTaken { port: self.ports.query });
                }
                let log = log.to_owned();
                return Err(Error::JaegerDied { status: status.to_string(), log, tail });
            }
            let obstacle = match self.look().await {
                Ok(()) => return Ok(()),
                Err(obstacle) => obstacle,
            };
            if Instant::now() >= deadline {
                return Err(Error::NotReady {
                    url: self.url(),
                    waited: READY_MAX,
                    last: obstacle.to_string(),
                    log: log.to_owned(),
                    tail: log::tail(log, log_start),
                });
            }
            sleep(POLL).await;
        }
    }

    /// Both sides answer; notes whether there are pages.
    async fn look(&mut self) -> io::Result<()> {
        ask(self.ports.query, "/api/services").await?;
        TcpStream::connect(("127.0.0.1", self.ports.otlp)).await?;
        self.has_pages = !ask(self.ports.query, "/").await?.contains(NO_PAGES);
        Ok(())
    }

    /// Where it takes spans: OTLP over HTTP, without `/v1/traces`.
    #[must_use]
    pub fn otlp(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.otlp)
    }

    /// Where its pages and its query API are.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.query)
    }

    /// What the addresses of traces begin with: its pages, or its query API where it was built without pages.
    #[must_use]
    pub fn trace_url(&self) -> String {
        let path = if self.has_pages { "trace" } else { "api/traces" };
        format!("{}/{path}/", self.url())
    }

    /// Asks the query API; the answer is JSON.
    pub async fn query(&self, path: &str) -> io::Result<String> {
        ask(self.ports.query, path).await
    }

    /// Ends it.
    pub async fn end(mut self) -> Result<(), Error> {
        let pid = self.child.id().unwrap_or_default();
        // Its traces are in memory: there is nothing to do in order.
        self.child.kill().await.map_err(|source| Error::Signal { pid, source })
    }
}

/// The settings of a Jaeger that keeps traces in memory.
fn config(Ports { query, otlp }: Ports, grpc: u16) -> String {
    format!(
        "service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces: {{ receivers: [otlp], exporters: [jaeger_storage_exporter] }}
  telemetry:
    metrics: {{ level: none }}
    logs: {{ level: warn }}
extensions:
  jaeger_storage:
    backends: {{ memory: {{ memory: {{ max_traces: 100000 }} }} }}
  jaeger_query:
    storage: {{ traces: memory }}
    http: {{ endpoint: \"127.0.0.1:{query}\" }}
    grpc: {{ endpoint: \"127.0.0.1:{grpc}\" }}
receivers:
  otlp: {{ protocols: {{ http: {{ endpoint: \"127.0.0.1:{otlp}\" }} }} }}
exporters:
  jaeger_storage_exporter: {{ trace_storage: memory }}
"
    )
}

/// One GET of the loopback port; any answer but success is an error.
async fn ask(port: u16, path: &str) -> io::Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_MAX).read_to_end(&mut answer).await?;
        let answer = String::from_utf8_lossy(&answer);
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
            Some((head, _)) => Err(io::Error::other(head.lines().next().unwrap_or("").to_owned())),
            None => Err(ErrorKind::UnexpectedEof.into()),
        }
    };
    timeout(ASK_MAX, exchange).await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}
