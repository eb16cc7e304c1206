//! The rules of `design.md` §3 and §4 that can be taken away, one at a time.
//!
//! Invariant: a model that keeps every rule never breaks a guarantee; one that lacks any of these does, and a
//! search finds it (`mutations.rs`).

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// A batch expects the sequence of the cursor before it.
    CursorExpectation,
    /// A batch is stored whole or not at all.
    AtomicBatch,
    /// A batch whose fate was unknown is sent again as it was.
    SameBatchAgain,
    /// Who hears that its takeover is stored leads only if no later cursor was folded meanwhile.
    LeadUnderOwnCursor,
    /// A takeover folds the log to the cursor.
    TakeoverFoldsLog,
    /// Who takes over decides once the log is read to its own first cursor: a fire may have come by itself before it.
    TakeoverReadsToOwnCursor,
    /// A fire that was sent by itself, with an unknown fate, is decided anew only behind another cursor.
    UnknownFireIsClosed,
    /// Slots whose fires may have come by themselves, and have vanished since, are not fired again.
    DoubtfulSlotsAreSkipped,
    /// A new leader reads commands from the cursor on.
    CommandsFromCursor,
    /// A command takes effect at its broker timestamp.
    CommandAtBrokerTime,
    /// No position moves beyond the broker's clock.
    ClockGuard,
    /// A batch that was refused for a known id, with the cursor unmoved, goes again without ids.
    IdsDroppedAfterDuplicate,
    /// Run events are folded once they are stored.
    RunEventsFoldWhenStored,
    /// A leader's terminal event expects the shard's last sequence.
    LeaderTerminalExpectation,
    /// A terminal event ends its shard whatever its fire number.
    TerminalWhateverFireNo,
    /// Dead letters are derived again at a takeover.
    DeadRederived,
    /// A dead letter expects sequence 0.
    DeadExpectsZero,
    /// A fire outlives its run's hard end.
    FireOutlivesRun,
    /// `Started` expects the sequence that was read.
    StartedExpectation,
    /// An outcome expects the attempt's own `Started`.
    OutcomeExpectation,
    /// A terminal event ends every delivery.
    TerminalEndsDelivery,
    /// An event of a later fire ends the delivery of an earlier one.
    LaterFireEndsDelivery,
    /// The failure of a fire ends its deliveries: its retry is a new fire.
    AttemptFailedEndsDelivery,
    /// A crash counts as an attempt.
    CrashesCount,
    /// The last attempt's failure is `Failed`.
    LastFailureIsFinal,
    /// No acknowledgement when another delivery's `Started` stands in the way of mine.
    NoAckForAnothersStart,
    /// No acknowledgement when another delivery's `Started` stands in the way of my outcome.
    NoAckForAnothersOutcome,
    /// The acknowledgement comes after the outcome.
    AckLast,
    /// A process that has a fire in hand drops a second delivery of it: the two could not be told apart.
    OneDeliveryInAProcess,
    /// "My own event" means the same executor instance.
    InstanceInComparison,
    /// A refused group of appends is sent again one by one.
    RefusedGroupSplits,
}

impl Rule {
    /// Every rule.
    pub(crate) const ALL: [Self; 31] = [
        Self::CursorExpectation,
        Self::AtomicBatch,
        Self::SameBatchAgain,
        Self::LeadUnderOwnCursor,
        Self::TakeoverFoldsLog,
        Self::TakeoverReadsToOwnCursor,
        Self::UnknownFireIsClosed,
        Self::DoubtfulSlotsAreSkipped,
        Self::CommandsFromCursor,
        Self::CommandAtBrokerTime,
        Self::ClockGuard,
        Self::IdsDroppedAfterDuplicate,
        Self::RunEventsFoldWhenStored,
        Self::LeaderTerminalExpectation,
        Self::TerminalWhateverFireNo,
        Self::DeadRederived,
        Self::DeadExpectsZero,
        Self::FireOutlivesRun,
        Self::StartedExpectation,
        Self::OutcomeExpectation,
        Self::TerminalEndsDelivery,
        Self::LaterFireEndsDelivery,
        Self::AttemptFailedEndsDelivery,
        Self::CrashesCount,
        Self::LastFailureIsFinal,
        Self::NoAckForAnothersStart,
        Self::NoAckForAnothersOutcome,
        Self::AckLast,
        Self::OneDeliveryInAProcess,
        Self::InstanceInComparison,
        Self::RefusedGroupSplits,
    ];
}
