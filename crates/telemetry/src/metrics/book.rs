//! The registry of a role, and what its families are: one place for both, so that the reference cannot differ.

use std::fmt;

use prometheus_client::encoding::EncodeMetric;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Metric, Registry};

use super::{ExecutorMetrics, RelayMetrics, TickerMetrics};

/// What one metric is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The name under which it is scraped.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it tells, without a full stop.
    pub help: &'static str,
}

/// A registry that remembers what was registered.
#[derive(Default)]
pub(super) struct Book {
    pub(super) registry: Registry,
    pub(super) definitions: Vec<Definition>,
}

impl fmt::Debug for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Book").field("definitions", &self.definitions.len()).finish()
    }
}

impl Book {
    /// Registers a metric; a counter's name is written without `_total`.
    pub(super) fn add<M: Metric + EncodeMetric + Clone>(
        &mut self,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        metric: M,
    ) -> M {
        let (suffix, kind) = match metric.metric_type() {
            MetricType::Counter => ("_total", "counter"),
            MetricType::Gauge => ("", "gauge"),
            MetricType::Histogram => ("", "histogram"),
            MetricType::Info | MetricType::Unknown => ("", "untyped"),
        };
        self.definitions.push(Definition { name: format!("{name}{suffix}"), kind, labels, help });
        self.registry.register(name, help, metric.clone());
        metric
    }
}

const INTRODUCTION: &str = "\
# Metrics

`ticker`, `executor` and `relay` serve them where `--metrics ADDRESS` says, beside two answers for whoever
watches the process:

| path | answers |
|---|---|
| `/metrics` | the metrics, as OpenMetrics to a client that asks for it and as Prometheus text otherwise |
| `/healthz` | 200 while the node's loop turns, 503 when it has not for 5 s: start the process again |
| `/readyz` | 200 when the node can do its work, else 503 with a reason on each line: it cannot write, has not caught up, its clock is off, a partition is stopped. Do not start it again for that |

Labels are bounded: `task_name`, `queue` and, of skipped slots, `job_name` have at most 200 values in a process, what is beyond them is
`other`; there are at most 32 partitions; no run is a label, and no job elsewhere: `cronstream runs` and traces tell of those.
[deploy/alerts.yml](../../deploy/alerts.yml) has alerts on these metrics.

<!-- Below is generated: UPDATE=1 cargo test -p cronstream-telemetry --test metrics_reference -->
";

/// The page `docs/reference/metrics.md`.
#[must_use]
pub fn reference() -> String {
    let ticker = TickerMetrics::default().page().definitions().to_vec();
    let executor = ExecutorMetrics::default().page().definitions().to_vec();
    let relay = RelayMetrics::default().page().definitions().to_vec();
    let (every, ticker): (Vec<_>, Vec<_>) =
        ticker.into_iter().partition(|it| executor.contains(it) && relay.contains(it));
    let own = |all: Vec<Definition>| all.into_iter().filter(|it| !every.contains(it)).collect();
    let mut text = INTRODUCTION.to_owned();
    section(&mut text, "Every role", &every);
    section(&mut text, "`ticker`", &ticker);
    section(&mut text, "`executor`", &own(executor));
    section(&mut text, "`relay`", &own(relay));
    text
}

fn section(text: &mut String, title: &str, definitions: &Vec<Definition>) {
    text.push_str(&format!(
        "\n## {title}\n\n| metric | kind | labels | what |\n|---|---|---|---|\n"
    ));
    for Definition { name, kind, labels, help } in definitions {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        text.push_str(&format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", ")));
    }
}
