//! The days that match, against brute force over every day of 1970 to 2199.
//!
//! The oracle shares nothing with the engine: an expression is generated together with what it
//! means, and each day is judged by counting in a calendar that is built day by day.

use cronstream_core::schedule::{Cron, Zone};
use proptest::prelude::*;

/// One day, and all that can be asked of it.
#[derive(Clone, Copy, Debug)]
struct Date {
    year: u32,
    month: u32,
    day: u32,
    /// The days of its month.
    length: u32,
    /// 0 is Sunday.
    weekday: u32,
    /// Midnight UTC in Unix milliseconds.
    at: i64,
}

impl Date {
    /// The weekday of another day of the same month.
    fn weekday_of(&self, day: u32) -> u32 {
        (self.weekday + 35 + day - self.day) % 7
    }

    /// Monday to Friday.
    fn works(&self, day: u32) -> bool {
        (1..=5).contains(&self.weekday_of(day))
    }
}

/// Every day of 1970 to 2199, counted one by one from a Thursday.
fn dates() -> Vec<Date> {
    let mut dates = Vec::with_capacity(84_006);
    for year in 1970..2200 {
        let leap = year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
        for month in 1..=12 {
            let length = match month {
                2 if leap => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            for day in 1..=length {
                let number = dates.len();
                let weekday = (number as u32 + 4) % 7;
                let at = number as i64 * 86_400_000;
                dates.push(Date { year, month, day, length, weekday, at });
            }
        }
    }
    dates
}

/// What an item of a day field means.
#[derive(Clone, Copy, Debug)]
enum Item {
    Star { step: u32 },
    Range { first: u32, last: u32, step: u32 },
    BeforeLast(u32),
    LastWorkday,
    NearBeforeLast(u32),
    Near(u32),
    LastOf(u32),
    Nth(u32, u32),
}

impl Item {
    fn text(self) -> String {
        match self {
            Self::Star { step: 1 } => "*".into(),
            Self::Star { step } => format!("*/{step}"),
            Self::Range { first, last, step: 1 } if first == last => first.to_string(),
            Self::Range { first, last, step: 1 } => format!("{first}-{last}"),
            Self::Range { first, last, step } => format!("{first}-{last}/{step}"),
            Self::BeforeLast(0) => "L".into(),
            Self::BeforeLast(days) => format!("L-{days}"),
            Self::LastWorkday => "LW".into(),
            Self::NearBeforeLast(days) => format!("L-{days}W"),
            Self::Near(day) => format!("{day}W"),
            Self::LastOf(weekday) => format!("{weekday}L"),
            Self::Nth(weekday, place) => format!("{weekday}#{place}"),
        }
    }

    /// Whether a day matches; `value` is what plain numbers mean: its day or its weekday.
    fn matches(self, date: &Date, value: u32, lowest: u32) -> bool {
        let other_days = || (1..=date.length).filter(|day| *day != date.day);
        match self {
            Self::Star { step } => (value - lowest).is_multiple_of(step),
            Self::Range { first, last, step } => {
                (first..=last).contains(&value) && (value - first).is_multiple_of(step)
            }
            Self::BeforeLast(days) => date.day + days == date.length,
            Self::LastWorkday => {
                date.works(date.day) && other_days().all(|day| day < date.day || !date.works(day))
            }
            Self::NearBeforeLast(days) => {
                let wanted = date.length.saturating_sub(days);
                wanted > 0 && Self::Near(wanted).matches(date, value, lowest)
            }
            Self::Near(wanted) => {
                let nearest = (1..=date.length)
                    .filter(|day| date.works(*day))
                    .min_by_key(|day| day.abs_diff(wanted));
                wanted <= date.length && nearest == Some(date.day)
            }
            Self::LastOf(weekday) => date.weekday == weekday % 7 && date.day + 7 > date.length,
            Self::Nth(weekday, place) => {
                let before = (1..=date.day).filter(|day| date.weekday_of(*day) == weekday % 7);
                date.weekday == weekday % 7 && before.count() == place as usize
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Case {
    dates: Vec<Item>,
    months: Option<(u32, u32)>,
    weekdays: Vec<Item>,
    plus: bool,
    years: Option<(u32, u32, u32)>,
}

impl Case {
    fn text(&self) -> String {
        let list =
            |items: &[Item]| items.iter().map(|item| item.text()).collect::<Vec<_>>().join(",");
        let months = self.months.map_or("*".into(), |(first, last)| format!("{first}-{last}"));
        let plus = if self.plus && !self.starred(&self.weekdays) { "+" } else { "" };
        let (dates, weekdays) = (list(&self.dates), list(&self.weekdays));
        match self.years {
            None => format!("0 0 {dates} {months} {plus}{weekdays}"),
            Some((first, last, step)) => {
                format!("0 0 0 {dates} {months} {plus}{weekdays} {first}-{last}/{step}")
            }
        }
    }

    fn starred(&self, items: &[Item]) -> bool {
        matches!(items[0], Item::Star { .. })
    }

    fn matches(&self, date: &Date) -> bool {
        let by_date = self.dates.iter().any(|item| item.matches(date, date.day, 1));
        // Ranges of weekdays may end in the 7 that is Sunday.
        let by_weekday = self.weekdays.iter().any(|item| {
            item.matches(date, date.weekday, 0)
                || date.weekday == 0
                    && matches!(item, Item::Range { .. })
                    && item.matches(date, 7, 0)
        });
        let both = self.plus || self.starred(&self.dates) || self.starred(&self.weekdays);
        let days = if both { by_date && by_weekday } else { by_date || by_weekday };
        let month = self.months.is_none_or(|(first, last)| (first..=last).contains(&date.month));
        let year = self.years.is_none_or(|(first, last, step)| {
            (first..=last).contains(&date.year) && (date.year - first).is_multiple_of(step)
        });
        days && month && year
    }
}

fn range(low: u32, high: u32) -> impl Strategy<Value = Item> {
    (low..=high, low..=high, 1..4_u32).prop_map(|(one, other, step)| Item::Range {
        first: one.min(other),
        last: one.max(other),
        step: if one == other { 1 } else { step },
    })
}

fn one(low: u32, high: u32) -> impl Strategy<Value = Item> {
    (low..=high).prop_map(|value| Item::Range { first: value, last: value, step: 1 })
}

fn date_field() -> impl Strategy<Value = Vec<Item>> {
    let counted = prop_oneof![
        3 => (0..31_u32).prop_map(Item::BeforeLast),
        1 => Just(Item::BeforeLast(0)),
        2 => Just(Item::LastWorkday),
        2 => (1..=30u32).prop_map(Item::NearBeforeLast),
        4 => (1..=31_u32).prop_map(Item::Near),
        1 => range(1, 31),
        1 => one(1, 31),
    ];
    prop_oneof![
        2 => Just(vec![Item::Star { step: 1 }]),
        1 => (2..16_u32).prop_map(|step| vec![Item::Star { step }]),
        1 => prop::collection::vec(range(1, 31), 1..3),
        5 => prop::collection::vec(counted, 1..4),
    ]
}

fn weekday_field() -> impl Strategy<Value = Vec<Item>> {
    let counted = prop_oneof![
        2 => (0..=7_u32).prop_map(Item::LastOf),
        4 => (0..=7_u32, 1..=5_u32).prop_map(|(weekday, place)| Item::Nth(weekday, place)),
        1 => one(0, 6),
        1 => range(1, 7),
    ];
    prop_oneof![
        3 => Just(vec![Item::Star { step: 1 }]),
        1 => (2..4_u32).prop_map(|step| vec![Item::Star { step }]),
        1 => prop::collection::vec(range(0, 6), 1..3),
        5 => prop::collection::vec(counted, 1..4),
    ]
}

prop_compose! {
    fn case()(
        dates in date_field(),
        months in prop_oneof![
            2 => Just(None),
            1 => (1..=12_u32).prop_map(|month| Some((month, month))),
            1 => (1..=6_u32, 0..=6_u32).prop_map(|(first, more)| Some((first, first + more))),
            1 => Just(Some((2, 2))),
        ],
        weekdays in weekday_field(),
        plus in any::<bool>(),
        years in prop_oneof![
            3 => Just(None),
            1 => (1970..=2199_u32, 0..40_u32, 1..9_u32)
                .prop_map(|(first, more, step)| Some((first, (first + more).min(2199), step))),
        ],
    ) -> Case {
        Case { dates, months, weekdays, plus, years }
    }
}

/// The slots are the midnights of exactly the days that match, forward, backward and counted.
fn agrees(case: &Case, dates: &[Date]) -> Result<(), TestCaseError> {
    let text = case.text();
    let expected: Vec<_> =
        dates.iter().filter(|date| case.matches(date)).map(|date| date.at).collect();
    let cron = match Cron::parse(&text) {
        Ok(cron) => cron,
        Err(error) => {
            prop_assert!(error.message.contains("would never run"), "`{}`: {}", text, error);
            prop_assert!(expected.is_empty(), "`{}` is refused and has slots", text);
            return Ok(());
        }
    };
    prop_assert!(!expected.is_empty(), "`{}` is accepted and never runs", text);
    let end = dates[dates.len() - 1].at + 1;
    let found: Vec<_> =
        std::iter::successors(cron.next(Zone::UTC, -1), |at| cron.next(Zone::UTC, *at))
            .take_while(|at| *at < end)
            .collect();
    prop_assert_eq!(&found, &expected, "next of `{}`", text);
    let mut back: Vec<_> =
        std::iter::successors(cron.prev(Zone::UTC, end), |at| cron.prev(Zone::UTC, *at)).collect();
    back.reverse();
    prop_assert_eq!(&back, &expected, "prev of `{}`", text);
    prop_assert_eq!(cron.count(Zone::UTC, -1, end), expected.len() as u64);
    Ok(())
}

#[test]
fn days_agree_with_brute_force_over_every_day_of_1970_to_2199() {
    let dates = dates();
    assert_eq!(dates.len(), 84_006);
    let config = ProptestConfig { failure_persistence: None, cases: 100, ..Default::default() };
    proptest!(config, |(case in case())| agrees(&case, &dates)?);
}

#[test]
fn each_counted_day_agrees_with_brute_force() {
    let dates = dates();
    let any = || vec![Item::Star { step: 1 }];
    let check = |date_field: Vec<Item>, weekdays: Vec<Item>| {
        let case = Case { dates: date_field, months: None, weekdays, plus: false, years: None };
        agrees(&case, &dates).unwrap();
    };
    check(vec![Item::LastWorkday], any());
    check(vec![Item::NearBeforeLast(3), Item::NearBeforeLast(30)], any());
    for day in 1..=31 {
        check(vec![Item::Near(day)], any());
        check(vec![Item::BeforeLast(day - 1)], any());
    }
    for weekday in 0..=7 {
        check(any(), vec![Item::LastOf(weekday)]);
        for place in 1..=5 {
            check(any(), vec![Item::Nth(weekday, place)]);
        }
    }
}
