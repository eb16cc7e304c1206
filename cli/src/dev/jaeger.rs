//! The Jaeger under `dev --jaeger`.
//!
//! Invariant: it ends with us: on a stop by hand, on a crash by the guard, and at the latest when the next `dev` with
//! a Jaeger takes its folder.

use cronstream_server::{Jaeger, Locator, Owner, end_orphan};
use tokio::process::Child;

use super::broker::spawn_guard;
use super::folder::Folder;
use crate::error::Error;
use crate::output::Output;

/// A Jaeger and the process that ends it if we cannot.
#[derive(Debug)]
pub(super) struct Tracing {
    jaeger: Jaeger,
    guard: Child,
}

impl Tracing {
    /// Finds or builds a Jaeger and starts it.
    pub(super) async fn start(out: Output, folder: &Folder) -> Result<Self, Error> {
        let program = Locator::from_env()?.ensure_jaeger(&mut |line| out.talk(line)).await?;
        let dir = folder.file("jaeger");
        if let Some(pid) = end_orphan(&dir, Owner::Gone).await? {
            out.talk(&format!("ended jaeger {pid}, left by a `cronstream dev` that was killed"));
        }
        let jaeger = Jaeger::start(&program, &dir).await?;
        out.talk(&format!(
            "jaeger ({}) on {}, traces from {}<id>",
            program.display(),
            jaeger.url(),
            jaeger.trace_url()
        ));
        let guard = spawn_guard(dir)?;
        Ok(Self { jaeger, guard })
    }

    /// Where the relay sends spans.
    pub(super) fn otlp(&self) -> String {
        self.jaeger.otlp()
    }

    /// What the address of a trace begins with.
    pub(super) fn trace_url(&self) -> String {
        self.jaeger.trace_url()
    }

    /// Ends it.
    pub(super) async fn end(mut self) -> Result<(), Error> {
        self.jaeger.end().await?;
        Ok(self.guard.kill().await?)
    }
}
