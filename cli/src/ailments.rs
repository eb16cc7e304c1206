//! What may be wrong with nodes and jobs.
//!
//! Invariant: a finding names at most [`NAMED_MAX`] things and counts the rest.

use std::collections::{BTreeMap, BTreeSet};

use cronstream_schemas::definition::JobDefinition;
use cronstream_schemas::event::JobState;
use cronstream_schemas::id::Partition;
use cronstream_schemas::name::{JobId, Name};
use cronstream_schemas::status::NodeStatus;

use crate::cluster::Nodes;
use crate::doctor::{Check, Verdict};

/// Things that a finding names.
const NAMED_MAX: usize = 10;

/// What is wrong with the tickers.
pub(crate) fn tickers(nodes: &Nodes, partitions: u8) -> Vec<Check> {
    const NAME: &str = "tickers";
    if nodes.tickers.is_empty() {
        let advice = "cronstream ticker";
        return vec![Check::found(NAME, Verdict::Bad, "none answers: nothing fires", advice)];
    }
    let mut checks = Vec::new();
    let led = |number: &u8| nodes.leader(Partition(*number)).is_some();
    let orphans: Vec<u8> = (0..partitions).filter(|number| !led(number)).collect();
    if !orphans.is_empty() {
        let detail = format!("partitions without a leader: {}", list(&orphans));
        let advice = "an election takes the lease ttl; look at the tickers' logs if this stays";
        checks.push(Check::found(NAME, Verdict::Bad, detail, advice));
    }
    for (node, ticker) in &nodes.tickers {
        for partition in &ticker.partitions {
            if let Some(why) = &partition.stopped {
                let detail = format!("partition {} is stopped: {why}", partition.partition.0);
                let advice = "docs/reference/errors.md#partition-stopped";
                checks.push(Check::found(NAME, Verdict::Bad, detail, advice));
            }
        }
        if ticker.hold {
            let detail = format!("{} holds: it fires nothing", node.node);
            checks.push(Check::found(NAME, Verdict::Warning, detail, "cronstream release"));
        }
        checks.extend(readiness(NAME, node));
    }
    checks.extend(versions(nodes));
    if checks.is_empty() {
        let detail = format!("{}, every partition is led", answering(nodes.tickers.len()));
        checks.push(Check::good(NAME, detail));
    }
    checks
}

/// What is wrong with the executors.
pub(crate) fn executors(nodes: &Nodes) -> Vec<Check> {
    const NAME: &str = "executors";
    let mut checks: Vec<Check> =
        nodes.executors.iter().filter_map(|(node, _)| readiness(NAME, node)).collect();
    if checks.is_empty() {
        checks.push(Check::good(NAME, answering(nodes.executors.len())));
    }
    checks
}

fn readiness(name: &'static str, node: &NodeStatus) -> Option<Check> {
    if node.not_ready.is_empty() {
        return None;
    }
    let detail = format!("{} is not ready: {}", node.node, node.not_ready.join("; "));
    Some(Check::found(name, Verdict::Bad, detail, "look at its log"))
}

fn versions(nodes: &Nodes) -> Option<Check> {
    let tickers = nodes.tickers.iter().map(|(node, _)| node);
    let all = tickers.chain(nodes.executors.iter().map(|(node, _)| node));
    let versions: BTreeSet<&str> = all.map(|node| node.version.as_str()).collect();
    if versions.len() < 2 {
        return None;
    }
    let versions: Vec<&str> = versions.into_iter().collect();
    let detail = format!("nodes run versions {}", versions.join(", "));
    Some(Check::found("versions", Verdict::Warning, detail, "finish the upgrade"))
}

/// The tasks that jobs want, by queue, with one job for each.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    tasks: BTreeMap<(Name, Name), (u64, JobId)>,
}

impl Wanted {
    /// Notes what a job wants.
    pub(crate) fn add(&mut self, state: &JobState) {
        if let Some(definition) = &state.definition {
            self.want(&state.job, definition);
        }
    }

    /// Notes what a definition wants.
    pub(crate) fn want(&mut self, job: &JobId, definition: &JobDefinition) {
        let key = (definition.queue.clone(), definition.task.clone());
        self.tasks.entry(key).or_insert_with(|| (0, job.clone())).0 += 1;
    }

    /// The queues and tasks that are wanted.
    pub(crate) fn tasks(&self) -> BTreeSet<(Name, Name)> {
        self.tasks.keys().cloned().collect()
    }

    /// Queues that nobody serves, and tasks that nobody on their queue knows.
    pub(crate) fn faults(&self, nodes: &Nodes) -> Vec<Check> {
        let served: BTreeSet<&Name> = nodes.executors.iter().map(|(_, e)| &e.queue).collect();
        let known: BTreeSet<(&Name, &Name)> = nodes
            .executors
            .iter()
            .flat_map(|(_, e)| e.tasks.iter().map(move |task| (&e.queue, task)))
            .collect();
        let mut checks = Vec::new();
        let wanted: BTreeSet<&Name> = self.tasks.keys().map(|(queue, _)| queue).collect();
        let orphans: Vec<_> = wanted.into_iter().filter(|queue| !served.contains(queue)).collect();
        if !orphans.is_empty() {
            let detail = format!("queues without executors: {}", list(&orphans));
            let advice = format!("cronstream executor --queue {} --tasks FILE", orphans[0]);
            checks.push(Check::found("queues", Verdict::Bad, detail, advice));
        }
        let unknown: Vec<String> = self
            .tasks
            .iter()
            .filter(|((queue, task), _)| served.contains(queue) && !known.contains(&(queue, task)))
            .map(|((queue, task), (jobs, first))| match jobs {
                1 => format!("{task} on queue {queue} (job {first})"),
                many => format!("{task} on queue {queue} ({many} jobs, such as {first})"),
            })
            .collect();
        if !unknown.is_empty() {
            let detail = format!("tasks that no executor of their queue knows: {}", list(&unknown));
            let advice = "add the task to the executors' tasks file, or correct the job";
            checks.push(Check::found("tasks", Verdict::Bad, detail, advice));
        }
        checks
    }

    /// The same, or that there is none.
    pub(crate) fn checks(&self, nodes: &Nodes) -> Vec<Check> {
        let mut checks = self.faults(nodes);
        if checks.is_empty() {
            checks.push(Check::good("jobs", "every queue is served and every task is known"));
        }
        checks
    }
}

fn answering(nodes: usize) -> String {
    match nodes {
        1 => "1 answers".to_owned(),
        many => format!("{many} answer"),
    }
}

fn list<T: ToString>(things: &[T]) -> String {
    let named: Vec<String> = things.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    match things.len().saturating_sub(NAMED_MAX) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_bounded_and_counts_the_rest() {
        assert_eq!(list(&[1, 2]), "1, 2");
        let many: Vec<u32> = (0..13).collect();
        assert_eq!(list(&many), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 3 more");
    }
}
