//! The folder that `dev` keeps its data in.
//!
//! ```text
//!   <data>/nats/       the nats-server's store, configuration, log and lock
//!   <data>/tasks.toml  the example tasks, written at every start
//!   <data>/jobs.yaml   the example jobs, written when some were never defined
//!   <data>/dev.lock    held while `dev` runs on the folder
//!   <data>/<node>.log  what each process logs, and <node>.log.old before that
//! ```

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use cronstream_server::Error as ServerError;

use crate::error::Error;

/// The data folder; another `dev` is kept out while this value lives.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder if it is not there.
    pub(super) fn open(wanted: Option<&Path>) -> Result<Self, Error> {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let path = match wanted {
            Some(path) => path.to_owned(),
            None => default_folder(variable).ok_or_else(|| {
                Error::Usage("no folder for the data: give one by --data, or set HOME".into())
            })?,
        };
        let unusable = |source| Error::File { path: path.clone(), source };
        std::fs::create_dir_all(&path).map_err(unusable)?;
        let path = path.canonicalize().map_err(unusable)?;
        let unusable = |source| Error::File { path: path.join("dev.lock"), source };
        let lock = File::create(path.join("dev.lock")).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                let holder = "another `cronstream dev`: stop that one, or give this one another folder by --data".into();
                Err(ServerError::DataFolderBusy { dir: path, holder }.into())
            }
            Err(TryLockError::Error(source)) => Err(unusable(source)),
        }
    }

    /// The folder itself.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file in it.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf, Error> {
        let path = self.file(name);
        match std::fs::write(&path, text) {
            Ok(()) => Ok(path),
            Err(source) => Err(Error::File { path, source }),
        }
    }
}

/// `$XDG_DATA_HOME/cronstream/dev`, else `~/.local/share/cronstream/dev`.
fn default_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let data = variable("XDG_DATA_HOME")
        .filter(absolute)
        .or_else(|| variable("HOME").filter(absolute).map(|home| home.join(".local/share")))?;
    Some(data.join("cronstream").join("dev"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_goes_where_the_users_other_data_is() {
        let folder = |xdg: &'static str, home: &'static str| {
            default_folder(|name| {
                let value = if name == "HOME" { home } else { xdg };
                (!value.is_empty()).then(|| value.into())
            })
        };
        assert_eq!(folder("/d", "/h"), Some("/d/cronstream/dev".into()));
        assert_eq!(folder("", "/h"), Some("/h/.local/share/cronstream/dev".into()));
        assert_eq!(folder("relative", "/h"), Some("/h/.local/share/cronstream/dev".into()));
        assert_eq!(folder("", ""), None);
    }

    #[test]
    fn a_second_dev_on_the_same_folder_is_refused_until_the_first_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let first = Folder::open(Some(dir.path())).unwrap();
        let refused = Folder::open(Some(dir.path())).unwrap_err();
        assert!(matches!(refused, Error::Server(ServerError::DataFolderBusy { .. })), "{refused}");
        drop(first);
        Folder::open(Some(dir.path())).unwrap();
    }
}
