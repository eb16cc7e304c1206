//! A broker loses the other two; whoever is connected to it moves to one that has a majority.
//!
//! ```text
//!   n0 ───────── n1          n2 knows the others, and they know it, by proxies alone: what the brokers
//!    └─proxies─┐┌─┘          tell each other of their addresses leads nowhere (`advertise`)
//!   t1, e1 ──► n2
//! ```

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use cronstream_schemas::command::Verb;
use cronstream_schemas::name::JobId;
use cronstream_server::{Cluster, Member, Server, ServerConfig};
use cronstream_tests::client::Client;
use cronstream_tests::crew::judge;
use cronstream_tests::exclusive::Exclusive;
use cronstream_tests::proxy::{Proxy, Traffic};
use cronstream_tests::world::{Brokers, Running, Setup, World, now};

use crate::stage::{
    EVERY_SECOND, PATIENCE, consumer_counts, copies_are_current, free_ports, lead_from,
    no_leaked_consumers, run_after,
};

/// Three requests of 5 s without an answer make a client leave; what it takes to be at work elsewhere comes on top.
const MOVED_MAX: Duration = Duration::from_secs(25);
/// The broker that is cut off.
const LONELY: usize = 2;

/// The wires between the lonely broker and the others.
struct Wires(Vec<Proxy>);

impl Wires {
    /// Nothing arrives any more; connections stand.
    fn silence(&self) {
        self.0.iter().for_each(|wire| wire.set(Traffic::Stall));
    }

    /// Connections break, and new ones carry nothing.
    fn cut(&self) {
        self.silence();
        for wire in &self.0 {
            wire.cut();
        }
    }

    fn heal(&self) {
        self.0.iter().for_each(|wire| wire.set(Traffic::Pass));
    }
}

/// Three brokers, and the wires of the last one.
async fn start(dir: &Path) -> Result<(Cluster, Wires)> {
    let binary = cronstream_server::ensure(&mut |line| tracing::info!("{line}")).await?;
    let ports = free_ports()?;
    let mut wires = Vec::new();
    let mut nodes = Vec::new();
    for (index, &port) in ports.iter().enumerate() {
        let mut routes = Vec::new();
        for (other, &port) in ports.iter().enumerate().filter(|(other, _)| *other != index) {
            let direct = format!("nats://127.0.0.1:{port}");
            routes.push(if index == LONELY || other == LONELY {
                wires.push(Proxy::start(&direct).await?);
                wires[wires.len() - 1].url()
            } else {
                direct
            });
        }
        let name = format!("n{index}");
        let mut config = ServerConfig::new(dir.join(&name));
        config.extra = format!(
            "cluster {{\n  name: cronstream\n  listen: \"127.0.0.1:{port}\"\n  \
             advertise: \"127.0.0.1:1\"\n  routes: {routes:?}\n}}\n"
        );
        config.cluster = Some(Member {
            cluster: "cronstream".into(),
            name,
            route_port: port,
            routes: ports.to_vec(),
        });
        nodes.push(Server::start(&binary, config).await?);
    }
    let mut cluster = Cluster { nodes };
    cluster.wait_ready(PATIENCE).await?;
    Ok((cluster, Wires(wires)))
}

/// Cuts the broker off on which ticker and executor are; returns how long they have no results.
async fn without_the_others(
    world: &mut World,
    job: &JobId,
    cut: impl FnOnce(),
) -> Result<Duration> {
    lead_from(world, &format!("n{LONELY}")).await?;
    run_after(world, job, now(), PATIENCE).await?;
    let gone = now();
    cut();
    Ok(run_after(world, job, gone, PATIENCE).await?.since(gone))
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_on_a_broker_that_is_cut_off_moves_to_a_healthy_one() -> Result<()> {
    let _turn = Exclusive::acquire().await?;
    let dir = tempfile::tempdir()?;
    let (cluster, wires) = start(dir.path()).await?;
    let lonely = [cluster.nodes[LONELY].url()];
    World::with_brokers(Setup::new(Brokers::Three), Running::Three(cluster), async |world| {
        let tasks = world.effects().tasks().display().to_string();
        world.serve("t1", "ticker", &lonely, &[])?;
        world.serve("e1", "executor", &lonely, &["--tasks", &tasks])?;
        world.led().await?;
        let job: JobId = "cutoff/clock".parse()?;
        let client = Client::new(&world.urls());
        client.change(world.recorder(), Verb::Define, &job, EVERY_SECOND).await?;
        run_after(world, &job, now(), PATIENCE).await?;
        let (before, begun) = (consumer_counts(world).await?, now());
        for silent in [true, false] {
            let gap =
                without_the_others(
                    world,
                    &job,
                    || {
                        if silent { wires.silence() } else { wires.cut() }
                    },
                );
            let gap = gap.await?;
            println!("cut off (silent: {silent}): results again after {gap:?}");
            ensure!(gap <= MOVED_MAX, "{gap:?} (silent: {silent})");
            wires.heal();
            copies_are_current(world).await?;
            // Back to the broker of their address.
            for node in ["t1", "e1"] {
                let process = world.process(node)?;
                process.terminate()?;
                process.ended(PATIENCE).await?;
                process.restart().await?;
            }
            run_after(world, &job, now(), PATIENCE).await?;
        }
        no_leaked_consumers(world, &before).await?;
        judge(world, &[job], begun).await.map(drop)
    })
    .await
}
