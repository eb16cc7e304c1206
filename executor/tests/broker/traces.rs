//! The trace of a function goes on in what the function does.

use cronstream_bus::{FollowEvent, FollowOptions, From};
use cronstream_executor::{TaskContext, TaskError, TaskSpans};
use cronstream_schemas::json::Json;
use cronstream_schemas::trace::TraceContext;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tracing::Instrument as _;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::support::{Node, PATIENCE, World, fired};

/// The spans that are stored, as soon as there are so many.
async fn stored(world: &World, count: usize) -> Vec<Span> {
    let stream = world.bus.names().traces.clone();
    let options = FollowOptions { stream, filter: None, from: From::Oldest };
    let mut follow = world.bus.follow(options).await.unwrap();
    let mut spans = Vec::new();
    let read = async {
        while spans.len() < count {
            let Some(FollowEvent::Messages(messages)) = follow.next().await else { continue };
            for message in messages {
                let request = ExportTraceServiceRequest::decode(message.payload).unwrap();
                let scopes = request.resource_spans.into_iter().flat_map(|one| one.scope_spans);
                spans.extend(scopes.flat_map(|scope| scope.spans));
            }
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("the spans are not stored in time");
    spans
}

// On one thread, so that its subscriber is this test's alone.
#[tokio::test]
async fn spans_of_a_function_are_children_of_its_handler_and_are_out_when_the_executor_stops() {
    let world = World::start().await;
    let spans = TaskSpans::default();
    let subscriber = tracing_subscriber::registry().with(spans.layer());
    let _guard = tracing::subscriber::set_default(subscriber);
    let work = async |context: TaskContext, _: Json| {
        let outer = tracing::info_span!("outer");
        async { tracing::info_span!("inner").in_scope(|| ()) }.instrument(outer).await;
        Ok::<_, TaskError>(context.traceparent)
    };
    let executor = world.executor("a").await.task("work", work).task_spans(spans);
    let node = Node::run(executor);
    let fire = fired("work", "work", "{}");
    world.fire(&fire).await;
    world.events(&fire, 2).await;
    node.stop().await;

    let spans = stored(&world, 5).await;
    let named = |name: &str| {
        let mut of_name = spans.iter().filter(|span| span.name == name);
        let span = of_name.next().unwrap_or_else(|| panic!("no {name} in {spans:?}"));
        assert!(of_name.next().is_none(), "{name} twice");
        span
    };
    assert!(spans.iter().all(|span| span.trace_id == fire.run.trace_id()), "{spans:?}");
    let fire_span: TraceContext = fire.traceparent.parse().unwrap();
    assert_eq!(named("queue wait").parent_span_id, fire_span.span.to_bytes());
    assert_eq!(named("attempt").parent_span_id, fire_span.span.to_bytes());
    assert_eq!(named("handler").parent_span_id, named("attempt").span_id);
    assert_eq!(named("outer").parent_span_id, named("handler").span_id);
    assert_eq!(named("inner").parent_span_id, named("outer").span_id);
    let events = world.events(&fire, 2).await;
    let told = format!("{events:?}");
    let handler = named("handler").span_id.iter().map(|b| format!("{b:02x}")).collect::<String>();
    assert!(told.contains(&handler), "the function was told another span: {told}");
}
