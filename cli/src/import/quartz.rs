//! Quartz: the `job-scheduling-data` of its XML plug-in, or expressions one on a line.
//!
//! Invariant: a trigger's slots are those that Quartz computes; each of its settings that means nothing here is named in a
//! remark.

use serde_json::{Map, Value, json};

use super::found::{Entry, Imported, Settings};
use super::quartz_xml;
use super::{Outcome, names};

/// How old a slot may be and still be made up for: the longest there is.
const WINDOW: &str = "30d";
/// The longest that one attempt may take: Quartz sets no limit.
const TIMEOUT: &str = "24h";

/// Reads Quartz's XML, or a list of expressions.
///
/// # Errors
/// Where it is no XML, or more than an import takes.
pub(super) fn read(text: &str, settings: &Settings) -> Outcome {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut imported = Imported::default();
    imported.remarks.add(
        "Quartz moves or leaves out times that a clock change leaves out, as its version has it; here they are due at the end of the gap (`gap`)",
    );
    if settings.time_zone.is_none() {
        imported.remarks.add(
            "where no zone is named, Quartz reads times on the clock of its machine: UTC here; --time-zone names another",
        );
    }
    if text.trim_start().starts_with('<') {
        quartz_xml::read(text, settings, &mut imported)?;
    } else {
        list(text, settings, &mut imported)?;
    }
    Ok(imported)
}

fn list(text: &str, settings: &Settings, imported: &mut Imported) -> Result<(), String> {
    let mut title = String::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            title = comment.trim().chars().take(200).collect();
            continue;
        }
        let above = std::mem::take(&mut title);
        if line.is_empty() {
            continue;
        }
        let mut entry = Entry { line: index + 1, identity: line.to_owned(), ..Entry::default() };
        entry.label = if above.is_empty() { "job".into() } else { names::of_command(&above) };
        if !above.is_empty() {
            entry.set("title", above);
        }
        cron(&mut entry, line, settings.time_zone.clone());
        misfire(&mut entry, None, Trigger::Cron);
        common(&mut entry);
        entry.remarks.add("name the task that it runs");
        imported.add(entry)?;
    }
    Ok(())
}

/// Sets an expression, kept in its own dialect.
pub(super) fn cron(entry: &mut Entry, expression: &str, zone: Option<String>) {
    let expression = expression.split_whitespace().collect::<Vec<_>>().join(" ");
    entry.set("schedule", json!({ "cron": expression }));
    entry.set("dialect", "quartz");
    if let Some(zone) = zone {
        entry.set("time_zone", zone);
    }
}

/// Sets what every trigger has in common.
pub(super) fn common(entry: &mut Entry) {
    entry.set("overlap", "allow");
    entry.set("max_attempts", 1);
    entry.set("timeout", TIMEOUT);
    entry
        .remarks
        .add("overlap: allow; where the job class has @DisallowConcurrentExecution, write skip");
}

/// The kind of a trigger, which decides what its misfire instruction means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    /// By an expression.
    Cron,
    /// At an interval, without end.
    Endless,
    /// At an interval, so many times.
    Counted,
    /// Once.
    Once,
}

/// Sets the misfire policy that an instruction stands for.
pub(super) fn misfire(entry: &mut Entry, instruction: Option<&str>, trigger: Trigger) {
    let instruction = instruction.unwrap_or("MISFIRE_INSTRUCTION_SMART_POLICY");
    let instruction = instruction.strip_prefix("MISFIRE_INSTRUCTION_").unwrap_or(instruction);
    let once = json!({ "policy": "fire_once", "window": WINDOW });
    let policy = match (instruction, trigger) {
        ("SMART_POLICY", Trigger::Endless) => json!({ "policy": "skip" }),
        ("SMART_POLICY", Trigger::Cron | Trigger::Once) | ("FIRE_ONCE_NOW" | "FIRE_NOW", _) => once,
        ("SMART_POLICY", Trigger::Counted) => {
            entry.remarks.add("slots that were missed count as fired here");
            once
        }
        (
            "DO_NOTHING"
            | "RESCHEDULE_NEXT_WITH_EXISTING_COUNT"
            | "RESCHEDULE_NEXT_WITH_REMAINING_COUNT",
            _,
        ) => {
            json!({ "policy": "skip" })
        }
        (
            "RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT"
            | "RESCHEDULE_NOW_WITH_REMAINING_REPEAT_COUNT",
            _,
        ) => {
            entry.remarks.add(format!(
                "{instruction}: the latest missed slot fires, and the others keep their times"
            ));
            once
        }
        ("IGNORE_MISFIRE_POLICY" | "MISFIRE_POLICY", _) => {
            entry
                .remarks
                .add("IGNORE_MISFIRE_POLICY: at most the 1,000 latest missed slots fire here");
            json!({ "policy": "fire_all", "limit": 1000, "window": WINDOW })
        }
        (unknown, _) => {
            entry.remarks.add(format!("the misfire instruction {unknown} is not known"));
            once
        }
    };
    entry.set("misfire", policy);
}

/// The entries of a job's data, those of the trigger in place of the job's.
pub(super) fn params(entry: &mut Entry, data: Map<String, Value>) {
    if !data.is_empty() {
        entry.set("params", data);
    }
}
