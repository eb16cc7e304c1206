//! The recorder and the checker on a real nats-server: nothing that was rolled up is missed, and a writer without
//! the cursor's guard is caught.

#![expect(clippy::panic, reason = "a test's own helpers may panic")]

use std::time::Duration;

use anyhow::Result;
use cronstream_schemas::event::{Ended, LogEvent, Place, RunEvent};
use cronstream_schemas::subject::Prefix;
use cronstream_schemas::time::Timestamp;
use cronstream_server::{Cluster, Server, ServerConfig};
use cronstream_tests::checker::{Held, Terms, Verdict, Violation, check};
use cronstream_tests::exclusive::Exclusive;
use cronstream_tests::history::Oddity;
use cronstream_tests::jetstream::StoreAnswer;
use cronstream_tests::nats::Nats;
use cronstream_tests::record::{Record, Recorder, Stream};
use cronstream_tests::world::now;
use cronstream_tests::writer::{Guard, Writer};
use cronstream_tests::{sample, streams};
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(15);

struct Broker {
    server: Server,
    recorder: Recorder,
    _dir: TempDir,
}

impl Broker {
    async fn start() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let binary = cronstream_server::ensure(&mut |line| tracing::info!("{line}")).await?;
        let server = Server::start(&binary, ServerConfig::new(dir.path())).await?;
        streams::create(&Nats::connect(&[server.url()]).await?, 1).await?;
        let recorder = Recorder::start(&[server.url()]);
        Ok(Self { server, recorder, _dir: dir })
    }

    async fn nats(&self) -> Result<Nats> {
        Nats::connect(&[self.server.url()]).await
    }
}

/// What was due ten seconds ago: slots 1 to 3 of a job that runs every second.
struct Past {
    begin: Timestamp,
}

impl Past {
    fn slot(&self, number: u64) -> Timestamp {
        self.begin.plus(Duration::from_secs(number))
    }

    fn define(&self) -> (String, LogEvent) {
        let state = sample::state(1, r#"{"every":"1s"}"#, self.begin, self.begin);
        (Prefix::default().job(&sample::job()), LogEvent::JobDefined(state))
    }

    /// Fires a slot and ends its run.
    async fn fire(&self, writer: &mut Writer, number: u64) -> Result<StoreAnswer> {
        let fired = sample::fired(self.slot(number), 1, 1, writer.epoch());
        let subject = Prefix::default().fire(&fired.queue, &fired.job);
        let answer = writer.batch(vec![(subject, LogEvent::Fired(fired.clone()))]).await?;
        if let StoreAnswer::At(_) = answer {
            let ended = Ended { place: Place::default(), epoch: writer.epoch(), command: None };
            let answer = writer.run_event(&fired, &RunEvent::Lost(ended)).await?;
            assert!(matches!(answer, StoreAnswer::At(_)), "{answer:?}");
        }
        Ok(answer)
    }

    fn terms(&self) -> Terms {
        Terms {
            through: self.slot(3),
            max_clock_error: Duration::from_millis(500),
            faults_since: Some(self.begin),
            held_at_end: Held::Undecided,
        }
    }
}

/// Two leaders who both believe: the first fires slot 1 and is replaced before it fires slot 2, which both try.
async fn two_leaders(urls: &[String], copies: u8, guard: Guard) -> Result<(StoreAnswer, Verdict)> {
    let nats = Nats::connect(urls).await?;
    streams::create(&nats, copies).await?;
    let recorder = Recorder::start(urls);
    // Each cursor is seen before the next one rolls it up.
    let seen = async || recorder.caught_up(Stream::Log, SOON).await;
    let past = Past { begin: now().minus(Duration::from_secs(10)) };
    let mut first = Writer::take_over(nats.clone(), "t1", guard).await?;
    seen().await?;
    first.batch(vec![past.define()]).await?;
    past.fire(&mut first, 1).await?;
    seen().await?;
    let mut second = Writer::take_over(nats.clone(), "t2", guard).await?;
    past.fire(&mut second, 2).await?;
    seen().await?;
    let late = past.fire(&mut first, 2).await?;
    seen().await?;
    past.fire(&mut second, 3).await?;
    let history = recorder.history(1, SOON).await?;
    drop(recorder);
    streams::delete(&nats).await?;
    Ok((late, check(&history, &past.terms())))
}

async fn the_guard_decides(urls: &[String], copies: u8) -> Result<()> {
    let (late, verdict) = two_leaders(urls, copies, Guard::Cursor).await?;
    assert!(matches!(late, StoreAnswer::Refused { code: 10071, .. }), "{late:?}");
    verdict.passed()?;
    let (late, verdict) = two_leaders(urls, copies, Guard::None).await?;
    assert!(matches!(late, StoreAnswer::At(_)), "{late:?}");
    let Verdict::Fail(violations) = verdict else { panic!("not caught: {verdict:?}") };
    let found = |wanted: fn(&Violation) -> bool| violations.iter().any(wanted);
    assert!(found(|it| matches!(it, Violation::FiredTwice { .. })), "{violations:?}");
    assert!(found(|it| matches!(it, Violation::CursorFell { .. })), "{violations:?}");
    assert!(found(|it| matches!(it, Violation::Unfenced { .. })), "{violations:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_without_the_cursors_guard_is_caught_and_one_with_it_refused() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let binary = cronstream_server::ensure(&mut |line| tracing::info!("{line}")).await?;
    let server = Server::start(&binary, ServerConfig::new(dir.path())).await?;
    the_guard_decides(&[server.url()], 1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn on_three_brokers_the_guard_decides_too() -> Result<()> {
    let _turn = Exclusive::acquire().await?;
    let dir = tempfile::tempdir()?;
    let binary = cronstream_server::ensure(&mut |line| tracing::info!("{line}")).await?;
    let cluster = Cluster::start(&binary, dir.path()).await?;
    the_guard_decides(&cluster.urls(), 3).await
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_that_are_rolled_up_stay_in_the_record() -> Result<()> {
    let broker = Broker::start().await?;
    let mut writer = Writer::take_over(broker.nats().await?, "t1", Guard::Cursor).await?;
    let first = broker.recorder.caught_up(Stream::Log, SOON).await?;
    let mut last = first;
    for _ in 0..20 {
        writer.batch(Vec::new()).await?;
        // The server delivers what it has stored by itself, so the next cursor might be faster than that.
        last = broker.recorder.caught_up(Stream::Log, SOON).await?;
    }
    assert_eq!((first, last), (1, 21));
    assert_eq!(broker.nats().await?.ends("CRON_LOG").await?.first, 21);
    assert_eq!(broker.recorder.now().log.len(), 21);
    assert!(broker.recorder.history(1, SOON).await?.oddities.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_is_counted_and_nothing_is_missed() -> Result<()> {
    let mut broker = Broker::start().await?;
    let mut writer = Writer::take_over(broker.nats().await?, "t1", Guard::Cursor).await?;
    broker.recorder.caught_up(Stream::Log, SOON).await?;
    broker.server.kill().await?;
    assert!(writer.batch(Vec::new()).await.is_err());
    broker.server.restart().await?;
    let broke = |record: &Record| (!record.breaks.is_empty()).then_some(());
    broker.recorder.until("a broken connection", SOON, broke).await?;
    Writer::take_over(broker.nats().await?, "t2", Guard::Cursor).await?;
    assert_eq!(broker.recorder.caught_up(Stream::Log, SOON).await?, 2);
    assert_eq!(broker.recorder.now().log.len(), 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_purged_or_unreadable_is_told() -> Result<()> {
    let broker = Broker::start().await?;
    let nats = broker.nats().await?;
    for body in ["{\"started\":{}}", "{\"from_the_future\":{}}", "\u{0}"] {
        nats.store("cron.run.q.a.b.r.0", &Vec::new(), body.as_bytes()).await?;
    }
    let mut writer = Writer::take_over(nats.clone(), "t1", Guard::Cursor).await?;
    let past = Past { begin: now().minus(Duration::from_secs(10)) };
    past.fire(&mut writer, 1).await?;
    let oddities = broker.recorder.history(1, SOON).await?.oddities;
    assert!(
        matches!(
            oddities[..],
            [Oddity::Unreadable { .. }, Oddity::Unreadable { .. }, Oddity::Unreadable { .. }]
        ),
        "{oddities:?}"
    );
    nats.ask("STREAM.PURGE.CRON_LOG", &serde_json::Value::Null).await?;
    let oddities = broker.recorder.history(1, SOON).await?.oddities;
    let vanished = |it: &Oddity| matches!(it, Oddity::Vanished { sequence: 2, .. });
    assert!(oddities.iter().any(vanished), "{oddities:?}");
    Ok(())
}
