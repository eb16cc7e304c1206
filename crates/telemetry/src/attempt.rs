//! The consumer's spans: the wait in the queue, the attempt, and the task in it.
//!
//! Invariant: they are made when the attempt is over, all at once, by its executor, or by whoever finds that its
//! executor has crashed: an attempt is told of whole or by somebody else.

use cronstream_schemas::event::{Failure, FailureKind, Fired, Place, RunEvent};
use cronstream_schemas::name::Name;
use cronstream_schemas::trace::{SpanId, TraceContext};

use crate::encoded::Encoded;
use crate::fire::{about, named};
use crate::moment::Moment;
use crate::names;
use crate::span::{Draft, Head, Kind};

/// About as many bytes as the spans of an attempt have.
const ABOUT_BYTES: usize = 2_048;

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
    /// The span of the order.
    pub fire: SpanId,
    /// The subject that it came on.
    pub subject: &'a str,
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
pub fn handler_context(fired: &Fired, place: Place, sampled: bool) -> TraceContext {
    context("handler", fired, place, sampled)
}

fn context(what: &str, fired: &Fired, place: Place, sampled: bool) -> TraceContext {
    let Place { fire_no, delivery, .. } = place;
    let name = format_args!("{what}.{}.{fire_no}.{delivery}", fired.shard);
    fired.run.trace_context(name, sampled)
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

impl<'a> AttemptSpans<'a> {
    /// The spans, the attempt's last.
    #[must_use]
    pub fn write(&self) -> Encoded {
        let mut spans = Encoded::with_capacity(ABOUT_BYTES);
        let attempt = self.place_of("attempt", self.place);
        if let Some(since) = self.waited_since {
            self.write_wait(&mut spans, since);
        }
        self.write_handler(&mut spans, attempt.span);
        self.write_attempt(&mut spans, attempt);
        spans
    }

    fn write_wait(&self, spans: &mut Encoded, start: Moment) {
        let (at, parent) = (self.place_of("wait", self.place), Some(self.fire));
        let (name, kind, end) = (names::QUEUE_WAIT, Kind::Internal, self.started);
        let span = Draft::new(spans, Head { name, kind, at, parent, start, end });
        self.numbered(named(span, self.fired)).done();
    }

    fn write_attempt(&self, spans: &mut Encoded, at: TraceContext) {
        let (fired, parent) = (self.fired, Some(self.fire));
        let (name, kind) = (names::ATTEMPT, Kind::Consumer);
        let (start, end) = (self.started, self.ended);
        let span = Draft::new(spans, Head { name, kind, at, parent, start, end });
        let mut span = self
            .numbered(about(span, fired))
            .text(names::MESSAGING_SYSTEM, "nats")
            .text(names::MESSAGING_OPERATION_NAME, "process")
            .text(names::MESSAGING_OPERATION_TYPE, "process")
            .text(names::MESSAGING_DESTINATION, self.subject)
            .text(names::MESSAGING_CONSUMER_GROUP, fired.queue.as_str())
            .shown(names::MESSAGING_MESSAGE_ID, fired.id())
            .number(names::FENCING_TOKEN, self.token)
            .text(names::OUTCOME, self.outcome.as_str());
        if let Some(previous) = self.previous {
            span = span.linked_to(self.place_of("attempt", previous), "previous attempt");
        }
        self.judged(span).done();
    }

    fn write_handler(&self, spans: &mut Encoded, attempt: SpanId) {
        let HandlerTimes { kind: how, started: start, ended: end } = self.handler;
        let (at, parent) = (handler_context(self.fired, self.place, true), Some(attempt));
        let (name, kind) = (names::HANDLER, how.span_kind());
        let span = Draft::new(spans, Head { name, kind, at, parent, start, end })
            .text(names::HANDLER_KIND, how.as_str());
        self.judged(self.numbered(named(span, self.fired))).done();
    }

    fn place_of(&self, what: &str, place: Place) -> TraceContext {
        context(what, self.fired, place, true)
    }

    fn numbered<'b>(&self, span: Draft<'b>) -> Draft<'b> {
        span.number(names::ATTEMPT_NO, self.place.attempt)
            .number(names::DELIVERY, self.place.delivery)
            .text(names::NODE, self.node.as_str())
    }

    fn judged<'b>(&self, span: Draft<'b>) -> Draft<'b>
    where
        'a: 'b,
    {
        match self.outcome.failure() {
            Some((kind, message)) => span.failed(kind, message),
            None => span,
        }
    }
}
