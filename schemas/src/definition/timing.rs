//! Reading the parts of a definition that say when it is due.

use serde_json::value::RawValue;

use super::read::{read, read_address, read_fields, read_span};
use super::{
    CALENDARS_MAX, CalendarUse, DailyWindow, EVERY_MAX, EVERY_MIN, Expressions, FIXED_DELAY_MIN,
    MISFIRE_LIMIT_MAX, MISFIRE_WINDOW_RANGE, Misfire, Schedule, THRESHOLD_RANGE, WINDOWS_MAX, When,
};
use crate::duration::Span;
use crate::fault::{Fault, Faults};
use crate::name::JobId;
use crate::time::Timestamp;

pub(super) fn read_schedule(raw: &RawValue, faults: &mut Faults) -> Option<Schedule> {
    const EXPECTED: &str = "exactly one of {\"cron\": \"0 3 * * *\"}, {\"every\": \"90s\"}, {\"fixed_delay\": \"10m\"}, {\"at\": \"2027-01-31T03:00:00Z\"}";
    if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
        faults.push(text_for_schedule(raw, &text, EXPECTED));
        return None;
    }
    let before = faults.clone();
    let fields = read_fields(
        raw.get().as_bytes(),
        "$.schedule",
        &["cron", "every", "fixed_delay", "at"],
        faults,
    );
    let [(name, value)] = fields[..] else {
        if *faults == before {
            faults.push(Fault::new("$.schedule", raw.get(), "not one schedule", EXPECTED));
        }
        return None;
    };
    match name {
        "cron" => read_expressions(value, faults).map(Schedule::Cron),
        "every" => {
            read_span(value, "$.schedule.every", EVERY_MIN..=EVERY_MAX, faults).map(Schedule::Every)
        }
        "fixed_delay" => {
            read_span(value, "$.schedule.fixed_delay", FIXED_DELAY_MIN..=EVERY_MAX, faults)
                .map(Schedule::FixedDelay)
        }
        _ => read(value, "$.schedule.at", When::HINT, faults).map(Schedule::At),
    }
}

/// A text that stands where a schedule has to: most likely the expression, without its braces.
fn text_for_schedule(raw: &RawValue, text: &str, expected: &str) -> Fault {
    let kind = if text.parse::<Span>().is_ok() {
        Some("every")
    } else if text.parse::<When>().is_ok() {
        Some("at")
    } else if text.starts_with('@') || (5..=7).contains(&text.split_whitespace().count()) {
        Some("cron")
    } else {
        None
    };
    let expected = kind
        .map(|kind| format!("write {{\"{kind}\": {}}}", raw.get()))
        .unwrap_or_else(|| expected.to_owned());
    Fault::new("$.schedule", raw.get(), "a text, not a schedule", expected)
}

fn read_expressions(raw: &RawValue, faults: &mut Faults) -> Option<Expressions> {
    const EXPECTED: &str = "a text such as \"0 3 * * *\", or one to eight of them in a list";
    let path = "$.schedule.cron";
    if raw.get().starts_with('[') {
        let list: Vec<String> = read(raw, path, EXPECTED, faults)?;
        return Expressions::new(list)
            .inspect_err(|e| faults.push(Fault::new(path, raw.get(), e.to_string(), EXPECTED)))
            .ok();
    }
    read::<String>(raw, path, EXPECTED, faults).map(|text| Expressions::from(&*text))
}

pub(super) fn read_instant(raw: &RawValue, path: &str, faults: &mut Faults) -> Option<Timestamp> {
    let expected = "an RFC 3339 instant with an offset, such as \"2027-01-31T03:00:00Z\"";
    read(raw, path, expected, faults)
}

pub(super) fn read_windows(raw: &RawValue, faults: &mut Faults) -> Vec<DailyWindow> {
    let path = "$.windows";
    let expected = "a list of texts such as \"09:00-17:30\"";
    let Some(list) = read::<Vec<String>>(raw, path, expected, faults) else { return Vec::new() };
    if list.len() > WINDOWS_MAX {
        let problem = format!("{} windows", list.len());
        faults.push(Fault::new(path, raw.get(), problem, format!("at most {WINDOWS_MAX}")));
        return Vec::new();
    }
    let mut windows: Vec<DailyWindow> = Vec::with_capacity(list.len());
    for (index, text) in list.iter().enumerate() {
        match text.parse() {
            Ok(window) => windows.push(window),
            Err(error) => {
                let path = format!("{path}[{index}]");
                let error: super::DailyWindowError = error;
                faults.push(Fault::new(path, text, error.to_string(), DailyWindow::HINT));
            }
        }
    }
    windows
}

pub(super) fn read_calendars(raw: &RawValue, faults: &mut Faults) -> Option<CalendarUse> {
    let known = &["only", "except", "shift"];
    let before = faults.clone();
    let mut calendars = CalendarUse::default();
    for (name, raw) in read_fields(raw.get().as_bytes(), "$.calendars", known, faults) {
        match name {
            "only" => calendars.only = read_addresses(raw, "$.calendars.only", faults),
            "except" => calendars.except = read_addresses(raw, "$.calendars.except", faults),
            _ => {
                let expected = "\"next\" or \"previous\"";
                calendars.shift = read(raw, "$.calendars.shift", expected, faults);
            }
        }
    }
    if *faults == before && calendars.names().next().is_none() {
        let expected = "{\"only\": [\"billing/workdays\"]} or {\"except\": [\"billing/holidays\"]}";
        faults.push(Fault::new("$.calendars", raw.get(), "names no calendar", expected));
    }
    (*faults == before).then_some(calendars)
}

fn read_addresses(raw: &RawValue, path: &str, faults: &mut Faults) -> Vec<JobId> {
    let expected = "a list of calendars, each `<namespace>/<name>`";
    let Some(list) = read::<Vec<&RawValue>>(raw, path, expected, faults) else { return Vec::new() };
    if list.len() > CALENDARS_MAX {
        let problem = format!("{} calendars", list.len());
        let expected = format!("at most {CALENDARS_MAX}; build one calendar of others");
        faults.push(Fault::new(path, raw.get(), problem, expected));
        return Vec::new();
    }
    let each = list.iter().enumerate();
    each.filter_map(|(index, raw)| read_address(raw, &format!("{path}[{index}]"), faults)).collect()
}

pub(super) fn read_misfire(raw: &RawValue, faults: &mut Faults) -> Option<Misfire> {
    let known = &["policy", "threshold", "limit", "window"];
    let before = faults.clone();
    let mut misfire = Misfire::default();
    let range = |(from, to): (Span, Span)| from..=to;
    for (name, raw) in read_fields(raw.get().as_bytes(), "$.misfire", known, faults) {
        match name {
            "policy" => {
                let expected = "\"fire_once\", \"fire_all\" or \"skip\"";
                let policy = read(raw, "$.misfire.policy", expected, faults);
                misfire.policy = policy.unwrap_or_default();
            }
            "threshold" => {
                let path = "$.misfire.threshold";
                let threshold = read_span(raw, path, range(THRESHOLD_RANGE), faults);
                misfire.threshold = threshold.unwrap_or(misfire.threshold);
            }
            "limit" => {
                let limit = serde_json::from_str::<u32>(raw.get()).ok();
                let limit = limit.filter(|limit| (1..=MISFIRE_LIMIT_MAX).contains(limit));
                if limit.is_none() {
                    let expected = format!("a whole number from 1 to {MISFIRE_LIMIT_MAX}");
                    faults.push(Fault::new("$.misfire.limit", raw.get(), "out of range", expected));
                }
                misfire.limit = limit.unwrap_or(misfire.limit);
            }
            _ => {
                misfire.window =
                    read_span(raw, "$.misfire.window", range(MISFIRE_WINDOW_RANGE), faults);
            }
        }
    }
    if let Some(window) = misfire.window.filter(|window| *window < misfire.threshold) {
        let expected = format!("at least the threshold, {}", misfire.threshold);
        let problem = "shorter than the threshold";
        faults.push(Fault::new("$.misfire.window", &window.to_string(), problem, expected));
    }
    (*faults == before).then_some(misfire)
}
