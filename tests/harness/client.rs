//! A user without our libraries: publishes commands as `nats pub` would and hears verdicts.
//!
//! Invariant: a command is certain to be in CRON_COMMANDS when [`Client::send`] returns its sequence.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::{JobState, LogEvent, Rejected};
use cronstream_schemas::header;
use cronstream_schemas::name::JobId;
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::verdict::Verdict;
use tokio::time::{Instant, sleep, timeout};

use crate::jetstream::StoreAnswer;
use crate::nats::{Headers, Nats};
use crate::record::Recorder;

/// How long a broker's election may keep a command from being stored.
const SEND_MAX: Duration = Duration::from_secs(30);
/// How long a refused or lost command rests before it is sent again.
const RESEND: Duration = Duration::from_millis(100);

/// A user of the installation at some addresses.
#[derive(Debug, Clone)]
pub struct Client {
    urls: Vec<String>,
}

/// What a leader made of a command, as CRON_LOG tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// The job's state has changed.
    Changed(Box<JobState>),
    /// It was refused.
    Rejected(Rejected),
}

impl Client {
    /// A user that connects to these addresses.
    #[must_use]
    pub fn new(urls: &[String]) -> Self {
        Self { urls: urls.to_vec() }
    }

    /// Publishes a command until it is stored, and returns its sequence. Its message id keeps a repetition from
    /// being a second command.
    ///
    /// # Errors
    /// When it cannot be stored in time.
    pub async fn send(&self, verb: Verb, job: &JobId, body: &str) -> Result<u64> {
        let subject = Prefix::default().command(verb, job);
        let id = (header::MSG_ID.to_owned(), uuid::Uuid::new_v4().to_string());
        let headers = vec![id];
        let deadline = Instant::now() + SEND_MAX;
        loop {
            match self.store(&subject, &headers, body).await {
                Ok(sequence) => return Ok(sequence),
                Err(error) if Instant::now() >= deadline => return Err(error),
                Err(_) => sleep(RESEND).await,
            }
        }
    }

    async fn store(&self, subject: &str, headers: &Headers, body: &str) -> Result<u64> {
        let nats = Nats::connect(&self.urls).await?;
        match nats.store(subject, headers, body.as_bytes()).await? {
            StoreAnswer::At(sequence) | StoreAnswer::Duplicate(sequence) => Ok(sequence),
            StoreAnswer::Refused { code, description } => {
                bail!("{subject} is refused: {code} {description}")
            }
        }
    }

    /// Publishes one command with more headers and waits for its verdict on an inbox.
    ///
    /// # Errors
    /// When there is no verdict in time; the command may have been applied all the same.
    pub async fn ask(
        &self,
        subject: &str,
        mut headers: Headers,
        body: &[u8],
        within: Duration,
    ) -> Result<Verdict> {
        let nats = Nats::connect(&self.urls).await?;
        let inbox = nats.new_inbox();
        let mut verdicts = nats.subscribe(&inbox).await?;
        headers.push((header::REPLY.to_owned(), inbox));
        nats.publish(subject, &headers, body).await?;
        let verdict = timeout(within, verdicts.next())
            .await
            .with_context(|| format!("no verdict for {subject} in {within:?}"))??;
        Ok(serde_json::from_slice(&verdict.body)?)
    }

    /// Changes a job and waits until the leader has written what came of it.
    ///
    /// # Errors
    /// When nothing came of it in time.
    pub async fn apply(
        &self,
        recorder: &Recorder,
        verb: Verb,
        job: &JobId,
        body: &str,
    ) -> Result<Applied> {
        let command = self.send(verb, job, body).await?;
        let what = format!("what comes of {verb} {job} (command {command})");
        recorder
            .until(&what, SEND_MAX, |record| {
                record.log.values().rev().find_map(|stored| applied(&stored.event, command))
            })
            .await
    }

    /// Changes a job, and takes a refusal for an error.
    ///
    /// # Errors
    /// When the command is rejected, or nothing came of it in time.
    pub async fn change(
        &self,
        recorder: &Recorder,
        verb: Verb,
        job: &JobId,
        body: &str,
    ) -> Result<JobState> {
        match self.apply(recorder, verb, job, body).await? {
            Applied::Changed(state) => Ok(*state),
            Applied::Rejected(rejected) => bail!("{verb} {job} is rejected: {rejected:?}"),
        }
    }
}

fn applied(event: &LogEvent, command: u64) -> Option<Applied> {
    match event {
        LogEvent::JobDefined(state)
        | LogEvent::JobPaused(state)
        | LogEvent::JobResumed(state)
        | LogEvent::JobOverridden(state)
        | LogEvent::JobDeleted(state) => {
            (state.command == command).then(|| Applied::Changed(Box::new(state.clone())))
        }
        LogEvent::Rejected(rejected) => {
            (rejected.command == command).then(|| Applied::Rejected(rejected.clone()))
        }
        LogEvent::JobRevised(_)
        | LogEvent::Fired(_)
        | LogEvent::Held(_)
        | LogEvent::HeldEnded(_)
        | LogEvent::Skipped(_)
        | LogEvent::Cursor(_)
        | LogEvent::CalendarDefined(_)
        | LogEvent::CalendarDeleted(_)
        | LogEvent::CalendarRevised(_)
        | LogEvent::Meta(_) => None,
    }
}
