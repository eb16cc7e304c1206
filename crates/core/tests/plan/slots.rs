//! What each field makes of the slots, by example.

use cronstream_schemas::time::Timestamp;

use super::{at, calendars, coming, plan, plan_with};

#[test]
fn equal_instants_of_several_expressions_are_one_slot() {
    let plan = plan(r#""schedule":{"cron":["0 */6 * * *","0 9,12 * * *","30 9 * * 1"]}"#);
    assert_eq!(
        coming(&plan, "2026-03-02T05:00:00Z", 5),
        [
            "2026-03-02T06:00:00Z",
            "2026-03-02T09:00:00Z",
            "2026-03-02T09:30:00Z",
            "2026-03-02T12:00:00Z",
            "2026-03-02T18:00:00Z",
        ]
    );
    // 4 + 1 a day, and four Mondays in four weeks.
    assert_eq!(plan.count(at("2026-03-01T23:00:00Z"), at("2026-03-29T23:00:00Z")), 28 * 5 + 4);
}

#[test]
fn an_interval_with_a_start_counts_from_it_and_the_start_is_a_slot() {
    let plan = plan(r#""schedule":{"every":"36h"},"start":"2026-02-01T03:00:00.250Z""#);
    assert_eq!(plan.next(Timestamp::MIN), Some(at("2026-02-01T03:00:00.250Z")));
    assert_eq!(coming(&plan, "2026-02-02T00:00:00Z", 1), ["2026-02-02T15:00:00.250Z"]);
}

#[test]
fn start_and_end_cut_the_slots() {
    let plan = plan(
        r#""schedule":{"cron":"0 0 * * *"},"start":"2026-05-01T00:00:00Z","end":"2026-05-04T00:00:00Z""#,
    );
    let slots = ["2026-05-01T00:00:00Z", "2026-05-02T00:00:00Z", "2026-05-03T00:00:00Z"];
    assert_eq!(coming(&plan, "2020-01-01T00:00:00Z", 9), slots);
    assert_eq!(plan.prev(Timestamp::MAX), Some(at(slots[2])));
    assert_eq!(plan.prev(at(slots[0])), None);
    assert_eq!(plan.count(Timestamp::MIN, Timestamp::MAX), 3);
}

#[test]
fn a_slot_outside_the_windows_does_not_exist() {
    let plan = plan(
        r#""schedule":{"cron":"*/20 * * * *"},"time_zone":"Europe/Berlin","windows":["09:00-09:30","23:50-00:10"]"#,
    );
    assert_eq!(
        coming(&plan, "2026-01-10T06:00:00Z", 4),
        [
            "2026-01-10T08:00:00Z",
            "2026-01-10T08:20:00Z",
            "2026-01-10T23:00:00Z",
            "2026-01-11T08:00:00Z",
        ]
    );
    assert_eq!(plan.count(at("2026-01-01T00:00:00Z"), at("2026-12-31T23:00:00Z")), 365 * 3);
}

#[test]
fn an_interval_keeps_its_grid_through_windows() {
    let plan = plan(r#""schedule":{"every":"7h"},"windows":["09:00-17:00"]"#);
    assert_eq!(
        coming(&plan, "2026-01-01T00:00:00Z", 4),
        [
            "2026-01-01T14:00:00Z",
            "2026-01-02T11:00:00Z",
            "2026-01-03T15:00:00Z",
            "2026-01-04T12:00:00Z",
        ]
    );
}

const WORK: (&str, &str) = (
    "firm/work",
    r#"{"include":[{"weekly":["MON","TUE","WED","THU","FRI"]}],"exclude":[{"calendar":"firm/off"}]}"#,
);
const OFF: (&str, &str) =
    ("firm/off", r#"{"include":[{"yearly":"12-25"},{"yearly":"01-01"},{"easter":-2}]}"#);

/// B172.
#[test]
fn slots_on_days_off_are_left_out_or_moved_to_a_working_day() {
    let calendars = calendars(&[OFF, WORK]);
    for (shift, slots) in [
        ("", ["2026-12-15", "2027-01-15", "2027-02-15", "2027-03-15"]),
        (r#","shift":"next""#, ["2026-11-16", "2026-12-15", "2027-01-15", "2027-02-15"]),
        (r#","shift":"previous""#, ["2026-11-13", "2026-12-15", "2027-01-15", "2027-02-15"]),
    ] {
        let plan = plan_with(
            &format!(
                r#""schedule":{{"cron":"30 8 15 * *"}},"calendars":{{"only":["firm/work"]{shift}}}"#
            ),
            &calendars,
        );
        let slots = slots.map(|day| format!("{day}T08:30:00Z"));
        assert_eq!(coming(&plan, "2026-11-12T00:00:00Z", 4), slots, "{shift}");
    }
}

#[test]
fn two_slots_that_are_moved_to_one_instant_are_one() {
    let calendars = calendars(&[OFF, WORK]);
    let plan = plan_with(
        r#""schedule":{"cron":"0 9 * * *"},"calendars":{"only":["firm/work"],"shift":"next"}"#,
        &calendars,
    );
    // Thursday, Christmas on Friday, Monday.
    assert_eq!(
        coming(&plan, "2026-12-24T00:00:00Z", 3),
        ["2026-12-24T09:00:00Z", "2026-12-28T09:00:00Z", "2026-12-29T09:00:00Z"]
    );
    assert_eq!(plan.count(at("2026-12-24T00:00:00Z"), at("2026-12-29T00:00:00Z")), 2);
}

#[test]
fn a_calendar_that_nobody_knows_is_told_and_filters_nothing() {
    let fields = r#""schedule":{"cron":"0 9 * * *"},"calendars":{"only":["firm/work"],"except":["firm/off"]}"#;
    let missing = plan_with(fields, &calendars(&[OFF]));
    assert_eq!(missing.missing_calendar().map(ToString::to_string).as_deref(), Some("firm/work"));
    assert_eq!(coming(&missing, "2026-12-25T00:00:00Z", 1), ["2026-12-25T09:00:00Z"]);
    let known = plan_with(fields, &calendars(&[OFF, WORK]));
    assert_eq!(known.missing_calendar(), None);
    assert_eq!(coming(&known, "2026-12-25T00:00:00Z", 1), ["2026-12-28T09:00:00Z"]);
}

/// B122.
#[test]
fn jitter_is_one_delay_of_a_job_below_its_bound_and_spreads_jobs() {
    use cronstream_core::{calendar::Calendars, plan::Plan};
    let fields = r#""schedule":{"cron":"0 * * * *"},"jitter":"10m""#;
    let calendars = Calendars::default();
    let definition = super::define(fields, &calendars);
    let mut minutes = [0_u32; 10];
    for number in 0..1_000 {
        let job = format!("a/job-{number}").parse().unwrap();
        let plan = Plan::compile(&definition, &job, Timestamp::MIN, &calendars).unwrap();
        let again = Plan::compile(&definition, &job, at("2026-01-01T00:00:00Z"), &calendars);
        assert_eq!(plan.jitter(), again.unwrap().jitter());
        minutes[usize::try_from(plan.jitter().as_secs() / 60).unwrap()] += 1;
    }
    assert!(minutes.iter().all(|jobs| (60..=140).contains(jobs)), "{minutes:?}");
    // It is stable for ever: to change it would move every job that has one.
    assert_eq!(plan(fields).jitter().as_millis(), 560_874);
}

#[test]
fn a_fixed_delay_counts_from_what_it_is_based_on() {
    let plan = plan(r#""schedule":{"fixed_delay":"10m"}"#);
    assert!(plan.is_fixed_delay());
    assert_eq!(coming(&plan, "2026-01-01T00:00:00Z", 1), ["2026-01-01T00:10:00Z"]);
    let later = plan.rebased(at("2026-01-01T05:03:00.007Z"));
    assert_eq!(coming(&later, "2026-01-01T00:00:00Z", 1), ["2026-01-01T05:13:00.007Z"]);
    assert_eq!(coming(&later, "2026-01-01T05:13:00.007Z", 1), ["2026-01-01T05:23:00.007Z"]);
    let cron = super::plan(r#""schedule":{"cron":"0 0 * * *"}"#);
    assert!(!cron.is_fixed_delay());
    assert_eq!(cron.rebased(at("2026-01-01T05:00:00Z")), cron);
}

#[test]
fn hash_slots_are_those_of_the_job() {
    use cronstream_core::{calendar::Calendars, plan::Plan};
    let calendars = Calendars::default();
    let definition = super::define(r#""schedule":{"cron":"H H * * *"}"#, &calendars);
    let first = |job: &str| {
        let plan = Plan::compile(&definition, &job.parse().unwrap(), Timestamp::MIN, &calendars);
        plan.unwrap().next(at("2026-01-01T00:00:00Z"))
    };
    assert_eq!(first("a/b"), first("a/b"));
    assert_ne!(first("a/b"), first("a/c"));
}
