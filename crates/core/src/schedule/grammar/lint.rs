//! Lints: what an accepted expression does that its writer may not expect.
//!
//! Invariant: a lint never refuses; it names the byte, what happens, and what to write instead.

use cronstream_schemas::definition::Dialect;

use super::{
    super::{
        days::low_bits,
        fields::{Cron, DayRule},
        words::{MONTHS, WEEKDAYS},
    },
    item::{Item, Run, read_item},
    piece::Piece,
    shape::{Fields, lift_zone, split_fields},
    unit::{DATE, Kind, MINUTE, SECOND, Unit, WEEKDAY, YEAR},
};

/// A warning about an accepted expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lint {
    /// The kind of warning, such as `uneven-step`.
    pub code: &'static str,
    /// Byte offset of the piece it is about.
    pub position: usize,
    /// What happens.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

/// What an accepted expression does that its writer may not expect. `cron` is what the expression
/// was compiled to; intervals and macros have no lints.
#[must_use]
pub fn lint(expr: &str, dialect: Dialect, cron: &Cron) -> Vec<Lint> {
    let fields = lift_zone(expr).and_then(|(_, text)| split_fields(text, dialect));
    let Ok(fields) = fields else { return Vec::new() };
    let mut linter = Linter { fields: &fields, dialect, cron, lints: Vec::new() };
    linter.seconds();
    linter.minutes();
    for index in SECOND..YEAR {
        linter.steps(&fields.units[index], fields.pieces[index]);
    }
    linter.day_fields();
    linter.weekday_numbers();
    linter.days_not_in_every_month();
    linter.lints
}

struct Linter<'a> {
    fields: &'a Fields<'a>,
    dialect: Dialect,
    cron: &'a Cron,
    lints: Vec<Lint>,
}

impl Linter<'_> {
    fn push(&mut self, code: &'static str, at: Piece<'_>, message: String, hint: String) {
        self.lints.push(Lint { code, position: at.position, message, hint });
    }

    /// Every second, and six fields that look like five and a stray star.
    fn seconds(&mut self) {
        let [seconds, minutes, hours, .., weekdays, _] = self.fields.pieces;
        if self.cron.seconds.count_ones() == 60 {
            let words = self.cron.describe();
            let message = format!("the first field is the second: {words}, 60 runs a minute");
            let hint = "write `0` as the first field for one run a minute";
            return self.push("every-second", seconds, message, hint.into());
        }
        let stray = self.dialect == Dialect::Crontab
            && self.fields.written == 6
            && weekdays.text == "*"
            && hours.text == "*";
        let could_be_hours = !self.fields.starred(MINUTE) && self.cron.minutes >> 24 == 0;
        // `0 0 * * * *` is how most would write every hour.
        if !stray || !could_be_hours || (seconds.text, minutes.text) == ("0", "0") {
            return;
        }
        let words = self.cron.describe();
        let message = format!("of six fields the first is the second: this runs {words}");
        let five = self.fields.pieces[SECOND..WEEKDAY].iter().map(|piece| piece.text);
        let hint = match Cron::parse(&five.collect::<Vec<_>>().join(" ")) {
            Ok(five) => format!("drop the last field to run {}", five.describe()),
            Err(_) => "drop the last field if the first is to be the minute".into(),
        };
        self.push("seconds-first", seconds, message, hint);
    }

    /// Every minute of one hour.
    fn minutes(&mut self) {
        let cron = self.cron;
        if cron.minutes.count_ones() == 60 && cron.hours.is_power_of_two() && cron.seconds == 1 {
            let minutes = self.fields.pieces[MINUTE];
            let message = format!("60 runs in one hour: {}", cron.describe());
            let hour = cron.hours.trailing_zeros();
            let hint = format!("write `0` as the minute for one run at {hour:02}:00");
            self.push("every-minute", minutes, message, hint);
        }
    }

    fn steps(&mut self, unit: &Unit, field: Piece<'_>) {
        for item in field.split(&[',']).filter(|item| item.text.contains('/')) {
            let (run, hashed) = match read_item(unit, item) {
                Ok(Item::Run(run)) => (run, false),
                Ok(Item::Hash { low, high, step }) => {
                    (Run { first: low, last: high, step: step.unwrap_or(1) }, true)
                }
                Ok(Item::Counted(_)) | Err(_) => continue,
            };
            if run.first + run.step > run.last.min(run.first + unit.cycle - 1) {
                let value =
                    if hashed { "one value".into() } else { format!("{} alone", run.first) };
                let message = format!("step over the span: `{}` is {value}", item.text);
                let hint = match run.last - run.first + 1 {
                    1 => "leave the step out".into(),
                    span => format!("write a step below {span}"),
                };
                self.push("step-over-span", item, message, hint);
            } else {
                self.uneven(unit, item, (run, hashed));
            }
        }
    }

    /// Steps that go to the end of the field and do not meet its start in their own measure.
    fn uneven(&mut self, unit: &Unit, item: Piece<'_>, (run, hashed): (Run, bool)) {
        let whole = (unit.highest()..=unit.last).contains(&run.last);
        let reached = run.reached();
        let rest = run.first + unit.cycle - reached;
        // `0-7` comes back to the Sunday that it began with.
        if !whole || rest == 0 || rest >= run.step {
            return;
        }
        let (text, first, step) = (item.text, run.first, run.step);
        let message = if hashed && step > unit.cycle / 2 {
            format!("uneven step: `{text}` is one value or two, by the name of the job")
        } else {
            format!("uneven step: in `{text}` {first} follows {reached} after {rest}, not {step}")
        };
        let hint = if unit.kind == Kind::Dates {
            "a step starts anew each month; for even intervals use `every`".into()
        } else {
            let even: Vec<_> = (2..unit.cycle)
                .filter(|step| unit.cycle.is_multiple_of(*step))
                .map(|step| step.to_string())
                .collect();
            match even.is_empty() {
                true => "a step starts anew each week; name the days".into(),
                false => format!("even steps are {}", even.join(", ")),
            }
        };
        self.push("uneven-step", item, message, hint);
    }

    /// How day-of-month and day-of-week combine, where both restrict.
    fn day_fields(&mut self) {
        let (dates, weekdays) = (self.fields.pieces[DATE], self.fields.pieces[WEEKDAY]);
        let days = &self.cron.days;
        match (days.rule, days.any_date(), days.any_weekday()) {
            (DayRule::Either, false, false) => self.push(
                "day-or-weekday",
                dates,
                format!("a day that matches one of the two is enough: {}", self.cron.describe()),
                format!("for days that match both write `+{}`", weekdays.text),
            ),
            (DayRule::Either, ..) => {
                let (all, other) = if days.any_date() {
                    (dates, "day-of-week")
                } else {
                    (weekdays, "day-of-month")
                };
                self.push(
                    "day-or-weekday",
                    all,
                    format!("`{}` is every day, so the {other} restricts nothing", all.text),
                    "write `*` for the field that is not to restrict".into(),
                );
            }
            (DayRule::Both, false, false) if !self.fields.plus => {
                let star = if self.fields.starred(DATE) { dates } else { weekdays };
                self.push(
                    "day-and-weekday",
                    star,
                    format!("`{}` begins with a star, so a day must match both fields", star.text),
                    "begin with a number for days that match either, as `1/2`".into(),
                );
            }
            (DayRule::Both, ..) => {}
        }
    }

    /// Numbers of weekdays beside a `?`, as Quartz counts them.
    fn weekday_numbers(&mut self) {
        let weekdays = self.fields.pieces[WEEKDAY];
        if self.dialect != Dialect::Crontab || self.fields.pieces[DATE].text != "?" {
            return;
        }
        let number = |item: Piece<'_>| item.text.chars().next()?.to_digit(10);
        // 0 is no weekday there.
        let numbers = weekdays.split(&[',']).filter_map(number);
        if let Some(number) = numbers.into_iter().find(|number| (1..=7).contains(number)) {
            let (here, there) = (WEEKDAYS[number as usize % 7], WEEKDAYS[number as usize - 1]);
            let message =
                format!("{number} is {here} here, but {there} in Quartz, where the `?` comes from");
            let hint = "write names, as `FRI`, or set `dialect: quartz`";
            self.push("quartz-weekday", weekdays, message, hint.into());
        }
    }

    /// Days that some months do not have.
    fn days_not_in_every_month(&mut self) {
        const LENGTHS: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let (dates, days) = (self.fields.pieces[DATE], &self.cron.days);
        if days.nth[4] != 0 {
            let message = "not every month has a fifth weekday of a kind: the others are skipped";
            let weekdays = self.fields.pieces[WEEKDAY];
            let day = weekdays.split(&[',']).find_map(|item| item.text.strip_suffix("#5"));
            let last = day.unwrap_or("FRI");
            let hint = format!("`{last}L` is the last of the month, be it the fourth or the fifth");
            self.push("not-every-month", weekdays, message.into(), hint);
        }
        let places = [days.dates, days.near, days.from_end, days.near_end];
        let has_day = |length| places.iter().any(|mask| u64::from(*mask) & low_bits(length) != 0);
        let without: Vec<_> = MONTHS
            .iter()
            .zip(LENGTHS)
            .zip(0..)
            .filter(|((_, length), month)| self.cron.months >> month & 1 == 1 && !has_day(*length))
            .map(|((name, _), _)| *name)
            .collect();
        if self.cron.days.rule == DayRule::Either || without.is_empty() {
            return;
        }
        let leap =
            if without.contains(&"February") && has_day(29) { " but in leap years" } else { "" };
        let message = format!("`{}` is not in {}{leap}", dates.text, without.join(", "));
        let hint = "`L` is the last day of any month, `LW` its last working day";
        self.push("not-every-month", dates, message, hint.into());
    }
}
