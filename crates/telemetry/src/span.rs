//! One span in the making.
//!
//! Invariant: no span ends before it begins, whatever the clocks of the machines say that it spans.

use cronstream_schemas::trace::{SpanId, TraceContext};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};

use crate::moment::Moment;
use crate::names;

/// The flag of W3C Trace Context that says that a trace is recorded.
const SAMPLED: u32 = 1;
/// The most bytes of a failure's message.
const MESSAGE_MAX_BYTES: usize = 1024;

/// A span and what is known of it so far.
#[derive(Debug)]
pub(crate) struct Draft(Span);

/// What kind of span it is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Internal,
    Producer,
    Consumer,
    Client,
}

impl Draft {
    pub(crate) fn new(name: &str, at: TraceContext, (start, end): (Moment, Moment)) -> Self {
        Self(Span {
            trace_id: at.trace.to_vec(),
            span_id: at.span.to_bytes().to_vec(),
            flags: SAMPLED,
            name: name.to_owned(),
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: start.nanos(),
            end_time_unix_nano: end.max(start).nanos(),
            ..Span::default()
        })
    }

    pub(crate) fn kind(mut self, kind: Kind) -> Self {
        let kind = match kind {
            Kind::Internal => SpanKind::Internal,
            Kind::Producer => SpanKind::Producer,
            Kind::Consumer => SpanKind::Consumer,
            Kind::Client => SpanKind::Client,
        };
        self.0.kind = kind.into();
        self
    }

    pub(crate) fn child_of(mut self, parent: SpanId) -> Self {
        self.0.parent_span_id = parent.to_bytes().to_vec();
        self
    }

    pub(crate) fn linked_to(mut self, to: TraceContext, what: &str) -> Self {
        self.0.links.push(Link {
            trace_id: to.trace.to_vec(),
            span_id: to.span.to_bytes().to_vec(),
            attributes: vec![text(names::LINK, what)],
            flags: u32::from(to.sampled),
            ..Link::default()
        });
        self
    }

    pub(crate) fn text(mut self, key: &str, value: impl Into<String>) -> Self {
        self.0.attributes.push(text(key, value));
        self
    }

    pub(crate) fn number(mut self, key: &str, value: impl TryInto<i64>) -> Self {
        let value = value.try_into().unwrap_or(i64::MAX);
        self.0.attributes.push(attribute(key, Value::IntValue(value)));
        self
    }

    pub(crate) fn failed(mut self, kind: &str, message: &str) -> Self {
        let cut = &message[..message.floor_char_boundary(MESSAGE_MAX_BYTES)];
        self.0.status = Some(Status { message: cut.to_owned(), code: StatusCode::Error.into() });
        self.text(names::ERROR_TYPE, kind)
    }

    pub(crate) fn done(self) -> Span {
        self.0
    }
}

pub(crate) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}
