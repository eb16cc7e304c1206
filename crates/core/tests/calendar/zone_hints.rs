//! What is written instead of a zone that is refused.

use cronstream_core::schedule::Zone;

#[track_caller]
fn check(name: &str, hint: &str) {
    assert_eq!(Zone::get(name).unwrap_err().hint, hint, "`{name}`");
}

#[test]
fn a_name_that_begins_like_an_offset_is_told_so() {
    for name in ["05:30", "UTC5", "GMT+2", "-03", "+5h"] {
        check(name, "an offset is no zone; write a place such as `Europe/Berlin`, or `UTC`");
    }
    check("Europe/Berlin2", "did you mean `Europe/Berlin`?");
}

#[test]
fn two_slips_are_seen_and_three_are_not() {
    let none = "write an IANA name such as `America/New_York`, or `UTC`";
    // The city is wrong in each, or it would be found by that alone.
    for name in [
        "Erope/Berln",
        "Eeurope/Berlinn",
        "XEurope/Bexlin",
        "urope/Bexlin",
        "Eurppe/Bexlin",
        "Eurppe/Berln",
        "Eurppe/Berliin",
    ] {
        check(name, "did you mean `Europe/Berlin`?");
    }
    for name in
        ["Eurppe/Bxrln", "Eurppe/Bxrliin", "Xurppe/Bxrlin", "XEuroqe/Bexlin", "urppe/Bexlin"]
    {
        check(name, none);
    }
}

#[test]
fn a_short_name_may_differ_by_a_quarter_of_its_letters() {
    check("Iram", "did you mean `Iran`?");
    check("Tarkex", "write an IANA name such as `America/New_York`, or `UTC`");
}

#[test]
fn the_nearest_name_is_taken_and_of_equal_ones_the_first() {
    check("Asia/Macaw", "did you mean `Asia/Macao`?");
}
