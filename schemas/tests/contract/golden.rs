//! `golden/` holds one example of every message that was ever shipped; each decodes for ever.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;

use cronstream_schemas::command::{Cancel, Command, Trigger, Verb};
use cronstream_schemas::definition::Draft;
use cronstream_schemas::event::{DeadLetter, Decoded, Event, LogEvent, RunEvent};
use cronstream_schemas::status::NodeStatus;
use cronstream_schemas::verdict::Verdict;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{path, schema};

/// Golden texts of a folder by name, the final line break cut off. What stands behind a `-` tells several examples
/// of one kind apart.
fn golden(kind: &str) -> BTreeMap<String, String> {
    let files = fs::read_dir(path(&format!("golden/v1/{kind}"))).unwrap();
    files
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, text.strip_suffix('\n').unwrap().to_owned())
        })
        .collect()
}

fn kind_of(name: &str) -> &str {
    name.split('-').next().unwrap()
}

#[track_caller]
fn check_kinds(folder: &str, expected: &[&str]) {
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    let mut found: Vec<_> = golden(folder).into_keys().map(|n| kind_of(&n).to_owned()).collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, expected, "golden/v1/{folder}");
}

#[track_caller]
fn check_valid(name: &str, text: &str) {
    let validator = jsonschema::validator_for(&schema(name)).unwrap();
    let value: Value = serde_json::from_str(text).unwrap();
    let errors: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{text}: {errors:?}");
}

/// The same bytes come out as went in.
#[track_caller]
fn check_round_trip<T: Serialize + DeserializeOwned>(text: &str) {
    let value: T = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&value).unwrap(), text);
}

fn known<E: Event>(text: &str) -> E {
    match E::decode(text.as_bytes()).unwrap() {
        Decoded::Known(event) => event,
        Decoded::Unknown { kind } => panic!("{kind} is not known"),
    }
}

fn check_events<E: Event + PartialEq + Debug>(folder: &str, schema: &str) {
    check_kinds(folder, E::KNOWN);
    for (name, text) in golden(folder) {
        let kind = kind_of(&name);
        let event: E = known(&text);
        assert_eq!(String::from_utf8(event.encode()).unwrap(), text);
        check_valid(schema, &text);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value.as_object().unwrap().keys().collect::<Vec<_>>(), [kind]);
        let plain: E = known(&value.to_string());
        let mut later = value;
        add_fields(&mut later[kind]);
        assert_eq!(known::<E>(&later.to_string()), plain, "a field that was added later");
        check_valid(schema, &later.to_string());
    }
}

/// Adds a field to every record; not to what is opaque, and not where the only field names a variant.
fn add_fields(value: &mut Value) {
    const OPAQUE: [&str; 3] = ["params", "labels", "result"];
    const VARIANTS: [&str; 5] = ["cause", "schedule", "what", "outcome", "role"];
    let Value::Object(fields) = value else { return };
    for (name, field) in fields.iter_mut() {
        if VARIANTS.contains(&name.as_str()) {
            field.as_object_mut().unwrap().values_mut().for_each(add_fields);
        } else if !OPAQUE.contains(&name.as_str()) {
            add_fields(field);
        }
    }
    fields.insert("added_later".into(), json!({ "by": ["a later version"] }));
}

#[test]
fn every_event_of_the_log_decodes_for_ever() {
    check_events::<LogEvent>("log", "log-event");
}

#[test]
fn every_run_event_decodes_for_ever() {
    check_events::<RunEvent>("run", "run-event");
}

#[test]
fn every_dead_letter_decodes_for_ever() {
    check_kinds("dead", &["dead_letter"]);
    for text in golden("dead").values() {
        check_round_trip::<DeadLetter>(text);
        check_valid("dead-letter", text);
    }
}

#[test]
fn every_verdict_decodes_for_ever() {
    let kinds = [
        "accepted",
        "backfilling",
        "calendar_accepted",
        "cancelled",
        "fired",
        "overridden",
        "rejected",
        "skipped",
    ];
    check_kinds("verdict", &kinds);
    for text in golden("verdict").values() {
        check_round_trip::<Verdict>(text);
        check_valid("verdict", text);
    }
}

#[test]
fn every_status_decodes_for_ever() {
    check_kinds("status", &["ticker", "executor", "relay"]);
    for text in golden("status").values() {
        check_round_trip::<NodeStatus>(text);
        check_valid("node-status", text);
    }
}

#[test]
fn every_command_decodes_for_ever() {
    let verbs = Verb::ALL.map(|verb| verb.as_str().replace('-', "_"));
    check_kinds("command", &verbs.each_ref().map(String::as_str));
    for (name, text) in golden("command") {
        let verb: Verb = kind_of(&name).replace('_', "-").parse().unwrap();
        match Command::decode(verb, text.as_bytes()).unwrap() {
            Command::Define(draft) => {
                let definition = draft.finish().unwrap();
                check_valid("job-definition", &text);
                let again = serde_json::to_string(&definition).unwrap();
                if name != "define-smallest" {
                    assert_eq!(again, text);
                }
                assert_eq!(Draft::decode(again.as_bytes()).finish().unwrap(), definition);
            }
            Command::Trigger(trigger) => {
                assert_eq!(serde_json::to_string(&trigger).unwrap(), text);
                check_round_trip::<Trigger>(&text);
                check_valid("trigger", &text);
            }
            Command::Cancel(cancel) => {
                assert_eq!(serde_json::to_string(&cancel).unwrap(), text);
                check_round_trip::<Cancel>(&text);
                check_valid("cancel", &text);
            }
            Command::Skip(skip) => {
                assert_eq!(serde_json::to_string(&skip).unwrap(), text);
                check_valid("skip", &text);
            }
            Command::Shift(shift) => {
                assert_eq!(serde_json::to_string(&shift).unwrap(), text);
                check_valid("shift", &text);
            }
            Command::Backfill(backfill) => {
                assert_eq!(serde_json::to_string(&backfill).unwrap(), text);
                check_valid("backfill", &text);
            }
            Command::Calendar(calendar) => {
                assert_eq!(serde_json::to_string(&calendar).unwrap(), text);
                check_valid("calendar", &text);
            }
            Command::Delete | Command::Pause | Command::Resume | Command::CalendarDelete => {
                assert_eq!(text, r#"{"v":1}"#)
            }
        }
    }
}

#[test]
fn an_unknown_kind_is_told_from_a_broken_event() {
    for text in [r#"{"job_archived":{"job":"a/b"}}"#, r#"{"job_archived":null}"#] {
        let expected = Decoded::Unknown { kind: "job_archived".into() };
        assert_eq!(LogEvent::decode(text.as_bytes()).unwrap(), expected);
        assert!(matches!(RunEvent::decode(text.as_bytes()), Ok(Decoded::Unknown { .. })));
    }
    for text in ["", "{}", "[]", "null", r#""fired""#, r#"{"fired":{}}"#, r#"{"a":1,"b":2}"#] {
        assert!(LogEvent::decode(text.as_bytes()).is_err(), "{text}");
    }
    let long = format!(r#"{{"{}":1}}"#, "ä".repeat(100));
    let Decoded::Unknown { kind } = LogEvent::decode(long.as_bytes()).unwrap() else {
        panic!("known")
    };
    assert_eq!(kind.chars().count(), 64);
}

#[test]
fn a_field_that_is_not_known_is_refused_in_what_clients_send() {
    let texts = golden("command");
    for (name, text) in &texts {
        let verb: Verb = kind_of(name).replace('_', "-").parse().unwrap();
        let text = text.replacen('{', r#"{"added_later":1,"#, 1).replace(",}", "}");
        let faults = match Command::decode(verb, text.as_bytes()) {
            Ok(Command::Define(draft)) => draft.finish().unwrap_err(),
            Ok(command) => panic!("{command:?}"),
            Err(faults) => faults,
        };
        assert_eq!(faults[0].path, "$.added_later", "{text}");
        let schema = match verb {
            Verb::Define => "job-definition",
            Verb::Trigger => "trigger",
            Verb::Cancel => "cancel",
            Verb::Skip => "skip",
            Verb::Shift => "shift",
            Verb::Backfill => "backfill",
            Verb::Calendar => "calendar",
            Verb::Delete | Verb::Pause | Verb::Resume | Verb::CalendarDelete => continue,
        };
        let value: Value = serde_json::from_str(&text).unwrap();
        assert!(!jsonschema::is_valid(&crate::schema(schema), &value), "{text}");
    }
    let nested = texts["define-cron"].replacen(r#"{"cron""#, r#"{"added_later":1,"cron""#, 1);
    let faults = Draft::decode(nested.as_bytes()).finish().unwrap_err();
    assert_eq!(faults[0].path, "$.schedule.added_later");
}

#[test]
fn an_optional_field_is_absent_and_never_null() {
    let validator = jsonschema::validator_for(&schema("job-definition")).unwrap();
    for field in ["title", "labels", "queue", "timeout", "schedule"] {
        let mut value = json!({ "task": "t", "schedule": { "every": "5s" } });
        value[field] = Value::Null;
        assert!(Draft::decode(value.to_string().as_bytes()).finish().is_err(), "{value}");
        assert!(!validator.is_valid(&value), "{value}");
    }
}

#[test]
fn a_null_result_is_a_result() {
    let text = golden("run")["succeeded"].clone();
    let (head, rest) = text.split_once(r#""result":"#).unwrap();
    let tail = &rest[rest.find(r#","output""#).unwrap()..];
    let text = format!(r#"{head}"result":null{tail}"#);
    assert_eq!(String::from_utf8(known::<RunEvent>(&text).encode()).unwrap(), text);
    check_round_trip::<Trigger>(r#"{"params":null}"#);
}
