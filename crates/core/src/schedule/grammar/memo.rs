//! Expressions that were compiled lately: many jobs of an installation have the same ones.
//!
//! Invariant: a memo changes the time it takes and nothing else. It holds at most [`PLACES`] expressions of at most
//! [`BYTES_MAX`] bytes for each thread; a newer one takes the place of an older one.

use std::cell::RefCell;

use cronstream_schemas::definition::Dialect;
use xxhash_rust::xxh3::xxh3_64;

use super::super::{error::ParseError, fields::Cron};

/// How many expressions are kept, a power of two.
const PLACES: usize = 1_024;
/// The longest expression that is kept.
const BYTES_MAX: usize = 64;

type Place = Option<(Box<str>, Dialect, Cron)>;

thread_local! {
    static PLACES_OF_THREAD: RefCell<Box<[Place]>> = RefCell::new(vec![None; PLACES].into());
}

/// What `compile` makes of `text`, done anew only where it is not known.
pub(super) fn compiled(
    text: &str,
    dialect: Dialect,
    compile: impl FnOnce() -> Result<Cron, ParseError>,
) -> Result<Cron, ParseError> {
    // A hash slot is another one for each job.
    if text.len() > BYTES_MAX || text.bytes().any(|byte| byte.eq_ignore_ascii_case(&b'h')) {
        return compile();
    }
    let place = xxh3_64(text.as_bytes()) as usize % PLACES;
    PLACES_OF_THREAD.with_borrow_mut(|places| {
        let known = places[place].as_ref();
        if let Some((_, _, cron)) = known.filter(|it| &*it.0 == text && it.1 == dialect) {
            return Ok(*cron);
        }
        let cron = compile()?;
        places[place] = Some((text.into(), dialect, cron));
        Ok(cron)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Rule, Seed, parse};
    use super::*;

    #[test]
    fn an_expression_is_read_alike_however_often_and_in_whatever_dialect_and_job() {
        let seed = |job: &str| Seed::of(&job.parse().unwrap());
        let cron = |text: &str, dialect, job| match parse(text, dialect, seed(job)).unwrap().rule {
            Rule::Cron(cron) => cron,
            Rule::Every(_) => panic!("{text} is an interval"),
        };
        let weekday = "0 0 12 ? * 2";
        let quartz = cron(weekday, Dialect::Quartz, "a/b");
        assert_eq!(cron(weekday, Dialect::Quartz, "a/c"), quartz);
        assert_ne!(cron("0 0 12 * * 2", Dialect::Crontab, "a/b"), quartz);
        let ambiguous = "0 0 12 * * 2";
        let refused = parse(ambiguous, Dialect::Quartz, seed("a/b"));
        assert_eq!(parse(ambiguous, Dialect::Quartz, seed("a/b")), refused);
        assert_ne!(
            cron("H H * * *", Dialect::Crontab, "a/b"),
            cron("H H * * *", Dialect::Crontab, "a/c")
        );
    }

    #[test]
    fn no_more_than_so_many_expressions_are_kept() {
        let seed = Seed::of(&"a/b".parse().unwrap());
        for second in (0..86_400).step_by(17) {
            let text = format!("{} {} {} * * *", second % 60, second / 60 % 60, second / 3_600);
            assert!(parse(&text, Dialect::Crontab, seed).is_ok(), "{text}");
        }
        let long = format!("{} * * * *", vec!["1"; 40].join(","));
        assert!(parse(&long, Dialect::Crontab, seed).is_ok());
        PLACES_OF_THREAD.with_borrow(|places| {
            assert_eq!(places.len(), PLACES);
            let longest = places.iter().flatten().map(|(text, _, _)| text.len()).max();
            assert!(longest.unwrap() <= BYTES_MAX);
        });
    }
}
