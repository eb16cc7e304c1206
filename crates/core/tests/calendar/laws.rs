//! Laws of the calendar, with brute force as the oracle.
//!
//! The oracle shares nothing with the engine: expressions are generated together with their sets
//! of values, wall times come from jiff's own zone database, and every second (or minute) of a
//! window is looked at in turn, as a cron daemon would.

use std::collections::BTreeSet;

use cronstream_core::schedule::{Cron, Zone};
use jiff::{
    Timestamp,
    civil::DateTime,
    tz::{TimeZone, TimeZoneDatabase},
};
use proptest::prelude::*;

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

const DAY: i64 = 86_400;

/// A field as text, and the values the text means.
#[derive(Clone, Debug)]
struct Field {
    text: String,
    values: BTreeSet<u32>,
}

impl Field {
    fn starred(&self) -> bool {
        self.text.starts_with('*')
    }
}

/// Counts from `first` to `last` one by one, around the end if need be, and takes every `step`th.
fn walk(first: u32, last: u32, step: u32, (low, high): (u32, u32)) -> BTreeSet<u32> {
    let mut values = BTreeSet::new();
    let (mut value, mut place) = (first, 0);
    loop {
        if place % step == 0 {
            values.insert(value);
        }
        if value == last {
            return values;
        }
        value = if value == high { low } else { value + 1 };
        place += 1;
    }
}

fn item(low: u32, high: u32) -> impl Strategy<Value = Field> {
    let bounds = (low, high);
    let all = || (low..=high).collect::<BTreeSet<_>>();
    prop_oneof![
        2 => Just(Field { text: "*".into(), values: all() }),
        2 => (1..=high + 2).prop_map(move |step| Field {
            text: format!("*/{step}"),
            values: walk(low, high, step, bounds),
        }),
        4 => (low..=high).prop_map(|value| Field {
            text: value.to_string(),
            values: BTreeSet::from([value]),
        }),
        2 => (low..=high, low..=high).prop_map(move |(first, last)| Field {
            text: format!("{first}-{last}"),
            values: walk(first, last, 1, bounds),
        }),
        1 => (low..=high, low..=high, 1..=high).prop_map(move |(first, last, step)| Field {
            text: format!("{first}-{last}/{step}"),
            values: walk(first, last, step, bounds),
        }),
        1 => (low..=high, 1..=high).prop_map(move |(first, step)| Field {
            text: format!("{first}/{step}"),
            values: walk(first, high, step, bounds),
        }),
    ]
}

fn field(low: u32, high: u32) -> impl Strategy<Value = Field> {
    prop::collection::vec(item(low, high), 1..=3).prop_map(|items| Field {
        text: items.iter().map(|item| item.text.as_str()).collect::<Vec<_>>().join(","),
        values: items.into_iter().flat_map(|item| item.values).collect(),
    })
}

/// A weekday field in the numbers 1 to 6, where no rule about Sunday is needed, or with it.
fn weekdays() -> impl Strategy<Value = Field> {
    let named = |text: &str, values: &[u32]| Field {
        text: text.into(),
        values: values.iter().copied().collect(),
    };
    prop_oneof![
        3 => Just(named("*", &[0, 1, 2, 3, 4, 5, 6])),
        2 => (1_u32..=6, 1_u32..=6).prop_map(|(first, last)| Field {
            text: format!("{first}-{last}"),
            values: walk(first, last, 1, (0, 6)),
        }),
        1 => Just(named("*/2", &[0, 2, 4, 6])),
        1 => Just(named("Fri-sun", &[5, 6, 0])),
        1 => Just(named("7", &[0])),
        1 => Just(named("0,SAT", &[0, 6])),
    ]
}

/// Few restrictions on days, so that a window of days is not empty.
fn dates() -> impl Strategy<Value = (Field, Field)> {
    let star = || Just(Field { text: "*".into(), values: (1..=31).collect() });
    let months = || Just(Field { text: "*".into(), values: (1..=12).collect() });
    (prop_oneof![3 => star(), 2 => field(1, 31)], prop_oneof![5 => months(), 1 => field(1, 12)])
}

/// An expression and, independently of the parser, what it means.
#[derive(Clone, Debug)]
struct Expression {
    seconds: Option<Field>,
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

impl Expression {
    fn text(&self) -> String {
        let fields = [&self.minutes, &self.hours, &self.days, &self.months, &self.weekdays];
        let texts = self.seconds.iter().chain(fields).map(|field| field.text.as_str());
        texts.collect::<Vec<_>>().join(" ")
    }

    fn matches(&self, civil: DateTime) -> bool {
        let has = |field: &Field, value: i8| field.values.contains(&(value as u32));
        let day = has(&self.days, civil.day());
        let weekday = has(&self.weekdays, civil.weekday().to_sunday_zero_offset());
        let both = self.days.starred() || self.weekdays.starred();
        let second = match &self.seconds {
            Some(field) => has(field, civil.second()),
            None => civil.second() == 0,
        };
        second
            && has(&self.minutes, civil.minute())
            && has(&self.hours, civil.hour())
            && has(&self.months, civil.month())
            && if both { day && weekday } else { day || weekday }
    }

    fn elapsed(&self) -> bool {
        self.minutes.starred() || self.hours.starred()
    }
}

prop_compose! {
    fn expression(seconds: bool)(
        seconds in field(0, 59).prop_map(move |field| seconds.then_some(field)),
        minutes in field(0, 59),
        hours in field(0, 23),
        (days, months) in dates(),
        weekdays in weekdays(),
    ) -> Expression {
        Expression { seconds, minutes, hours, days, months, weekdays }
    }
}

/// The slots in `from..to` (Unix seconds) as a daemon finds them that looks at the wall clock each
/// `step` seconds. For fixed times it keeps the last civil time it has served, as Debian's does.
fn brute_force(expr: &Expression, zone: &TimeZone, from: i64, to: i64, step: i64) -> Vec<i64> {
    let wall = |at: i64| {
        zone.to_offset(Timestamp::from_second(at).unwrap())
            .to_datetime(Timestamp::from_second(at).unwrap())
    };
    let civil =
        |at: i64| at + i64::from(zone.to_offset(Timestamp::from_second(at).unwrap()).seconds());
    let as_wall =
        |civil: i64| jiff::tz::Offset::UTC.to_datetime(Timestamp::from_second(civil).unwrap());
    // Long enough before the window to be past any fold.
    let start = from - 30 * 3_600;
    let mut served = civil(start);
    let mut slots = Vec::new();
    let mut at = start;
    while at < to {
        let mut due = expr.elapsed() && expr.matches(wall(at));
        if !expr.elapsed() {
            while served < civil(at) {
                served += step;
                due |= expr.matches(as_wall(served));
            }
        }
        if due && at >= from {
            slots.push(at * 1_000);
        }
        at += step;
    }
    slots
}

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
    expr: &Expression,
    name: &str,
    (from, to): (i64, i64),
    step: i64,
) -> Result<(), TestCaseError> {
    let text = expr.text();
    // What never fires is refused; brute force finds nothing either.
    let parsed = Cron::parse(&text);
    let expected = brute_force(expr, &jiff_zone(name), from, to, step);
    let Ok(cron) = parsed else {
        let error = parsed.unwrap_err();
        prop_assert!(error.message.contains("would never run"), "`{text}`: {error}");
        prop_assert!(expected.is_empty());
        return Ok(());
    };
    let zone = Zone::get(name).unwrap();
    let (first, end) = (from * 1_000 - 1, to * 1_000);
    let forward: Vec<_> = std::iter::successors(cron.next(zone, first), |at| cron.next(zone, *at))
        .take_while(|at| *at < end)
        .collect();
    prop_assert_eq!(&forward, &expected, "next of `{}` in {}", text, name);
    let mut back: Vec<_> = std::iter::successors(cron.prev(zone, end), |at| cron.prev(zone, *at))
        .take_while(|at| *at > first)
        .collect();
    back.reverse();
    prop_assert_eq!(&back, &expected, "prev of `{}` in {}", text, name);
    prop_assert_eq!(cron.count(zone, first, end - 1), expected.len() as u64);
    for slot in expected.iter().take(5) {
        prop_assert_eq!(cron.next(zone, slot - 1), Some(*slot));
        prop_assert_eq!(cron.prev(zone, slot + 1), Some(*slot));
        prop_assert_eq!(cron.count(zone, slot - 1, *slot), 1);
    }
    Ok(())
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, cases, ..Default::default() }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn minutes_agree_with_brute_force(expr in expression(false), (name, at) in place()) {
        agree_with_brute_force(&expr, name, (at - 2 * DAY, at + 2 * DAY), 60)?;
    }

    #[test]
    fn far_and_wide_the_laws_hold(
        expr in expression(true),
        name in prop::sample::select(&ZONES[..]),
        at in prop_oneof![any::<i64>(), 0..7_258_118_400_000_i64],
        span in 0..70_000_000_000_i64,
    ) {
        let Ok(cron) = Cron::parse(&expr.text()) else { return Ok(()) };
        let zone = Zone::get(name).unwrap();
        let through = at.saturating_add(span);
        let middle = at.saturating_add(span / 3);
        let whole = cron.count(zone, at, through);
        prop_assert_eq!(whole, cron.count(zone, at, middle) + cron.count(zone, middle, through));
        if let Some(next) = cron.next(zone, at) {
            prop_assert!(next > at);
            prop_assert_eq!(cron.count(zone, at, next), 1);
            prop_assert_eq!(cron.next(zone, next - 1), Some(next));
            prop_assert!(cron.prev(zone, next).is_none_or(|prev| prev <= at));
            prop_assert_eq!(whole == 0, next > through);
        }
        if let Some(prev) = cron.prev(zone, at) {
            prop_assert!(prev < at);
            prop_assert!(cron.next(zone, prev).is_none_or(|next| next >= at));
        }
    }
}

proptest! {
    #![proptest_config(config(48))]

    #[test]
    fn seconds_agree_with_brute_force(expr in expression(true), (name, at) in place()) {
        agree_with_brute_force(&expr, name, (at - DAY / 4, at + DAY / 4), 1)?;
    }
}

#[test]
fn change_at_a_broken_minute_agrees_with_brute_force() {
    // Liberia gave up an offset of 44 minutes and 30 seconds on 1972-01-07.
    let star = |low, high| Field { text: "*".into(), values: (low..=high).collect() };
    let one = |value: u32| Field { text: value.to_string(), values: BTreeSet::from([value]) };
    for (minutes, hours) in [(one(10), one(0)), (star(0, 59), star(0, 23)), (one(44), one(0))] {
        let expr = Expression {
            seconds: None,
            minutes,
            hours,
            days: star(1, 31),
            months: star(1, 12),
            weekdays: star(0, 6),
        };
        let change = 63_593_070;
        let window = (change - DAY, change + DAY);
        agree_with_brute_force(&expr, "Africa/Monrovia", window, 1).unwrap();
    }
}

#[test]
fn every_zone_has_the_offsets_of_the_bundled_database() {
    let database = TimeZoneDatabase::bundled();
    let mut zones = 0;
    for name in database.available() {
        let Ok(zone) = Zone::get(name.as_str()) else { continue };
        let theirs = database.get(name.as_str()).unwrap();
        let agree = |at: i64| {
            let expected = theirs.to_offset(Timestamp::from_second(at).unwrap()).seconds();
            assert_eq!(zone.offset_seconds(at * 1_000), expected, "{name} at {at}");
        };
        (0..7_258_118_400).step_by(1_000_003).for_each(agree);
        for change in theirs.following(Timestamp::UNIX_EPOCH) {
            let at = change.timestamp().as_second();
            if at > 7_258_118_400 {
                break;
            }
            agree(at - 1);
            agree(at);
        }
        zones += 1;
    }
    assert!(zones > 580, "{zones} names accepted");
}
