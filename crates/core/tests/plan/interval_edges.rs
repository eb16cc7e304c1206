//! Slots at the very ends of windows, of limits and of a count, to the millisecond.

use cronstream_schemas::time::Timestamp;

use super::{at, calendars, coming, plan, plan_with};

#[test]
fn an_interval_within_windows_has_the_slot_at_their_start_and_not_the_one_at_their_end() {
    let plan = plan(
        r#""schedule":{"every":"20m"},"start":"2026-01-01T00:00:00Z","windows":["09:00-09:40"]"#,
    );
    let slots = [
        "2026-01-01T09:00:00Z",
        "2026-01-01T09:20:00Z",
        "2026-01-02T09:00:00Z",
        "2026-01-02T09:20:00Z",
    ];
    assert_eq!(coming(&plan, "2026-01-01T00:00:00Z", 4), slots);
    for pair in slots.windows(2) {
        assert_eq!(plan.prev(at(pair[1])), Some(at(pair[0])), "{pair:?}");
    }
    assert_eq!(plan.prev(at(slots[0])), None);
}

#[test]
fn an_interval_within_windows_is_counted_alike_over_hours_and_over_days() {
    let plan = plan(
        r#""schedule":{"every":"20m"},"start":"2026-01-01T09:00:00Z","windows":["09:00-09:40"]"#,
    );
    for (after, through, expected) in [
        // Few steps, gone through one by one.
        ("2026-01-02T00:00:00Z", "2026-01-02T12:00:00Z", 2),
        ("2026-01-02T00:00:00Z", "2026-01-02T09:20:00Z", 2),
        ("2026-01-02T00:00:00Z", "2026-01-02T09:19:59.999Z", 1),
        ("2026-01-02T09:00:00Z", "2026-01-02T12:00:00Z", 1),
        ("2026-01-02T10:00:00Z", "2026-01-02T12:00:00Z", 0),
        ("2026-01-02T12:00:00Z", "2026-01-02T12:00:00Z", 0),
        // Many, counted by stretches; from the first slot, and from before it.
        ("2025-12-31T00:00:00Z", "2026-01-04T09:20:00Z", 8),
        ("2025-12-31T00:00:00Z", "2026-01-04T09:19:59.999Z", 7),
        ("2026-01-01T08:59:59.999Z", "2026-01-04T09:00:00Z", 7),
        ("2026-01-01T09:00:00Z", "2026-01-04T09:00:00Z", 6),
        ("2026-01-01T09:00:00Z", "2026-01-04T08:59:59.999Z", 5),
        ("2026-01-01T12:00:00Z", "2026-01-04T12:00:00Z", 6),
    ] {
        assert_eq!(plan.count(at(after), at(through)), expected, "{after} to {through}");
    }
}

#[test]
fn slots_a_millisecond_beside_a_window_are_passed_over() {
    let hourly = |start: &str| {
        let fields = r#""schedule":{"every":"1h"},"windows":["09:00-12:00"]"#;
        plan(&format!(r#"{fields},"start":"{start}""#))
    };
    let early = hourly("2026-01-01T06:59:59.999Z");
    let [first, last] = ["2026-01-01T09:59:59.999Z", "2026-01-01T11:59:59.999Z"].map(at);
    assert_eq!(early.next(at("2026-01-01T08:00:00Z")), Some(first));
    assert_eq!(early.prev(at("2026-01-01T15:00:00Z")), Some(last));
    let whole = hourly("2026-01-01T07:00:00Z");
    let [first, last] = ["2026-01-01T09:00:00Z", "2026-01-01T11:00:00Z"].map(at);
    assert_eq!(whole.next(at("2026-01-01T08:00:00Z")), Some(first));
    assert_eq!(whole.prev(at("2026-01-01T12:00:00.001Z")), Some(last));
}

#[test]
fn the_last_instant_there_is_may_be_a_slot() {
    let plan = plan(r#""schedule":{"every":"1h"},"start":"9999-12-31T22:59:59.999Z""#);
    let before = Timestamp::MAX.minus(std::time::Duration::from_secs(3_600));
    assert_eq!(
        (plan.next(Timestamp::MIN), plan.next(before)),
        (Some(before), Some(Timestamp::MAX))
    );
    assert_eq!((plan.next(Timestamp::MAX), plan.prev(Timestamp::MAX)), (None, Some(before)));
}

#[test]
fn the_last_millisecond_of_a_window_is_open() {
    let plan = plan(
        r#""schedule":{"every":"20m"},"start":"2026-01-01T00:09:59.999Z","windows":["09:00-09:30"]"#,
    );
    let (first, last) = (at("2026-01-01T09:09:59.999Z"), at("2026-01-01T09:29:59.999Z"));
    assert_eq!(plan.next(Timestamp::MIN), Some(first));
    assert_eq!(plan.next(first), Some(last));
    assert_eq!(plan.prev(at("2026-01-01T12:00:00Z")), Some(last));
    assert_eq!(plan.prev(last), Some(first));
    assert_eq!(plan.count(at("2026-01-01T00:00:00Z"), at("2026-01-04T00:00:00Z")), 6);
}

/// Santiago's clock goes back from midnight of 2026-04-05: the last hour of the day before is shown twice.
#[test]
fn a_window_that_the_wall_shows_again_after_the_last_day_is_open_again() {
    let calendars = calendars(&[("a/day", r#"{"include":[{"date":"2026-04-04"}]}"#)]);
    let plan = plan_with(
        r#""schedule":{"every":"15m"},"start":"2026-01-01T00:00:00Z","time_zone":"America/Santiago",
           "calendars":{"only":["a/day"]},"windows":["23:15-23:30"]"#,
        &calendars,
    );
    let [first, again] = ["2026-04-05T02:15:00Z", "2026-04-05T03:15:00Z"].map(at);
    assert_eq!(coming(&plan, "2026-01-01T00:00:00Z", 9).len(), 2);
    assert_eq!((plan.next(Timestamp::MIN), plan.next(first)), (Some(first), Some(again)));
    assert_eq!((plan.prev(Timestamp::MAX), plan.prev(again)), (Some(again), Some(first)));
    assert_eq!(plan.count(Timestamp::MIN, Timestamp::MAX), 2);
}

#[test]
fn an_interval_within_windows_ends_with_the_calendar() {
    let plan = plan(
        r#""schedule":{"every":"15m"},"start":"2239-12-31T00:00:00Z","time_zone":"America/New_York",
           "windows":["12:00-06:00"]"#,
    );
    let last = at("2239-12-31T23:45:00Z");
    assert_eq!((plan.next(last), plan.prev(Timestamp::MAX)), (None, Some(last)));
    // Open from 00:00 to 11:00 and from 17:00 to 24:00, in UTC.
    assert_eq!(plan.count(Timestamp::MIN, Timestamp::MAX), (11 + 7) * 4);
}

#[test]
fn one_instant_is_a_slot_before_later_ones_and_after_earlier_ones() {
    let plan = plan(r#""schedule":{"at":"2026-05-01T00:00:00Z"}"#);
    let slot = at("2026-05-01T00:00:00Z");
    let [before, after] = [-1, 1].map(|by| Timestamp::from_millis(slot.as_millis() + by));
    assert_eq!((plan.next(before), plan.next(slot)), (Some(slot), None));
    assert_eq!((plan.prev(slot), plan.prev(after)), (None, Some(slot)));
    let ends = [(before, slot), (before, after), (slot, after), (Timestamp::MIN, before)];
    assert_eq!(ends.map(|(from, to)| plan.count(from, to)), [1, 1, 0, 0]);
}

#[test]
fn limits_cut_to_the_millisecond() {
    let plan = |start, end| {
        plan(&format!(r#""schedule":{{"cron":"0 0 * * *"}},"start":"{start}","end":"{end}""#))
    };
    let (first, last) = (at("2026-05-01T00:00:00Z"), at("2026-05-03T00:00:00Z"));
    let whole = plan("2026-05-01T00:00:00Z", "2026-05-03T00:00:00.001Z");
    assert_eq!(whole.next(Timestamp::MIN), Some(first));
    assert_eq!(whole.prev(at("2026-05-01T12:00:00Z")), Some(first));
    assert_eq!(whole.prev(Timestamp::MAX), Some(last));
    assert_eq!(whole.count(Timestamp::MIN, Timestamp::MAX), 3);
    assert_eq!(whole.count(first, first), 0);
    let less = plan("2026-05-01T00:00:00.001Z", "2026-05-03T00:00:00Z");
    let only = at("2026-05-02T00:00:00Z");
    assert_eq!((less.next(Timestamp::MIN), less.next(only)), (Some(only), None));
    assert_eq!((less.prev(Timestamp::MAX), less.prev(only)), (Some(only), None));
    assert_eq!(less.count(Timestamp::MIN, Timestamp::MAX), 1);
}

#[test]
fn a_wall_time_in_a_gap_loses_its_milliseconds_where_it_is_moved_to_the_end() {
    let first = |time: &str, more: &str| {
        let schedule = format!(r#""schedule":{{"at":"{time}"}},"time_zone":"Europe/Berlin"{more}"#);
        plan(&schedule).next(Timestamp::MIN)
    };
    let in_gap = "2026-03-29T02:30:00.250";
    assert_eq!(first(in_gap, ""), Some(at("2026-03-29T01:00:00Z")));
    assert_eq!(first(in_gap, r#","gap":"end""#), Some(at("2026-03-29T01:00:00Z")));
    assert_eq!(first(in_gap, r#","gap":"before""#), Some(at("2026-03-29T01:30:00.250Z")));
    assert_eq!(first("2026-03-30T02:30:00.250", ""), Some(at("2026-03-30T00:30:00.250Z")));
}
