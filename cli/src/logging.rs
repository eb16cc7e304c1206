//! Log lines on standard error.
//!
//! Invariant: libraries log errors alone, so that no address with a password comes out of one of them.

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::time::Duration;

use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use crate::args::{LogFormat, Verb};
use crate::line::{Clock, Plain};

fn serves(verb: &Verb) -> bool {
    matches!(verb, Verb::Ticker(_) | Verb::Executor(_) | Verb::Relay(_) | Verb::Bench(_))
}

/// Long-running verbs say what they do; the others speak by their output and their error, which says what the
/// bus met.
fn directives(verb: &Verb, verbose: bool) -> &'static str {
    match (verbose, serves(verb)) {
        (true, _) => {
            "error,cronstream=debug,cronstream_bus=debug,cronstream_scheduler=debug,cronstream_executor=debug,\
             cronstream_telemetry=debug"
        }
        (false, true) => {
            "error,cronstream=info,cronstream_bus=info,cronstream_scheduler=info,cronstream_executor=info,\
             cronstream_telemetry=info"
        }
        (false, false) => "off,cronstream=warn,cronstream_bus=off",
    }
}

/// How long lines of a long-running verb gather, to leave in one write: the first of them waits for nothing, those
/// that come while it is written, and so long after it, leave together.
const GATHER: Duration = Duration::from_millis(2);
/// Bytes of a write.
const WRITE_BYTES: usize = 64 * 1024;
/// Lines that wait to be written. Where they come faster than they are read, whoever logs waits.
const LINES_MAX: usize = 10_000;

/// What takes lines and leaves them to gather. Those that the writer does not take are lost: an error would keep the
/// thread from hearing that it is to end, and the process from ending for a second.
struct Gathering<W: Write>(BufWriter<W>);

impl<W: Write> Write for Gathering<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.0.write(bytes).unwrap_or(bytes.len()))
    }

    /// Called when no line waits.
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().ok();
        std::thread::sleep(GATHER);
        Ok(())
    }
}

/// A writer with a thread of its own; what is given with it writes what is left when it is dropped, for a second at
/// most.
fn gathering(writer: impl Write + Send + 'static) -> (NonBlocking, WorkerGuard) {
    let builder = NonBlockingBuilder::default().lossy(false).buffered_lines_limit(LINES_MAX);
    builder.finish(Gathering(BufWriter::with_capacity(WRITE_BYTES, writer)))
}

/// Installs the subscriber of this process; lines are written for as long as what it gives is held.
pub(crate) fn start(verb: &Verb, format: LogFormat, verbose: bool) -> Option<WorkerGuard> {
    let filter = EnvFilter::new(directives(verb, verbose));
    // The nodes that `bench` runs log as those of a cluster do, and its terminal shows figures.
    if let (Verb::Bench(_), false, Ok(file)) = (verb, verbose, tempfile::tempfile()) {
        let (writer, guard) = gathering(file);
        install(filter, BoxMakeWriter::new(writer), (LogFormat::Human, false));
        return Some(guard);
    }
    let is_terminal = io::stderr().is_terminal();
    if !serves(verb) || is_terminal {
        install(filter, BoxMakeWriter::new(io::stderr), (format, is_terminal));
        return None;
    }
    let (writer, guard) = gathering(io::stderr());
    install(filter, BoxMakeWriter::new(writer), (format, false));
    Some(guard)
}

fn install(filter: EnvFilter, writer: BoxMakeWriter, (format, is_terminal): (LogFormat, bool)) {
    // A line that standard error does not take is lost. Telling so there panics in whoever logs: the reader of
    // a pipe that is gone would end tasks of a node, the one that waits for SIGTERM among them.
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .log_internal_errors(false);
    // Fails only when a subscriber is there already, and this is the one place that makes one.
    match format {
        LogFormat::Human if is_terminal => lines.with_target(false).with_ansi(true).try_init().ok(),
        LogFormat::Human => {
            let plain = lines.with_target(false).with_ansi(false);
            plain.with_timer(Clock).fmt_fields(Plain).try_init().ok()
        }
        LogFormat::Json => lines.json().flatten_event(true).with_timer(Clock).try_init().ok(),
    };
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    use super::*;

    /// Each write that came.
    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<Vec<u8>>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A pipe whose reader is gone.
    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_is_gone_delays_no_end() {
        let (mut writer, guard) = gathering(Gone);
        (0..LINES_MAX).for_each(|_| writer.write_all(b"a line\n").unwrap());
        let began = Instant::now();
        drop(guard);
        assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
    }

    #[test]
    fn every_line_is_written_in_its_order_and_many_leave_in_one_write() {
        let sink = Sink::default();
        let (mut writer, guard) = gathering(sink.clone());
        let line = |number: usize| format!("{number}\n");
        let lines = 3 * LINES_MAX;
        (0..lines).for_each(|number| writer.write_all(line(number).as_bytes()).unwrap());
        drop(guard);
        let writes = sink.0.lock().unwrap();
        let expected: Vec<u8> = (0..lines).flat_map(|number| line(number).into_bytes()).collect();
        assert!(writes.concat() == expected, "{} bytes", writes.concat().len());
        assert!(writes.len() < lines / 10, "{} writes", writes.len());
    }
}
