//! A wire between a client and its nats-server that a test can damage.
//!
//! ```text
//! client ──► pump(requests) ──► server        Traffic of the connection: Pass, LoseReplies, Stall, Delay
//!        ◄── pump(replies)  ◄──               cut: both sockets closed
//! ```
//!
//! Invariant: a connection that has lost bytes is never repaired; asked to pass again, it is cut, as a wire that
//! goes on in the middle of a message would be noise.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

/// Bytes that are read at once.
const CHUNK_MAX: usize = 64 * 1024;
/// Chunks of one direction that are on their way at most.
const CHUNKS_MAX: usize = 1_024;

/// What a connection does with what it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// Everything arrives.
    Pass,
    /// The server hears the client; its answers are lost.
    LoseReplies,
    /// Nothing arrives, and nothing is lost.
    Stall,
    /// Everything arrives later by so much, in both directions.
    Delay(Duration),
}

/// One connection of a [`Proxy`], numbered from 0 in the order they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub usize);

/// What a connection is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Carry(Traffic),
    Cut,
}

#[derive(Debug)]
struct Connection {
    orders: watch::Sender<Order>,
}

/// What the proxy has seen; a test waits for it to change.
#[derive(Debug, Default)]
struct Seen {
    connections: Vec<Arc<Connection>>,
    open: Vec<ConnectionId>,
    replies_lost: u64,
}

/// A proxy on a loopback port in front of one server.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    traffic: watch::Sender<Traffic>,
    seen: watch::Sender<Seen>,
    _accepting: AbortOnDropHandle<()>,
}

impl Proxy {
    /// Starts a proxy in front of `upstream` (`nats://host:port`).
    ///
    /// # Errors
    /// When there is no free loopback port.
    pub async fn start(upstream: &str) -> Result<Self> {
        let upstream = upstream.strip_prefix("nats://").unwrap_or(upstream).to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (traffic, seen) = (watch::Sender::new(Traffic::Pass), watch::Sender::default());
        let accepting = accept(listener, upstream, traffic.subscribe(), seen.clone());
        let _accepting = AbortOnDropHandle::new(tokio::spawn(accepting));
        Ok(Self { address, traffic, seen, _accepting })
    }

    /// The address for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// The connections that are open.
    #[must_use]
    pub fn open(&self) -> Vec<ConnectionId> {
        self.seen.borrow().open.clone()
    }

    /// Sets what every connection does, those to come too.
    pub fn set(&self, traffic: Traffic) {
        self.traffic.send_replace(traffic);
        for connection in &self.seen.borrow().connections {
            connection.tell(Order::Carry(traffic));
        }
    }

    /// Sets what one connection does.
    pub fn set_one(&self, id: ConnectionId, traffic: Traffic) {
        if let Some(connection) = self.seen.borrow().connections.get(id.0) {
            connection.tell(Order::Carry(traffic));
        }
    }

    /// Cuts every open connection and returns how many there were; new ones are let in.
    pub fn cut(&self) -> usize {
        let open = self.open();
        for id in &open {
            self.cut_one(*id);
        }
        open.len()
    }

    /// Cuts one connection.
    pub fn cut_one(&self, id: ConnectionId) {
        if let Some(connection) = self.seen.borrow().connections.get(id.0) {
            connection.tell(Order::Cut);
        }
    }

    /// Waits until a connection with a number of at least `from` is open, and returns the first one.
    ///
    /// # Errors
    /// When there is none in time.
    pub async fn until_open(&self, from: ConnectionId, within: Duration) -> Result<ConnectionId> {
        let first = |seen: &Seen| seen.open.iter().copied().find(|id| *id >= from);
        let found = self.until(within, |seen| first(seen).is_some()).await;
        found.with_context(|| format!("no connection {} of the proxy", from.0))?;
        first(&self.seen.borrow()).context("the connection closed again")
    }

    /// Waits until a connection is closed.
    ///
    /// # Errors
    /// When it is open after that time.
    pub async fn until_closed(&self, id: ConnectionId, within: Duration) -> Result<()> {
        let closed = self.until(within, |seen| !seen.open.contains(&id)).await;
        closed.with_context(|| format!("connection {} of the proxy is still open", id.0))
    }

    /// Waits until more than `before` bytes of replies are lost in all, and returns how many.
    ///
    /// # Errors
    /// When no more are lost in that time.
    pub async fn until_lost(&self, before: u64, within: Duration) -> Result<u64> {
        let lost = self.until(within, |seen| seen.replies_lost > before).await;
        lost.with_context(|| format!("no more than {before} bytes of replies are lost"))?;
        Ok(self.seen.borrow().replies_lost)
    }

    async fn until(&self, within: Duration, mut met: impl FnMut(&Seen) -> bool) -> Result<()> {
        let mut seen = self.seen.subscribe();
        match timeout(within, seen.wait_for(|seen| met(seen))).await {
            Ok(met) => met.map(drop).map_err(|_| anyhow!("the proxy is gone")),
            Err(_) => Err(anyhow!("not in {within:?}")),
        }
    }
}

impl Connection {
    /// Gives an order; a cut stands, and one that has lost bytes can only be cut.
    fn tell(&self, order: Order) {
        self.orders.send_if_modified(|current| {
            let next = match (*current, order) {
                (Order::Cut, _) | (_, Order::Cut) => Order::Cut,
                (Order::Carry(Traffic::LoseReplies), Order::Carry(Traffic::LoseReplies)) => order,
                (Order::Carry(Traffic::LoseReplies), Order::Carry(_)) => Order::Cut,
                (Order::Carry(_), Order::Carry(_)) => order,
            };
            std::mem::replace(current, next) != next
        });
    }
}

async fn accept(
    listener: TcpListener,
    upstream: String,
    traffic: watch::Receiver<Traffic>,
    seen: watch::Sender<Seen>,
) {
    // The tasks of the connections end with this one.
    let mut carried = tokio::task::JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let orders = watch::Sender::new(Order::Carry(*traffic.borrow()));
        let received = orders.subscribe();
        let mut id = ConnectionId(0);
        seen.send_modify(|seen| {
            id = ConnectionId(seen.connections.len());
            seen.connections.push(Arc::new(Connection { orders }));
            seen.open.push(id);
        });
        let (upstream, seen) = (upstream.clone(), seen.clone());
        carried.spawn(async move {
            if let Err(error) = carry(client, &upstream, received, &seen).await {
                tracing::debug!(%error, connection = id.0, "the proxy's connection ended");
            }
            seen.send_modify(|seen| seen.open.retain(|open| *open != id));
        });
    }
}

/// Carries both directions until one side closes or the connection is cut.
async fn carry(
    client: TcpStream,
    upstream: &str,
    orders: watch::Receiver<Order>,
    seen: &watch::Sender<Seen>,
) -> Result<()> {
    let server = TcpStream::connect(upstream).await.context("connect upstream")?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut cut = orders.clone();
    tokio::select! {
        ended = pump(from_client, to_server, orders.clone(), None) => ended,
        ended = pump(from_server, to_client, orders, Some(seen)) => ended,
        _ = cut.wait_for(|order| *order == Order::Cut) => Ok(()),
    }
}

/// Carries one direction; `lost` is where a direction that can lose its bytes counts them.
async fn pump(
    mut from: OwnedReadHalf,
    to: OwnedWriteHalf,
    mut orders: watch::Receiver<Order>,
    lost: Option<&watch::Sender<Seen>>,
) -> Result<()> {
    let (queue, chunks) = mpsc::channel(CHUNKS_MAX);
    let writing = AbortOnDropHandle::new(tokio::spawn(write_in_time(to, chunks)));
    let mut buffer = vec![0; CHUNK_MAX];
    loop {
        let Order::Carry(traffic) = *orders.borrow_and_update() else { return Ok(()) };
        if traffic == Traffic::Stall {
            orders.changed().await?;
            continue;
        }
        let size = tokio::select! {
            // First, so that an order holds for every byte that comes after it was given.
            biased;
            changed = orders.changed() => { changed?; continue }
            size = from.read(&mut buffer) => size?,
        };
        if size == 0 {
            drop(queue);
            return writing.await?;
        }
        let delay = match (traffic, lost) {
            (Traffic::LoseReplies, Some(seen)) => {
                seen.send_modify(|seen| seen.replies_lost += size as u64);
                continue;
            }
            (Traffic::Delay(delay), _) => delay,
            (Traffic::Pass | Traffic::Stall | Traffic::LoseReplies, _) => Duration::ZERO,
        };
        queue.send((Instant::now() + delay, buffer[..size].to_vec())).await?;
    }
}

async fn write_in_time(
    mut to: OwnedWriteHalf,
    mut chunks: mpsc::Receiver<(Instant, Vec<u8>)>,
) -> Result<()> {
    while let Some((due, chunk)) = chunks.recv().await {
        sleep_until(due).await;
        to.write_all(&chunk).await?;
    }
    Ok(())
}
