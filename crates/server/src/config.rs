//! The configuration file of a server that Cronstream starts.
//!
//! Invariant: whatever a path or name contains, it stays one quoted value of the file.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// The log is rotated at this size, so a server that runs for months fills no disk.
const LOG_BYTES_MAX: u32 = 10 * 1024 * 1024;
/// How many rotated logs are kept.
const LOG_FILES_MAX: u32 = 3;

/// How a server is to run.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where the store, the configuration, the log and the lock are.
    pub data_dir: PathBuf,
    /// The loopback port for clients; `None` chooses a free one, which a restart keeps.
    pub port: Option<u16>,
    /// Whether every write reaches the disk before it is acknowledged (`sync_interval: always`).
    pub sync_always: bool,
    /// Lines added to the end of the configuration as they are. A setting that is there already is
    /// replaced whole: a `jetstream` block needs its own `store_dir`.
    pub extra: String,
    /// The server's place in a cluster, if it is in one.
    pub cluster: Option<Member>,
}

impl ServerConfig {
    /// One server on its own: a free port, every write synced.
    #[must_use]
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        let data_dir = data_dir.into();
        Self { data_dir, port: None, sync_always: true, extra: String::new(), cluster: None }
    }

    /// The name the server is known by.
    pub(crate) fn name(&self) -> &str {
        self.cluster.as_ref().map_or("cronstream", |member| &member.name)
    }

    /// The server's log file.
    pub(crate) fn log(&self) -> PathBuf {
        self.data_dir.join("nats-server.log")
    }

    /// The text of the configuration file.
    pub(crate) fn render(&self, port: u16) -> Result<String, Error> {
        let dir = quote_path(&self.data_dir)?;
        let sync = if self.sync_always { "\n  sync_interval: always" } else { "" };
        let mut text = format!(
            "# Written by Cronstream at every start: changes are lost.\n\
             server_name: {name}\n\
             listen: \"127.0.0.1:{port}\"\n\
             ports_file_dir: {dir}\n\
             log_file: {log}\n\
             log_size_limit: {LOG_BYTES_MAX}\n\
             logfile_max_num: {LOG_FILES_MAX}\n\
             jetstream {{\n  store_dir: {dir}{sync}\n}}\n",
            name = quote(self.name())?,
            log = quote_path(&self.log())?,
        );
        if let Some(member) = &self.cluster {
            let routes: Vec<String> =
                member.routes.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect();
            text.push_str(&format!(
                "cluster {{\n  name: {}\n  listen: \"127.0.0.1:{}\"\n  routes: [{}]\n}}\n",
                quote(&member.cluster)?,
                member.route_port,
                routes.join(", "),
            ));
        }
        text.push_str(&self.extra);
        text.push('\n');
        Ok(text)
    }
}

/// A server's place in a cluster on this machine.
#[derive(Clone, Debug)]
pub struct Member {
    /// The cluster's name.
    pub cluster: String,
    /// This server's name, which must stay over restarts: its vote in the cluster hangs on it.
    pub name: String,
    /// The loopback port for the other servers.
    pub route_port: u16,
    /// The route ports of all servers.
    pub routes: Vec<u16>,
}

fn quote_path(path: &Path) -> Result<String, Error> {
    let text = path
        .to_str()
        .ok_or_else(|| Error::Unprintable { value: path.to_string_lossy().into_owned() })?;
    quote(text)
}

fn quote(text: &str) -> Result<String, Error> {
    if text.chars().any(char::is_control) {
        return Err(Error::Unprintable { value: text.to_owned() });
    }
    Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_quotes_stays_one_value() {
        assert_eq!(quote(r#"a "b" \c {}"#).unwrap(), r#""a \"b\" \\c {}""#);
        assert!(quote("a\nlisten: 0.0.0.0").is_err());
    }

    #[test]
    fn syncing_every_write_is_the_default() {
        let mut config = ServerConfig::new("/data");
        assert!(config.render(4222).unwrap().contains("sync_interval: always"));
        config.sync_always = false;
        assert!(!config.render(4222).unwrap().contains("sync_interval"));
    }
}
