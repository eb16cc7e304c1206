//! The disk of the server is full: what is written then is not acknowledged, everybody says so, and after the steps of
//! `docs/operating/disk-full.md` everything acknowledged is there and the work goes on.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cronstream_schemas::command::Verb;
use cronstream_schemas::name::JobId;
use cronstream_schemas::subject::Prefix;
use cronstream_server::{Cluster, Member, Server, ServerConfig};
use cronstream_tests::client::Client;
use cronstream_tests::jetstream::StoreAnswer;
use cronstream_tests::nats::Nats;
use cronstream_tests::world::{Brokers, Running, Setup, World, now};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::mount::SmallDisk;
use crate::stage::{
    EVERY_SECOND, PATIENCE, copies_are_current, free_ports, lead_from, look, not_ready, ready,
    refused_by_cli, run_after, stored_commands, verify,
};

/// The size of the disk.
const DISK_MB: u32 = 32;
/// Commands that the test stores before the disk is full, and tries to afterwards.
const COMMANDS: usize = 20;
/// Bytes of such a command; together more than a page, as the last page of a file may have room.
const BODY: usize = 2_000;
/// How long a server that does not answer is waited for.
const SILENT: Duration = Duration::from_secs(2);
/// How long one full disk of three may keep runs from their results.
const GAP_MAX: Duration = Duration::from_secs(20);
/// A task that is at work when the disk is full, and whose result has no room then.
const FAT: &str = r#"
[tasks.fat]
command = ["/bin/sh", "-c", "sleep 2; head -c 9000 /dev/zero | tr '\\0' 1 > $CRON_RESULT"]
"#;
const FAT_JOB: &str = r#"{"task":"fat","schedule":{"every":"1s"},"overlap":"allow","timeout":"20s","max_attempts":10}"#;
/// Its steps are those of the test.
const GUIDE: &str = include_str!("../../docs/operating/disk-full.md");

/// A disk of the test's own, or a word that the test is skipped.
#[expect(clippy::print_stderr, reason = "a skip must be seen")]
fn small_disk() -> Result<Option<SmallDisk>> {
    let disk = SmallDisk::mount(DISK_MB)?;
    if disk.is_none() {
        eprintln!("SKIPPED(root for tmpfs)");
    }
    Ok(disk)
}

/// A server whose data is on the disk and that believes in a larger one; its log is elsewhere, so that a failure can
/// be read.
fn config(data: &std::path::Path, log: &TempDir, name: &str) -> ServerConfig {
    let mut config = ServerConfig::new(data);
    let log = log.path().join(format!("{name}.log"));
    config.extra = format!(
        "log_file: \"{}\"\njetstream {{\n  store_dir: \"{}\"\n  sync_interval: always\n  \
         max_file_store: 100GB\n}}\n",
        log.display(),
        data.display()
    );
    config
}

async fn muster(world: &mut World) -> Result<[JobId; 2]> {
    world.ticker("t1", &[])?;
    let file = world.effects().tasks();
    let tasks = std::fs::read_to_string(&file)? + FAT;
    std::fs::write(file, tasks)?;
    world.executor("e1", "default", 8)?;
    world.led().await?;
    let jobs: [JobId; 2] = ["disk/clock".parse()?, "disk/fat".parse()?];
    let client = Client::new(&world.urls());
    for (job, definition) in jobs.iter().zip([EVERY_SECOND, FAT_JOB]) {
        client.change(world.recorder(), Verb::Define, job, definition).await?;
    }
    for job in &jobs {
        run_after(world, job, now(), PATIENCE).await?;
    }
    Ok(jobs)
}

/// Sends commands and returns those which were acknowledged. They delete a job that is not there, so they change
/// nothing.
async fn send(world: &World) -> Result<Vec<(u64, String)>> {
    let nats = Nats::connect(&world.urls()).await?;
    let subject = Prefix::default().command(Verb::Delete, &"disk/nothing".parse()?);
    let mut acknowledged = Vec::new();
    for number in 0..COMMANDS {
        let body = format!("{number} {}", "x".repeat(BODY));
        let stored = timeout(SILENT, nats.store(&subject, &Vec::new(), body.as_bytes())).await;
        match stored {
            Ok(Ok(StoreAnswer::At(sequence))) => acknowledged.push((sequence, body)),
            Ok(_) => {}
            // From now on nothing is answered.
            Err(_) => break,
        }
    }
    Ok(acknowledged)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_loses_nothing_acknowledged_and_the_guide_leads_out_of_it() -> Result<()> {
    let Some(disk) = small_disk()? else { return Ok(()) };
    let (binary, log) = (cronstream_server::ensure(&mut |_| {}).await?, tempfile::tempdir()?);
    let server = Server::start(&binary, config(&disk.path().join("nats"), &log, "nats")).await?;
    let brokers = Running::One(Box::new(server));
    World::with_brokers(Setup::new(Brokers::One), brokers, async |world| {
        let jobs = muster(world).await?;
        let [job, _] = &jobs;
        let begun = now();
        let mut acknowledged = send(world).await?;
        ensure!(acknowledged.len() == COMMANDS, "{acknowledged:?}");
        disk.fill()?;
        acknowledged.extend(send(world).await?);
        ensure!(acknowledged.len() < 2 * COMMANDS, "a full disk stored everything");
        for (node, why) in [("t1", "cannot write"), ("e1", "cannot store run events")] {
            not_ready(world, node, why).await?;
            ensure!(GUIDE.contains(why), "the guide does not say {why:?}");
        }
        let said = refused_by_cli(world, job).await?;
        ensure!(said.contains("not acknowledged") && said.contains("disk-full.md"), "{said}");
        // Space alone does not help: streams that met the full disk stay silent.
        disk.free()?;
        ensure!(send(world).await?.is_empty(), "the guide asks for a restart in vain");
        world.restart_broker(0).await?;
        run_after(world, job, now(), PATIENCE).await?;
        for node in ["t1", "e1"] {
            ready(world, node).await?;
        }
        ensure!(send(world).await?.len() == COMMANDS, "not everything is stored again");
        stored_commands(world, &acknowledged).await?;
        verify(world, &jobs, Some(begun)).await
    })
    .await
}

/// Three brokers, the first one on the small disk.
async fn three(disk: &SmallDisk, others: &TempDir) -> Result<Cluster> {
    let binary = cronstream_server::ensure(&mut |_| {}).await?;
    let routes = free_ports()?;
    let mut nodes = Vec::new();
    for (index, &route_port) in routes.iter().enumerate() {
        let name = format!("n{index}");
        let home = if index == 0 { disk.path() } else { others.path() };
        let mut config = config(&home.join(&name), others, &name);
        let cluster = "cronstream".to_owned();
        config.cluster = Some(Member { cluster, name, route_port, routes: routes.to_vec() });
        nodes.push(Server::start(&binary, config).await?);
    }
    let mut cluster = Cluster { nodes };
    cluster.wait_ready(PATIENCE).await?;
    Ok(cluster)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_full_disk_of_three_costs_an_election_and_a_restart_brings_the_broker_back()
-> Result<()> {
    let Some(disk) = small_disk()? else { return Ok(()) };
    let others = tempfile::tempdir()?;
    let brokers = Running::Three(three(&disk, &others).await?);
    World::with_brokers(Setup::new(Brokers::Three), brokers, async |world| {
        let jobs = muster(world).await?;
        let [job, _] = &jobs;
        lead_from(world, "n0").await?;
        let mut acknowledged = send(world).await?;
        let begun = now();
        disk.fill()?;
        let back = run_after(world, job, begun, PATIENCE).await?.since(begun);
        ensure!(back <= GAP_MAX, "{back:?} without results");
        let more = look("commands to be stored", PATIENCE, async || {
            let stored = send(world).await?;
            Ok((stored.len() == COMMANDS).then_some(stored))
        });
        acknowledged.extend(more.await?);
        disk.free()?;
        world.restart_broker(0).await.context("the broker whose disk was full")?;
        copies_are_current(world).await?;
        for node in ["t1", "e1"] {
            ready(world, node).await?;
        }
        stored_commands(world, &acknowledged).await?;
        verify(world, &jobs, Some(begun)).await
    })
    .await
}
