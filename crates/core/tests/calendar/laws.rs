//! Laws of the calendar, with brute force as the oracle (see `oracle`).

use std::time::{Duration, Instant};

use cronstream_core::schedule::{Cron, Day, DaySet, Rules, Slots, Zone};
use cronstream_schemas::definition::{Fold, Gap};
use jiff::{
    Timestamp,
    tz::{TimeZone, TimeZoneDatabase},
};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

use crate::oracle::{DAY, Job, brute_force, date, job, written};

/// Zones with something odd: half-hour changes, midnight gaps, skipped days, two-hour changes,
/// changes around Ramadan, new offsets, no changes.
const ZONES: [&str; 24] = [
    "UTC",
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Caracas",
    "America/Havana",
    "America/New_York",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Europe/London",
    "Europe/Moscow",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Kiritimati",
    "Pacific/Kwajalein",
];

/// A zone, and an instant (Unix seconds) that is near a clock change of it if there is one.
fn place() -> impl Strategy<Value = (&'static str, i64)> {
    let years = 1_970_i64 + 3..2_200;
    (prop::sample::select(&ZONES[..]), years, -20_i64..20, 0_i64..366).prop_map(
        |(name, year, hours, day)| {
            let zone = jiff_zone(name);
            let january = (year - 1_970) * 31_556_952;
            let from = Timestamp::from_second(january + day * DAY).unwrap();
            let change = zone.following(from).next().map(|change| change.timestamp());
            let near = change.filter(|change| change.as_second() < january + 2 * 365 * DAY);
            let at = near.unwrap_or(from).as_second() + hours * 3_600;
            (name, at - at.rem_euclid(60))
        },
    )
}

fn jiff_zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap()
}

/// Next, prev and count over `from..to` are what brute force finds.
fn agree_with_brute_force(
    job: &Job,
    name: &str,
    (from, to): (i64, i64),
    step: i64,
) -> Result<(), TestCaseError> {
    let text = job.expr.text();
    // What never fires is refused; brute force finds nothing either.
    let parsed = Cron::parse(&text);
    let expected = brute_force(job, &jiff_zone(name), from, to, step);
    let Ok(cron) = parsed else {
        let error = parsed.unwrap_err();
        prop_assert!(error.message.contains("would never run"), "`{text}`: {error}");
        prop_assert!(expected.is_empty());
        return Ok(());
    };
    let days = job.day_set(from, to);
    let zone = Zone::get(name).unwrap();
    let slots = Slots { cron: &cron, zone, rules: job.rules, days: days.as_ref(), shift: None };
    let about = || format!("`{text}` in {name} from {from}, {:?}", job.rules);
    let (first, end) = (from * 1_000 - 1, to * 1_000);
    let forward: Vec<_> = std::iter::successors(slots.next(first), |at| slots.next(*at))
        .take_while(|at| *at < end)
        .collect();
    prop_assert_eq!(&forward, &expected, "next of {}", about());
    let mut back: Vec<_> = std::iter::successors(slots.prev(end), |at| slots.prev(*at))
        .take_while(|at| *at > first)
        .collect();
    back.reverse();
    prop_assert_eq!(&back, &expected, "prev of {}", about());
    prop_assert_eq!(slots.count(first, end - 1), expected.len() as u64, "count of {}", about());
    for (index, slot) in expected.iter().enumerate().step_by(expected.len() / 9 + 1) {
        prop_assert_eq!(slots.next(slot - 1), Some(*slot));
        prop_assert_eq!(slots.prev(slot + 1), Some(*slot));
        prop_assert_eq!(slots.count(slot - 1, *slot), 1);
        prop_assert_eq!(slots.count(first, *slot), index as u64 + 1, "count of {}", about());
    }
    Ok(())
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, cases, ..Default::default() }
}

proptest! {
    #![proptest_config(config(1_000))]

    #[test]
    fn minutes_agree_with_brute_force(job in job(false), (name, at) in place()) {
        agree_with_brute_force(&job, name, (at - 2 * DAY, at + 2 * DAY), 60)?;
    }

    #[test]
    fn far_and_wide_the_laws_hold(
        job in job(true),
        name in prop::sample::select(&ZONES[..]),
        at in prop_oneof![any::<i64>(), 0..7_258_118_400_000_i64],
        span in 0..70_000_000_000_i64,
    ) {
        let Ok(cron) = Cron::parse(&job.expr.text()) else { return Ok(()) };
        let days = job.day_set(0, 3_000_000_000);
        let zone = Zone::get(name).unwrap();
        let slots = Slots { cron: &cron, zone, rules: job.rules, days: days.as_ref(), shift: None };
        let through = at.saturating_add(span);
        let middle = at.saturating_add(span / 3);
        let whole = slots.count(at, through);
        prop_assert_eq!(whole, slots.count(at, middle) + slots.count(middle, through));
        if let Some(next) = slots.next(at) {
            prop_assert!(next > at);
            prop_assert_eq!(slots.count(at, next), 1);
            prop_assert_eq!(slots.next(next - 1), Some(next));
            prop_assert!(slots.prev(next).is_none_or(|prev| prev <= at));
            prop_assert_eq!(whole == 0, next > through);
        }
        if let Some(prev) = slots.prev(at) {
            prop_assert!(prev < at);
            prop_assert!(slots.next(prev).is_none_or(|next| next >= at));
        }
    }
}

proptest! {
    #![proptest_config(config(48))]

    #[test]
    fn seconds_agree_with_brute_force(job in job(true), (name, at) in place()) {
        agree_with_brute_force(&job, name, (at - DAY / 4, at + DAY / 4), 1)?;
    }
}

/// The names that are accepted, with links, and jiff's data for each.
fn every_zone() -> impl Iterator<Item = (String, TimeZone)> {
    let database = TimeZoneDatabase::bundled();
    let names: Vec<_> = database.available().map(|name| name.to_string()).collect();
    let accepted = names.into_iter().filter(|name| Zone::get(name).is_ok());
    accepted.map(|name| (name.clone(), jiff_zone(&name)))
}

/// The end of the last year that is supported.
const YEARS_END: i64 = 7_258_118_400;

#[test]
fn in_every_zone_minutes_agree_with_brute_force() {
    let mut runner = TestRunner::deterministic();
    let jobs = (job(false), 0..YEARS_END / 60);
    let mut windows = 0;
    for (name, zone) in every_zone().filter(|(name, _)| Zone::get(name).unwrap().name() == *name) {
        let changes: Vec<_> = zone
            .following(Timestamp::from_second(3 * 365 * DAY).unwrap())
            .map(|change| change.timestamp().as_second())
            .take_while(|at| *at < YEARS_END)
            .collect();
        // Most of the changes before the rules repeat, some of those after, and any place.
        let (early, late) = changes.split_at(changes.len().min(130));
        let near = early.iter().step_by(4).chain(late.iter().step_by(100));
        for near in near.copied().map(Some).chain([None; 2]) {
            let (job, anywhere) = jobs.new_tree(&mut runner).unwrap().current();
            let at = near.unwrap_or(anywhere * 60);
            agree_with_brute_force(&job, &name, (at - DAY, at + DAY), 60).unwrap();
            windows += 1;
        }
    }
    assert!(windows > 5_000, "{windows}");
}

#[test]
fn change_at_a_broken_minute_agrees_with_brute_force() {
    // Liberia gave up an offset of 44 minutes and 30 seconds on 1972-01-07.
    let change = 63_593_070;
    let window = (change - DAY / 2, change + DAY / 2);
    let mut runner = TestRunner::deterministic();
    let fields = ["10 0 * * *", "* * * * *", "44 0 * * *", "*/7 0,1 * * *", "0,44 0-1 * * *"];
    for text in fields {
        let mut job = job(false).new_tree(&mut runner).unwrap().current();
        let [minutes, hours] = [text.split(' ').next().unwrap(), text.split(' ').nth(1).unwrap()];
        job.expr = written(minutes, hours);
        for gap in [None, Some(Gap::End), Some(Gap::Skip), Some(Gap::Before)] {
            job.rules = Rules { gap, fold: None };
            agree_with_brute_force(&job, "Africa/Monrovia", window, 1).unwrap();
        }
    }
}

#[test]
fn every_zone_has_the_offsets_of_the_bundled_database() {
    let mut zones = 0;
    for (name, theirs) in every_zone() {
        let zone = Zone::get(&name).unwrap();
        let agree = |at: i64| {
            let expected = theirs.to_offset(Timestamp::from_second(at).unwrap()).seconds();
            assert_eq!(zone.offset_seconds(at * 1_000), expected, "{name} at {at}");
        };
        (0..YEARS_END).step_by(5_000_011).for_each(agree);
        for change in theirs.following(Timestamp::UNIX_EPOCH) {
            let at = change.timestamp().as_second();
            if at > YEARS_END {
                break;
            }
            agree(at - 1);
            agree(at);
        }
        zones += 1;
    }
    assert!(zones > 580, "{zones} names accepted");
}

#[test]
fn leap_days_are_right_across_2100() {
    let cron = Cron::parse("0 12 29 2 *").unwrap();
    let from = i64::from(2_085) * 31_556_952_000 - 1_970 * 31_556_952_000;
    let years: Vec<_> =
        std::iter::successors(cron.next(Zone::UTC, from), |at| cron.next(Zone::UTC, *at))
            .map(|at| date(at / 1_000 / DAY).year())
            .take(6)
            .collect();
    assert_eq!(years, [2088, 2092, 2096, 2104, 2108, 2112]);
    let start = Zone::UTC.start_of_day(Day::parse("2100-02-28").unwrap());
    let end = Zone::UTC.start_of_day(Day::parse("2100-03-02").unwrap());
    assert_eq!(Cron::parse("0 12 * * *").unwrap().count(Zone::UTC, start, end), 2);
}

#[test]
fn the_calendar_has_two_ends() {
    let cron = Cron::parse("* * * * * *").unwrap();
    let end = 8_520_336_000_000;
    for at in [i64::MIN, -1_001, -1] {
        assert_eq!(cron.next(Zone::UTC, at), Some(0));
    }
    assert_eq!(cron.prev(Zone::UTC, 0), None);
    assert_eq!(cron.prev(Zone::UTC, 1), Some(0));
    assert_eq!(cron.prev(Zone::UTC, 1_000), Some(0));
    assert_eq!(cron.next(Zone::UTC, end - 1_001), Some(end - 1_000));
    assert_eq!(cron.next(Zone::UTC, end - 1_000), None);
    for at in [end, i64::MAX] {
        assert_eq!(cron.prev(Zone::UTC, at), Some(end - 1_000));
    }
    assert_eq!(cron.count(Zone::UTC, -1, 0), 1);
    assert_eq!(cron.count(Zone::UTC, 0, 0), 0);
    assert_eq!(cron.count(Zone::UTC, i64::MIN, i64::MAX), end as u64 / 1_000);
}

/// Any instant is answered, and at once: jobs that are due once in decades or never, in every zone,
/// under all rules, asked at the ends of what an instant can be.
#[test]
#[expect(clippy::disallowed_methods, reason = "the time that it takes is measured")]
fn any_instant_is_answered_in_bounded_time() {
    let deadline = Instant::now() + Duration::from_secs(30);
    let none = DaySet::none();
    let friday_leap_days = Cron::parse("30 2 29 2 */7").unwrap();
    let only_in_gaps = Cron::parse("* 2 8 3 */7").unwrap();
    let often = Cron::parse("* * * * * *").unwrap();
    let gaps = [None, Some(Gap::End), Some(Gap::Skip), Some(Gap::Before)];
    let folds = [None, Some(Fold::First), Some(Fold::Last), Some(Fold::Both)];
    let instants = [i64::MIN, -1, 0, 1_793_509_200_000, YEARS_END * 1_000, i64::MAX];
    let mut asked = 0;
    for (index, name) in every_zone().map(|(name, _)| name).step_by(9).enumerate() {
        let rules = Rules { gap: gaps[index % 4], fold: folds[index / 4 % 4] };
        for (cron, days) in [
            (&friday_leap_days, None),
            (&only_in_gaps, None),
            (&often, None),
            (&often, Some(&none)),
        ] {
            let slots = Slots { cron, zone: Zone::get(&name).unwrap(), rules, days, shift: None };
            for at in instants {
                assert!(slots.next(at).is_none_or(|next| next > at));
                assert!(slots.prev(at).is_none_or(|prev| prev < at));
                assert!(days.is_none() || slots.next(at).is_none() && slots.prev(at).is_none());
                asked += slots.count(at, i64::MAX).min(1);
            }
        }
        assert!(Instant::now() < deadline, "still at {name}");
    }
    assert!(asked > 0);
}
