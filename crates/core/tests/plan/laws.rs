//! Laws of plans, with brute force as the oracle: the slots of each expression by the engine that has its own oracle,
//! or every millisecond step of an interval, one by one; windows, days and limits are looked at for each of them.

use std::collections::BTreeSet;
use std::time::Duration;

use cronstream_core::calendar::Calendars;
use cronstream_core::plan::Plan;
use cronstream_core::schedule::{Cron, Rules, Slots, Zone};
use cronstream_schemas::definition::{JobDefinition, Schedule};
use cronstream_schemas::time::Timestamp;
use proptest::prelude::*;

use super::{at, calendars, define, job};

const ZONES: [&str; 10] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Pacific/Apia",
    "America/Sao_Paulo",
    "Antarctica/Troll",
    "Asia/Kathmandu",
];

/// Near changes of the clocks of those zones, and far from them.
const INSTANTS: [&str; 12] = [
    "1970-01-01T00:00:00Z",
    "2011-12-29T00:00:00Z",
    "2018-11-03T12:00:00Z",
    "2026-02-14T12:00:00Z",
    "2026-03-07T12:00:00Z",
    "2026-03-21T12:00:00Z",
    "2026-03-28T00:00:00Z",
    "2026-04-04T00:00:00Z",
    "2026-07-14T00:00:00Z",
    "2026-10-03T00:00:00Z",
    "2026-10-24T00:00:00Z",
    "2026-10-31T12:00:00Z",
];

const DAYS: i64 = 4;

fn expression() -> impl Strategy<Value = String> {
    let minutes =
        prop_oneof!["[0-5]?[0-9]", Just("*".into()), Just("*/7".into()), Just("0,15,30".into())];
    let hours =
        prop_oneof!["[0-9]", "1[0-9]", Just("*".into()), Just("0-3".into()), Just("*/2".into())];
    let days = prop_oneof![4 => Just("*".into()), 1 => Just("*/2".into()), 1 => Just("L".into())];
    let weekdays = prop_oneof![4 => Just("*".into()), 1 => Just("1-5".into()), 1 => "[0-6]"];
    let fields = (prop::bool::weighted(0.2), minutes, hours, days, weekdays);
    fields.prop_map(
        |(seconds, minutes, hours, days, weekdays): (_, String, String, String, String)| {
            let seconds = if seconds { "*/20 " } else { "" };
            format!("{seconds}{minutes} {hours} {days} * {weekdays}")
        },
    )
}

fn schedule() -> impl Strategy<Value = String> {
    let crons = prop::collection::vec(expression(), 1..4);
    prop_oneof![
        4 => crons.prop_map(|all| format!(r#"{{"cron":{}}}"#, serde_json::to_string(&all).unwrap())),
        1 => (100_u64..20_000_000).prop_map(|ms| format!(r#"{{"every":"{ms}ms"}}"#)),
        1 => (1_000_u64..20_000_000).prop_map(|ms| format!(r#"{{"fixed_delay":"{ms}ms"}}"#)),
        1 => (0_u32..24, 0_u32..60).prop_map(|(hour, minute)| {
            format!(r#"{{"at":"2026-03-29T{hour:02}:{minute:02}:00"}}"#)
        }),
    ]
}

fn fields() -> impl Strategy<Value = String> {
    let windows = prop_oneof![
        Just(""),
        Just(r#","windows":["01:30-02:30"]"#),
        Just(r#","windows":["00:00:30-03:15","22:00-01:00","12:00-13:00"]"#),
        Just(r#","windows":["06:00-05:00"]"#),
    ];
    let days = prop_oneof![
        Just(""),
        Just(r#","calendars":{"only":["a/work"]}"#),
        Just(r#","calendars":{"except":["a/work"]}"#),
        Just(r#","calendars":{"only":["a/work"],"except":["a/odd"]}"#),
    ];
    let gap =
        prop::sample::select(vec!["", r#","gap":"end""#, r#","gap":"skip""#, r#","gap":"before""#]);
    let fold = prop::sample::select(vec![
        "",
        r#","fold":"first""#,
        r#","fold":"last""#,
        r#","fold":"both""#,
    ]);
    let limits = prop_oneof![
        4 => Just(""),
        1 => Just(r#","start":"2026-03-28T22:10:00Z""#),
        1 => Just(r#","start":"2011-01-01T00:00:00.500Z","end":"2026-10-25T00:30:00Z""#),
    ];
    let zone = prop::sample::select(ZONES.to_vec());
    (schedule(), zone, windows, days, gap, fold, limits).prop_map(
        |(schedule, zone, windows, days, gap, fold, limits)| {
            format!(
                r#""schedule":{schedule},"time_zone":"{zone}","retention":"30d"{windows}{days}{gap}{fold}{limits}"#
            )
        },
    )
}

fn known() -> Calendars {
    calendars(&[
        (
            "a/work",
            r#"{"include":[{"weekly":["MON","TUE","WED","THU","FRI"]}],"exclude":[{"date":"2026-03-30"}]}"#,
        ),
        ("a/odd", r#"{"include":[{"weekly":["TUE","SUN"]}]}"#),
    ])
}

/// Whether the calendars of [`fields`] have the day.
fn has_day(definition: &JobDefinition, weekday: u32, date: (i32, u32, u32)) -> bool {
    let work = (1..=5).contains(&weekday) && date != (2026, 3, 30);
    let Some(wanted) = &definition.calendars else { return true };
    match (wanted.only.len(), wanted.except.len()) {
        (1, 0) => work,
        (0, 1) => !work,
        _ => work && weekday != 2 && weekday != 0,
    }
}

/// Every slot in `from..to`, one by one.
fn brute_force(definition: &JobDefinition, anchor: Timestamp, from: i64, to: i64) -> Vec<i64> {
    let zone = Zone::get(&definition.time_zone).unwrap();
    let by_wall = |at: &i64| {
        let (day, second) = zone.civil(*at);
        let days = has_day(definition, day.weekday(), (day.year(), day.month(), day.day()));
        days && in_windows(definition, second)
    };
    let mut found = BTreeSet::new();
    match &*definition.schedule {
        Schedule::Cron(all) => {
            let wanted = definition.calendars.as_ref();
            let days = wanted.map(|wanted| known().working(wanted).unwrap());
            let rules = Rules { gap: definition.gap, fold: definition.fold };
            for text in all.as_slice() {
                let cron = Cron::parse(text).unwrap();
                let slots = Slots { cron: &cron, zone, rules, days: days.as_deref(), shift: None };
                let next = |after| slots.next(after).filter(|slot| *slot < to);
                let all = std::iter::successors(next(from - 1), |slot| next(*slot));
                found.extend(all.filter(|at| in_windows(definition, zone.civil(*at).1)));
            }
        }
        Schedule::Every(step) | Schedule::FixedDelay(step) => {
            let step = i64::try_from(step.as_millis()).unwrap();
            let is_delay = matches!(*definition.schedule, Schedule::FixedDelay(_));
            let start = definition.start.filter(|_| !is_delay);
            let mut at = start.map_or(anchor.as_millis() + step, Timestamp::as_millis);
            while at < from {
                at += (from - at).div_euclid(step).max(1) * step;
            }
            while at < to {
                found.extend(Some(at).filter(by_wall));
                at += step;
            }
        }
        Schedule::At(_) => unreachable!("has a law of its own"),
    }
    let in_limits = |at: &i64| {
        definition.start.is_none_or(|start| *at >= start.as_millis())
            && definition.end.is_none_or(|end| *at < end.as_millis())
    };
    found.into_iter().filter(in_limits).collect()
}

fn in_windows(definition: &JobDefinition, second: u32) -> bool {
    let is_in = |from: u32, to: u32| {
        if from < to { (from..to).contains(&second) } else { second >= from || second < to }
    };
    definition.windows.is_empty()
        || definition.windows.iter().any(|window| is_in(window.from_second(), window.to_second()))
}

fn ms(at: i64) -> Timestamp {
    Timestamp::from_millis(at)
}

fn check_laws(plan: &Plan, slots: &[i64], from: i64, to: i64) -> Result<(), TestCaseError> {
    let mut probes: BTreeSet<i64> = (from..to).step_by(5_003_000).collect();
    let stride = (slots.len() / 40).max(1);
    probes.extend(slots.iter().step_by(stride).flat_map(|slot| [slot - 1, *slot, slot + 1]));
    for probe in probes.into_iter().filter(|probe| (from..to).contains(probe)) {
        let after = slots.partition_point(|slot| *slot <= probe);
        if let Some(next) = slots.get(after) {
            prop_assert_eq!(plan.next(ms(probe)), Some(ms(*next)), "after {}", ms(probe));
        } else {
            prop_assert!(plan.next(ms(probe)).is_none_or(|next| next >= ms(to)), "{}", ms(probe));
        }
        let before = slots.partition_point(|slot| *slot < probe);
        if let Some(prev) = before.checked_sub(1).map(|before| slots[before]) {
            prop_assert_eq!(plan.prev(ms(probe)), Some(ms(prev)), "before {}", ms(probe));
        }
        prop_assert_eq!(plan.count(ms(from - 1), ms(probe)), after as u64, "to {}", ms(probe));
        let rest = (slots.len() - after) as u64;
        prop_assert_eq!(plan.count(ms(probe), ms(to - 1)), rest, "from {}", ms(probe));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn next_prev_and_count_agree_with_brute_force(
        fields in fields(),
        instant in prop::sample::select(INSTANTS.to_vec()),
    ) {
        let calendars = known();
        let body = format!(r#"{{"task":"t",{fields}}}"#);
        let draft = cronstream_schemas::definition::Draft::decode(body.as_bytes());
        // What its filters leave no slot of is refused, and has no laws.
        let Ok(definition) = cronstream_core::definition::check(draft, &job(), &calendars) else {
            return Ok(());
        };
        if matches!(*definition.schedule, Schedule::At(_)) {
            return Ok(());
        }
        let anchor = at("2010-01-01T00:00:00.250Z");
        let plan = Plan::compile(&definition, &job(), anchor, &calendars).unwrap();
        let from = at(instant).as_millis() + 1;
        let to = from + DAYS * 86_400_000;
        check_laws(&plan, &brute_force(&definition, anchor, from, to), from, to)?;
    }

    /// Counting over years is the sum of counting over weeks.
    #[test]
    fn counts_add_up(fields in fields(), days in 400_i64..900) {
        let calendars = known();
        let body = format!(r#"{{"task":"t",{fields}}}"#);
        let draft = cronstream_schemas::definition::Draft::decode(body.as_bytes());
        let Ok(definition) = cronstream_core::definition::check(draft, &job(), &calendars) else {
            return Ok(());
        };
        let plan = Plan::compile(&definition, &job(), at("2010-01-01T00:00:00Z"), &calendars).unwrap();
        let from = at("2010-06-01T03:30:00Z");
        let day = Duration::from_secs(86_400);
        let ends = (1..=days).step_by(7).map(|days| from.plus(day * u32::try_from(days).unwrap()));
        let (mut last, mut sum) = (from, 0);
        for end in ends {
            sum += plan.count(last, end);
            last = end;
        }
        prop_assert_eq!(plan.count(from, last), sum);
    }
}

#[test]
fn a_single_instant_is_a_slot_if_everything_lets_it_be() {
    let calendars = known();
    for (fields, slot) in [
        (r#""time_zone":"Europe/Berlin""#, Some("2026-03-29T01:00:00Z")),
        (r#""time_zone":"Europe/Berlin","gap":"before""#, Some("2026-03-29T01:30:00Z")),
        (
            r#""time_zone":"Europe/Berlin","calendars":{"except":["a/work"]}"#,
            Some("2026-03-29T01:00:00Z"),
        ),
        (r#""time_zone":"UTC","windows":["02:00-03:00"]"#, Some("2026-03-29T02:30:00Z")),
        (r#""time_zone":"UTC","end":"2026-03-29T02:30:00.001Z""#, Some("2026-03-29T02:30:00Z")),
    ] {
        let fields = format!(r#""schedule":{{"at":"2026-03-29T02:30:00"}},{fields}"#);
        let definition = define(&fields, &calendars);
        let plan = Plan::compile(&definition, &job(), Timestamp::MIN, &calendars).unwrap();
        let slot = slot.map(at);
        assert_eq!(plan.next(Timestamp::MIN), slot, "{fields}");
        assert_eq!(plan.prev(Timestamp::MAX), slot, "{fields}");
        assert_eq!(plan.count(Timestamp::MIN, Timestamp::MAX), 1, "{fields}");
    }
}
