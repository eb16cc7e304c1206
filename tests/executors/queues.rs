//! A queue: what waits in it waits in the broker, and its consumer is as the contract says.

use anyhow::{Result, ensure};
use cronstream_tests::world::Brokers;
use serde_json::json;

use crate::stage::{ACK_WAIT, Launch, play};

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_executor_leaves_what_waits_to_others() -> Result<()> {
    const WAITING: usize = 5;
    play(Brokers::One, async |stage| {
        let job = stage.job("work/waiting", "ask", "").await?;
        let mut responder = stage.responder().await?;
        stage.launch(&Launch::new("a"))?;
        let run = stage.trigger(&job).await?.run;
        let busy = responder.next().await?;
        for _ in 0..WAITING {
            stage.trigger(&job).await?;
        }
        // Longer than what waits in a process would be left to it.
        stage.pass(ACK_WAIT * 2).await?;
        let info = stage.consumer().await?;
        ensure!(info["num_pending"] == WAITING && info["num_ack_pending"] == 1, "{info}");
        let config = &info["config"];
        let expected = json!({
            "ack_policy": "explicit",
            "ack_wait": u64::try_from(ACK_WAIT.as_nanos())?,
            "max_ack_pending": 50_000,
            "max_deliver": -1,
            "filter_subject": "cron.fire.work.>",
        });
        for (key, value) in expected.as_object().into_iter().flatten() {
            ensure!(config[key] == *value, "{key} is {}, not {value}", config[key]);
        }
        ensure!(config["backoff"].is_null(), "a back-off would override the ack wait: {config}");
        stage.launch(&Launch::new("b"))?;
        for _ in 0..WAITING {
            let request = responder.next().await?;
            ensure!(request.run != run && request.attempt == 1, "{request:?}");
            responder.answer(&request, "ok", "").await?;
        }
        stage.transcript(run, &["started 1.1.1"]).await?;
        responder.answer(&busy, "ok", "").await?;
        stage.transcript(run, &["started 1.1.1", "succeeded 1.1.1"]).await?;
        stage.settled().await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_may_overlap_run_beside_each_other() -> Result<()> {
    play(Brokers::One, async |stage| {
        let body = r#"{"task":"ask","queue":"work","schedule":{"every":"1s"},"overlap":"allow"}"#;
        stage.ticking_job("work/parallel", body).await?;
        let mut responder = stage.responder().await?;
        stage.launch(&Launch { concurrency: 64, ..Launch::new("a") })?;
        let mut together = Vec::new();
        while together.len() < 4 {
            together.push(responder.next().await?);
        }
        for request in &together {
            responder.answer(request, "ok", "").await?;
        }
        let _answering = responder.echo_for_ever();
        for request in together {
            stage.transcript(request.run, &["started 1.1.1", "succeeded 1.1.1"]).await?;
        }
        stage.pause().await?;
        stage.settled().await
    })
    .await
}
