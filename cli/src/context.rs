//! Contexts of the `nats` command line: `nats/context/NAME.json` in the user's configuration folder.
//!
//! Invariant: a context's secrets go into the connection and nowhere else; a setting that would change where or
//! as whom one connects, and that Cronstream does not know, is refused, never passed over.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::Error;

/// What a context file may say; every field may be missing or empty.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Context {
    pub(crate) url: String,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) token: String,
    pub(crate) creds: String,
    pub(crate) nkey: String,
    pub(crate) ca: String,
    pub(crate) inbox_prefix: String,
    cert: String,
    key: String,
    nsc: String,
    user_jwt: String,
    user_seed: String,
    jetstream_domain: String,
    jetstream_api_prefix: String,
    socks_proxy: String,
    tls_first: bool,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

impl Context {
    /// Reads the context `name` below `folder`.
    pub(crate) fn read(folder: &Path, name: &str) -> Result<Self, Error> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\']) {
            return Err(Error::Usage(format!("{name:?} is not the name of a context")));
        }
        let path = folder.join("nats").join("context").join(format!("{name}.json"));
        let text = std::fs::read_to_string(&path)
            .map_err(|source| Error::File { path: path.clone(), source })?;
        // The parser's own message may quote a value.
        let context: Self = serde_json::from_str(&text).map_err(|error| {
            let (path, line) = (path.display(), error.line());
            Error::Usage(format!("{path}:{line}: not a context of the nats command line"))
        })?;
        match context.unsupported() {
            None => Ok(context),
            Some(field) => Err(Error::Usage(format!(
                "{}: cronstream cannot use {field:?} of a context; use url, user and password, token, creds, \
                 nkey, ca, inbox_prefix",
                path.display()
            ))),
        }
    }

    fn unsupported(&self) -> Option<&'static str> {
        let texts = [
            ("cert", &self.cert),
            ("key", &self.key),
            ("nsc", &self.nsc),
            ("user_jwt", &self.user_jwt),
            ("user_seed", &self.user_seed),
            ("jetstream_domain", &self.jetstream_domain),
            ("jetstream_api_prefix", &self.jetstream_api_prefix),
            ("socks_proxy", &self.socks_proxy),
        ];
        let text = texts.into_iter().find(|(_, value)| !value.is_empty()).map(|(name, _)| name);
        text.or(self.tls_first.then_some("tls_first"))
    }
}

/// The user's configuration folder: `XDG_CONFIG_HOME`, else `.config` in the home folder.
pub(crate) fn config_folder(variable: impl Fn(&str) -> Option<String>) -> PathBuf {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    match set("XDG_CONFIG_HOME") {
        Some(folder) => folder.into(),
        None => PathBuf::from(set("HOME").unwrap_or_default()).join(".config"),
    }
}
