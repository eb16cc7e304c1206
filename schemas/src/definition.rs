//! The job definition, version 1: what a user publishes to `cron.define.<namespace>.<job>`.
//!
//! Invariant: a [`JobDefinition`] is within every bound named here. Reading one lists every fault of the
//! document at once; a field that is not known is a fault, never ignored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::command::read_opaque;
use crate::duration::{Span, SpanError};
use crate::fault::{Fault, Faults, alike};
use crate::json::{Fields, Json};
use crate::name::{Name, NameError};
use crate::time::Timestamp;

/// The most bytes of a definition in all.
pub const DEFINITION_MAX_BYTES: usize = 256 * 1024;
/// The most starts of a shard, retries and crashes together.
pub const MAX_ATTEMPTS_MAX: u32 = 100;
/// The shortest `every`.
pub const EVERY_MIN: Span = Span::from_secs(1);
/// The longest `every`.
pub const EVERY_MAX: Span = Span::from_secs(366 * 86_400);
/// The shortest timeout and start_within.
pub const TIMEOUT_MIN: Span = Span::from_millis(100);
/// The longest timeout and start_within.
pub const TIMEOUT_MAX: Span = Span::from_secs(30 * 86_400);
/// The shortest retention.
pub const RETENTION_MIN: Span = Span::from_secs(60);
/// The longest retention, and the longest that a run may live with it (`run_by` + retention).
pub const RETENTION_MAX: Span = Span::from_secs(400 * 86_400);
/// The most characters of a title.
pub const TITLE_MAX_CHARS: usize = 200;
/// The most labels.
pub const LABELS_MAX: usize = 32;
/// The most bytes of a label's key, and of its value.
pub const LABEL_MAX_BYTES: (usize, usize) = (64, 256);

/// A job: what runs, when, and by which policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct JobDefinition {
    /// The task that executors know by this name.
    pub task: Name,
    /// The pool of executors. Default `default`.
    #[serde(default = "defaults::queue")]
    pub queue: Name,
    /// Handed to the task bit for bit; any JSON, at most 128 KiB. Default `{}`.
    #[serde(default = "Json::empty")]
    pub params: Json,
    /// When it is due.
    pub schedule: Schedule,
    /// IANA name of the zone that `schedule.cron` is read in. Default `UTC`.
    #[serde(default = "defaults::time_zone")]
    pub time_zone: String,
    /// How long one attempt may take, 100ms–30d. Default `1h`.
    #[serde(default = "defaults::timeout")]
    pub timeout: Span,
    /// How long after its fire a run may start for the first time, 100ms–30d. Default `24h`.
    #[serde(default = "defaults::start_within")]
    pub start_within: Span,
    /// Starts of a run, retries and crashes together, 1–100. Default 3.
    #[serde(default = "defaults::max_attempts")]
    #[schemars(range(min = 1, max = 100))]
    pub max_attempts: u32,
    /// What a slot does while an earlier run is live. Default `skip`.
    #[serde(default)]
    pub overlap: Overlap,
    /// How long results are kept after a run's hard end, 1m–400d. Default `7d`.
    #[serde(default = "defaults::retention")]
    pub retention: Span,
    /// Free text for people, at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 200))]
    pub title: Option<String>,
    /// At most 32 texts of at most 256 bytes under keys of at most 64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub labels: BTreeMap<String, String>,
}

/// When a job is due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// A crontab expression of five fields, or six with seconds first, read in the job's time zone.
    Cron(String),
    /// A fixed interval, 1s–366d, counted from when the interval was first defined.
    Every(Span),
    /// One instant.
    At(Timestamp),
}

/// What a slot does while an earlier run of the job is live.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// The slot is skipped.
    #[default]
    Skip,
    /// The slot fires beside the live run.
    Allow,
}

/// The defaults of `design.md` §5.
pub mod defaults {
    use super::{Name, Span};

    /// `default`.
    #[must_use]
    pub fn queue() -> Name {
        Name::parse("default").expect("a legal name")
    }

    /// `UTC`.
    #[must_use]
    pub fn time_zone() -> String {
        "UTC".into()
    }

    /// One hour.
    #[must_use]
    pub const fn timeout() -> Span {
        Span::from_secs(3_600)
    }

    /// 24 hours.
    #[must_use]
    pub const fn start_within() -> Span {
        Span::from_secs(86_400)
    }

    /// Three.
    #[must_use]
    pub const fn max_attempts() -> u32 {
        3
    }

    /// Seven days.
    #[must_use]
    pub const fn retention() -> Span {
        Span::from_secs(7 * 86_400)
    }
}

/// A definition as far as it could be read, with what is wrong with it.
#[derive(Debug, Default)]
pub struct Draft {
    /// The schedule, where it could be read.
    pub schedule: Option<Schedule>,
    /// The time zone as written.
    pub time_zone: Option<String>,
    /// What is wrong so far.
    pub faults: Faults,
    task: Option<Name>,
    queue: Option<Name>,
    params: Option<Json>,
    timeout: Option<Span>,
    start_within: Option<Span>,
    max_attempts: Option<u32>,
    overlap: Option<Overlap>,
    retention: Option<Span>,
    title: Option<String>,
    labels: BTreeMap<String, String>,
}

const FIELDS: [&str; 13] = [
    "v",
    "task",
    "queue",
    "params",
    "schedule",
    "time_zone",
    "timeout",
    "start_within",
    "max_attempts",
    "overlap",
    "retention",
    "title",
    "labels",
];

impl Draft {
    /// Reads a definition; never fails, but lists what is wrong in `faults`.
    #[must_use]
    pub fn decode(body: &[u8]) -> Self {
        let mut draft = Self::default();
        if body.len() > DEFINITION_MAX_BYTES {
            let problem = format!("the definition has {} bytes", body.len());
            let expected = format!("at most {DEFINITION_MAX_BYTES} bytes");
            draft.faults.push(Fault::new("$", "", problem, expected));
            return draft;
        }
        let mut faults = Faults::default();
        let fields = read_fields(body, "$", &FIELDS, &mut faults);
        let readable = !fields.is_empty() || faults.is_empty();
        for (name, raw) in fields {
            draft.read_field(name, raw, &mut faults);
        }
        if readable {
            for (name, absent) in
                [("task", draft.task.is_none()), ("schedule", draft.schedule.is_none())]
            {
                let path = format!("$.{name}");
                if absent && !body_names(body, name) {
                    faults.push(Fault::new(
                        path,
                        "",
                        "missing",
                        format!("a definition needs `{name}`"),
                    ));
                }
            }
        }
        draft.faults = faults;
        draft
    }

    fn read_field(&mut self, name: &str, raw: &RawValue, faults: &mut Faults) {
        match name {
            "task" => self.task = read_name(raw, "$.task", faults),
            "queue" => self.queue = read_name(raw, "$.queue", faults),
            "params" => self.params = read_opaque(raw, "$.params", faults),
            "schedule" => self.schedule = read_schedule(raw, faults),
            "time_zone" => {
                self.time_zone =
                    read(raw, "$.time_zone", "an IANA name such as \"Europe/Berlin\"", faults);
            }
            "timeout" => {
                self.timeout = read_span(raw, "$.timeout", TIMEOUT_MIN..=TIMEOUT_MAX, faults);
            }
            "start_within" => {
                self.start_within =
                    read_span(raw, "$.start_within", TIMEOUT_MIN..=TIMEOUT_MAX, faults);
            }
            "max_attempts" => self.max_attempts = read_max_attempts(raw, faults),
            "overlap" => {
                self.overlap = read(raw, "$.overlap", "\"skip\" or \"allow\"", faults);
            }
            "retention" => {
                self.retention =
                    read_span(raw, "$.retention", RETENTION_MIN..=RETENTION_MAX, faults);
            }
            "title" => self.title = read_title(raw, faults),
            "labels" => self.labels = read_labels(raw, faults),
            _ => {}
        }
    }

    /// The definition, when nothing is wrong with it.
    ///
    /// # Errors
    /// Every fault.
    pub fn finish(self) -> Result<JobDefinition, Vec<Fault>> {
        let (Some(task), Some(schedule), true) = (self.task, self.schedule, self.faults.is_empty())
        else {
            return Err(self.faults.into_vec());
        };
        Ok(JobDefinition {
            task,
            queue: self.queue.unwrap_or_else(defaults::queue),
            params: self.params.unwrap_or_else(Json::empty),
            schedule,
            time_zone: self.time_zone.unwrap_or_else(defaults::time_zone),
            timeout: self.timeout.unwrap_or_else(defaults::timeout),
            start_within: self.start_within.unwrap_or_else(defaults::start_within),
            max_attempts: self.max_attempts.unwrap_or_else(defaults::max_attempts),
            overlap: self.overlap.unwrap_or_default(),
            retention: self.retention.unwrap_or_else(defaults::retention),
            title: self.title,
            labels: self.labels,
        })
    }
}

fn body_names(body: &[u8], name: &str) -> bool {
    serde_json::from_slice::<Fields<'_>>(body)
        .is_ok_and(|fields| fields.0.iter().any(|(field, _)| field == name))
}

/// Reads an object, checks `v`, and returns the fields that are in `known`; the others, and those that stand
/// twice, are faults.
pub(crate) fn read_fields<'a>(
    body: &'a [u8],
    path: &str,
    known: &'static [&'static str],
    faults: &mut Faults,
) -> Vec<(&'static str, &'a RawValue)> {
    let fields = match serde_json::from_slice::<Fields<'a>>(body) {
        Ok(fields) => fields.0,
        Err(error) => {
            let found = String::from_utf8_lossy(&body[..body.len().min(512)]);
            faults.push(Fault::new(path, &found, error.to_string(), "a JSON object"));
            return Vec::new();
        }
    };
    let mut seen = Vec::with_capacity(fields.len().min(known.len()));
    for (name, raw) in fields {
        let at = format!("{path}.{name}");
        let Some(name) = known.iter().copied().find(|field| *field == name) else {
            faults.push(Fault::new(at, raw.get(), "unknown field", expected_field(&name, known)));
            continue;
        };
        if seen.iter().any(|(other, _)| *other == name) {
            faults.push(Fault::new(at, raw.get(), "stands twice", "each field once"));
        } else if name == "v" && raw.get() != "1" {
            faults.push(Fault::new(at, raw.get(), "unknown version", "1, or no field `v`"));
        } else {
            seen.push((name, raw));
        }
    }
    seen
}

fn expected_field(name: &str, known: &[&str]) -> String {
    match alike(name, known) {
        Some(field) => format!("did you mean `{field}`?"),
        None => format!("one of {}", known.join(", ")),
    }
}

fn read<'a, T: Deserialize<'a>>(
    raw: &'a RawValue,
    path: &str,
    expected: &str,
    faults: &mut Faults,
) -> Option<T> {
    serde_json::from_str(raw.get())
        .inspect_err(|_| {
            faults.push(Fault::new(path, raw.get(), "not of the right form", expected))
        })
        .ok()
}

fn read_name(raw: &RawValue, path: &str, faults: &mut Faults) -> Option<Name> {
    let text: String = read(raw, path, NameError::HINT, faults)?;
    Name::parse(&text)
        .inspect_err(|e| faults.push(Fault::new(path, raw.get(), e.to_string(), NameError::HINT)))
        .ok()
}

fn read_span(
    raw: &RawValue,
    path: &str,
    range: std::ops::RangeInclusive<Span>,
    faults: &mut Faults,
) -> Option<Span> {
    if raw.get().starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        let expected =
            format!("a text with a unit, such as \"{}s\"", raw.get().trim_start_matches('-'));
        faults.push(Fault::new(path, raw.get(), "a number has no unit", expected));
        return None;
    }
    let text: String = read(raw, path, SpanError::HINT, faults)?;
    match text.parse::<Span>() {
        Ok(span) if range.contains(&span) => Some(span),
        Ok(_) => {
            let expected = format!("{} to {}", range.start(), range.end());
            faults.push(Fault::new(path, raw.get(), "out of range", expected));
            None
        }
        Err(error) => {
            faults.push(Fault::new(path, raw.get(), error.to_string(), SpanError::HINT));
            None
        }
    }
}

fn read_schedule(raw: &RawValue, faults: &mut Faults) -> Option<Schedule> {
    const EXPECTED: &str = "exactly one of {\"cron\": \"0 3 * * *\"}, {\"every\": \"90s\"}, {\"at\": \"2027-01-31T03:00:00Z\"}";
    if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
        faults.push(text_for_schedule(raw, &text, EXPECTED));
        return None;
    }
    let before = faults.clone();
    let fields = read_fields(raw.get().as_bytes(), "$.schedule", &["cron", "every", "at"], faults);
    let [(name, value)] = fields[..] else {
        if *faults == before {
            faults.push(Fault::new("$.schedule", raw.get(), "not one schedule", EXPECTED));
        }
        return None;
    };
    match name {
        "cron" => read(value, "$.schedule.cron", "a text such as \"0 3 * * *\"", faults)
            .map(Schedule::Cron),
        "every" => {
            read_span(value, "$.schedule.every", EVERY_MIN..=EVERY_MAX, faults).map(Schedule::Every)
        }
        _ => {
            let expected = "an RFC 3339 instant with an offset, such as \"2027-01-31T03:00:00Z\"";
            read(value, "$.schedule.at", expected, faults).map(Schedule::At)
        }
    }
}

/// A text that stands where a schedule has to: most likely the expression, without its braces.
fn text_for_schedule(raw: &RawValue, text: &str, expected: &str) -> Fault {
    let kind = if text.parse::<Span>().is_ok() {
        Some("every")
    } else if text.parse::<Timestamp>().is_ok() {
        Some("at")
    } else if text.starts_with('@') || (5..=6).contains(&text.split_whitespace().count()) {
        Some("cron")
    } else {
        None
    };
    let expected = kind
        .map(|kind| format!("write {{\"{kind}\": {}}}", raw.get()))
        .unwrap_or_else(|| expected.to_owned());
    Fault::new("$.schedule", raw.get(), "a text, not a schedule", expected)
}

fn read_max_attempts(raw: &RawValue, faults: &mut Faults) -> Option<u32> {
    let number = serde_json::from_str::<u32>(raw.get()).ok();
    let number = number.filter(|n| (1..=MAX_ATTEMPTS_MAX).contains(n));
    if number.is_none() {
        let expected = format!("a whole number from 1 to {MAX_ATTEMPTS_MAX}");
        faults.push(Fault::new("$.max_attempts", raw.get(), "out of range", expected));
    }
    number
}

fn read_title(raw: &RawValue, faults: &mut Faults) -> Option<String> {
    const EXPECTED: &str = "a text of at most 200 characters";
    let title: String = read(raw, "$.title", EXPECTED, faults)?;
    if title.chars().count() > TITLE_MAX_CHARS {
        faults.push(Fault::new("$.title", raw.get(), "too long", EXPECTED));
        return None;
    }
    Some(title)
}

fn read_labels(raw: &RawValue, faults: &mut Faults) -> BTreeMap<String, String> {
    const EXPECTED: &str =
        "an object of at most 32 texts of at most 256 bytes, under keys of 1 to 64 bytes";
    let Some(fields) = read::<Fields<'_>>(raw, "$.labels", EXPECTED, faults) else {
        return BTreeMap::new();
    };
    if fields.0.len() > LABELS_MAX {
        let problem = format!("{} labels", fields.0.len());
        faults.push(Fault::new("$.labels", raw.get(), problem, EXPECTED));
        return BTreeMap::new();
    }
    let mut labels = BTreeMap::new();
    for (key, value) in fields.0 {
        let path = format!("$.labels.{key}");
        let Some(text) = read::<String>(value, &path, "a text", faults) else { continue };
        if key.is_empty() || key.len() > LABEL_MAX_BYTES.0 || text.len() > LABEL_MAX_BYTES.1 {
            faults.push(Fault::new(path, value.get(), "too long or without a key", EXPECTED));
        } else if labels.insert(key, text).is_some() {
            faults.push(Fault::new(path, value.get(), "stands twice", "each label once"));
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(body: &str) -> Vec<(String, String)> {
        let faults = Draft::decode(body.as_bytes()).finish().unwrap_err();
        faults.into_iter().map(|fault| (fault.path, fault.expected)).collect()
    }

    fn paths(body: &str) -> Vec<String> {
        faults(body).into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn the_smallest_definition_takes_every_default() {
        let body = br#"{"task":"report","schedule":{"every":"5s"}}"#;
        let definition = Draft::decode(body).finish().unwrap();
        assert_eq!(definition.queue.as_str(), "default");
        assert_eq!((definition.timeout.to_string(), definition.max_attempts), ("1h".into(), 3));
        let text = serde_json::to_string(&definition).unwrap();
        assert_eq!(Draft::decode(text.as_bytes()).finish().unwrap(), definition);
    }

    #[test]
    fn every_fault_is_listed_at_once() {
        let body = r#"{"task":"a.b","queue":7,"shedule":{},"timeout":90,"max_attempts":0,
            "overlap":"queue","retention":"1s","labels":{"k":1},"title":"t","title":"u","v":3}"#;
        assert_eq!(
            paths(body),
            [
                "$.shedule",
                "$.title",
                "$.v",
                "$.task",
                "$.queue",
                "$.timeout",
                "$.max_attempts",
                "$.overlap",
                "$.retention",
                "$.labels.k",
                "$.schedule"
            ]
        );
    }

    #[test]
    fn a_bare_number_is_refused_with_the_unit_to_write() {
        let body = r#"{"task":"a","schedule":{"every":"5s"},"timeout":90}"#;
        assert_eq!(
            faults(body),
            [("$.timeout".into(), "a text with a unit, such as \"90s\"".into())]
        );
    }

    #[test]
    fn a_schedule_is_exactly_one_of_three() {
        for schedule in [
            r#"{}"#,
            r#""* * * * *""#,
            r#"{"cron":"* * * * *","every":"5s"}"#,
            r#"{"every":5}"#,
            r#"{"every":"10ms"}"#,
            r#"{"at":"2027-01-31"}"#,
            r#"{"cron":5}"#,
            "null",
            "[]",
        ] {
            let body = format!(r#"{{"task":"a","schedule":{schedule}}}"#);
            let paths = paths(&body);
            assert!(paths.len() == 1 && paths[0].starts_with("$.schedule"), "{body}: {paths:?}");
        }
    }

    #[test]
    fn a_schedule_that_is_a_text_is_told_how_to_write_it() {
        for (text, right) in [
            ("* * * * *", r#"write {"cron": "* * * * *"}"#),
            ("@daily", r#"write {"cron": "@daily"}"#),
            ("90s", r#"write {"every": "90s"}"#),
            ("2027-01-31T03:00:00Z", r#"write {"at": "2027-01-31T03:00:00Z"}"#),
        ] {
            let body = format!(r#"{{"task":"a","schedule":"{text}"}}"#);
            assert_eq!(faults(&body), [("$.schedule".into(), right.into())]);
        }
    }

    #[test]
    fn what_is_no_object_is_one_fault() {
        for body in ["", "{", "[]", "null", "\u{0}", "{\"task\":\"a\"}}", &"[".repeat(100_000)] {
            assert_eq!(paths(body), ["$"], "{body:.40}");
        }
        let deep = format!(r#"{{"task":"a","schedule":{}}}"#, "[".repeat(100_000));
        assert_eq!(paths(&deep), ["$"]);
    }

    #[test]
    fn params_above_128_kib_are_refused_and_echoed_short() {
        let body = format!(
            r#"{{"task":"a","schedule":{{"every":"5s"}},"params":"{}"}}"#,
            "x".repeat(128 * 1024)
        );
        let fault = Draft::decode(body.as_bytes()).finish().unwrap_err().remove(0);
        assert_eq!((fault.path.as_str(), fault.problem.as_str()), ("$.params", "131074 bytes"));
        assert!(fault.value.len() <= 256);
    }

    #[test]
    fn deeply_nested_params_pass_unread() {
        let params = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let body = format!(r#"{{"task":"a","schedule":{{"every":"5s"}},"params":{params}}}"#);
        assert_eq!(Draft::decode(body.as_bytes()).finish().unwrap().params.as_str(), params);
    }
}
