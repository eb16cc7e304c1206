//! What commands cost that touch many jobs or many calendars: all partitions of a node wait meanwhile.
//!
//! The limits are some ten times what it takes on a busy machine, and a hundredth of what it takes without the bounds.

use std::time::{Duration, Instant};

use cronstream_schemas::calendar::PARTS_MAX;
use cronstream_schemas::definition::Draft;
use cronstream_schemas::event::{JobState, LogEvent, Overrides};
use cronstream_schemas::id::{Incarnation, Revision};
use cronstream_schemas::verdict::Outcome;

use crate::script::at;
use crate::world::World;

/// Does `work`, which takes less than `limit`.
#[expect(clippy::disallowed_methods, reason = "the time that it takes is what is tested")]
fn within(what: &str, limit: Duration, work: impl FnOnce()) {
    let begin = Instant::now();
    work();
    let took = begin.elapsed();
    assert!(took < limit, "{what}: {took:?}");
}

fn with_holidays() -> World {
    let mut world = World::new(at("10:00:00"));
    publish_holidays(&mut world, "2026-03-09");
    world
}

fn publish_holidays(world: &mut World, date: &str) {
    let body = format!(r#"{{"include":[{{"date":"{date}"}},{{"weekly":["SAT","SUN"]}}]}}"#);
    world.publish(world.now, "cron.calendar.n.hol", &body, None);
    world.settle(|_, _, _| ());
}

fn shifting(expressions: &[String]) -> String {
    let list = expressions.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(",");
    format!(
        r#"{{"task":"t","schedule":{{"cron":[{list}]}},"calendars":{{"except":["n/hol"],"shift":"next"}}}}"#
    )
}

/// Jobs that stand in the log since 10:00, the `n`th with `definition(n)`.
fn add_jobs(world: &mut World, count: usize, definition: impl Fn(usize) -> String) {
    let at = world.now;
    for n in 0..count {
        let definition = Draft::decode(definition(n).as_bytes()).finish().unwrap();
        world.log.push(LogEvent::JobDefined(JobState {
            job: format!("n/j{n:06}").parse().unwrap(),
            revision: Revision(1),
            incarnation: Incarnation(1),
            definition: Some(definition),
            anchor: at,
            effective_after: at,
            paused: None,
            overrides: Overrides::default(),
            tzdb: None,
            command: 1,
            at,
        }));
    }
    world.take_over();
}

#[test]
fn a_definition_that_shifts_costs_no_more_than_one_that_does_not() {
    let mut world = with_holidays();
    let expressions: Vec<String> = (0..8).map(|minute| format!("{minute} 12 * * *")).collect();
    within("200 definitions that shift", Duration::from_secs(1), || {
        for n in 0..200 {
            let body = shifting(&expressions);
            world.publish(world.now, &format!("cron.define.n.j{n}"), &body, None);
        }
        world.settle(|_, _, _| ());
    });
    assert_eq!(world.leader.jobs().count(), 200);
}

#[test]
fn a_calendar_of_ten_thousand_jobs_that_shift_is_replaced_quickly() {
    let mut world = with_holidays();
    // Every day of the week, of the month and of the year.
    let pattern = |n: usize| match n % 3 {
        0 => format!("{} 12 * * {}", n % 60, n % 7),
        1 => format!("{} 12 {} * *", n % 60, n % 28 + 1),
        _ => format!("{} 12 {} {} *", n % 60, n % 28 + 1, n % 12 + 1),
    };
    add_jobs(&mut world, 10_000, |n| shifting(&[pattern(n)]));
    within("a calendar of 10,000 jobs", Duration::from_secs(3), || {
        publish_holidays(&mut world, "2026-03-10");
    });
    // No two have the same days of the year.
    let days = |n: usize| {
        let days = (0..31).filter(|day| n >> (day % 14) & 1 == 1).map(|day| (day + 1).to_string());
        format!(
            "0 12 {} * *",
            ["1".to_owned()].into_iter().chain(days).collect::<Vec<_>>().join(",")
        )
    };
    add_jobs(&mut world, 10_000, |n| shifting(&vec![days(n); 8]));
    within("80,000 expressions of 10,000 kinds", Duration::from_secs(5), || {
        publish_holidays(&mut world, "2026-03-11");
    });
}

#[test]
fn a_calendar_of_as_many_as_it_may_have_is_checked_quickly() {
    let mut world = World::new(at("10:00:00"));
    let list = |level: usize| {
        let part = |n| format!(r#"{{"calendar":"n/c{level}x{n}"}}"#);
        (0..PARTS_MAX).map(part).collect::<Vec<_>>().join(",")
    };
    within("eight levels of 64 calendars of 64", Duration::from_secs(5), || {
        for level in 0..8 {
            let body = match level {
                0 => r#"{"include":[{"date":"2026-03-02"}]}"#.to_owned(),
                _ => format!(r#"{{"include":[{}]}}"#, list(level - 1)),
            };
            for n in 0..PARTS_MAX {
                world.publish(world.now, &format!("cron.calendar.n.c{level}x{n}"), &body, None);
            }
            let mut accepted = 0;
            world.settle(|_, turn, _| {
                let replies = turn.batch.iter().flat_map(|batch| &batch.replies);
                accepted += replies
                    .filter(|it| matches!(it.verdict.outcome, Outcome::CalendarAccepted { .. }))
                    .count();
            });
            assert_eq!(accepted, PARTS_MAX, "level {level}");
        }
        // What all others are built of is replaced, and the days of the top are asked for.
        let body = r#"{"include":[{"date":"2026-03-03"}]}"#;
        world.publish(world.now, "cron.calendar.n.c0x0", body, None);
        let job =
            r#"{"task":"t","schedule":{"cron":"0 12 * * *"},"calendars":{"only":["n/c7x0"]}}"#;
        world.publish(world.now, "cron.define.n.j", job, None);
        world.settle(|_, _, _| ());
    });
    assert_eq!(world.leader.jobs().count(), 1);
}
