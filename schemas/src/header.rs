//! Names of the message headers, each in one place.

/// NATS: the id by which a stream refuses a message it has already stored within its window.
pub const MSG_ID: &str = "Nats-Msg-Id";
/// Ours, on a command: the inbox that the verdict is sent to.
pub const REPLY: &str = "Cron-Reply";
/// Ours, on a define: the revision that must be in force, 0 for "the job must not exist".
pub const EXPECTED_REVISION: &str = "Cron-Expected-Revision";
/// Ours, on a command: who sends it, as its sender says.
pub const AUTHOR: &str = "Cron-Author";
/// Ours, on every message of CRON_LOG: `<epoch>.<tick>` of the batch that stored it.
pub const TICK: &str = "Cron-Tick";
/// Ours, on the reply of a NATS task: `ok`, `retry` or `fail`.
pub const STATUS: &str = "Cron-Status";
/// W3C Trace Context, `traceparent`.
pub const TRACEPARENT: &str = "traceparent";
/// Ours, handed to NATS and HTTP tasks: the run id.
pub const RUN: &str = "Cron-Run";
/// Ours, handed to NATS and HTTP tasks: the fencing token of this attempt.
pub const FENCING_TOKEN: &str = "Cron-Fencing-Token";
/// Ours, handed to NATS and HTTP tasks: the job, `<namespace>/<name>`.
pub const JOB: &str = "Cron-Job";
/// Ours, handed to NATS and HTTP tasks: the attempt, from 1.
pub const ATTEMPT: &str = "Cron-Attempt";
/// Ours, handed to NATS and HTTP tasks: the slot, RFC 3339.
pub const SCHEDULED_AT: &str = "Cron-Scheduled-At";
/// NATS: the error that a micro service answers with.
pub const SERVICE_ERROR: &str = "Nats-Service-Error";
