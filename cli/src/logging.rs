//! Log lines on standard error.
//!
//! Invariant: only our own crates log below warnings, so that no address with a password comes out of a library.

use tracing_subscriber::EnvFilter;

use crate::args::{LogFormat, Verb};

/// Long-running verbs say what they do; the others speak by their output.
fn directives(verb: &Verb, verbose: bool) -> String {
    let serves = matches!(verb, Verb::Ticker(_) | Verb::Executor(_));
    let level = match (verbose, serves) {
        (true, _) => "debug",
        (false, true) => "info",
        (false, false) => "warn",
    };
    let ours = ["cronstream", "cronstream_bus", "cronstream_scheduler", "cronstream_executor"];
    let ours = ours.map(|target| format!("{target}={level}")).join(",");
    format!("error,{ours}")
}

/// Installs the subscriber of this process.
pub(crate) fn start(verb: &Verb, format: LogFormat, verbose: bool) {
    let filter = EnvFilter::new(directives(verb, verbose));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Fails only when a subscriber is there already, and this is the one place that makes one.
    match format {
        LogFormat::Human => lines.with_target(false).try_init().ok(),
        LogFormat::Json => lines.json().flatten_event(true).try_init().ok(),
    };
}
