//! A NATS request of the executor's own tasks file: params are the body, a header of the reply decides.
//!
//! Invariant: a reply without a status is a success only if it is not the error of a NATS service.

use cronstream_bus::{Bus, StoredMessage};
use cronstream_schemas::header;
use cronstream_schemas::json::{Json, OPAQUE_MAX_BYTES};

use crate::task::{TaskContext, TaskError, TaskResult, body_as_result, too_large};

/// Added to the attempt's timeout, so that the attempt ends it and says why.
const BEYOND_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);

/// Whom to ask.
#[derive(Debug, Clone)]
pub(crate) struct Nats {
    /// The subject.
    pub(crate) subject: String,
    /// The executor's connection.
    pub(crate) bus: Bus,
}

impl Nats {
    /// Sends the request and reads the reply.
    pub(crate) async fn run(&self, context: &TaskContext, params: &Json) -> TaskResult {
        let headers = vec![
            (header::TRACEPARENT, context.traceparent.clone()),
            (header::RUN, context.run.to_string()),
            (header::JOB, context.job.to_string()),
            (header::ATTEMPT, context.attempt.to_string()),
            (header::SCHEDULED_AT, context.slot.to_string()),
            (header::FENCING_TOKEN, context.fencing_token.to_string()),
        ];
        let body = bytes::Bytes::copy_from_slice(params.as_str().as_bytes());
        let timeout = context.timeout.saturating_add(BEYOND_TIMEOUT);
        let reply = self
            .bus
            .request_core(&self.subject, &headers, body, timeout)
            .await
            .map_err(|error| self.unanswered(&error))?;
        read(&self.subject, &reply)
    }

    fn unanswered(&self, error: &cronstream_bus::Error) -> TaskError {
        use cronstream_bus::Error as Bus;
        let subject = &self.subject;
        match error {
            Bus::Unavailable { .. } => TaskError::retry(format!("nobody answers on {subject}")),
            Bus::Denied { .. } | Bus::TooLarge { .. } | Bus::Subject(_) | Bus::Header(_) => {
                TaskError::fatal(format!("cannot ask {subject}: {error}"))
            }
            error => TaskError::retry(format!("cannot ask {subject}: {error}")),
        }
    }
}

fn read(subject: &str, reply: &StoredMessage) -> TaskResult {
    let body = &reply.payload;
    let words = || String::from_utf8_lossy(body).trim().to_owned();
    match reply.header(header::STATUS) {
        Some("ok") => {}
        Some("retry") => return Err(TaskError::retry(words())),
        Some("fail") => return Err(TaskError::fatal(words())),
        Some(other) => {
            let message =
                format!("{subject} answered {} {other:?}: use ok, retry or fail", header::STATUS);
            return Err(TaskError::fatal(message));
        }
        None => {
            if let Some(error) = reply.header(header::SERVICE_ERROR) {
                return Err(TaskError::retry(format!("{subject} answered an error: {error}")));
            }
        }
    }
    if body.len() > OPAQUE_MAX_BYTES {
        return Err(too_large("the reply", body.len()));
    }
    body_as_result(body, || true)
}
