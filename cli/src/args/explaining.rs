//! Arguments of `explain`.

use clap::Args;
use cronstream_schemas::definition::When;
use cronstream_schemas::name::JobId;

use crate::instants;

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The job, `namespace/name`.
    pub(crate) job: JobId,
    /// The instant: RFC 3339 with an offset, or a local time in the job's zone such as 2027-01-31T03:00.
    #[arg(long, value_name = "TIME", value_parser = instants::read)]
    pub(crate) at: When,
}
