//! Taking a rule away: each must be missed by the driver that guards it.
//!
//! Invariant: the match over [`Rule`] is total, so a rule without a guard does not compile.

use crate::rule::Rule;
use crate::search::{Scope, explore};
use crate::seeds;

/// By how many worlds, or seeds, a missing rule must have done harm.
const WORLDS_MAX: usize = 500_000;
const SEEDS_MAX: u64 = 3_000;

/// What finds the harm.
#[derive(Debug, Clone, Copy)]
enum Guard {
    /// The exhaustive search of a scope.
    Search(Scope),
    /// Seeded runs: the fault needs more than a small scope has.
    Seeds,
}

const fn guard(rule: Rule) -> Guard {
    match rule {
        Rule::CursorExpectation
        | Rule::AtomicBatch
        | Rule::SameBatchAgain
        | Rule::TakeoverFoldsLog
        | Rule::CommandsFromCursor => Guard::Search(Scope::Ticks),
        Rule::DeadExpectsZero
        | Rule::StartedExpectation
        | Rule::NoAckForAnothersStart
        | Rule::NoAckForAnothersOutcome
        | Rule::InstanceInComparison
        | Rule::OneDeliveryInAProcess => Guard::Search(Scope::Runs),
        Rule::FireOutlivesRun
        | Rule::OutcomeExpectation
        | Rule::TerminalEndsDelivery
        | Rule::LaterFireEndsDelivery
        | Rule::AttemptFailedEndsDelivery
        | Rule::CrashesCount
        | Rule::LastFailureIsFinal
        | Rule::AckLast => Guard::Search(Scope::Retries),
        Rule::LeaderTerminalExpectation | Rule::TerminalWhateverFireNo => {
            Guard::Search(Scope::Ends)
        }
        Rule::LeadUnderOwnCursor => Guard::Search(Scope::Late),
        Rule::DoubtfulSlotsAreSkipped => Guard::Search(Scope::Doubt),
        Rule::TakeoverReadsToOwnCursor | Rule::UnknownFireIsClosed => Guard::Search(Scope::Alone),
        Rule::DeadRederived => Guard::Search(Scope::Whole),
        Rule::CommandAtBrokerTime
        | Rule::ClockGuard
        | Rule::RunEventsFoldWhenStored
        | Rule::IdsDroppedAfterDuplicate
        | Rule::RefusedGroupSplits => Guard::Seeds,
    }
}

fn harm(rule: Rule) -> Option<String> {
    match guard(rule) {
        Guard::Search(scope) => {
            explore(&scope.begin(Some(rule)), WORLDS_MAX).failed.map(|failed| failed.broken)
        }
        Guard::Seeds => {
            seeds::run_all(0..SEEDS_MAX, Some(rule)).err().map(|(_, failed)| failed.broken)
        }
    }
}

#[test]
fn taking_away_any_rule_breaks_a_guarantee() {
    for rule in Rule::ALL {
        assert!(harm(rule).is_some(), "{:?} does not miss {rule:?}", guard(rule));
    }
}
