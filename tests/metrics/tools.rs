//! Debian's Prometheus and promtool: those on PATH, else those of the package, unpacked into the cache folder.
//!
//! Invariant: nothing outside the cache folder is written; the unpacked folder appears by one rename.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cronstream_server::Locator;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::sync::OnceCell;
use tokio::time::timeout;

/// Debian's package.
const PACKAGE: &str = "prometheus";
/// How long a download of 20 MB, or a run of promtool, may take.
const RUN_MAX: Duration = Duration::from_secs(180);

/// The two programs.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    pub(crate) prometheus: PathBuf,
    promtool: PathBuf,
}

impl Tools {
    /// Finds or installs them; without them and without apt, says that the test is skipped.
    #[expect(clippy::print_stdout, reason = "a test run shows what it skips")]
    pub(crate) async fn find() -> Result<Option<Self>> {
        static FOUND: OnceCell<Option<Tools>> = OnceCell::const_new();
        let found = FOUND.get_or_try_init(Self::look).await?;
        if found.is_none() {
            println!("SKIPPED(prometheus)");
        }
        Ok(found.clone())
    }

    async fn look() -> Result<Option<Self>> {
        if let (Some(prometheus), Some(promtool)) = (on_path("prometheus"), on_path("promtool")) {
            return Ok(Some(Self { prometheus, promtool }));
        }
        let locator = Locator::from_env()?;
        let bin = locator.cached_path();
        let cache = bin.ancestors().nth(2).context("the cache folder")?;
        let target = cache.join("debian-prometheus");
        if !target.exists() {
            if on_path("apt-get").is_none() || on_path("dpkg-deb").is_none() {
                return Ok(None);
            }
            install(cache, &target).await?;
        }
        let bin = target.join("usr/bin");
        Ok(Some(Self { prometheus: bin.join("prometheus"), promtool: bin.join("promtool") }))
    }

    /// Runs promtool, which must be content, and returns what it said.
    pub(crate) async fn promtool(&self, args: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new(&self.promtool);
        command.args(args);
        run(command, input).await
    }
}

async fn install(cache: &Path, target: &Path) -> Result<()> {
    std::fs::create_dir_all(cache)?;
    let work = tempfile::Builder::new().prefix(".install-").tempdir_in(cache)?;
    let mut download = Command::new("apt-get");
    download.args(["download", PACKAGE]).current_dir(work.path());
    run(download, "").await?;
    let files = std::fs::read_dir(work.path())?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut packages = files.filter(|path| path.extension().is_some_and(|it| it == "deb"));
    let package = packages.next().context("apt-get left no package")?;
    let unpacked = work.path().join("unpacked");
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--extract").arg(package).arg(&unpacked);
    run(unpack, "").await?;
    let renamed = std::fs::rename(&unpacked, target);
    // Another process may have been faster.
    ensure!(target.exists(), "{}: {renamed:?}", target.display());
    Ok(())
}

async fn run(mut command: Command, input: &str) -> Result<String> {
    let line = format!("{:?}", command.as_std());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let ended = async {
        let mut child = command.spawn()?;
        let mut stdin = child.stdin.take().expect("it is piped above");
        // What ends without reading tells by its status.
        stdin.write_all(input.as_bytes()).await.ok();
        drop(stdin);
        child.wait_with_output().await
    };
    let output = timeout(RUN_MAX, ended).await.with_context(|| line.clone())?;
    let output = output.with_context(|| line.clone())?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    ensure!(output.status.success(), "{line}: {}\n{said}", output.status);
    Ok(said)
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}
