//! What a definition may say, and what it is told.

use cronstream_core::calendar::Calendars;
use cronstream_core::definition::{
    check as checked, coded_warnings, past, unknown_calendars, warnings,
};
use cronstream_schemas::definition::{Draft, Schedule};
use cronstream_schemas::fault::Fault;

use super::{at, calendars, define, job};

fn faults(fields: &str, calendars: &Calendars) -> Vec<Fault> {
    let body = format!(r#"{{"task":"t",{fields}}}"#);
    checked(Draft::decode(body.as_bytes()), &job(), calendars)
        .map_or_else(|faults| faults, |definition| panic!("{body} is accepted as {definition:?}"))
}

fn check_refused(fields: &str, expected: &[(&str, &str)]) {
    let calendars = calendars(&[
        ("a/past", r#"{"include":[{"date":"2020-02-02"}]}"#),
        ("a/all", r#"{"exclude":[{"date":"2020-02-02"}]}"#),
    ]);
    let faults = faults(fields, &calendars);
    let told: Vec<(&str, &str)> =
        faults.iter().map(|fault| (fault.path.as_str(), fault.problem.as_str())).collect();
    assert_eq!(told.len(), expected.len(), "{fields}: {faults:#?}");
    for ((path, problem), (wanted, words)) in told.into_iter().zip(expected) {
        assert_eq!(path, *wanted, "{fields}");
        assert!(problem.contains(words), "{fields}: {problem}");
    }
}

#[test]
fn a_zone_before_the_expression_becomes_the_jobs() {
    let definition =
        define(r#""schedule":{"cron":"TZ=Europe/Berlin 30 2 * * *"}"#, &Calendars::default());
    assert_eq!(definition.time_zone, "Europe/Berlin");
    assert_eq!(*definition.schedule, Schedule::Cron("30 2 * * *".into()));
    let both = r#""schedule":{"cron":["CRON_TZ=Asia/Calcutta  0 1 * * *","0 2 * * *"]},"time_zone":"Asia/Kolkata""#;
    let definition = define(both, &Calendars::default());
    assert_eq!(definition.time_zone, "Asia/Kolkata");
    let Schedule::Cron(all) = &*definition.schedule else { panic!("{definition:?}") };
    assert_eq!(all.as_slice(), ["0 1 * * *", "0 2 * * *"]);
}

#[test]
fn a_link_of_a_zone_is_kept_by_its_canonical_name() {
    let definition = define(
        r#""schedule":{"cron":"0 1 * * *"},"time_zone":"US/Eastern""#,
        &Calendars::default(),
    );
    assert_eq!(definition.time_zone, "America/New_York");
    let definition =
        define(r#""schedule":{"cron":"TZ=Asia/Calcutta 0 1 * * *"}"#, &Calendars::default());
    assert_eq!(definition.time_zone, "Asia/Kolkata");
    let definition = define(
        r#""schedule":{"cron":"TZ=US/Eastern 0 1 * * *"},"time_zone":"America/New_York""#,
        &Calendars::default(),
    );
    assert_eq!(definition.time_zone, "America/New_York");
}

#[test]
fn a_schedule_whose_one_slot_is_the_first_instant_is_no_schedule_without_slots() {
    let definition = define(r#""schedule":{"cron":"0 0 0 1 1 * 1970"}"#, &Calendars::default());
    let told = warnings(&definition, &job(), at("2026-06-01T00:00:00Z"));
    assert_eq!(told[0].problem, "is never due again");
    let coded = coded_warnings(&definition, &job(), at("2026-06-01T00:00:00Z"));
    assert_eq!(coded[0].code, "never-due");
}

#[test]
fn an_interval_among_the_macros_becomes_a_schedule_of_its_own() {
    let definition = define(r#""schedule":{"cron":"@every 90m"}"#, &Calendars::default());
    assert_eq!(*definition.schedule, Schedule::Every("90m".parse().unwrap()));
    let definition =
        define(r#""schedule":{"cron":"TZ=Asia/Tokyo @every 1h"}"#, &Calendars::default());
    assert_eq!(definition.time_zone, "Asia/Tokyo");
}

#[test]
fn zones_that_contradict_each_other_are_refused() {
    for (fields, paths) in [
        (
            r#""schedule":{"cron":"TZ=Asia/Tokyo 0 1 * * *"},"time_zone":"UTC""#,
            &[("$.schedule.cron", "is in the zone Asia/Tokyo")][..],
        ),
        (
            r#""schedule":{"cron":["TZ=Asia/Tokyo 0 1 * * *","TZ=UTC 0 1 * * *"]}"#,
            &[("$.schedule.cron[1]", "is in the zone UTC")],
        ),
        (
            r#""schedule":{"cron":["0 1 * * *","TZ=Asia/Tokyo 0 1 * * *"]}"#,
            &[("$.schedule.cron[0]", "names no zone")],
        ),
        (
            r#""schedule":{"cron":"TZ=Local 0 1 * * *"}"#,
            &[("$.schedule.cron", "unknown time zone")],
        ),
    ] {
        check_refused(fields, paths);
    }
}

#[test]
fn every_expression_is_told_what_is_wrong_with_it() {
    check_refused(
        r#""schedule":{"cron":["60 * * * *","0 1 * * *","@reboot"]},"time_zone":"Local""#,
        &[
            ("$.schedule.cron[0]", "minute"),
            ("$.schedule.cron[2]", "macro"),
            ("$.time_zone", "unknown time zone"),
        ],
    );
    check_refused(
        r#""schedule":{"cron":["@every 5m","0 1 * * *"]}"#,
        &[("$.schedule.cron[0]", "an interval beside other expressions")],
    );
}

#[test]
fn fields_that_belong_to_another_kind_of_schedule_are_refused() {
    check_refused(
        r#""schedule":{"every":"5m"},"dialect":"quartz""#,
        &[("$.dialect", "the schedule has no expression")],
    );
    for schedule in [r#"{"every":"5m"}"#, r#"{"fixed_delay":"5m"}"#, r#"{"at":"2027-01-01T00:00"}"#]
    {
        check_refused(
            &format!(r#""schedule":{schedule},"calendars":{{"only":["a/all"],"shift":"next"}}"#),
            &[("$.calendars.shift", "only the slots of expressions")],
        );
    }
    check_refused(
        r#""schedule":{"fixed_delay":"8d"}"#,
        &[("$.schedule.fixed_delay", "longer than `retention`")],
    );
}

#[test]
fn a_schedule_of_which_its_limits_leave_nothing_is_refused() {
    for (fields, path) in [
        (r#""schedule":{"cron":"0 3 * * *"},"windows":["09:00-17:00"]"#, "$.schedule.cron"),
        (
            r#""schedule":{"cron":["0 3 * * *","0 9 * * *"]},"windows":["09:00-17:00"]"#,
            "$.schedule.cron[0]",
        ),
        (
            r#""schedule":{"cron":"0 3 1 1 *"},"start":"2027-02-01T00:00:00Z","end":"2027-12-31T00:00:00Z""#,
            "$.end",
        ),
        (r#""schedule":{"at":"2027-02-01T00:00:00Z"},"start":"2027-02-01T00:00:01Z""#, "$.start"),
        (r#""schedule":{"at":"2027-02-01T00:00:00Z"},"end":"2027-02-01T00:00:00Z""#, "$.end"),
        (r#""schedule":{"at":"2027-02-01T00:00:00Z"},"windows":["09:00-17:00"]"#, "$.windows"),
        (r#""schedule":{"cron":"0 3 3 * *"},"calendars":{"only":["a/past"]}"#, "$.calendars"),
        (
            r#""schedule":{"every":"1d"},"start":"2027-02-01T00:00:00Z","windows":["09:00-17:00"]"#,
            "$.windows",
        ),
        (r#""schedule":{"cron":"0 3 3 3 *"},"start":"2239-12-01T00:00:00Z""#, "$.start"),
    ] {
        check_refused(fields, &[(path, "would never")]);
    }
    check_refused(
        r#""schedule":{"at":"2027-03-28T02:30:00"},"time_zone":"Europe/Berlin","gap":"skip""#,
        &[("$.schedule.at", "never show it")],
    );
}

#[test]
fn calendars_that_nobody_knows_are_named_each() {
    let known = calendars(&[("a/all", r#"{"exclude":[{"date":"2020-02-02"}]}"#)]);
    let definition = define(
        r#""schedule":{"cron":"0 3 * * *"},"calendars":{"only":["a/all","a/work"],"except":["a/off"]}"#,
        &known,
    );
    let paths: Vec<String> =
        unknown_calendars(&definition, &known).into_iter().map(|fault| fault.path).collect();
    assert_eq!(paths, ["$.calendars.only[1]", "$.calendars.except[0]"]);
}

fn check_warned(fields: &str, expected: &[(&str, &str)]) {
    let definition = define(fields, &Calendars::default());
    let told = warnings(&definition, &job(), at("2026-06-01T00:00:00Z"));
    let found: Vec<(&str, &str)> =
        told.iter().map(|fault| (fault.path.as_str(), fault.problem.as_str())).collect();
    assert_eq!(found.len(), expected.len(), "{fields}: {told:#?}");
    for ((path, problem), (wanted, words)) in found.into_iter().zip(expected) {
        assert_eq!(path, *wanted, "{fields}");
        assert!(problem.contains(words), "{fields}: {problem}");
    }
}

#[test]
fn what_may_surprise_is_accepted_with_a_warning() {
    for (fields, expected) in [
        (r#""schedule":{"cron":"0 3 * * *"},"time_zone":"Europe/Berlin""#, &[][..]),
        (r#""schedule":{"cron":"* * * * * *"}"#, &[("$.schedule.cron", "second")]),
        (
            r#""schedule":{"cron":["0 3 * * *","*/7 * * * *"]}"#,
            &[("$.schedule.cron[1]", "uneven step")],
        ),
        (
            r#""schedule":{"cron":"30 2 * * *"},"time_zone":"Europe/Berlin""#,
            &[("$.schedule.cron", "2027-03-28"), ("$.schedule.cron", "2026-10-25")],
        ),
        (
            r#""schedule":{"cron":"30 2 * * *"},"time_zone":"Europe/Berlin","gap":"before""#,
            &[("$.schedule.cron", "2026-10-25")],
        ),
        (
            r#""schedule":{"cron":"30 2 * * *"},"time_zone":"Europe/Berlin","gap":"end","fold":"last""#,
            &[],
        ),
        (
            r#""schedule":{"cron":"0 * * * *"},"jitter":"2h""#,
            &[("$.jitter", "longer than the job's period of 3600 s")],
        ),
        (
            r#""schedule":{"cron":"0 3 * * *"},"end":"2026-05-01T00:00:00Z""#,
            &[("$.schedule", "never due again")],
        ),
        (
            r#""schedule":{"cron":"0 3 * * *"},"start":"2100-05-01T00:00:00Z""#,
            &[("$.schedule", "not due before 2100-05-01T03")],
        ),
        (
            r#""schedule":{"every":"1h"},"gap":"skip","fold":"both""#,
            &[("$.gap", "no effect"), ("$.fold", "no effect")],
        ),
        (r#""schedule":{"every":"1h"},"misfire":{"limit":7}"#, &[("$.misfire.limit", "no effect")]),
        (
            r#""schedule":{"every":"1h"},"misfire":{"policy":"skip","window":"7h"}"#,
            &[("$.misfire.window", "no effect")],
        ),
    ] {
        check_warned(fields, expected);
    }
}

#[test]
fn an_instant_that_has_passed_is_refused_unless_it_was_named_before() {
    let now = at("2026-06-01T12:00:00Z");
    let one = |fields: &str| define(fields, &Calendars::default());
    for (fields, path) in [
        (r#""schedule":{"at":"2026-06-01T12:00:00Z"}"#, Some("$.schedule.at")),
        (r#""schedule":{"at":"2026-06-01T12:00:00.001Z"}"#, None),
        (
            r#""schedule":{"at":"2026-06-01T13:59"},"time_zone":"Europe/Berlin""#,
            Some("$.schedule.at"),
        ),
        (r#""schedule":{"at":"2026-06-01T14:01"},"time_zone":"Europe/Berlin""#, None),
        (r#""schedule":{"every":"1h"},"end":"2026-06-01T12:00:00Z""#, Some("$.end")),
        (r#""schedule":{"every":"1h"},"end":"2026-06-01T13:00:00Z""#, None),
    ] {
        let definition = one(fields);
        let fault = past(&definition, &job(), None, now);
        assert_eq!(fault.as_ref().map(|fault| fault.path.as_str()), path, "{fields}");
        assert_eq!(past(&definition, &job(), Some(&definition), now), None, "{fields}");
        let other = one(r#""schedule":{"at":"2026-05-01T12:00:00Z"}"#);
        let again = past(&definition, &job(), Some(&other), now);
        assert_eq!(again.is_some(), path.is_some(), "{fields}");
    }
}
