//! What the calendar costs: nanoseconds to parse, for the next and the previous slot, and to count the
//! slots of 30 days, with the `cron` crate beside it in the same run.
//!
//! ```text
//! cargo bench -p cronstream-core --bench calendar
//! ```
//!
//! The `cron` crate gets our zone tables as its zone, which is faster than other zone data it could
//! have. A row where its slots are not right is marked, for then its time says nothing.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![expect(clippy::disallowed_methods, reason = "the crate's own instants are what is compared")]

use std::{
    hint::black_box,
    str::FromStr,
    time::{Duration, Instant},
};

use chrono::{
    DateTime, FixedOffset, MappedLocalTime, NaiveDate, NaiveDateTime, Offset, TimeZone, Utc,
};
use cron::Schedule;
use cronstream_core::schedule::{Cron, Day, Rules, Zone};
use cronstream_schemas::definition::{Fold, Gap};

/// The expression, the same for the `cron` crate, and the zone.
const ROWS: [(&str, &str, &str); 10] = [
    ("* * * * * *", "* * * * * * *", "America/New_York"),
    ("*/15 * * * *", "0 */15 * * * * *", "UTC"),
    ("0 12 * * *", "0 0 12 * * * *", "UTC"),
    ("*/15 * * * *", "0 */15 * * * * *", "America/New_York"),
    ("0 12 * * *", "0 0 12 * * * *", "America/New_York"),
    ("0 9-17 * * 1-5", "0 0 9-17 * * MON-FRI *", "America/New_York"),
    ("30 6 * * 1", "0 30 6 * * MON *", "Europe/Berlin"),
    ("0 0 1 * *", "0 0 0 1 * * *", "Australia/Lord_Howe"),
    ("30 2 * * *", "0 30 2 * * * *", "Europe/Berlin"),
    ("0 12 29 2 *", "0 0 12 29 2 * *", "Europe/Berlin"),
];

/// What is counted over, in milliseconds.
const MONTH: i64 = 30 * 86_400_000;

/// Instants asked in one round.
const ASKED: usize = 4_096;

/// Rounds; the best one counts.
const ROUNDS: usize = 25;

fn main() {
    println!(
        "{:<37} {:>6} {:>6} {:>6} {:>6} {:>10}",
        "ns", "parse", "next", "prev", "count", "cron next"
    );
    for (ours, theirs, name) in ROWS {
        let zone = Zone::get(name).expect("the zone exists");
        let cron = Cron::parse(ours).expect("the expression is right");
        let instants = instants();
        let parse = best(|_| u64::from(Cron::parse(black_box(ours)).is_ok()));
        let next = best(|index| cron.next(zone, instants[index]).map_or(0, |at| at as u64));
        let prev = best(|index| cron.prev(zone, instants[index]).map_or(0, |at| at as u64));
        let count = best(|index| cron.count(zone, instants[index], instants[index] + MONTH));
        let (cron_next, wrong) = cron_crate(&cron, theirs, zone, &instants);
        let ratio = cron_next / next;
        let note = if wrong == 0 { String::new() } else { format!(", {wrong} of {ASKED} wrong") };
        println!(
            "{ours:<16} {name:<20} {parse:>6.0} {next:>6.0} {prev:>6.0} {count:>6.0} {cron_next:>10.0} = {ratio:.1} x{note}"
        );
    }
}

/// Nanoseconds for the next slot by the `cron` crate, and how many of its answers are wrong.
fn cron_crate(cron: &Cron, theirs: &str, zone: Zone, instants: &[i64]) -> (f64, usize) {
    let schedule = Schedule::from_str(theirs).expect("the expression is right");
    let starts: Vec<_> = instants.iter().map(|at| Walls(zone).at(*at)).collect();
    let next = |start: &DateTime<Walls>| schedule.after(start).next();
    let time = best(|index| next(&starts[index]).map_or(0, |at| at.timestamp() as u64));
    let wrong = |(at, start): &(&i64, &DateTime<Walls>)| {
        next(start).map(|at| at.timestamp_millis()) != cron.next(zone, **at)
    };
    (time, instants.iter().zip(&starts).filter(wrong).count())
}

/// Instants all over four years, the same in each run.
fn instants() -> Vec<i64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut instant = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        1_767_225_600_000 + (state % (4 * 366 * 86_400_000)) as i64
    };
    (0..ASKED).map(|_| instant()).collect()
}

/// Nanoseconds for one question, in the best round.
fn best(question: impl Fn(usize) -> u64) -> f64 {
    let round = |_| {
        let start = Instant::now();
        let sum = (0..ASKED).fold(0_u64, |sum, index| sum.wrapping_add(question(index)));
        black_box(sum);
        start.elapsed()
    };
    let best = (0..ROUNDS).map(round).min().unwrap_or(Duration::MAX);
    best.as_nanos() as f64 / ASKED as f64
}

/// A zone of ours as the `cron` crate wants it.
#[derive(Clone, Copy, Debug)]
struct Walls(Zone);

#[derive(Clone, Copy, Debug)]
struct WallOffset(Zone, FixedOffset);

impl Walls {
    fn at(self, ms: i64) -> DateTime<Self> {
        DateTime::<Utc>::from_timestamp_millis(ms).unwrap_or_default().with_timezone(&self)
    }
}

impl Offset for WallOffset {
    fn fix(&self) -> FixedOffset {
        self.1
    }
}

impl std::fmt::Display for WallOffset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.1.fmt(f)
    }
}

impl TimeZone for Walls {
    type Offset = WallOffset;

    fn from_offset(offset: &WallOffset) -> Self {
        Self(offset.0)
    }

    fn offset_from_local_date(&self, date: &NaiveDate) -> MappedLocalTime<WallOffset> {
        self.offset_from_local_datetime(&date.and_time(chrono::NaiveTime::MIN))
    }

    fn offset_from_local_datetime(&self, local: &NaiveDateTime) -> MappedLocalTime<WallOffset> {
        let second = local.and_utc().timestamp();
        let (day, time) = (second.div_euclid(86_400), second.rem_euclid(86_400));
        let pass = |fold| {
            let rules = Rules { gap: Some(Gap::Skip), fold: Some(fold) };
            let at = self.0.resolve(Day::from_number(day)?, time as u32, rules)?;
            Some(self.offset_from_utc_datetime(&DateTime::from_timestamp_millis(at)?.naive_utc()))
        };
        match (pass(Fold::First), pass(Fold::Last)) {
            (Some(first), Some(last)) if first.1 != last.1 => {
                MappedLocalTime::Ambiguous(first, last)
            }
            (Some(one), _) => MappedLocalTime::Single(one),
            (None, _) => MappedLocalTime::None,
        }
    }

    fn offset_from_utc_date(&self, date: &NaiveDate) -> WallOffset {
        self.offset_from_utc_datetime(&date.and_time(chrono::NaiveTime::MIN))
    }

    fn offset_from_utc_datetime(&self, utc: &NaiveDateTime) -> WallOffset {
        let seconds = self.0.offset_seconds(utc.and_utc().timestamp_millis());
        WallOffset(self.0, FixedOffset::east_opt(seconds).expect("an offset is under a day"))
    }
}
