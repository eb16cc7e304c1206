//! The tasks file: what an operator lets this executor run. `docs/reference/tasks-file.md` describes it.
//!
//! Invariant: what a job may run stands here and nowhere else; a definition names a task and gives params.
//! A key that is not known is a fault, never ignored, and all faults are told at once.

mod table;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use cronstream_bus::Bus;
use cronstream_schemas::fault::alike;
use cronstream_schemas::name::{Name, NameError};
use cronstream_schemas::subject::Prefix;
use reqwest::header::{HeaderMap, HeaderName};
use reqwest::{Client, Method, Url};
use toml::{Table, Value};

use crate::error::Error;
use crate::handlers::Handler;
use crate::handlers::command::Command;
use crate::handlers::http::{Http, client, sensitive};
use crate::handlers::nats::Nats;
use table::Reader;

/// The most bytes of a tasks file.
pub const FILE_MAX_BYTES: u64 = 1024 * 1024;
/// The longest subject of a NATS task.
const SUBJECT_MAX_BYTES: usize = 256;

/// One thing that is wrong with a tasks file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where: `tasks.<task>` and the key under it.
    pub key: String,
    /// The value, cut to 64 characters; empty where it is missing.
    pub value: String,
    /// What would be right.
    pub expected: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, expected } = self;
        if value.is_empty() {
            write!(f, "{key} is missing: {expected}")
        } else {
            write!(f, "{key} = {value}: {expected}")
        }
    }
}

/// What a file says of one task.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    /// A process.
    Command(Command),
    /// An HTTP request.
    Http(Http),
    /// A request to this subject.
    Nats(String),
}

impl Task {
    /// The task on a connection.
    pub(crate) fn on(self, bus: &Bus) -> Handler {
        match self {
            Self::Command(command) => Handler::Command(command),
            Self::Http(http) => Handler::Http(http),
            Self::Nats(subject) => Handler::Nats(Nats { subject, bus: bus.clone() }),
        }
    }
}

/// Reads a tasks file and says what is wrong with it, before anything is connected.
///
/// # Errors
/// When it cannot be read, says something that cannot be done, or defines no task.
pub fn check_tasks_file(path: &Path, prefix: &Prefix) -> Result<(), Error> {
    read(path, prefix).map(drop)
}

/// Reads a tasks file of an installation.
pub(crate) fn read(path: &Path, prefix: &Prefix) -> Result<BTreeMap<Name, Task>, Error> {
    let unreadable = |source| Error::File { path: path.to_owned(), source };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let size = file.take(FILE_MAX_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if size as u64 > FILE_MAX_BYTES {
        let message = format!("it has more than {FILE_MAX_BYTES} bytes");
        return Err(unreadable(std::io::Error::new(std::io::ErrorKind::FileTooLarge, message)));
    }
    let path = std::path::absolute(path).map_err(unreadable)?;
    parse(&text, &path, prefix)
}

fn parse(text: &str, path: &Path, prefix: &Prefix) -> Result<BTreeMap<Name, Task>, Error> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Error::Toml { path: path.to_owned(), line, problem: error.message().to_owned() }
    })?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut context = Context { folder, prefix, client: None, faults: Vec::new() };
    let mut root = Reader::new(String::new(), &table);
    let tasks = root.table("tasks", &mut context.faults);
    root.finish(&mut context.faults);
    let mut read = BTreeMap::new();
    for (name, value) in tasks.into_iter().flatten() {
        if let Some(task) = context.task(name, value)?
            && let Ok(name) = Name::parse(name)
        {
            read.insert(name, task);
        }
    }
    match context.faults[..] {
        [] if read.is_empty() => Err(Error::NoTaskInFile(path.to_owned())),
        [] => Ok(read),
        _ => Err(Error::Tasks { path: path.to_owned(), faults: context.faults }),
    }
}

/// What the tasks of one file share.
struct Context<'a> {
    folder: &'a Path,
    prefix: &'a Prefix,
    client: Option<Client>,
    faults: Vec<Fault>,
}

const KINDS: &str = "a task has exactly one of `command`, `http`, `nats`";

impl Context<'_> {
    fn fault(&mut self, key: String, value: &Value, expected: impl Into<String>) {
        self.faults.push(Fault { key, value: table::shown(value), expected: expected.into() });
    }

    /// A fault of a value that may be a secret.
    fn hidden(&mut self, key: String, expected: &str) {
        self.faults.push(Fault { key, value: "…".into(), expected: expected.into() });
    }

    fn task(&mut self, name: &str, value: &Value) -> Result<Option<Task>, Error> {
        let key = format!("tasks.{name}");
        if let Err(error) = Name::parse(name) {
            self.fault(key.clone(), value, format!("{error}; {}", NameError::HINT));
        }
        let Some(table) = value.as_table() else {
            self.fault(key, value, format!("{KINDS}, such as `command = [\"./report.sh\"]`"));
            return Ok(None);
        };
        let kinds = ["command", "http", "nats"];
        let given: Vec<_> = kinds.into_iter().filter(|kind| table.contains_key(*kind)).collect();
        let mut reader = Reader::new(key.clone(), table);
        let task = match given[..] {
            ["command"] => self.command(&mut reader).map(Task::Command),
            ["http"] => self.http(&mut reader)?.map(Task::Http),
            ["nats"] => self.nats(&mut reader).map(Task::Nats),
            _ => {
                let meant = table.keys().find_map(|written| alike(written, &kinds));
                let meant = meant.filter(|_| given.is_empty());
                let meant = meant.map(|kind| format!("; did you mean `{kind}`?"));
                self.fault(key, value, format!("{KINDS}{}", meant.unwrap_or_default()));
                return Ok(None);
            }
        };
        reader.finish(&mut self.faults);
        Ok(task)
    }

    fn command(&mut self, reader: &mut Reader<'_>) -> Option<Command> {
        let argv = reader.texts("command", &mut self.faults, 1);
        let cwd = reader.text("cwd", &mut self.faults);
        let pass = reader.texts("env_pass", &mut self.faults, 0).unwrap_or_default();
        let set = reader.table("env", &mut self.faults);
        let cwd = self.folder.join(cwd.unwrap_or_default());
        let mut env: BTreeMap<String, OsString> = pass
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?)))
            .collect();
        for (name, value) in set.into_iter().flatten() {
            let key = format!("{}.env.{name}", reader.key);
            match value.as_str() {
                Some(_) if is_ours(name) => {
                    self.hidden(key, "Cronstream sets this one itself");
                }
                Some(text) if is_env(name) && !text.contains('\0') => {
                    env.insert(name.clone(), text.into());
                }
                _ => self.hidden(key, "a text, under a name without `=`"),
            }
        }
        let (program, args) = argv?.split_first().map(|(first, rest)| (*first, rest.to_vec()))?;
        let program =
            if program.contains('/') { cwd.join(program) } else { PathBuf::from(program) };
        let args = args.into_iter().map(str::to_owned).collect();
        Some(Command { program, args, cwd, env })
    }

    fn http(&mut self, task: &mut Reader<'_>) -> Result<Option<Http>, Error> {
        let Some(table) = task.table("http", &mut self.faults) else { return Ok(None) };
        let mut reader = Reader::new(format!("{}.http", task.key), table);
        let method =
            reader.parsed("method", &mut self.faults, "a method such as \"POST\"", |text| {
                let upper = !text.is_empty() && text.bytes().all(|b| b.is_ascii_uppercase());
                upper.then(|| Method::from_bytes(text.as_bytes()).ok()).flatten()
            });
        let url = reader.parsed("url", &mut self.faults, "an http or https URL", |text| {
            Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
        });
        reader.required("url", &mut self.faults, "an http or https URL");
        let mut headers = HeaderMap::new();
        for (name, value) in reader.table("headers", &mut self.faults).into_iter().flatten() {
            let read = value.as_str().and_then(sensitive);
            match (HeaderName::from_bytes(name.as_bytes()), read) {
                (Ok(name), Some(value)) => {
                    headers.insert(name, value);
                }
                (Ok(_) | Err(_), _) => {
                    let key = format!("{}.headers.{name}", reader.key);
                    self.hidden(key, "a header name with a text of visible characters");
                }
            }
        }
        reader.finish(&mut self.faults);
        let Some(url) = url else { return Ok(None) };
        let client = match &self.client {
            Some(client) => client.clone(),
            None => self.client.insert(client().map_err(Error::Http)?).clone(),
        };
        Ok(Some(Http { method: method.unwrap_or(Method::POST), url, headers, client }))
    }

    fn nats(&mut self, task: &mut Reader<'_>) -> Option<String> {
        const EXPECTED: &str = "a subject of your own, such as \"svc.calc\": no wildcard, no space, not \
             under `$` or `_INBOX` nor this installation's prefix";
        let table = task.table("nats", &mut self.faults)?;
        let mut reader = Reader::new(format!("{}.nats", task.key), table);
        let prefix = self.prefix.as_str();
        let subject = reader.parsed("subject", &mut self.faults, EXPECTED, |text| {
            is_request_subject(text, prefix).then(|| text.to_owned())
        });
        reader.required("subject", &mut self.faults, EXPECTED);
        reader.finish(&mut self.faults);
        subject
    }
}

/// Whether a subject may be asked by a task. Streams, inboxes and the server's own are not for tasks.
fn is_request_subject(text: &str, prefix: &str) -> bool {
    let first = text.split('.').next().unwrap_or_default();
    let token = |token: &str| {
        !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic() && b != b'*' && b != b'>')
    };
    text.len() <= SUBJECT_MAX_BYTES
        && text.split('.').all(token)
        && !first.starts_with('$')
        && !first.starts_with("_INBOX")
        && first != prefix
}

fn is_env(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

fn is_ours(name: &str) -> bool {
    name.starts_with("CRON_") || name == "TRACEPARENT"
}

#[cfg(test)]
mod tests;
