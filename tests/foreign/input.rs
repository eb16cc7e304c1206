//! Garbage on every subject: a record each where there is somebody to tell, and nothing stops.

use std::time::Duration;

use anyhow::{Result, ensure};
use cronstream_schemas::command::Verb;
use cronstream_schemas::event::LogEvent;
use cronstream_schemas::name::JobId;
use cronstream_tests::client::Client;
use cronstream_tests::crew::fired_after;
use cronstream_tests::jetstream::StoreAnswer;
use cronstream_tests::nats::{Headers, Nats};
use cronstream_tests::record::Record;
use cronstream_tests::world::{Brokers, Setup, World, now};

/// How long a healthy job may take to fire while garbage comes in.
const FIRE_MAX: Duration = Duration::from_secs(20);
const DEFINITION: &str = r#"{"task":"effect","schedule":{"every":"1s"},"overlap":"allow"}"#;

/// Bodies that are wrong in every way there is.
fn bodies() -> Vec<Vec<u8>> {
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let nested = format!("{{\"task\":\"a\",\"schedule\":{}}}", deep(100_000));
    let objects = "{\"a\":".repeat(50_000);
    let mut bodies: Vec<Vec<u8>> = [
        "{\"task\":\"a\"",
        "nul\u{0}l",
        "\u{0}",
        "null",
        "[]",
        "\"x\"",
        "1e999",
        "{}",
        "{\"v\":2}",
        "{\"v\":1,\"v\":1}",
        "{\"task\":{\"a\":1},\"schedule\":\"* * * * *\"}",
        "{\"fired\":{}}",
        "{\"cursor\":{\"epoch\":9}}",
        "{\"started\":{}}",
        "{\"run\":\"01a3185c-507b-8d05-ac6c-fdd1ec25513c\"}",
        &nested,
        &objects,
        &deep(200_000),
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    bodies.push(vec![0xff; 64]);
    bodies.push(vec![b'x'; 1_000_000]);
    bodies
}

fn rejections(record: &Record) -> usize {
    let rejected = |event: &LogEvent| matches!(event, LogEvent::Rejected(_));
    record.log.values().filter(|stored| rejected(&stored.event)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_wrong_command_is_recorded_once_and_stops_nobody() -> Result<()> {
    World::with(Setup::new(Brokers::One), async |world| {
        world.ticker("t1", &[])?;
        world.executor("e1", "default", 4)?;
        world.led().await?;
        let client = Client::new(&world.urls());
        let healthy: JobId = "healthy/job".parse()?;
        client.change(world.recorder(), Verb::Define, &healthy, DEFINITION).await?;
        let nats = Nats::connect(&world.urls()).await?;
        let mut sent = 0;
        for verb in ["define", "trigger", "cancel", "pause"] {
            for body in bodies() {
                let subject = format!("cron.{verb}.foreign.job");
                let stored = nats.store(&subject, &Headers::new(), &body).await?;
                ensure!(matches!(stored, StoreAnswer::At(_)), "{subject}: {stored:?}");
                sent += 1;
            }
        }
        let subjects = [
            "cron.define.a",
            "cron.define.a.b.c.d",
            "cron.define.a._",
            "cron.define.-a.b",
            "cron.delete.x.y",
            "cron.trigger.a.naïve",
            "cron.cancel.a",
        ];
        for subject in subjects {
            let stored = nats.store(subject, &Headers::new(), b"{}").await?;
            ensure!(matches!(stored, StoreAnswer::At(_)), "{subject}: {stored:?}");
            sent += 1;
        }
        let what = format!("{sent} rejections");
        let all = |record: &Record| (rejections(record) >= sent).then_some(());
        world.recorder().until(&what, Duration::from_secs(60), all).await?;
        fired_after(world, &healthy, now(), FIRE_MAX).await?;
        let recorded = rejections(&world.recorder().now());
        ensure!(recorded == sent, "{recorded} rejections of {sent} commands");
        let oversized = world.recorder().now().log.values().any(|stored| match &stored.event {
            LogEvent::Rejected(rejected) => {
                serde_json::to_vec(rejected).is_ok_and(|b| b.len() > 100_000)
            }
            _ => false,
        });
        ensure!(!oversized, "a rejection repeats at most 256 bytes of a value");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_among_events_is_passed_over_by_tickers_executors_and_readers() -> Result<()> {
    World::with(Setup::new(Brokers::One), async |world| {
        world.ticker("t1", &[])?;
        world.executor("e1", "default", 4)?;
        world.led().await?;
        let client = Client::new(&world.urls());
        let healthy: JobId = "healthy/job".parse()?;
        client.change(world.recorder(), Verb::Define, &healthy, DEFINITION).await?;
        let nats = Nats::connect(&world.urls()).await?;
        let run = "01a3185c-507b-8d05-ac6c-fdd1ec25513c";
        let subjects = [
            "cron.job.foreign.job".to_owned(),
            "cron.job.a.b.c.d".into(),
            "cron.history.foreign.job".into(),
            "cron.fire.default.foreign.job".into(),
            "cron.fire.default.a".into(),
            "cron.held.foreign.job.7".into(),
            "cron.skipped.foreign.job".into(),
            "cron.rejected._._".into(),
            "cron.cursor.0".into(),
            "cron.cursor.200".into(),
            "cron.cursor.x".into(),
            format!("cron.run.default.foreign.job.{run}.0"),
            "cron.run.default.foreign.job.x.y".into(),
            "cron.run.a".into(),
            format!("cron.dead.default.foreign.job.{run}.0"),
            "cron.dead.x".into(),
        ];
        for body in bodies() {
            for subject in &subjects {
                let stored = nats.store(subject, &Headers::new(), &body).await?;
                ensure!(matches!(stored, StoreAnswer::At(_)), "{subject}: {stored:?}");
            }
        }
        fired_after(world, &healthy, now(), FIRE_MAX).await?;
        // Whoever comes later reads it all from the beginning.
        world.process("t1")?.kill().await?;
        world.ticker("t2", &[])?;
        fired_after(world, &healthy, now(), FIRE_MAX).await?;
        for (verb, options) in [
            ("list", &[][..]),
            ("runs", &[][..]),
            ("status", &[][..]),
            ("doctor", &[][..]),
            ("dead", &[][..]),
        ] {
            ensure!(world.run(verb, options).await?, "`cronstream {verb}` fails on garbage");
        }
        let done = |record: &Record| {
            record
                .runs
                .values()
                .rev()
                .find(|stored| stored.event.is_terminal())
                .map(|stored| stored.at)
        };
        world.recorder().until("a result", FIRE_MAX, done).await.map(drop)
    })
    .await
}
