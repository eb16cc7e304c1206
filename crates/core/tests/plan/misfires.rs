//! The misfire rule, policy by policy.

use std::time::{Duration, Instant};

use cronstream_core::misfire::{LATE_MAX, Owed, Range, fire_within, owed};
use cronstream_core::plan::Plan;
use cronstream_schemas::definition::{Misfire, MisfirePolicy};
use cronstream_schemas::duration::Span;
use cronstream_schemas::time::Timestamp;
use proptest::prelude::*;

use super::{at, define, plan};

/// What a job with these fields owes at `now`, as text: `skipped FIRST..LAST ×COUNT`, `catch up …`, `due SLOT`.
fn check(fields: &str, after: &str, now: &str, expected: &[&str]) {
    let (plan, misfire) = (plan(fields), define(fields, &Default::default()).misfire);
    let now = at(&format!("2026-03-01T{now}Z"));
    let owed = owed(&plan, &misfire, at(&format!("2026-03-01T{after}Z")), now, now);
    assert_eq!(told(&owed), expected, "{fields}");
}

fn told(owed: &Owed) -> Vec<String> {
    let time = |at: Timestamp| at.to_string()[11..].replace(".000Z", "").replace('Z', "");
    let range = |what: &str, range: Option<Range>| {
        range.map(|Range { first, last, count }| {
            format!("{what} {}..{} ×{count}", time(first), time(last))
        })
    };
    let ranges = [range("skipped", owed.skipped), range("catch up", owed.catch_up)];
    let due = owed.due.iter().map(|slot| format!("due {}", time(*slot)));
    ranges.into_iter().flatten().chain(due).collect()
}

const EVERY_FIVE: &str = r#""schedule":{"cron":"*/5 * * * *"}"#;

fn with(misfire: &str) -> String {
    format!(r#"{EVERY_FIVE},"misfire":{misfire}"#)
}

/// B065.
#[test]
fn fire_once_fires_the_latest_within_its_window() {
    let job = with(r#"{"policy":"fire_once"}"#);
    check(&job, "00:00:00", "06:02:00", &["skipped 00:05:00..05:55:00 ×71", "due 06:00:00"]);
    // The latest is on time: it is the one.
    check(&job, "00:00:00", "06:00:30", &["skipped 00:05:00..05:55:00 ×71", "due 06:00:00"]);
    let job = with(r#"{"window":"2m"}"#);
    check(&job, "05:50:00", "06:02:00", &["skipped 05:55:00..05:55:00 ×1", "due 06:00:00"]);
    check(&job, "05:50:00", "06:02:00.001", &["skipped 05:55:00..06:00:00 ×2"]);
    let job = with(r#"{"window":"1h"}"#);
    check(&job, "05:50:00", "06:04:59", &["skipped 05:55:00..05:55:00 ×1", "due 06:00:00"]);
}

#[test]
fn fire_all_fires_the_latest_within_limit_and_window_in_order() {
    let job = with(r#"{"policy":"fire_all"}"#);
    check(&job, "00:00:00", "06:02:00", &["catch up 00:05:00..06:00:00 ×72"]);
    check(&job, "00:00:00", "06:00:30", &["catch up 00:05:00..05:55:00 ×71", "due 06:00:00"]);
    check(&job, "05:50:00", "06:00:30", &["due 05:55:00", "due 06:00:00"]);
    let job = with(r#"{"policy":"fire_all","limit":3}"#);
    check(
        &job,
        "00:00:00",
        "06:02:00",
        &["skipped 00:05:00..05:45:00 ×69", "catch up 05:50:00..06:00:00 ×3"],
    );
    let job = with(r#"{"policy":"fire_all","limit":1}"#);
    check(&job, "00:00:00", "06:02:00", &["skipped 00:05:00..05:55:00 ×71", "due 06:00:00"]);
    let job = with(r#"{"policy":"fire_all","window":"12m"}"#);
    check(
        &job,
        "00:00:00",
        "06:02:00",
        &["skipped 00:05:00..05:45:00 ×69", "catch up 05:50:00..06:00:00 ×3"],
    );
}

#[test]
fn skip_fires_none_that_is_missed_and_all_that_are_late() {
    let job = with(r#"{"policy":"skip","threshold":"8m"}"#);
    check(
        &job,
        "00:00:00",
        "06:02:00",
        &["skipped 00:05:00..05:50:00 ×70", "due 05:55:00", "due 06:00:00"],
    );
    let job = with(r#"{"policy":"skip"}"#);
    check(&job, "00:00:00", "06:02:00", &["skipped 00:05:00..06:00:00 ×72"]);
    check(&job, "05:59:00", "06:01:00", &["due 06:00:00"]);
    check(&job, "05:59:00", "06:01:00.001", &["skipped 06:00:00..06:00:00 ×1"]);
}

#[test]
fn lateness_counts_from_the_due_instant() {
    let fields = with(r#"{"policy":"skip"}"#) + r#","jitter":"10m""#;
    let plan = plan(&fields);
    let jitter = plan.jitter();
    assert_eq!(jitter.as_millis(), 560_874);
    let misfire = define(&fields, &Default::default()).misfire;
    let slot = at("2026-03-01T06:00:00Z");
    let after = slot.minus(Duration::from_secs(1));
    for (late, due) in [(0, true), (60_000, true), (60_001, false)] {
        let now = slot.plus(jitter).plus(Duration::from_millis(late));
        let owed = owed(&plan, &misfire, after, slot, now);
        assert_eq!(owed.due == [slot], due, "{late} ms late: {owed:?}");
        assert_eq!(owed.skipped.is_some(), !due);
    }
}

#[test]
fn a_long_threshold_bounds_what_is_late_at_once() {
    let fields = r#""schedule":{"every":"1s"},"misfire":{"threshold":"1d","policy":"skip"}"#;
    let (plan, misfire) = (plan(fields), define(fields, &Default::default()).misfire);
    let now = at("2026-03-02T00:00:00Z");
    let owed = owed(&plan, &misfire, at("2026-03-01T12:00:00Z"), now, now);
    assert_eq!(owed.due.len(), LATE_MAX);
    assert_eq!(owed.due.last(), Some(&now));
    assert_eq!(owed.skipped.unwrap().count, 12 * 3_600 - LATE_MAX as u64);
}

#[test]
fn the_default_window_is_the_period_within_bounds() {
    let window = |fields: &str| {
        let slot = at("2026-03-01T12:00:00Z");
        fire_within(&plan(fields), &define(fields, &Default::default()).misfire, slot).as_secs()
    };
    assert_eq!(window(EVERY_FIVE), 300);
    assert_eq!(window(r#""schedule":{"cron":"* * * * * *"}"#), 60);
    assert_eq!(window(r#""schedule":{"cron":"0 12 1 * *"}"#), 86_400);
    assert_eq!(window(&with(r#"{"threshold":"10m"}"#)), 600);
    assert_eq!(window(&with(r#"{"policy":"fire_all"}"#)), 86_400);
    assert_eq!(window(&with(r#"{"policy":"fire_all","window":"5d"}"#)), 5 * 86_400);
    assert_eq!(window(&with(r#"{"policy":"skip"}"#)), 60);
}

/// B112: each kind of plan, and the engine is never asked slot by slot.
#[test]
#[expect(clippy::disallowed_methods, reason = "the time that it takes is measured")]
fn thirty_days_of_every_second_are_decided_in_microseconds() {
    const TIMES: u32 = 200;
    let (after, now) = (at("2026-03-10T00:00:00Z"), at("2026-04-09T00:00:00Z"));
    for (fields, slots) in [
        (r#""schedule":{"every":"1s"}"#, 30 * 86_400),
        (r#""schedule":{"cron":"* * * * * *"},"time_zone":"Europe/Berlin""#, 30 * 86_400),
        (
            r#""schedule":{"cron":["* * * * * *","30 12 * * *"]},"windows":["09:00-17:00"]"#,
            30 * 8 * 3_600,
        ),
        (r#""schedule":{"every":"1s"},"windows":["09:00-17:00"]"#, 30 * 8 * 3_600),
    ] {
        let plan = plan(fields);
        let begin = Instant::now();
        for _ in 0..TIMES {
            let owed = owed(&plan, &Misfire::default(), after, now, now);
            let due = owed.due.len() as u64;
            assert_eq!(owed.skipped.unwrap().count + due, slots, "{fields}");
        }
        let each = begin.elapsed() / TIMES;
        println!("{each:?} {fields}");
        // A walk of two million slots takes a hundred times as long.
        assert!(each < Duration::from_millis(2), "{each:?} for {fields}");
    }
}

fn policies() -> impl Strategy<Value = Misfire> {
    let policy = prop::sample::select(vec![
        MisfirePolicy::FireOnce,
        MisfirePolicy::FireAll,
        MisfirePolicy::Skip,
    ]);
    let window = prop::option::of(3_600_u64..100_000);
    (policy, 1_u64..3_600, 1_u32..200, window).prop_map(|(policy, threshold, limit, window)| {
        let (threshold, window) = (Span::from_secs(threshold), window.map(Span::from_secs));
        Misfire { policy, threshold, limit, window }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Brute force: every slot, one by one, gets what the rule says of its age.
    #[test]
    fn every_slot_gets_one_outcome_and_the_right_one(
        misfire in policies(),
        step in prop::sample::select(vec![1_u64, 7, 60, 300, 3_600, 86_400]),
        gone in 0_u64..400_000,
        past in 0_u64..5_000,
        jitter in prop::bool::ANY,
    ) {
        let jitter = if jitter { r#","jitter":"7m""# } else { "" };
        let plan = plan(&format!(r#""schedule":{{"every":"{step}s"}}{jitter}"#));
        let now = at("2026-06-01T00:00:00Z").plus(Duration::from_secs(past));
        let through = now.minus(plan.jitter());
        let after = through.minus(Duration::from_secs(gone.min(step * 4_000)));
        let owed = owed(&plan, &misfire, after, through, now);
        let slots = all(&plan, after, through);
        let age = |slot: &Timestamp| now.since(slot.plus(plan.jitter()));
        let late: Vec<Timestamp> =
            slots.iter().copied().filter(|slot| age(slot) <= misfire.threshold.to_duration()).collect();
        let late = &late[late.len().saturating_sub(LATE_MAX)..];
        let missed = &slots[..slots.len() - late.len()];
        let period = Duration::from_secs(step.min(86_400));
        let window = misfire.window.map(Span::to_duration);
        let (window, limit) = match misfire.policy {
            MisfirePolicy::FireOnce => (window.unwrap_or(period), usize::from(late.is_empty())),
            MisfirePolicy::FireAll => {
                (window.unwrap_or(Duration::from_secs(86_400)), misfire.limit as usize)
            }
            MisfirePolicy::Skip => (Duration::ZERO, 0),
        };
        let window = window.max(misfire.threshold.to_duration());
        let young = missed.iter().filter(|slot| age(slot) <= window).count().min(limit);
        let (skipped, fired) = missed.split_at(missed.len() - young);
        prop_assert_eq!(owed.skipped, whole(skipped));
        if fired.len() == 1 {
            prop_assert_eq!(owed.catch_up, None);
            prop_assert_eq!(owed.due, [fired, late].concat());
        } else {
            prop_assert_eq!(owed.catch_up, whole(fired));
            prop_assert_eq!(&owed.due, late);
        }
    }
}

fn all(plan: &Plan, after: Timestamp, through: Timestamp) -> Vec<Timestamp> {
    let next = |after| plan.next(after).filter(|slot| *slot <= through);
    std::iter::successors(next(after), |slot| next(*slot)).collect()
}

fn whole(slots: &[Timestamp]) -> Option<Range> {
    let (first, last) = (*slots.first()?, *slots.last()?);
    Some(Range { first, last, count: slots.len() as u64 })
}
