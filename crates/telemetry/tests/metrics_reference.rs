//! `docs/reference/metrics.md` is what the registry says; `UPDATE=1` writes it.

#![expect(clippy::unwrap_used, reason = "the lint knows test functions only")]

use std::path::{Path, PathBuf};

use cronstream_schemas::id::Partition;
use cronstream_telemetry::metrics::{
    BatchEnd, Definition, ExecutorMetrics, NAMES_MAX, Page, RelayMetrics, TickerMetrics, reference,
};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join(path)
}

fn all() -> Vec<Definition> {
    let pages: [Page; 3] = [
        TickerMetrics::default().page(),
        ExecutorMetrics::default().page(),
        RelayMetrics::default().page(),
    ];
    pages.iter().flat_map(Page::definitions).cloned().collect()
}

#[test]
fn the_reference_is_what_the_registry_says() {
    let (path, text) = (repository("docs/reference/metrics.md"), reference());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == found, "{} is out of date: run with UPDATE=1", path.display());
}

#[test]
fn names_and_units_are_uniform() {
    for Definition { name, kind, help, .. } in all() {
        let ours = name.starts_with("cronstream_") || name.starts_with("task_");
        assert!(ours, "{name} has no prefix of ours");
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
        assert!(!help.ends_with('.') && !help.is_empty(), "{name}: the full stop is added");
    }
}

#[test]
fn every_name_that_alerts_and_dashboard_use_is_defined() {
    let names: Vec<String> = all().into_iter().map(|it| it.name).collect();
    let known = |word: &str| {
        let stem = ["_bucket", "_count", "_sum"].iter().find_map(|it| word.strip_suffix(it));
        names.iter().any(|name| name == word || stem == Some(name.as_str()))
    };
    for file in ["deploy/alerts.yml", "deploy/grafana/provisioning/dashboards/cronstream.json"] {
        let text = std::fs::read_to_string(repository(file)).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let used = words.filter(|it| it.starts_with("cronstream_") || it.starts_with("task_"));
        // A label, not a metric.
        let unknown: Vec<_> = used.filter(|it| !known(it) && *it != "task_name").collect();
        assert!(unknown.is_empty(), "{file} uses {unknown:?}, which no role has");
    }
}

#[test]
fn no_more_tasks_than_the_bound_become_series() {
    let metrics = ExecutorMetrics::default();
    for number in 0..NAMES_MAX + 50 {
        metrics.ended(&format!("task-{number}").parse().unwrap(), "succeeded");
    }
    let text = metrics.page().metrics();
    let series = text.lines().filter(|line| line.starts_with("task_executions_total{"));
    assert_eq!(series.count(), NAMES_MAX + 1);
    assert!(
        text.contains(r#"task_executions_total{task_name="other",status="succeeded"} 50"#),
        "{text}"
    );
}

#[test]
fn only_a_refused_batch_counts_as_refused() {
    let metrics = TickerMetrics::default();
    let took = std::time::Duration::from_millis(3);
    metrics.batch(Partition(4), BatchEnd::Stored, took);
    metrics.batch(Partition(4), BatchEnd::Refused, took);
    let text = metrics.page().metrics();
    assert!(text.contains(r#"cronstream_batches_refused_total{partition="4"} 1"#), "{text}");
    assert!(text.contains("cronstream_batch_duration_seconds_count 1"), "{text}");
    assert!(text.contains(r#"cronstream_batch_duration_seconds_bucket{le="0.005"} 1"#), "{text}");
}
