//! Kubernetes CronJobs (`batch/v1`): manifests, several in a file, and lists as `kubectl get -o yaml` prints them.
//!
//! Invariant: a job's slots are those that the CronJob controller computes; each field that means nothing here is named in
//! a remark.

use std::collections::BTreeMap;

use cronstream_schemas::duration::Span;
use serde_json::{Map, Value, json};

use super::found::{Entry, Imported, Remarks, Settings, Task};
use super::{Outcome, schedule};
use crate::yaml;

/// The most bytes of one YAML document, as JSON: a list of all CronJobs of a cluster is one.
const DOCUMENT_MAX_BYTES: usize = 32 * 1024 * 1024;
/// What Kubernetes takes for `backoffLimit`.
const BACKOFF_LIMIT: u64 = 6;
/// The most attempts of a run here.
const ATTEMPTS_MAX: u64 = 100;
/// The longest that one attempt may take where nothing limits it.
const TIMEOUT: &str = "24h";
/// The oldest slot that may still be made up for, in seconds: 30 days.
const WINDOW_MAX: u64 = 30 * 86_400;
/// A slot up to this old is late here and not missed, in seconds.
const THRESHOLD: u64 = 60;

/// Reads manifests.
///
/// # Errors
/// Where they are no YAML or JSON, or more than an import takes.
pub(super) fn read(text: &str, settings: &Settings) -> Outcome {
    let mut imported = Imported::default();
    if text.trim_start().starts_with(['{', '[']) {
        let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        for value in values {
            let value = value.map_err(|error| format!("{}: {error}", error.line()))?;
            document(&value, 1, (&mut imported, settings))?;
        }
        return Ok(imported);
    }
    let documents = yaml::read_within(text, DOCUMENT_MAX_BYTES)
        .map_err(|error| format!("{}: {}", error.line, error.problem))?;
    for mapping in documents {
        let mut fields = Map::new();
        for field in mapping.fields {
            let value = serde_json::from_str(&field.json)
                .map_err(|error| format!("{}: {}: {error}", mapping.line, field.name))?;
            fields.insert(field.name, value);
        }
        for fault in &mapping.faults {
            let line = mapping.lines.get(&fault.path).copied().unwrap_or(mapping.line);
            let remark = format!("line {line}: {} {}: {}", fault.path, fault.value, fault.problem);
            imported.remarks.add(remark);
        }
        document(&Value::Object(fields), mapping.line, (&mut imported, settings))?;
    }
    Ok(imported)
}

fn document(
    document: &Value,
    line: usize,
    (imported, settings): (&mut Imported, &Settings),
) -> Result<(), String> {
    let items = match document {
        Value::Array(items) => Some(items),
        other => other.get("items").and_then(Value::as_array),
    };
    let Some(items) = items else { return one(document, line, (imported, settings)) };
    // The items of a typed list leave out what the list says for all of them.
    let typed = text(document, "/kind").and_then(|kind| kind.strip_suffix("List"));
    let typed = typed.filter(|kind| !kind.is_empty());
    items.iter().try_for_each(|item| match (typed, item) {
        (Some(kind), Value::Object(fields)) if !fields.contains_key("kind") => {
            let mut fields = fields.clone();
            fields.insert("kind".to_owned(), kind.into());
            if let (None, Some(version)) = (fields.get("apiVersion"), text(document, "/apiVersion"))
            {
                fields.insert("apiVersion".to_owned(), version.into());
            }
            one(&Value::Object(fields), line, (imported, settings))
        }
        (_, item) => one(item, line, (imported, settings)),
    })
}

fn one(
    item: &Value,
    line: usize,
    (imported, settings): (&mut Imported, &Settings),
) -> Result<(), String> {
    let kind = text(item, "/kind").unwrap_or("?");
    let name = text(item, "/metadata/name").or_else(|| text(item, "/metadata/generateName"));
    let named = format!("{kind} {}", name.unwrap_or("?"));
    if kind != "CronJob" {
        return imported.leave_out(line, &named, "not a CronJob");
    }
    let version = text(item, "/apiVersion").unwrap_or("?");
    if !matches!(version, "batch/v1" | "batch/v1beta1") {
        return imported.leave_out(line, &named, format!("apiVersion {version} is not batch/v1"));
    }
    let (Some(name), Some(cron)) = (name, text(item, "/spec/schedule")) else {
        return imported.leave_out(line, &named, "metadata.name or spec.schedule is missing");
    };
    let namespace = text(item, "/metadata/namespace").map(str::to_owned);
    let mut entry = Entry {
        line,
        label: name.to_owned(),
        called: Some(name.to_owned()),
        source: Some(format!("CronJob {name}: {cron}")),
        identity: format!("{}/{name}", namespace.as_deref().unwrap_or_default()),
        namespace,
        ..Entry::default()
    };
    timing(item, cron, &mut entry, settings);
    running(item, &mut entry);
    containers(item, &mut entry);
    labels(item, &mut entry);
    imported.add(entry)
}

fn timing(item: &Value, cron: &str, entry: &mut Entry, settings: &Settings) {
    let cron = match schedule::with_days_as_ranges(cron) {
        Some(ranges) => {
            entry.remarks.add(format!(
                "spec.schedule {cron}: a day has to match one of the day fields there; here a leading star would make that both"
            ));
            ranges
        }
        None => cron.to_owned(),
    };
    entry.set("schedule", json!({ "cron": cron }));
    let zone = text(item, "/spec/timeZone").map(str::to_owned);
    if zone.is_none() && settings.time_zone.is_none() && schedule::zone_before(&cron).is_none() {
        entry.remarks.add(
            "spec.timeZone is missing: the clock of the controller counts there, UTC in most clusters and here",
        );
    }
    // A zone before the expression is lifted out of it when the definition is read.
    let own = schedule::zone_before(&cron).is_some();
    let zone = zone.or_else(|| settings.time_zone.clone().filter(|_| !own));
    if own || zone.is_some() {
        // Kubernetes reads the clock of the wall: what a change leaves out is not due, what it shows twice is due twice.
        entry.set("gap", "skip");
        entry.set("fold", "both");
    }
    if let Some(zone) = zone {
        entry.set("time_zone", zone);
    }
    if let Some(range) = schedule::wrapping_range(&cron) {
        entry.remarks.add(format!("{range} wraps around here; Kubernetes refuses it"));
    }
    let window = match number(item, "/spec/startingDeadlineSeconds") {
        None => {
            entry.remarks.add(
                "spec.startingDeadlineSeconds is missing: the latest missed slot is made up for however old; here up to 30 days",
            );
            WINDOW_MAX
        }
        Some(seconds) => seconds.clamp(1, WINDOW_MAX),
    };
    let window_text = Span::from_secs(window).to_string();
    let mut misfire = json!({ "policy": "fire_once", "window": window_text });
    if window < THRESHOLD {
        misfire["threshold"] = window_text.into();
    }
    entry.set("misfire", misfire);
    if item.pointer("/spec/suspend") == Some(&Value::Bool(true)) {
        entry
            .remarks
            .add("spec.suspend is true: pause it right after apply, with `cronstream pause`");
    }
}

fn running(item: &Value, entry: &mut Entry) {
    let policy = text(item, "/spec/concurrencyPolicy").unwrap_or("Allow");
    entry.set("overlap", if policy == "Allow" { "allow" } else { "skip" });
    if policy == "Replace" {
        entry.remarks.add(
            "spec.concurrencyPolicy Replace: nothing here ends a run for the next one; slots are skipped while a run is live",
        );
    }
    let job = "/spec/jobTemplate/spec";
    let limit = number(item, &format!("{job}/backoffLimit")).unwrap_or(BACKOFF_LIMIT);
    entry.set("max_attempts", limit.saturating_add(1).min(ATTEMPTS_MAX));
    if limit >= ATTEMPTS_MAX {
        entry.remarks.add(format!("backoffLimit {limit}: at most {ATTEMPTS_MAX} attempts here"));
    }
    match number(item, &format!("{job}/activeDeadlineSeconds")) {
        Some(seconds) => {
            entry.set("timeout", Span::from_secs(seconds.max(1)).to_string());
            entry
                .remarks
                .add("activeDeadlineSeconds is for all attempts together; timeout is for each");
        }
        None => {
            entry.set("timeout", TIMEOUT);
            entry.remarks.add(format!("no activeDeadlineSeconds; here each attempt has {TIMEOUT}"));
        }
    }
    for path in ["/spec/successfulJobsHistoryLimit", "/spec/failedJobsHistoryLimit"] {
        if let Some(kept) = number(item, path) {
            entry.remarks.add(format!(
                "{} {kept}: results are kept by time here, see `retention`",
                dotted(path)
            ));
        }
    }
    for field in ["completions", "parallelism"] {
        if let Some(many) = number(item, &format!("{job}/{field}")).filter(|many| *many > 1) {
            entry.remarks.add(format!("jobTemplate.spec.{field} {many}: a run is one task here"));
        }
    }
    let known = ["backoffLimit", "activeDeadlineSeconds", "completions", "parallelism", "template"];
    others(item.pointer(job), ("jobTemplate.spec", &known), &mut entry.remarks);
    let known = [
        "schedule",
        "timeZone",
        "startingDeadlineSeconds",
        "suspend",
        "concurrencyPolicy",
        "jobTemplate",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    ];
    others(item.pointer("/spec"), ("spec", &known), &mut entry.remarks);
}

fn containers(item: &Value, entry: &mut Entry) {
    const POD: &str = "/spec/jobTemplate/spec/template/spec";
    let pod = item.pointer(POD);
    others(pod, ("the pod's spec", &["containers", "restartPolicy"]), &mut entry.remarks);
    let containers = pod.and_then(|pod| pod.get("containers")).and_then(Value::as_array);
    let Some([first, rest @ ..]) = containers.map(Vec::as_slice) else {
        entry.remarks.add("it has no container: say in the tasks file what it runs");
        return;
    };
    if !rest.is_empty() {
        let names: Vec<&str> = rest.iter().map(|it| text(it, "/name").unwrap_or("?")).collect();
        entry.remarks.add(format!("its containers {} are left out", names.join(", ")));
    }
    let known = ["name", "image", "command", "args", "env", "imagePullPolicy"];
    others(Some(first), ("the container", &known), &mut entry.remarks);
    let mut env = BTreeMap::new();
    for pair in first.get("env").and_then(Value::as_array).into_iter().flatten() {
        let Some(name) = text(pair, "/name") else { continue };
        match (text(pair, "/value"), pair.get("valueFrom")) {
            (Some(value), _) => {
                env.insert(name.to_owned(), value.to_owned());
            }
            (None, Some(_)) => entry.remarks.add(format!(
                "env {name} comes from a secret, a config map or a field: give it to the executor, and name it in env_pass"
            )),
            (None, None) => {
                env.insert(name.to_owned(), String::new());
            }
        }
    }
    let (command, arguments) = (words(first, "command"), words(first, "args"));
    let mut params = Map::new();
    if let Some(image) = text(first, "/image") {
        params.insert("image".to_owned(), image.into());
    }
    let values = command.iter().chain(&arguments).chain(env.values());
    if let Some(value) = values.into_iter().find(|value| value.contains("$(")) {
        entry.remarks.add(format!(
            "Kubernetes puts variables in place of $(NAME), as in {value:?}; here nothing does, and a shell runs NAME: write ${{NAME}} in a shell"
        ));
    }
    let texts = [("command", &command), ("args", &arguments)];
    for (name, words) in texts.into_iter().filter(|(_, words)| !words.is_empty()) {
        params.insert(name.to_owned(), json!(words));
    }
    if !env.is_empty() {
        params.insert("env".to_owned(), json!(env));
    }
    entry.set("params", params);
    entry.remarks.add("an executor runs no image: install what the image holds, or let its task start the container from params");
    if command.is_empty() {
        let was = text(first, "/image").map(|image| format!("what image {image} runs"));
        entry.task = Some(Task { was, ..Task::default() });
    } else {
        let cwd = text(first, "/workingDir").map(str::to_owned);
        env.retain(|name, _| is_variable(name));
        entry.task = Some(Task { command: [command, arguments].concat(), was: None, cwd, env });
    }
}

/// Whether the tasks file may set the variable; the executor sets its own.
fn is_variable(name: &str) -> bool {
    !name.starts_with("CRON_")
        && name != "TRACEPARENT"
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn labels(item: &Value, entry: &mut Entry) {
    const LABELS_MAX: usize = 32;
    let Some(labels) = item.pointer("/metadata/labels").and_then(Value::as_object) else { return };
    let (mut kept, mut dropped) = (Map::new(), 0_usize);
    for (name, value) in labels {
        let fits = !name.is_empty() && name.len() <= 64 && kept.len() < LABELS_MAX;
        match value.as_str().filter(|value| fits && value.len() <= 256) {
            Some(value) => {
                kept.insert(name.clone(), value.into());
            }
            None => dropped += 1,
        }
    }
    if dropped > 0 {
        entry.remarks.add(format!("{dropped} of its labels are too long or too many"));
    }
    if !kept.is_empty() {
        entry.set("labels", kept);
    }
}

/// Names the fields that nothing here stands for.
fn others(value: Option<&Value>, (what, known): (&str, &[&str]), remarks: &mut Remarks) {
    let fields = value.and_then(Value::as_object).into_iter().flatten();
    let names: Vec<&str> = fields
        .map(|(name, _)| name.as_str())
        .filter(|name| !known.contains(name))
        .take(20)
        .collect();
    if !names.is_empty() {
        remarks.add(format!("does not carry over, of {what}: {}", names.join(", ")));
    }
}

fn words(container: &Value, field: &str) -> Vec<String> {
    let words = container.get(field).and_then(Value::as_array).into_iter().flatten();
    words.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

fn number(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer).and_then(Value::as_u64)
}

fn dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}
