//! Log lines on standard error.
//!
//! Invariant: libraries log errors alone, so that no address with a password comes out of one of them.

use std::io::IsTerminal as _;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;

use crate::args::{LogFormat, Verb};
use crate::line::{Clock, Plain};

/// Long-running verbs say what they do; the others speak by their output and their error, which says what the
/// bus met.
fn directives(verb: &Verb, verbose: bool) -> &'static str {
    let serves =
        matches!(verb, Verb::Ticker(_) | Verb::Executor(_) | Verb::Relay(_) | Verb::Bench(_));
    match (verbose, serves) {
        (true, _) => {
            "error,cronstream=debug,cronstream_bus=debug,cronstream_scheduler=debug,cronstream_executor=debug,\
             cronstream_telemetry=debug"
        }
        (false, true) => {
            "error,cronstream=info,cronstream_bus=info,cronstream_scheduler=info,cronstream_executor=info,\
             cronstream_telemetry=info"
        }
        (false, false) => "off,cronstream=warn",
    }
}

/// Installs the subscriber of this process.
pub(crate) fn start(verb: &Verb, format: LogFormat, verbose: bool) {
    let filter = EnvFilter::new(directives(verb, verbose));
    // The nodes that `bench` runs log as those of a cluster do, and its terminal shows figures.
    if let (Verb::Bench(_), false, Ok(file)) = (verb, verbose, tempfile::tempfile()) {
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(Mutex::new(file))
            .with_target(false)
            .with_ansi(false)
            .with_timer(Clock)
            .fmt_fields(Plain)
            .try_init()
            .ok();
        return;
    }
    // A line that standard error does not take is lost. Telling so there panics in whoever logs: the reader of
    // a pipe that is gone would end tasks of a node, the one that waits for SIGTERM among them.
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false);
    // Fails only when a subscriber is there already, and this is the one place that makes one.
    match format {
        LogFormat::Human if std::io::stderr().is_terminal() => {
            lines.with_target(false).with_ansi(true).try_init().ok()
        }
        LogFormat::Human => {
            let plain = lines.with_target(false).with_ansi(false);
            plain.with_timer(Clock).fmt_fields(Plain).try_init().ok()
        }
        LogFormat::Json => lines.json().flatten_event(true).with_timer(Clock).try_init().ok(),
    };
}
