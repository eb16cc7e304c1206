//! An installation with two tickers, an executor and a relay, and tasks that fail, crash and take their time.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::{Cause, Fired, RunEvent};
use cronstream_schemas::header;
use cronstream_schemas::id::RunId;
use cronstream_schemas::name::JobId;
use cronstream_schemas::subject::Prefix;
use cronstream_tests::client::Client;
use cronstream_tests::crew::fires;
use cronstream_tests::history::Stored;
use cronstream_tests::jetstream::StoreAnswer;
use cronstream_tests::nats::Nats;
use cronstream_tests::record::Record;
use cronstream_tests::world::{Brokers, Setup, World};
use tokio::time::{Instant, sleep};

/// How long anything may take that is not about time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at what has no signal: a collector's answer, a file.
const LOOK: Duration = Duration::from_millis(50);

/// `told` gives its place in the trace as its result; `flaky` fails at first; `murder` kills its executor at first;
/// `slow` takes two seconds.
const TASKS: &str = r#"
[tasks.told]
command = ["/bin/sh", "-c", 'echo "\"$TRACEPARENT\"" > "$CRON_RESULT"']
[tasks.flaky]
command = ["/bin/sh", "-c", '[ "$CRON_ATTEMPT" -gt 1 ]']
[tasks.murder]
command = ["/bin/sh", "-c", 'if [ "$CRON_ATTEMPT" = 1 ]; then kill -9 $PPID; sleep 60; fi']
[tasks.slow]
command = ["/bin/sh", "-c", 'sleep 2; echo "\"$TRACEPARENT\"" > "$CRON_RESULT"']
"#;

/// One installation.
#[derive(Debug)]
pub(crate) struct Stage<'w> {
    pub(crate) world: &'w mut World,
    client: Client,
    tasks: PathBuf,
}

/// Plays a scenario on a stage of its own.
pub(crate) async fn play(scenario: impl AsyncFnOnce(&mut Stage<'_>) -> Result<()>) -> Result<()> {
    World::with(Setup::new(Brokers::One), async |world| {
        let tasks = world.effects().tasks().with_file_name("traced.toml");
        std::fs::write(&tasks, TASKS)?;
        let client = Client::new(&world.urls());
        let mut stage = Stage { world, client, tasks };
        scenario(&mut stage).await
    })
    .await
}

impl Stage<'_> {
    /// Starts tickers and an executor, each with these options, and waits for leaders.
    pub(crate) async fn crew(&mut self, tickers: &[&str], options: &[&str]) -> Result<()> {
        for node in ["t1", "t2"] {
            let urls = self.world.urls();
            self.world.serve(node, "ticker", &urls, tickers)?;
        }
        self.executor("e1", options)?;
        self.world.led().await
    }

    /// Starts an executor of queue `default`.
    pub(crate) fn executor(&mut self, node: &str, options: &[&str]) -> Result<()> {
        let tasks = self.tasks.to_str().context("a folder in UTF-8")?;
        let own = ["--tasks", tasks, "--ack-wait", "2s"];
        let options: Vec<&str> = own.iter().chain(options).copied().collect();
        self.world.serve(node, "executor", &self.world.urls(), &options)
    }

    /// Starts a relay to a collector.
    pub(crate) fn relay(&mut self, otlp: &str) -> Result<()> {
        self.world.serve("relay", "relay", &self.world.urls(), &["--otlp", otlp])
    }

    /// Defines a job that only triggers fire; `more` are further fields.
    pub(crate) async fn job(&self, job: &str, task: &str, more: &str) -> Result<JobId> {
        let job: JobId = job.parse()?;
        let schedule = r#""schedule":{"at":"2199-01-01T00:00:00Z"},"overlap":"allow""#;
        let body = format!(r#"{{"task":"{task}",{schedule}{more}}}"#);
        self.client.change(self.world.recorder(), Verb::Define, &job, &body).await?;
        Ok(job)
    }

    /// Publishes a command as somebody who is traced, if so.
    pub(crate) async fn send(
        &self,
        verb: Verb,
        job: &JobId,
        body: &str,
        traceparent: Option<&str>,
    ) -> Result<u64> {
        let nats = Nats::connect(&self.world.urls()).await?;
        let header = traceparent.map(|text| (header::TRACEPARENT.to_owned(), text.to_owned()));
        let headers = header.into_iter().collect();
        let subject = Prefix::default().command(verb, job);
        match nats.store(&subject, &headers, body.as_bytes()).await? {
            StoreAnswer::At(sequence) => Ok(sequence),
            other => bail!("the trigger is not stored: {other:?}"),
        }
    }

    /// Triggers a job and waits for its fire.
    pub(crate) async fn trigger(&self, job: &JobId, traceparent: Option<&str>) -> Result<Fired> {
        let command = self.send(Verb::Trigger, job, "", traceparent).await?;
        let caused = |fired: &Fired| match &fired.cause {
            Cause::Trigger(cause) => cause.command == command,
            Cause::Slot(_) | Cause::Backfill(_) => false,
        };
        let find = |record: &Record| {
            fires(record).find(|(_, fired)| caused(fired)).map(|(_, fired)| fired.clone())
        };
        self.world.recorder().until("the fire", PATIENCE, find).await
    }

    /// Waits for the last event of a run.
    pub(crate) async fn ended(&self, run: RunId) -> Result<RunEvent> {
        let of_run = move |stored: &&Stored<RunEvent>| {
            Prefix::default().parse_run(&stored.subject).is_some_and(|key| key.shard.run == run)
        };
        let end = |record: &Record| {
            let mut events = record.runs.values().filter(of_run);
            events.find(|stored| stored.event.is_terminal()).map(|stored| stored.event.clone())
        };
        self.world.recorder().until(&format!("the end of run {run}"), PATIENCE, end).await
    }

    /// What a task told as its result.
    pub(crate) async fn result(&self, run: RunId) -> Result<String> {
        let RunEvent::Succeeded(done) = self.ended(run).await? else { bail!("{run} has failed") };
        Ok(serde_json::from_str(done.result.context("a result")?.as_str())?)
    }
}

/// Looks again and again at what gives no signal.
pub(crate) async fn look<T>(what: &str, mut found: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match found().await {
            Ok(found) => return Ok(found),
            Err(error) if Instant::now() >= deadline => {
                return Err(error.context(format!("waited in vain for {what}")));
            }
            Err(_) => sleep(LOOK).await,
        }
    }
}
