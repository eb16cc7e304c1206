//! The reference pages name every field and every kind.

use std::collections::BTreeSet;
use std::fs;

use cronstream_schemas::command::Verb;
use cronstream_schemas::header;
use serde_json::Value;

use crate::{path, schema};

/// Names of fields and variants that a schema mentions.
fn names(schema: &Value, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Object(properties)) = fields.get("properties") {
                into.extend(properties.keys().cloned());
            }
            for key in ["enum", "const"] {
                match fields.get(key) {
                    Some(Value::Array(values)) => {
                        into.extend(values.iter().filter_map(Value::as_str).map(str::to_owned));
                    }
                    Some(Value::String(value)) => {
                        into.insert(value.clone());
                    }
                    _ => {}
                }
            }
            fields.values().for_each(|value| names(value, into));
        }
        Value::Array(values) => values.iter().for_each(|value| names(value, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[track_caller]
fn check_page(page: &str, schemas: &[&str], further: &[&str]) {
    let text = fs::read_to_string(path(&format!("../docs/reference/{page}"))).unwrap();
    let mut expected: BTreeSet<String> = further.iter().map(|name| (*name).to_owned()).collect();
    schemas.iter().for_each(|name| names(&schema(name), &mut expected));
    let missing: Vec<_> =
        expected.into_iter().filter(|name| !text.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/reference/{page} does not name {missing:?}");
}

#[test]
fn the_page_on_events_names_every_field_and_kind() {
    check_page(
        "events.md",
        &["log-event", "run-event", "dead-letter", "verdict"],
        &[header::TICK, header::REPLY, header::MSG_ID, header::TRACEPARENT],
    );
}

#[test]
fn the_page_on_definitions_names_every_field_and_verb() {
    let mut further = Verb::ALL.map(Verb::as_str).to_vec();
    further.extend([header::EXPECTED_REVISION, header::REPLY]);
    check_page(
        "definition.md",
        &["job-definition", "trigger", "cancel", "skip", "shift", "backfill"],
        &further,
    );
}
