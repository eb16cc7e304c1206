//! A leader that stands still or is cut off, and keeps its lease: what was stored meanwhile takes effect first.

use std::time::Duration;

use anyhow::{Result, ensure};
use cronstream_schemas::command::Verb;
use cronstream_tests::crew::fired_after;
use cronstream_tests::proxy::{Proxy, Traffic};
use cronstream_tests::world::{Brokers, Setup, World};

use crate::stage::{
    PATIENCE, PERIOD, change, coming_slot, fires_of, publish, reached, ticking, verify,
};

/// Due at the beginning of each second, so that all jobs have the same slots.
const ON_THE_SECOND: &str =
    r#"{"task":"effect","schedule":{"cron":"* * * * * *"},"overlap":"allow"}"#;
/// When the fault begins and the job is paused, before a slot.
const BEGINS: Duration = Duration::from_millis(700);
const PAUSED: Duration = Duration::from_millis(400);
/// When it ends behind the slot: a moment later, when a loop that slept until then is hardly late, and much later.
const ENDS: [Duration; 4] = [
    Duration::from_millis(30),
    Duration::from_millis(400),
    Duration::from_millis(1_500),
    Duration::from_millis(3_200),
];

/// What keeps the leader from reading.
enum Fault {
    Stop,
    Cut(Proxy),
}

impl Fault {
    fn begin(&self, world: &mut World) -> Result<()> {
        match self {
            Self::Stop => world.process("t1")?.pause(),
            Self::Cut(proxy) => {
                proxy.set(Traffic::Stall);
                proxy.cut();
                Ok(())
            }
        }
    }

    fn end(&self, world: &mut World) -> Result<()> {
        match self {
            Self::Stop => world.process("t1")?.resume(),
            Self::Cut(proxy) => {
                proxy.set(Traffic::Pass);
                Ok(())
            }
        }
    }
}

/// Pauses a job while its leader cannot read, before a slot that falls due meanwhile: that slot never fires, and those of
/// another job do.
async fn paused_meanwhile(world: &mut World, fault: &Fault) -> Result<()> {
    world.executor("e1", "default", 16)?;
    world.led().await?;
    let job = ticking(world, "seams/paused", ON_THE_SECOND).await?;
    let clock = ticking(world, "seams/clock", ON_THE_SECOND).await?;
    for ends in ENDS {
        let slot = coming_slot(world, &clock)?.plus(2 * PERIOD);
        reached(slot.minus(BEGINS)).await;
        fault.begin(world)?;
        reached(slot.minus(PAUSED)).await;
        let (_, paused) = publish(world, Verb::Pause, &job, "").await?;
        ensure!(paused < slot, "{paused} is too late");
        reached(slot.plus(ends)).await;
        fault.end(world)?;
        fired_after(world, &clock, slot.plus(ends), PATIENCE).await?;
        let slots = fires_of(&world.recorder().now(), &job).into_iter();
        let wrong: Vec<_> =
            slots.map(|fired| fired.scheduled_at).filter(|slot| *slot > paused).collect();
        ensure!(
            wrong.is_empty(),
            "paused at {paused}; back {ends:?} behind {slot}, it fired {wrong:?}"
        );
        let resumed = change(world, Verb::Resume, &job, "").await?;
        fired_after(world, &job, resumed.at, PATIENCE).await?;
    }
    verify(world, &[job, clock]).await
}

/// The lease outlasts every fault: nobody takes over.
const LEASE: Setup =
    Setup { brokers: Brokers::One, partitions: 1, lease_ttl: Duration::from_secs(10) };

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stood_still_reads_what_was_stored_before_it_decides() -> Result<()> {
    World::with(LEASE, async |world| {
        world.ticker("t1", &[])?;
        paused_meanwhile(world, &Fault::Stop).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_cut_off_reads_what_was_stored_before_it_decides() -> Result<()> {
    World::with(LEASE, async |world| {
        let proxy = Proxy::start(&world.urls()[0]).await?;
        world.serve("t1", "ticker", &[proxy.url()], &[])?;
        paused_meanwhile(world, &Fault::Cut(proxy)).await
    })
    .await
}
