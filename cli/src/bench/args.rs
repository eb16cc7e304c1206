//! What `bench` can be told.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Arguments of `bench`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Bench {
    /// What is measured.
    #[arg(value_enum)]
    pub(crate) what: What,
    /// Rounds, of which the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) rounds: u32,
    /// Jobs due at once (fire), or defined (load, idle) [default: fire, idle 100000; load 1000000].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    pub(crate) jobs: Option<u32>,
    /// Runs of a round (run).
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) runs: u32,
    /// Attempts at once of the executor (run).
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrency: u32,
    /// Single runs between whose fire and start the time is taken (run).
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) samples: u32,
    /// Brokers (run), one or more [default: each].
    #[arg(long, value_enum)]
    pub(crate) setting: Vec<Setting>,
    /// Fires a second whose lateness is taken (fire).
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: u32,
    /// Seconds of lateness (fire) or of idleness (idle).
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub(crate) seconds: u32,
    /// Folder in which the servers keep their data meanwhile [default: that for temporary files].
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Jobs that are all due in one second, and how late fires are.
    Fire,
    /// Runs that do nothing, from pull to result; fire to start; traces.
    Run,
    /// Memory of a ticker with many definitions, and its start from the log.
    Load,
    /// What jobs cost that are not due.
    Idle,
}

/// The broker under a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Setting {
    /// One server, every write synced before it is acknowledged.
    R1Always,
    /// One server that syncs as the server's default is, every two minutes.
    R1Default,
    /// Three servers on this machine, every stream in three copies, every write synced.
    R3,
}

impl Setting {
    /// As the tables name it.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::R1Always => "R1, fsync always",
            Self::R1Default => "R1, server default",
            Self::R3 => "R3, fsync always",
        }
    }
}
