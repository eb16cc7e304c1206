//! The XML of Quartz's `XMLSchedulingDataProcessorPlugin`: `job-scheduling-data` with jobs and triggers.
//!
//! Invariant: a document with a type definition is refused, so no entity can grow; nodes are bounded.

use std::collections::HashMap;
use std::time::Duration;

use cronstream_core::schedule::Zone;
use cronstream_schemas::duration::Span;
use cronstream_schemas::time::Timestamp;
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::{Map, Value, json};

use super::found::{Entry, Imported, Settings, Task};
use super::quartz::{self, Trigger};

/// The most nodes of a document.
const NODES_MAX: u32 = 1_000_000;
/// One millisecond: an end belongs to a trigger there, and not here.
const TICK: Duration = Duration::from_millis(1);

type Element<'a> = Node<'a, 'a>;

/// Reads a document into jobs, one for each trigger.
///
/// # Errors
/// Where it is no XML, or not of this kind.
pub(super) fn read(text: &str, settings: &Settings, into: &mut Imported) -> Result<(), String> {
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|error| format!("{}: {error}", error.pos().row))?;
    let root = document.root_element();
    if root.tag_name().name() != "job-scheduling-data" {
        let name = root.tag_name().name();
        return Err(format!("1: the root is <{name}>, not <job-scheduling-data> of Quartz"));
    }
    let lines = Lines::of(text);
    for part in elements(root) {
        match part.tag_name().name() {
            "schedule" => schedule(part, &lines, (settings, into))?,
            other => into.remarks.add(format!("<{other}> does not carry over")),
        }
    }
    Ok(())
}

/// Where each line of a text begins.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect())
    }

    fn number(&self, at: usize) -> usize {
        self.0.partition_point(|start| *start <= at)
    }
}

fn schedule(
    part: Element<'_>,
    lines: &Lines,
    (settings, into): (&Settings, &mut Imported),
) -> Result<(), String> {
    let jobs: HashMap<(String, String), Element<'_>> = elements(part)
        .filter(|node| node.tag_name().name() == "job")
        .map(|job| ((group(child(job, "group")), text(job, "name").unwrap_or_default()), job))
        .collect();
    for node in elements(part) {
        match node.tag_name().name() {
            "job" => {}
            "trigger" => {
                for trigger in elements(node) {
                    let line = lines.number(trigger.range().start);
                    one((trigger, line), &jobs, (settings, into))?;
                }
            }
            other => into.remarks.add(format!("<{other}> does not carry over")),
        }
    }
    Ok(())
}

fn one(
    (trigger, line): (Element<'_>, usize),
    jobs: &HashMap<(String, String), Element<'_>>,
    (settings, into): (&Settings, &mut Imported),
) -> Result<(), String> {
    let name = text(trigger, "name").unwrap_or_default();
    let job_name = text(trigger, "job-name").unwrap_or_default();
    let job = jobs.get(&(group(child(trigger, "job-group")), job_name.clone()));
    let namespace = child(trigger, "group").or(job.and_then(|job| child(*job, "group")));
    let mut entry = Entry {
        line,
        label: name.clone(),
        identity: format!("{}/{name} {job_name}", group(namespace)),
        namespace: namespace.and_then(content),
        ..Entry::default()
    };
    entry.set("task", job_name.as_str());
    if let Some(title) =
        text(trigger, "description").or(job.and_then(|job| text(*job, "description")))
    {
        entry.set("title", title.chars().take(200).collect::<String>());
    }
    let kind = trigger.tag_name().name();
    let timed = match kind {
        "cron" => by_expression(trigger, &mut entry, settings),
        "simple" => by_interval(trigger, &mut entry, settings),
        other => Err(format!(
            "a <{other}> trigger has no counterpart; write a cron expression or `every`"
        )),
    };
    if let Err(why) = timed {
        return into.leave_out(line, &format!("{kind} trigger {name} of job {job_name}"), why);
    }
    quartz::common(&mut entry);
    about(trigger, job.copied(), &mut entry);
    into.add(entry)
}

fn by_expression(
    trigger: Element<'_>,
    entry: &mut Entry,
    settings: &Settings,
) -> Result<(), String> {
    let expression = text(trigger, "cron-expression").ok_or("<cron-expression> is missing")?;
    let zone = text(trigger, "time-zone").or_else(|| settings.time_zone.clone());
    quartz::cron(entry, &expression, zone.clone());
    let instruction = text(trigger, "misfire-instruction");
    quartz::misfire(entry, instruction.as_deref(), Trigger::Cron);
    let zone = zone.unwrap_or_else(|| "UTC".to_owned());
    if let Some(start) = instant(trigger, "start-time", &zone, entry)? {
        entry.set("start", start.to_string());
    }
    if let Some(end) = instant(trigger, "end-time", &zone, entry)? {
        entry.set("end", end.plus(TICK).to_string());
    }
    Ok(())
}

fn by_interval(trigger: Element<'_>, entry: &mut Entry, settings: &Settings) -> Result<(), String> {
    let zone = settings.time_zone.clone().unwrap_or_else(|| "UTC".to_owned());
    let number = |name: &str| match text(trigger, name) {
        None => Ok(None),
        Some(text) => match text.parse::<i64>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!("<{name}> {text} is no number")),
        },
    };
    let (count, interval) = (number("repeat-count")?.unwrap_or(0), number("repeat-interval")?);
    let interval =
        u64::try_from(interval.unwrap_or(0)).map_err(|_| "<repeat-interval> is below 0")?;
    let start = instant(trigger, "start-time", &zone, entry)?;
    let end = instant(trigger, "end-time", &zone, entry)?;
    let kind = match count {
        0 => Trigger::Once,
        1.. => Trigger::Counted,
        _ => Trigger::Endless,
    };
    quartz::misfire(entry, text(trigger, "misfire-instruction").as_deref(), kind);
    if kind == Trigger::Once {
        let at = start
            .ok_or("it fires once, as soon as it is loaded: `cronstream trigger` does that")?;
        entry.set("schedule", json!({ "at": at.to_string() }));
        return Ok(());
    }
    entry.set("schedule", json!({ "every": Span::from_millis(interval).to_string() }));
    let Some(start) = start else {
        entry.remarks.add(
            "no <start-time>: Quartz counts from when it is loaded, here the definition counts",
        );
        if kind == Trigger::Counted {
            entry.remarks.add(format!("repeat-count {count}: set `end`, else it has none"));
        }
        return Ok(());
    };
    entry.set("start", start.to_string());
    let last = u64::try_from(count).ok().and_then(|count| count.checked_mul(interval));
    let last = last.map(|millis| start.plus(Duration::from_millis(millis)));
    if let Some(end) = [last, end].into_iter().flatten().min() {
        entry.set("end", end.plus(TICK).to_string());
    }
    Ok(())
}

/// What a trigger and its job say besides when they fire.
fn about(trigger: Element<'_>, job: Option<Element<'_>>, entry: &mut Entry) {
    let mut data = Map::new();
    for holder in job.into_iter().chain([trigger]) {
        let pairs = child(holder, "job-data-map").into_iter().flat_map(elements);
        for pair in pairs.filter(|pair| pair.tag_name().name() == "entry") {
            if let Some(key) = text(pair, "key") {
                data.insert(key, Value::from(text(pair, "value").unwrap_or_default()));
            }
        }
    }
    quartz::params(entry, data);
    match job {
        None => entry.remarks.add("its job is not in the file"),
        Some(job) => {
            if let Some(class) = text(job, "job-class") {
                entry
                    .remarks
                    .add(format!("runs {class}: an executor's task of this name takes its place"));
                entry.task = Some(Task { was: Some(class), ..Task::default() });
            }
            if text(job, "recover").as_deref() == Some("true") {
                entry.remarks.add("<recover>: a run whose executor died is started again while max_attempts (1 here) allows it");
            }
        }
    }
    if let Some(calendar) = text(trigger, "calendar-name") {
        entry.remarks.add(format!(
            "<calendar-name> {calendar}: publish its days as a calendar, then add calendars: {{except: [\"<namespace>/{calendar}\"]}}"
        ));
    }
    if let Some(priority) = text(trigger, "priority").filter(|priority| priority != "5") {
        entry.remarks.add(format!("<priority> {priority}: there is none here"));
    }
    if text(trigger, "start-time-seconds-in-future").is_some() {
        entry.remarks.add("<start-time-seconds-in-future> is left out");
    }
}

/// An `xs:dateTime`; one without an offset is read on the clock of a zone.
fn instant(
    trigger: Element<'_>,
    name: &str,
    zone: &str,
    entry: &mut Entry,
) -> Result<Option<Timestamp>, String> {
    let Some(text) = text(trigger, name) else { return Ok(None) };
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(Some(at));
    }
    let wall = format!("{text}Z").parse::<Timestamp>();
    let wall =
        wall.map_err(|_| format!("<{name}> {text} is no time such as 2027-01-31T03:00:00"))?;
    let zone = Zone::get(zone).map_err(|error| error.to_string())?;
    entry.remarks.add(format!("<{name}> {text} is read in {}", zone.name()));
    let shifted =
        |offset: i32| Timestamp::from_millis(wall.as_millis() - i64::from(offset) * 1_000);
    let guess = shifted(zone.offset_seconds(wall.as_millis()));
    Ok(Some(shifted(zone.offset_seconds(guess.as_millis()))))
}

fn group(of: Option<Element<'_>>) -> String {
    of.and_then(content).unwrap_or_else(|| "DEFAULT".to_owned())
}

fn elements<'a>(node: Element<'a>) -> impl Iterator<Item = Element<'a>> {
    node.children().filter(Node::is_element)
}

fn child<'a>(node: Element<'a>, name: &str) -> Option<Element<'a>> {
    elements(node).find(|child| child.tag_name().name() == name)
}

fn content(node: Element<'_>) -> Option<String> {
    node.text().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn text(node: Element<'_>, name: &str) -> Option<String> {
    child(node, name).and_then(content)
}
