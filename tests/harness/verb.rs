//! Verbs of the command line, run to their end as an operator runs them.

use std::ffi::OsString;
use std::process::Output;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use crate::process::Process;
use crate::world::{START_MAX, World};

impl World {
    /// Runs a verb of the command line to its end and returns whether it succeeded.
    ///
    /// # Errors
    /// When it does not end in time.
    pub async fn run(&mut self, verb: &str, options: &[&str]) -> Result<bool> {
        let mut args = self.command(verb, &self.urls());
        args.extend(options.iter().map(OsString::from));
        let mut process = Process::spawn(self.program(), args, self.log(verb))?;
        Ok(process.ended(START_MAX).await?.success())
    }

    /// Runs a verb of the command line to its end and returns what it printed and how it ended.
    ///
    /// # Errors
    /// When it does not end in time.
    pub async fn call(&self, verb: &str, options: &[&str]) -> Result<Output> {
        let mut args = self.command(verb, &self.urls());
        args.extend(options.iter().map(OsString::from));
        let called = Command::new(self.program()).args(args).kill_on_drop(true).output();
        Ok(timeout(START_MAX, called).await.with_context(|| format!("{verb} hangs"))??)
    }

    /// Runs a verb of the command line to its end and returns the JSON it prints.
    ///
    /// # Errors
    /// When it fails, prints something else, or does not end in time.
    pub async fn ask(&self, verb: &str, options: &[&str]) -> Result<Value> {
        let options: Vec<&str> = ["--json"].iter().chain(options).copied().collect();
        let output = self.call(verb, &options).await?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`cronstream {verb}` failed: {errors}");
        serde_json::from_slice(&output.stdout).with_context(|| format!("the answer of {verb}"))
    }
}
