//! The simulation: the core and the executor's five steps against a model of the streams, under every fault.
//!
//! Two drivers make the moves of one [`world`]: seeds draw them ([`seeds`]), a search makes all of them
//! ([`search`]). Each stored message is checked against the guarantees of `design.md` §6 ([`checker`]); at its
//! end a run must come to rest with everything done ([`rest`]). Each rule of `design.md` §3–4 can be taken away
//! ([`rule`]), and must be missed ([`mutations`]).

#![expect(clippy::panic, reason = "a test fails by panicking")]

mod appends;
mod checker;
mod executor;
mod folds;
mod history;
mod mutations;
mod queue;
mod rest;
mod rng;
mod rule;
mod run_order;
mod search;
mod seeds;
mod settle;
mod slots;
mod store;
mod ticker;
mod transcript;
mod vanished;
mod world;

use cronstream_schemas::event::{LogEvent, RunEvent, SkipReason};

use crate::search::Scope;

/// The most worlds that one search visits.
const WORLDS_MAX: usize = 1_000_000;

/// How many seeds a test run has.
const SEEDS: u64 = 2_000;

#[test]
fn no_seed_breaks_a_guarantee() {
    #[expect(clippy::disallowed_methods, reason = "the one setting of this test, read once")]
    let asked = std::env::var("CRONSTREAM_SEED").ok();
    let seeds = asked.as_deref().map_or(0..SEEDS, |text| {
        let number = |text: &str| text.parse().expect("CRONSTREAM_SEED is N or N..M");
        let (from, to) = text.split_once("..").unwrap_or((text, ""));
        number(from)..if to.is_empty() { number(from) + 1 } else { number(to) }
    });
    match seeds::run_all(seeds, None) {
        Err((seed, failed)) => panic!("CRONSTREAM_SEED={seed}: {}", failed.tell()),
        Ok(seen) if asked.is_none() => {
            let backlogs = [SkipReason::JobBacklog, SkipReason::PartitionBacklog];
            let kinds = LogEvent::KINDS.into_iter().chain(RunEvent::KINDS);
            let kinds = kinds.chain(backlogs.map(SkipReason::as_str));
            // Settings are no ticker's; calendars are in the cases of `partition`.
            let ours = |kind: &&str| *kind != "meta" && !kind.starts_with("calendar");
            let missing: Vec<_> = kinds.filter(ours).filter(|kind| !seen.contains(kind)).collect();
            assert!(missing.is_empty(), "inconclusive: no {missing:?} in {SEEDS} seeds");
        }
        Ok(_) => {}
    }
}

fn visit_all(scope: Scope) {
    let outcome = search::explore(&scope.begin(None), WORLDS_MAX);
    if let Some(failed) = outcome.failed {
        panic!("{scope:?}: {}", failed.tell());
    }
    assert!(!outcome.cut, "{scope:?} has more than {} worlds", outcome.worlds);
}

#[test]
fn no_order_of_two_leaders_turns_breaks_a_guarantee() {
    visit_all(Scope::Ticks);
}

#[test]
fn no_order_of_fires_by_themselves_breaks_a_guarantee() {
    visit_all(Scope::Alone);
}

#[test]
fn no_order_of_vanished_fires_breaks_a_guarantee() {
    visit_all(Scope::Doubt);
}

#[test]
fn no_order_of_late_answers_breaks_a_guarantee() {
    visit_all(Scope::Late);
}

#[test]
fn no_order_of_two_executors_steps_breaks_a_guarantee() {
    visit_all(Scope::Runs);
}

#[test]
fn no_order_of_retries_breaks_a_guarantee() {
    visit_all(Scope::Retries);
}

#[test]
fn no_order_of_ends_breaks_a_guarantee() {
    visit_all(Scope::Ends);
}

#[test]
fn no_order_of_two_leaders_and_two_executors_breaks_a_guarantee() {
    visit_all(Scope::Whole);
}
