//! How long `explain` and `next` take on a long log: a log of events as a leader writes them, asked by the program.
//!
//! A few events in CI, which shows that the answers are right; ten million by
//! `CRONSTREAM_LOG_EVENTS=10000000 cargo test --release -p cronstream-tests --test explain long_log -- --nocapture`,
//! which prints how long each answer took and fails above [`ANSWER_MAX`]. It needs 11 GB in the temporary folder.
//!
//! Invariant: slots, run ids and broker timestamps agree, as the instants are those of the writing.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cronstream_schemas::definition::Draft;
use cronstream_schemas::event::{JobState, LogEvent, Overrides};
use cronstream_schemas::id::{Incarnation, Revision, RunId, RunSeed};
use cronstream_schemas::name::JobId;
use cronstream_schemas::time::Timestamp;
use cronstream_server::{Server, ServerConfig};
use cronstream_tests::jetstream::StoreAnswer;
use cronstream_tests::nats::{Headers, Nats};
use cronstream_tests::process::program;
use cronstream_tests::world::now;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::Instant;

/// The variable that says how many events the log has.
const EVENTS_VARIABLE: &str = "CRONSTREAM_LOG_EVENTS";
/// How many events it has in CI.
const EVENTS: u64 = 6_000;
/// The longest answer on a long log, with the start of the program.
const ANSWER_MAX: Duration = Duration::from_millis(200);
/// The fewest and the most jobs that are due every 100 ms: a two-hundredth of the events.
const JOBS: (u64, u64) = (100, 50_000);
/// Every so many slots of the busy jobs the quiet job is due, so often in all.
const QUIET: u64 = 12;
/// Messages that are on their way at most.
const IN_FLIGHT: usize = 1_000;
/// How often each question is asked.
const ASKED: usize = 5;

/// A question, and the outcome that is right.
struct Question {
    what: &'static str,
    job: JobId,
    at: Timestamp,
    outcome: &'static str,
}

/// Writes a log as a leader would.
struct Writer {
    nats: Nats,
    batch: Vec<(String, Headers, String)>,
    written: u64,
    tick: u64,
}

impl Writer {
    async fn add(&mut self, subject: String, keep: &str, body: String) -> Result<()> {
        let mut headers = vec![("Cron-Tick".to_owned(), format!("7.{}", self.tick))];
        if !keep.is_empty() {
            headers.push(("Nats-TTL".to_owned(), keep.to_owned()));
        }
        self.batch.push((subject, headers, body));
        self.written += 1;
        if self.batch.len() >= IN_FLIGHT { self.flush().await } else { Ok(()) }
    }

    /// Sends what waits; the answer to the last message comes behind those to all before it.
    async fn flush(&mut self) -> Result<()> {
        let Some((subject, headers, body)) = self.batch.pop() else { return Ok(()) };
        for (subject, headers, body) in self.batch.drain(..) {
            self.nats.publish(&subject, &headers, body.as_bytes()).await?;
        }
        let answer = self.nats.store(&subject, &headers, body.as_bytes()).await?;
        ensure!(matches!(answer, StoreAnswer::At(_)), "{subject}: {answer:?}");
        self.tick += 1;
        Ok(())
    }

    async fn define(&mut self, job: &JobId, every: &str, anchor: Timestamp) -> Result<()> {
        let body = format!(r#"{{"task":"t","queue":"q","schedule":{{"every":"{every}"}}}}"#);
        let definition = Draft::decode(body.as_bytes()).finish().ok();
        let state = JobState {
            job: job.clone(),
            revision: Revision(1),
            incarnation: Incarnation(1),
            definition,
            anchor,
            effective_after: anchor,
            paused: None,
            overrides: Overrides::default(),
            tzdb: Some("2026f".to_owned().into()),
            command: 1,
            at: anchor,
        };
        let text = serde_json::to_string(&LogEvent::JobRevised(state.clone()))?;
        self.add(format!("cron.history.{}.{}", job.namespace, job.name), "", text).await?;
        let text = serde_json::to_string(&LogEvent::JobDefined(state))?;
        self.add(format!("cron.job.{}.{}", job.namespace, job.name), "", text).await
    }

    async fn fired(&mut self, job: &JobId, slot: Timestamp) -> Result<RunId> {
        let run = RunId::derive(slot, job, Incarnation(1), RunSeed::Slot(slot));
        let end = slot.plus(Duration::from_secs(86_400));
        let trace = run.to_string().replace('-', "");
        let body = format!(
            r#"{{"fired":{{"job":"{job}","revision":1,"incarnation":1,"run":"{run}","shard":0,"shards":1,"fire_no":1,"cause":{{"slot":"{slot}"}},"scheduled_at":"{slot}","fired_at":"{}","queue":"q","task":"t","params":{{"month":"2027-01","tenant":"acme"}},"timeout":"1h","start_by":"{end}","run_by":"{end}","keep_until":"{end}","retry":{{"max_attempts":3,"base":"1s","cap":"5m"}},"epoch":7,"traceparent":"00-{trace}-{}-01","node":"t1","tzdb":"2026f"}}}}"#,
            now(),
            &trace[..16]
        );
        let subject = format!("cron.fire.q.{}.{}", job.namespace, job.name);
        self.add(subject, "777600s", body).await?;
        Ok(run)
    }

    async fn skipped(&mut self, job: &JobId, slot: Timestamp) -> Result<()> {
        let body = format!(
            r#"{{"skipped":{{"job":"{job}","revision":1,"incarnation":1,"reason":"overlap","what":{{"slots":{{"first":"{slot}","last":"{slot}","count":1}}}},"at":"{}","epoch":7,"node":"t1"}}}}"#,
            now()
        );
        let subject = format!("cron.skipped.{}.{}", job.namespace, job.name);
        self.add(subject, "2592000s", body).await
    }

    /// An outcome of the quiet job, each kind in its turn.
    async fn quiet(&mut self, job: &JobId, slot: Timestamp, turn: u64) -> Result<&'static str> {
        if turn.is_multiple_of(2) {
            let run = self.fired(job, slot).await?;
            self.ran(job, run).await?;
            return Ok("ran");
        }
        self.skipped(job, slot).await?;
        Ok("skipped")
    }

    /// The run's events, in their own stream.
    async fn ran(&mut self, job: &JobId, run: RunId) -> Result<()> {
        self.flush().await?;
        let place = json!({ "fire_no": 1, "delivery": 1, "attempt": 1 });
        let body = json!({ "place": place, "executor": { "node": "e1", "instance": run } });
        let subject = format!("cron.run.q.{}.{}.{run}.0", job.namespace, job.name);
        for kind in ["started", "succeeded"] {
            let event = json!({ kind: body }).to_string();
            self.nats.store(&subject, &Vec::new(), event.as_bytes()).await?;
        }
        Ok(())
    }
}

fn name(number: u64) -> Result<JobId> {
    Ok(format!("busy/j{number}").parse()?)
}

fn multiple(at: Timestamp, millis: i64) -> Timestamp {
    Timestamp::from_millis(at.as_millis().div_euclid(millis) * millis)
}

/// Writes the log and returns what may be asked of it.
async fn write(writer: &mut Writer, events: u64) -> Result<Vec<Question>> {
    let anchor = multiple(now().minus(Duration::from_secs(10)), 2_000);
    let quiet: JobId = "quiet/job".parse()?;
    let jobs = (events / 200).clamp(JOBS.0, JOBS.1);
    for number in 0..jobs {
        writer.define(&name(number)?, "100ms", anchor).await?;
    }
    writer.define(&quiet, "2s", anchor).await?;
    let meta = json!({ "meta": { "partitions": 1 } }).to_string();
    writer.add("cron.meta".to_owned(), "", meta).await?;
    let (mut questions, mut rounds, mut last) = (Vec::new(), 0_u64, (anchor, anchor));
    let (mut due, each) = (writer.written, events / QUIET);
    while writer.written < events {
        let slot = multiple(now(), 100);
        if slot <= last.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        }
        last.0 = slot;
        for number in 0..jobs {
            match number % 20 {
                7 => writer.skipped(&name(number)?, slot).await?,
                _ => _ = writer.fired(&name(number)?, slot).await?,
            }
        }
        writer.flush().await?;
        let second = multiple(now(), 2_000);
        if writer.written >= due && second > last.1 {
            last.1 = second;
            due += each;
            let outcome = writer.quiet(&quiet, second, rounds).await?;
            let ask =
                |what, job: &JobId, at, outcome| Question { what, job: job.clone(), at, outcome };
            questions.push(ask("a quiet job", &quiet, second, outcome));
            let between = second.plus(Duration::from_millis(1_000));
            questions.push(ask("an instant without a slot", &quiet, between, "no_slot"));
            questions.push(ask("a busy job that fired", &name(3)?, slot, "waiting"));
            questions.push(ask("a busy job that skipped", &name(7)?, slot, "skipped"));
            rounds += 1;
        }
    }
    while multiple(now(), 2_000) <= last.1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let waits = multiple(now(), 2_000);
    writer.fired(&quiet, waits).await?;
    writer.flush().await?;
    questions.push(Question {
        what: "a run that waits",
        job: quiet.clone(),
        at: waits,
        outcome: "waiting",
    });
    let ahead = multiple(now(), 2_000).plus(Duration::from_secs(7_200));
    questions.push(Question { what: "to come", job: quiet, at: ahead, outcome: "will_run" });
    Ok(questions)
}

async fn ask(url: &str, arguments: &[&str]) -> Result<(Value, Duration)> {
    let begun = Instant::now();
    let mut command = Command::new(program()?);
    command.args(arguments).args(["--json", "--nats", url]);
    let output = command.kill_on_drop(true).output().await?;
    let took = begun.elapsed();
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let line = output.stdout.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok((serde_json::from_slice(line)?, took))
}

/// Asks everything, several times; a line for each question, and the longest of the medians.
async fn measure(url: &str, questions: &[Question], report: &mut String) -> Result<Duration> {
    let mut worst = Duration::ZERO;
    for Question { what, job, at, outcome } in questions {
        let (job, at) = (job.to_string(), at.to_string());
        let mut took = Vec::new();
        for _ in 0..ASKED {
            let (told, time) = ask(url, &["explain", &job, "--at", &at]).await?;
            let right =
                told["outcome"] == *outcome || (*outcome == "ran" && told["outcome"] == "ran_late");
            ensure!(right, "{what} ({job} at {at}) is {outcome}, and not: {told}");
            took.push(time);
        }
        let median = line(report, what, &mut took)?;
        worst = worst.max(median);
    }
    let mut took = Vec::new();
    for _ in 0..ASKED {
        took.push(ask(url, &["next", "quiet/job"]).await?.1);
    }
    Ok(worst.max(line(report, "next", &mut took)?))
}

fn line(report: &mut String, what: &str, took: &mut [Duration]) -> Result<Duration> {
    let first = *took.first().context("nothing was asked")?;
    took.sort();
    let (median, longest) = (took[took.len() / 2], took[took.len() - 1]);
    writeln!(
        report,
        "{what:<26} first {first:>10.1?}  median {median:>10.1?}  longest {longest:>10.1?}"
    )?;
    Ok(median)
}

async fn serve(dir: &Path) -> Result<Server> {
    let binary = cronstream_server::ensure(&mut |line| tracing::info!("{line}")).await?;
    let config = ServerConfig { sync_always: false, ..ServerConfig::new(dir) };
    Ok(Server::start(&binary, config).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_and_next_answer_at_once_on_a_long_log() -> Result<()> {
    let wanted = std::env::var(EVENTS_VARIABLE).ok();
    let events = wanted.as_ref().map_or(Ok(EVENTS), |text| text.parse())?;
    let dir = tempfile::tempdir()?;
    let mut server = serve(&dir.path().join("nats")).await?;
    let init = Command::new(program()?)
        .args(["init", "--partitions", "1", "--nats", &server.url()])
        .output()
        .await?;
    ensure!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
    let begun = Instant::now();
    let nats = Nats::connect(&[server.url()]).await?;
    let mut writer = Writer { nats, batch: Vec::new(), written: 0, tick: 1 };
    let questions = write(&mut writer, events).await?;
    let ends = writer.nats.ends("CRON_LOG").await?;
    ensure!(ends.last >= events, "{} of {events} events are stored", ends.last);
    let mut report = format!("{} events written in {:.1?}\n", ends.last, begun.elapsed());
    let mut worst = measure(&server.url(), &questions, &mut report).await?;
    if wanted.is_some() {
        server.stop().await?;
        server.restart().await?;
        server.wait_ready(Duration::from_secs(600)).await?;
        report.push_str("after a restart of the server\n");
        worst = worst.max(measure(&server.url(), &questions, &mut report).await?);
    }
    println!("{report}");
    ensure!(
        wanted.is_none() || worst <= ANSWER_MAX,
        "the slowest answer took {worst:?}:\n{report}"
    );
    server.stop().await?;
    Ok(())
}
