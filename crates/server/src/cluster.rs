//! Three servers on this machine that keep streams in three copies.
//!
//! Invariant: names and ports are chosen once, so each server can be killed and restarted in
//! place, and its vote stays its own.

use std::{path::Path, time::Duration};

use tokio::time::{Instant, sleep};

use crate::{
    binary::Binary,
    config::{Member, ServerConfig},
    error::Error,
    ports,
    server::{POLL, PORT_TRIES, READY_MAX, Server},
    wire,
};

/// The number of servers: the fewest that go on when one is lost.
const SIZE: usize = 3;
/// How long a stream may be without a leader: an election takes 4 to 9 s.
const LEADER_MAX: Duration = Duration::from_secs(30);
/// A stream that is created and deleted to see that the cluster accepts streams.
const TRIAL: &str = "CRONSTREAM_READY";

/// Three nats-servers that know each other.
#[derive(Debug)]
pub struct Cluster {
    /// The servers; their order never changes.
    pub nodes: Vec<Server>,
}

impl Cluster {
    /// Starts three servers in folders of `dir` and waits until they accept a stream with three
    /// copies. Every write is synced.
    pub async fn start(binary: &Binary, dir: &Path) -> Result<Self, Error> {
        Self::start_with(binary, &ServerConfig::new(dir)).await
    }

    /// Like [`Cluster::start`], with the folder, the syncing and the extra lines of `template`.
    pub async fn start_with(binary: &Binary, template: &ServerConfig) -> Result<Self, Error> {
        for _ in 0..PORT_TRIES {
            let mut cluster = Self::launch(binary, template).await?;
            match cluster.wait_ready(READY_MAX).await {
                Ok(()) => return Ok(cluster),
                // Somebody took a port between the choice and the start: choose again.
                Err(Error::PortTaken { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::NoFreePort { tries: PORT_TRIES })
    }

    async fn launch(binary: &Binary, template: &ServerConfig) -> Result<Self, Error> {
        let ports = ports::free(2 * SIZE)?;
        let (client_ports, route_ports) = ports.split_at(SIZE);
        let mut nodes = Vec::with_capacity(SIZE);
        for (index, (&port, &route_port)) in client_ports.iter().zip(route_ports).enumerate() {
            let name = format!("n{index}");
            let mut config = template.clone();
            config.data_dir = template.data_dir.join(&name);
            config.port = Some(port);
            config.cluster = Some(Member {
                cluster: "cronstream".to_owned(),
                name,
                route_port,
                routes: route_ports.to_vec(),
            });
            nodes.push(Server::launch(binary, config, port).await?);
        }
        Ok(Self { nodes })
    }

    /// The addresses for clients, in the order of the nodes.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Server::url).collect()
    }

    /// Waits until every server answers and the cluster accepts a stream with three copies.
    pub async fn wait_ready(&mut self, within: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + within;
        for node in &mut self.nodes {
            node.wait_ready(within).await?;
        }
        loop {
            // Until its servers have found each other and a leader, a cluster answers 10008.
            let Err(obstacle) = self.try_a_stream().await else { return Ok(()) };
            if Instant::now() >= deadline {
                return Err(self.nodes[0].not_ready(within, &obstacle.to_string()));
            }
            sleep(POLL).await;
        }
    }

    /// Returns which node leads the stream, waiting for an election to end.
    pub async fn stream_leader(&self, stream: &str) -> Result<usize, Error> {
        let deadline = Instant::now() + LEADER_MAX;
        let subject = format!("$JS.API.STREAM.INFO.{stream}");
        let mut last = "no node answers".to_owned();
        loop {
            for node in &self.nodes {
                match wire::ask(node.port(), &subject, "").await {
                    Ok(info) => match info["cluster"]["leader"].as_str() {
                        Some(leader) => {
                            if let Some(index) = self.index_of(leader) {
                                return Ok(index);
                            }
                            last = format!("stream {stream} is led by the unknown {leader:?}");
                        }
                        None => last = format!("stream {stream} has no leader"),
                    },
                    Err(error) => last = format!("stream {stream}: {error}"),
                }
            }
            if Instant::now() >= deadline {
                return Err(self.nodes[0].not_ready(LEADER_MAX, &last));
            }
            sleep(POLL).await;
        }
    }

    /// Ends all servers in order.
    pub async fn stop(&mut self) -> Result<(), Error> {
        for node in &mut self.nodes {
            node.stop().await?;
        }
        Ok(())
    }

    fn index_of(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name() == name)
    }

    async fn try_a_stream(&self) -> std::io::Result<()> {
        let port = self.nodes[0].port();
        let config = format!(
            r#"{{"name":"{TRIAL}","subjects":["_{TRIAL}"],"storage":"memory","retention":"limits","num_replicas":{SIZE}}}"#
        );
        wire::ask(port, &format!("$JS.API.STREAM.CREATE.{TRIAL}"), &config).await?;
        wire::ask(port, &format!("$JS.API.STREAM.DELETE.{TRIAL}"), "").await?;
        Ok(())
    }
}
