//! The producer's span: from the slot until the order is stored.
//!
//! Invariant: it is a function of the stored message and of the cursor that closed its batch, so that the leader
//! after a crashed one tells of the same span again.

use cronstream_schemas::event::{Cause, Fired};
use cronstream_schemas::id::{FireId, Partition, ShardId};
use cronstream_schemas::name::Name;
use cronstream_schemas::subject::Prefix;
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::moment::Moment;
use crate::names;
use crate::span::{Draft, Kind};

/// An order, and where and by whom it was stored.
#[derive(Debug, Clone, Copy)]
pub struct StoredFire<'a> {
    /// The order.
    pub fired: &'a Fired,
    /// Its broker timestamp.
    pub stored: Moment,
    /// Its partition.
    pub partition: Partition,
    /// The leader.
    pub node: &'a Name,
    /// The installation's prefix.
    pub prefix: &'a Prefix,
}

impl StoredFire<'_> {
    /// Its span; `None` where the run is not traced.
    #[must_use]
    pub fn span(&self) -> Option<Span> {
        let fired = self.fired;
        let at = fired.traced()?;
        let first = fired.fire_no <= 1;
        let since = if first { fired.scheduled_at } else { fired.fired_at };
        let lateness = self.stored.nanos().saturating_sub(Moment::from(fired.scheduled_at).nanos());
        let id = fired.id().to_string();
        let mut span = Draft::new(names::FIRE, at, (since.into(), self.stored))
            .kind(Kind::Producer)
            .text(names::MESSAGING_SYSTEM, "nats")
            .text(names::MESSAGING_OPERATION_NAME, "publish")
            .text(names::MESSAGING_OPERATION_TYPE, "send")
            .text(names::MESSAGING_DESTINATION, self.prefix.fire(&fired.queue, &fired.job))
            .text(names::MESSAGING_MESSAGE_ID, id)
            .number(names::EPOCH, fired.epoch.0)
            .number(names::PARTITION, self.partition.0)
            .text(names::NODE, self.node.as_str());
        span = about(span, fired);
        if first {
            span = span.number(names::LATENESS_MS, lateness / 1_000_000);
        }
        if fired.id() != root(fired) {
            span = span.child_of(fired.run.span_id(&root(fired).to_string()));
        }
        if let (true, Cause::Trigger(trigger)) = (first, &fired.cause)
            && let Some(sender) = trigger.traceparent.as_ref().and_then(|text| text.parse().ok())
        {
            span = span.linked_to(sender, "trigger");
        }
        Some(span.done())
    }
}

/// The order whose span all others of the run lie below.
const fn root(fired: &Fired) -> FireId {
    FireId { shard: ShardId { run: fired.run, shard: 0 }, fire_no: 1 }
}

/// What every span tells about its run.
pub(crate) fn named(span: Draft, fired: &Fired) -> Draft {
    span.text(names::JOB, fired.job.to_string()).number(names::FIRE_NO, fired.fire_no)
}

/// What those tell beside it that others lie below.
pub(crate) fn about(span: Draft, fired: &Fired) -> Draft {
    let cause = match fired.cause {
        Cause::Slot(_) => "slot",
        Cause::Trigger(_) => "trigger",
        Cause::Backfill(_) => "backfill",
    };
    named(span, fired)
        .text(names::RUN, fired.run.to_string())
        .number(names::SHARD, fired.shard)
        .text(names::SLOT, fired.scheduled_at.to_string())
        .text(names::CAUSE, cause)
        .number(names::REVISION, fired.revision.0)
        .text(names::QUEUE, fired.queue.as_str())
        .text(names::TASK, fired.task.as_str())
}
