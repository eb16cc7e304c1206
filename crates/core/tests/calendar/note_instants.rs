//! What a note on a clock change says beside its words: when the slots run, and whether it is made at all.

use cronstream_core::schedule::{Cron, Note, NoteKind, Rules, Slots, Zone, clock_change_notes};
use cronstream_schemas::definition::{Fold, Gap};

use crate::{instant, show};

fn notes(expr: &str, zone: &str, rules: Rules, month: &str) -> Vec<Note> {
    let cron = Cron::parse(expr).unwrap();
    let slots =
        Slots { cron: &cron, zone: Zone::get(zone).unwrap(), rules, days: None, shift: None };
    let [from, through] = ["01", "28"].map(|day| instant(&format!("{month}-{day}T00:00:00Z")));
    clock_change_notes(&slots, from, through)
}

/// One note, and these are the first and the last instant of its slots.
#[track_caller]
fn check_due(expr: &str, rules: Rules, month: &str, expected: Option<(&str, &str)>) {
    let found = notes(expr, "America/New_York", rules, month);
    assert_eq!(found.len(), 1, "`{expr}`: {found:?}");
    let due = found[0].due_ms.map(|(first, last)| (show(first), show(last)));
    let expected = expected.map(|(first, last)| (first.to_owned(), last.to_owned()));
    assert_eq!(due, expected, "`{expr}` with {rules:?}");
}

#[test]
fn slots_of_a_fold_run_at_the_instants_of_the_choice() {
    let due = |expr, fold, first, last| {
        check_due(expr, Rules { gap: None, fold }, "2026-11", Some((first, last)));
    };
    due("30 1 * * *", None, "2026-11-01T05:30:00Z", "2026-11-01T05:30:00Z");
    let expr = "30,45 1 * * *";
    due(expr, Some(Fold::First), "2026-11-01T05:30:00Z", "2026-11-01T05:45:00Z");
    due(expr, Some(Fold::Last), "2026-11-01T06:30:00Z", "2026-11-01T06:45:00Z");
    due(expr, Some(Fold::Both), "2026-11-01T05:30:00Z", "2026-11-01T06:45:00Z");
}

#[test]
fn slots_of_a_gap_run_at_the_instants_of_the_choice() {
    let due = |gap, expected| {
        check_due("30,45 2 * * *", Rules { gap, fold: None }, "2026-03", expected);
    };
    let end = Some(("2026-03-08T07:00:00Z", "2026-03-08T07:00:00Z"));
    due(None, end);
    due(Some(Gap::End), end);
    due(Some(Gap::Skip), None);
    due(Some(Gap::Before), Some(("2026-03-08T07:30:00Z", "2026-03-08T07:45:00Z")));
}

#[test]
fn the_last_second_of_an_hour_is_told_with_its_seconds() {
    let found = notes("59 59 1 * * *", "America/New_York", Rules::default(), "2026-11");
    let words = "America/New_York goes from 02:00 back to 01:00 on 2026-11-01: \
                 01:59:59 comes twice and runs the first time only";
    assert_eq!(found.into_iter().map(|note| note.words).collect::<Vec<_>>(), [words]);
}

/// On Lord Howe the clock goes back by half an hour, so that minutes change places.
#[test]
fn a_job_that_follows_elapsed_time_is_told_of_a_change_that_disturbs_it() {
    let kinds = |expr, zone, month| {
        let found = notes(expr, zone, Rules::default(), month);
        found.into_iter().map(|note| (note.kind, note.slots)).collect::<Vec<_>>()
    };
    // As many in the half hour after as in the one that comes twice, but not the same; and the
    // same with one more.
    for expr in ["*/45 * * * *", "*/45,15 * * * *"] {
        let found = kinds(expr, "Australia/Lord_Howe", "2026-04");
        assert_eq!(found, [(NoteKind::Fold, 1)], "`{expr}`");
    }
    assert_eq!(kinds("*/15 * * * *", "Australia/Lord_Howe", "2026-04"), []);
    // A job of fixed times is told of a change that leaves one of elapsed time alone.
    assert_eq!(kinds("30 0-23 * * *", "America/New_York", "2026-11"), [(NoteKind::Fold, 1)]);
    assert_eq!(kinds("30 * * * *", "America/New_York", "2026-11"), []);
}
