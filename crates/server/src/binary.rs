//! Finds a nats-server that Cronstream can work with: PATH, then the cache folder, else installs.
//!
//! Invariant: a program that is returned said a version of at least [`MIN_VERSION`]; one from
//! PATH or from an installation has also passed the probe.

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use cronstream_bus::{Bus, ConnectOptions};
use tokio::process::Command;

use crate::{
    config::ServerConfig,
    error::Error,
    install::{self, Installer, file_error},
    lock::InstallLock,
    server::Server,
    version::{MIN_VERSION, Version},
};

/// How long a program may take to print its version.
const VERSION_MAX: Duration = Duration::from_secs(10);
/// How much of a wrong answer to `--version` is shown.
const PRINTED_MAX: usize = 80;

/// Tells a person what is going on; one call, one line.
pub type Say<'a> = &'a mut (dyn FnMut(&str) + Send);

/// A nats-server program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// Where it is.
    pub path: PathBuf,
    /// What it says it is.
    pub version: Version,
}

impl Binary {
    /// Asks the program at `path` for its version and refuses one that is too old.
    pub async fn at(path: &Path) -> Result<Self, Error> {
        let mut command = Command::new(path);
        command.arg("--version");
        let printed = install::run(command, VERSION_MAX).await?;
        let version = Version::from_banner(&printed).ok_or_else(|| Error::NotAServer {
            path: path.to_owned(),
            printed: printed.trim().chars().take(PRINTED_MAX).collect(),
        })?;
        if version < MIN_VERSION {
            return Err(Error::TooOld { path: path.to_owned(), version });
        }
        Ok(Self { path: path.to_owned(), version })
    }
}

/// Finds or installs a nats-server, looking where the environment says.
pub async fn ensure(say: Say<'_>) -> Result<Binary, Error> {
    Locator::from_env()?.ensure(say).await
}

/// Starts the program on a folder of its own and checks that it can do what a tick needs.
pub async fn probe_binary(binary: &Binary) -> Result<(), Error> {
    let temp = env::temp_dir();
    let dir = tempfile::tempdir().map_err(file_error("create a folder in", &temp))?;
    let config = ServerConfig { sync_always: false, ..ServerConfig::new(dir.path()) };
    let mut server = Server::start(binary, config).await?;
    let probed = probe(&server.url()).await;
    server.kill().await?;
    probed.map_err(|source| Error::Incapable { path: binary.path.clone(), source })
}

async fn probe(url: &str) -> Result<(), cronstream_bus::Error> {
    let options = ConnectOptions {
        servers: vec![url.to_owned()],
        name: "cronstream-probe".to_owned(),
        ..ConnectOptions::default()
    };
    Bus::connect(options).await?.probe().await?.require()
}

/// Where nats-server is looked for.
#[derive(Clone, Debug)]
pub struct Locator {
    path: Vec<PathBuf>,
    cache: PathBuf,
}

impl Locator {
    /// Looks in these folders, then in this cache folder.
    #[must_use]
    pub fn new(path: Vec<PathBuf>, cache: PathBuf) -> Self {
        Self { path, cache }
    }

    /// Looks on `PATH`, then in `$CRONSTREAM_CACHE`, else `$XDG_CACHE_HOME/cronstream`, else
    /// `~/.cache/cronstream`.
    pub fn from_env() -> Result<Self, Error> {
        let path = env::var_os("PATH").unwrap_or_default();
        let folder = |name: &str| env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        let cache = folder("CRONSTREAM_CACHE")
            .or_else(|| folder("XDG_CACHE_HOME").map(|it| it.join("cronstream")))
            .or_else(|| folder("HOME").map(|it| it.join(".cache").join("cronstream")))
            .ok_or(Error::NoCacheFolder)?;
        Ok(Self::new(env::split_paths(&path).collect(), cache))
    }

    /// The folders that are looked in first.
    pub(crate) fn path(&self) -> &[PathBuf] {
        &self.path
    }

    /// The cache folder.
    pub(crate) fn cache(&self) -> &Path {
        &self.cache
    }

    /// The path of an installed program.
    #[must_use]
    pub fn cached_path(&self) -> PathBuf {
        self.cache.join("bin").join("nats-server")
    }

    /// Finds a program, or installs one with the first client that can.
    pub async fn ensure(&self, say: Say<'_>) -> Result<Binary, Error> {
        if let Some(found) = self.on_path(say).await {
            return Ok(found);
        }
        self.cached_or_installed(&Installer::ALL, say).await
    }

    /// Returns the cached program; if there is none that is good, one of `installers` brings it.
    pub async fn cached_or_installed(
        &self,
        installers: &[Installer],
        say: Say<'_>,
    ) -> Result<Binary, Error> {
        if let Some(found) = self.cached(say).await {
            return Ok(found);
        }
        let _turn = InstallLock::acquire(&self.cache, || {
            say("another process installs nats-server: waiting for it");
        })
        .await?;
        // The process that was waited for may have done it.
        if let Some(found) = self.cached(say).await {
            return Ok(found);
        }
        let target = self.cached_path();
        let mut attempts = Vec::new();
        for &installer in installers {
            match install::install(installer, &target, say).await {
                Ok(installed) => return Ok(installed),
                Err(error) => {
                    let told = format!("{installer}: {}", chain(&error));
                    say(&told);
                    attempts.push(told);
                }
            }
        }
        Err(Error::NotInstalled { cache: self.cache.clone(), attempts: attempts.join("; ") })
    }

    async fn on_path(&self, say: Say<'_>) -> Option<Binary> {
        for path in self.path.iter().map(|folder| folder.join("nats-server")) {
            if !path.is_file() {
                continue;
            }
            match checked(&path).await {
                Ok(binary) => return Some(binary),
                Err(error) => say(&format!("passing over {}: {}", path.display(), chain(&error))),
            }
        }
        None
    }

    async fn cached(&self, say: Say<'_>) -> Option<Binary> {
        let path = self.cached_path();
        if !path.is_file() {
            return None;
        }
        match Binary::at(&path).await {
            Ok(binary) => Some(binary),
            Err(error) => {
                say(&format!("replacing {}: {}", path.display(), chain(&error)));
                None
            }
        }
    }
}

async fn checked(path: &Path) -> Result<Binary, Error> {
    let binary = Binary::at(path).await?;
    probe_binary(&binary).await?;
    Ok(binary)
}

/// The error and its causes on one line, for a person.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
