//! What a task is told when it starts, and what it may answer.
//!
//! Invariant: params and results pass bit for bit; nothing here parses a number in them.

use std::fmt;
use std::time::Duration;

use cronstream_core::attempt::{Retry, TaskOutcome};
use cronstream_schemas::duration::Span;
use cronstream_schemas::event::{Failure, FailureKind, Output};
use cronstream_schemas::id::{RunId, ShardId};
use cronstream_schemas::json::{Json, OPAQUE_MAX_BYTES};
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::time::Timestamp;
use cronstream_schemas::trace::TraceContext;
use tokio_util::sync::CancellationToken;

/// What a task knows about the attempt that it is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TaskContext {
    /// The task.
    pub task: Name,
    /// The job.
    pub job: JobId,
    /// The run; its 32 hex digits are the trace id.
    pub run: RunId,
    /// The shard, from 0.
    pub shard: u16,
    /// How many shards the run has.
    pub shards: u16,
    /// The slot, or the trigger's instant.
    pub slot: Timestamp,
    /// Which start of the shard this is, from 1; retries and crashes count.
    pub attempt: u32,
    /// Rises with every start of any shard: hand it to whatever can refuse an older one.
    pub fencing_token: u64,
    /// W3C Trace Context of this attempt's task.
    pub traceparent: String,
    /// How long the attempt may take.
    pub timeout: Duration,
    pub(crate) trace: TraceContext,
    pub(crate) cancel: CancellationToken,
}

impl TaskContext {
    /// Resolves when the task is to stop: its timeout has passed, its run was ended, or the executor shuts
    /// down. What is still running two seconds later is dropped at its next `await`.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// Whether the task is to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// The same for every attempt of this shard: a key by which a remote side can refuse a repetition.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        ShardId { run: self.run, shard: self.shard }.to_string()
    }
}

/// Why a task failed. Any error becomes one by `?`, and is retried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskError {
    message: String,
    retry: Retry,
}

impl TaskError {
    /// Another attempt may do better.
    #[must_use]
    pub fn retry(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), retry: Retry::After(None) }
    }

    /// Another attempt may do better, but not before this has passed.
    #[must_use]
    pub fn retry_after(message: impl fmt::Display, after: Duration) -> Self {
        Self { message: message.to_string(), retry: Retry::After(Some(Span::from(after))) }
    }

    /// No attempt will do better: the shard fails for good.
    #[must_use]
    pub fn fatal(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), retry: Retry::Never }
    }

    pub(crate) fn into_outcome(self, output: Option<Output>) -> TaskOutcome {
        let failure = Failure { kind: FailureKind::Error, message: self.message };
        TaskOutcome::Failure { failure, retry: self.retry, output }
    }
}

impl<E: std::error::Error> From<E> for TaskError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::retry(message)
    }
}

/// What a handler returns: a result or a failure.
pub(crate) type TaskResult = Result<Option<Json>, TaskError>;

pub(crate) fn into_outcome(result: TaskResult, output: Option<Output>) -> TaskOutcome {
    match result.and_then(check_size) {
        Ok(result) => TaskOutcome::Success { result, output },
        Err(error) => error.into_outcome(output),
    }
}

fn check_size(result: Option<Json>) -> TaskResult {
    match result.as_ref().map_or(0, |json| json.as_str().len()) {
        0..=OPAQUE_MAX_BYTES => Ok(result),
        size => Err(too_large("the result", size)),
    }
}

/// The work is done, so repeating it would not make its result smaller.
pub(crate) fn too_large(what: &str, size: usize) -> TaskError {
    TaskError::fatal(format!("{what} has {size} bytes, at most {OPAQUE_MAX_BYTES} are kept"))
}

/// The result in a reply's body: its JSON as it is, any other text as a JSON string, nothing for no bytes.
pub(crate) fn body_as_result(body: &[u8], is_json: impl FnOnce() -> bool) -> TaskResult {
    let text = String::from_utf8_lossy(body);
    if text.trim().is_empty() {
        return Ok(None);
    }
    if is_json()
        && let Ok(json) = Json::parse(&text)
    {
        return Ok(Some(json));
    }
    let json = Json::of(&text).map_err(TaskError::fatal)?;
    check_size(Some(json))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use cronstream_schemas::id::{Incarnation, RunSeed};

    /// A context for the handlers' tests.
    pub(crate) fn context() -> TaskContext {
        let slot = Timestamp::from_millis(1_800_000_000_000);
        let job: JobId = "billing/nightly".parse().unwrap();
        let run = RunId::derive(slot, &job, Incarnation(1), RunSeed::Slot(slot));
        TaskContext {
            task: "report".parse().unwrap(),
            job,
            run,
            shard: 0,
            shards: 1,
            slot,
            attempt: 2,
            fencing_token: 77,
            traceparent: run.trace_context("attempt", true).to_string(),
            trace: run.trace_context("attempt", true),
            timeout: Duration::from_secs(60),
            cancel: CancellationToken::new(),
        }
    }

    #[test]
    fn an_error_with_causes_becomes_one_message() {
        let fails = || -> Result<(), TaskError> {
            serde_json::from_str::<u8>("x")?;
            Ok(())
        };
        let error = fails().unwrap_err();
        assert_eq!(error, TaskError::retry("expected value at line 1 column 1"));
    }

    #[test]
    fn a_result_over_the_bound_fails_for_good_and_says_so() {
        let big = Json::of(&"x".repeat(OPAQUE_MAX_BYTES)).unwrap();
        let TaskOutcome::Failure { failure, retry, .. } = into_outcome(Ok(Some(big)), None) else {
            panic!("accepted");
        };
        assert_eq!(retry, Retry::Never);
        assert_eq!(failure.message, "the result has 131074 bytes, at most 131072 are kept");
    }

    #[test]
    fn a_body_is_kept_as_json_or_as_text() {
        let read = |body: &str, is_json| {
            body_as_result(body.as_bytes(), || is_json)
                .unwrap()
                .map(|json| json.as_str().to_owned())
        };
        assert_eq!(read("", true), None);
        assert_eq!(
            read(r#"{"n":12345678901234567890}"#, true).unwrap(),
            r#"{"n":12345678901234567890}"#
        );
        assert_eq!(read("12", false).unwrap(), r#""12""#);
        assert_eq!(read("not json", true).unwrap(), r#""not json""#);
    }
}
