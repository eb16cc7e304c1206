//! The bounds at which an expression is told in other words.
//!
//! Each case lies on one side of a bound, so that a bound that moves by one changes the words.

use cronstream_core::schedule::Cron;

#[track_caller]
fn check(expr: &str, words: &str) {
    assert_eq!(Cron::parse(expr).unwrap().describe(), words, "`{expr}`");
}

#[test]
fn eight_marks_of_an_hour_are_told_one_by_one_and_nine_as_minutes_and_seconds() {
    check(
        "1,2,7,11,13,29,31,53 * * * *",
        "at :01, :02, :07, :11, :13, :29, :31 and :53 of every hour",
    );
    check(
        "1,2,7,11,13,29,31,53,58 * * * *",
        "at the minutes 1, 2, 7, 11, 13, 29, 31, 53 and 58 of every hour",
    );
    check(
        "5,20 1,2,7,31 * * * *",
        "at :01:05, :01:20, :02:05, :02:20, :07:05, :07:20, :31:05 and :31:20 of every hour",
    );
    check(
        "0,7,31 1,5,40 * * * *",
        "at the seconds 0, 7 and 31 of the minutes 1, 5 and 40 of every hour",
    );
}

#[test]
fn eight_minutes_of_a_day_are_told_one_by_one_and_nine_as_minutes_and_hours() {
    check(
        "* 1,40 2,9,15,20 * * *",
        "every second of 02:01, 02:40, 09:01, 09:40, 15:01, 15:40, 20:01 and 20:40",
    );
    check(
        "* 1,5,40 2,9,20 * * *",
        "every second of the minutes 1, 5 and 40 of the hours 2, 9 and 20",
    );
}

#[test]
fn three_in_a_row_are_a_stretch_and_two_are_not() {
    check("*/10 9-11 * * *", "every 10 minutes from 09:00 to 11:59");
    check("*/10 9,10 * * *", "every 10 minutes of the hours 9 and 10");
    check("*/10 0-5 * * *", "every 10 minutes from 00:00 to 05:59");
    check("0 9 * * 6,0", "at 09:00 on Sunday and Saturday");
}

#[test]
fn five_days_in_steps_are_told_as_steps() {
    check("0 9 1-29/7 * *", "at 09:00 on every 7th day from the 1st to the 29th of every month");
}

#[test]
fn a_counted_weekday_that_every_weekday_covers_leaves_the_month_told() {
    check("0 9 * 5 0-6,1#1", "at 09:00 every day in May");
}

#[test]
fn ordinals_over_a_hundred_have_the_ends_of_those_below() {
    check(
        "0 0 0 1 1 * 1970-2192/111",
        "at 00:00 on the 1st of January, in every 111th year from 1970 to 2192",
    );
    check(
        "0 0 0 1 1 * 1970-2196/113",
        "at 00:00 on the 1st of January, in every 113th year from 1970 to 2196",
    );
}
