//! What the scenarios share: jobs, events that are waited for, and the answers of `explain`.
//!
//! Invariant: nothing waits without a deadline.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::{Fired, JobState, LogEvent, SkipReason, Skipped, SkippedWhat};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use cronstream_tests::client::Client;
use cronstream_tests::record::Record;
use cronstream_tests::world::{Brokers, Setup, World};
use serde_json::Value;
use tokio::time::Instant;

/// How long anything may take that is not measured.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// One broker, one partition, a lease of two seconds.
pub(crate) const SETUP: Setup =
    Setup { brokers: Brokers::One, partitions: 1, lease_ttl: Duration::from_secs(2) };

/// Changes a job and waits until the change is in force.
pub(crate) async fn change(world: &World, verb: Verb, job: &str, body: &str) -> Result<JobState> {
    Client::new(&world.urls()).change(world.recorder(), verb, &job.parse()?, body).await
}

/// Defines a job and waits until it is in force.
pub(crate) async fn define(world: &World, job: &str, body: &str) -> Result<JobState> {
    change(world, Verb::Define, job, body).await
}

/// Waits for a fire of a job that is as wanted.
pub(crate) async fn fire(
    world: &World,
    job: &JobId,
    wanted: impl Fn(&Fired) -> bool,
) -> Result<Fired> {
    let found = |record: &Record| {
        record.log.values().find_map(|stored| {
            let LogEvent::Fired(fired) = &stored.event else { return None };
            (fired.job == *job && wanted(fired)).then(|| fired.clone())
        })
    };
    world.recorder().until(&format!("a fire of {job}"), PATIENCE, found).await
}

/// Every fire of a job so far.
pub(crate) fn fires(world: &World, job: &JobId) -> Vec<Fired> {
    let record = world.recorder().now();
    let fires = record.log.values().filter_map(|stored| match &stored.event {
        LogEvent::Fired(fired) if fired.job == *job => Some(fired.clone()),
        _ => None,
    });
    fires.collect()
}

/// Waits for slots of a job that are skipped for a reason; the first of them and who decided it.
pub(crate) async fn skip(
    world: &World,
    job: &JobId,
    reason: SkipReason,
) -> Result<(Timestamp, Skipped)> {
    skip_after(world, job, reason, Timestamp::MIN).await
}

/// The same of what was decided after an instant.
pub(crate) async fn skip_after(
    world: &World,
    job: &JobId,
    reason: SkipReason,
    after: Timestamp,
) -> Result<(Timestamp, Skipped)> {
    let found = |record: &Record| {
        record.log.values().find_map(|stored| {
            let LogEvent::Skipped(skipped) = &stored.event else { return None };
            let SkippedWhat::Slots { first, .. } = &skipped.what else { return None };
            let wanted = skipped.job == *job && skipped.reason == reason && skipped.at > after;
            wanted.then(|| (*first, skipped.clone()))
        })
    };
    world.recorder().until(&format!("a skipped slot of {job}"), PATIENCE, found).await
}

/// Waits for the end of a run.
pub(crate) async fn ended(world: &World, fired: &Fired) -> Result<()> {
    let over = |record: &Record| {
        let run = format!(".{}.", fired.run);
        let mut events = record.runs.values();
        events.any(|it| it.event.is_terminal() && it.subject.contains(&run)).then_some(())
    };
    world.recorder().until("the end of a run", PATIENCE, over).await
}

/// Asks for an explanation until it is as wanted: a node that is busy may answer too late to be counted.
pub(crate) async fn explained(
    world: &World,
    job: &JobId,
    at: Timestamp,
    outcome: &str,
    says: &str,
) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let told = explain(world, job, at).await?;
        match told.is(&[outcome], &[says]) {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => {}
        }
    }
}

/// What `explain` says of an instant.
pub(crate) struct Told(Value);

/// Asks for an explanation.
pub(crate) async fn explain(world: &World, job: &JobId, at: Timestamp) -> Result<Told> {
    let (job, at) = (job.to_string(), at.to_string());
    Ok(Told(world.ask("explain", &[&job, "--at", &at]).await?))
}

impl Told {
    /// A field of the answer.
    pub(crate) fn field(&self, name: &str) -> &Value {
        &self.0[name]
    }

    /// Holds the outcome against what it may be, and looks for what has to be said.
    pub(crate) fn is(&self, outcomes: &[&str], says: &[&str]) -> Result<&Self> {
        let outcome = self.0["outcome"].as_str().context("no outcome")?;
        ensure!(outcomes.contains(&outcome), "{outcome} is not {outcomes:?}: {}", self.0);
        let text = self.0.to_string();
        for said in says {
            ensure!(text.contains(said), "{said:?} is not in {text}");
        }
        Ok(self)
    }
}
