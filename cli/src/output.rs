//! Where answers go: data to standard output, as text for people or JSON for programs; talk to standard error.
//!
//! Invariant: text that came over the wire reaches a terminal without control characters.

use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use cronstream_schemas::time::Timestamp;
use serde::Serialize;

/// The two outputs of a verb.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    /// Output as JSON, or as text.
    pub(crate) const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Writes one object as one line of JSON.
    pub(crate) fn json<T: Serialize + ?Sized>(self, value: &T) -> io::Result<()> {
        let mut line = json(value)?;
        line.push('\n');
        let mut out = io::stdout().lock();
        out.write_all(line.as_bytes())?;
        out.flush()
    }

    /// Writes lines of text.
    pub(crate) fn text(self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()
    }

    /// Writes an object as JSON, or the text for people.
    pub(crate) fn object<T: Serialize>(
        self,
        value: &T,
        text: impl FnOnce() -> String,
    ) -> io::Result<()> {
        if self.json { self.json(value) } else { self.text(&text()) }
    }

    /// Writes each row as a line of JSON, or all of them as a table.
    pub(crate) fn rows<T: Serialize, const N: usize>(
        self,
        header: [&str; N],
        rows: &[T],
        cells: impl Fn(&T) -> [String; N],
    ) -> io::Result<()> {
        if !self.json {
            return self.text(&table(header, rows.iter().map(cells)));
        }
        let mut out = io::BufWriter::new(io::stdout().lock());
        for row in rows {
            writeln!(out, "{}", json(row)?)?;
        }
        out.flush()
    }

    /// Says something to the person at the terminal; a standard error that is gone stops nothing.
    pub(crate) fn talk(self, text: &str) {
        writeln!(io::stderr().lock(), "{text}").ok();
    }
}

/// Rows under a header, in columns as wide as their widest cell; the last column is not padded.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut lines: Vec<[String; N]> = vec![header.map(str::to_owned)];
    lines.extend(rows.map(|row| row.map(|cell| printable(&cell))));
    let width = |column: usize| lines.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Names and values under each other.
pub(crate) fn fields(fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| {
        format!("{name:<width$}  {}", printable(value)).trim_end().to_owned()
    };
    fields.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The text with control characters escaped, so that it cannot steer a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if c.is_control() {
            out.extend(c.escape_default())
        } else {
            out.push(c)
        }
        out
    })
}

fn json<T: Serialize + ?Sized>(value: &T) -> io::Result<String> {
    serde_json::to_string(value).map(|text| printable_json(&text)).map_err(io::Error::other)
}

/// The same JSON without the control characters that its texts may hold as they are, such as U+009B.
pub(crate) fn printable_json(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if ('\u{7f}'..='\u{9f}').contains(&c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
        out
    })
}

/// A number of things: `1 slot`, `2 slots`.
pub(crate) fn count(number: u64, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        many => format!("{many} {thing}s"),
    }
}

/// How long ago, or in how long, `at` is.
pub(crate) fn distance(at: Timestamp, now: Timestamp) -> String {
    if at <= now {
        format!("{} ago", short(now.since(at)))
    } else {
        format!("in {}", short(at.since(now)))
    }
}

/// A duration in its two largest units.
pub(crate) fn short(duration: Duration) -> String {
    let secs = duration.as_secs();
    match secs {
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{secs}.{}s", duration.subsec_millis() / 100),
        60..3_600 => format!("{}m{}s", secs / 60, secs % 60),
        3_600..86_400 => format!("{}h{}m", secs / 3_600, secs % 3_600 / 60),
        86_400.. => format!("{}d{}h", secs / 86_400, secs % 86_400 / 3_600),
    }
}

/// Asks whether to do it. `yes` answers for the person; without a terminal nobody is asked.
///
/// # Errors
/// When nobody can be asked, or the answer is no.
pub(crate) fn confirm(what: &str, yes: bool) -> Result<(), crate::error::Error> {
    use crate::error::Error;
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Error::NotAsked(what.to_owned()));
    }
    let mut err = io::stderr().lock();
    write!(err, "{what}? [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Error::Declined),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a/b", "x"], ["long/name", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(
            table(["JOB", "TITLE"], rows.into_iter()),
            "JOB        TITLE\na/b        x\nlong/name"
        );
    }

    #[test]
    fn a_title_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\n\u{9b}ä"), "a\\u{1b}[31mb\\n\\u{9b}ä");
    }

    #[test]
    fn json_cannot_steer_the_terminal_and_stays_the_same_json() {
        let text = "{\"a\":\"\u{9b}31m\u{7f}\u{a0}\u{e4}\"}";
        let shown = printable_json(text);
        assert_eq!(shown, "{\"a\":\"\\u009b31m\\u007f\u{a0}\u{e4}\"}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&shown), value(text));
    }

    #[test]
    fn durations_have_two_units_at_most() {
        for (millis, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_250, "1.2s"),
            (61_000, "1m1s"),
            (3_660_000, "1h1m"),
            (90_000_000, "1d1h"),
        ] {
            assert_eq!(short(Duration::from_millis(millis)), text);
        }
    }
}
