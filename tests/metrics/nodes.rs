//! Real nodes: what they serve, and when they are ready.

use std::net::TcpListener;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use cronstream_schemas::command::Verb;
use cronstream_tests::client::Client;
use cronstream_tests::ports;
use cronstream_tests::process::Process;
use cronstream_tests::world::{Brokers, Setup, World};
use serde_json::{Value, json};

use crate::http::{self, Answer};
use crate::rules::shipped;
use crate::tools::Tools;

const TASKS: &str = r#"
[tasks.good]
command = ["/bin/true"]
[tasks.bad]
command = ["/bin/false"]
[tasks.slow]
command = ["/bin/sleep", "60"]
"#;
const GOOD: &str = r#"{"task":"good","queue":"work","schedule":{"every":"1s"},"overlap":"allow"}"#;
const BAD: &str =
    r#"{"task":"bad","queue":"work","schedule":{"every":"1s"},"overlap":"allow","max_attempts":1}"#;

const SLOW: &str = r#"{"task":"slow","queue":"work","schedule":{"every":"1s"}}"#;

/// Where nothing listens: for a relay without a collector.
const NOWHERE: &str = "http://127.0.0.1:9";

/// A ticker, an executor and a relay, and where they serve.
struct Nodes<'w> {
    world: &'w mut World,
    ticker: String,
    executor: String,
    relay: String,
}

fn free() -> Result<String> {
    Ok(format!("127.0.0.1:{}", ports::free()?))
}

impl<'w> Nodes<'w> {
    async fn start(world: &'w mut World) -> Result<Self> {
        let (ticker, executor, relay) = (free()?, free()?, free()?);
        world.ticker("t1", &["--metrics", &ticker])?;
        world.led().await?;
        let tasks = folder(world)?.join("nodes.toml");
        std::fs::write(&tasks, TASKS)?;
        let tasks = tasks.to_str().context("a folder in UTF-8")?;
        let urls = world.urls();
        let options = ["--queue", "work", "--tasks", tasks, "--metrics", &executor];
        world.serve("e1", "executor", &urls, &options)?;
        world.serve("r1", "relay", &urls, &["--otlp", NOWHERE, "--metrics", &relay])?;
        Ok(Self { world, ticker, executor, relay })
    }

    fn all(&self) -> [&str; 3] {
        [&self.ticker, &self.executor, &self.relay]
    }

    async fn define(&self, job: &str, body: &str) -> Result<()> {
        let client = Client::new(&self.world.urls());
        client.change(self.world.recorder(), Verb::Define, &job.parse()?, body).await?;
        Ok(())
    }

    async fn has(&self, address: &str, start: &str) -> Result<()> {
        http::until(address, "/metrics", |answer| {
            answer.body.lines().any(|line| line.starts_with(start)).then_some(())
        })
        .await
        .with_context(|| start.to_owned())
    }
}

fn folder(world: &World) -> Result<PathBuf> {
    Ok(world.effects().tasks().parent().context("a folder")?.to_owned())
}

fn ready(answer: &Answer) -> Option<()> {
    (answer.status == 200).then_some(())
}

/// Not ready, for a reason that says this.
fn because(reason: &str) -> impl Fn(&Answer) -> Option<()> {
    move |answer| (answer.status == 503 && answer.body.contains(reason)).then_some(())
}

#[tokio::test]
async fn prometheus_scrapes_every_role() -> Result<()> {
    let Some(tools) = Tools::find().await? else { return Ok(()) };
    World::with(Setup::new(Brokers::One), async |world| {
        let nodes = Nodes::start(world).await?;
        nodes.define("metrics/good", GOOD).await?;
        nodes.define("metrics/bad", BAD).await?;
        nodes.define("metrics/slow", SLOW).await?;
        nodes.has(&nodes.executor, r#"task_executions_total{task_name="bad",status="failed"}"#).await?;
        nodes.has(&nodes.relay, "cronstream_relay_failures_total").await?;
        for address in nodes.all() {
            let metrics = http::get(address, "/metrics").await?.body;
            let said = tools.promtool(&["check", "metrics"], &metrics).await?;
            ensure!(said.trim().is_empty(), "{address}: promtool minds {said}\n{metrics}");
        }
        let (address, _prometheus) = prometheus(&tools, &nodes)?;
        let some = |value: f64| value > 0.0;
        for (expression, expected) in [
            ("sum(up)", (|value| value == 3.0) as fn(f64) -> bool),
            (r#"task_executions_total{job="executor",task_name="good",status="succeeded"}"#, some),
            (r#"task_executions_total{job="executor",task_name="bad",status="failed"}"#, some),
            (r#"task_duration_seconds_count{task_name="good"}"#, some),
            (r#"task_schedule_delay_seconds_bucket{task_name="good",le="5.0"} or task_schedule_delay_seconds_bucket{task_name="good",le="5"}"#, some),
            ("task_dead_letter_size", some),
            ("sum(cronstream_leader)", |value| value == 3.0),
            ("min(cronstream_epoch)", |value| value >= 1.0),
            ("max(cronstream_cursor_lag_seconds)", |value| value < 30.0),
            ("max(cronstream_command_lag)", |value| value == 0.0),
            ("sum(cronstream_jobs)", |value| value == 3.0),
            ("cronstream_batch_duration_seconds_count", some),
            (r#"cronstream_fires_total{queue="work"}"#, some),
            (r#"cronstream_skipped_slots_total{job_name="metrics/slow",reason="overlap"}"#, some),
            (r#"cronstream_starts_total{queue="work"}"#, some),
            ("abs(cronstream_clock_ahead_seconds)", |value| value < 5.0),
            ("sum(cronstream_spans_published_total)", some),
            ("sum(cronstream_spans_dropped_total)", |value| value == 0.0),
            ("cronstream_relay_failures_total", some),
            (r#"count(cronstream_build_info{version!=""})"#, |value| value == 3.0),
        ] {
            http::value(&address, expression, expected).await?;
        }
        evaluated(&address).await
    })
    .await
}

/// Starts a Prometheus that scrapes the nodes and evaluates the alerts that are shipped.
fn prometheus(tools: &Tools, nodes: &Nodes<'_>) -> Result<(String, Process)> {
    let (address, folder) = (free()?, folder(nodes.world)?);
    let job =
        |(name, address)| json!({"job_name": name, "static_configs": [{"targets": [address]}]});
    let jobs: Vec<Value> =
        ["ticker", "executor", "relay"].into_iter().zip(nodes.all()).map(job).collect();
    let config = json!({
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [shipped("deploy/alerts.yml")],
        "scrape_configs": jobs,
    });
    let file = folder.join("prometheus.yml");
    std::fs::write(&file, config.to_string())?;
    let args = [
        format!("--config.file={}", file.display()),
        format!("--storage.tsdb.path={}", folder.join("prometheus").display()),
        format!("--web.listen-address={address}"),
    ];
    let args = args.into_iter().map(Into::into).collect();
    let process = Process::spawn(&tools.prometheus, args, folder.join("prometheus.log"))?;
    Ok((address, process))
}

/// Waits until every shipped rule was evaluated on real samples, and none failed.
async fn evaluated(prometheus: &str) -> Result<()> {
    http::until(prometheus, "/api/v1/rules", |answer| {
        let answer: Value = serde_json::from_str(&answer.body).ok()?;
        let rules = answer["data"]["groups"][0]["rules"].as_array()?;
        rules.iter().all(|rule| rule["health"] == "ok").then_some(())
    })
    .await
}

#[tokio::test]
async fn readiness_follows_the_clock_the_broker_and_the_collector() -> Result<()> {
    World::with(Setup::new(Brokers::One), async |world| {
        let nodes = Nodes::start(world).await?;
        http::until(&nodes.ticker, "/readyz", ready).await?;
        http::until(&nodes.executor, "/readyz", ready).await?;

        nodes.world.set_clock("t1", 5_000)?;
        http::until(&nodes.ticker, "/readyz", because("its clock is off")).await?;
        ensure!(
            http::get(&nodes.ticker, "/healthz").await?.status == 200,
            "a wrong clock is alive"
        );
        nodes.has(&nodes.ticker, "cronstream_ready 0").await?;
        nodes.world.set_clock("t1", 0)?;
        http::until(&nodes.ticker, "/readyz", ready).await?;
        // Told once, however often the loop came by, with what was measured.
        let log = std::fs::read_to_string(nodes.world.process("t1")?.log())?;
        let told = |what: &str| log.lines().filter(|line| line.contains(what)).collect::<Vec<_>>();
        let given_up = told("giving every partition up");
        ensure!(given_up.len() == 1, "{given_up:?}");
        for said in ["WARN", "clock-skew", "offset_ms"] {
            ensure!(given_up[0].contains(said), "{said}: {given_up:?}");
        }
        ensure!(told("the clock is right again").len() == 1, "{log}");

        // A relay without work is ready as soon as it can pull, not only with the next spans.
        http::until(&nodes.relay, "/readyz", ready).await?;
        nodes.world.kill_broker_leader().await?;
        http::until(&nodes.relay, "/readyz", because("cannot pull spans")).await?;
        nodes.world.restart_broker(0).await?;
        http::until(&nodes.relay, "/readyz", ready).await?;

        nodes.define("metrics/good", GOOD).await?;
        http::until(&nodes.relay, "/readyz", because("the collector does not take spans")).await?;

        nodes.world.kill_broker_leader().await?;
        http::until(&nodes.ticker, "/readyz", because("")).await?;
        http::until(&nodes.executor, "/readyz", because("cannot pull fires")).await?;
        for address in nodes.all() {
            let answer = http::get(address, "/healthz").await?;
            ensure!(answer.status == 200, "{address} without a broker: {answer:?}");
        }
        nodes.world.restart_broker(0).await?;
        http::until(&nodes.ticker, "/readyz", ready).await?;
        http::until(&nodes.executor, "/readyz", ready).await
    })
    .await
}

#[tokio::test]
async fn a_node_that_hangs_is_found_by_its_endpoint_being_silent() -> Result<()> {
    World::with(Setup::new(Brokers::One), async |world| {
        let nodes = Nodes::start(world).await?;
        http::until(&nodes.ticker, "/readyz", ready).await?;
        nodes.world.process("t1")?.pause()?;
        let silent = http::get(&nodes.ticker, "/healthz").await;
        nodes.world.process("t1")?.resume()?;
        ensure!(silent.is_err(), "a stopped process answers {silent:?}");
        http::until(&nodes.ticker, "/readyz", ready).await
    })
    .await
}

#[tokio::test]
async fn an_address_that_is_taken_ends_the_node_with_a_name_for_it() -> Result<()> {
    World::with(Setup::new(Brokers::One), async |world| {
        let taken = TcpListener::bind("127.0.0.1:0")?;
        let address = taken.local_addr()?.to_string();
        let output = world.call("ticker", &["--metrics", &address]).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1), "{output:?}");
        ensure!(said.contains("error[port-taken]: cannot serve metrics on 127.0.0.1:"), "{said}");
        Ok(())
    })
    .await
}
