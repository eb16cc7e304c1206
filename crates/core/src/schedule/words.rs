//! A compiled expression in English words.
//!
//! The words are made of the masks, never of the text: they tell what the job does, not what its
//! writer meant.
//!
//! Invariant: every part that restricts the slots is told.

use super::{
    canonical::{bits, progression},
    days::low_bits,
    fields::{Cron, DayRule, Days},
};

/// The most times of a day, or of an hour, that are told one by one.
const TIMES_MAX: u32 = 8;

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const PLACES: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

impl Cron {
    /// When the job is due in English words, as `at 02:30 on Monday to Friday`.
    ///
    /// ```
    /// use cronstream_core::schedule::Cron;
    ///
    /// assert_eq!(Cron::parse("30 30 3 * * *")?.describe(), "at 03:30:30 every day");
    /// assert_eq!(Cron::parse("0 9 * * 1L")?.describe(), "at 09:00 on the last Monday of every month");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn describe(&self) -> String {
        let times = self.times_of_day().map(|times| format!("at {times}"));
        let (few, mut words) = (times.is_some(), times.unwrap_or_else(|| self.beat()));
        let days = self.day_words();
        if few && days.is_empty() {
            words.push_str(" every day");
        }
        words + &days + &self.month_words() + &self.year_words()
    }

    /// The times of the day, if they are few.
    fn times_of_day(&self) -> Option<String> {
        let marks = self.minutes.count_ones() * self.seconds.count_ones();
        let few = marks * self.hours.count_ones() <= TIMES_MAX;
        few.then(|| {
            let hours = bits(u64::from(self.hours));
            join(hours.flat_map(|hour| self.marks().map(move |mark| format!("{hour:02}{mark}"))))
        })
    }

    /// How often it is due in a day, where the times are many.
    fn beat(&self) -> String {
        let (seconds, minutes) = (Part::of(self.seconds, 60), Part::of(self.minutes, 60));
        let hours = Part::of(u64::from(self.hours), 24);
        let marks = minutes.mask.count_ones() * seconds.mask.count_ones();
        let each_minute = minutes.pattern == Pattern::All;
        if seconds.mask != 1 && (marks > TIMES_MAX || each_minute) {
            let scope = match minutes.pattern {
                Pattern::All if seconds.is_beat() => hours.whole_hours(),
                Pattern::All => format!(" of every minute{}", hours.whole_hours()),
                Pattern::Step(_) | Pattern::Range(..) | Pattern::Uneven(..) | Pattern::List => {
                    format!(" of {}", self.minutes_of_day(&minutes, &hours))
                }
            };
            return format!("{}{scope}", seconds.beat_of("second"));
        }
        if seconds.mask == 1 && minutes.is_beat() {
            return format!("{}{}", minutes.beat_of("minute"), hours.whole_hours());
        }
        if let Pattern::Uneven(first, last, step) = minutes.pattern
            && seconds.mask == 1
        {
            let hours = hours.named_hours();
            return format!("every {step} minutes from :{first:02} to :{last:02} of {hours}");
        }
        if marks > TIMES_MAX {
            return format!("at the minutes {} of {}", minutes.numbers(), hours.named_hours());
        }
        let marks = join(self.marks());
        match hours.pattern {
            Pattern::All | Pattern::Step(_) if marks == ":00" => hours.beat_of("hour"),
            Pattern::All | Pattern::Step(_) if minutes.mask.is_power_of_two() => {
                format!("{} at {marks}", hours.beat_of("hour"))
            }
            Pattern::Range(first, last) if marks == ":00" => {
                format!("every hour from {first:02}:00 to {last:02}:00")
            }
            Pattern::All
            | Pattern::Step(_)
            | Pattern::Range(..)
            | Pattern::Uneven(..)
            | Pattern::List => format!("at {marks} of {}", hours.named_hours()),
        }
    }

    /// `03:30`, or `minute 30 of every hour`.
    fn minutes_of_day(&self, minutes: &Part, hours: &Part) -> String {
        if self.minutes.count_ones() * self.hours.count_ones() <= TIMES_MAX {
            let of_hour =
                |hour: u32| bits(self.minutes).map(move |minute| format!("{hour:02}:{minute:02}"));
            return join(bits(hours.mask).flat_map(of_hour));
        }
        let word = if minutes.mask.is_power_of_two() { "minute" } else { "the minutes" };
        format!("{word} {} of {}", minutes.numbers(), hours.named_hours())
    }

    /// The times in an hour, as `:05`, or `:05:30` where there are seconds.
    fn marks(&self) -> impl Iterator<Item = String> + '_ {
        bits(self.minutes).flat_map(move |minute| {
            bits(self.seconds).map(move |second| match self.seconds {
                1 => format!(":{minute:02}"),
                _ => format!(":{minute:02}:{second:02}"),
            })
        })
    }

    /// The days, with a blank before; nothing if they are all days. Dates name their months too.
    fn day_words(&self) -> String {
        let days = &self.days;
        let of_month = match self.months().pattern {
            Pattern::All => " of every month".to_owned(),
            Pattern::Step(_) | Pattern::Range(..) | Pattern::Uneven(..) | Pattern::List => {
                format!(" of {}", self.month_names())
            }
        };
        let dates = || format!("{}{of_month}", days.date_words());
        match (days.rule, days.any_date(), days.any_weekday()) {
            (DayRule::Both, true, true)
            | (DayRule::Either, true, _)
            | (DayRule::Either, _, true) => String::new(),
            (DayRule::Both, true, false) => {
                let end = if days.counts_weekdays() { &of_month } else { "" };
                format!(" on {}{end}", join(days.weekday_words()))
            }
            (DayRule::Both, false, true) => format!(" on {}", dates()),
            (DayRule::Both, false, false) => {
                format!(" on {} if it is {}", dates(), join_or(days.weekday_words()))
            }
            (DayRule::Either, false, false) => {
                format!(" on {} and also on {}", dates(), join(days.weekday_words()))
            }
        }
    }

    /// The months, with a blank before; nothing if they are all, or told by the days.
    fn month_words(&self) -> String {
        let days = &self.days;
        let told = match days.rule {
            DayRule::Both => !days.any_date() || days.counts_weekdays() && !days.any_weekday(),
            DayRule::Either => false,
        };
        if told || self.months().pattern == Pattern::All {
            return String::new();
        }
        format!(" in {}", self.month_names())
    }

    fn months(&self) -> Part {
        Part::of(u64::from(self.months), 12)
    }

    fn month_names(&self) -> String {
        self.months().names(|month| MONTHS[month as usize].to_owned())
    }

    fn year_words(&self) -> String {
        if self.years.is_every() {
            return String::new();
        }
        let parts = self.years.progressions().map(|(first, last, step)| {
            match ((last - first) / step, step) {
                (0, _) => first.to_string(),
                (1, _) => format!("{first} and {last}"),
                (_, 1) => format!("{first} to {last}"),
                _ => format!("every {} year from {first} to {last}", ordinal(step)),
            }
        });
        format!(", in {}", join(parts))
    }
}

impl Days {
    /// Whether weekdays are told by their place in the month.
    fn counts_weekdays(&self) -> bool {
        self.last != 0 || self.nth != [0; 5]
    }

    /// `the 1st, the 15th and the last day`.
    fn date_words(&self) -> String {
        let dates = Part::of(u64::from(self.dates), 31);
        let before_last = |before| match before {
            0 => "the last day".to_owned(),
            1 => "the last day but one".to_owned(),
            _ => format!("the {} day before the last", ordinal(before)),
        };
        let from_end = bits(u64::from(self.from_end)).map(before_last);
        let near = bits(u64::from(self.near))
            .map(|day| format!("the working day nearest the {}", ordinal(day + 1)));
        let near_end = bits(u64::from(self.near_end)).map(|before| match before {
            0 => "the last working day".to_owned(),
            _ => format!("the working day nearest {}", before_last(before)),
        });
        let date = |day: u32| format!("the {}", ordinal(day + 1));
        let named = match dates.pattern {
            Pattern::Uneven(first, last, step) => {
                let step = ordinal(step);
                vec![format!("every {step} day from {} to {}", date(first), date(last))]
            }
            Pattern::All | Pattern::Step(_) | Pattern::Range(..) | Pattern::List => {
                dates.items(date)
            }
        };
        join(named.into_iter().chain(near).chain(from_end).chain(near_end))
    }

    /// `Monday to Friday`, `the third Friday`.
    fn weekday_words(&self) -> impl Iterator<Item = String> + '_ {
        let name = |weekday: u32| WEEKDAYS[weekday as usize];
        let nth = PLACES.iter().zip(self.nth).flat_map(move |(place, weekdays)| {
            bits(u64::from(weekdays)).map(move |weekday| format!("the {place} {}", name(weekday)))
        });
        let last = bits(u64::from(self.last)).map(move |day| format!("the last {}", name(day)));
        let named = Part::of(u64::from(self.weekdays), 7).items(|day| name(day).to_owned());
        named.into_iter().chain(nth).chain(last)
    }
}

/// The values of one field, and how they are best told.
struct Part {
    mask: u64,
    cycle: u32,
    pattern: Pattern,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pattern {
    All,
    /// From the lowest value on, evenly around the cycle.
    Step(u32),
    /// Three or more in a row, perhaps over the end of the cycle.
    Range(u32, u32),
    /// Five or more from the first to the last in steps, unevenly around the cycle.
    Uneven(u32, u32, u32),
    List,
}

impl Part {
    fn of(mask: u64, cycle: u32) -> Self {
        let count = mask.count_ones();
        let even =
            |step: &u32| cycle.is_multiple_of(*step) && mask == progression(0, cycle - 1, *step);
        let (first, last) = (mask.trailing_zeros(), 63 - mask.leading_zeros().min(63));
        let stepped = |step: &u32| count > 4 && mask == progression(first, last, *step);
        let rotated = |by: &u32| (mask >> by | mask << (cycle - by)) & low_bits(cycle);
        let in_a_row = |by: &u32| count > 2 && rotated(by) == low_bits(count);
        let pattern = if mask == low_bits(cycle) {
            Pattern::All
        } else if let Some(step) = (2..cycle).find(even) {
            Pattern::Step(step)
        } else if let Some(first) = (0..cycle).find(in_a_row) {
            Pattern::Range(first, (first + count - 1) % cycle)
        } else if let Some(step) = (2..cycle).find(stepped) {
            Pattern::Uneven(first, last, step)
        } else {
            Pattern::List
        };
        Self { mask, cycle, pattern }
    }

    /// Whether the values come at an even pace.
    fn is_beat(&self) -> bool {
        matches!(self.pattern, Pattern::All | Pattern::Step(_))
    }

    /// `every minute`, `every 15 minutes`, `at the seconds 5 and 10`.
    fn beat_of(&self, unit: &str) -> String {
        match self.pattern {
            Pattern::All => format!("every {unit}"),
            Pattern::Step(step) => format!("every {step} {unit}s"),
            Pattern::Range(..) | Pattern::Uneven(..) | Pattern::List
                if self.mask.is_power_of_two() =>
            {
                format!("at {unit} {}", self.numbers())
            }
            Pattern::Range(..) | Pattern::Uneven(..) | Pattern::List => {
                format!("at the {unit}s {}", self.numbers())
            }
        }
    }

    /// Hours as a stretch of time, with a blank before; nothing for all of them.
    fn whole_hours(&self) -> String {
        match self.pattern {
            Pattern::All => String::new(),
            Pattern::Range(first, last) => format!(" from {first:02}:00 to {last:02}:59"),
            Pattern::Step(_) | Pattern::Uneven(..) | Pattern::List => {
                format!(" of {}", self.named_hours())
            }
        }
    }

    /// Hours by name: `every hour`, `the hours 9 to 17`.
    fn named_hours(&self) -> String {
        match self.pattern {
            Pattern::All => "every hour".into(),
            Pattern::Step(_) | Pattern::Range(..) | Pattern::Uneven(..) | Pattern::List => {
                let word = if self.mask.is_power_of_two() { "hour" } else { "the hours" };
                format!("{word} {}", self.numbers())
            }
        }
    }

    fn numbers(&self) -> String {
        self.names(|value| value.to_string())
    }

    fn names(&self, name: impl Fn(u32) -> String) -> String {
        join(self.items(name).into_iter())
    }

    /// Each value, three or more in a row as one: `9 to 17`.
    fn items(&self, name: impl Fn(u32) -> String) -> Vec<String> {
        if let Pattern::Range(first, last) = self.pattern {
            return vec![format!("{} to {}", name(first), name(last))];
        }
        let mut items = Vec::new();
        let mut value = 0;
        while value < self.cycle {
            let row = (self.mask >> value).trailing_ones();
            match row {
                0 => {}
                1 | 2 => items.extend((value..value + row).map(&name)),
                _ => items.push(format!("{} to {}", name(value), name(value + row - 1))),
            }
            value += row + 1;
        }
        items
    }
}

/// `a, b and c`.
fn join(items: impl Iterator<Item = String>) -> String {
    list(&items.collect::<Vec<_>>(), "and")
}

/// `a, b or c`.
fn join_or(items: impl Iterator<Item = String>) -> String {
    list(&items.collect::<Vec<_>>(), "or")
}

fn list(items: &[String], word: &str) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} {word} {last}", first.join(", ")),
    }
}

fn ordinal(number: u32) -> String {
    let end = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}
