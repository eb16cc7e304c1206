//! Reading a definition: a document as far as it could be read, with every fault of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::read::{body_names, read, read_fields, read_name, read_span};
use super::{
    CalendarUse, DEFINITION_MAX_BYTES, DailyWindow, Dialect, Fold, Gap, JITTER_MAX, JobDefinition,
    LABEL_MAX_BYTES, LABELS_MAX, MAX_ATTEMPTS_MAX, Misfire, Overlap, RETENTION_MAX, RETENTION_MIN,
    Schedule, TIMEOUT_MAX, TIMEOUT_MIN, TITLE_MAX_CHARS, Terms, defaults, timing,
};
use crate::command::read_opaque;
use crate::duration::Span;
use crate::fault::{Fault, Faults};
use crate::json::{Fields, Json};
use crate::name::Name;
use crate::time::Timestamp;

/// A definition as far as it could be read, with what is wrong with it.
#[derive(Debug, Default)]
pub struct Draft {
    /// The schedule, where it could be read.
    pub schedule: Option<Schedule>,
    /// The time zone as written.
    pub time_zone: Option<String>,
    /// Whose rules the expressions follow.
    pub dialect: Option<Dialect>,
    /// What is wrong so far.
    pub faults: Faults,
    task: Option<Name>,
    gap: Option<Gap>,
    fold: Option<Fold>,
    calendars: Option<CalendarUse>,
    start: Option<Timestamp>,
    end: Option<Timestamp>,
    windows: Vec<DailyWindow>,
    jitter: Option<Span>,
    misfire: Option<Misfire>,
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

const FIELDS: [&str; 22] = [
    "v",
    "task",
    "queue",
    "params",
    "schedule",
    "time_zone",
    "dialect",
    "gap",
    "fold",
    "calendars",
    "start",
    "end",
    "windows",
    "jitter",
    "misfire",
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
            "schedule" => self.schedule = timing::read_schedule(raw, faults),
            "time_zone" => {
                self.time_zone =
                    read(raw, "$.time_zone", "an IANA name such as \"Europe/Berlin\"", faults);
            }
            "dialect" | "gap" | "fold" | "calendars" | "start" | "end" | "windows" | "jitter"
            | "misfire" => self.read_timing(name, raw, faults),
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

    fn read_timing(&mut self, name: &str, raw: &RawValue, faults: &mut Faults) {
        match name {
            "dialect" => {
                self.dialect = read(raw, "$.dialect", "\"crontab\" or \"quartz\"", faults);
            }
            "gap" => self.gap = read(raw, "$.gap", "\"end\", \"skip\" or \"before\"", faults),
            "fold" => self.fold = read(raw, "$.fold", "\"first\", \"last\" or \"both\"", faults),
            "calendars" => self.calendars = timing::read_calendars(raw, faults),
            "start" => self.start = timing::read_instant(raw, "$.start", faults),
            "end" => self.end = timing::read_instant(raw, "$.end", faults),
            "windows" => self.windows = timing::read_windows(raw, faults),
            "jitter" => {
                let range = Span::from_millis(0)..=JITTER_MAX;
                self.jitter = read_span(raw, "$.jitter", range, faults);
            }
            _ => self.misfire = timing::read_misfire(raw, faults),
        }
        if let (Some(start), Some(end)) = (self.start, self.end)
            && matches!(name, "start" | "end")
            && end <= start
        {
            let expected = format!("an instant after {start}");
            faults.push(Fault::new("$.end", &end.to_string(), "not after `start`", expected));
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
        let terms = Terms {
            task,
            queue: self.queue.unwrap_or_else(defaults::queue),
            time_zone: self.time_zone.unwrap_or_else(defaults::time_zone),
            dialect: self.dialect.unwrap_or_default(),
            gap: self.gap,
            fold: self.fold,
            calendars: self.calendars,
            start: self.start,
            end: self.end,
            windows: self.windows,
            jitter: self.jitter.unwrap_or_default(),
            misfire: self.misfire.unwrap_or_default(),
            timeout: self.timeout.unwrap_or_else(defaults::timeout),
            start_within: self.start_within.unwrap_or_else(defaults::start_within),
            max_attempts: self.max_attempts.unwrap_or_else(defaults::max_attempts),
            overlap: self.overlap.unwrap_or_default(),
            retention: self.retention.unwrap_or_else(defaults::retention),
            labels: self.labels,
        };
        Ok(JobDefinition {
            params: self.params.unwrap_or_else(Json::empty),
            schedule: Arc::new(schedule),
            title: self.title.map(Arc::new),
            terms: Arc::new(terms),
        })
    }
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
    fn a_schedule_is_exactly_one_of_four() {
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

    #[test]
    fn the_calendar_fields_are_read_back_as_they_were() {
        let body = r#"{"task":"a","schedule":{"cron":["0 3 * * *","0 0 9 ? * 2"]},"time_zone":"Europe/Berlin",
            "dialect":"quartz","gap":"before","fold":"last","start":"2027-01-01T00:00:00Z",
            "end":"2028-01-01T00:00:00Z","windows":["09:00-17:00","22:00-02:00"],"jitter":"5m",
            "calendars":{"only":["a/work"],"except":["a/off","b/off"],"shift":"next"},
            "misfire":{"policy":"fire_all","threshold":"5s","limit":7,"window":"1h"}}"#;
        let definition = Draft::decode(body.as_bytes()).finish().unwrap();
        let text = serde_json::to_string(&definition).unwrap();
        assert_eq!(Draft::decode(text.as_bytes()).finish().unwrap(), definition);
        assert_eq!(serde_json::from_str::<super::super::JobDefinition>(&text).unwrap(), definition);
    }

    #[test]
    fn every_calendar_field_names_what_is_wrong_with_it() {
        for (field, path) in [
            (r#""dialect":"cron""#, "$.dialect"),
            (r#""gap":"first""#, "$.gap"),
            (r#""fold":"end""#, "$.fold"),
            (r#""start":"2027-01-01""#, "$.start"),
            (r#""start":"2027-01-02T00:00:00Z","end":"2027-01-01T00:00:00Z""#, "$.end"),
            (r#""windows":"09:00-17:00""#, "$.windows"),
            (r#""windows":["09:00-17:00","9-17"]"#, "$.windows[1]"),
            (r#""jitter":"25h""#, "$.jitter"),
            (r#""jitter":5"#, "$.jitter"),
            (r#""calendars":{}"#, "$.calendars"),
            (r#""calendars":["a/b"]"#, "$.calendars"),
            (r#""calendars":{"only":["holidays"]}"#, "$.calendars.only[0]"),
            (r#""calendars":{"without":["a/b"]}"#, "$.calendars.without"),
            (r#""calendars":{"only":["a/b"],"shift":"back"}"#, "$.calendars.shift"),
            (r#""misfire":"skip""#, "$.misfire"),
            (r#""misfire":{"policy":"all"}"#, "$.misfire.policy"),
            (r#""misfire":{"threshold":"0s"}"#, "$.misfire.threshold"),
            (r#""misfire":{"limit":0}"#, "$.misfire.limit"),
            (r#""misfire":{"limit":1001}"#, "$.misfire.limit"),
            (r#""misfire":{"window":"31d"}"#, "$.misfire.window"),
            (r#""misfire":{"window":"5s"}"#, "$.misfire.window"),
        ] {
            let body = format!(r#"{{"task":"a","schedule":{{"every":"5s"}},{field}}}"#);
            assert_eq!(paths(&body), [path], "{body}");
        }
    }
}
