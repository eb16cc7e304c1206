//! The misfire rule at the first slot that a job ever has, and where a slot is late or missed by a millisecond.

use std::time::Duration;

use cronstream_core::calendar::Calendars;
use cronstream_core::misfire::{Owed, Range, in_effect, owed, range};
use cronstream_core::plan::Plan;
use cronstream_schemas::definition::{Misfire, MisfirePolicy};
use cronstream_schemas::time::Timestamp;

use super::{at, define, plan};

const MILLI: Duration = Duration::from_millis(1);

const POLICIES: [&str; 3] = ["fire_once", "fire_all", "skip"];

fn with(policy: &str, more: &str) -> (Plan, Misfire) {
    let fields = format!(
        r#""schedule":{{"every":"5m"}},"start":"2026-03-01T06:00:00Z","misfire":{{"policy":"{policy}"{more}}}"#
    );
    (plan(&fields), define(&fields, &Calendars::default()).misfire)
}

/// What is owed of the slots after `after` at `now`.
fn owed_at((plan, misfire): &(Plan, Misfire), after: Timestamp, now: Timestamp) -> Owed {
    owed(plan, misfire, after, now, now)
}

fn due(slots: &[Timestamp]) -> Owed {
    Owed { due: slots.to_vec(), ..Owed::default() }
}

#[test]
fn the_first_slots_of_a_job_that_are_late_are_due_and_none_is_skipped() {
    let [first, second] = ["2026-03-01T06:00:00Z", "2026-03-01T06:05:00Z"].map(at);
    for policy in POLICIES {
        let job = with(policy, r#","threshold":"10m""#);
        for after in [Timestamp::MIN, first.minus(MILLI)] {
            assert_eq!(owed_at(&job, after, first), due(&[first]), "{policy}");
            assert_eq!(owed_at(&job, after, second.minus(MILLI)), due(&[first]), "{policy}");
            assert_eq!(owed_at(&job, after, second), due(&[first, second]), "{policy}");
            assert_eq!(owed_at(&job, after, first.minus(MILLI)), Owed::default(), "{policy}");
        }
        assert_eq!(owed_at(&job, first, second), due(&[second]), "{policy}");
    }
}

#[test]
fn a_slot_is_late_up_to_the_threshold_and_missed_a_millisecond_after() {
    let first = at("2026-03-01T06:00:00Z");
    let one = Range { first, last: first, count: 1 };
    for policy in POLICIES {
        let job = with(policy, r#","threshold":"2m""#);
        let now = first.plus(Duration::from_secs(120));
        assert_eq!(owed_at(&job, Timestamp::MIN, now), due(&[first]), "{policy}");
        let missed = owed_at(&job, Timestamp::MIN, now.plus(MILLI));
        if policy == "skip" {
            assert_eq!(missed, Owed { skipped: Some(one), ..Owed::default() });
        } else {
            assert_eq!(missed, due(&[first]), "{policy}");
        }
    }
}

#[test]
fn a_missed_slot_fires_up_to_its_window_and_is_skipped_a_millisecond_after() {
    let first = at("2026-03-01T06:00:00Z");
    let skipped = Some(Range { first, last: first, count: 1 });
    for policy in ["fire_once", "fire_all"] {
        let job = with(policy, r#","window":"4m""#);
        let now = first.plus(Duration::from_secs(240));
        assert_eq!(owed_at(&job, Timestamp::MIN, now), due(&[first]), "{policy}");
        let missed = owed_at(&job, Timestamp::MIN, now.plus(MILLI));
        assert_eq!(missed, Owed { skipped, ..Owed::default() }, "{policy}");
    }
}

#[test]
fn a_range_has_the_slots_after_its_begin_up_to_and_with_its_end() {
    let (plan, _) = with("skip", "");
    let slot = |minute: u64| at("2026-03-01T06:00:00Z").plus(Duration::from_secs(minute * 60));
    let whole = |first, last, count| Some(Range { first: slot(first), last: slot(last), count });
    assert_eq!(range(&plan, Timestamp::MIN, slot(10)), whole(0, 10, 3));
    assert_eq!(range(&plan, slot(0), slot(10)), whole(5, 10, 2));
    assert_eq!(range(&plan, slot(0).minus(MILLI), slot(10).minus(MILLI)), whole(0, 5, 2));
    assert_eq!(range(&plan, slot(5), slot(5)), None);
    assert_eq!(range(&plan, slot(5), slot(10).minus(MILLI)), None);
    assert_eq!(range(&plan, slot(5), slot(10)), whole(10, 10, 1));
}

#[test]
fn only_a_fixed_delay_has_no_backlog() {
    let told = |fields: &str| {
        let definition = define(fields, &Calendars::default());
        let effect = in_effect(&definition, &plan(fields));
        assert_eq!(effect, Misfire { policy: effect.policy, ..definition.misfire }, "{fields}");
        effect.policy
    };
    let misfire = |policy: &str| {
        format!(r#""misfire":{{"policy":"{policy}","limit":7,"threshold":"3m","window":"2h"}}"#)
    };
    for (policy, expected) in [
        ("fire_all", MisfirePolicy::FireAll),
        ("fire_once", MisfirePolicy::FireOnce),
        ("skip", MisfirePolicy::Skip),
    ] {
        let misfire = misfire(policy);
        assert_eq!(told(&format!(r#""schedule":{{"every":"5m"}},{misfire}"#)), expected);
        assert_eq!(told(&format!(r#""schedule":{{"cron":"0 9 * * *"}},{misfire}"#)), expected);
        let of_delay = if policy == "skip" { expected } else { MisfirePolicy::FireOnce };
        assert_eq!(told(&format!(r#""schedule":{{"fixed_delay":"5m"}},{misfire}"#)), of_delay);
    }
}

#[test]
fn late_slots_stand_behind_a_catch_up_and_alone_without_one() {
    let (plan, misfire) = with("fire_all", r#","threshold":"5m""#);
    let slot = |minute: u64| at("2026-03-01T06:00:00Z").plus(Duration::from_secs(minute * 60));
    let found = owed(&plan, &misfire, Timestamp::MIN, slot(20), slot(20));
    let caught_up = Some(Range { first: slot(0), last: slot(10), count: 3 });
    let expected = Owed { catch_up: caught_up, ..due(&[slot(15), slot(20)]) };
    assert_eq!(found, expected);
    let row = Some(Range { first: slot(0), last: slot(20), count: 5 });
    assert_eq!(found.in_a_row(), Owed { catch_up: row, ..Owed::default() });
    assert_eq!(due(&[slot(15)]).in_a_row(), due(&[slot(15)]));
    let alone = Owed { catch_up: caught_up, ..Owed::default() };
    assert_eq!(alone.clone().in_a_row(), alone);
}
