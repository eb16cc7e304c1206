//! The consumer's spans: the wait in the queue, the attempt, and the task in it.
//!
//! Invariant: they are made when the attempt is over, all at once, by its executor, or by whoever finds that its
//! executor has crashed: an attempt is told of whole or by somebody else.

use cronstream_schemas::event::{Failure, FailureKind, Fired, Place, RunEvent};
use cronstream_schemas::name::Name;
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::trace::TraceContext;
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::fire::{about, named};
use crate::moment::Moment;
use crate::names;
use crate::span::{Draft, Kind};

/// How a task is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandlerKind {
    /// A process.
    Command,
    /// An HTTP request.
    Http,
    /// A NATS request.
    Nats,
    /// A function of the executor's program.
    Function,
}

/// When a task ran.
#[derive(Debug, Clone, Copy)]
pub struct HandlerTimes {
    /// How it was run.
    pub kind: HandlerKind,
    /// When it began.
    pub started: Moment,
    /// When it ended, or was found to have.
    pub ended: Moment,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy)]
pub enum Outcome<'a> {
    /// By this event.
    Event(&'a RunEvent),
    /// Its executor was lost.
    Crashed,
}

/// An attempt that is over.
#[derive(Debug, Clone, Copy)]
pub struct AttemptSpans<'a> {
    /// The order.
    pub fired: &'a Fired,
    /// The installation's prefix.
    pub prefix: &'a Prefix,
    /// Where it stood.
    pub place: Place,
    /// Whose it was.
    pub node: &'a Name,
    /// The attempt before it.
    pub previous: Option<Place>,
    /// Since when the order had waited; absent where it was taken up at once from a crashed executor.
    pub waited_since: Option<Moment>,
    /// When its start was stored.
    pub started: Moment,
    /// When its end was stored, or it was found to have crashed.
    pub ended: Moment,
    /// Its task.
    pub handler: HandlerTimes,
    /// Its fencing token.
    pub token: u64,
    /// How it ended.
    pub outcome: Outcome<'a>,
}

/// The place of the task's span, which is handed to the task.
#[must_use]
pub fn handler_context(fired: &Fired, place: Place) -> TraceContext {
    context("handler", fired, place)
}

fn context(what: &str, fired: &Fired, place: Place) -> TraceContext {
    let Place { fire_no, delivery, .. } = place;
    let name = format!("{what}.{}.{fire_no}.{delivery}", fired.shard);
    fired.run.trace_context(&name, fired.is_traced())
}

impl HandlerKind {
    /// The kind, as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Http => "http",
            Self::Nats => "nats",
            Self::Function => "function",
        }
    }

    const fn span_kind(self) -> Kind {
        match self {
            Self::Command | Self::Function => Kind::Internal,
            Self::Http | Self::Nats => Kind::Client,
        }
    }
}

impl<'a> Outcome<'a> {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Event(event) => event.kind(),
            Self::Crashed => "crashed",
        }
    }

    /// What went wrong: its kind and in words.
    fn failure(self) -> Option<(&'static str, &'a str)> {
        match self {
            Self::Crashed => Some(("crashed", "the executor was lost")),
            Self::Event(RunEvent::AttemptFailed(event)) => Some(words(&event.failure)),
            Self::Event(RunEvent::Failed(event)) => Some(words(&event.failure)),
            Self::Event(RunEvent::Expired(_)) => Some(("expired", "nothing started it in time")),
            Self::Event(RunEvent::Cancelled(_)) => Some(("cancelled", "a cancel ended it")),
            Self::Event(RunEvent::Lost(_)) => Some(("lost", "its hard end has passed")),
            Self::Event(
                RunEvent::Started(_) | RunEvent::Interrupted(_) | RunEvent::Succeeded(_),
            ) => None,
        }
    }
}

fn words(failure: &Failure) -> (&'static str, &str) {
    let kind = match failure.kind {
        FailureKind::Error => "error",
        FailureKind::Timeout => "timeout",
        FailureKind::Crashed => "crashed",
    };
    (kind, &failure.message)
}

impl AttemptSpans<'_> {
    /// The spans, the attempt's last.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        let wait = self.waited_since.map(|since| self.wait(since));
        wait.into_iter().chain([self.handler(), self.attempt()]).collect()
    }

    fn wait(&self, since: Moment) -> Span {
        let at = context("wait", self.fired, self.place);
        let span = Draft::new(names::QUEUE_WAIT, at, (since, self.started));
        self.numbered(named(self.below_fire(span), self.fired)).done()
    }

    fn attempt(&self) -> Span {
        let fired = self.fired;
        let at = context("attempt", fired, self.place);
        let span = Draft::new(names::ATTEMPT, at, (self.started, self.ended)).kind(Kind::Consumer);
        let mut span = self
            .numbered(about(self.below_fire(span), fired))
            .text(names::MESSAGING_SYSTEM, "nats")
            .text(names::MESSAGING_OPERATION_NAME, "process")
            .text(names::MESSAGING_OPERATION_TYPE, "process")
            .text(names::MESSAGING_DESTINATION, self.prefix.fire(&fired.queue, &fired.job))
            .text(names::MESSAGING_CONSUMER_GROUP, fired.queue.as_str())
            .text(names::MESSAGING_MESSAGE_ID, fired.id().to_string())
            .number(names::FENCING_TOKEN, self.token)
            .text(names::OUTCOME, self.outcome.as_str());
        if let Some(previous) = self.previous {
            span = span.linked_to(context("attempt", fired, previous), "previous attempt");
        }
        self.judged(span).done()
    }

    fn handler(&self) -> Span {
        let HandlerTimes { kind, started, ended } = self.handler;
        let span =
            Draft::new(names::HANDLER, handler_context(self.fired, self.place), (started, ended))
                .kind(kind.span_kind())
                .child_of(context("attempt", self.fired, self.place).span)
                .text(names::HANDLER_KIND, kind.as_str());
        self.judged(self.numbered(named(span, self.fired))).done()
    }

    fn below_fire(&self, span: Draft) -> Draft {
        match self.fired.traced() {
            Some(fire) => span.child_of(fire.span),
            None => span,
        }
    }

    fn numbered(&self, span: Draft) -> Draft {
        span.number(names::ATTEMPT_NO, self.place.attempt)
            .number(names::DELIVERY, self.place.delivery)
            .text(names::NODE, self.node.as_str())
    }

    fn judged(&self, span: Draft) -> Draft {
        match self.outcome.failure() {
            Some((kind, message)) => span.failed(kind, message),
            None => span,
        }
    }
}
