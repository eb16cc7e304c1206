//! What comes of a task: params and results bit for bit, output within bounds, and the counters that tell of it.

use anyhow::{Result, bail, ensure};
use cronstream_schemas::event::{RunEvent, Succeeded};
use cronstream_schemas::id::RunId;
use cronstream_tests::world::Brokers;

use crate::stage::{Launch, PATIENCE, Stage, play};
use crate::web::Web;

/// JSON that no reader of numbers would give back as it is.
const ODD: &str =
    r#"{"b":12345678901234567890,"a":1.10,"a":1E+2,"e":-0.0,"s":"\u0000\u00e9é\/", "x" : [ ]}"#;
/// The most bytes of output that an event keeps of each stream.
const KEPT_MAX: usize = 16 * 1024;

async fn succeeded(stage: &Stage<'_>, run: RunId) -> Result<Succeeded> {
    match stage.event(run, 2).await?.event {
        RunEvent::Succeeded(succeeded) => Ok(succeeded),
        other => bail!("no success: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn params_and_results_pass_every_handler_bit_for_bit() -> Result<()> {
    play(Brokers::One, async |stage| {
        let web = Web::start().await?;
        stage.add_tasks(&web.task("web")?)?;
        let params = format!(r#""params":{ODD}"#);
        let command = stage.job("work/command", "echo", &params).await?;
        let nats = stage.job("work/nats", "ask", &params).await?;
        let http = stage.job("work/http", "web", "").await?;
        let mut responder = stage.responder().await?;
        stage.launch(&Launch { concurrency: 4, ..Launch::new("a") })?;
        let command = stage.trigger(&command).await?.run;
        let asked = stage.trigger(&nats).await?.run;
        let request = responder.next().await?;
        ensure!(request.params == ODD, "asked with {}", request.params);
        responder.answer(&request, "ok", ODD).await?;
        let called = stage.trigger_with(&http, &format!(r#"{{{params}}}"#)).await?;
        ensure!(called.params.as_str() == ODD, "fired with {}", called.params.as_str());
        let call = web.next().await?;
        ensure!(call.body == ODD, "called with {}", call.body);
        let key = format!("idempotency-key: {}.0\r\n", called.run);
        ensure!(call.head.to_ascii_lowercase().contains(&key), "no {key} in {}", call.head);
        call.answer("200 OK", "content-type: application/json\r\n", ODD).await?;
        for run in [command, asked, called.run] {
            let result = succeeded(stage, run).await?.result;
            ensure!(result.as_ref().map(|json| json.as_str()) == Some(ODD), "{result:?}");
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_megabytes_of_output_leave_their_end_and_are_counted() -> Result<()> {
    play(Brokers::One, async |stage| {
        let job = stage.job("work/flood", "flood", "").await?;
        stage.launch(&Launch::new("a"))?;
        let run = stage.trigger(&job).await?.run;
        let Some(output) = succeeded(stage, run).await?.output else { bail!("no output") };
        let (stdout, stderr) = (output.stdout.len(), output.stderr.len());
        ensure!(stdout <= KEPT_MAX && stderr <= KEPT_MAX, "{stdout} and {stderr} bytes are kept");
        ensure!(output.stdout.ends_with("xend\n") && output.stderr.ends_with("yyy"));
        let all = (stdout + stderr) as u64 + output.dropped;
        ensure!(all == 20_000_004, "{all} bytes are accounted for");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_counters_tell_what_came_of_everything() -> Result<()> {
    play(Brokers::One, async |stage| {
        let job = stage.job("work/counted", "ask", r#""max_attempts":2"#).await?;
        let stranger = stage.job("work/stranger", "nobody-knows-it", "").await?;
        let mut responder = stage.responder().await?;
        stage.launch(&Launch { concurrency: 7, ..Launch::new("a") })?;
        let mut answered = Vec::new();
        for answers in [["ok"].as_slice(), &["retry", "ok"], &["retry", "retry"], &["fail"]] {
            let run = stage.trigger(&job).await?.run;
            for answer in answers {
                let request = responder.next().await?;
                ensure!(request.run == run, "{request:?} in place of run {run}");
                responder.answer(&request, answer, "1").await?;
                answered.push(run);
            }
        }
        let unknown = stage.trigger(&stranger).await?.run;
        let all = |status: &cronstream_schemas::status::ExecutorStatus| {
            status.counters.unknown_task > 0 && status.running == 0 && status.counters.failed == 2
        };
        let status = stage.reports("a", "all that came", all).await?;
        let counters = status.counters;
        ensure!((counters.started, counters.succeeded) == (6, 2), "{counters:?}");
        ensure!((counters.attempt_failed, counters.interrupted) == (2, 0), "{counters:?}");
        ensure!((counters.refused, counters.late) == (0, 0), "{counters:?}");
        ensure!(status.concurrency == 7 && status.queue.as_str() == "work", "{status:?}");
        ensure!(status.tasks.iter().any(|task| task.as_str() == "ask"), "{status:?}");
        // An unknown task is no attempt, and whoever knows it may still come.
        ensure!(stage.events(unknown).is_empty(), "{:?}", stage.events(unknown));
        // Beside one that hands it back again and again, its turn might never come.
        stage.world.process("a")?.terminate()?;
        ensure!(stage.world.process("a")?.ended(PATIENCE).await?.success());
        stage.add_tasks("[tasks.nobody-knows-it]\ncommand = [\"/bin/true\"]\n")?;
        stage.launch(&Launch::new("b"))?;
        stage.transcript(unknown, &["started 1.1.1", "succeeded 1.1.1"]).await
    })
    .await
}
