//! The canonical text: what it looks like, and that it parses back to the same schedule.

use cronstream_core::schedule::Cron;

/// `expr` has this normal form, which is its own normal form.
#[track_caller]
fn check(expr: &str, text: &str) {
    let cron = Cron::parse(expr).unwrap();
    assert_eq!(cron.canonical(), text, "`{expr}`");
    assert_eq!(Cron::parse(text).unwrap(), cron, "`{expr}` and `{text}`");
}

#[test]
fn wrapping_ranges_are_written_out() {
    check("0 22-2 * * *", "0 0-2,22,23 * * *");
    check("0 0 * * FRI-MON", "0 0 * * 0,1,5,6");
    check("0 0 1 NOV-FEB *", "0 0 1 1,2,11,12 *");
    check("50-10/15 3 * * *", "5,50 3 * * *");
}

#[test]
fn lists_are_ascending_and_as_short_as_ranges_and_steps_make_them() {
    check("30,10,20 3 * * *", "10-30/10 3 * * *");
    check("3,1,2,9 3 * * *", "1-3,9 3 * * *");
    check("1,2 3 * * *", "1,2 3 * * *");
    check("1,1,1-1,1/100 3 * * *", "1 3 * * *");
    check("0-59 3 * * *", "0-59 3 * * *");
    check("0-58/2 3 * * *", "0-58/2 3 * * *");
    check("0,15,30,45 * * * *", "*/15 * * * *");
    check("0/15 * * * *", "*/15 * * * *");
    check("5/15 * * * *", "5-50/15 * * * *");
    check("0 0 0 1 1 * 2027,2028,2029,2040,2030", "0 0 0 1 1 * 2027-2030,2040");
    check("0 0 0 1 1 * 2028/4", "0 0 0 1 1 * 2028-2196/4");
    check("0 0 0 1 1 * 1970-2199", "0 0 0 1 1 * 1970-2199");
}

/// Whether minute or hour begins with a star decides over clock changes, so it stays.
#[test]
fn star_of_the_clock_is_kept() {
    check("* * * * *", "* * * * *");
    check("*/15 3 * * *", "*/15 3 * * *");
    check("0-45/15 3 * * *", "0-45/15 3 * * *");
    check("0 */2 * * *", "0 */2 * * *");
    check("0 0/2 * * *", "0 0-22/2 * * *");
    check("*/60 3 * * *", "*/60 3 * * *");
    check("0 */24 * * *", "0 */24 * * *");
    check("*/60 0 * * *", "0 */24 * * *");
    check("1 */24 * * *", "1 */24 * * *");
    check("*/15,7 3 * * *", "*/60,7,15,30,45 3 * * *");
    check("7 */12,5 * * *", "7 */24,5,12 * * *");
    check("*,5 3 * * *", "* 3 * * *");
    assert_ne!(Cron::parse("*/60 3 * * *"), Cron::parse("0 3 * * *"));
}

/// B037: whether a day field begins with a star decides over AND and OR, so it stays.
#[test]
fn star_of_the_days_is_kept() {
    check("0 9 1-31 * 1", "0 9 1-31 * 1");
    check("0 9 * * 1", "0 9 * * 1");
    check("0 9 ? * 1", "0 9 * * 1");
    check("0 9 15 * 0-6", "0 9 15 * 0-6");
    check("0 9 15 * *", "0 9 15 * *");
    check("0 9 1-31 * 0-6", "0 9 1-31 * 0-6");
    check("0 9 */2 * 1", "0 9 1-31/2 * +1");
    check("0 9 15 * */2", "0 9 15 * +0-6/2");
    check("0 9 15 * +1-5", "0 9 15 * +1-5");
    check("0 9 1-31 * +MON", "0 9 * * 1");
    check("0 9 */1 * MON", "0 9 * * 1");
}

#[test]
fn range_that_is_one_short_of_all_is_kept() {
    check("1-59 * * * *", "1-59 * * * *");
    check("0-58 3 * * * *", "0-58 3 * * * *");
    check("0 1-23 * * *", "0 1-23 * * *");
    check("0 0 2-31 * *", "0 0 2-31 * *");
    check("0 0 1 1-11 *", "0 0 1 1-11 *");
    check("0 0 * * MON-SAT", "0 0 * * 1-6");
    check("0 0 * * TUE-SUN", "0 0 * * 0,2-6");
}

#[test]
fn counted_days_follow_the_plain_ones() {
    check("0 0 LW,L-3,L,15W,1,2,3 * *", "0 0 1-3,L,L-3,15W,LW * *");
    check("0 0 * * SUNL,5#3,MON#1,2", "0 0 * * 2,0L,1#1,5#3");
    check("0 0 L * 5L", "0 0 L * 5L");
    check("0 0 L * +5L", "0 0 L * +5L");
    check("0 0 L,LW,15W,1-31 * *", "0 0 * * *");
    check("0 0 L,1-31 * 1", "0 0 1-31 * 1");
    check("0 0 * * 0-6,5L", "0 0 * * *");
}

#[test]
fn seconds_and_years_are_written_where_they_restrict() {
    check("0 0 3 * * *", "0 3 * * *");
    check("30 0 3 * * *", "30 0 3 * * *");
    check("*/15 0 3 * * *", "*/15 0 3 * * *");
    check("* * * * * *", "* * * * * *");
    check("0 0 3 * * * *", "0 3 * * *");
    check("0 0 3 * * * 2027", "0 0 3 * * * 2027");
}

/// The longest normal form there is stays within what is accepted.
#[test]
fn longest_normal_form_is_accepted() {
    let odd = |last: u32| {
        let values = (0..=last).filter(|value| value % 4 != 2 || *value == 2);
        values.map(|value| value.to_string()).collect::<Vec<_>>().join(",")
    };
    let near: Vec<_> = (1..=31).map(|day| format!("{day}W")).collect();
    let from_end: Vec<_> = (1..=30).map(|day| format!("L-{day}")).collect();
    let nth: Vec<_> =
        (0..7).flat_map(|day| (1..=5).map(move |place| format!("{day}#{place}"))).collect();
    let days = format!("1,3,4,9,{},{},LW,L", near.join(","), from_end.join(","));
    let expr = format!(
        "{} {} {} {days} 1,3,4,9 1,3,{},0L,1L,2L 1970,1971,1980,1982,1990,1993,2000,2005",
        odd(59),
        odd(59),
        odd(23),
        nth.join(",")
    );
    // As written it is over the length; each half fits.
    assert!(expr.len() > 700, "{}", expr.len());
    let cron = Cron::parse(&expr).unwrap();
    let text = cron.canonical();
    assert_eq!(Cron::parse(&text).unwrap(), cron);
}
