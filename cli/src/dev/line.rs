//! One line for each run, and for slots that do not fire.

use std::time::Duration;

use cronstream_schemas::event::{Failure, Output as Printed, SkipReason};
use cronstream_schemas::id::RunId;
use cronstream_schemas::json::Json;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use serde::Serialize;

use crate::output::{printable, short};
use crate::words;

/// The most characters of a result or a failure's message.
const DETAIL_CHARS: usize = 80;

/// A run that has ended.
#[derive(Debug, Serialize)]
pub(super) struct Ran {
    pub(super) job: JobId,
    pub(super) run: RunId,
    /// The slot, or the trigger's instant.
    pub(super) scheduled_at: Timestamp,
    /// From that to the first start, where the lateness that `runs` shows ends at the fire; absent when it was started
    /// before we looked, or never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start_delay_ms: Option<u64>,
    /// From the last start to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) took_ms: Option<u64>,
    pub(super) attempts: u32,
    pub(super) outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<Failure>,
    /// Where its trace is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trace: Option<String>,
    #[serde(skip)]
    pub(super) printed: Option<Printed>,
}

/// Slots, or a trigger, that do not fire.
#[derive(Debug, Serialize)]
pub(super) struct NotRun {
    pub(super) job: JobId,
    /// The first of them; the instant of the decision for a trigger.
    pub(super) scheduled_at: Timestamp,
    pub(super) outcome: &'static str,
    pub(super) reason: SkipReason,
    pub(super) count: u64,
}

/// The names of the columns.
pub(super) fn header() -> String {
    columns(["SLOT (UTC)", "JOB", "DELAY", "TOOK", "OUTCOME"])
}

impl Ran {
    /// The run in columns.
    pub(super) fn text(&self) -> String {
        let span = |ms: Option<u64>| ms.map_or("-".into(), |ms| short(Duration::from_millis(ms)));
        let attempts = match self.attempts {
            0 | 1 => String::new(),
            many => format!(" after {many} attempts"),
        };
        let detail = self.detail().map(|text| format!("  {text}")).unwrap_or_default();
        let outcome = format!("{}{attempts}{detail}", self.outcome);
        let (delay, took) = (span(self.start_delay_ms), span(self.took_ms));
        let line =
            columns([&time(self.scheduled_at), &self.job.to_string(), &delay, &took, &outcome]);
        match &self.trace {
            Some(trace) => format!("{line}\n{:<12}  {trace}", ""),
            None => line,
        }
    }

    /// What it says of itself: why it failed, what it returned, or its last printed line.
    fn detail(&self) -> Option<String> {
        let said = match (&self.failure, &self.result, &self.printed) {
            (Some(failure), _, _) => failure.message.clone(),
            (None, Some(result), _) => result.as_str().to_owned(),
            (None, None, Some(printed)) => printed.stdout.lines().last()?.to_owned(),
            (None, None, None) => return None,
        };
        let mut shown: String = said.chars().take(DETAIL_CHARS).collect();
        if shown.len() < said.len() {
            shown.push('…');
        }
        Some(printable(&shown))
    }
}

impl NotRun {
    /// The slots in columns.
    pub(super) fn text(&self) -> String {
        let reason = words::skip_reason(self.reason);
        let outcome = match self.count {
            1 => format!("skipped  {reason}"),
            many => format!("skipped  {many} slots: {reason}"),
        };
        columns([&time(self.scheduled_at), &self.job.to_string(), "-", "-", &outcome])
    }
}

fn time(at: Timestamp) -> String {
    at.to_datetime().format("%H:%M:%S%.3f").to_string()
}

fn columns([slot, job, delay, took, outcome]: [&str; 5]) -> String {
    format!("{slot:<12}  {job:<16} {delay:>7} {took:>7}  {outcome}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran() -> Ran {
        Ran {
            job: "example/http".parse().unwrap(),
            run: "01a31bbc-507b-8dab-b5ee-be7b4b3cf84b".parse().unwrap(),
            scheduled_at: "2027-01-31T03:00:00.005Z".parse().unwrap(),
            start_delay_ms: Some(7),
            took_ms: Some(1_250),
            attempts: 1,
            outcome: "succeeded".into(),
            result: Some(Json::parse(r#"{"a":1}"#).unwrap()),
            failure: None,
            printed: None,
            trace: None,
        }
    }

    #[test]
    fn a_run_is_one_line_with_its_start_delay_and_outcome() {
        assert_eq!(
            ran().text(),
            "03:00:00.005  example/http         7ms    1.2s  succeeded  {\"a\":1}"
        );
        let json = serde_json::to_string(&ran()).unwrap();
        assert!(
            json.contains(
                r#""start_delay_ms":7,"took_ms":1250,"attempts":1,"outcome":"succeeded""#
            )
        );
    }

    #[test]
    fn a_long_or_hostile_result_stays_one_short_line() {
        let result = Json::parse(&format!("\"{}\"", "\u{9b}x".repeat(500))).unwrap();
        let text = Ran { result: Some(result), start_delay_ms: None, ..ran() }.text();
        assert!(text.chars().count() < 600 && !text.contains('\u{9b}') && text.contains('…'));
    }
}
