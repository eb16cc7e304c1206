//! The name of every span and attribute; `docs/reference/traces.md` explains them.
//!
//! Invariant: no other file spells one, and a name that was shipped keeps its meaning.

/// Span: a slot, or the decision to fire again, until the order is stored.
pub const FIRE: &str = "fire";
/// Span: an order that waits in its queue.
pub const QUEUE_WAIT: &str = "queue wait";
/// Span: one start of a shard, until its outcome is stored.
pub const ATTEMPT: &str = "attempt";
/// Span: the task itself.
pub const HANDLER: &str = "handler";

/// The scope that our spans belong to.
pub const SCOPE: &str = "cronstream";

/// Resource: `cronstream-ticker` or `cronstream-executor`.
pub const SERVICE_NAME: &str = "service.name";
/// Resource: the version of the binary.
pub const SERVICE_VERSION: &str = "service.version";
/// Resource: the process.
pub const SERVICE_INSTANCE: &str = "service.instance.id";

/// The job, `<namespace>/<name>`.
pub const JOB: &str = "cronstream.job";
/// The run; its 32 hex digits are the trace id.
pub const RUN: &str = "cronstream.run";
/// The shard, from 0.
pub const SHARD: &str = "cronstream.shard";
/// Which fire of the shard it is, from 1.
pub const FIRE_NO: &str = "cronstream.fire_no";
/// Why the run exists: `slot` or `trigger`.
pub const CAUSE: &str = "cronstream.cause";
/// The slot, or the trigger's instant.
pub const SLOT: &str = "cronstream.slot";
/// Milliseconds from the slot until the order was stored.
pub const LATENESS_MS: &str = "cronstream.lateness_ms";
/// The revision.
pub const REVISION: &str = "cronstream.revision";
/// The leader's term.
pub const EPOCH: &str = "cronstream.epoch";
/// The partition.
pub const PARTITION: &str = "cronstream.partition";
/// The node that fired, ran or found it.
pub const NODE: &str = "cronstream.node";
/// The queue.
pub const QUEUE: &str = "cronstream.queue";
/// The task.
pub const TASK: &str = "cronstream.task";
/// Which start of the shard it is, from 1.
pub const ATTEMPT_NO: &str = "cronstream.attempt";
/// Which delivery of the fire it is, from 1.
pub const DELIVERY: &str = "cronstream.delivery";
/// How the attempt ended: the kind of the event that ended it, or `crashed`.
pub const OUTCOME: &str = "cronstream.outcome";
/// The fencing token.
pub const FENCING_TOKEN: &str = "cronstream.fencing_token";
/// How the task is run: `command`, `http`, `nats` or `function`.
pub const HANDLER_KIND: &str = "cronstream.handler";
/// What a link leads to: `previous attempt` or `trigger`.
pub const LINK: &str = "cronstream.link";

/// Semantic conventions: what kind of failure it was.
pub const ERROR_TYPE: &str = "error.type";
/// Semantic conventions: the broker.
pub const MESSAGING_SYSTEM: &str = "messaging.system";
/// Semantic conventions: what is done with the message.
pub const MESSAGING_OPERATION_NAME: &str = "messaging.operation.name";
/// Semantic conventions: `send` or `process`.
pub const MESSAGING_OPERATION_TYPE: &str = "messaging.operation.type";
/// Semantic conventions: the subject.
pub const MESSAGING_DESTINATION: &str = "messaging.destination.name";
/// Semantic conventions: the message id.
pub const MESSAGING_MESSAGE_ID: &str = "messaging.message.id";
/// Semantic conventions: the durable consumer.
pub const MESSAGING_CONSUMER_GROUP: &str = "messaging.consumer.group.name";
