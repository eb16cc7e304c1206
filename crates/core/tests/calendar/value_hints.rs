//! What is said instead of a value that is none: the hint of the field that it stands in, and of no other.

use cronstream_core::schedule::parse;
use cronstream_schemas::definition::Dialect::{Crontab, Quartz};

use crate::seed;

#[test]
fn a_value_that_is_none_gets_the_hint_of_its_field() {
    for (dialect, expr, hint) in [
        (Crontab, "XYZ 9 * * *", "use 0 to 59"),
        (Crontab, "L 9 * * *", "`L`, `W` and `#` belong to the days; use 0 to 59"),
        (Crontab, "a=b 9 * * *", "write it in capitals, as `TZ=Europe/Berlin 0 3 * * *`"),
        (Crontab, "0 a=b * * *", "a zone stands first, in capitals: `TZ=Europe/Berlin 0 3 * * *`"),
        (Crontab, "0~5 9 * * *", "for a value of the job's own write a hash slot, as `H(0-5)`"),
        (Crontab, "0 9 XYZ * *", "use 1 to 31"),
        (Crontab, "0 9 +1 * *", "a `+` stands before the day-of-week, as `0 12 1 * +MON`"),
        (Crontab, "0 9 * * 1,+2", "a `+` stands before the whole day-of-week field, as `+MON,FRI`"),
        (Crontab, "0 9 * * XYZ", "use 0 to 7, or sun to sat"),
        (Crontab, "0 9 * * L5", "`L` and `#` follow one weekday, as `FRIL` and `FRI#3`"),
        (Crontab, "0 9 * * MOND", "names have three letters: `mon`"),
        (Crontab, "0 9 1 JANU *", "names have three letters: `jan`"),
        (Quartz, "0 0 9 ? * XYZ", "use 1 to 7, or sun to sat"),
        (Quartz, "0 0 9 ? * +MON", "Quartz has no `+`; it belongs to `dialect: crontab`"),
    ] {
        let error = parse(expr, dialect, seed()).unwrap_err();
        assert_eq!(error.hint, hint, "`{expr}`: {error:?}");
    }
}
