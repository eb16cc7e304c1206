//! The installation as its nodes and its log tell of it; `status` shows it and `doctor` judges it.

use std::collections::BTreeMap;
use std::time::Duration;

use cronstream_bus::Bus;
use cronstream_schemas::event::{Cursor, Decoded, Event as _, LogEvent};
use cronstream_schemas::id::Partition;
use cronstream_schemas::status::{
    ExecutorStatus, NodeStatus, PartitionStatus, RelayStatus, Role, TickerStatus,
};

use crate::error::Error;
use crate::{follow, init};

/// The nodes that answered, by role.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// Tickers, by name.
    pub(crate) tickers: Vec<(NodeStatus, TickerStatus)>,
    /// Executors, by queue and name.
    pub(crate) executors: Vec<(NodeStatus, ExecutorStatus)>,
    /// Relays, by name.
    pub(crate) relays: Vec<(NodeStatus, RelayStatus)>,
}

impl Nodes {
    /// Asks every node.
    ///
    /// # Errors
    /// When the question cannot be asked.
    pub(crate) async fn ask(bus: &Bus, patience: Duration) -> Result<Self, Error> {
        Ok(Self::read(bus.discover(patience).await?))
    }

    /// Sorts answers by role; what cannot be read is passed over.
    pub(crate) fn read(answers: Vec<cronstream_bus::NodeStatus>) -> Self {
        let mut nodes = Self::default();
        for answer in answers {
            match serde_json::from_slice::<NodeStatus>(&answer.payload) {
                Ok(node) => match node.role.clone() {
                    Role::Ticker(ticker) => nodes.tickers.push((node, ticker)),
                    Role::Executor(executor) => nodes.executors.push((node, executor)),
                    Role::Relay(relay) => nodes.relays.push((node, relay)),
                },
                Err(error) => tracing::warn!(%error, "a node's status cannot be read"),
            }
        }
        nodes.tickers.sort_by(|(a, _), (b, _)| (&a.node, a.instance).cmp(&(&b.node, b.instance)));
        nodes.relays.sort_by(|(a, _), (b, _)| (&a.node, a.instance).cmp(&(&b.node, b.instance)));
        nodes.executors.sort_by(|(a, ae), (b, be)| {
            (&ae.queue, &a.node, a.instance).cmp(&(&be.queue, &b.node, b.instance))
        });
        nodes
    }

    /// The ticker that says it leads a partition, the one of the highest term where two do.
    pub(crate) fn leader(&self, partition: Partition) -> Option<(&NodeStatus, &PartitionStatus)> {
        let leading = self.tickers.iter().flat_map(|(node, ticker)| {
            ticker.partitions.iter().filter(|p| p.leading).map(move |p| (node, p))
        });
        leading.filter(|(_, p)| p.partition == partition).max_by_key(|(_, p)| p.epoch)
    }
}

/// The number of partitions, from the installation's settings.
///
/// # Errors
/// When there is no installation.
pub(crate) async fn partitions(bus: &Bus) -> Result<u8, Error> {
    let names = bus.names();
    match bus.last_from_leader(&names.log, &names.meta).await? {
        Some(meta) => init::partitions(&meta.payload),
        None => {
            let what = format!("{} without settings", names.log);
            Err(cronstream_bus::Error::NotInitialised { what }.into())
        }
    }
}

/// The last cursor of each partition.
///
/// # Errors
/// When the log cannot be read.
pub(crate) async fn cursors(bus: &Bus) -> Result<BTreeMap<u8, Cursor>, Error> {
    let filter = format!("{}.cursor.*", bus.names().prefix());
    let mut cursors = BTreeMap::new();
    follow::last_of_each(bus, &bus.names().log, &filter, |message| {
        match LogEvent::decode(&message.payload) {
            Ok(Decoded::Known(LogEvent::Cursor(cursor))) => {
                cursors.insert(cursor.partition.0, cursor);
            }
            Ok(_) | Err(_) => {
                tracing::warn!(message.subject, "not a cursor that this version knows")
            }
        }
    })
    .await?;
    Ok(cursors)
}
