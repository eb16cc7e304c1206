//! The spans that a task makes with `tracing`, as children of its handler's span.
//!
//! Invariant: only spans below a traced handler are recorded: what else the program does is not ours to publish.

use cronstream_schemas::trace::TraceContext;
use opentelemetry::Context;
use opentelemetry::trace::{
    FutureExt as _, SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
    TracerProvider as _, WithContext,
};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter};
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

use crate::encoded::Encoded;
use crate::names;
use crate::queue::{Spans, SpansReceiver};

/// The spans of an executor's functions: a layer for the program's subscriber, and what the executor publishes of it.
#[derive(Debug)]
pub struct TaskSpans {
    spans: Spans,
    receiver: SpansReceiver,
}

/// Hands finished spans to the queue.
#[derive(Debug)]
struct Exporter(Spans);

impl Default for TaskSpans {
    fn default() -> Self {
        let (spans, receiver) = Spans::channel();
        Self { spans, receiver }
    }
}

impl TaskSpans {
    /// A layer that records the spans of tasks. Ending a span never waits.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + 'static + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let provider = SdkTracerProvider::builder()
            .with_simple_exporter(Exporter(self.spans.clone()))
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOff)))
            .build();
        tracing_opentelemetry::layer()
            .with_tracer(provider.tracer(names::SCOPE))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
    }

    /// The queue that the spans go through.
    #[must_use]
    pub fn into_channel(self) -> (Spans, SpansReceiver) {
        (self.spans, self.receiver)
    }
}

impl SpanExporter for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let mut spans = Encoded::default();
        batch.into_iter().for_each(|span| spans.push(&span.into()));
        self.0.record(&spans);
        Ok(())
    }
}

/// Runs a task's future so that its spans are children of the handler's.
pub fn in_handler<F: Future>(handler: TraceContext, work: F) -> WithContext<F> {
    let parent = SpanContext::new(
        TraceId::from_bytes(handler.trace),
        SpanId::from_bytes(handler.span.to_bytes()),
        if handler.sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED },
        true,
        TraceState::NONE,
    );
    work.with_context(Context::new().with_remote_span_context(parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    use opentelemetry_proto::tonic::trace::v1::ScopeSpans;
    use prost::Message as _;
    use tracing::Instrument as _;
    use tracing_subscriber::layer::SubscriberExt as _;

    use cronstream_schemas::id::{Incarnation, RunId, RunSeed};
    use cronstream_schemas::time::Timestamp;

    async fn work() {
        tracing::info_span!("inner").in_scope(|| ());
        tokio::task::yield_now().await;
    }

    #[tokio::test]
    async fn spans_below_a_traced_handler_are_its_children_and_others_are_not_recorded() {
        let run = RunId::derive(
            Timestamp::MIN,
            &"a/b".parse().unwrap(),
            Incarnation(1),
            RunSeed::Trigger("k"),
        );
        let task_spans = TaskSpans::default();
        let subscriber = tracing_subscriber::registry().with(task_spans.layer());
        let _guard = tracing::subscriber::set_default(subscriber);
        work().instrument(tracing::info_span!("not in a task")).await;
        let outer = || work().instrument(tracing::info_span!("outer"));
        in_handler(run.trace_context("handler", false), async { outer().await }).await;
        let handler = run.trace_context("handler", true);
        in_handler(handler, async { outer().await }).await;

        let (spans, mut receiver) = task_spans.into_channel();
        let found: Vec<Encoded> = receiver.take(usize::MAX);
        let found = found.iter().flat_map(|some| some.bytes.iter().copied()).collect::<Vec<_>>();
        let found = ScopeSpans::decode(found.as_slice()).unwrap().spans;
        let [inner, outer] = &found[..] else { panic!("{found:?}") };
        assert_eq!((inner.name.as_str(), outer.name.as_str()), ("inner", "outer"));
        assert_eq!(outer.trace_id, run.trace_id());
        assert_eq!(outer.parent_span_id, handler.span.to_bytes());
        assert_eq!(inner.parent_span_id, outer.span_id);
        assert_eq!(spans.counters().dropped, 0);
    }
}
