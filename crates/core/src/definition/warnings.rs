//! What an accepted definition does that its author may not expect.
//!
//! Invariant: a warning never refuses. There are at most [`WARNINGS_MAX`], the weightiest first.

use std::time::Duration;

use cronstream_schemas::definition::{
    Expressions, JobDefinition, Misfire, MisfirePolicy, Schedule, When,
};
use cronstream_schemas::fault::Fault;
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;

use crate::calendar::Calendars;
use crate::plan::{Plan, expression_path};
use crate::schedule::{
    Cron, NoteKind, Rule, Rules, Seed, Slots, Zone, clock_change_notes, lint, parse,
};

/// The most warnings about one definition.
pub const WARNINGS_MAX: usize = 20;

/// How far ahead clock changes are told.
const AHEAD: Duration = Duration::from_secs(366 * 86_400);
/// A first slot beyond this is as good as none.
const FAR: Duration = Duration::from_secs(40 * 366 * 86_400);

/// One surprise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Its kind, such as `uneven-step`.
    pub code: &'static str,
    /// What it is about, and what to do.
    pub fault: Fault,
}

/// What is surprising about a definition that comes into force at `now`. What its calendars do is not looked at.
#[must_use]
pub fn warnings(definition: &JobDefinition, job: &JobId, now: Timestamp) -> Vec<Fault> {
    coded_warnings(definition, job, now).into_iter().map(|warning| warning.fault).collect()
}

/// The [`warnings`], each with its kind.
#[must_use]
pub fn coded_warnings(definition: &JobDefinition, job: &JobId, now: Timestamp) -> Vec<Warning> {
    let Ok(plan) = Plan::compile(definition, job, now, &Calendars::default()) else {
        return Vec::new();
    };
    let coded = |code: &'static str| move |fault: Fault| Warning { code, fault };
    let mut warnings: Vec<Warning> = Vec::new();
    warnings.extend(never(definition, &plan, now).map(coded("never-due")));
    warnings.extend(jitter(definition, &plan, now).map(coded("jitter-over-period")));
    warnings.extend(without_effect(definition).into_iter().map(coded("no-effect")));
    if let Schedule::Cron(expressions) = &*definition.schedule {
        warnings.extend(about_expressions(definition, expressions, Seed::of(job), now));
    }
    warnings.truncate(WARNINGS_MAX);
    warnings
}

fn never(definition: &JobDefinition, plan: &Plan, now: Timestamp) -> Option<Fault> {
    let first = plan.next(now);
    if first.is_some_and(|first| first.since(now) <= FAR) {
        return None;
    }
    let problem = match first {
        Some(first) => format!("is not due before {first}"),
        None => "is never due again".to_owned(),
    };
    let value = serde_json::to_string(&definition.schedule).unwrap_or_default();
    Some(Fault::new("$.schedule", &value, problem, "a schedule with a slot to come"))
}

fn jitter(definition: &JobDefinition, plan: &Plan, now: Timestamp) -> Option<Fault> {
    let first = plan.next(now)?;
    let period = plan.next(first)?.since(first);
    if definition.jitter.to_duration() <= period {
        return None;
    }
    let problem = format!("is longer than the job's period of {} s", period.as_secs_f64());
    let value = definition.jitter.to_string();
    Some(Fault::new("$.jitter", &value, problem, "less than the time between two slots"))
}

/// Fields that this definition does not use.
fn without_effect(definition: &JobDefinition) -> Vec<Fault> {
    let mut warnings = Vec::new();
    let mut push = |path: &str, value: String, expected: &str| {
        warnings.push(Fault::new(path, &value, "has no effect", expected));
    };
    let reads_wall = match &*definition.schedule {
        Schedule::Cron(_) | Schedule::At(When::Local(_)) => true,
        Schedule::Every(_) | Schedule::FixedDelay(_) | Schedule::At(When::Instant(_)) => false,
    };
    let text = |value: Option<String>| value.unwrap_or_default().trim_matches('"').to_owned();
    let expected = "a schedule of wall times: `cron`, or `at` without an offset";
    if let Some(gap) = definition.gap.filter(|_| !reads_wall) {
        push("$.gap", text(serde_json::to_string(&gap).ok()), expected);
    }
    if let Some(fold) = definition.fold.filter(|_| !reads_wall) {
        push("$.fold", text(serde_json::to_string(&fold).ok()), expected);
    }
    let Misfire { policy, limit, window, threshold: _ } = definition.misfire;
    if policy != MisfirePolicy::FireAll && limit != Misfire::default_limit() {
        push("$.misfire.limit", limit.to_string(), "`policy` \"fire_all\"");
    }
    if let Some(window) = window.filter(|_| policy == MisfirePolicy::Skip) {
        push("$.misfire.window", window.to_string(), "`policy` \"fire_once\" or \"fire_all\"");
    }
    warnings
}

fn about_expressions(
    definition: &JobDefinition,
    expressions: &Expressions,
    seed: Seed,
    now: Timestamp,
) -> Vec<Warning> {
    let all = expressions.as_slice();
    let read = |text: &str| match parse(text, definition.dialect, seed).ok()?.rule {
        Rule::Cron(cron) => Some(cron),
        Rule::Every(_) => None,
    };
    let each = all.iter().enumerate().filter_map(|(at, text)| {
        Some((expression_path(at, all.len()), text.as_str(), read(text)?))
    });
    let each: Vec<(String, &str, Cron)> = each.collect();
    let lints = each.iter().flat_map(|(path, text, cron)| {
        lint(text, definition.dialect, cron).into_iter().map(move |lint| {
            let problem = format!("{} (at byte {})", lint.message, lint.position);
            let fault = Fault::new(path.clone(), text, problem, lint.hint);
            Warning { code: lint.code, fault }
        })
    });
    let notes = each.iter().flat_map(|(path, text, cron)| {
        clock_changes(definition, cron, now).into_iter().map(move |words| {
            let expected = "a time outside it, or `gap` and `fold` as you want them";
            Warning { code: "clock-change", fault: Fault::new(path.clone(), text, words, expected) }
        })
    });
    repeated(&each).chain(lints).chain(notes).collect()
}

/// Expressions that say what one before them says.
fn repeated(each: &[(String, &str, Cron)]) -> impl Iterator<Item = Warning> {
    each.iter().enumerate().filter_map(|(at, (path, text, cron))| {
        let (first, ..) = each[..at].iter().find(|(_, _, earlier)| earlier == cron)?;
        let problem = format!("says the same as {first}: each slot of the two fires once");
        let fault = Fault::new(path.clone(), text, problem, "each expression once");
        Some(Warning { code: "repeated-expression", fault })
    })
}

/// What the coming clock changes do to the slots: the first of each kind that the definition does not settle itself.
fn clock_changes(definition: &JobDefinition, cron: &Cron, now: Timestamp) -> Vec<String> {
    let Ok(zone) = Zone::get(&definition.time_zone) else { return Vec::new() };
    let rules = Rules { gap: definition.gap, fold: definition.fold };
    let slots = Slots { cron, zone, rules, days: None, shift: None };
    let notes = clock_change_notes(&slots, now.as_millis(), now.plus(AHEAD).as_millis());
    let first = |kind: NoteKind| notes.iter().find(|note| note.kind == kind);
    let kinds = [(NoteKind::Gap, rules.gap.is_some()), (NoteKind::Fold, rules.fold.is_some())];
    let open = kinds.into_iter().filter(|(_, settled)| !settled).map(|(kind, _)| kind);
    open.filter_map(first).map(|note| note.words.clone()).collect()
}
