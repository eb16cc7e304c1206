//! A log line without colours, as the library's own formatter writes it and at a third of its cost: a ticker writes
//! one for each fire.
//!
//! Invariant: byte for byte the library's line (`a_line_is_the_librarys`).

use std::fmt::{self, Debug, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use cronstream_schemas::time::Timestamp;
use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// The system's clock, to the microsecond.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        let text = Timestamp::from_millis(millis).to_string();
        write!(w, "{}{:03}Z", text.trim_end_matches('Z'), since.subsec_micros() % 1_000)
    }
}

/// The message and `name=value` for each field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain;

impl<'writer> FormatFields<'writer> for Plain {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut line = Line { writer, is_empty: true, result: Ok(()) };
        fields.record(&mut line);
        line.result
    }
}

struct Line<'writer> {
    writer: Writer<'writer>,
    is_empty: bool,
    result: fmt::Result,
}

impl Line<'_> {
    fn write(&mut self, name: &str, value: &dyn Debug) -> fmt::Result {
        if !std::mem::take(&mut self.is_empty) {
            self.writer.write_char(' ')?;
        }
        if name == "message" {
            return write!(Escaping(&mut self.writer), "{value:?}");
        }
        self.writer.write_str(name.strip_prefix("r#").unwrap_or(name))?;
        self.writer.write_char('=')?;
        write!(self.writer, "{value:?}")
    }
}

impl Visit for Line<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.record_debug(field, &format_args!("{value}"));
        } else {
            self.record_debug(field, &value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.result = self.result.and_then(|()| self.write(field.name(), value));
    }
}

/// Keeps what a message repeats of somebody else's text from steering the terminal that shows it.
struct Escaping<'a, 'writer>(&'a mut Writer<'writer>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return self.0.write_str(text);
        }
        for c in text.chars() {
            match c {
                '\x07' | '\x08' | '\x0c' | '\x1b' | '\x7f' => {
                    write!(self.0, "\\x{:02x}", c as u32)?
                }
                '\u{80}'..='\u{9f}' => write!(self.0, "\\u{{{:x}}}", c as u32)?,
                _ => self.0.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    /// What was written.
    #[derive(Debug, Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Sink {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    impl Sink {
        /// Its lines, without their instants.
        fn lines(&self) -> Vec<String> {
            let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
            text.lines().map(|line| line.get(27..).unwrap_or_default().to_owned()).collect()
        }
    }

    fn tell() {
        let (job, text) = ("billing/nightly", "a \"quoted\" \u{1b}[31m text");
        tracing::info!(%job, job_text = text, number = 7_u64, off = -1_i64, on = true, "fired");
        tracing::warn!(why = ?Some(text), r#type = "x", none = Option::<u64>::None, "{text}\u{9b}\n\té");
        tracing::error!(share = 0.5, job);
        tracing::debug!("nothing else");
        tracing::info_span!("within", job).in_scope(|| tracing::info!(slot = 1, "in a span"));
    }

    #[test]
    fn a_line_is_the_librarys() {
        let lines = || tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG);
        let (theirs, ours) = (Sink::default(), Sink::default());
        let usual =
            lines().with_writer(theirs.clone()).with_target(false).with_ansi(false).finish();
        tracing::subscriber::with_default(usual, tell);
        let plain = lines().with_writer(ours.clone()).with_target(false).with_ansi(false);
        let plain = plain.with_timer(Clock).fmt_fields(Plain).finish();
        tracing::subscriber::with_default(plain, tell);
        assert_eq!(ours.lines(), theirs.lines());
        assert!(ours.lines()[0].starts_with("  INFO fired job=billing/nightly job_text=\"a "));
    }

    #[test]
    fn an_instant_is_written_to_the_microsecond() {
        let mut text = String::new();
        let before = Timestamp::from_millis(since_1970());
        Clock.format_time(&mut Writer::new(&mut text)).unwrap();
        assert_eq!(text.len(), "2027-01-31T03:00:00.123456Z".len());
        let told: Timestamp = text.parse().unwrap();
        assert!(before <= told && told <= Timestamp::from_millis(since_1970()), "{text}");
    }

    fn since_1970() -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        i64::try_from(since.as_millis()).unwrap()
    }
}
