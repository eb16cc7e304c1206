//! A small disk of the test's own: a tmpfs that is full after a few megabytes.
//!
//! Invariant: it is unmounted when the value is dropped, also by a panic.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// How much is written at once to fill the disk.
const CHUNK: usize = 4 * 1024;

/// A mounted tmpfs.
#[derive(Debug)]
pub(crate) struct SmallDisk {
    dir: TempDir,
}

impl SmallDisk {
    /// Mounts a disk of so many megabytes; `None` where that is not allowed.
    pub(crate) fn mount(megabytes: u32) -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let dir = tempfile::Builder::new().prefix("cronstream-disk-").tempdir()?;
        let size = format!("size={megabytes}m");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "cronstream-test"])
            .arg(dir.path())
            .output();
        let mount = mount.context("run mount")?;
        // Root of a container may lack the capability.
        Ok(mount.status.success().then_some(Self { dir }))
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }

    /// Fills it to the last byte.
    pub(crate) fn fill(&self) -> Result<()> {
        let mut file = File::create(self.filler())?;
        loop {
            match file.write_all(&[0; CHUNK]) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Gives the space back.
    pub(crate) fn free(&self) -> Result<()> {
        std::fs::remove_file(self.filler()).context("remove the filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a nats-server that was just killed may still have files open.
        let unmount = Command::new("umount").arg("--lazy").arg(self.dir.path()).status();
        if !unmount.is_ok_and(|status| status.success()) {
            tracing::error!(dir = %self.dir.path().display(), "not unmounted");
        }
    }
}

#[test]
fn a_small_disk_is_full_and_is_gone_when_dropped() -> Result<()> {
    let Some(disk) = SmallDisk::mount(1)? else { return Ok(()) };
    let dir = disk.path().to_owned();
    let mounted = |dir: &Path| {
        let mounts = std::fs::read_to_string("/proc/mounts")?;
        anyhow::Ok(mounts.contains(&dir.display().to_string()))
    };
    ensure!(mounted(&dir)?, "{} is not mounted", dir.display());
    disk.fill()?;
    ensure!(std::fs::write(dir.join("more"), [0; CHUNK]).is_err(), "there is still room");
    disk.free()?;
    std::fs::write(dir.join("more"), [0; CHUNK])?;
    drop(disk);
    ensure!(!mounted(&dir)?, "{} is still mounted", dir.display());
    Ok(())
}
