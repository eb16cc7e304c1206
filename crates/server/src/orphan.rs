//! Ending a nats-server whose owner was killed.
//!
//! Invariant: only the process that the folder's own lock file names is signalled, only while the
//! folder is locked, and never while its owner lives.

use std::{path::Path, time::Duration};

use rustix::process::{Signal, kill_process};

use crate::{
    error::Error,
    lock::{self, Note},
};

/// How long the server may take to end after SIGTERM, and then after SIGKILL.
const END_MAX: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(2));

/// Which owner of a data folder counts as dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Any process that is not there any more.
    Gone,
    /// This one, which the caller knows to have ended, and no other.
    Ended(u32),
}

/// Ends the nats-server that a dead owner left on this data folder, and returns its process number;
/// `None` when there is none.
pub async fn end_orphan(dir: &Path, owner: Owner) -> Result<Option<u32>, Error> {
    let path = dir.join("lock");
    if !path.is_file() {
        return Ok(None);
    }
    let file = lock::open(&path)?;
    if lock::try_lock(&file, &path)? {
        return Ok(None);
    }
    let Note { owner: Some(named), server: Some(server) } = Note::read(&file) else {
        return Ok(None);
    };
    let dead = match owner {
        Owner::Gone => !lock::lives(named),
        Owner::Ended(pid) => pid == named,
    };
    let Some(pid) = lock::process(server).filter(|_| dead) else { return Ok(None) };
    // One that is gone meanwhile lets go of the lock.
    kill_process(pid, Signal::TERM).ok();
    kill_process(pid, Signal::CONT).ok();
    if lock::lock_within(&file, &path, END_MAX.0).await? {
        return Ok(Some(server));
    }
    kill_process(pid, Signal::KILL).ok();
    lock::lock_within(&file, &path, END_MAX.1).await?;
    Ok(Some(server))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::lock::DataLock;

    /// A folder that a process holds which stands for a nats-server, noted under this owner.
    async fn left_behind(dir: &Path, owner: u32) -> tokio::process::Child {
        let lock = DataLock::acquire(dir).await.unwrap();
        let mut server = tokio::process::Command::new("sleep");
        server.arg("600").stdin(lock.as_stdin().unwrap()).kill_on_drop(true);
        let child = server.spawn().unwrap();
        let note = format!("cronstream {owner}\nnats-server {}\n", child.id().unwrap());
        std::fs::write(dir.join("lock"), note).unwrap();
        child
    }

    #[tokio::test]
    async fn a_server_whose_owner_is_gone_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = left_behind(dir.path(), u32::try_from(i32::MAX).unwrap()).await;
        let pid = child.id();
        assert_eq!(end_orphan(dir.path(), Owner::Gone).await.unwrap(), pid);
        assert_eq!(child.wait().await.unwrap().signal(), Some(Signal::TERM.as_raw()));
        assert_eq!(end_orphan(dir.path(), Owner::Gone).await.unwrap(), None);
        DataLock::acquire(dir.path()).await.unwrap();
    }

    #[tokio::test]
    async fn a_server_whose_owner_lives_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let own = std::process::id();
        let mut child = left_behind(dir.path(), own).await;
        assert_eq!(end_orphan(dir.path(), Owner::Gone).await.unwrap(), None);
        assert_eq!(end_orphan(dir.path(), Owner::Ended(own + 1)).await.unwrap(), None);
        assert!(child.try_wait().unwrap().is_none());
        assert_eq!(end_orphan(dir.path(), Owner::Ended(own)).await.unwrap(), child.id());
    }

    #[tokio::test]
    async fn a_folder_that_nobody_holds_has_no_orphan() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(end_orphan(dir.path(), Owner::Gone).await.unwrap(), None);
    }
}
