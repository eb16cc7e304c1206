//! An executor whose functions are traced: what they do with `tracing` becomes part of their run's trace.
//!
//! `cargo run -p cronstream-executor --example traced` serves the task `report` of queue `reports`.

use cronstream_executor::{ConnectOptions, Executor, TaskContext, TaskError, TaskSpans};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

#[tracing::instrument]
async fn fetch(customer: &str) -> String {
    format!("orders of {customer}")
}

async fn report(_context: TaskContext, customer: String) -> Result<String, TaskError> {
    let orders = fetch(&customer).await;
    let render = tracing::info_span!("render", orders.bytes = orders.len());
    Ok(async { orders.to_uppercase() }.instrument(render).await)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spans = TaskSpans::default();
    tracing_subscriber::registry().with(spans.layer()).init();
    let servers = std::env::var("NATS_URL").unwrap_or_else(|_| "nats://127.0.0.1:4222".into());
    let servers = servers.split(',').map(str::to_owned).collect();
    let stop = CancellationToken::new();
    tokio::spawn({
        let stop = stop.clone();
        async move {
            tokio::signal::ctrl_c().await.ok();
            stop.cancel();
        }
    });
    Executor::connect(ConnectOptions { servers, ..ConnectOptions::default() })
        .await?
        .queue("reports")
        .task("report", report)
        .task_spans(spans)
        .run(stop)
        .await?;
    Ok(())
}
