//! Arguments of `import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cronstream_schemas::name::Name;

/// Arguments of `import`.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// What kind of file it is.
    #[arg(value_enum)]
    pub(crate) from: ImportFrom,
    /// The file, or `-` for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Namespace of all jobs [default: the one that the source names, else `default`].
    #[arg(long)]
    pub(crate) namespace: Option<Name>,
    /// Queue of all jobs [default: `default`].
    #[arg(long)]
    pub(crate) queue: Option<Name>,
    /// The crontab has a column for the user, as /etc/crontab and the files in /etc/cron.d have, where it goes without
    /// saying.
    #[arg(long)]
    pub(crate) user: bool,
    /// Zone of the machine that it is from, where the source names none [default: UTC].
    #[arg(long, value_name = "ZONE")]
    pub(crate) time_zone: Option<String>,
    /// How the definitions are written: YAML with comments, or one JSON object a line.
    #[arg(long, value_enum, default_value = "yaml")]
    pub(crate) format: ImportFormat,
    /// Write what the tasks run to a new file, for `executor --tasks`.
    #[arg(long, value_name = "FILE")]
    pub(crate) tasks: Option<PathBuf>,
}

/// What a file that is imported is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFrom {
    /// A crontab.
    Crontab,
    /// CronJobs of Kubernetes.
    K8s,
    /// Quartz's XML, or a list of its expressions.
    Quartz,
}

impl ImportFrom {
    /// What people call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Crontab => "a crontab",
            Self::K8s => "Kubernetes CronJobs",
            Self::Quartz => "Quartz",
        }
    }
}

/// How imported definitions are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFormat {
    /// YAML documents with comments.
    Yaml,
    /// JSON objects, one a line; the comments go to standard error.
    Json,
}
