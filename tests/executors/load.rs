//! Thousands of runs: executors come and go under them, two thousand run at once, and those that nobody here knows
//! keep no other waiting.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use cronstream_schemas::event::RunEvent;
use cronstream_schemas::id::RunId;
use cronstream_schemas::name::JobId;
use cronstream_schemas::subject::Prefix;
use cronstream_tests::exclusive::Exclusive;
use cronstream_tests::record::Record;
use cronstream_tests::world::Brokers;

use crate::stage::{Launch, PATIENCE, Stage, play};

/// Counts run events without reading any of them twice.
#[derive(Debug, Default)]
struct Tally {
    seen: u64,
    kinds: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn of(&mut self, record: &Record, task: &str) -> &BTreeMap<&'static str, usize> {
        for (sequence, stored) in record.runs.range(self.seen + 1..) {
            self.seen = *sequence;
            if stored.subject.contains(task) {
                *self.kinds.entry(stored.event.kind()).or_default() += 1;
            }
        }
        &self.kinds
    }
}

/// Waits until so many events of a kind stand on subjects that contain a name.
async fn until_so_many(stage: &Stage<'_>, name: &str, kind: &str, count: usize) -> Result<()> {
    let mut tally = Tally::default();
    let reached = |record: &Record| {
        (tally.of(record, name).get(kind).copied().unwrap_or(0) >= count).then_some(())
    };
    stage.until(&format!("{count} times {kind} of {name}"), reached).await
}

async fn jobs(stage: &Stage<'_>, name: &str, task: &str, count: usize) -> Result<Vec<JobId>> {
    let mut jobs = Vec::with_capacity(count);
    for number in 0..count {
        jobs.push(stage.job(&format!("load/{name}-{number}"), task, r#""max_attempts":20"#).await?);
    }
    Ok(jobs)
}

/// The events of each run on subjects that contain a name, as their kinds.
fn kinds(record: &Record, name: &str) -> BTreeMap<RunId, Vec<&'static str>> {
    let mut runs: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for stored in record.runs.values().filter(|stored| stored.subject.contains(name)) {
        if let Some(key) = Prefix::default().parse_run(&stored.subject) {
            runs.entry(key.shard.run).or_default().push(stored.event.kind());
        }
    }
    runs
}

#[tokio::test(flavor = "multi_thread")]
async fn executors_that_come_and_go_lose_no_run() -> Result<()> {
    const RUNS: usize = 3_000;
    // Jobs with a slot every second besides; the checker asks for their results.
    const SLOTTED: usize = 10;
    let _turn = Exclusive::acquire().await?;
    play(Brokers::One, async |stage| {
        let _answering = stage.responder().await?.echo_for_ever();
        let jobs = jobs(stage, "scale", "ask", 10).await?;
        for number in 0..SLOTTED {
            let body = r#"{"task":"ask","queue":"work","schedule":{"every":"1s"},"overlap":"allow","max_attempts":20}"#;
            stage.ticking_job(&format!("load/slots-{number}"), body).await?;
        }
        // From nobody ...
        stage.trigger_many(&jobs, RUNS / 2).await?;
        let launch = |node| Launch { concurrency: 32, ..Launch::new(node) };
        for node in ["a", "b", "c", "d"] {
            stage.launch(&launch(node))?;
        }
        stage.trigger_many(&jobs, RUNS / 2).await?;
        until_so_many(stage, "scale", "succeeded", RUNS / 6).await?;
        // ... over four, two of which are told to go and two of which die, to nobody ...
        for node in ["a", "b"] {
            stage.world.process(node)?.terminate()?;
        }
        for node in ["c", "d"] {
            stage.world.process(node)?.kill().await?;
        }
        for node in ["a", "b"] {
            ensure!(stage.world.process(node)?.ended(PATIENCE).await?.success());
        }
        let left = kinds(&stage.world.recorder().now(), "scale");
        let done = left.values().filter(|run| run.contains(&"succeeded")).count();
        println!("{done} of {RUNS} runs had a result when the last executor went");
        ensure!(done < RUNS, "everything had ended before the executors went");
        // ... to two that finish it all.
        for node in ["e", "f"] {
            stage.launch(&launch(node))?;
        }
        until_so_many(stage, "scale", "succeeded", RUNS).await?;
        stage.pause().await?;
        stage.settled().await?;
        let runs = kinds(&stage.world.recorder().now(), "scale");
        ensure!(runs.len() == RUNS, "{} runs of {RUNS}", runs.len());
        let crashed =
            runs.values().filter(|run| run.as_slice() != ["started", "succeeded"]).count();
        println!("{crashed} runs were begun more than once");
        for (run, kinds) in runs {
            let results = kinds.iter().filter(|kind| **kind == "succeeded").count();
            ensure!(results == 1 && kinds.last() == Some(&"succeeded"), "run {run}: {kinds:?}");
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_tasks_run_at_once_on_one_queue() -> Result<()> {
    const AT_ONCE: usize = 2_000;
    let _turn = Exclusive::acquire().await?;
    play(Brokers::One, async |stage| {
        let mut responder = stage.responder().await?;
        let jobs = jobs(stage, "many", "ask", 10).await?;
        let ack_wait = Duration::from_secs(9);
        stage.launch(&Launch { concurrency: 2_000, ack_wait, ..Launch::new("a") })?;
        stage.trigger_many(&jobs, AT_ONCE).await?;
        let mut running = Vec::with_capacity(AT_ONCE);
        while running.len() < AT_ONCE {
            running.push(responder.next().await?);
        }
        stage.reports("a", "2,000 running", |status| status.running == 2_000).await?;
        // Long enough for a fire that is not kept alive to come again.
        stage.pass(ack_wait + Duration::from_secs(3)).await?;
        let info = stage.consumer().await?;
        let unsettled = (&info["num_ack_pending"], &info["num_redelivered"]);
        ensure!(*unsettled.0 == AT_ONCE && *unsettled.1 == 0, "some have come again: {info}");
        for request in &running {
            responder.answer(request, "ok", "").await?;
        }
        until_so_many(stage, "many", "succeeded", AT_ONCE).await?;
        stage.settled().await?;
        for (run, kinds) in kinds(&stage.world.recorder().now(), "many") {
            ensure!(kinds == ["started", "succeeded"], "run {run}: {kinds:?}");
        }
        let counters = stage.counts("a", "the end", |it| it.succeeded == AT_ONCE as u64).await?;
        ensure!(counters.started == AT_ONCE as u64, "{counters:?}");
        Ok(())
    })
    .await
}

/// How long a run of a job waits for its start.
async fn wait_for_a_start(stage: &Stage<'_>, job: &JobId) -> Result<Duration> {
    let fired = stage.trigger(job).await?;
    let stored = stage.fire(fired.run, 1).await?.at;
    let started = stage.event(fired.run, 1).await?;
    ensure!(matches!(started.event, RunEvent::Started(_)), "{started:?}");
    Ok(started.at.since(stored))
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_unknown_tasks_delay_a_known_one_by_less_than_a_second() -> Result<()> {
    const UNKNOWN: usize = 5_000;
    const DELAY_MAX: Duration = Duration::from_secs(1);
    let _turn = Exclusive::acquire().await?;
    play(Brokers::One, async |stage| {
        let more = r#""start_within":"20s","timeout":"1s","max_attempts":1"#;
        let unknown = stage.job("load/unknown", "nobody-knows-it", more).await?;
        let known = stage.job("load/known", "ask", "").await?;
        let _answering = stage.responder().await?.echo_for_ever();
        // One before and one behind them, all there before the executor.
        let before = stage.trigger(&known).await?.run;
        stage.trigger_many(std::slice::from_ref(&unknown), UNKNOWN).await?;
        let behind = stage.trigger(&known).await?.run;
        let fired = |record: &Record| {
            let fires = record.log.values().filter(|it| it.subject.ends_with("load.unknown"));
            (fires.filter(|it| it.subject.starts_with("cron.fire.")).count() == UNKNOWN)
                .then_some(())
        };
        stage.until("all unknown fires", fired).await?;
        stage.launch(&Launch::new("a"))?;
        let begun = stage.event(before, 1).await?.at;
        let delay = stage.event(behind, 1).await?.at.since(begun);
        println!("{UNKNOWN} unknown tasks delayed the known one behind them by {delay:?}");
        ensure!(delay < DELAY_MAX, "{UNKNOWN} unknown tasks delayed a known one by {delay:?}");
        // Those that come again and again do so too.
        for _ in 0..3 {
            let delay = wait_for_a_start(stage, &known).await?;
            println!("unknown tasks that come again delayed a known one by {delay:?}");
            ensure!(delay < DELAY_MAX, "a known task waited {delay:?}");
        }
        let all = |it: &cronstream_schemas::status::ExecutorCounters| it.unknown_task >= 5_000;
        let counters = stage.counts("a", "the unknown ones", all).await?;
        ensure!(counters.started == 5, "{counters:?}");
        Ok(())
    })
    .await
}
