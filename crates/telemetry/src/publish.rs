//! From the queue to CRON_TRACES, in batches.
//!
//! Invariant: a batch that the broker does not take after a few tries is dropped and counted: spans are no record.

use std::time::Duration;

use bytes::Bytes;
use cronstream_bus::{AppendAnswer, Bus};
use cronstream_schemas::id::Instance;
use futures::{StreamExt, stream};
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::{Message as _, encode_length_delimiter, length_delimiter_len};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::names;
use crate::queue::{Spans, SpansReceiver};
use crate::span::text;

/// How long the spans that wait at the end may take to leave.
pub const FLUSH_WITHIN: Duration = Duration::from_millis(700);
/// Spans in a batch, at most.
const BATCH_SPANS: usize = 512;
/// Bytes of a batch's spans, at most.
const BATCH_BYTES: usize = 512 * 1024;
/// What stands before a field of a message in protobuf: its number and that its length follows. The `resource_spans` of
/// a request are field 1; the `scope_spans` of those, and the `spans` of these, are field 2.
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

/// Spans of one message, as the fields that they are in it.
#[derive(Debug, Default)]
struct Encoded {
    bytes: Vec<u8>,
    count: usize,
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
            let first = tokio::select! {
                biased;
                first = receiver.next() => first,
                () = stop.cancelled() => None,
            };
            let Some(mut spans) = first else { return };
            tokio::select! {
                () = gather(&mut receiver, &mut spans) => {}
                () = tokio::time::sleep(GATHER) => {}
                () = stop.cancelled() => {}
            }
            while spans.len() < GATHER_SPANS
                && let Some(more) = receiver.next_now()
            {
                spans.extend(more);
            }
            let lost = self.publish(spans).await;
            if lost > 0 && !losing {
                tracing::warn!(lost, subject = self.subject, "the broker takes no spans: lost");
            }
            losing = lost > 0;
        }
    }

    /// Stores spans and returns how many were lost.
    async fn publish(&self, spans: Vec<Span>) -> usize {
        let lost = stream::iter(batches(spans))
            .map(async |batch| {
                let count = batch.count;
                if self.store(batch).await {
                    self.spans.published(count);
                    0
                } else {
                    self.spans.dropped(count);
                    count
                }
            })
            .buffer_unordered(BATCHES_IN_FLIGHT);
        lost.fold(0, async |sum, lost| sum + lost).await
    }

    async fn store(&self, spans: Encoded) -> bool {
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

async fn gather(receiver: &mut SpansReceiver, spans: &mut Vec<Span>) {
    while spans.len() < BATCH_SPANS {
        match receiver.next().await {
            Some(more) => spans.extend(more),
            None => return,
        }
    }
}

/// Cuts spans into batches; one that is too large by itself makes a batch of its own, which the broker judges. Each
/// span is encoded here and once: a tree of messages is measured anew at each of its levels.
fn batches(spans: Vec<Span>) -> Vec<Encoded> {
    let mut batches: Vec<Encoded> = Vec::new();
    let mut one = Vec::new();
    for span in spans {
        one.clear();
        one.push(FIELD_2);
        span.encode_length_delimited(&mut one).expect("a vector grows");
        match batches.last_mut() {
            Some(batch)
                if batch.count < BATCH_SPANS && batch.bytes.len() + one.len() <= BATCH_BYTES =>
            {
                batch.bytes.extend_from_slice(&one);
                batch.count += 1;
            }
            Some(_) | None => batches.push(Encoded { bytes: one.clone(), count: 1 }),
        }
    }
    batches
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

    use super::*;

    fn span(bytes: usize) -> Span {
        Span { name: "x".repeat(bytes), ..Span::default() }
    }

    #[test]
    fn a_batch_is_bounded_in_spans_and_bytes() {
        let sizes =
            |spans: Vec<Span>| batches(spans).iter().map(|batch| batch.count).collect::<Vec<_>>();
        assert_eq!(sizes(Vec::new()), Vec::<usize>::new());
        assert_eq!(sizes(vec![span(1); 2 * BATCH_SPANS + 1]), [BATCH_SPANS, BATCH_SPANS, 1]);
        assert_eq!(sizes(vec![span(BATCH_BYTES / 4); 5]), [3, 2]);
        assert_eq!(sizes(vec![span(1), span(2 * BATCH_BYTES), span(1)]), [1, 1, 1]);
    }

    #[test]
    fn a_batch_is_a_request_as_opentelemetry_defines_it() {
        let spans = vec![span(1), span(300), Span { attributes: vec![text("a", "b")], ..span(0) }];
        let service = Service::Executor { instance: Instance(uuid::Uuid::from_u128(7)) };
        let batch = batches(spans.clone()).remove(0);
        let body = request(&service.resource(), &scope(), &batch.bytes);
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
