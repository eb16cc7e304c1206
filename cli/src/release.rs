//! `release`: tell every ticker that its hold has ended.
//!
//! Invariant: a release that not every known ticker has taken is a failure, so that nobody believes the cluster
//! fires while a part of it holds.

use std::collections::{BTreeMap, BTreeSet};

use cronstream_schemas::name::Name;
use cronstream_schemas::status::NodeStatus;
use serde::Serialize;

use crate::cluster::Nodes;
use crate::error::Error;
use crate::session::Session;

#[derive(Debug, Serialize)]
struct Released {
    released: Vec<Name>,
    not_released: Vec<Name>,
}

pub(crate) async fn release(session: &Session) -> Result<(), Error> {
    let bus = session.bus().await?;
    let known = Nodes::ask(&bus, session.timeout).await?;
    let answers = Nodes::read(bus.release(session.timeout).await?);
    let free: BTreeSet<_> =
        answers.tickers.iter().filter(|(_, t)| !t.hold).map(|(node, _)| node.instance).collect();
    // A ticker that has only just started may answer one question and not the other.
    let tickers = known.tickers.iter().chain(&answers.tickers).map(|(node, _)| node);
    let tickers: BTreeMap<_, _> = tickers.map(|node| (node.instance, node)).collect();
    if tickers.is_empty() {
        return Err(Error::NotReleased("no ticker answers".into()));
    }
    let (released, held): (Vec<_>, Vec<_>) =
        tickers.into_values().partition(|node| free.contains(&node.instance));
    let names = |nodes: Vec<&NodeStatus>| nodes.into_iter().map(|node| node.node.clone()).collect();
    let done = Released { released: names(released), not_released: names(held) };
    session.out.object(&done, || format!("released {}", list(&done.released)))?;
    if done.not_released.is_empty() {
        return Ok(());
    }
    let still = list(&done.not_released);
    Err(Error::NotReleased(format!(
        "{still} did not answer: release again when they are reachable"
    )))
}

fn list(names: &[Name]) -> String {
    match names {
        [] => "no ticker".into(),
        names => names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}
