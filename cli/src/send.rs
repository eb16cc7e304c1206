//! A command on its way: published with an acknowledgement, then the verdict is waited for.
//!
//! Invariant: what may have been stored is never reported as failed, only as indeterminate.

use std::time::Duration;

use cronstream_bus::{Bus, Error as BusError, Headers, Inbox};
use cronstream_schemas::command::Verb;
use cronstream_schemas::fault::Fault;
use cronstream_schemas::header;
use cronstream_schemas::id::{Revision, RunId};
use cronstream_schemas::name::JobId;
use cronstream_schemas::trace::TraceContext;
use cronstream_schemas::verdict::{Outcome, Verdict};
use tokio::time::{Instant, sleep, timeout_at};

use crate::error::Error;
use crate::host;

/// How long a command waits before it is sent again to a stream that has no leader now.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// A command to send.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    /// What is asked for.
    pub(crate) verb: Verb,
    /// The job.
    pub(crate) job: JobId,
    /// The command's body.
    pub(crate) body: Vec<u8>,
    /// The revision that must be in force, 0 for none.
    pub(crate) expected: Option<Revision>,
}

impl Order {
    /// A command without a body.
    pub(crate) fn plain(verb: Verb, job: &JobId) -> Self {
        Self { verb, job: job.clone(), body: Vec::new(), expected: None }
    }

    /// Publishes the command and waits for its verdict.
    ///
    /// # Errors
    /// [`Error::Indeterminate`] when no verdict comes within `within`; a rejection is a verdict, not an error.
    pub(crate) async fn send(self, bus: &Bus, within: Duration) -> Result<Verdict, Error> {
        let deadline = Instant::now() + within;
        let inbox = bus.subscribe_inbox().await?;
        let mut stored = None;
        let verdict = async {
            stored = self.publish(bus, inbox.subject()).await?;
            self.verdict(inbox, stored).await
        };
        match timeout_at(deadline, verdict).await {
            Ok(verdict) => verdict,
            Err(_) => Err(self.indeterminate(within, stored)),
        }
    }

    /// Publishes until the stream has taken the command; `None` when that is not known.
    async fn publish(&self, bus: &Bus, reply: &str) -> Result<Option<u64>, Error> {
        let subject = bus.names().prefix().command(self.verb, &self.job);
        let mut headers: Headers = vec![(header::REPLY, reply.to_owned())];
        if let Some(revision) = self.expected {
            headers.push((header::EXPECTED_REVISION, revision.0.to_string()));
        }
        headers.push((header::AUTHOR, author()));
        if let Some(sender) = sender() {
            headers.push((header::TRACEPARENT, sender.to_string()));
        }
        loop {
            match bus.publish_command(&subject, &headers, self.body.clone().into()).await {
                Ok(seq) => return Ok(Some(seq)),
                Err(BusError::TimedOut { .. }) => return Ok(None),
                Err(BusError::Unavailable { what }) => {
                    tracing::debug!(what, "not available, trying again");
                    sleep(RETRY_PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for the verdict on the command stored at `stored`; the inbox serves this command alone.
    async fn verdict(&self, mut inbox: Inbox, stored: Option<u64>) -> Result<Verdict, Error> {
        while let Some(message) = inbox.next().await {
            match serde_json::from_slice::<Verdict>(&message.payload) {
                Ok(verdict) if stored.is_none_or(|seq| seq == verdict.command) => {
                    return Ok(verdict);
                }
                Ok(verdict) => tracing::debug!(verdict.command, "verdict on another command"),
                Err(error) => tracing::debug!(%error, "not a verdict"),
            }
        }
        Err(BusError::Unavailable { what: "the connection".into() }.into())
    }

    /// No verdict came on the command stored at `stored`, if it is stored.
    fn indeterminate(&self, within: Duration, stored: Option<u64>) -> Error {
        let Self { verb, job, .. } = self;
        let look = match verb {
            Verb::Trigger | Verb::Cancel | Verb::Backfill => format!("cronstream runs {job}"),
            Verb::Calendar | Verb::CalendarDelete => format!("cronstream calendar get {job}"),
            Verb::Define | Verb::Delete | Verb::Pause | Verb::Resume | Verb::Skip | Verb::Shift => {
                format!("cronstream get {job}")
            }
        };
        let (what, why) = match stored {
            Some(_) => {
                let why = "without a leading ticker (`cronstream status`) it waits";
                (format!("{verb} {job}"), why)
            }
            None => {
                let why = "a broker that stores nothing may have a full disk (docs/operating/disk-full.md)";
                (format!("{verb} {job}, which the broker has not acknowledged"), why)
            }
        };
        Error::Indeterminate {
            what,
            within: format!("{}s", within.as_secs_f64()),
            look: format!("it may still be done, see `{look}`; {why}"),
        }
    }
}

/// The most characters of an author.
const AUTHOR_MAX_CHARS: usize = 128;

/// Who sends commands: what CRONSTREAM_AUTHOR says, else the user and the host.
fn author() -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user = || variable("USER").or_else(|| variable("LOGNAME")).unwrap_or_else(host::user);
    let here = || format!("{}@{}", user(), host::node_name());
    let author = variable("CRONSTREAM_AUTHOR").unwrap_or_else(here);
    let printable = author.chars().filter(|c| c.is_ascii_graphic() || *c == ' ');
    printable.take(AUTHOR_MAX_CHARS).collect()
}

/// The span of whoever calls us, as programs hand it to each other.
fn sender() -> Option<TraceContext> {
    std::env::var("TRACEPARENT").ok()?.parse().ok()
}

/// What a verdict grants: a changed job, or a run.
#[derive(Debug)]
pub(crate) enum Granted {
    /// The job's state has changed, or a run has ended.
    Done,
    /// The command has made this run.
    Run(RunId),
}

/// Tells a verdict that grants from one that refuses, whose faults it puts into words.
///
/// # Errors
/// [`Error::Rejected`] with every fault.
pub(crate) fn granted(verdict: &Verdict, what: &str) -> Result<Granted, Error> {
    match &verdict.outcome {
        Outcome::Accepted { .. }
        | Outcome::Cancelled { .. }
        | Outcome::Overridden { .. }
        | Outcome::Backfilling { .. }
        | Outcome::CalendarAccepted { .. } => Ok(Granted::Done),
        Outcome::Fired { run } => Ok(Granted::Run(*run)),
        Outcome::Skipped { reason } => {
            let reason = crate::words::skip_reason(*reason);
            Err(Error::Rejected(format!("{what}: skipped, {reason}")))
        }
        Outcome::Rejected { faults, duplicate_of: Some(run) } => {
            let faults = list(faults);
            Err(Error::Rejected(format!("{what}: the key has made run {run} already{faults}")))
        }
        Outcome::Rejected { faults, duplicate_of: None } => {
            Err(Error::Rejected(format!("{what}: rejected{}", list(faults))))
        }
    }
}

fn list(faults: &[Fault]) -> String {
    faults
        .iter()
        .map(|fault| format!("\n  {}", crate::output::printable(&fault.to_string())))
        .collect()
}
