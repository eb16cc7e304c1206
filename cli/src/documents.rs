//! Files of definitions of jobs and calendars: what `apply` reads.
//!
//! Invariant: after reading, each job and each calendar stands once, with the place it came from; the body of a document is the
//! JSON that will be published, in a JSON file bit for bit.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cronstream_schemas::fault::Fault;
use cronstream_schemas::json::Fields;
use cronstream_schemas::name::JobId;
use serde_json::value::RawValue;

use crate::bounded;
use crate::error::Error;
use crate::yaml;

/// The most files of one `apply`.
const FILES_MAX: usize = 100_000;
/// The most bytes of one file.
const FILE_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// The deepest folder that is looked into.
const FOLDERS_DEEP_MAX: usize = 32;

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The file as it was named, or `-`.
    pub(crate) file: Arc<str>,
    /// The line, from 1.
    pub(crate) line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// What a document defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A job: it has the field `job`.
    Job,
    /// A calendar: it has the field `calendar`.
    Calendar,
}

impl Kind {
    const fn field(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Calendar => "calendar",
        }
    }
}

/// A definition as it stands in a file.
#[derive(Debug)]
pub(crate) struct Document {
    /// What it defines.
    pub(crate) kind: Kind,
    /// Where it begins.
    pub(crate) place: Place,
    /// Its job, or its calendar.
    pub(crate) job: JobId,
    /// The definition without the field that names it.
    pub(crate) body: String,
    /// What is wrong with its values beside what the definition's own rules say.
    pub(crate) faults: Vec<Fault>,
    lines: HashMap<String, usize>,
}

impl Document {
    /// The place of the value at a path, or of what it stands in.
    pub(crate) fn place_of(&self, path: &str) -> Place {
        let mut path = path;
        let line = loop {
            if let Some(line) = self.lines.get(path) {
                break *line;
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => break self.place.line,
            }
        };
        Place { file: Arc::clone(&self.place.file), line }
    }
}

/// Reads every document of files and folders; `-` is standard input.
///
/// # Errors
/// Every place that cannot be read, and both places of a job that stands twice.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Document>, Error> {
    let mut gathered = Gathered::default();
    let mut files = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            let text = bounded::read_text(std::io::stdin(), FILE_MAX_BYTES)
                .map_err(|source| Error::File { path: path.clone(), source })?;
            gathered.read_text("-", &text, text.trim_start().starts_with(['{', '[']));
        } else {
            find_files(path, 0, &mut files)?;
        }
    }
    for file in &files {
        let text = bounded::read_file(file, FILE_MAX_BYTES)
            .map_err(|source| Error::File { path: file.clone(), source })?;
        let json = file.extension().is_some_and(|extension| extension == "json");
        gathered.read_text(&file.to_string_lossy(), &text, json);
    }
    gathered.finish()
}

/// Adds a file, or the definition files below a folder in the order of their names.
fn find_files(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    if !std::fs::metadata(path).map_err(failed)?.is_dir() {
        files.push(path.to_owned());
        if files.len() > FILES_MAX {
            return Err(Error::Usage(format!("more than {FILES_MAX} files")));
        }
        return Ok(());
    }
    if depth > FOLDERS_DEEP_MAX {
        return Err(Error::Usage(format!("{} is too deep", path.display())));
    }
    let entries: Result<Vec<_>, _> = std::fs::read_dir(path).map_err(failed)?.collect();
    let mut entries: Vec<PathBuf> = entries.map_err(failed)?.iter().map(|e| e.path()).collect();
    entries.sort();
    for entry in entries {
        let hidden = entry.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
        let definition = entry.extension().is_some_and(|extension| {
            ["yaml", "yml", "json"].iter().any(|known| extension == *known)
        });
        if !hidden && (definition || entry.is_dir()) {
            find_files(&entry, depth + 1, files)?;
        }
    }
    Ok(())
}

#[derive(Default)]
struct Gathered {
    documents: Vec<Document>,
    places: HashMap<(Kind, JobId), Place>,
    problems: Vec<String>,
}

/// A document before its job is known.
struct Raw {
    line: usize,
    fields: Vec<(String, String)>,
    faults: Vec<Fault>,
    lines: HashMap<String, usize>,
}

impl Gathered {
    fn read_text(&mut self, file: &str, text: &str, json: bool) {
        let file: Arc<str> = Arc::from(file);
        let raws = if json { read_json(text) } else { read_yaml(text) };
        match raws {
            Ok(raws) => raws.into_iter().for_each(|raw| self.add(&file, raw)),
            Err((line, problem)) => self.problems.push(format!("{file}:{line}: {problem}")),
        }
    }

    fn add(&mut self, file: &Arc<str>, raw: Raw) {
        let place = |line| Place { file: Arc::clone(file), line };
        let start = place(raw.line);
        let is_calendar = raw.fields.iter().any(|(name, _)| name == Kind::Calendar.field());
        let kind = if is_calendar { Kind::Calendar } else { Kind::Job };
        let field = kind.field();
        let mut names = raw.fields.iter().filter(|(name, _)| name == field);
        let both = is_calendar && raw.fields.iter().any(|(name, _)| name == Kind::Job.field());
        let job = match (names.next(), names.next()) {
            _ if both => Err("both `job` and `calendar`: a document is one of them".to_owned()),
            (Some((_, job)), None) => read_name(field, job),
            (Some(_), Some(_)) => Err(format!("`{field}` stands twice")),
            (None, _) => Err("`job` is missing, such as `job: billing/nightly`".to_owned()),
        };
        let job = match job {
            Ok(job) => job,
            Err(problem) => {
                let at = raw.lines.get(&format!("$.{field}")).copied();
                let at = place(at.unwrap_or(raw.line));
                return self.problems.push(format!("{at}: {problem}"));
            }
        };
        let key = (kind, job.clone());
        if let Some(first) = self.places.get(&key) {
            return self.problems.push(format!("{start}: {field} {job} stands already at {first}"));
        }
        self.places.insert(key, start.clone());
        let fields = raw.fields.iter().filter(|(name, _)| name != field);
        let fields: Vec<String> = fields
            .map(|(name, json)| format!("{}:{json}", serde_json::Value::from(name.as_str())))
            .collect();
        let body = format!("{{{}}}", fields.join(","));
        self.documents.push(Document {
            kind,
            place: start,
            job,
            body,
            faults: raw.faults,
            lines: raw.lines,
        });
    }

    fn finish(self) -> Result<Vec<Document>, Error> {
        if self.problems.is_empty() {
            Ok(self.documents)
        } else {
            Err(Error::Documents(self.problems))
        }
    }
}

fn read_name(field: &str, json: &str) -> Result<JobId, String> {
    let text: String = serde_json::from_str(json)
        .map_err(|_| format!("{field} {json} is not a text such as `billing/nightly`"))?;
    text.parse::<JobId>().map_err(|error| error.to_string())
}

fn read_yaml(text: &str) -> Result<Vec<Raw>, (usize, String)> {
    let mappings = yaml::read(text).map_err(|error| (error.line, error.problem))?;
    Ok(mappings
        .into_iter()
        .map(|mapping| Raw {
            line: mapping.line,
            fields: mapping.fields.into_iter().map(|field| (field.name, field.json)).collect(),
            faults: mapping.faults,
            lines: mapping.lines,
        })
        .collect())
}

/// Reads objects that follow each other, or arrays of them.
fn read_json(text: &str) -> Result<Vec<Raw>, (usize, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut raws = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let value = value.map_err(|error| (error.line(), error.to_string()))?;
        if value.get().starts_with('[') {
            let objects: Vec<&RawValue> = serde_json::from_str(value.get())
                .map_err(|error| (line_of(text, value), error.to_string()))?;
            for object in objects {
                raws.push(read_object(text, object)?);
            }
        } else {
            raws.push(read_object(text, value)?);
        }
    }
    Ok(raws)
}

fn read_object(text: &str, object: &RawValue) -> Result<Raw, (usize, String)> {
    let line = line_of(text, object);
    let fields: Fields<'_> = serde_json::from_str(object.get()).map_err(|_| {
        (
            line,
            "a document is an object with `job` or `calendar` and the fields of its definition"
                .to_owned(),
        )
    })?;
    let lines = fields.0.iter().map(|(name, value)| (format!("$.{name}"), line_of(text, value)));
    let lines = lines.collect();
    let fields = fields.0.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect();
    Ok(Raw { line, fields, faults: Vec::new(), lines })
}

/// The line on which a value that borrows from `text` begins.
fn line_of(text: &str, value: &RawValue) -> usize {
    let offset = value.get().as_ptr().addr().saturating_sub(text.as_ptr().addr()).min(text.len());
    text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITION: &str = "task: t\nschedule: {every: 5s}\n";

    fn gather(files: &[(&str, &str)]) -> Result<Vec<Document>, String> {
        let mut gathered = Gathered::default();
        for (file, text) in files {
            gathered.read_text(file, text, file.ends_with(".json"));
        }
        gathered.finish().map_err(|error| error.to_string())
    }

    #[test]
    fn several_documents_stand_in_one_file() {
        let text = format!("job: a/x\n{DEFINITION}---\njob: a/y\n{DEFINITION}");
        let documents = gather(&[("f.yaml", &text)]).unwrap();
        let seen: Vec<_> = documents.iter().map(|d| format!("{} {}", d.place, d.job)).collect();
        assert_eq!(seen, ["f.yaml:1 a/x", "f.yaml:5 a/y"]);
        assert_eq!(documents[0].body, r#"{"task":"t","schedule":{"every":"5s"}}"#);
        assert_eq!(documents[1].place_of("$.schedule.every").to_string(), "f.yaml:7");
    }

    #[test]
    fn json_is_taken_bit_for_bit() {
        let text = "[{\"job\":\"a/x\",\n \"params\":{\"n\": 12345678901234567890, \"f\":1.10}}]\n{\"job\":\"a/y\"}";
        let documents = gather(&[("f.json", text)]).unwrap();
        assert_eq!(documents[0].body, r#"{"params":{"n": 12345678901234567890, "f":1.10}}"#);
        assert_eq!(documents[0].place_of("$.params.n").to_string(), "f.json:2");
        assert_eq!(documents[1].place.to_string(), "f.json:3");
    }

    #[test]
    fn a_job_that_stands_twice_is_named_with_both_places() {
        let text = format!("job: a/x\n{DEFINITION}");
        let error = gather(&[("f.yaml", &text), ("g.yml", &format!("---\n{text}"))]).unwrap_err();
        assert_eq!(error, "g.yml:2: job a/x stands already at f.yaml:1");
    }

    #[test]
    fn a_calendar_stands_beside_a_job_of_the_same_name() {
        let text = format!("job: a/x\n{DEFINITION}---\ncalendar: a/x\nexclude: [{{easter: 0}}]\n");
        let documents = gather(&[("f.yaml", &text)]).unwrap();
        let kinds: Vec<_> = documents.iter().map(|document| document.kind).collect();
        assert_eq!(kinds, [Kind::Job, Kind::Calendar]);
        assert_eq!(documents[1].body, r#"{"exclude":[{"easter":0}]}"#);
        let error = gather(&[(
            "f.yaml",
            "calendar: a/x\n---\ncalendar: a/x\n---\njob: a/y\ncalendar: a/y\n",
        )]);
        let error = error.unwrap_err();
        assert_eq!(
            error.lines().collect::<Vec<_>>(),
            [
                "f.yaml:3: calendar a/x stands already at f.yaml:1",
                "f.yaml:6: both `job` and `calendar`: a document is one of them"
            ]
        );
    }

    #[test]
    fn every_unreadable_place_is_named_at_once() {
        let error = gather(&[
            ("a.yaml", "job: a/b\n---\ntask: t\n"),
            ("b.yaml", "x: [1\ny: 2"),
            ("c.json", "{\"job\":\"a/c\"}\n{,}"),
            ("d.yaml", "task: t\njob: nightly\n"),
            ("e.json", "{\"job\":1}"),
            ("f.json", "{\"job\":\"a/d\",\"job\":\"a/e\"}"),
        ])
        .unwrap_err();
        let starts: Vec<_> = error.lines().map(|line| line.split(": ").next().unwrap()).collect();
        assert_eq!(
            starts,
            ["a.yaml:3", "b.yaml:2", "c.json:2", "d.yaml:2", "e.json:1", "f.json:1"],
            "{error}"
        );
    }

    #[test]
    fn a_folder_is_read_in_order_and_other_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("sub/.git")).unwrap();
        for (name, job) in
            [("b.yaml", "a/b"), ("a.json", "a/a"), ("sub/c.yml", "a/c"), ("sub/.git/d.yml", "a/d")]
        {
            std::fs::write(folder.path().join(name), format!("{{\"job\": \"{job}\"}}")).unwrap();
        }
        std::fs::write(folder.path().join("README.md"), "not a job").unwrap();
        let documents = read(&[folder.path().to_owned()]).unwrap();
        let jobs: Vec<_> = documents.iter().map(|document| document.job.to_string()).collect();
        assert_eq!(jobs, ["a/a", "a/b", "a/c"]);
    }
}
