//! Commands: what people and programs publish to CRON_COMMANDS.
//!
//! Invariant: decoding never panics and lists every fault of a body at once.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::calendar::CalendarDefinition;
use crate::definition::{Draft, read, read_fields};
use crate::fault::{Fault, Faults};
use crate::id::RunId;
use crate::json::{Json, OPAQUE_MAX_BYTES};
use crate::time::Timestamp;

/// The most bytes of a trigger's key.
pub const KEY_MAX_BYTES: usize = 128;

/// What a command asks for; the second token of its subject.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Create a job or put a new revision of it in force.
    Define,
    /// End a job's life; runs already out go on.
    Delete,
    /// Let no slot of the job fire until it is resumed.
    Pause,
    /// End a pause.
    Resume,
    /// Run the job now, whatever its schedule says.
    Trigger,
    /// End a run.
    Cancel,
    /// Let the job's next slot, or the one named, not fire.
    Skip,
    /// Let the job's next slot, or the one named, fire at another instant.
    Shift,
    /// Run past slots again, each under the revision in force then.
    Backfill,
    /// Create a calendar or put a new version of it in force.
    Calendar,
    /// End a calendar's life.
    CalendarDelete,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 11] = [
        Self::Define,
        Self::Delete,
        Self::Pause,
        Self::Resume,
        Self::Trigger,
        Self::Cancel,
        Self::Skip,
        Self::Shift,
        Self::Backfill,
        Self::Calendar,
        Self::CalendarDelete,
    ];

    /// Whether it is addressed to a calendar; the others are to a job.
    #[must_use]
    pub const fn is_of_calendar(self) -> bool {
        matches!(self, Self::Calendar | Self::CalendarDelete)
    }

    /// The verb's token.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Define => "define",
            Self::Delete => "delete",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Trigger => "trigger",
            Self::Cancel => "cancel",
            Self::Skip => "skip",
            Self::Shift => "shift",
            Self::Backfill => "backfill",
            Self::Calendar => "calendar",
            Self::CalendarDelete => "calendar-delete",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Verb {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == text).ok_or(())
    }
}

/// The body of a trigger; an empty body is a trigger with the job's own params and no key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Trigger {
    /// Params of this run in place of the job's, at most 128 KiB.
    #[serde(
        default,
        deserialize_with = "crate::json::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub params: Option<Json>,
    /// Makes the trigger idempotent: a second one with the same key starts nothing. 1–128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub key: Option<String>,
}

/// The body of a cancel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Cancel {
    /// The run to end.
    pub run: RunId,
}

/// The body of a skip; an empty body is the next slot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Skip {
    /// The slot; absent for the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<Timestamp>,
}

/// The body of a shift.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Shift {
    /// The slot; absent for the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<Timestamp>,
    /// When it is due instead: an instant to come.
    pub to: Timestamp,
}

/// The body of a backfill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Backfill {
    /// The first instant whose slots run again.
    pub from: Timestamp,
    /// The last instant whose slots run again; it has passed.
    pub to: Timestamp,
}

/// A decoded command.
#[derive(Debug)]
pub enum Command {
    /// A definition, not yet checked against the calendar.
    Define(Box<Draft>),
    /// See [`Verb::Delete`].
    Delete,
    /// See [`Verb::Pause`].
    Pause,
    /// See [`Verb::Resume`].
    Resume,
    /// See [`Verb::Trigger`].
    Trigger(Trigger),
    /// See [`Verb::Cancel`].
    Cancel(Cancel),
    /// See [`Verb::Skip`].
    Skip(Skip),
    /// See [`Verb::Shift`].
    Shift(Shift),
    /// See [`Verb::Backfill`].
    Backfill(Backfill),
    /// See [`Verb::Calendar`].
    Calendar(Box<CalendarDefinition>),
    /// See [`Verb::CalendarDelete`].
    CalendarDelete,
}

impl Command {
    /// Decodes a command's body.
    ///
    /// # Errors
    /// Every fault of the body. A definition's faults stay in its [`Draft`], where those of the calendar
    /// join them.
    pub fn decode(verb: Verb, body: &[u8]) -> Result<Self, Vec<Fault>> {
        match verb {
            Verb::Define => Ok(Self::Define(Box::new(Draft::decode(body)))),
            Verb::Delete => decode_empty(body).map(|()| Self::Delete),
            Verb::Pause => decode_empty(body).map(|()| Self::Pause),
            Verb::Resume => decode_empty(body).map(|()| Self::Resume),
            Verb::Trigger => decode_trigger(body).map(Self::Trigger),
            Verb::Cancel => decode_cancel(body).map(Self::Cancel),
            Verb::Skip => decode_skip(body).map(Self::Skip),
            Verb::Shift => decode_shift(body).map(Self::Shift),
            Verb::Backfill => decode_backfill(body).map(Self::Backfill),
            Verb::Calendar => {
                CalendarDefinition::decode(body).map(|it| Self::Calendar(Box::new(it)))
            }
            Verb::CalendarDelete => decode_empty(body).map(|()| Self::CalendarDelete),
        }
    }
}

fn finish<T>(value: T, faults: Faults) -> Result<T, Vec<Fault>> {
    if faults.is_empty() { Ok(value) } else { Err(faults.into_vec()) }
}

fn decode_empty(body: &[u8]) -> Result<(), Vec<Fault>> {
    let mut faults = Faults::default();
    if !body.trim_ascii().is_empty() {
        read_fields(body, "$", &["v"], &mut faults);
    }
    finish((), faults)
}

fn decode_trigger(body: &[u8]) -> Result<Trigger, Vec<Fault>> {
    let mut trigger = Trigger::default();
    let mut faults = Faults::default();
    if body.trim_ascii().is_empty() {
        return Ok(trigger);
    }
    for (name, raw) in read_fields(body, "$", &["v", "params", "key"], &mut faults) {
        match name {
            "params" => trigger.params = read_opaque(raw, "$.params", &mut faults),
            "key" => trigger.key = read_key(raw, &mut faults),
            _ => {}
        }
    }
    finish(trigger, faults)
}

fn decode_cancel(body: &[u8]) -> Result<Cancel, Vec<Fault>> {
    const EXPECTED: &str =
        "the id of a run, such as {\"run\":\"01a31bbc-507b-8dab-b5ee-be7b4b3cf84b\"}";
    let mut faults = Faults::default();
    let mut run = None;
    let fields = read_fields(body, "$", &["v", "run"], &mut faults);
    for (_, raw) in fields.iter().filter(|(name, _)| *name == "run") {
        match serde_json::from_str::<RunId>(raw.get()) {
            Ok(id) => run = Some(id),
            Err(_) => faults.push(Fault::new("$.run", raw.get(), "not a run id", EXPECTED)),
        }
    }
    match run {
        Some(run) => finish(Cancel { run }, faults),
        None => {
            if faults.is_empty() {
                faults.push(Fault::new("$.run", "", "missing", EXPECTED));
            }
            Err(faults.into_vec())
        }
    }
}

fn decode_skip(body: &[u8]) -> Result<Skip, Vec<Fault>> {
    let mut skip = Skip::default();
    let mut faults = Faults::default();
    if body.trim_ascii().is_empty() {
        return Ok(skip);
    }
    for (name, raw) in read_fields(body, "$", &["v", "slot"], &mut faults) {
        if name == "slot" {
            skip.slot = read(raw, "$.slot", INSTANT, &mut faults);
        }
    }
    finish(skip, faults)
}

fn decode_shift(body: &[u8]) -> Result<Shift, Vec<Fault>> {
    let mut faults = Faults::default();
    let (mut slot, mut to) = (None, None);
    for (name, raw) in read_fields(body, "$", &["v", "slot", "to"], &mut faults) {
        match name {
            "slot" => slot = read(raw, "$.slot", INSTANT, &mut faults),
            "to" => to = read(raw, "$.to", INSTANT, &mut faults),
            _ => {}
        }
    }
    require(to.is_some(), "$.to", &mut faults);
    match to {
        Some(to) => finish(Shift { slot, to }, faults),
        None => Err(faults.into_vec()),
    }
}

fn decode_backfill(body: &[u8]) -> Result<Backfill, Vec<Fault>> {
    let mut faults = Faults::default();
    let (mut from, mut to): (Option<Timestamp>, Option<Timestamp>) = (None, None);
    for (name, raw) in read_fields(body, "$", &["v", "from", "to"], &mut faults) {
        match name {
            "from" => from = read(raw, "$.from", INSTANT, &mut faults),
            "to" => to = read(raw, "$.to", INSTANT, &mut faults),
            _ => {}
        }
    }
    require(from.is_some(), "$.from", &mut faults);
    require(to.is_some(), "$.to", &mut faults);
    let (Some(from), Some(to)) = (from, to) else { return Err(faults.into_vec()) };
    if to < from {
        let expected = format!("an instant at or after {from}");
        faults.push(Fault::new("$.to", &to.to_string(), "before `from`", expected));
    }
    finish(Backfill { from, to }, faults)
}

const INSTANT: &str = "an RFC 3339 instant with an offset, such as \"2027-01-31T03:00:00Z\"";

/// A field that has to be there, unless it is there and wrong, or the whole body is.
fn require(present: bool, path: &str, faults: &mut Faults) {
    if !present && faults.is_empty() {
        faults.push(Fault::new(path, "", "missing", INSTANT));
    }
}

fn read_key(raw: &RawValue, faults: &mut Faults) -> Option<String> {
    let key = serde_json::from_str::<String>(raw.get()).ok();
    let key = key.filter(|key| !key.is_empty() && key.len() <= KEY_MAX_BYTES);
    if key.is_none() {
        faults.push(Fault::new("$.key", raw.get(), "not a key", "a text of 1 to 128 bytes"));
    }
    key
}

/// Reads opaque JSON of at most [`OPAQUE_MAX_BYTES`].
pub(crate) fn read_opaque(raw: &RawValue, path: &str, faults: &mut Faults) -> Option<Json> {
    if raw.get().len() > OPAQUE_MAX_BYTES {
        let problem = format!("{} bytes", raw.get().len());
        let expected =
            format!("at most {OPAQUE_MAX_BYTES} bytes; store more elsewhere and pass a reference");
        faults.push(Fault::new(path, raw.get(), problem, expected));
        return None;
    }
    Some(Json::from(raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_body_is_enough_for_verbs_without_arguments() {
        for body in ["", " ", "{}", r#"{"v":1}"#] {
            assert!(
                matches!(Command::decode(Verb::Pause, body.as_bytes()), Ok(Command::Pause)),
                "{body}"
            );
        }
        assert!(Command::decode(Verb::Pause, b"[]").is_err());
        assert!(Command::decode(Verb::Delete, b"{\"force\":true}").is_err());
    }

    #[test]
    fn every_fault_of_a_trigger_is_listed() {
        let Err(faults) = Command::decode(Verb::Trigger, br#"{"v":2,"key":"","extra":1}"#) else {
            panic!("accepted")
        };
        let paths: Vec<_> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(paths, ["$.v", "$.extra", "$.key"]);
    }

    #[test]
    fn a_cancel_needs_a_run() {
        for body in ["", "{}", r#"{"run":7}"#, r#"{"run":"x"}"#, "\u{0}"] {
            assert!(Command::decode(Verb::Cancel, body.as_bytes()).is_err(), "{body:?}");
        }
    }

    #[test]
    fn overrides_name_instants_and_every_fault() {
        let faults = |verb, body: &str| {
            let Err(faults) = Command::decode(verb, body.as_bytes()) else { return Vec::new() };
            faults.into_iter().map(|fault| fault.path).collect::<Vec<_>>()
        };
        assert!(faults(Verb::Skip, "").is_empty());
        assert!(faults(Verb::Skip, r#"{"slot":"2027-01-01T00:00:00Z"}"#).is_empty());
        assert_eq!(faults(Verb::Skip, r#"{"slot":"tomorrow"}"#), ["$.slot"]);
        assert_eq!(faults(Verb::Shift, ""), ["$"]);
        assert_eq!(faults(Verb::Shift, "{}"), ["$.to"]);
        assert_eq!(faults(Verb::Shift, r#"{"slot":7,"to":8}"#), ["$.slot", "$.to"]);
        assert_eq!(faults(Verb::Backfill, "{}"), ["$.from"]);
        let body = r#"{"from":"2027-01-02T00:00:00Z","to":"2027-01-01T00:00:00Z"}"#;
        assert_eq!(faults(Verb::Backfill, body), ["$.to"]);
    }
}
