//! The stage of these tests: one installation with a ticker and a clock job, tasks that the test controls, and waits
//! for what the streams tell.
//!
//! Invariant: every wait has a deadline; the history of every scenario that ends well is held against the guarantees.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::{Cause, Fired, LogEvent, Place, RunEvent};
use cronstream_schemas::id::RunId;
use cronstream_schemas::name::JobId;
use cronstream_schemas::status::{ExecutorCounters, ExecutorStatus, NodeStatus, Role};
use cronstream_schemas::subject::Prefix;
use cronstream_tests::checker::{Held, Terms, check};
use cronstream_tests::client::Client;
use cronstream_tests::crew::{fired_after, fires, settle};
use cronstream_tests::history::Stored;
use cronstream_tests::nats::Nats;
use cronstream_tests::record::{Record, Stream};
use cronstream_tests::world::{Brokers, Setup, World, now};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::responder::Responder;

/// How long anything may take that is not about time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// The ack wait of an executor whose death is to be noticed soon.
pub(crate) const ACK_WAIT: Duration = Duration::from_secs(3);
/// Between two looks at what has no signal: a file, a process, the answer of `status`.
const LOOK: Duration = Duration::from_millis(20);
/// Triggers that are on their way before one of them is waited for.
const UNCONFIRMED_MAX: usize = 500;
/// The subject of the task `ask`.
const ASK: &str = "stage.ask";

/// A job whose slots nobody runs: they tell the time, and they are what the checker counts.
const CLOCK: &str = r#"{"task":"none","queue":"clock","schedule":{"every":"1s"},"overlap":"allow",
    "start_within":"100ms","timeout":"1s","max_attempts":1}"#;

/// The tasks of the stage; `DIR` stands for its folder.
const TASKS: &str = r#"
[tasks.ask]
nats.subject = "stage.ask"
[tasks.echo]
command = ["/bin/sh", "-c", 'cat > "$CRON_RESULT"']
[tasks.hold]
command = ["/bin/sh", "DIR/hold.sh"]
[tasks.murder]
command = ["/bin/sh", "-c", "kill -9 $PPID; sleep 60"]
[tasks.flood]
command = ["/bin/sh", "-c", "head -c 10000000 /dev/zero | tr '\\0' x; head -c 10000000 /dev/zero | tr '\\0' y >&2; echo end"]
"#;

/// Tells its own process and a child's, then works until the test lets it go, until it is asked to stop, or until
/// nobody can want it any more.
const HOLD: &str = r#"cd DIR
mark() {
  echo "$CRON_RUN $CRON_SLOT $CRON_SHARD $CRON_ATTEMPT $CRON_FENCING_TOKEN $1 $(date +%s%3N)" >> effects
}
me=$CRON_RUN.$CRON_ATTEMPT
trap 'date +%s%3N > stopped.$me; exit 1' TERM
mark start
sleep 600 &
echo "$$ $!" > new.$me
mv new.$me held.$me
echo "holding"
looks=0
while [ ! -e go.$me ]; do
  looks=$((looks + 1))
  if [ $looks -gt 2400 ] || [ ! -e hold.sh ]; then kill $!; exit 1; fi
  sleep 0.05
done
mark end
kill $!
echo '"held"' > "$CRON_RESULT"
"#;

/// An executor to start.
#[derive(Debug, Clone)]
pub(crate) struct Launch<'a> {
    pub(crate) node: &'a str,
    pub(crate) queue: &'a str,
    pub(crate) concurrency: u32,
    pub(crate) ack_wait: Duration,
    pub(crate) drain: Duration,
    /// Another way to the brokers.
    pub(crate) url: Option<String>,
}

impl<'a> Launch<'a> {
    pub(crate) const fn new(node: &'a str) -> Self {
        let drain = Duration::from_secs(5);
        Self { node, queue: "work", concurrency: 1, ack_wait: ACK_WAIT, drain, url: None }
    }
}

/// One installation and the ways to look at it.
#[derive(Debug)]
pub(crate) struct Stage<'w> {
    pub(crate) world: &'w mut World,
    pub(crate) client: Client,
    folder: PathBuf,
    ticking: Vec<JobId>,
}

/// Plays a scenario on a stage of its own, then holds its history against the guarantees.
pub(crate) async fn play(
    brokers: Brokers,
    scenario: impl AsyncFnOnce(&mut Stage<'_>) -> Result<()>,
) -> Result<()> {
    World::with(Setup::new(brokers), async |world| {
        let mut stage = Stage::set(world).await?;
        scenario(&mut stage).await?;
        stage.judge().await
    })
    .await
}

impl<'w> Stage<'w> {
    async fn set(world: &'w mut World) -> Result<Self> {
        world.ticker("t1", &[])?;
        world.led().await?;
        let client = Client::new(&world.urls());
        let folder = world.effects().tasks().parent().context("a folder")?.to_owned();
        let here = |text: &str| text.replace("DIR", &folder.display().to_string());
        std::fs::write(folder.join("hold.sh"), here(HOLD))?;
        std::fs::write(folder.join("stage.toml"), here(TASKS))?;
        let mut stage = Self { world, client, folder, ticking: Vec::new() };
        stage.ticking_job("stage/clock", CLOCK).await?;
        Ok(stage)
    }

    /// Adds to the tasks of executors that are launched later.
    pub(crate) fn add_tasks(&self, text: &str) -> Result<()> {
        let file = self.folder.join("stage.toml");
        let tasks = std::fs::read_to_string(&file)? + text;
        Ok(std::fs::write(file, tasks)?)
    }

    /// Starts an executor.
    pub(crate) fn launch(&mut self, launch: &Launch<'_>) -> Result<()> {
        let (concurrency, tasks) = (launch.concurrency.to_string(), self.folder.join("stage.toml"));
        let millis = |span: Duration| format!("{}ms", span.as_millis());
        let (ack_wait, drain) = (millis(launch.ack_wait), millis(launch.drain));
        let tasks = tasks.to_str().context("a folder in UTF-8")?;
        let options = [
            ["--queue", launch.queue],
            ["--concurrency", &concurrency],
            ["--ack-wait", &ack_wait],
            ["--drain", &drain],
            ["--tasks", tasks],
        ];
        let urls = launch.url.clone().map_or_else(|| self.world.urls(), |url| vec![url]);
        self.world.serve(launch.node, "executor", &urls, options.as_flattened())
    }

    /// What answers the task `ask`.
    pub(crate) async fn responder(&self) -> Result<Responder> {
        Responder::start(&self.world.urls(), ASK).await
    }

    /// Defines a job on queue `work` that only triggers fire; `more` are further fields.
    pub(crate) async fn job(&self, job: &str, task: &str, more: &str) -> Result<JobId> {
        let job: JobId = job.parse()?;
        let more = if more.is_empty() { String::new() } else { format!(",{more}") };
        let schedule = r#""schedule":{"at":"2199-01-01T00:00:00Z"},"overlap":"allow""#;
        let body = format!(r#"{{"task":"{task}","queue":"work",{schedule}{more}}}"#);
        self.client.change(self.world.recorder(), Verb::Define, &job, &body).await?;
        Ok(job)
    }

    /// Defines a job with slots, which is paused at the end.
    pub(crate) async fn ticking_job(&mut self, job: &str, body: &str) -> Result<JobId> {
        let job: JobId = job.parse()?;
        self.client.change(self.world.recorder(), Verb::Define, &job, body).await?;
        self.ticking.push(job.clone());
        Ok(job)
    }

    /// Triggers a job and waits for its first fire.
    pub(crate) async fn trigger(&self, job: &JobId) -> Result<Fired> {
        self.trigger_with(job, "").await
    }

    /// The same with a body.
    pub(crate) async fn trigger_with(&self, job: &JobId, body: &str) -> Result<Fired> {
        let command = self.client.send(Verb::Trigger, job, body).await?;
        let caused = |fired: &Fired| match &fired.cause {
            Cause::Trigger(cause) => cause.command == command && fired.fire_no == 1,
            Cause::Slot(_) | Cause::Backfill(_) => false,
        };
        let fired = |record: &Record| {
            fires(record).find(|(_, fired)| caused(fired)).map(|(_, fired)| fired.clone())
        };
        self.until(&format!("the fire of trigger {command} of {job}"), fired).await
    }

    /// Publishes so many triggers, one after the other to each of the jobs.
    pub(crate) async fn trigger_many(&self, jobs: &[JobId], count: usize) -> Result<()> {
        let nats = Nats::connect(&self.world.urls()).await?;
        for (number, job) in (1..=count).zip(jobs.iter().cycle()) {
            let subject = Prefix::default().command(Verb::Trigger, job);
            if number % UNCONFIRMED_MAX == 0 || number == count {
                nats.store(&subject, &Vec::new(), b"").await?;
            } else {
                nats.publish(&subject, &Vec::new(), b"").await?;
            }
        }
        Ok(())
    }

    /// Waits for something in the streams.
    pub(crate) async fn until<T>(
        &self,
        what: &str,
        found: impl FnMut(&Record) -> Option<T>,
    ) -> Result<T> {
        self.world.recorder().until(what, PATIENCE, found).await
    }

    /// Waits until so much time has passed, by the slots of the clock job.
    pub(crate) async fn pass(&self, time: Duration) -> Result<()> {
        let clock = "stage/clock".parse()?;
        fired_after(self.world, &clock, now().plus(time), PATIENCE).await.map(drop)
    }

    /// Waits for the so-manieth event of a run, from 1.
    pub(crate) async fn event(&self, run: RunId, number: usize) -> Result<Stored<RunEvent>> {
        let nth = |record: &Record| events(record, run).nth(number - 1).cloned();
        let what = format!("event {number} of run {run}");
        self.until(&what, nth).await.with_context(|| format!("so far {:?}", self.events(run)))
    }

    /// Waits until a run has as many events as expected, and compares them.
    pub(crate) async fn transcript(&self, run: RunId, expected: &[&str]) -> Result<()> {
        self.event(run, expected.len()).await?;
        let found = self.events(run);
        ensure!(found == expected, "run {run} went {found:?} in place of {expected:?}");
        Ok(())
    }

    /// A run's events so far, as `started 1.1.1`: kind, fire, delivery, attempt.
    pub(crate) fn events(&self, run: RunId) -> Vec<String> {
        let record = self.world.recorder().now();
        let text = |stored: &Stored<RunEvent>| {
            let Place { fire_no, delivery, attempt } = stored.event.place();
            format!("{} {fire_no}.{delivery}.{attempt}", stored.event.kind())
        };
        events(&record, run).map(text).collect()
    }

    /// Waits for a fire of a run and gives it with what the broker knows of it.
    pub(crate) async fn fire(&self, run: RunId, fire_no: u32) -> Result<Stored<LogEvent>> {
        let found = |record: &Record| {
            let mut fires = fires(record);
            fires.find(|(_, f)| f.run == run && f.fire_no == fire_no).map(|(s, _)| s.clone())
        };
        self.until(&format!("fire {fire_no} of run {run}"), found).await
    }

    /// An executor's report, where it gives one.
    pub(crate) async fn executor(&self, node: &str) -> Result<Option<ExecutorStatus>> {
        let status = self.world.ask("status", &[]).await?;
        let nodes: Vec<NodeStatus> = serde_json::from_value(status["executors"].clone())?;
        let found = nodes.into_iter().find(|it| it.node.as_str() == node).map(|it| it.role);
        let Some(Role::Executor(executor)) = found else { return Ok(None) };
        Ok(Some(executor))
    }

    /// Asks an executor for its report until it is as expected.
    pub(crate) async fn reports(
        &self,
        node: &str,
        what: &str,
        expected: impl Fn(&ExecutorStatus) -> bool,
    ) -> Result<ExecutorStatus> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.executor(node).await? {
                Some(status) if expected(&status) => return Ok(status),
                status if Instant::now() >= deadline => bail!("{node}: {what}: not {status:?}"),
                Some(_) | None => sleep(LOOK).await,
            }
        }
    }

    /// Waits until an executor counts so.
    pub(crate) async fn counts(
        &self,
        node: &str,
        what: &str,
        expected: impl Fn(&ExecutorCounters) -> bool,
    ) -> Result<ExecutorCounters> {
        Ok(self.reports(node, what, |status| expected(&status.counters)).await?.counters)
    }

    /// What the consumer of queue `work` tells of itself.
    pub(crate) async fn consumer(&self) -> Result<Value> {
        let nats = Nats::connect(&self.world.urls()).await?;
        nats.ask("CONSUMER.INFO.CRON_LOG.work", &Value::Null).await
    }

    /// Waits until every fire of queue `work` is settled.
    pub(crate) async fn settled(&self) -> Result<()> {
        let none = |it: &Value| it["num_pending"] == 0 && it["num_ack_pending"] == 0;
        self.consumer_tells("that all is settled", none).await
    }

    /// Asks the consumer of queue `work` until its answer is as expected.
    pub(crate) async fn consumer_tells(
        &self,
        what: &str,
        expected: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.consumer().await {
                Ok(info) if expected(&info) => return Ok(()),
                told if Instant::now() >= deadline => bail!("{what}: not {told:?}"),
                Ok(_) | Err(_) => sleep(LOOK).await,
            }
        }
    }

    /// Waits until an attempt of `hold` runs, and gives its process and its child's.
    pub(crate) async fn held(&self, run: RunId, attempt: u32) -> Result<[u32; 2]> {
        let text = self.written(&format!("held.{run}.{attempt}")).await?;
        let pids: Vec<u32> = text.split_ascii_whitespace().flat_map(str::parse).collect();
        pids.try_into().ok().with_context(|| format!("two processes, not {text:?}"))
    }

    /// Lets an attempt of `hold` end.
    pub(crate) fn let_go(&self, run: RunId, attempt: u32) -> Result<()> {
        Ok(std::fs::write(self.folder.join(format!("go.{run}.{attempt}")), "")?)
    }

    /// Waits for a file of the stage's folder and reads it.
    pub(crate) async fn written(&self, name: &str) -> Result<String> {
        let file = self.folder.join(name);
        let read = || std::fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n'));
        look(&format!("{name} to be written"), read).await
    }

    /// Pauses the jobs with slots.
    pub(crate) async fn pause(&mut self) -> Result<()> {
        let clock = |record: &Record| {
            fires(record).any(|(_, fired)| fired.queue.as_str() == "clock").then_some(())
        };
        // The checker asks for one slot at least.
        self.until("a slot of the clock", clock).await?;
        for job in std::mem::take(&mut self.ticking) {
            self.client.change(self.world.recorder(), Verb::Pause, &job, "").await?;
        }
        Ok(())
    }

    /// Lets everything end and holds it against the guarantees.
    async fn judge(&mut self) -> Result<()> {
        self.pause().await?;
        settle(self.world, &[]).await?;
        self.world.recorder().caught_up(Stream::Dead, PATIENCE).await?;
        let terms = Terms {
            through: now(),
            max_clock_error: Duration::from_millis(500),
            faults_since: None,
            held_at_end: Held::Undecided,
        };
        check(&self.world.history().await?, &terms).passed()
    }
}

/// The events of a run, in order.
pub(crate) fn events(record: &Record, run: RunId) -> impl Iterator<Item = &Stored<RunEvent>> {
    let of_run = move |stored: &&Stored<RunEvent>| {
        Prefix::default().parse_run(&stored.subject).is_some_and(|key| key.shard.run == run)
    };
    record.runs.values().filter(of_run)
}

/// Waits until a process is gone.
pub(crate) async fn gone(pid: u32) -> Result<()> {
    look(&format!("process {pid} to be gone"), || (!lives(pid)).then_some(())).await
}

/// Whether a process lives; one that only waits to be reaped does not.
pub(crate) fn lives(pid: u32) -> bool {
    let stat = Path::new("/proc").join(pid.to_string()).join("stat");
    let stat = std::fs::read_to_string(stat).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with('Z'))
}

/// Looks again and again at what gives no signal.
async fn look<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match found() {
            Some(found) => return Ok(found),
            None if Instant::now() >= deadline => bail!("waited in vain for {what}"),
            None => sleep(LOOK).await,
        }
    }
}
