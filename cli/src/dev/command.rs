//! Command lines of this very program: run, and shown so that they can be typed.
//!
//! Invariant: a login in an address goes by the environment and is shown without its secret.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::args::Connection;
use crate::error::Error;

/// The variable that a connection's addresses may come from.
const NATS_URL: &str = "NATS_URL";

/// The program and how it reaches the broker.
#[derive(Debug)]
pub(super) struct Wire {
    program: PathBuf,
    shown: String,
    url: Option<String>,
    connection: Vec<OsString>,
}

/// A command line.
#[derive(Debug, Clone)]
pub(super) struct Line {
    program: PathBuf,
    shown: String,
    url: Option<String>,
    args: Vec<OsString>,
}

impl Wire {
    /// Command lines that connect as the arguments of this one say.
    pub(super) fn new(connection: &Connection) -> Result<Self, Error> {
        let program = std::env::current_exe()?;
        let shown = shown_program(&program, std::env::current_dir().ok().as_deref());
        let mut args: Vec<OsString> = Vec::new();
        let mut option = |name: &str, value: Option<&OsStr>| {
            if let Some(value) = value {
                args.extend([name.into(), value.to_owned()]);
            }
        };
        let Connection { nats, creds, nkey, tls_ca, context, prefix, inbox_prefix } = connection;
        let (url, nats) = match nats {
            Some(urls) if urls.contains('@') => (Some(urls.clone()), None),
            nats => (None, nats.as_deref()),
        };
        option("--nats", nats.map(OsStr::new));
        option("--creds", creds.as_ref().map(|path| path.as_os_str()));
        option("--nkey", nkey.as_ref().map(|path| path.as_os_str()));
        option("--tls-ca", tls_ca.as_ref().map(|path| path.as_os_str()));
        option("--context", context.as_deref().map(OsStr::new));
        let other = (*prefix != Default::default()).then_some(prefix.as_str());
        option("--prefix", other.map(OsStr::new));
        option("--inbox-prefix", inbox_prefix.as_deref().map(OsStr::new));
        Ok(Self { program, shown, url, connection: args })
    }

    /// A verb of this program on that connection.
    pub(super) fn line(&self, verb: &str) -> Line {
        let args = std::iter::once(OsString::from(verb)).chain(self.connection.iter().cloned());
        Line {
            program: self.program.clone(),
            shown: self.shown.clone(),
            url: self.url.clone(),
            args: args.collect(),
        }
    }
}

impl Line {
    /// Adds an argument.
    #[must_use]
    pub(super) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// The command in a process group of its own, so that the terminal's Ctrl-C does not end it first.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).process_group(0).kill_on_drop(true);
        if let Some(url) = &self.url {
            command.env(NATS_URL, url);
        }
        command
    }

    /// Runs the command to its end and gives what it wrote to standard output.
    pub(super) async fn output(&self) -> Result<String, Error> {
        let mut command = self.command();
        command.stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output().await?;
        if !output.status.success() {
            let (what, status) = (self.to_string(), output.status);
            return Err(Error::Ended { what, status, look: "it has said why above".into() });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(url) = &self.url {
            let hidden: Vec<String> = url.split(',').map(without_login).collect();
            write!(f, "{NATS_URL}={} ", hidden.join(","))?;
        }
        f.write_str(&quoted(&self.shown))?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", quoted(&arg.to_string_lossy())))
    }
}

/// An address without the part before its `@`.
fn without_login(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("nats", url));
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://…@{host}"),
        None => url.to_owned(),
    }
}

/// The program as it can be typed in this folder.
fn shown_program(program: &Path, folder: Option<&Path>) -> String {
    match folder.and_then(|folder| program.strip_prefix(folder).ok()) {
        Some(inside) => Path::new(".").join(inside).display().to_string(),
        None => program.display().to_string(),
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", crate::output::printable(word).replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_can_be_typed_and_without_a_login() {
        let nats = Some("nats://u:secret@a:1,b:2".to_owned());
        let wire = Wire::new(&Connection { nats, ..Connection::default() }).unwrap();
        let line = wire.line("apply").arg("-f").arg("/my data/it's");
        let shown = line.to_string();
        assert!(shown.starts_with("NATS_URL=nats://…@a:1,b:2 "), "{shown}");
        assert!(shown.ends_with(r" apply -f '/my data/it'\''s'"), "{shown}");
        assert!(!line.args.iter().any(|arg| arg.to_string_lossy().contains("secret")));
    }

    #[test]
    fn the_rest_of_the_connection_is_handed_on() {
        let connection = Connection {
            nats: Some("a:1".into()),
            creds: Some("/c".into()),
            prefix: "acme".parse().unwrap(),
            ..Connection::default()
        };
        let shown = Wire::new(&connection).unwrap().line("init").to_string();
        assert!(shown.ends_with(" init --nats a:1 --creds /c --prefix acme"), "{shown}");
    }

    #[test]
    fn a_program_below_this_folder_is_named_from_here() {
        let shown =
            |folder: &str| shown_program(Path::new("/r/t/cronstream"), Some(Path::new(folder)));
        assert_eq!(shown("/r"), "./t/cronstream");
        assert_eq!(shown("/x"), "/r/t/cronstream");
    }
}
