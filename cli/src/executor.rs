//! `executor`: run an executor until it is told to stop.

use cronstream_executor::{Executor, check_tasks_file};
use cronstream_telemetry::metrics::ExecutorMetrics;

use crate::error::Error;
use crate::session::Session;
use crate::{args, connect, host, metrics, stop};

pub(crate) async fn executor(session: &Session, executor: &args::Executor) -> Result<(), Error> {
    let stop = stop::on_signal()?;
    if executor.exit_with_parent {
        stop::with_parent(&stop);
    }
    check_tasks_file(&executor.tasks, &session.connection().prefix)?;
    let counted = ExecutorMetrics::default();
    let _endpoint = metrics::serve(executor.metrics, counted.page()).await?;
    let options = connect::options(session.connection(), "executor")?;
    let node = match &executor.node {
        Some(node) => node.clone(),
        None => host::process_name(),
    };
    tracing::info!(%node, queue = %executor.queue, "executor starts");
    Executor::connect(options)
        .await?
        .queue(executor.queue.as_str())
        .node(node.as_str())
        .concurrency(usize::try_from(executor.concurrency).unwrap_or(usize::MAX))
        .drain(executor.drain.to_duration())
        .ack_wait(executor.ack_wait.to_duration())
        .tasks_file(&executor.tasks)
        .metrics(counted)
        .run(stop)
        .await?;
    tracing::info!("executor has stopped");
    Ok(())
}
