//! Hash slots: where jobs fall, and that they stay there.

use std::collections::BTreeSet;

use cronstream_core::schedule::{Rule, Seed, Zone, parse};
use cronstream_schemas::definition::Dialect;

use crate::{instant, show};

fn text(expr: &str, job: &str) -> String {
    parse(expr, Dialect::Crontab, Seed::of(&job.parse().unwrap())).unwrap().text
}

/// The values that the first field of `expr` has for a thousand jobs.
fn first_fields(expr: &str) -> BTreeSet<String> {
    (0..1_000)
        .map(|number| text(expr, &format!("billing/job-{number}")))
        .map(|text| text.split(' ').next().unwrap().to_owned())
        .collect()
}

/// These are in definitions out there: a change moves every job that uses `H`.
#[test]
fn slots_are_the_same_for_ever() {
    let jobs = [
        ("billing/invoices", "4 19 13 10 6"),
        ("a/b", "42 16 17 5 3"),
        ("billing/job-1", "35 18 19 5 1"),
    ];
    for (job, expected) in jobs {
        assert_eq!(text("H H H H H", job), expected, "{job}");
    }
    assert_eq!(text("H H H H H H", "billing/invoices"), "56 4 19 13 10 6");
    assert_eq!(text("H/15 H(9-17) * * H(1-5)", "billing/invoices"), "4-49/15 13 * * 5");
}

#[test]
fn names_of_a_job_do_not_run_into_each_other() {
    assert_ne!(text("H H H H *", "ab/c"), text("H H H H *", "a/bc"));
}

#[test]
fn bare_slot_takes_every_value_of_its_field() {
    let numbers = |expr: &str| -> BTreeSet<u32> {
        first_fields(expr).iter().map(|value| value.parse().unwrap()).collect()
    };
    assert_eq!(numbers("H 3 * * *"), (0..60).collect());
    assert_eq!(numbers("H(10-19) 3 * * *"), (10..20).collect());
    let field = |expr: &str, index: usize| -> BTreeSet<u32> {
        (0..1_000)
            .map(|number| text(expr, &format!("billing/job-{number}")))
            .map(|text| text.split(' ').nth(index).unwrap().parse().unwrap())
            .collect()
    };
    assert_eq!(field("0 H * * *", 1), (0..24).collect());
    assert_eq!(field("0 H(22-2) * * *", 1), BTreeSet::from([22, 23, 0, 1, 2]));
    // Days that every month has.
    assert_eq!(field("0 0 H * *", 2), (1..29).collect());
    assert_eq!(field("0 0 H(25-31) * *", 2), (25..32).collect());
    assert_eq!(field("0 0 1 H *", 3), (1..13).collect());
    assert_eq!(field("0 0 * * H", 4), (0..7).collect());
    assert_eq!(field("0 0 * * H(FRI-SUN)", 4), BTreeSet::from([5, 6, 0]));
    assert_eq!(field("H 0 0 * * *", 0), (0..60).collect());
}

#[test]
fn stepped_slot_keeps_its_step() {
    let expected: BTreeSet<_> = (0..15).map(|first| format!("{first}-{}/15", first + 45)).collect();
    let found = first_fields("H/15 3 * * *");
    assert_eq!(found, expected);
    let expected: BTreeSet<_> = (0..10).map(|first| format!("{first}-{}/10", first + 20)).collect();
    assert_eq!(first_fields("H(0-29)/10 3 * * *"), expected);
    // A step over the span is one value of all.
    let numbers: BTreeSet<u32> =
        first_fields("H/90 3 * * *").iter().map(|value| value.parse().unwrap()).collect();
    assert_eq!(numbers, (0..60).collect());
    let lists = first_fields("H(0-9),H(30-39) 3 * * *");
    let expected: BTreeSet<_> = (0..10).map(|first| format!("{first},{}", first + 30)).collect();
    assert_eq!(lists, expected);
}

#[test]
fn slots_of_many_jobs_are_spread_evenly() {
    let mut minutes = [0; 60];
    for number in 0..6_000 {
        let text = text("H * * * *", &format!("billing/job-{number}"));
        minutes[text.split(' ').next().unwrap().parse::<usize>().unwrap()] += 1;
    }
    assert!(minutes.iter().all(|jobs| (60..140).contains(jobs)), "{minutes:?}");
}

#[test]
fn quartz_draws_the_same_day_of_the_week() {
    for number in 0..50 {
        let job = format!("billing/job-{number}").parse().unwrap();
        let parse = |expr, dialect| parse(expr, dialect, Seed::of(&job)).unwrap();
        let quartz = parse("0 H H ? * H", Dialect::Quartz);
        assert_eq!(quartz, parse("H H * * H", Dialect::Crontab));
    }
}

#[test]
fn slot_is_due_at_its_hour_and_minute() {
    let seed = Seed::of(&"billing/invoices".parse().unwrap());
    let parsed = parse("TZ=Europe/Berlin H H(0-5) * * *", Dialect::Crontab, seed).unwrap();
    let Rule::Cron(cron) = parsed.rule else { panic!("an interval") };
    let zone = Zone::get(&parsed.zone.unwrap()).unwrap();
    let next = cron.next(zone, instant("2026-11-29T12:00:00Z")).unwrap();
    assert_eq!((parsed.text.as_str(), show(next).as_str()), ("4 1 * * *", "2026-11-30T00:04:00Z"));
}
