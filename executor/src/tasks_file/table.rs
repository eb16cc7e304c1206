//! Reading one TOML table key by key.
//!
//! Invariant: [`Reader::finish`] reports every key that nobody asked for.

use cronstream_schemas::fault::alike;
use toml::{Table, Value};

use super::Fault;

/// The most characters of a value in a fault.
const SHOWN_CHARS: usize = 64;

/// A table, the key it stands under, and the keys that were asked for.
pub(super) struct Reader<'a> {
    pub(super) key: String,
    table: &'a Table,
    known: Vec<&'static str>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(key: String, table: &'a Table) -> Self {
        Self { key, table, known: Vec::new() }
    }

    fn path(&self, name: &str) -> String {
        if self.key.is_empty() { name.to_owned() } else { format!("{}.{name}", self.key) }
    }

    /// The value under a key, read; a value that cannot be is a fault.
    fn read<T>(
        &mut self,
        name: &'static str,
        faults: &mut Vec<Fault>,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Option<T> {
        self.known.push(name);
        let value = self.table.get(name)?;
        let parsed = read(value);
        if parsed.is_none() {
            let expected = expected.to_owned();
            faults.push(Fault { key: self.path(name), value: shown(value), expected });
        }
        parsed
    }

    pub(super) fn table(
        &mut self,
        name: &'static str,
        faults: &mut Vec<Fault>,
    ) -> Option<&'a Table> {
        self.read(name, faults, "a table", Value::as_table)
    }

    pub(super) fn text(&mut self, name: &'static str, faults: &mut Vec<Fault>) -> Option<&'a str> {
        self.read(name, faults, "a text", Value::as_str)
    }

    /// A list of texts, of which there have to be at least so many.
    pub(super) fn texts(
        &mut self,
        name: &'static str,
        faults: &mut Vec<Fault>,
        least: usize,
    ) -> Option<Vec<&'a str>> {
        let expected = match least {
            0 => "a list of texts",
            _ => "a list of texts, the program first",
        };
        self.read(name, faults, expected, |value| {
            let texts: Option<Vec<&str>> = value.as_array()?.iter().map(Value::as_str).collect();
            let legal = |text: &&str| !text.contains('\0');
            texts.filter(|texts| texts.iter().all(legal) && texts.len() >= least)
        })
    }

    pub(super) fn parsed<T>(
        &mut self,
        name: &'static str,
        faults: &mut Vec<Fault>,
        expected: &str,
        parse: impl FnOnce(&'a str) -> Option<T>,
    ) -> Option<T> {
        self.read(name, faults, expected, |value| parse(value.as_str()?))
    }

    /// Reports a key that has to be there and is not.
    pub(super) fn required(&self, name: &str, faults: &mut Vec<Fault>, expected: &str) {
        if !self.table.contains_key(name) {
            let (key, expected) = (self.path(name), expected.to_owned());
            faults.push(Fault { key, value: String::new(), expected });
        }
    }

    /// Reports every key that nobody asked for.
    pub(super) fn finish(self, faults: &mut Vec<Fault>) {
        for (name, value) in self.table {
            if !self.known.contains(&name.as_str()) {
                let expected = match alike(name, &self.known) {
                    Some(meant) => format!("no such key; did you mean `{meant}`?"),
                    None => format!("no such key; known here are `{}`", self.known.join("`, `")),
                };
                faults.push(Fault { key: self.path(name), value: shown(value), expected });
            }
        }
    }
}

/// A value as it may be printed. Tables may hold secrets, so only their keys are shown, and of an address with a login
/// what stands behind it.
pub(super) fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) if text.contains('@') => {
            let behind = text.rsplit('@').next().unwrap_or_default();
            Value::from(format!("…@{behind}")).to_string()
        }
        Value::Table(table) => {
            let keys: Vec<_> = table.keys().map(String::as_str).collect();
            format!("{{ {} }}", keys.join(", "))
        }
        Value::String(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::Datetime(_)
        | Value::Array(_) => value.to_string(),
    };
    text.chars().take(SHOWN_CHARS).collect()
}
