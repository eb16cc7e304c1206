//! An import as text: definitions that `apply` reads, and a tasks file.
//!
//! Invariant: a text of the source stays inside the comment or the value that it stands in.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cronstream_schemas::fault::cut;
use serde_json::Value;

use super::found::{Job, Jobs, Task};
use crate::args::ImportFrom;
use crate::output::{printable, printable_json};

/// The definitions as YAML, every remark a comment above what it is about.
pub(super) fn yaml(jobs: &Jobs, from: ImportFrom) -> String {
    let mut text = String::new();
    comment(
        &mut text,
        &format!("Imported from {} by cronstream {}.", from.name(), env!("CARGO_PKG_VERSION")),
    );
    comment(&mut text, "Read the comments, then: cronstream apply --dry-run -f FILE");
    jobs.remarks.iter().for_each(|remark| comment(&mut text, remark));
    for left_out in &jobs.left_out {
        text.push_str("#\n");
        comment(&mut text, &format!("Left out, line {}: {}", left_out.line, left_out.text));
        comment(&mut text, &format!("  {}", left_out.why));
    }
    for job in &jobs.jobs {
        text.push_str("---\n");
        job.remarks.iter().for_each(|remark| comment(&mut text, remark));
        let Job { job: id, fields, .. } = job;
        writeln!(text, "job: {}", json_text(&Value::from(id.to_string()))).ok();
        for (name, value) in ordered(fields) {
            writeln!(text, "{name}: {}", json_text(value)).ok();
        }
    }
    text
}

/// The definitions as JSON, one on a line.
pub(super) fn json(jobs: &Jobs) -> String {
    let mut text = String::new();
    for Job { job, fields, .. } in &jobs.jobs {
        write!(text, "{{\"job\":{}", json_text(&Value::from(job.to_string()))).ok();
        for (name, value) in ordered(fields) {
            write!(text, ",\"{name}\":{}", json_text(value)).ok();
        }
        text.push_str("}\n");
    }
    text
}

/// What the comments of [`yaml`] say, for a form that has none.
pub(super) fn remarks(jobs: &Jobs) -> impl Iterator<Item = String> {
    let whole = jobs.remarks.iter().map(printable);
    let left_out = jobs.left_out.iter().map(|it| {
        format!("left out, line {}: {} ({})", it.line, printable(&it.text), printable(&it.why))
    });
    let own = jobs.jobs.iter().flat_map(|job| {
        job.remarks.iter().map(|remark| format!("{}: {}", job.job, printable(remark)))
    });
    whole.chain(left_out).chain(own)
}

/// The tasks file of an executor.
pub(super) fn tasks(jobs: &Jobs) -> String {
    let mut text = String::new();
    comment(&mut text, "The tasks of imported jobs, for `cronstream executor --tasks`.");
    comment(
        &mut text,
        "Standard input of each is the job's params as JSON, `{}` where it has none; what a task",
    );
    comment(
        &mut text,
        "prints is kept with its run (`cronstream run`). It runs as the user of the executor.",
    );
    let mut stubs = BTreeSet::new();
    for job in &jobs.jobs {
        let (name, Task { command, was, cwd, env }) = &job.task;
        if command.is_empty() {
            // Jobs may share a task: one stub is enough.
            if stubs.insert(name) {
                text.push('\n');
                stub(&mut text, job, (name, was.as_deref()));
            }
            continue;
        }
        writeln!(text, "\n# {}", job.job).ok();
        writeln!(text, "[tasks.{}]", toml_text(name)).ok();
        let command: Vec<String> = command.iter().map(|word| toml_text(word)).collect();
        writeln!(text, "command = [{}]", command.join(", ")).ok();
        if let Some(cwd) = cwd {
            writeln!(text, "cwd = {}", toml_text(cwd)).ok();
        }
        if !env.is_empty() {
            let pairs: Vec<String> = env
                .iter()
                .map(|(name, value)| format!("{} = {}", toml_text(name), toml_text(value)))
                .collect();
            writeln!(text, "env = {{ {} }}", pairs.join(", ")).ok();
        }
    }
    text
}

/// A task that is still to be written, all of it a comment: executors that do not know a task leave its runs waiting.
fn stub(text: &mut String, job: &Job, (name, was): (&str, Option<&str>)) {
    let was = was.map(|was| format!(", there {was}")).unwrap_or_default();
    comment(text, &format!("{}{was}: say what it runs. Until then its runs wait.", job.job));
    comment(text, &format!("[tasks.{}]", toml_text(name)));
    comment(text, "command = [\"/path/to/program\"]");
}

/// The fields in the order in which a person writes them.
fn ordered(fields: &serde_json::Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    const ORDER: [&str; 18] = [
        "title",
        "task",
        "queue",
        "schedule",
        "dialect",
        "time_zone",
        "gap",
        "fold",
        "start",
        "end",
        "jitter",
        "overlap",
        "misfire",
        "timeout",
        "max_attempts",
        "retention",
        "params",
        "labels",
    ];
    ORDER.into_iter().filter_map(|name| fields.get(name).map(|value| (name, value)))
}

fn comment(text: &mut String, remark: &str) {
    for line in remark.lines() {
        writeln!(text, "# {}", for_yaml(&printable(&cut(line)))).ok();
    }
}

/// JSON, which is YAML too.
fn json_text(value: &Value) -> String {
    for_yaml(&printable_json(&value.to_string()))
}

/// The text with what YAML refuses, or once took for the end of a line, escaped.
fn for_yaml(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') {
            write!(out, "\\u{:04x}", u32::from(c)).ok();
        } else {
            out.push(c);
        }
        out
    })
}

/// A basic string of TOML: what JSON makes of it, but for the slash that JSON alone may escape.
fn toml_text(text: &str) -> String {
    printable_json(&Value::from(text).to_string())
}
