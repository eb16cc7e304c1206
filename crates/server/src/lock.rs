//! Locks among processes: one installs at a time, one server runs on a data folder.
//!
//! Invariant: a data folder stays locked for as long as its nats-server lives. The server inherits
//! the locked file as its standard input, so the lock outlives a Cronstream that was killed and a
//! second server can never open the same store.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Write},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{Pid, test_kill_process},
};
use tokio::time::{Instant, sleep};

use crate::error::Error;

/// How long an installation by another process is waited for: a Go build on a slow machine.
const INSTALL_WAIT_MAX: Duration = Duration::from_secs(15 * 60);
/// How long a server that was just killed may take to let go of its data folder.
const DATA_WAIT_MAX: Duration = Duration::from_secs(2);
/// How often a lock that is taken is tried again.
const RETRY: Duration = Duration::from_millis(20);
/// How much of a lock file is read: two lines.
const NOTE_MAX: u64 = 256;

/// The lock of the cache folder; dropping it lets the next process in.
#[derive(Debug)]
pub(crate) struct InstallLock {
    _file: File,
}

impl InstallLock {
    /// Waits for its turn; `waiting` is called once if another process is at it.
    pub(crate) async fn acquire(cache: &Path, waiting: impl FnOnce()) -> Result<Self, Error> {
        let path = cache.join("install.lock");
        let file = open(&path)?;
        if try_lock(&file, &path)? {
            return Ok(Self { _file: file });
        }
        waiting();
        if lock_within(&file, &path, INSTALL_WAIT_MAX).await? {
            return Ok(Self { _file: file });
        }
        Err(Error::InstallLocked { lock: path, waited: INSTALL_WAIT_MAX })
    }
}

/// The lock of a data folder.
#[derive(Debug)]
pub(crate) struct DataLock {
    file: File,
    path: PathBuf,
}

impl DataLock {
    /// Takes the folder, or says which processes have it.
    pub(crate) async fn acquire(dir: &Path) -> Result<Self, Error> {
        let path = dir.join("lock");
        let file = open(&path)?;
        if !lock_within(&file, &path, DATA_WAIT_MAX).await? {
            return Err(Error::DataFolderBusy { dir: dir.to_owned(), holder: holder(&file) });
        }
        let lock = Self { file, path };
        lock.note(None)?;
        Ok(lock)
    }

    /// The locked file, for the server to inherit.
    pub(crate) fn as_stdin(&self) -> Result<Stdio, Error> {
        let file = self.file.try_clone().map_err(|source| self.failed("duplicate", source))?;
        Ok(Stdio::from(file))
    }

    /// Writes who holds the folder, for the message that another process shows.
    pub(crate) fn note(&self, server: Option<u32>) -> Result<(), Error> {
        let mut text = format!("cronstream {}\n", std::process::id());
        if let Some(pid) = server {
            text.push_str(&format!("nats-server {pid}\n"));
        }
        let mut file = &self.file;
        file.set_len(0)
            .and_then(|()| std::io::Seek::rewind(&mut file))
            .and_then(|()| file.write_all(text.as_bytes()))
            .map_err(|source| self.failed("write", source))
    }

    fn failed(&self, action: &'static str, source: std::io::Error) -> Error {
        Error::File { action, path: self.path.clone(), source }
    }
}

pub(crate) fn open(path: &Path) -> Result<File, Error> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(|source| Error::File {
            action: "create folder",
            path: dir.to_owned(),
            source,
        })?;
    }
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|source| Error::File { action: "open", path: path.to_owned(), source })
}

pub(crate) fn try_lock(file: &File, path: &Path) -> Result<bool, Error> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(source)) => {
            Err(Error::File { action: "lock", path: path.to_owned(), source })
        }
    }
}

pub(crate) async fn lock_within(file: &File, path: &Path, within: Duration) -> Result<bool, Error> {
    let deadline = Instant::now() + within;
    while !try_lock(file, path)? {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        sleep(RETRY).await;
    }
    Ok(true)
}

/// The processes that a lock file names.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Note {
    pub(crate) owner: Option<u32>,
    pub(crate) server: Option<u32>,
}

impl Note {
    pub(crate) fn read(file: &File) -> Self {
        let mut text = String::new();
        let mut file = file;
        let read = std::io::Seek::rewind(&mut file)
            .and_then(|()| file.take(NOTE_MAX).read_to_string(&mut text));
        if read.is_err() {
            return Self::default();
        }
        let pid = |role: &str| {
            text.lines().find_map(|line| line.strip_prefix(role)?.trim().parse::<u32>().ok())
        };
        Self { owner: pid("cronstream "), server: pid("nats-server ") }
    }
}

/// The process of that number, where it is a number that a process can have.
pub(crate) fn process(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

pub(crate) fn lives(pid: u32) -> bool {
    process(pid).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Describes the processes that the lock file names.
fn holder(file: &File) -> String {
    let Note { owner, server } = Note::read(file);
    match (owner, server) {
        (Some(owner), _) if lives(owner) => format!(
            "cronstream process {owner}: stop that one first, or choose another data folder"
        ),
        (Some(owner), Some(server)) => format!(
            "nats-server process {server}, left by cronstream process {owner} which was killed: \
             stop it with `kill {server}`"
        ),
        (_, None) | (None, _) => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_second_holder_is_told_who_the_first_is() {
        let dir = tempfile::tempdir().unwrap();
        let first = DataLock::acquire(dir.path()).await.unwrap();
        first.note(Some(7)).unwrap();
        let message = DataLock::acquire(dir.path()).await.unwrap_err().to_string();
        assert!(
            message.contains(&format!("cronstream process {}", std::process::id())),
            "{message}"
        );
        drop(first);
        DataLock::acquire(dir.path()).await.unwrap();
    }

    #[tokio::test]
    async fn the_folder_stays_locked_while_the_server_outlives_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let lock = DataLock::acquire(dir.path()).await.unwrap();
        let mut server = tokio::process::Command::new("sleep");
        server.arg("600").stdin(lock.as_stdin().unwrap()).kill_on_drop(true);
        let mut child = server.spawn().unwrap();
        // The builder holds a copy of the locked file too.
        drop((server, lock));
        DataLock::acquire(dir.path()).await.unwrap_err();
        child.kill().await.unwrap();
        DataLock::acquire(dir.path()).await.unwrap();
    }

    #[test]
    fn a_server_left_by_a_killed_owner_is_named_with_the_command_that_ends_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let said = |text: &str| {
            std::fs::write(&path, text).unwrap();
            holder(&File::open(&path).unwrap())
        };
        let gone = i32::MAX;
        assert!(said(&format!("cronstream {gone}\nnats-server 42\n")).contains("`kill 42`"));
        assert_eq!(said(&format!("cronstream {gone}\n")), "another process");
        assert_eq!(said("cronstream -1\nnats-server x"), "another process");
        assert_eq!(said(""), "another process");
    }

    #[tokio::test]
    async fn one_process_installs_while_the_next_waits() {
        let dir = tempfile::tempdir().unwrap();
        let first =
            InstallLock::acquire(dir.path(), || panic!("nobody else is here")).await.unwrap();
        let (told, waits) = tokio::sync::oneshot::channel();
        let cache = dir.path().to_owned();
        let second = tokio::spawn(async move {
            InstallLock::acquire(&cache, || told.send(()).unwrap()).await.map(drop)
        });
        waits.await.unwrap();
        drop(first);
        second.await.unwrap().unwrap();
    }
}
