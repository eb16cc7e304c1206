//! The producer's span: from the slot until the order is stored.
//!
//! Invariant: it is a function of the stored message and of the cursor that closed its batch, so that the leader
//! after a crashed one tells of the same span again.

use cronstream_schemas::event::{Cause, Fired};
use cronstream_schemas::id::{FireId, Partition, ShardId};
use cronstream_schemas::name::Name;
use cronstream_schemas::subject::Prefix;

use crate::encoded::Encoded;
use crate::moment::Moment;
use crate::names;
use crate::span::{Draft, Head, Kind};

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
    /// Writes its span; nothing where the run is not traced.
    pub fn write(&self, spans: &mut Encoded) {
        let fired = self.fired;
        let Some(at) = fired.traced() else { return };
        let first = fired.fire_no <= 1;
        let start = if first { fired.scheduled_at } else { fired.fired_at }.into();
        let lateness = self.stored.nanos().saturating_sub(Moment::from(fired.scheduled_at).nanos());
        let root = root(fired);
        let parent = (fired.id() != root).then(|| fired.run.span_id(root));
        let (kind, end) = (Kind::Producer, self.stored);
        let head = Head { name: names::FIRE, kind, at, parent, start, end };
        let mut span = Draft::new(spans, head)
            .text(names::MESSAGING_SYSTEM, "nats")
            .text(names::MESSAGING_OPERATION_NAME, "publish")
            .text(names::MESSAGING_OPERATION_TYPE, "send")
            .text(names::MESSAGING_DESTINATION, &self.prefix.fire(&fired.queue, &fired.job))
            .shown(names::MESSAGING_MESSAGE_ID, fired.id())
            .number(names::EPOCH, fired.epoch.0)
            .number(names::PARTITION, self.partition.0)
            .text(names::NODE, self.node.as_str());
        span = about(span, fired);
        if first {
            span = span.number(names::LATENESS_MS, lateness / 1_000_000);
        }
        if let (true, Cause::Trigger(trigger)) = (first, &fired.cause)
            && let Some(sender) = trigger.traceparent.as_ref().and_then(|text| text.parse().ok())
        {
            span = span.linked_to(sender, "trigger");
        }
        span.done();
    }
}

/// The order whose span all others of the run lie below.
const fn root(fired: &Fired) -> FireId {
    FireId { shard: ShardId { run: fired.run, shard: 0 }, fire_no: 1 }
}

/// What every span tells about its run.
pub(crate) fn named<'a>(span: Draft<'a>, fired: &Fired) -> Draft<'a> {
    span.shown(names::JOB, &fired.job).number(names::FIRE_NO, fired.fire_no)
}

/// What those tell beside it that others lie below.
pub(crate) fn about<'a>(span: Draft<'a>, fired: &Fired) -> Draft<'a> {
    let cause = match fired.cause {
        Cause::Slot(_) => "slot",
        Cause::Trigger(_) => "trigger",
        Cause::Backfill(_) => "backfill",
    };
    named(span, fired)
        .shown(names::RUN, fired.run)
        .number(names::SHARD, fired.shard)
        .shown(names::SLOT, fired.scheduled_at)
        .text(names::CAUSE, cause)
        .number(names::REVISION, fired.revision.0)
        .text(names::QUEUE, fired.queue.as_str())
        .text(names::TASK, fired.task.as_str())
}
