//! What a definition is compiled to that no check has seen, as one from the log is.

use cronstream_core::calendar::Calendars;
use cronstream_core::plan::Plan;
use cronstream_schemas::definition::{Draft, JobDefinition};
use cronstream_schemas::time::Timestamp;

use super::{at, calendars, job};

fn decode(fields: &str) -> JobDefinition {
    let body = format!(r#"{{"task":"t",{fields}}}"#);
    Draft::decode(body.as_bytes()).finish().unwrap()
}

fn compile(fields: &str, calendars: &Calendars) -> Result<Plan, Vec<String>> {
    let plan = Plan::compile(&decode(fields), &job(), at("2026-01-01T00:00:00Z"), calendars);
    let told =
        |fault: cronstream_schemas::fault::Fault| format!("{}: {}", fault.path, fault.problem);
    plan.map_err(|faults| faults.into_iter().map(told).collect())
}

#[test]
fn each_expression_that_is_none_of_the_job_is_told() {
    for (crons, expected) in [
        (
            r#"["CRON_TZ=Asia/Tokyo 0 9 * * *","0 9 * * *"]"#,
            "$.schedule.cron[0]: names a zone of its own",
        ),
        (
            r#"["0 9 * * *","@every 5m"]"#,
            "$.schedule.cron[1]: an interval beside other expressions",
        ),
        (r#""TZ=Asia/Tokyo @every 1h""#, "$.schedule.cron: an interval beside other expressions"),
    ] {
        let fields = format!(r#""schedule":{{"cron":{crons}}}"#);
        assert_eq!(compile(&fields, &Calendars::default()), Err(vec![expected.into()]), "{crons}");
    }
    let wrong =
        r#""schedule":{"cron":["0 9 * * *","61 9 * * *","0 25 * * *"]},"time_zone":"Mars/Olympus""#;
    let faults = compile(wrong, &Calendars::default()).unwrap_err();
    let paths: Vec<&str> = faults.iter().map(|fault| fault.split(':').next().unwrap()).collect();
    assert_eq!(paths, ["$.schedule.cron[1]", "$.schedule.cron[2]", "$.time_zone"]);
}

#[test]
fn a_single_instant_that_the_days_or_the_windows_leave_out_is_no_slot() {
    let calendars = calendars(&[
        ("a/day", r#"{"include":[{"date":"2026-05-01"}]}"#),
        ("a/other", r#"{"include":[{"date":"2026-05-02"}]}"#),
    ]);
    let ends = (Timestamp::MIN, Timestamp::MAX);
    for (fields, slots) in [
        ("", 1),
        (r#","calendars":{"only":["a/day"]}"#, 1),
        (r#","calendars":{"only":["a/other"]}"#, 0),
        (r#","windows":["12:00-12:00:01"]"#, 1),
        (r#","windows":["12:00:01-13:00"]"#, 0),
        (r#","calendars":{"only":["a/other"]},"windows":["11:00-13:00"]"#, 0),
    ] {
        let fields = format!(r#""schedule":{{"at":"2026-05-01T12:00:00"}}{fields}"#);
        let plan = compile(&fields, &calendars).unwrap();
        let slot = (slots == 1).then(|| at("2026-05-01T12:00:00Z"));
        assert_eq!((plan.next(ends.0), plan.prev(ends.1)), (slot, slot), "{fields}");
        assert_eq!(plan.count(ends.0, ends.1), slots, "{fields}");
    }
}

#[test]
fn an_interval_has_the_days_of_its_calendars_whether_or_not_it_has_windows() {
    let calendars = calendars(&[("a/day", r#"{"include":[{"date":"2026-05-01"}]}"#)]);
    for (fields, slots) in [
        (r#","calendars":{"only":["a/day"]}"#, 24),
        (r#","calendars":{"only":["a/day"]},"windows":["09:00-12:00"]"#, 3),
        (r#","windows":["09:00-12:00"],"end":"2026-01-03T00:00:00Z""#, 6),
    ] {
        let plan = compile(&format!(r#""schedule":{{"every":"1h"}}{fields}"#), &calendars).unwrap();
        assert_eq!(plan.count(Timestamp::MIN, Timestamp::MAX), slots, "{fields}");
        let next = |after| plan.next(after);
        let all = std::iter::successors(next(Timestamp::MIN), |slot| next(*slot));
        assert_eq!(all.count() as u64, slots, "{fields}");
    }
}
