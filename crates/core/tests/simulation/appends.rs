//! An executor's appends: group commit, its fall-back to single appends, and what an answer or its absence means.
//!
//! Invariant: each event keeps its own expectation, in a group and alone.

use std::sync::Arc;

use cronstream_core::attempt::{self, Refusal};
use cronstream_schemas::event::{Event, RunEvent};
use cronstream_schemas::subject::RunKey;
use xxhash_rust::xxh3::xxh3_64;

use crate::executor::{Delivery, Phase, Then};
use crate::rule::Rule;
use crate::store::RunItem;
use crate::world::{Answer, Body, Party, World};

impl World {
    pub(crate) fn begin_send(
        &mut self,
        (n, at): (usize, usize),
        event: RunEvent,
        expected: u64,
        then: Then,
    ) {
        let digest = xxh3_64(&event.encode());
        let event = Arc::new(event);
        let (request, alone, behind) = (None, false, 0);
        self.executors[n].held[at].phase =
            Phase::Sending { event, digest, expected, then, request, alone, behind };
        if self.config.permits == 1 {
            self.flush(n);
        }
    }

    pub(crate) fn flush(&mut self, n: usize) {
        let now = self.now;
        self.executors[n].held.retain(|delivery| {
            let starts =
                matches!(delivery.phase, Phase::Sending { then: Then::Run, request: None, .. });
            !(starts && now > delivery.fire.run_by) // Its end may have been written, and vanished.
        });
        let mut groups: Vec<Vec<usize>> = vec![Vec::new()];
        for (at, delivery) in self.executors[n].held.iter().enumerate() {
            if let Phase::Sending { request: None, alone, .. } = &delivery.phase {
                let same = |other: &usize| {
                    self.executors[n].held[*other].fire.shard_id() == delivery.fire.shard_id()
                };
                if *alone || groups[0].iter().any(same) {
                    groups.push(vec![at]);
                } else {
                    groups[0].push(at);
                }
            }
        }
        for group in groups.into_iter().filter(|group| !group.is_empty()) {
            let items = group.iter().filter_map(|at| self.item(n, *at)).collect();
            let id = self.send(Party::Executor(n), Body::Runs(items));
            for (count, at) in group.into_iter().rev().enumerate() {
                let phase = &mut self.executors[n].held[at].phase;
                if let Phase::Sending { request, behind, .. } = phase {
                    *request = Some(id);
                    *behind = count as u64;
                }
            }
        }
    }

    fn item(&self, n: usize, at: usize) -> Option<RunItem> {
        let delivery = &self.executors[n].held[at];
        let Phase::Sending { event, expected, then, .. } = &delivery.phase else { return None };
        let rule = match then {
            Then::Run => Rule::StartedExpectation,
            Then::Acknowledge | Then::GiveBack => Rule::OutcomeExpectation,
        };
        let fire = &delivery.fire;
        Some(RunItem {
            key: RunKey {
                queue: fire.queue.clone(),
                job: fire.job.clone(),
                shard: fire.shard_id(),
            },
            event: Arc::clone(event),
            expected: self.keeps(rule).then_some(*expected),
            keep: fire.keep_until.since(self.now),
        })
    }

    pub(crate) fn executor_hears(&mut self, n: usize, answer: Answer) {
        let is_asked = |delivery: &Delivery| match &delivery.phase {
            Phase::Sending { request, behind, .. } => {
                (*request == Some(answer.request)).then_some(*behind)
            }
            Phase::Pulled | Phase::Running { .. } | Phase::Over => None,
        };
        let held = self.executors[n].held.iter().enumerate();
        let group: Vec<_> = held.filter_map(|(at, d)| Some((at, is_asked(d)?))).collect();
        let alone = group.len() == 1;
        // From the last to the first, so that a delivery that is dropped moves none that is still to come.
        for (at, behind) in group.into_iter().rev() {
            match answer.result {
                Ok(last_seq) => self.stands(n, at, last_seq - behind),
                Err(_) if alone => self.refused(n, at, true),
                Err(_) => self.send_again(n, at, self.keeps(Rule::RefusedGroupSplits)),
            }
        }
    }

    fn send_again(&mut self, n: usize, at: usize, by_itself: bool) {
        if let Phase::Sending { request, alone, .. } = &mut self.executors[n].held[at].phase {
            *request = None;
            *alone = by_itself;
        }
        if self.config.permits == 1 {
            self.flush(n);
        }
    }

    /// My event stands under `seq`.
    fn stands(&mut self, n: usize, at: usize, seq: u64) {
        let acks_last = self.keeps(Rule::AckLast);
        let delivery = &mut self.executors[n].held[at];
        let Phase::Sending { event, then, .. } = &delivery.phase else { return };
        match then {
            Then::Run => {
                let place = event.place();
                delivery.phase = Phase::Running { place, token: seq };
                let (shard, log_seq) = (delivery.fire.shard_id(), delivery.seq);
                let instance = self.executors[n].me.instance;
                self.checker.begin(seq, shard, instance);
                if !acks_last {
                    self.queue.acknowledge(log_seq);
                }
            }
            Then::Acknowledge => delivery.phase = Phase::Over,
            Then::GiveBack => {
                let seq = delivery.seq;
                self.executors[n].held.remove(at);
                self.queue.redeliver(seq);
            }
        }
    }

    /// My event was refused, or its answer never came: the last event is read and decides.
    pub(crate) fn refused(&mut self, n: usize, at: usize, by_store: bool) {
        let delivery = &self.executors[n].held[at];
        let fire = Arc::clone(&delivery.fire);
        let Phase::Sending { event, expected, then, .. } = &delivery.phase else { return };
        let (event, expected, then) = (Arc::clone(event), *expected, *then);
        let last = self.last(&fire, false);
        let mut refusal = attempt::after_refusal(&fire, &event, expected, last.as_ref());
        if let (false, Some(last)) = (self.keeps(Rule::InstanceInComparison), &last) {
            let same = event.kind() == last.event.kind() && event.place() == last.event.place();
            if same {
                refusal = Refusal::Won { seq: last.seq };
            }
        }
        let rule = match then {
            Then::Run => Rule::NoAckForAnothersStart,
            Then::Acknowledge | Then::GiveBack => Rule::NoAckForAnothersOutcome,
        };
        if by_store && refusal == Refusal::Drop && !self.keeps(rule) {
            refusal = Refusal::Ack;
        }
        match refusal {
            Refusal::Won { seq } => self.stands(n, at, seq),
            Refusal::Resend => self.send_again(n, at, false),
            Refusal::Ack => self.executors[n].held[at].phase = Phase::Over,
            Refusal::Again if then == Then::Run => {
                self.executors[n].held[at].phase = Phase::Pulled;
            }
            Refusal::Again | Refusal::Drop => {
                self.executors[n].held.remove(at);
            }
        }
    }
}
