//! NATS subjects and stream names, built and parsed in one place.
//!
//! Invariant: every subject of an installation starts with its [`Prefix`], and what `parse` accepts is
//! exactly what the builders make.

use std::fmt;
use std::str::FromStr;

use crate::calendar::CalendarId;
use crate::command::Verb;
use crate::id::{Partition, RunId, ShardId};
use crate::name::{JobId, JobIdError, Name};
use crate::time::Timestamp;

/// The first token of an installation's subjects; names its streams, bucket and services too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Prefix(String);

/// A text that is no prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "prefix {0:?} is not a lower-case letter followed by at most 15 lower-case letters or digits"
)]
pub struct PrefixError(String);

/// Why a subject does not name what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// The subject has another number of tokens or another fixed token.
    #[error("subject {0:?} is not of the form {1}")]
    Form(String, &'static str),
    /// The job's names are wrong.
    #[error("subject {0:?}: {1}")]
    Job(String, JobIdError),
}

/// One shard's address in CRON_RUNS and CRON_DEAD.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunKey {
    /// The queue that runs it.
    pub queue: Name,
    /// Its job.
    pub job: JobId,
    /// The run and shard.
    pub shard: ShardId,
}

impl Default for Prefix {
    fn default() -> Self {
        Self("cron".into())
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let mut chars = text.chars();
        let first = chars.next().is_some_and(|c| c.is_ascii_lowercase());
        let rest = chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        if first && rest && text.len() <= 16 {
            Ok(Self(text.to_owned()))
        } else {
            Err(PrefixError(text.chars().take(64).collect()))
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Prefix {
    /// The prefix as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The stream or bucket `kind` (`COMMANDS`, `LOG`, `RUNS`, `DEAD`, `TRACES`, `LEASES`) of this installation.
    #[must_use]
    pub fn stream(&self, kind: &str) -> String {
        format!("{}_{kind}", self.0.to_ascii_uppercase())
    }

    /// Where a command for a job is published.
    #[must_use]
    pub fn command(&self, verb: Verb, job: &JobId) -> String {
        format!("{self}.{verb}.{}.{}", job.namespace, job.name)
    }

    /// A job's state.
    #[must_use]
    pub fn job(&self, job: &JobId) -> String {
        self.of_job("job", job)
    }

    /// A job's accepted revisions.
    #[must_use]
    pub fn history(&self, job: &JobId) -> String {
        self.of_job("history", job)
    }

    /// Slots of a job that do not fire.
    #[must_use]
    pub fn skipped(&self, job: &JobId) -> String {
        self.of_job("skipped", job)
    }

    /// Commands for a job that were refused; `None` where no job could be made out.
    #[must_use]
    pub fn rejected(&self, job: Option<&JobId>) -> String {
        match job {
            Some(job) => self.of_job("rejected", job),
            None => format!("{self}.rejected._._"),
        }
    }

    /// A fire for a queue.
    #[must_use]
    pub fn fire(&self, queue: &Name, job: &JobId) -> String {
        let (namespace, name) = (job.namespace.as_str(), job.name.as_str());
        [&self.0, ".fire.", queue.as_str(), ".", namespace, ".", name].concat()
    }

    /// Whether a subject is that of fires of a job for a queue.
    #[must_use]
    pub fn is_fire(&self, subject: &str, queue: &Name, job: &JobId) -> bool {
        let JobId { namespace, name } = job;
        let tokens = [self.as_str(), "fire", queue.as_str(), namespace.as_str(), name.as_str()];
        subject.split('.').eq(tokens)
    }

    /// Every fire of a queue.
    #[must_use]
    pub fn fires(&self, queue: &Name) -> String {
        format!("{self}.fire.{queue}.>")
    }

    /// A slot that may not fire yet.
    #[must_use]
    pub fn held(&self, job: &JobId, slot: Timestamp) -> String {
        format!("{}.{}", self.of_job("held", job), slot.as_millis())
    }

    /// Slots of a job that wait as one range: a catch-up or a backfill.
    #[must_use]
    pub fn held_range(&self, job: &JobId, range: &str) -> String {
        format!("{}.{range}", self.of_job("held", job))
    }

    /// A calendar's state.
    #[must_use]
    pub fn calendar(&self, calendar: &CalendarId) -> String {
        self.of_job("object.calendar", calendar)
    }

    /// A calendar's accepted versions.
    #[must_use]
    pub fn calendar_history(&self, calendar: &CalendarId) -> String {
        self.of_job("object-history.calendar", calendar)
    }

    /// A partition's cursor.
    #[must_use]
    pub fn cursor(&self, partition: Partition) -> String {
        format!("{self}.cursor.{}", partition.0)
    }

    /// Where the spans of a kind of node are published.
    #[must_use]
    pub fn trace(&self, service: &str) -> String {
        format!("{self}.trace.{service}")
    }

    /// The installation's own settings.
    #[must_use]
    pub fn meta(&self) -> String {
        format!("{self}.meta")
    }

    /// The events of one shard of a run.
    #[must_use]
    pub fn run(&self, key: &RunKey) -> String {
        self.of_run("run", key)
    }

    /// The dead letter of one shard of a run.
    #[must_use]
    pub fn dead(&self, key: &RunKey) -> String {
        self.of_run("dead", key)
    }

    /// Every event of one run, whatever its queue.
    #[must_use]
    pub fn runs_of(&self, job: &JobId, run: Option<RunId>) -> String {
        let run = run.map_or_else(|| "*".to_owned(), |run| run.to_string());
        format!("{self}.run.*.{}.{}.{run}.*", job.namespace, job.name)
    }

    fn of_job(&self, kind: &str, job: &JobId) -> String {
        [&self.0, ".", kind, ".", job.namespace.as_str(), ".", job.name.as_str()].concat()
    }

    fn of_run(&self, kind: &str, key: &RunKey) -> String {
        let RunKey { queue, job, shard } = key;
        format!(
            "{self}.{kind}.{queue}.{}.{}.{}.{}",
            job.namespace, job.name, shard.run, shard.shard
        )
    }

    /// The verb and job of a command's subject.
    ///
    /// # Errors
    /// When the subject is not `<prefix>.<verb>.<namespace>.<job>`.
    pub fn parse_command(&self, subject: &str) -> Result<(Verb, JobId), SubjectError> {
        const FORM: &str = "<prefix>.<verb>.<namespace>.<job>";
        let form = || SubjectError::Form(subject.chars().take(256).collect(), FORM);
        let tokens: Vec<&str> = subject.split('.').collect();
        let [prefix, verb, namespace, name] = tokens[..] else { return Err(form()) };
        let verb = verb.parse::<Verb>().map_err(|()| form())?;
        if prefix != self.0 {
            return Err(form());
        }
        let job = JobId::parse(namespace, name)
            .map_err(|e| SubjectError::Job(subject.chars().take(256).collect(), e))?;
        Ok((verb, job))
    }

    /// The job of a subject `<prefix>.<kind>.<namespace>.<job>…`, where `skip` tokens lie between kind and
    /// namespace.
    #[must_use]
    pub fn parse_job(&self, subject: &str, kind: &str, skip: usize) -> Option<JobId> {
        let mut tokens = subject.split('.');
        if tokens.next() != Some(&self.0) || tokens.next() != Some(kind) {
            return None;
        }
        let mut tokens = tokens.skip(skip);
        JobId::parse(tokens.next()?, tokens.next()?).ok()
    }

    /// The shard of a subject of CRON_RUNS or CRON_DEAD.
    #[must_use]
    pub fn parse_run(&self, subject: &str) -> Option<RunKey> {
        let mut tokens = subject.split('.');
        if tokens.next() != Some(&self.0) || !matches!(tokens.next()?, "run" | "dead") {
            return None;
        }
        let queue = Name::parse(tokens.next()?).ok()?;
        let job = JobId::parse(tokens.next()?, tokens.next()?).ok()?;
        let (run, number) = (tokens.next()?, tokens.next()?);
        let shard = ShardId { run: run.parse().ok()?, shard: number.parse().ok()? };
        // An id and a number can be written in other ways too, which are no subjects of ours.
        let mut canonical = [0; uuid::fmt::Hyphenated::LENGTH];
        let is_canonical = shard.run.0.hyphenated().encode_lower(&mut canonical) == run
            && shard.shard.to_string() == number;
        (is_canonical && tokens.next().is_none()).then_some(RunKey { queue, job, shard })
    }

    /// The partition of a cursor's subject.
    #[must_use]
    pub fn parse_cursor(&self, subject: &str) -> Option<Partition> {
        let number = subject.strip_prefix(&self.0)?.strip_prefix(".cursor.")?;
        number.parse().ok().map(Partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_subject_names_verb_and_job() {
        let prefix = Prefix::default();
        let (verb, job) = prefix.parse_command("cron.define.billing.nightly").unwrap();
        assert_eq!((verb, job.to_string().as_str()), (Verb::Define, "billing/nightly"));
        for wrong in [
            "cron.define.billing",
            "cron.define.a.b.c",
            "x.define.a.b",
            "cron.job.a.b",
            "cron.define.a._",
        ] {
            assert!(prefix.parse_command(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_fire_is_known_by_its_subject() {
        let prefix = Prefix::default();
        let (queue, job) = ("q".parse().unwrap(), "a/b".parse().unwrap());
        assert!(prefix.is_fire(&prefix.fire(&queue, &job), &queue, &job));
        for wrong in ["cron.fire.q.a", "cron.fire.q.a.b.c", "cron.run.q.a.b", "x.fire.q.a.b", ""] {
            assert!(!prefix.is_fire(wrong, &queue, &job), "{wrong}");
        }
    }

    #[test]
    fn a_run_subject_parses_back_and_only_in_its_canonical_form() {
        let prefix: Prefix = "acme2".parse().unwrap();
        let run = "01a3185c-507b-8d05-ac6c-fdd1ec25513c";
        let subject = format!("acme2.run.reports.billing.nightly.{run}.0");
        let key = prefix.parse_run(&subject).unwrap();
        assert_eq!(prefix.run(&key), subject);
        assert_eq!(prefix.parse_run(&prefix.dead(&key)), Some(key));
        for wrong in [
            subject.replace("-", ""),
            subject.to_uppercase(),
            format!("{subject}0"),
            subject.replace(".0", ".+0"),
            subject.replace(".0", ".00"),
            subject.replace(".run.", ".fire."),
            format!("{subject}.0"),
            format!("x{subject}"),
        ] {
            assert_eq!(prefix.parse_run(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn prefixes_are_short_lower_case_tokens() {
        assert_eq!("cron".parse::<Prefix>().unwrap().stream("LOG"), "CRON_LOG");
        for wrong in ["", "Cron", "1a", "a.b", "a_b", "abcdefghijklmnopq"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }
}
