//! An executor with one task of its own: `cargo run -p cronstream-executor --example report`.
//!
//! It serves the queue `reports` of the installation at `NATS_URL`. To give it work:
//!
//! ```text
//! cronstream apply -f - <<'END'
//! job: billing/report
//! queue: reports
//! task: report
//! schedule: { every: 30s }
//! params: { customer: Ann, pages: 3 }
//! END
//! ```

use std::time::Duration;

use cronstream_executor::{ConnectOptions, Error, Executor, TaskContext, TaskError};
use tokio_util::sync::CancellationToken;

/// How long a page takes.
const PAGE: Duration = Duration::from_secs(1);
/// The most pages that one run may have.
const PAGES_MAX: u32 = 100;

/// The job's params. What does not fit this type fails for good.
#[derive(Debug, serde::Deserialize)]
struct Report {
    customer: String,
    pages: u32,
}

/// The run's result.
#[derive(Debug, serde::Serialize)]
struct Done {
    customer: String,
    pages: u32,
    attempt: u32,
}

async fn report(context: TaskContext, report: Report) -> Result<Done, TaskError> {
    let Report { customer, pages } = report;
    if pages > PAGES_MAX {
        return Err(TaskError::fatal(format!("{pages} pages, at most {PAGES_MAX}")));
    }
    for page in 1..=pages {
        tokio::select! {
            () = tokio::time::sleep(PAGE) => tracing::info!(run = %context.run, page, "written"),
            // The timeout, a cancel, or the end of this program: tidy up within two seconds.
            () = context.cancelled() => return Err(TaskError::retry("stopped half-way")),
        }
    }
    Ok(Done { customer, pages, attempt: context.attempt })
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();

    let stop = CancellationToken::new();
    tokio::spawn({
        let stop = stop.clone();
        async move {
            // Without a signal handler the program ends as in a crash: what ran is started again elsewhere.
            tokio::signal::ctrl_c().await.ok();
            stop.cancel();
        }
    });

    let server = std::env::var("NATS_URL").unwrap_or_else(|_| "nats://127.0.0.1:4222".to_owned());
    let options = ConnectOptions { servers: vec![server], ..ConnectOptions::default() };
    Executor::connect(options).await?.queue("reports").task("report", report).run(stop).await
}
