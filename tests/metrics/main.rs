//! Metrics as Prometheus sees them: real nodes, scraped by a real Prometheus; the alerts and the dashboard that are
//! shipped, judged by its promtool.

mod http;
mod nodes;
mod rules;
mod tools;
