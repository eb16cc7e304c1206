//! What an importer has found, and how it becomes jobs with names of their own.
//!
//! Invariant: [`Jobs`] holds each name once, and only definitions that the scheduler accepts are jobs.

use std::collections::BTreeMap;

use cronstream_core::calendar::Calendars;
use cronstream_core::definition;
use cronstream_schemas::definition::Draft;
use cronstream_schemas::fault::{Fault, cut};
use cronstream_schemas::name::{JobId, Name};
use serde_json::{Map, Value};

use super::names;

/// The most jobs of one import.
pub(super) const JOBS_MAX: usize = 10_000;
/// The most remarks on one job, or on a file as a whole.
const REMARKS_MAX: usize = 100;

/// What the caller wants of every job.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    /// The namespace, in place of the one that the source names.
    pub(super) namespace: Option<Name>,
    /// The queue of every job.
    pub(super) queue: Option<Name>,
    /// The zone of the machine that the source is from.
    pub(super) time_zone: Option<String>,
    /// Whether a crontab has a column for the user.
    pub(super) with_user: bool,
}

/// Remarks for whoever reads what was imported; bounded.
#[derive(Debug, Clone, Default)]
pub(super) struct Remarks(Vec<String>);

impl Remarks {
    /// Adds a remark, unless it stands there already or there are too many.
    pub(super) fn add(&mut self, remark: impl Into<String>) {
        let remark = remark.into();
        if self.0.len() < REMARKS_MAX && !self.0.contains(&remark) {
            self.0.push(remark);
        }
    }

    /// The remarks in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// A task for the tasks file of an executor.
#[derive(Debug, Clone, Default)]
pub(super) struct Task {
    /// The program and its arguments; none where the source has none that an executor could run.
    pub(super) command: Vec<String>,
    /// What the source runs in place of a command.
    pub(super) was: Option<String>,
    /// Where it runs.
    pub(super) cwd: Option<String>,
    /// Its environment.
    pub(super) env: BTreeMap<String, String>,
}

/// A job as the source has it, without a name of its own yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    /// The line it begins at.
    pub(super) line: usize,
    /// What its name is made of.
    pub(super) label: String,
    /// Its name in the source, where it has one.
    pub(super) called: Option<String>,
    /// As it stands in the source, where that is a line.
    pub(super) source: Option<String>,
    /// The namespace that the source names.
    pub(super) namespace: Option<String>,
    /// What tells it from another job of the same name: the same text at every import.
    pub(super) identity: String,
    /// The fields of its definition, without `job`; `task` may be left to the name.
    pub(super) fields: Map<String, Value>,
    /// What does not carry over, or carries over in another way.
    pub(super) remarks: Remarks,
    /// What its task runs.
    pub(super) task: Option<Task>,
}

/// Something of the source that is no job here.
#[derive(Debug, Clone)]
pub(super) struct LeftOut {
    /// Its line.
    pub(super) line: usize,
    /// As it stands in the source, or what it would have been here.
    pub(super) text: String,
    /// Why.
    pub(super) why: String,
}

/// What an importer has found.
#[derive(Debug, Default)]
pub(super) struct Imported {
    entries: Vec<Entry>,
    /// What is left out.
    pub(super) left_out: Vec<LeftOut>,
    /// Remarks on the file as a whole.
    pub(super) remarks: Remarks,
}

/// A job that the scheduler accepts.
#[derive(Debug)]
pub(super) struct Job {
    /// Its address.
    pub(super) job: JobId,
    /// Its definition.
    pub(super) fields: Map<String, Value>,
    /// What does not carry over, or carries over in another way.
    pub(super) remarks: Remarks,
    /// The task of the tasks file with its name.
    pub(super) task: (String, Task),
}

/// An import with names.
#[derive(Debug)]
pub(super) struct Jobs {
    /// The jobs, in the order of the source.
    pub(super) jobs: Vec<Job>,
    /// What is left out.
    pub(super) left_out: Vec<LeftOut>,
    /// Remarks on the file as a whole.
    pub(super) remarks: Remarks,
}

impl Entry {
    /// Sets a field of the definition.
    pub(super) fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.fields.insert(field.to_owned(), value.into());
    }
}

impl Imported {
    /// Adds a job.
    ///
    /// # Errors
    /// When there are too many.
    pub(super) fn add(&mut self, entry: Entry) -> Result<(), String> {
        self.bounded(entry.line)?;
        self.entries.push(entry);
        Ok(())
    }

    /// Notes what is no job here.
    ///
    /// # Errors
    /// When there is too much of it.
    pub(super) fn leave_out(
        &mut self,
        line: usize,
        text: &str,
        why: impl Into<String>,
    ) -> Result<(), String> {
        self.bounded(line)?;
        self.left_out.push(LeftOut { line, text: cut(text), why: why.into() });
        Ok(())
    }

    fn bounded(&self, line: usize) -> Result<(), String> {
        if self.entries.len() + self.left_out.len() < JOBS_MAX {
            return Ok(());
        }
        Err(format!("{line}: more than {JOBS_MAX} entries; divide the file"))
    }

    /// Names the jobs, and leaves out those that the scheduler would refuse.
    pub(super) fn finish(self, settings: &Settings) -> Jobs {
        let Self { entries, mut left_out, remarks } = self;
        let namespaces: Vec<String> = entries
            .iter()
            .map(|entry| match (&settings.namespace, &entry.namespace) {
                (Some(wanted), _) => wanted.to_string(),
                (None, Some(own)) => names::slug(own, "default"),
                (None, None) => "default".to_owned(),
            })
            .collect();
        let wanted = entries.iter().zip(&namespaces).map(|(entry, namespace)| {
            (namespace.as_str(), names::slug(&entry.label, "job"), entry.identity.as_str())
        });
        let names = names::unique(&wanted.collect::<Vec<_>>());
        let tasks = names.iter().zip(&namespaces).zip(&entries);
        let tasks = tasks.map(|((name, namespace), entry)| {
            let place = format!("{namespace}/{}", entry.identity);
            ("", name.clone(), place)
        });
        let tasks: Vec<_> = tasks.collect();
        let tasks: Vec<_> = tasks
            .iter()
            .map(|(scope, name, place)| (*scope, name.clone(), place.as_str()))
            .collect();
        let tasks = names::unique(&tasks);
        let mut jobs = Vec::with_capacity(entries.len());
        let named = entries.into_iter().zip(namespaces).zip(names.into_iter().zip(tasks));
        for ((entry, namespace), (name, task)) in named {
            let line = entry.line;
            match accept(entry, (&namespace, &name), (task, settings)) {
                Ok(job) => jobs.push(job),
                Err((text, why)) => left_out.push(LeftOut { line, text, why }),
            }
        }
        left_out.sort_by_key(|it| it.line);
        Jobs { jobs, left_out, remarks }
    }
}

impl Jobs {
    /// How many jobs there are.
    pub(super) fn accepted(&self) -> usize {
        self.jobs.len()
    }

    /// How much is left out.
    pub(super) fn left_out(&self) -> usize {
        self.left_out.len()
    }
}

/// The job of an entry, or its text and why the scheduler would refuse it.
fn accept(
    mut entry: Entry,
    (namespace, name): (&str, &str),
    (task, settings): (String, &Settings),
) -> Result<Job, (String, String)> {
    let described = |entry: &Entry| match &entry.source {
        Some(line) => cut(line),
        None => cut(&format!("{name} {}", Value::from(entry.fields.clone()))),
    };
    let job = JobId::parse(namespace, name).map_err(|e| (described(&entry), e.to_string()))?;
    if let Some(called) = entry.called.take().filter(|called| called != name) {
        entry.remarks.add(format!("called {called} in the source"));
    }
    let own = entry.fields.get("task").and_then(Value::as_str).map(|own| names::slug(own, "task"));
    let task_name = own.unwrap_or(task);
    entry.set("task", task_name.as_str());
    if let Some(queue) = &settings.queue {
        entry.set("queue", queue.as_str());
    }
    let body = Value::from(entry.fields.clone()).to_string();
    match check(&job, &body) {
        Ok(()) => Ok(Job {
            job,
            fields: entry.fields,
            remarks: entry.remarks,
            task: (task_name, entry.task.unwrap_or_default()),
        }),
        Err(faults) => {
            let faults: Vec<String> = faults
                .iter()
                .map(|it| format!("{} {}: {}; {}", it.path, it.value, it.problem, it.expected))
                .collect();
            Err((described(&entry), faults.join(" | ")))
        }
    }
}

/// Whether the scheduler accepts a definition.
pub(super) fn check(job: &JobId, body: &str) -> Result<(), Vec<Fault>> {
    definition::check(Draft::decode(body.as_bytes()), job, &Calendars::default()).map(|_| ())
}
