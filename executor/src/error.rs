//! The one error of this crate: a variant for each thing a caller or operator would do differently.

use std::path::PathBuf;

use cronstream_schemas::name::{Name, NameError};

use crate::tasks_file::Fault;

/// Why an executor cannot be built or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name is not a legal one.
    #[error("{what} {value:?}: {source}")]
    Name {
        /// `queue`, `task` or `node`.
        what: &'static str,
        /// The text.
        value: String,
        /// What is wrong with it.
        source: NameError,
    },
    /// A number is out of its range.
    #[error("concurrency {value} is outside of 1 to {max}")]
    Concurrency {
        /// The number.
        value: usize,
        /// The largest one.
        max: usize,
    },
    /// A task is registered twice.
    #[error("task {0} is registered twice")]
    TaskTwice(Name),
    /// An executor without a task can do nothing.
    #[error("queue {0} has no task: register one or name a tasks file")]
    NoTasks(Name),
    /// A tasks file cannot be read.
    #[error("cannot read tasks file {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A tasks file is not TOML.
    #[error("tasks file {path}:{line}: {problem}")]
    Toml {
        /// The file.
        path: PathBuf,
        /// Where, from 1 on.
        line: usize,
        /// What is wrong, without the text itself: it may hold a secret.
        problem: String,
    },
    /// A tasks file says something that cannot be done.
    #[error("tasks file {path}:{}", list(faults))]
    Tasks {
        /// The file.
        path: PathBuf,
        /// Everything that is wrong with it.
        faults: Vec<Fault>,
    },
    /// A tasks file without a task.
    #[error("tasks file {0} defines no task")]
    NoTaskInFile(PathBuf),
    /// The HTTP client cannot be made, such as when no root certificates are found.
    #[error("cannot make an http client")]
    Http(#[source] reqwest::Error),
    /// The broker cannot be used.
    #[error(transparent)]
    Bus(#[from] cronstream_bus::Error),
}

fn list(faults: &[Fault]) -> String {
    faults.iter().map(|fault| format!("\n  {fault}")).collect()
}
