//! A run's trace as a collector tells it, and what every such trace must be.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::Link;
use serde_json::Value;

/// One span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    pub(crate) links: Vec<String>,
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, String>,
}

impl Seen {
    /// A span as Jaeger's query API tells it.
    pub(crate) fn of_jaeger(span: &Value) -> Result<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned).context("a text");
        let references = span["references"].as_array().map_or(&[][..], Vec::as_slice);
        let refers = |kind: &str| {
            let of_kind = references.iter().filter(|one| one["refType"] == kind).cloned();
            of_kind.collect::<Vec<_>>()
        };
        let parent = refers("CHILD_OF").first().map(|one| text(&one["spanID"])).transpose()?;
        let links =
            refers("FOLLOWS_FROM").iter().map(|one| text(&one["spanID"])).collect::<Result<_>>()?;
        let tags = span["tags"].as_array().context("tags")?;
        let plain = |tag: &Value| {
            let value = &tag["value"];
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Ok((text(&tag["key"])?, value))
        };
        Ok(Self {
            trace: text(&span["traceID"])?,
            id: text(&span["spanID"])?,
            parent,
            links,
            name: text(&span["operationName"])?,
            attributes: tags.iter().map(plain).collect::<Result<_>>()?,
        })
    }

    /// A span as OTLP carries it.
    pub(crate) fn of_otlp(span: &Span) -> Self {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let attributes = span.attributes.iter().filter_map(|one| {
            let value = match one.value.as_ref()?.value.as_ref()? {
                Any::StringValue(text) => text.clone(),
                Any::IntValue(number) => number.to_string(),
                _ => return None,
            };
            Some((one.key.clone(), value))
        });
        Self {
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: Some(hex(&span.parent_span_id)).filter(|id| !id.is_empty()),
            links: span.links.iter().map(|link: &Link| hex(&link.span_id)).collect(),
            name: span.name.clone(),
            attributes: attributes.collect(),
        }
    }

    pub(crate) fn get(&self, attribute: &str) -> &str {
        self.attributes.get(attribute).map_or("", String::as_str)
    }

    /// What it is within its run: `attempt 1.2 crashed`, `fire 2`.
    pub(crate) fn label(&self) -> String {
        let (name, fire_no) = (&self.name, self.get("cronstream.fire_no"));
        let delivery = self.attributes.get("cronstream.delivery");
        let delivery = delivery.map(|delivery| format!(".{delivery}")).unwrap_or_default();
        let outcome = self.attributes.get("cronstream.outcome");
        let outcome = outcome.map(|outcome| format!(" {outcome}")).unwrap_or_default();
        format!("{name} {fire_no}{delivery}{outcome}")
    }
}

/// The spans of one trace, by what they are.
#[derive(Debug)]
pub(crate) struct Trace(BTreeMap<String, Seen>);

impl Trace {
    /// Takes a whole trace: one root, every parent there, no span told of in two ways.
    pub(crate) fn whole(spans: &[Seen]) -> Result<Self> {
        let labels: BTreeMap<String, Seen> =
            spans.iter().map(|span| (span.label(), span.clone())).collect();
        let ids: BTreeSet<&str> = spans.iter().map(|span| span.id.as_str()).collect();
        ensure!(labels.len() == spans.len() && ids.len() == spans.len(), "twice: {spans:#?}");
        let traces: BTreeSet<&str> = spans.iter().map(|span| span.trace.as_str()).collect();
        ensure!(traces.len() == 1, "of {traces:?}");
        let roots: Vec<_> = spans.iter().filter(|span| span.parent.is_none()).collect();
        ensure!(roots.len() == 1, "roots: {roots:#?}");
        for span in spans {
            let there = span.parent.as_ref().is_none_or(|id| ids.contains(id.as_str()));
            ensure!(there, "an orphan: {span:#?}");
        }
        Ok(Self(labels))
    }

    /// The span of a label.
    pub(crate) fn at(&self, label: &str) -> Result<&Seen> {
        self.0.get(label).with_context(|| format!("no {label:?} among {:?}", self.0.keys()))
    }

    /// Checks that one span is the child of another.
    pub(crate) fn child(&self, child: &str, parent: &str) -> Result<()> {
        let (child_span, parent_span) = (self.at(child)?, self.at(parent)?);
        let is = child_span.parent.as_ref() == Some(&parent_span.id);
        ensure!(is, "{child} is not below {parent}");
        Ok(())
    }

    /// Checks that one span is linked to another.
    pub(crate) fn link(&self, from: &str, to: &str) -> Result<()> {
        let (from_span, to_span) = (self.at(from)?, self.at(to)?);
        ensure!(from_span.links == [to_span.id.clone()], "{from} has links {:?}", from_span.links);
        Ok(())
    }
}

/// The labels of spans, in order.
pub(crate) fn labels(spans: &[Seen]) -> Vec<String> {
    let mut labels: Vec<_> = spans.iter().map(Seen::label).collect();
    labels.sort();
    labels
}
