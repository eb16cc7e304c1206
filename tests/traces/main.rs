//! Traces and logs of real nodes: what a collector gets of a run, whatever crashed, and what the nodes log of it.

mod collector;
mod jaeger;
mod logs;
mod otlp;
mod seen;
mod stage;
