//! `import`: definitions from what another scheduler keeps in files.
//!
//! ```text
//!   crontab ─┐                          ┌─► definitions (YAML with comments, or JSON lines)
//!   k8s      ├─► Imported ─ names, check ┤
//!   quartz ──┘                          └─► tasks file of an executor (--tasks)
//! ```
//!
//! Invariant: what is written as a definition is accepted by `apply`; whatever the source says beyond that stands
//! beside it as a comment, and what cannot be a job at all is written as a comment with its reason. The input is
//! somebody else's: bounded, and never trusted.

mod crontab;
mod found;
mod k8s;
mod names;
mod quartz;
mod quartz_xml;
mod schedule;
mod write;

use std::fs::{File, OpenOptions};
use std::io::{Read, Write as _};
use std::path::Path;

use crate::args::{self, ImportFrom};
use crate::bounded;
use crate::error::Error;
use crate::import::found::{Imported, Settings};
use crate::output::count;
use crate::session::Session;

/// The most bytes of a file that is imported.
const FILE_MAX_BYTES: u64 = 16 * 1024 * 1024;

pub(crate) fn import(session: &Session, wanted: &args::Import) -> Result<(), Error> {
    let text = read(wanted)?;
    let settings = Settings {
        namespace: wanted.namespace.clone(),
        queue: wanted.queue.clone(),
        time_zone: wanted.time_zone.clone(),
        with_user: wanted.user || crontab::is_of_system(&wanted.file),
    };
    let named = |problem| Error::Documents(vec![format!("{}:{problem}", wanted.file.display())]);
    let imported = match wanted.from {
        ImportFrom::Crontab => crontab::read(&text, &settings),
        ImportFrom::K8s => k8s::read(&text, &settings),
        ImportFrom::Quartz => quartz::read(&text, &settings),
    };
    let jobs = imported.map_err(named)?.finish(&settings);
    let json = session.json || wanted.format == args::ImportFormat::Json;
    let text = if json { write::json(&jobs) } else { write::yaml(&jobs, wanted.from) };
    session.out.text(text.trim_end())?;
    if json {
        write::remarks(&jobs).for_each(|remark| session.out.talk(&remark));
    }
    if let Some(tasks) = &wanted.tasks {
        write_new(tasks, &write::tasks(&jobs))?;
    }
    let (jobs, left_out) = (jobs.accepted() as u64, jobs.left_out() as u64);
    if jobs == 0 && left_out > 0 {
        return Err(Error::NothingImported { path: wanted.file.clone(), left_out });
    }
    session.out.talk(&format!("{}, {left_out} left out", count(jobs, "job")));
    Ok(())
}

fn read(wanted: &args::Import) -> Result<String, Error> {
    let file = &wanted.file;
    let from: std::io::Result<Box<dyn Read>> = if file.as_os_str() == "-" {
        Ok(Box::new(std::io::stdin()))
    } else {
        File::open(file).map(|open| Box::new(open) as Box<dyn Read>)
    };
    let text = from.and_then(|from| match wanted.from {
        // Cron takes lines of bytes: one that is no text spoils that line alone.
        ImportFrom::Crontab => bounded::read_bytes(from, FILE_MAX_BYTES)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        ImportFrom::K8s | ImportFrom::Quartz => bounded::read_text(from, FILE_MAX_BYTES),
    });
    text.map_err(|source| Error::File { path: file.clone(), source })
}

/// Writes a file that is not there yet: what stands in an older one may have been edited.
fn write_new(file: &Path, text: &str) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    let written = options.write(true).create_new(true).open(file);
    written
        .and_then(|mut open| open.write_all(text.as_bytes()))
        .map_err(|source| Error::Unwritable { path: file.to_owned(), source })
}

/// Why a file cannot be imported at all: its line, from 1, and what is wrong.
type Unreadable = String;

/// An import that is read, or the line and problem that ends it.
type Outcome = Result<Imported, Unreadable>;

#[cfg(test)]
mod tests;
