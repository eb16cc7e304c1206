//! The folder that `dev` keeps its data in.
//!
//! ```text
//!   <data>/nats/       the nats-server's store, configuration, log and lock
//!   <data>/tasks.toml  the example tasks, written at every start
//!   <data>/jobs.yaml   the example jobs, written when some were never defined
//!   <data>/<node>.log  what each process logs, and <node>.log.old before that
//! ```

use std::path::{Path, PathBuf};

use crate::error::Error;

/// The data folder.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

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
        Ok(Self(path.canonicalize().map_err(unusable)?))
    }

    /// The folder itself.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
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
}
