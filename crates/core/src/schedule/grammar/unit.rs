//! The fields of an expression: what each may hold, in each dialect.

use cronstream_schemas::definition::Dialect;

use super::super::years::{YEAR_MAX, YEAR_MIN};

/// What a field may hold.
#[derive(Debug)]
pub(super) struct Unit {
    /// Its name in messages. Hash slots are drawn with it: a change would move them.
    pub(super) name: &'static str,
    pub(super) first: u32,
    /// The highest value; for weekdays the 7 that is Sunday again.
    pub(super) last: u32,
    /// How many different values there are.
    pub(super) cycle: u32,
    /// Names of the values from `first` on.
    pub(super) names: &'static [&'static str],
    /// What the `cron` crate calls the value 0.
    pub(super) shift: u32,
    pub(super) kind: Kind,
    /// The highest value that a bare `H` may stand for.
    pub(super) hash_last: u32,
    /// Whether `/5` is `*/5`.
    pub(super) bare_step: bool,
}

/// What sets a field apart from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Seconds, minutes, hours and months.
    Plain,
    /// Days of the month, with `?`, `L`, `W`.
    Dates,
    /// Days of the week, with `?`, `L`, `#`.
    Weekdays(Dialect),
    /// Years: no hash slots, no ranges over the end.
    Years,
}

impl Unit {
    /// The highest value as the `cron` crate counts, before any wrap.
    pub(super) const fn highest(&self) -> u32 {
        self.first + self.cycle - 1
    }

    pub(super) fn is_days(&self) -> bool {
        matches!(self.kind, Kind::Dates | Kind::Weekdays(_))
    }

    /// What this field may hold, in words.
    pub(super) fn range(&self) -> String {
        let Self { first, last, .. } = self;
        match (self.names.first(), self.names.last()) {
            (Some(low), Some(high)) => format!("{first} to {last}, or {low} to {high}"),
            _ => format!("{first} to {last}"),
        }
    }
}

const PLAIN: Unit = Unit {
    name: "second",
    first: 0,
    last: 59,
    cycle: 60,
    names: &[],
    shift: 0,
    kind: Kind::Plain,
    hash_last: 59,
    bare_step: false,
};

const SECONDS: Unit = PLAIN;
const MINUTES: Unit = Unit { name: "minute", ..PLAIN };
const HOURS: Unit = Unit { name: "hour", last: 23, cycle: 24, hash_last: 23, ..PLAIN };
const DATES: Unit = Unit {
    name: "day-of-month",
    first: 1,
    last: 31,
    cycle: 31,
    kind: Kind::Dates,
    hash_last: 28,
    ..PLAIN
};
const MONTHS: Unit = Unit {
    name: "month",
    first: 1,
    last: 12,
    cycle: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    hash_last: 12,
    ..PLAIN
};
const WEEKDAYS: Unit = Unit {
    name: "day-of-week",
    last: 7,
    cycle: 7,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    shift: 1,
    kind: Kind::Weekdays(Dialect::Crontab),
    hash_last: 6,
    ..PLAIN
};
const QUARTZ_WEEKDAYS: Unit =
    Unit { first: 1, shift: 0, kind: Kind::Weekdays(Dialect::Quartz), hash_last: 7, ..WEEKDAYS };
const YEARS: Unit = Unit {
    name: "year",
    first: YEAR_MIN,
    last: YEAR_MAX,
    cycle: YEAR_MAX - YEAR_MIN + 1,
    kind: Kind::Years,
    hash_last: 0,
    ..PLAIN
};

/// Where a field stands in [`units`].
pub(super) const SECOND: usize = 0;
pub(super) const MINUTE: usize = 1;
pub(super) const HOUR: usize = 2;
pub(super) const DATE: usize = 3;
pub(super) const MONTH: usize = 4;
pub(super) const WEEKDAY: usize = 5;
pub(super) const YEAR: usize = 6;

/// The fields in order, seconds first and the year last.
pub(super) fn units(dialect: Dialect) -> &'static [Unit; 7] {
    static CRONTAB: [Unit; 7] = [SECONDS, MINUTES, HOURS, DATES, MONTHS, WEEKDAYS, YEARS];
    static QUARTZ: [Unit; 7] = [
        Unit { bare_step: true, ..SECONDS },
        Unit { bare_step: true, ..MINUTES },
        Unit { bare_step: true, ..HOURS },
        Unit { bare_step: true, ..DATES },
        Unit { bare_step: true, ..MONTHS },
        Unit { bare_step: true, ..QUARTZ_WEEKDAYS },
        Unit { bare_step: true, ..YEARS },
    ];
    match dialect {
        Dialect::Crontab => &CRONTAB,
        Dialect::Quartz => &QUARTZ,
    }
}
