//! A function of the program that embeds the SDK.
//!
//! Invariant: a panic is a failed attempt, not the end of the executor. A function that is asked to stop and
//! does not is dropped at its next `await`; code that never awaits cannot be stopped from outside.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use cronstream_schemas::json::Json;
use cronstream_telemetry::in_handler;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::task::AbortOnDropHandle;

use super::{STOP_GRACE, stopped};
use crate::task::{TaskContext, TaskError, TaskResult};

type Erased = dyn Fn(TaskContext, Json) -> BoxFuture<'static, TaskResult> + Send + Sync;

/// A registered function, its types erased.
#[derive(Clone)]
pub(crate) struct Function(Arc<Erased>);

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Function")
    }
}

impl Function {
    /// Wraps a function of typed params and result.
    pub(crate) fn new<F, P, R, Fut>(function: F) -> Self
    where
        F: Fn(TaskContext, P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, TaskError>> + Send + 'static,
        P: DeserializeOwned,
        R: Serialize,
    {
        Self(Arc::new(move |context, params| {
            let params = match serde_json::from_str(params.as_str()) {
                Ok(params) => params,
                Err(error) => {
                    let error = TaskError::fatal(format!("params do not fit the task: {error}"));
                    return Box::pin(std::future::ready(Err(error)));
                }
            };
            let work = function(context, params);
            Box::pin(async move { work.await.and_then(|result| as_json(&result)) })
        }))
    }

    /// Runs the function on a task of its own, which begins at once.
    pub(crate) fn run(
        &self,
        context: TaskContext,
        params: Json,
    ) -> impl Future<Output = TaskResult> + use<> {
        let (function, cancel) = (Arc::clone(&self.0), context.cancel.clone());
        let trace = context.trace;
        // Called inside, so that spans which the function makes before its first `await` are its own too.
        let work = in_handler(trace, async move { function(context, params).await });
        let mut work = AbortOnDropHandle::new(tokio::spawn(work));
        async move {
            let ended = tokio::select! {
                ended = &mut work => ended,
                () = cancel.cancelled() => match tokio::time::timeout(STOP_GRACE, &mut work).await {
                    Ok(ended) => ended,
                    Err(_) => return Err(stopped()),
                },
            };
            ended.unwrap_or_else(|error| match error.try_into_panic() {
                Ok(panic) => {
                    Err(TaskError::retry(format!("task panicked: {}", words(panic.as_ref()))))
                }
                Err(_) => Err(stopped()),
            })
        }
    }
}

/// The result's JSON; `null`, which `()` becomes, is no result.
fn as_json<R: Serialize>(result: &R) -> TaskResult {
    let json = Json::of(result)
        .map_err(|error| TaskError::fatal(format!("the result has no JSON form: {error}")))?;
    Ok((json.as_str() != "null").then_some(json))
}

fn words(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "no message",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    use crate::task::tests::context;

    #[derive(serde::Deserialize, serde::Serialize)]
    struct Count {
        n: u64,
    }

    #[tokio::test]
    async fn typed_params_and_results_are_converted() {
        let double = Function::new(|_, count: Count| async move { Ok(Count { n: count.n * 2 }) });
        let result = double.run(context(), Json::parse(r#"{"n":21}"#).unwrap()).await;
        assert_eq!(result.unwrap().unwrap().as_str(), r#"{"n":42}"#);
        let error = double.run(context(), Json::parse(r#"{"m":1}"#).unwrap()).await.unwrap_err();
        let expected = "params do not fit the task: missing field `n` at line 1 column 7";
        assert_eq!(error, TaskError::fatal(expected));
    }

    #[tokio::test]
    async fn opaque_params_and_results_pass_bit_for_bit() {
        let echo = Function::new(|_, params: Json| async move { Ok(params) });
        let params = Json::parse(r#"{"n":12345678901234567890, "f":1.10}"#).unwrap();
        assert_eq!(echo.run(context(), params.clone()).await, Ok(Some(params)));
        let nothing = Function::new(|_, _: Json| async move { Ok(()) });
        assert_eq!(nothing.run(context(), Json::empty()).await, Ok(None));
    }

    #[tokio::test]
    async fn a_panic_is_a_failure_to_retry() {
        let bad = Function::new(|_, _: Json| async move {
            if true {
                panic!("out of {}", "cheese");
            }
            Ok(())
        });
        let error = bad.run(context(), Json::empty()).await.unwrap_err();
        assert_eq!(error, TaskError::retry("task panicked: out of cheese"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_function_is_asked_to_stop_then_dropped() {
        let polite = Function::new(|context: TaskContext, _: Json| async move {
            context.cancelled().await;
            Ok("bye")
        });
        let deaf = Function::new(|_, _: Json| async move {
            std::future::pending::<()>().await;
            Ok(())
        });
        let run = async |function: &Function| {
            let context = context();
            let cancel = context.cancel.clone();
            let stop = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                cancel.cancel();
            };
            tokio::join!(function.run(context, Json::empty()), stop).0
        };
        assert_eq!(run(&polite).await.unwrap().unwrap().as_str(), r#""bye""#);
        assert_eq!(run(&deaf).await, Err(stopped()));
    }
}
