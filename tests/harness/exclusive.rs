//! The turn of a heavy test: those that measure time or use the whole machine run one after the other.
//!
//! Invariant: at most one process on this machine holds an [`Exclusive`], and a process that dies lets go of it.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;

use anyhow::{Context, Result};

/// The turn; dropping it lets the next heavy test in.
#[derive(Debug)]
pub struct Exclusive {
    _file: File,
}

impl Exclusive {
    /// Waits for the turn, however long the others take.
    ///
    /// # Errors
    /// When the lock file cannot be opened.
    pub async fn acquire() -> Result<Self> {
        Self::acquire_at(std::env::temp_dir().join("cronstream-tests.lock")).await
    }

    async fn acquire_at(path: PathBuf) -> Result<Self> {
        let locked = tokio::task::spawn_blocking(move || {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)
                .with_context(|| format!("open {}", path.display()))?;
            file.lock().with_context(|| format!("lock {}", path.display()))?;
            anyhow::Ok(file)
        });
        Ok(Self { _file: locked.await?? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_second_waits_for_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = Exclusive::acquire_at(path.clone()).await.unwrap();
        let second = tokio::spawn(Exclusive::acquire_at(path.clone()));
        let other = OpenOptions::new().write(true).open(&path).unwrap();
        assert!(matches!(other.try_lock(), Err(std::fs::TryLockError::WouldBlock)));
        drop(first);
        second.await.unwrap().unwrap();
    }
}
