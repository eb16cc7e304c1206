//! Names of namespaces, jobs, tasks, queues and nodes, and the address of a job.
//!
//! Invariant: a [`Name`] is one NATS subject token that every part of the system can use as it is
//! (`design.md` §1): a letter or digit, then letters, digits, `_` and `-`, 64 bytes at most.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest name, in bytes.
pub const NAME_MAX_BYTES: usize = 64;

/// A namespace, job, task, queue or node name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

/// Why a text is no [`Name`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is empty.
    #[error("name is empty")]
    Empty,
    /// The text is longer than [`NAME_MAX_BYTES`].
    #[error("name has {0} bytes, at most {NAME_MAX_BYTES} are allowed")]
    TooLong(usize),
    /// The text has a character that a name cannot hold.
    #[error("name {name:?} has {found:?} at byte {at}")]
    Character {
        /// The text, cut to 64 characters.
        name: String,
        /// The first character that is refused.
        found: char,
        /// Its byte offset.
        at: usize,
    },
}

impl NameError {
    /// What would be right.
    pub const HINT: &'static str = "a name is a letter or digit, then letters, digits, `_` or `-`, \
         64 bytes at most; free text goes in `title`";
}

impl Name {
    /// Parses a name.
    ///
    /// # Errors
    /// [`NameError`] names the first thing that is wrong.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > NAME_MAX_BYTES {
            return Err(NameError::TooLong(text.len()));
        }
        let legal = |(at, c): &(usize, char)| {
            c.is_ascii_alphanumeric() || (*at > 0 && (*c == '_' || *c == '-'))
        };
        match text.char_indices().find(|c| !legal(c)) {
            Some((at, found)) => {
                Err(NameError::Character { name: text.chars().take(64).collect(), found, at })
            }
            None => Ok(Self(Arc::from(text))),
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse(text)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::read(deserializer)
    }
}

impl schemars::JsonSchema for Name {
    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$",
        })
    }
}

/// The address of a job: `<namespace>/<name>`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId {
    /// Who owns the job; permissions are given by namespace.
    pub namespace: Name,
    /// The job's name in its namespace.
    pub name: Name,
}

/// Why a text is no [`JobId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobIdError {
    /// There is not exactly one `/`.
    #[error("job {0:?} is not of the form namespace/name")]
    Form(String),
    /// One of the two names is no name.
    #[error("{part}: {source}")]
    Name {
        /// `namespace` or `job`.
        part: &'static str,
        /// What is wrong with it.
        source: NameError,
    },
}

impl JobId {
    /// Parses the two names.
    ///
    /// # Errors
    /// [`JobIdError::Name`] says which one is wrong.
    pub fn parse(namespace: &str, name: &str) -> Result<Self, JobIdError> {
        let part =
            |part, text| Name::parse(text).map_err(|source| JobIdError::Name { part, source });
        Ok(Self { namespace: part("namespace", namespace)?, name: part("job", name)? })
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.namespace.as_str())?;
        f.write_str("/")?;
        f.write_str(self.name.as_str())
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for JobId {
    type Err = JobIdError;

    fn from_str(text: &str) -> Result<Self, JobIdError> {
        match text.split_once('/') {
            Some((namespace, name)) if !name.contains('/') => Self::parse(namespace, name),
            _ => Err(JobIdError::Form(text.chars().take(160).collect())),
        }
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::read(deserializer)
    }
}

impl schemars::JsonSchema for JobId {
    fn schema_name() -> Cow<'static, str> {
        "JobId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}/[A-Za-z0-9][A-Za-z0-9_-]{0,63}$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_subject_metacharacters_are_refused_by_the_character() {
        for (text, found, at) in
            [("a.b", '.', 1), ("a.*", '.', 1), ("*", '*', 0), ("-a", '-', 0), ("naïve", 'ï', 2)]
        {
            let error = Name::parse(text).unwrap_err();
            assert_eq!(error, NameError::Character { name: text.into(), found, at }, "{text}");
        }
        assert_eq!(Name::parse(&"a".repeat(300)), Err(NameError::TooLong(300)));
        assert_eq!(Name::parse(""), Err(NameError::Empty));
        assert!(Name::parse(&"a".repeat(64)).is_ok());
    }

    #[test]
    fn a_job_id_is_two_names() {
        let job: JobId = "billing/nightly".parse().unwrap();
        assert_eq!((job.namespace.as_str(), job.name.as_str()), ("billing", "nightly"));
        for text in ["billing", "a/b/c", "/b", "a/", "a/b c"] {
            assert!(text.parse::<JobId>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_of_digits_is_a_text_and_no_number() {
        let names = ["2", "02", "2e0"].map(|text| Name::parse(text).unwrap());
        assert_eq!(names.each_ref().map(Name::as_str), ["2", "02", "2e0"]);
        assert!(serde_json::from_str::<Name>("2").is_err());
        assert_eq!(serde_json::to_string(&names[0]).unwrap(), "\"2\"");
    }
}
