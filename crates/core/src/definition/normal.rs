//! Expressions in normal form: a zone that an expression names is the job's, an interval is a schedule of its own.
//!
//! Invariant: what comes out without a fault has no zone in any expression, no expression that is an interval, and its
//! zone by the canonical name.

use cronstream_schemas::definition::{Dialect, Draft, Expressions, Schedule};
use cronstream_schemas::fault::Fault;
use cronstream_schemas::name::JobId;

use crate::plan::{expression_path, unreadable};
use crate::schedule::{Parsed, Rule, Seed, Zone, parse};

/// Brings the expressions of a draft into normal form, and tells what is wrong with them.
pub(super) fn normalise(draft: &mut Draft, job: &JobId) {
    if let Some(Ok(zone)) = draft.time_zone.as_deref().map(Zone::get) {
        draft.time_zone = Some(zone.name().to_owned());
    }
    let Some(Schedule::Cron(expressions)) = draft.schedule.clone() else { return };
    let (dialect, seed) = (draft.dialect.unwrap_or(Dialect::Crontab), Seed::of(job));
    let all = expressions.as_slice();
    let mut read = Vec::with_capacity(all.len());
    for (at, text) in all.iter().enumerate() {
        match parse(text, dialect, seed) {
            Ok(parsed) => read.push(parsed),
            Err(error) => draft.faults.push(unreadable(expression_path(at, all.len()), &error)),
        }
    }
    if read.len() < all.len() {
        return;
    }
    if let [Parsed { rule: Rule::Every(interval), .. }] = read[..] {
        lift_zone(draft, &read, all);
        draft.schedule = Some(Schedule::Every(interval));
        return;
    }
    let intervals = read.iter().enumerate().filter(|(_, it)| matches!(it.rule, Rule::Every(_)));
    for (at, parsed) in intervals {
        let problem = "an interval beside other expressions";
        let expected = "a job of its own with {\"every\": …}";
        let path = expression_path(at, all.len());
        draft.faults.push(Fault::new(path, &parsed.text, problem, expected));
    }
    lift_zone(draft, &read, all);
    let texts = all.iter().map(|text| without_zone(text).to_owned()).collect();
    draft.schedule = Expressions::new(texts).ok().map(Schedule::Cron);
}

/// Makes the zone that the expressions name the job's.
fn lift_zone(draft: &mut Draft, read: &[Parsed], all: &[String]) {
    let Some(zone) = read.iter().find_map(|parsed| parsed.zone.clone()) else { return };
    let wanted = draft.time_zone.clone();
    let expected = match &wanted {
        Some(wanted) => format!("no zone in the expression, or {wanted} as in `time_zone`"),
        None => "all expressions of a job in one zone, named in `time_zone`".to_owned(),
    };
    for (at, parsed) in read.iter().enumerate() {
        let fits = match (&parsed.zone, &wanted) {
            (None, wanted) => wanted.is_some(),
            (Some(own), wanted) => own == wanted.as_ref().unwrap_or(&zone),
        };
        if !fits {
            let path = expression_path(at, all.len());
            let problem = match &parsed.zone {
                Some(own) => format!("is in the zone {own}, and the job in another"),
                None => format!("names no zone, and another expression {zone}"),
            };
            draft.faults.push(Fault::new(path, &all[at], problem, expected.clone()));
        }
    }
    draft.time_zone = wanted.or(Some(zone));
}

/// The expression without the zone before it.
fn without_zone(text: &str) -> &str {
    const BLANKS: [char; 2] = [' ', '\t'];
    let text = text.trim_matches(BLANKS);
    if !text.starts_with("TZ=") && !text.starts_with("CRON_TZ=") {
        return text;
    }
    text.split_once(BLANKS).map_or(text, |(_, rest)| rest.trim_start_matches(BLANKS))
}
