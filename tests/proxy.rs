//! The proxy between a client and a real nats-server: what is lost is lost, and the server has it all the same.

use std::time::Duration;

use anyhow::Result;
use cronstream_server::{Server, ServerConfig};
use cronstream_tests::jetstream::StoreAnswer;
use cronstream_tests::nats::Nats;
use cronstream_tests::proxy::{ConnectionId, Proxy, Traffic};
use cronstream_tests::streams;
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

const SOON: Duration = Duration::from_secs(10);

struct Wire {
    proxy: Proxy,
    server: Server,
    _dir: TempDir,
}

impl Wire {
    async fn start() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let binary = cronstream_server::ensure(&mut |line| tracing::info!("{line}")).await?;
        let server = Server::start(&binary, ServerConfig::new(dir.path())).await?;
        streams::create(&Nats::connect(&[server.url()]).await?, 1).await?;
        let proxy = Proxy::start(&server.url()).await?;
        Ok(Self { proxy, server, _dir: dir })
    }

    async fn through(&self) -> Result<Nats> {
        Nats::connect(&[self.proxy.url()]).await
    }

    async fn commands(&self) -> Result<u64> {
        Ok(Nats::connect(&[self.server.url()]).await?.ends("CRON_COMMANDS").await?.last)
    }
}

async fn store(nats: &Nats) -> Result<StoreAnswer> {
    nats.store("cron.pause.a.b", &Vec::new(), b"").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_leaves_the_message_stored() -> Result<()> {
    let wire = Wire::start().await?;
    let nats = wire.through().await?;
    assert_eq!(store(&nats).await?, StoreAnswer::At(1));
    wire.proxy.set_one(ConnectionId(0), Traffic::LoseReplies);
    let (answer, lost) = tokio::join!(store(&nats), async {
        let lost = wire.proxy.until_lost(0, SOON).await;
        wire.proxy.cut();
        lost
    });
    assert!(answer.is_err() && lost? > 0);
    assert_eq!(wire.commands().await?, 2);
    wire.proxy.until_closed(ConnectionId(0), SOON).await?;
    assert_eq!(store(&wire.through().await?).await?, StoreAnswer::At(3));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_lost_bytes_is_cut_when_it_is_to_pass_again() -> Result<()> {
    let wire = Wire::start().await?;
    let nats = wire.through().await?;
    wire.proxy.set(Traffic::LoseReplies);
    let ((), answer) = tokio::join!(
        async {
            wire.proxy.until_lost(0, SOON).await.ok();
            wire.proxy.set(Traffic::Pass);
        },
        store(&nats)
    );
    assert!(answer.is_err());
    wire.proxy.until_closed(ConnectionId(0), SOON).await?;
    assert!(wire.proxy.open().is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_connection_goes_on_where_it_was() -> Result<()> {
    let wire = Wire::start().await?;
    let nats = wire.through().await?;
    wire.proxy.set(Traffic::Stall);
    let mut storing = Box::pin(store(&nats));
    let waited = timeout(Duration::from_millis(300), &mut storing).await;
    assert!(waited.is_err(), "an answer came through a stalled wire: {waited:?}");
    assert_eq!(wire.commands().await?, 0);
    wire.proxy.set(Traffic::Pass);
    assert_eq!(storing.await?, StoreAnswer::At(1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_connection_delays_each_direction() -> Result<()> {
    let wire = Wire::start().await?;
    let nats = wire.through().await?;
    wire.proxy.set(Traffic::Delay(Duration::from_millis(100)));
    let begun = Instant::now();
    assert_eq!(store(&nats).await?, StoreAnswer::At(1));
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_is_cut_and_the_other_is_not() -> Result<()> {
    let wire = Wire::start().await?;
    let (first, second) = (wire.through().await?, wire.through().await?);
    wire.proxy.cut_one(ConnectionId(0));
    wire.proxy.until_closed(ConnectionId(0), SOON).await?;
    assert!(store(&first).await.is_err());
    assert_eq!(store(&second).await?, StoreAnswer::At(1));
    assert_eq!(wire.proxy.open(), [ConnectionId(1)]);
    assert_eq!(wire.proxy.until_open(ConnectionId(0), SOON).await?, ConnectionId(1));
    Ok(())
}
