//! The turn of a heavy test: those that measure time or use the whole machine run one after the other.
//!
//! Invariant: at most one process on this machine holds an [`Exclusive`], and a process that dies lets go of it.

use std::fs::{File, OpenOptions};

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
        let path = std::env::temp_dir().join("cronstream-tests.lock");
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
