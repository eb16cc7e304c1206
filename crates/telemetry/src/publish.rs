//! From the queue to CRON_TRACES, in batches.
//!
//! Invariant: a batch that the broker does not take after a few tries is dropped and counted: spans are no record.

use std::time::Duration;

use bytes::Bytes;
use cronstream_bus::{AppendAnswer, Bus};
use cronstream_schemas::id::Instance;
use futures::{StreamExt, stream};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use prost::{Message as _, encode_length_delimiter, length_delimiter_len};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::encoded::{BATCH_SPANS, Encoded, batches};
use crate::names;
use crate::queue::{Spans, SpansReceiver};

/// How long the spans that wait at the end may take to leave.
pub const FLUSH_WITHIN: Duration = Duration::from_millis(700);
/// What stands before a field of a message in protobuf: its number and that its length follows. The `resource_spans` of
/// a request are field 1, the `scope_spans` of those field 2.
const FIELD_1: u8 = 1 << 3 | 2;
const FIELD_2: u8 = 2 << 3 | 2;
/// How long a span waits for company: as long as what a crash loses.
const GATHER: Duration = Duration::from_millis(250);
/// Spans that are gathered, at most, beside those of the entry that is too much.
const GATHER_SPANS: usize = 8 * BATCH_SPANS;
/// Batches out at a time.
const BATCHES_IN_FLIGHT: usize = 4;
/// How often a batch is sent.
const TRIES: u32 = 4;
/// How long it waits before it is sent again, longer each time.
const TRY_PAUSE: Duration = Duration::from_millis(250);

/// Whose spans they are.
#[derive(Debug, Clone, Copy)]
pub enum Service {
    /// A ticker's. Its spans name the node themselves: the leader after it may have to tell of them again.
    Ticker,
    /// An executor's.
    Executor {
        /// The process.
        instance: Instance,
    },
}

/// The task that publishes.
#[derive(Debug)]
pub struct Publisher {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Outlet {
    bus: Bus,
    subject: String,
    /// A `ResourceSpans` without its spans.
    resource: Vec<u8>,
    /// A `ScopeSpans` without its spans.
    scope: Vec<u8>,
    spans: Spans,
}

impl Service {
    /// The last token of its subject.
    const fn token(self) -> &'static str {
        match self {
            Self::Ticker => "ticker",
            Self::Executor { .. } => "executor",
        }
    }

    fn resource(self) -> Vec<u8> {
        let name = format!("{}-{}", names::SCOPE, self.token());
        let mut attributes = vec![
            text(names::SERVICE_NAME, name),
            text(names::SERVICE_VERSION, env!("CARGO_PKG_VERSION")),
        ];
        if let Self::Executor { instance } = self {
            attributes.push(text(names::SERVICE_INSTANCE, instance.to_string()));
        }
        let resource = Some(Resource { attributes, ..Resource::default() });
        ResourceSpans { resource, ..ResourceSpans::default() }.encode_to_vec()
    }
}

impl Publisher {
    /// Starts to publish what comes out of a queue.
    #[must_use]
    pub fn start(bus: Bus, service: Service, spans: Spans, receiver: SpansReceiver) -> Self {
        let stop = CancellationToken::new();
        let subject = bus.names().prefix().trace(service.token());
        let (resource, scope) = (service.resource(), scope());
        let outlet = Outlet { bus, subject, resource, scope, spans };
        let task = tokio::spawn(outlet.run(receiver, stop.clone()));
        Self { stop, task }
    }

    /// Sends what waits and ends, within [`FLUSH_WITHIN`].
    pub async fn stop(mut self) {
        self.stop.cancel();
        if tokio::time::timeout(FLUSH_WITHIN, &mut self.task).await.is_err() {
            self.task.abort();
            tracing::warn!("the last spans were not stored in time and are lost");
        }
    }
}

impl Outlet {
    async fn run(self, mut receiver: SpansReceiver, stop: CancellationToken) {
        let mut losing = false;
        loop {
            tokio::select! {
                () = receiver.wait(1) => {}
                () = stop.cancelled() => {}
            }
            tokio::select! {
                () = receiver.wait(BATCH_SPANS) => {}
                () = tokio::time::sleep(GATHER) => {}
                () = stop.cancelled() => {}
            }
            let spans = receiver.take(GATHER_SPANS);
            if spans.is_empty() && stop.is_cancelled() {
                return;
            }
            let batches = batches(spans);
            let lost = self.publish(&batches).await;
            receiver.give_back(batches);
            if lost > 0 && !losing {
                tracing::warn!(lost, subject = self.subject, "the broker takes no spans: lost");
            }
            losing = lost > 0;
        }
    }

    /// Stores spans and returns how many were lost.
    async fn publish(&self, batches: &[Encoded]) -> usize {
        let sends: Vec<_> = batches.iter().map(|batch| self.publish_one(batch)).collect();
        let lost = stream::iter(sends).buffer_unordered(BATCHES_IN_FLIGHT);
        lost.fold(0, async |sum, lost| sum + lost).await
    }

    async fn publish_one(&self, batch: &Encoded) -> usize {
        let count = batch.count();
        if self.store(batch).await {
            self.spans.published(count);
            0
        } else {
            self.spans.dropped(count);
            count
        }
    }

    async fn store(&self, spans: &Encoded) -> bool {
        let body = Bytes::from(request(&self.resource, &self.scope, &spans.bytes));
        for n in 1..=TRIES {
            match self.bus.append_any(&self.subject, body.clone()).await {
                Ok(AppendAnswer::Stored { .. }) => return true,
                Ok(AppendAnswer::Unknown | AppendAnswer::Retry { .. }) if n < TRIES => {
                    tokio::time::sleep(TRY_PAUSE * n).await;
                }
                answer => {
                    tracing::debug!(subject = self.subject, ?answer, "spans not stored");
                    return false;
                }
            }
        }
        false
    }
}

fn text(key: &str, value: impl Into<String>) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.into())) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

/// A `ScopeSpans` without spans.
fn scope() -> Vec<u8> {
    let scope = InstrumentationScope {
        name: names::SCOPE.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..InstrumentationScope::default()
    };
    ScopeSpans { scope: Some(scope), ..ScopeSpans::default() }.encode_to_vec()
}

/// An `ExportTraceServiceRequest`: in protobuf, the fields of a message follow each other.
fn request(resource: &[u8], scope: &[u8], spans: &[u8]) -> Vec<u8> {
    let scope_spans = scope.len() + spans.len();
    let resource_spans = resource.len() + 1 + length_delimiter_len(scope_spans) + scope_spans;
    let mut body = Vec::with_capacity(1 + length_delimiter_len(resource_spans) + resource_spans);
    field(FIELD_1, resource_spans, &mut body);
    body.extend_from_slice(resource);
    field(FIELD_2, scope_spans, &mut body);
    body.extend_from_slice(scope);
    body.extend_from_slice(spans);
    body
}

/// Begins a field of a length.
fn field(key: u8, length: usize, body: &mut Vec<u8>) {
    body.push(key);
    encode_length_delimiter(length, body).expect("a vector grows");
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::trace::v1::Span;

    use super::*;

    #[test]
    fn a_batch_is_a_request_as_opentelemetry_defines_it() {
        let named = |name: &str| Span { name: name.into(), ..Span::default() };
        let spans = [named("a"), Span { attributes: vec![text("a", "b")], ..named("b") }];
        let mut encoded = Encoded::default();
        spans.iter().for_each(|span| encoded.push(span));
        let service = Service::Executor { instance: Instance(uuid::Uuid::from_u128(7)) };
        let body = request(&service.resource(), &scope(), &encoded.bytes);
        let mut read = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
        assert_eq!(read.encode_to_vec(), body);
        let mut of_resource = read.resource_spans.remove(0);
        assert_eq!(of_resource.resource.unwrap().attributes.len(), 3);
        let of_scope = of_resource.scope_spans.remove(0);
        assert_eq!(of_scope.scope.unwrap().name, names::SCOPE);
        assert_eq!(of_scope.spans, spans);
        assert!(read.resource_spans.is_empty() && of_resource.scope_spans.is_empty());
    }
}
