//! One span, written straight into its protobuf: a tree of messages takes an allocation for each text in it, and is
//! measured anew at each of its levels.
//!
//! Invariant: what is written is what prost writes of the same span. No span ends before it begins, whatever the
//! clocks of the machines say that it spans.

use std::fmt::{self, Write as _};

use cronstream_schemas::trace::{SpanId, TraceContext};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::encoding::{encode_varint, encoded_len_varint};

use crate::encoded::{Encoded, SPANS_FIELD};
use crate::moment::Moment;
use crate::names;

/// The flag of W3C Trace Context that says that a trace is recorded.
const SAMPLED: u32 = 1;
/// The most bytes of a failure's message.
const MESSAGE_MAX_BYTES: usize = 1024;
/// As many bytes as a text has that is made here, mostly.
const SHOWN_BYTES: usize = 64;
/// How the value of a field is written: as a varint, as eight bytes, after its length, as four bytes.
const VARINT: u8 = 0;
const FIXED_64: u8 = 1;
const LENGTH: u8 = 2;
const FIXED_32: u8 = 5;

/// A span that is being written.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    bytes: &'a mut Vec<u8>,
    count: &'a mut usize,
    /// Where the span's own fields begin.
    from: usize,
    link: Option<(TraceContext, &'static str)>,
    failure: Option<(&'static str, &'a str)>,
    /// For texts that have to be made before their length is known.
    scratch: String,
}

/// What a span begins with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) at: TraceContext,
    pub(crate) parent: Option<SpanId>,
    pub(crate) start: Moment,
    pub(crate) end: Moment,
}

/// What kind of span it is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Internal,
    Producer,
    Consumer,
    Client,
}

const fn key(field: u8, kind: u8) -> u8 {
    field << 3 | kind
}

/// How long a field of so many bytes is.
const fn sized(length: usize) -> usize {
    1 + encoded_len_varint(length as u64) + length
}

impl<'a> Draft<'a> {
    /// Begins a span behind those that are there.
    pub(crate) fn new(spans: &'a mut Encoded, head: Head) -> Self {
        let Encoded { bytes, count } = spans;
        // Two bytes hold the length of nearly every span.
        bytes.extend_from_slice(&[SPANS_FIELD, 0, 0]);
        let from = bytes.len();
        let scratch = String::with_capacity(SHOWN_BYTES);
        let mut span = Self { bytes, count, from, link: None, failure: None, scratch };
        let Head { name, kind, at, parent, start, end } = head;
        span.field(1, &at.trace);
        span.field(2, &at.span.to_bytes());
        if let Some(parent) = parent {
            span.field(4, &parent.to_bytes());
        }
        span.field(5, name.as_bytes());
        let kind = match kind {
            Kind::Internal => SpanKind::Internal,
            Kind::Producer => SpanKind::Producer,
            Kind::Consumer => SpanKind::Consumer,
            Kind::Client => SpanKind::Client,
        };
        span.varint(6, kind as u64);
        span.fixed_64(7, start.nanos());
        span.fixed_64(8, end.max(start).nanos());
        span
    }

    pub(crate) const fn linked_to(mut self, to: TraceContext, what: &'static str) -> Self {
        self.link = Some((to, what));
        self
    }

    pub(crate) const fn failed(mut self, kind: &'static str, message: &'a str) -> Self {
        self.failure = Some((kind, message));
        self
    }

    pub(crate) fn text(mut self, name: &str, value: &str) -> Self {
        self.attribute(9, name, value.as_bytes());
        self
    }

    /// An attribute whose text its type writes.
    pub(crate) fn shown(mut self, name: &str, value: impl fmt::Display) -> Self {
        let mut text = std::mem::take(&mut self.scratch);
        text.clear();
        write!(text, "{value}").expect("a string grows");
        self.attribute(9, name, text.as_bytes());
        self.scratch = text;
        self
    }

    pub(crate) fn number(mut self, name: &str, value: impl TryInto<i64>) -> Self {
        let value = value.try_into().unwrap_or(i64::MAX).cast_unsigned();
        let any = 1 + encoded_len_varint(value);
        self.length(9, sized(name.len()) + sized(any));
        self.field(1, name.as_bytes());
        self.length(2, any);
        self.varint(3, value);
        self
    }

    /// Ends it.
    pub(crate) fn done(mut self) {
        if let Some((kind, _)) = self.failure {
            self.attribute(9, names::ERROR_TYPE, kind.as_bytes());
        }
        if let Some((to, what)) = self.link {
            let attribute = sized(names::LINK.len()) + sized(sized(what.len()));
            let flags = if to.sampled { 1 + size_of::<u32>() } else { 0 };
            let span = to.span.to_bytes();
            self.length(13, sized(to.trace.len()) + sized(span.len()) + sized(attribute) + flags);
            self.field(1, &to.trace);
            self.field(2, &span);
            self.attribute(4, names::LINK, what.as_bytes());
            if to.sampled {
                self.fixed_32(6, SAMPLED);
            }
        }
        if let Some((_, message)) = self.failure {
            let cut = &message[..message.floor_char_boundary(MESSAGE_MAX_BYTES)];
            let text = if cut.is_empty() { 0 } else { sized(cut.len()) };
            self.length(15, text + 2);
            if text > 0 {
                self.field(2, cut.as_bytes());
            }
            self.varint(3, StatusCode::Error as u64);
        }
        // The number of the field does not fit one byte.
        encode_varint(u64::from(16_u16 << 3 | u16::from(FIXED_32)), self.bytes);
        self.bytes.extend_from_slice(&SAMPLED.to_le_bytes());
        self.measure();
        *self.count += 1;
    }

    /// Writes the span's length where it belongs.
    fn measure(&mut self) {
        let length = self.bytes.len() - self.from;
        let mut written = [0_u8; 10];
        let width = encoded_len_varint(length as u64);
        encode_varint(length as u64, &mut written.as_mut_slice());
        let room = self.from - 2..self.from;
        if width == room.len() {
            self.bytes[room].copy_from_slice(&written[..width]);
        } else {
            self.bytes.splice(room, written[..width].iter().copied());
        }
    }

    fn attribute(&mut self, field: u8, name: &str, text: &[u8]) {
        let any = sized(text.len());
        self.length(field, sized(name.len()) + sized(any));
        self.field(1, name.as_bytes());
        self.length(2, any);
        self.field(1, text);
    }

    fn field(&mut self, field: u8, value: &[u8]) {
        self.length(field, value.len());
        self.bytes.extend_from_slice(value);
    }

    /// Begins a field of a length.
    fn length(&mut self, field: u8, length: usize) {
        self.bytes.push(key(field, LENGTH));
        self.put(length as u64);
    }

    fn varint(&mut self, field: u8, value: u64) {
        self.bytes.push(key(field, VARINT));
        self.put(value);
    }

    fn put(&mut self, value: u64) {
        match u8::try_from(value) {
            // Most of them.
            Ok(byte @ 0..=0x7f) => self.bytes.push(byte),
            Ok(_) | Err(_) => encode_varint(value, self.bytes),
        }
    }

    fn fixed_64(&mut self, field: u8, value: u64) {
        self.bytes.push(key(field, FIXED_64));
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    fn fixed_32(&mut self, field: u8, value: u32) {
        self.bytes.push(key(field, FIXED_32));
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use cronstream_schemas::id::{Incarnation, RunId, RunSeed};
    use cronstream_schemas::time::Timestamp;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
    use opentelemetry_proto::tonic::trace::v1::span::Link;
    use opentelemetry_proto::tonic::trace::v1::{Span, Status};
    use prost::Message as _;

    fn context(name: &str, sampled: bool) -> TraceContext {
        let job = "a/b".parse().unwrap();
        let run = RunId::derive(Timestamp::MIN, &job, Incarnation(1), RunSeed::Command(1));
        run.trace_context(name, sampled)
    }

    fn attribute(key: &str, value: Value) -> KeyValue {
        let value = Some(AnyValue { value: Some(value) });
        KeyValue { key: key.into(), value, ..KeyValue::default() }
    }

    fn text(key: &str, value: &str) -> KeyValue {
        attribute(key, Value::StringValue(value.into()))
    }

    fn head(parent: Option<&str>) -> Head {
        let parent = parent.map(|name| context(name, true).span);
        let (start, end) = (Moment::from_millis(2_000), Moment::from_millis(1_000));
        Head { name: "n", kind: Kind::Client, at: context("at", true), parent, start, end }
    }

    /// The span of [`head`], as it is written and as prost has it.
    fn expected(parent: Option<&str>, attributes: Vec<KeyValue>) -> Span {
        let parent = parent.map(|name| context(name, true).span.to_bytes().to_vec());
        Span {
            trace_id: context("at", true).trace.into(),
            span_id: context("at", true).span.to_bytes().into(),
            parent_span_id: parent.unwrap_or_default(),
            flags: SAMPLED,
            name: "n".into(),
            kind: SpanKind::Client.into(),
            start_time_unix_nano: 2_000_000_000,
            end_time_unix_nano: 2_000_000_000,
            attributes,
            ..Span::default()
        }
    }

    fn check(draft: impl FnOnce(Draft<'_>) -> Draft<'_>, parent: Option<&str>, expected: &Span) {
        let (mut ours, mut prosts) = (Encoded::default(), Encoded::default());
        draft(Draft::new(&mut ours, head(parent))).done();
        prosts.push(expected);
        assert_eq!(Span::decode_length_delimited(&ours.bytes[1..]).as_ref(), Ok(expected));
        assert_eq!(ours, prosts);
    }

    #[test]
    fn a_span_is_written_as_prost_writes_it() {
        check(|draft| draft, None, &expected(None, Vec::new()));
        for length in [0, 1, 100, 127, 128, 129, 16_000, 16_384, 70_000] {
            let long = "x".repeat(length);
            let span = expected(Some("p"), vec![text("k", &long)]);
            check(|draft| draft.text("k", &long), Some("p"), &span);
            check(|draft| draft.shown("k", &long), Some("p"), &span);
        }
        for (number, value) in [(0, 0), (127, 127), (128, 128), (u64::MAX, i64::MAX)] {
            let span = expected(None, vec![attribute("k", Value::IntValue(value))]);
            check(|draft| draft.number("k", number), None, &span);
        }
        let span = expected(None, vec![attribute("k", Value::IntValue(-1))]);
        check(|draft| draft.number("k", -1_i64), None, &span);
    }

    #[test]
    fn links_and_failures_are_written_as_prost_writes_them() {
        for (sampled, message) in [(true, "no"), (false, ""), (true, &*"é".repeat(1_000))] {
            let to = context("to", sampled);
            let attributes = vec![text("k", "v"), text(names::ERROR_TYPE, "timeout")];
            let cut: String = message.chars().take(MESSAGE_MAX_BYTES / 2).collect();
            let link = Link {
                trace_id: to.trace.into(),
                span_id: to.span.to_bytes().into(),
                attributes: vec![text(names::LINK, "trigger")],
                flags: u32::from(sampled),
                ..Link::default()
            };
            let status = Status { message: cut, code: StatusCode::Error.into() };
            let span = expected(None, attributes);
            let span = Span { links: vec![link], status: Some(status), ..span };
            let mut ours = Encoded::default();
            let begun = Draft::new(&mut ours, head(None));
            begun.linked_to(to, "trigger").failed("timeout", message).text("k", "v").done();
            let mut prosts = Encoded::default();
            prosts.push(&span);
            assert_eq!(ours, prosts, "{message}");
        }
    }
}
