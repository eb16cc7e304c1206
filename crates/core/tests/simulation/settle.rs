//! What a ticker does when it hears, or does not hear, what became of what it sent.
//!
//! Invariant: nothing new is decided before the fate of what was sent is certain.

use std::sync::Arc;
use std::time::Duration;

use cronstream_core::turn::Batch;

use crate::rule::Rule;
use crate::store::Refused;
use crate::ticker::{Role, monotonic};
use crate::world::World;

/// A batch is sent again only while the lease under which it was planned could still be trusted.
const TRUST_MAX: Duration = Duration::from_secs(40);

impl World {
    pub(crate) fn committed(&mut self, n: usize, last_seq: u64) {
        let (now, rederived) = (self.now, self.keeps(Rule::DeadRederived));
        let only_its_own = self.keeps(Rule::LeadUnderOwnCursor);
        let reads_to_cursor = self.keeps(Rule::TakeoverReadsToOwnCursor);
        let ticker = &mut self.tickers[n];
        let Some(out) = ticker.out.take() else { return };
        if out.alone {
            ticker.fold.commit_alone(Arc::unwrap_or_clone(out.batch), last_seq);
            return;
        }
        let takes_over = ticker.role == Role::TakingOver;
        if (takes_over || out.closes) && reads_to_cursor {
            self.follow_log(n);
        } else {
            ticker.fold.commit(Arc::unwrap_or_clone(out.batch), last_seq);
        }
        let ticker = &mut self.tickers[n];
        if takes_over {
            let own = ticker.fold.cursor().is_some_and(|c| c.holder == ticker.instance);
            if only_its_own && !own {
                self.step_down(n); // The follower was faster, and tells of a newer leader.
                return;
            }
            ticker.guard.sample(now, monotonic(now), monotonic(now));
            ticker.role = Role::Leading;
            ticker.fold.lead();
            if !rederived {
                let dead: Vec<u64> = ticker.fold.dead().map(|(seq, _)| seq).collect();
                dead.into_iter().for_each(|seq| ticker.fold.dead_written(seq));
            }
        }
    }

    /// Reads the cursor back from the stream's leader, and compares.
    pub(crate) fn settle(&mut self, n: usize, refused: Option<Refused>) {
        let Some(out) = self.tickers[n].out.clone() else { return };
        if out.alone && refused.is_none() {
            self.close(n, &out.batch);
            return;
        }
        let (ours, last) = (&out.batch.cursor, self.log.cursor());
        let is_ours = last.is_some_and(|(_, c)| {
            (c.epoch, c.tick, c.holder) == (ours.epoch, ours.tick, ours.holder)
        });
        let last_seq = last.map_or(0, |(seq, _)| *seq);
        if is_ours {
            self.committed(n, last_seq);
        } else if monotonic(self.now) > out.sent_at + TRUST_MAX {
            self.step_down(n);
        } else if last_seq == out.batch.cursor_expected {
            if self.keeps(Rule::SameBatchAgain) || self.tickers[n].role != Role::Leading {
                let drop_ids = self.keeps(Rule::IdsDroppedAfterDuplicate);
                let ids = refused != Some(Refused::Duplicate) || !drop_ids;
                self.send_as(n, out.batch, (ids, false), out.closes);
            } else {
                self.tickers[n].out = None;
            }
        } else {
            self.step_down(n);
        }
    }

    /// An event that was sent by itself may be stored, or may still come to be: until another cursor stands.
    fn close(&mut self, n: usize, batch: &Batch) {
        let closing = batch.alone.clone().filter(|_| self.keeps(Rule::UnknownFireIsClosed));
        let Some(cursor) = closing else {
            self.tickers[n].out = None;
            return;
        };
        let cursor_expected = batch.cursor_expected;
        let (events, replies) = (Vec::new(), Vec::new());
        let batch = Batch { events, cursor, cursor_expected, replies, alone: None };
        self.send_as(n, Arc::new(batch), (true, false), true);
    }
}
