//! Expressions in English words.

use cronstream_core::schedule::Cron;

#[track_caller]
fn check(expr: &str, words: &str) {
    assert_eq!(Cron::parse(expr).unwrap().describe(), words, "`{expr}`");
}

/// B055
#[test]
fn five_and_six_fields_are_told_apart() {
    check("30 3 * * *", "at 03:30 every day");
    check("30 30 3 * * *", "at 03:30:30 every day");
    check("0 3 * * * *", "every hour at :03");
}

#[test]
fn few_times_of_a_day_are_told_one_by_one() {
    check("30 2 * * 1-5", "at 02:30 on Monday to Friday");
    check("0 9,17 * * *", "at 09:00 and 17:00 every day");
    check("0,30 9,12,15 * * *", "at 09:00, 09:30, 12:00, 12:30, 15:00 and 15:30 every day");
    check("0 */3 * * *", "at 00:00, 03:00, 06:00, 09:00, 12:00, 15:00, 18:00 and 21:00 every day");
    check("0,30 15 3 * * *", "at 03:15:00 and 03:15:30 every day");
}

#[test]
fn many_times_of_a_day_are_told_as_a_pace() {
    check("* * * * *", "every minute");
    check("*/15 * * * *", "every 15 minutes");
    check("*/10 9-17 * * *", "every 10 minutes from 09:00 to 17:59");
    check("*/10 22-2 * * *", "every 10 minutes from 22:00 to 02:59");
    check("*/15 */6 * * *", "every 15 minutes of the hours 0, 6, 12 and 18");
    check("* 3 * * *", "every minute of hour 3");
    check("* 3,5 * * *", "every minute of the hours 3 and 5");
    check("*/7 * * * *", "every 7 minutes from :00 to :56 of every hour");
    check("3-59/11 5 * * *", "at 05:03, 05:14, 05:25, 05:36, 05:47 and 05:58 every day");
    check("0 * * * *", "every hour");
    check("0 */2 * * *", "every 2 hours");
    check("5 */2 * * *", "every 2 hours at :05");
    check("5 * * * *", "every hour at :05");
    check("5,20 * * * *", "at :05 and :20 of every hour");
    check("5,20 9-17 * * *", "at :05 and :20 of the hours 9 to 17");
    check("0 9-17 * * *", "every hour from 09:00 to 17:00");
    check("5 9-17 * * *", "at :05 of the hours 9 to 17");
    check("0-9,40 * * * *", "at the minutes 0 to 9 and 40 of every hour");
    check("30-9 * * * *", "at the minutes 30 to 9 of every hour");
    check("0 0-9,12,20 * * *", "at :00 of the hours 0 to 9, 12 and 20");
}

#[test]
fn seconds_are_told_where_there_are_any() {
    check("* * * * * *", "every second");
    check("*/15 * * * * *", "every 15 seconds");
    check("*/15 * 9-17 * * *", "every 15 seconds from 09:00 to 17:59");
    check("30 * * * * *", "at second 30 of every minute");
    check("30 * 9-17 * * *", "at second 30 of every minute from 09:00 to 17:59");
    check("5,25 * * * * *", "at the seconds 5 and 25 of every minute");
    check("5,25 7 * * * *", "every hour at :07:05 and :07:25");
    check("5 0,30 * * * *", "at :00:05 and :30:05 of every hour");
    check("* 30 3 * * *", "every second of 03:30");
    check("* 30 * * * *", "every second of minute 30 of every hour");
    check("*/2 5,10 * * * *", "every 2 seconds of the minutes 5 and 10 of every hour");
    check("0-9 * * * * *", "at the seconds 0 to 9 of every minute");
}

#[test]
fn days_of_the_month_are_told_by_their_place() {
    check("0 0 1 * *", "at 00:00 on the 1st of every month");
    check(
        "0 0 2,3,4,11,12,13,21,22,23 * *",
        "at 00:00 on the 2nd to the 4th, the 11th to the 13th and the 21st to the 23rd of every month",
    );
    check("0 0 1,15,L * *", "at 00:00 on the 1st, the 15th and the last day of every month");
    check("0 0 L-1 * *", "at 00:00 on the last day but one of every month");
    check("0 0 L-3 * *", "at 00:00 on the 3rd day before the last of every month");
    check("0 0 15W * *", "at 00:00 on the working day nearest the 15th of every month");
    check("0 0 LW * *", "at 00:00 on the last working day of every month");
    check("0 0 */2 * *", "at 00:00 on every 2nd day from the 1st to the 31st of every month");
    check("0 0 28-3 * *", "at 00:00 on the 28th to the 3rd of every month");
    check("0 0 1 1 *", "at 00:00 on the 1st of January");
    check("0 0 1 */3 *", "at 00:00 on the 1st of January, April, July and October");
    check("0 0 1 11-2 *", "at 00:00 on the 1st of November to February");
}

#[test]
fn weekdays_are_told_by_name_and_place() {
    check("0 0 * * 0", "at 00:00 on Sunday");
    check("0 0 * * FRI-MON", "at 00:00 on Friday to Monday");
    check("0 0 * * 1,3,5", "at 00:00 on Monday, Wednesday and Friday");
    check("0 0 * * 5L", "at 00:00 on the last Friday of every month");
    check("0 0 * * 5#3", "at 00:00 on the third Friday of every month");
    check(
        "0 0 * * 1#1,5#5,3",
        "at 00:00 on Wednesday, the first Monday and the fifth Friday of every month",
    );
    check("0 0 * 6 1", "at 00:00 on Monday in June");
    check("0 0 * 6 5L", "at 00:00 on the last Friday of June");
    check("*/5 * * 6-8 *", "every 5 minutes in June to August");
    check("0 0 * 6-8 *", "at 00:00 every day in June to August");
}

#[test]
fn or_and_and_of_the_days_are_told_apart() {
    check("0 0 13 * 5", "at 00:00 on the 13th of every month and also on Friday");
    check("0 0 13 2 5", "at 00:00 on the 13th of February and also on Friday in February");
    check("0 12 1 * +MON", "at 12:00 on the 1st of every month if it is Monday");
    check(
        "0 12 1-7 6 +MON,FRI",
        "at 12:00 on the 1st to the 7th of June if it is Monday or Friday",
    );
    check("0 12 13 * +5#2", "at 12:00 on the 13th of every month if it is the second Friday");
    check("0 9 1-31 * 1", "at 09:00 every day");
    check("0 9 1-31 6 1", "at 09:00 every day in June");
}

#[test]
fn years_are_told_last() {
    check("0 0 0 1 1 * 2027", "at 00:00 on the 1st of January, in 2027");
    check("0 0 0 * * * 2027-2030", "at 00:00 every day, in 2027 to 2030");
    check("0 0 0 * * 1 2027,2029,2040", "at 00:00 on Monday, in 2027 and 2029 and 2040");
    check(
        "0 0 0 1 1 * 2028/4",
        "at 00:00 on the 1st of January, in every 4th year from 2028 to 2196",
    );
}
