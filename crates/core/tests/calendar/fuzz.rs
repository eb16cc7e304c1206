//! Any input at all: compiled or refused, never more.

use std::time::{Duration, Instant};

use cronstream_core::schedule::{Cron, Rule, Zone, lint, parse};
use cronstream_schemas::definition::Dialect;
use proptest::prelude::*;

use crate::seed;

/// What holds for any text in any dialect: a refusal names a place in the text; an accepted
/// expression has a slot, a normal form that is the same schedule, words, and lints in the text.
fn holds(expr: &str, dialect: Dialect) -> Result<(), TestCaseError> {
    let parsed = match parse(expr, dialect, seed()) {
        Ok(parsed) => parsed,
        Err(error) => {
            prop_assert!(expr[error.position..].starts_with(&error.value), "{}", error);
            prop_assert!(error.value.len() <= 256 && error.to_string().len() < 2_048);
            prop_assert!(!error.message.is_empty() && !error.hint.is_empty());
            return Ok(());
        }
    };
    let again = parse(&parsed.text, Dialect::Crontab, seed()).unwrap();
    prop_assert_eq!((again.rule, &again.text), (parsed.rule, &parsed.text), "`{}`", expr);
    prop_assert!(parsed.zone.is_none_or(|zone| expr.contains(&zone)));
    let Rule::Cron(cron) = parsed.rule else { return Ok(()) };
    prop_assert!(cron.next(Zone::UTC, -1).is_some(), "`{}` never runs", expr);
    prop_assert!(!cron.describe().is_empty() && cron.describe().len() < 2_048);
    for lint in lint(expr, dialect, &cron) {
        prop_assert!(lint.position < expr.len() && !lint.hint.is_empty(), "{:?}", lint);
    }
    Ok(())
}

fn holds_in_both(expr: &str) -> Result<(), TestCaseError> {
    holds(expr, Dialect::Crontab)?;
    holds(expr, Dialect::Quartz)?;
    // Without a job it is the same, or refused for what belongs to a job.
    if let Ok(cron) = Cron::parse(expr) {
        let parsed = parse(expr, Dialect::Crontab, seed());
        prop_assert_eq!(parsed.map(|parsed| parsed.rule), Ok(Rule::Cron(cron)));
    }
    Ok(())
}

/// Text of the shape of an item, right or wrong.
fn item() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[0-9]{1,2}",
        2 => "[0-9]{1,2}-[0-9]{1,2}(/[0-9]{1,2})?",
        2 => "[*?]",
        2 => "([*]|[0-9]{1,2})/[0-9]{1,3}",
        2 => "L|LW|L-[0-9]{1,2}|[0-9]{1,2}W|[0-9]L|[0-9]#[0-9]|(MON|fri|Sun)(#[1-6]|L)?",
        1 => "H|H/[0-9]{1,2}|H[(][0-9]{1,2}-[0-9]{1,2}[)](/[0-9]{1,2})?",
        1 => "(JAN|feb|Nov|mon|FRI|sun)(-(JAN|feb|Nov|mon|FRI|sun))?",
        1 => "(19[78][0-9]|20[0-9]{2}|21[0-9]{2})(-2[01][0-9]{2})?(/[1-9])?",
    ]
}

fn field() -> impl Strategy<Value = String> {
    (prop::bool::weighted(0.05), prop::collection::vec(item(), 1..4))
        .prop_map(|(plus, items)| format!("{}{}", if plus { "+" } else { "" }, items.join(",")))
}

/// A value of a field that is most often right, so that whole expressions are.
fn right(low: u32, high: u32) -> impl Strategy<Value = String> {
    let value = move || low..=high;
    let item = prop_oneof![
        3 => Just("*".to_owned()),
        3 => value().prop_map(|value| value.to_string()),
        1 => (value(), value()).prop_map(|(first, last)| format!("{first}-{last}")),
        1 => (value(), value(), 1..9_u32).prop_map(|(first, last, step)| format!("{first}-{last}/{step}")),
        1 => (value(), 1..70_u32).prop_map(|(first, step)| format!("{first}/{step}")),
        1 => (1..70_u32).prop_map(|step| format!("*/{step}")),
        1 => Just("H".to_owned()),
        1 => (value(), value()).prop_map(|(first, last)| format!("H({first}-{last})/3")),
    ];
    prop::collection::vec(item, 1..4).prop_map(|items| items.join(","))
}

fn right_date() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => right(1, 31),
        3 => "(L|LW|L-[12]?[1-9]|[12]?[1-9]W|[1-9])(,(L|LW|L-[1-9]|[12]?[1-9]W|[12]?[1-9])){0,5}",
        1 => Just("?".to_owned()),
    ]
}

fn right_weekday() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => right(0, 7),
        3 => "[+]?([1-7]L|[1-7]#[1-5]|[1-7]|FRI-MON)(,([1-7]L|[1-7]#[1-5]|[1-7])){0,5}",
        1 => Just("?".to_owned()),
    ]
}

prop_compose! {
    fn expression()(
        zone in prop_oneof![9 => Just(""), 1 => Just("TZ=Europe/Berlin ")],
        seconds in prop::option::of(right(0, 59)),
        minutes in right(0, 59),
        hours in right(0, 23),
        dates in right_date(),
        months in right(1, 12),
        weekdays in right_weekday(),
        years in prop::option::of("[*]|20[0-9]{2}(-21[0-9]{2})?(/[1-9])?(,20[0-9]{2}){0,3}"),
    ) -> String {
        let seconds = match (&seconds, &years) {
            (Some(seconds), _) => format!("{seconds} "),
            (None, Some(_)) => "0 ".into(),
            (None, None) => String::new(),
        };
        let years = years.map_or(String::new(), |years| format!(" {years}"));
        format!("{zone}{seconds}{minutes} {hours} {dates} {months} {weekdays}{years}")
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 3_000, ..Default::default() })]

    #[test]
    fn any_text_is_compiled_or_refused(expr in any::<String>()) {
        holds_in_both(&expr)?;
    }

    #[test]
    fn any_bytes_are_compiled_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        holds_in_both(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn any_text_of_cron_letters_is_compiled_or_refused(
        expr in "[-0-9*?/, ,@LWHa-fmonMON#()+=TZ]{0,40}"
    ) {
        holds_in_both(&expr)?;
    }

    #[test]
    fn any_fields_are_compiled_or_refused(
        fields in prop::collection::vec(field(), 4..=8),
        blank in "[ \t]{1,3}",
    ) {
        holds_in_both(&fields.join(&blank))?;
    }

    #[test]
    fn any_expression_has_a_normal_form_that_is_the_same_schedule(expr in expression()) {
        holds_in_both(&expr)?;
    }
}

/// B059: what is long, wide or hopeless ends as fast as the rest. The limit is far above what a
/// debug build needs and far below what a search would take.
#[test]
#[expect(clippy::disallowed_methods, reason = "the time that the parser takes is measured")]
fn worst_expressions_end_in_bounded_time() {
    let wide = vec!["0-59/1"; 100].join(",");
    let deep = "9".repeat(1_000);
    let worst = [
        format!("{wide} * * * *"),
        format!("{deep} * * * *"),
        format!("*/{deep} * * * *"),
        format!("0 0 0 1 1 * {}", vec!["1970-2199"; 100].join(",")),
        ",".repeat(1_024),
        "* ".repeat(512),
        "0 0 0 1 * +5#2 1970-2199".into(),
        format!(
            "0 0 {} * +5#2",
            (1..=31).map(|day| format!("{day}W")).collect::<Vec<_>>().join(",")
        ),
    ];
    for expr in worst {
        let tries = (0..5).map(|_| {
            let start = Instant::now();
            holds_in_both(&expr).unwrap();
            start.elapsed()
        });
        let fastest = tries.min().unwrap();
        assert!(
            fastest < Duration::from_millis(50),
            "{fastest:?} for {}",
            &expr[..60.min(expr.len())]
        );
    }
}
