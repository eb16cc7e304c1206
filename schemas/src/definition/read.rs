//! Reading JSON field by field, so that every fault of a document is found and named by its path.
//!
//! Invariant: reading never fails; what is wrong is in the faults.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::duration::{Span, SpanError};
use crate::fault::{Fault, Faults, alike};
use crate::json::Fields;
use crate::name::{JobId, Name, NameError};

/// Whether the object has a field of this name.
pub(super) fn body_names(body: &[u8], name: &str) -> bool {
    serde_json::from_slice::<Fields<'_>>(body)
        .is_ok_and(|fields| fields.0.iter().any(|(field, _)| field == name))
}

/// Reads an object, checks `v`, and returns the fields that are in `known`; the others, and those that stand
/// twice, are faults.
pub(crate) fn read_fields<'a>(
    body: &'a [u8],
    path: &str,
    known: &'static [&'static str],
    faults: &mut Faults,
) -> Vec<(&'static str, &'a RawValue)> {
    let fields = match serde_json::from_slice::<Fields<'a>>(body) {
        Ok(fields) => fields.0,
        Err(error) => {
            let found = String::from_utf8_lossy(&body[..body.len().min(512)]);
            faults.push(Fault::new(path, &found, error.to_string(), "a JSON object"));
            return Vec::new();
        }
    };
    let mut seen = Vec::with_capacity(fields.len().min(known.len()));
    for (name, raw) in fields {
        let at = format!("{path}.{name}");
        let Some(name) = known.iter().copied().find(|field| *field == name) else {
            faults.push(Fault::new(at, raw.get(), "unknown field", expected_field(&name, known)));
            continue;
        };
        if seen.iter().any(|(other, _)| *other == name) {
            faults.push(Fault::new(at, raw.get(), "stands twice", "each field once"));
        } else if name == "v" && raw.get() != "1" {
            faults.push(Fault::new(at, raw.get(), "unknown version", "1, or no field `v`"));
        } else {
            seen.push((name, raw));
        }
    }
    seen
}

fn expected_field(name: &str, known: &[&str]) -> String {
    match alike(name, known) {
        Some(field) => format!("did you mean `{field}`?"),
        None => format!("one of {}", known.join(", ")),
    }
}

/// Reads a value by its own `Deserialize`.
pub(crate) fn read<'a, T: Deserialize<'a>>(
    raw: &'a RawValue,
    path: &str,
    expected: &str,
    faults: &mut Faults,
) -> Option<T> {
    serde_json::from_str(raw.get())
        .inspect_err(|_| {
            faults.push(Fault::new(path, raw.get(), "not of the right form", expected))
        })
        .ok()
}

pub(crate) fn read_name(raw: &RawValue, path: &str, faults: &mut Faults) -> Option<Name> {
    let text: String = read(raw, path, NameError::HINT, faults)?;
    Name::parse(&text)
        .inspect_err(|e| faults.push(Fault::new(path, raw.get(), e.to_string(), NameError::HINT)))
        .ok()
}

/// Reads an address `<namespace>/<name>`.
pub(crate) fn read_address(raw: &RawValue, path: &str, faults: &mut Faults) -> Option<JobId> {
    const EXPECTED: &str = "a text such as \"billing/holidays\"";
    let text: String = read(raw, path, EXPECTED, faults)?;
    text.parse()
        .inspect_err(|e: &crate::name::JobIdError| {
            faults.push(Fault::new(path, raw.get(), e.to_string(), EXPECTED));
        })
        .ok()
}

/// Reads a duration within a range.
pub(crate) fn read_span(
    raw: &RawValue,
    path: &str,
    range: std::ops::RangeInclusive<Span>,
    faults: &mut Faults,
) -> Option<Span> {
    if raw.get().starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        let expected =
            format!("a text with a unit, such as \"{}s\"", raw.get().trim_start_matches('-'));
        faults.push(Fault::new(path, raw.get(), "a number has no unit", expected));
        return None;
    }
    let text: String = read(raw, path, SpanError::HINT, faults)?;
    match text.parse::<Span>() {
        Ok(span) if range.contains(&span) => Some(span),
        Ok(_) => {
            let expected = format!("{} to {}", range.start(), range.end());
            faults.push(Fault::new(path, raw.get(), "out of range", expected));
            None
        }
        Err(error) => {
            faults.push(Fault::new(path, raw.get(), error.to_string(), SpanError::HINT));
            None
        }
    }
}
