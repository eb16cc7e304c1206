//! `json/` holds the schemas that the types generate.

use std::fs;

use cronstream_schemas::event::{LogEvent, RunEvent};
use serde_json::Value;

use crate::{path, schema, schemas};

#[test]
fn the_committed_schemas_are_those_of_the_types() {
    let update = std::env::var_os("UPDATE").is_some();
    let mut stale = Vec::new();
    for (name, schema) in schemas() {
        let file = path(&format!("json/{name}.json"));
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if update {
            fs::write(&file, text).unwrap();
        } else if fs::read_to_string(&file).unwrap_or_default() != text {
            stale.push(file);
        }
    }
    for entry in fs::read_dir(path("json")).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(schemas().iter().any(|(known, _)| *known == name), "{file:?} is no type's schema");
    }
    assert!(
        stale.is_empty(),
        "{stale:?} differ from the types; `UPDATE=1 cargo test -p cronstream-schemas` rewrites them"
    );
}

#[test]
fn the_lists_of_kinds_are_the_variants() {
    for (name, kinds) in [("log-event", &LogEvent::KINDS[..]), ("run-event", &RunEvent::KINDS[..])]
    {
        let schema = schema(name);
        let variants: Vec<_> =
            schema["oneOf"].as_array().unwrap().iter().map(|v| v["required"][0].clone()).collect();
        assert_eq!(variants, kinds.iter().map(|kind| Value::from(*kind)).collect::<Vec<_>>());
    }
}
