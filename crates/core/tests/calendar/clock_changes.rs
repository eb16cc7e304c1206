//! Reported faults with clock changes and zones, each with the answer that is right.

use std::process::Command;

use cronstream_core::schedule::{Cron, Zone};

use crate::{check, check_count, instant, slots};

/// B001, B017, B024, B061
#[test]
fn fixed_time_in_a_fold_fires_once_at_the_first_pass() {
    check(
        "0 2 * * *",
        "Europe/Berlin",
        "2023-10-28T12:00:00Z",
        &["2023-10-29T00:00:00Z", "2023-10-30T01:00:00Z"],
    );
    check_count("0 2 * * *", "Europe/Berlin", "2023-10-28T22:00:00Z", "2023-10-29T22:59:59Z", 1);
    check(
        "0 12 * * 1",
        "Europe/Amsterdam",
        "2013-10-27T12:00:00Z",
        &["2013-10-28T11:00:00Z", "2013-11-04T11:00:00Z"],
    );
    // Asked between the two passes, the first is over.
    check("0 0 2 * * 0", "Europe/Berlin", "2024-10-27T00:30:00Z", &["2024-11-03T01:00:00Z"]);
    check(
        "0 1 * * *",
        "America/New_York",
        "2026-11-01T00:00:00Z",
        &["2026-11-01T05:00:00Z", "2026-11-02T06:00:00Z"],
    );
}

/// B011, B012, B061
#[test]
fn sub_hour_job_follows_elapsed_time_through_a_fold() {
    check(
        "*/30 * * * *",
        "America/New_York",
        "2026-11-01T04:45:00Z",
        &[
            "2026-11-01T05:00:00Z",
            "2026-11-01T05:30:00Z",
            "2026-11-01T06:00:00Z",
            "2026-11-01T06:30:00Z",
            "2026-11-01T07:00:00Z",
        ],
    );
    check("*/30 * * * *", "America/New_York", "2026-11-01T06:05:00Z", &["2026-11-01T06:30:00Z"]);
    check_count(
        "*/10 * * * *",
        "America/New_York",
        "2026-11-01T04:59:59Z",
        "2026-11-01T06:59:59Z",
        12,
    );
}

/// B002, B004, B018, B030, B031
#[test]
fn fixed_time_in_a_gap_fires_once_at_its_end() {
    check(
        "0 2 * * *",
        "America/Los_Angeles",
        "2025-03-08T12:00:00Z",
        &["2025-03-09T10:00:00Z", "2025-03-10T09:00:00Z"],
    );
    check(
        "30 2 * * *",
        "America/New_York",
        "2026-03-08T06:30:00Z",
        &["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"],
    );
    check(
        "0 2 * * *",
        "America/New_York",
        "2019-03-09T12:00:00Z",
        &["2019-03-10T07:00:00Z", "2019-03-11T06:00:00Z"],
    );
    check_count("0 2 * * *", "America/New_York", "2019-03-10T04:59:59Z", "2019-03-11T03:59:59Z", 1);
    check(
        "30 2 * * *",
        "America/New_York",
        "2025-03-08T12:00:00Z",
        &["2025-03-09T07:00:00Z", "2025-03-10T06:30:00Z"],
    );
}

#[test]
fn several_fixed_times_in_one_gap_are_one_start() {
    let gap_end = "2026-03-08T07:00:00Z";
    let from = "2026-03-07T12:00:00Z";
    check("0,15,30 2 * * *", "America/New_York", from, &[gap_end, "2026-03-09T06:00:00Z"]);
    // 03:00 is a slot of its own at the same instant.
    check("30 2,3 * * *", "America/New_York", from, &[gap_end, "2026-03-08T07:30:00Z"]);
    check("0 2,3 * * *", "America/New_York", from, &[gap_end, "2026-03-09T06:00:00Z"]);
    check_count("0 2,3 * * *", "America/New_York", from, "2026-03-09T03:00:00Z", 1);
}

#[test]
fn wildcard_job_in_a_gap_goes_on_behind_it() {
    check(
        "*/30 * * * *",
        "America/New_York",
        "2026-03-08T06:10:00Z",
        &["2026-03-08T06:30:00Z", "2026-03-08T07:00:00Z", "2026-03-08T07:30:00Z"],
    );
    check("* 2 * * *", "America/New_York", "2026-03-08T06:10:00Z", &["2026-03-09T06:00:00Z"]);
}

#[test]
fn half_hour_summer_time_has_half_hour_gaps_and_folds() {
    let zone = "Australia/Lord_Howe";
    check("15 2 * * *", zone, "2026-10-03T02:00:00Z", &["2026-10-03T15:30:00Z"]);
    check(
        "*/15 * * * *",
        zone,
        "2026-04-04T14:40:00Z",
        &["2026-04-04T14:45:00Z", "2026-04-04T15:00:00Z", "2026-04-04T15:15:00Z"],
    );
    // The instant at which another engine was found to loop for ever.
    check("46 10 * * *", zone, "2022-04-02T10:28:00Z", &["2022-04-03T00:16:00Z"]);
}

#[test]
fn skipped_day_is_a_gap() {
    // Samoa went from the end of 29 December 2011 to 31 December.
    let (zone, from) = ("Pacific/Apia", "2011-12-29T20:00:00Z");
    check("0 12 * * *", zone, from, &["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z"]);
    check("0 12 30 12 *", zone, from, &["2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z"]);
    check("0 0 * * *", zone, from, &["2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"]);
    check("0 * * * *", zone, "2011-12-30T09:00:00Z", &["2011-12-30T10:00:00Z"]);
}

/// B005
#[test]
fn job_outside_the_gap_keeps_its_hour() {
    check(
        "0 10 * * *",
        "America/Chicago",
        "2025-03-08T15:00:00Z",
        &["2025-03-08T16:00:00Z", "2025-03-09T15:00:00Z", "2025-03-10T15:00:00Z"],
    );
}

/// B006
#[test]
fn weekly_job_counts_calendar_days() {
    check("0 12 * * 0", "Europe/Berlin", "2022-03-24T11:00:00Z", &["2022-03-27T10:00:00Z"]);
}

/// B008, B009
#[test]
fn gap_at_midnight_ends_the_search() {
    check(
        "0 6 * * *",
        "America/Santiago",
        "2018-08-12T00:00:00Z",
        &["2018-08-12T09:00:00Z", "2018-08-13T09:00:00Z"],
    );
    check(
        "0 0 * * *",
        "America/Santiago",
        "2018-08-11T12:00:00Z",
        &["2018-08-12T04:00:00Z", "2018-08-13T03:00:00Z"],
    );
    check(
        "0 0 * * *",
        "America/Sao_Paulo",
        "2014-10-18T12:00:00Z",
        &["2014-10-19T03:00:00Z", "2014-10-20T02:00:00Z"],
    );
}

/// B014
#[test]
fn one_job_in_a_gap_leaves_the_others_alone() {
    let from = "2016-03-12T20:00:00Z";
    check("30 2 * * *", "America/Chicago", from, &["2016-03-13T08:00:00Z"]);
    check("0 9 * * *", "America/Chicago", from, &["2016-03-13T14:00:00Z"]);
}

/// B015
#[test]
fn ten_minute_job_passes_the_end_of_summer_time() {
    let (from, through) = ("2022-11-06T07:59:59Z", "2022-11-06T09:59:59Z");
    check_count("*/10 * * * *", "America/Los_Angeles", from, through, 12);
    let found: Vec<_> = slots("*/10 * * * *", "America/Los_Angeles", from).take(12).collect();
    assert_eq!(found[11], "2022-11-06T09:50:00Z");
}

/// B016, B023
#[test]
fn zone_is_evaluated_at_each_slot() {
    check("4 16 * * *", "America/New_York", "2025-03-09T12:00:00Z", &["2025-03-09T20:04:00Z"]);
    check(
        "30 1 * * *",
        "Europe/Berlin",
        "2023-03-25T12:00:00Z",
        &["2023-03-26T00:30:00Z", "2023-03-26T23:30:00Z"],
    );
}

/// B019, B025
#[test]
fn zoned_job_has_one_instant() {
    check(
        "0 0 8 * * *",
        "Asia/Shanghai",
        "2025-10-26T12:00:00Z",
        &["2025-10-27T00:00:00Z", "2025-10-28T00:00:00Z"],
    );
}

/// B022, B026, B027; run again by the test below, on hosts of other zones.
#[test]
fn utc_job_does_not_see_summer_time() {
    check("0 * * * *", "UTC", "2025-10-05T02:00:00Z", &["2025-10-05T03:00:00Z"]);
    check("0 12 * * 5", "UTC", "2025-10-05T02:00:00Z", &["2025-10-10T12:00:00Z"]);
    check("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", &["2026-03-29T01:00:00Z"]);
}

#[test]
fn host_zone_has_no_influence() {
    let tests = std::env::current_exe().unwrap();
    for zone in ["Australia/Sydney", "America/Los_Angeles", ":/nowhere", "XYZ-14"] {
        let mut child = Command::new(&tests);
        child.args(["--exact", "clock_changes::utc_job_does_not_see_summer_time"]);
        let output = child.env("TZ", zone).env("TZDIR", "/nowhere").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "TZ={zone}: {text}");
    }
}

/// B027
#[test]
fn zone_is_an_iana_name_echoed_in_its_canonical_form() {
    assert_eq!(Zone::get("US/Eastern").unwrap().name(), "America/New_York");
    assert_eq!(Zone::get("US/Eastern"), Zone::get("America/New_York"));
    assert_eq!(Zone::get("Europe/Amsterdam").unwrap().name(), "Europe/Amsterdam");
    assert_eq!(Zone::get("Etc/UTC"), Ok(Zone::UTC));
    assert_eq!(Zone::UTC.name(), "UTC");
    let refused = [
        ("Local", "no influence"),
        ("localtime", "no influence"),
        ("+02:00", "offset"),
        ("UTC+2", "offset"),
        ("GMT-05:00", "offset"),
        ("-5", "offset"),
        ("EST", "`America/Panama`"),
        ("MST", "`America/Phoenix`"),
        ("HST", "`Pacific/Honolulu`"),
        ("EST5EDT", "`America/New_York`"),
        ("CST6CDT", "`America/Chicago`"),
        ("MST7MDT", "`America/Denver`"),
        ("PST8PDT", "`America/Los_Angeles`"),
        ("CET", "`Europe/Brussels`"),
        ("europe/berlin", "`Europe/Berlin`"),
        ("utc", "`UTC`"),
        ("berlin", "`Europe/Berlin`"),
        ("America/New York", "did you mean `America/New_York`?"),
        ("Europe/Berln", "did you mean `Europe/Berlin`?"),
        ("Factory", "`UTC`"),
        ("", "IANA name"),
        ("Europe/", "IANA name"),
        ("../../etc/passwd", "IANA name"),
    ];
    for (name, hint) in refused {
        let error = Zone::get(name).unwrap_err();
        assert!(error.hint.contains(hint), "{error}");
    }
    let long = "é".repeat(10_000);
    assert_eq!(Zone::get(&long).unwrap_err().value.len(), 256);
}

/// B028
#[test]
fn zone_data_is_the_bundled_release() {
    assert_eq!(Zone::tzdb_version().len(), 5);
    assert!(Zone::tzdb_version() >= "2026f");
    // 2023b had put the change off to 20 April; 2023c took that back.
    check(
        "30 0 * * *",
        "Asia/Beirut",
        "2023-03-25T12:00:00Z",
        &["2023-03-25T22:00:00Z", "2023-03-26T21:30:00Z"],
    );
}

#[test]
fn two_changes_in_one_year_are_both_seen() {
    // Morocco leaves summer time for Ramadan.
    let zone = Zone::get("Africa/Casablanca").unwrap();
    let offset = |at: &str| zone.offset_seconds(instant(at));
    assert_eq!(offset("2026-02-01T00:00:00Z"), 3_600);
    assert_eq!(offset("2026-03-01T00:00:00Z"), 0);
    assert_eq!(offset("2026-04-01T00:00:00Z"), 3_600);
    check(
        "30 2 * * *",
        "Africa/Casablanca",
        "2026-02-14T12:00:00Z",
        &["2026-02-15T01:30:00Z", "2026-02-16T02:30:00Z"],
    );
}

#[test]
fn slot_that_only_falls_into_a_gap_is_never() {
    // Sunday 8 March is the day of the gap in each such year since 2007.
    let cron = Cron::parse("* 2 8 3 */7").unwrap();
    let zone = Zone::get("America/New_York").unwrap();
    assert_eq!(cron.next(zone, instant("2008-01-01T00:00:00Z")), None);
    assert_eq!(cron.count(zone, instant("2008-01-01T00:00:00Z"), i64::MAX), 0);
}

/// 02:59:59 of 2026-03-29 is the last second that Berlin's clock leaves out.
#[test]
fn the_last_second_of_a_gap_is_owed_at_its_end_or_not_at_all() {
    let ends = ("2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z");
    check(
        "59 59 2 * * *",
        "Europe/Berlin",
        ends.0,
        &["2026-03-29T01:00:00Z", "2026-03-30T00:59:59Z"],
    );
    check_count("59 59 2 * * *", "Europe/Berlin", ends.0, ends.1, 1);
    check(
        "* * 2 * * *",
        "Europe/Berlin",
        ends.0,
        &["2026-03-30T00:00:00Z", "2026-03-30T00:00:01Z"],
    );
    check_count("* * 2 * * *", "Europe/Berlin", ends.0, ends.1, 0);
}

#[test]
fn nothing_is_counted_from_later_to_earlier() {
    for zone in ["UTC", "Europe/Berlin"] {
        for (after, through) in [
            ("2026-03-29T01:00:00Z", "2026-03-29T00:59:59Z"),
            ("2026-10-25T01:30:00Z", "2026-10-25T00:30:00Z"),
            ("2036-01-01T00:00:00Z", "1971-01-01T00:00:00Z"),
        ] {
            check_count("* * * * * *", zone, after, through, 0);
            check_count("30 2 * * *", zone, after, through, 0);
        }
    }
}
