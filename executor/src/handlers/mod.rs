//! The four ways to run a task; `design.md` §4 "Handlers".
//!
//! Invariant: a handler returns soon after its context is cancelled, having stopped what it can reach. What
//! the outcome then means (a timeout, a handed back attempt) is for the caller to say.

mod capture;
pub(crate) mod command;
pub(crate) mod function;
pub(crate) mod http;
pub(crate) mod nats;
mod retry_after;

use std::time::Duration;

use cronstream_core::attempt::TaskOutcome;
use cronstream_schemas::json::Json;
use cronstream_telemetry::HandlerKind;
use futures::FutureExt as _;
use futures::future::Either;

use crate::task::{TaskContext, TaskError, into_outcome};

/// How long a task may take to stop when it is asked to, before it is killed.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(2);

/// A task as the executor runs it.
#[derive(Debug, Clone)]
pub(crate) enum Handler {
    /// A process.
    Command(command::Command),
    /// An HTTP request.
    Http(http::Http),
    /// A NATS request.
    Nats(nats::Nats),
    /// A function of this program.
    Function(function::Function),
}

impl Handler {
    /// How the task is run.
    pub(crate) const fn kind(&self) -> HandlerKind {
        match self {
            Self::Command(_) => HandlerKind::Command,
            Self::Http(_) => HandlerKind::Http,
            Self::Nats(_) => HandlerKind::Nats,
            Self::Function(_) => HandlerKind::Function,
        }
    }

    /// Runs the task until it ends or its context is cancelled. All but functions are apart, so that these are not
    /// carried about in as much room as a process or a request takes.
    pub(crate) fn run<'a>(
        &'a self,
        context: TaskContext,
        params: &'a Json,
    ) -> impl Future<Output = TaskOutcome> + use<'a> {
        let apart = match self {
            Self::Function(function) => {
                let result = function.run(context, params.clone());
                return Either::Left(result.map(|result| into_outcome(result, None)));
            }
            Self::Command(command) => async move { command.run(&context, params).await }.boxed(),
            Self::Http(http) => async move {
                let result = until_cancelled(&context, http.run(&context, params)).await;
                into_outcome(result, None)
            }
            .boxed(),
            Self::Nats(nats) => async move {
                let result = until_cancelled(&context, nats.run(&context, params)).await;
                into_outcome(result, None)
            }
            .boxed(),
        };
        Either::Right(apart)
    }
}

/// Runs something that stops by being dropped.
async fn until_cancelled<T>(
    context: &TaskContext,
    work: impl Future<Output = Result<T, TaskError>>,
) -> Result<T, TaskError> {
    tokio::select! {
        result = work => result,
        () = context.cancelled() => Err(stopped()),
    }
}

fn stopped() -> TaskError {
    TaskError::retry("stopped")
}
