//! The examples of `docs/reference/schedules.md`, as they are written there.

use cronstream_core::schedule::{Rule, lint, parse};
use cronstream_schemas::definition::Dialect;

use crate::seed;

const PAGE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/schedules.md"));

/// The rows of the last table of a section, cell by cell, without the head.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let lines = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let cell = |cell: &'static str| {
        let cell = cell.trim();
        cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`')).unwrap_or(cell)
    };
    lines.map(|line| line.trim_matches('|').split('|').map(cell).collect()).collect()
}

fn dialect(name: &str) -> Dialect {
    match name {
        "crontab" => Dialect::Crontab,
        "quartz" => Dialect::Quartz,
        other => panic!("`{other}` is no dialect"),
    }
}

#[test]
fn normal_forms_and_words_of_the_page_are_so() {
    let rows = rows("Normal form and words");
    assert!(rows.len() > 10, "{rows:?}");
    for row in rows {
        let [name, expr, text, words] = row[..] else { panic!("{row:?}") };
        let parsed = parse(expr, dialect(name), seed()).unwrap();
        let Rule::Cron(cron) = parsed.rule else { panic!("`{expr}` is an interval") };
        assert_eq!((parsed.text.as_str(), cron.describe().as_str()), (text, words), "`{expr}`");
    }
}

#[test]
fn refusals_of_the_page_are_so() {
    let rows = rows("Refusals");
    assert!(rows.len() > 20, "{rows:?}");
    for row in rows {
        let [name, expr, byte, message] = row[..] else { panic!("{row:?}") };
        let error = parse(expr, dialect(name), seed()).unwrap_err();
        assert_eq!((error.position.to_string().as_str(), error.message.as_str()), (byte, message));
    }
}

#[test]
fn lints_of_the_page_are_so() {
    let rows = rows("Lints");
    assert!(rows.len() > 8, "{rows:?}");
    for row in rows {
        let [code, expr, _] = row[..] else { panic!("{row:?}") };
        let Rule::Cron(cron) = parse(expr, Dialect::Crontab, seed()).unwrap().rule else {
            panic!("`{expr}` is an interval")
        };
        let codes: Vec<_> =
            lint(expr, Dialect::Crontab, &cron).into_iter().map(|lint| lint.code).collect();
        assert!(codes.contains(&code), "`{expr}`: {codes:?}");
    }
}
