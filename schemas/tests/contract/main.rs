//! The contract on the wire, checked from outside: generated JSON Schema, golden files, reference pages.
//!
//! Invariant: `golden/` is only ever added to. A file that fails here means that something shipped was changed.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod generated;
mod golden;
mod pages;

use std::path::PathBuf;

use cronstream_schemas::calendar::CalendarDefinition;
use cronstream_schemas::command::{Backfill, Cancel, Shift, Skip, Trigger};
use cronstream_schemas::definition::JobDefinition;
use cronstream_schemas::event::{DeadLetter, LogEvent, RunEvent};
use cronstream_schemas::status::NodeStatus;
use cronstream_schemas::verdict::Verdict;
use serde_json::{Value, json};

fn path(relative: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// Every schema by the name of its file.
fn schemas() -> [(&'static str, Value); 12] {
    let of = |schema: schemars::Schema| schema.to_value();
    [
        ("job-definition", strict(of(schemars::schema_for!(JobDefinition)))),
        ("trigger", strict(of(schemars::schema_for!(Trigger)))),
        ("cancel", strict(of(schemars::schema_for!(Cancel)))),
        ("skip", strict(of(schemars::schema_for!(Skip)))),
        ("shift", strict(of(schemars::schema_for!(Shift)))),
        ("backfill", strict(of(schemars::schema_for!(Backfill)))),
        ("calendar", strict(of(schemars::schema_for!(CalendarDefinition)))),
        ("log-event", of(schemars::schema_for!(LogEvent))),
        ("run-event", of(schemars::schema_for!(RunEvent))),
        ("dead-letter", of(schemars::schema_for!(DeadLetter))),
        ("verdict", of(schemars::schema_for!(Verdict))),
        ("node-status", of(schemars::schema_for!(NodeStatus))),
    ]
}

fn schema(name: &str) -> Value {
    schemas().into_iter().find(|(other, _)| *other == name).unwrap().1
}

/// What a client sends is read strictly: a field that is not known is refused, an optional one is absent rather
/// than null, and `v` may name the version.
fn strict(mut schema: Value) -> Value {
    schema["additionalProperties"] = json!(false);
    for (_, property) in schema["properties"].as_object_mut().unwrap() {
        let kinds = property.get_mut("type").and_then(Value::as_array_mut);
        if let Some([kind, Value::String(null)]) = kinds.map(|kinds| kinds.as_slice()) {
            assert_eq!(null, "null");
            property["type"] = kind.clone();
        }
    }
    schema["properties"]["v"] = json!({
        "description": "The version of the format; 1, or left out.",
        "const": 1,
    });
    schema
}
