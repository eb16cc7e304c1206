//! What became of what a partition's leader has sent.
//!
//! Invariant: what was stored is folded once its fate is certain and before anything new is decided. Where a fire may
//! have come by itself before a cursor of this node, the log is read to that cursor first.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cronstream_schemas::event::{Cause, Fired, LogEvent};
use cronstream_schemas::id::{Instance, Partition};

use crate::decisions;
use crate::input::Fate;
use crate::node::Node;
use crate::seat::{Leading, Seat, Stage};
use crate::tally::Tally;

/// How long no fire goes by itself after one whose answer was lost.
const WHOLE_FOR: Duration = Duration::from_secs(10);

impl Node {
    pub(crate) fn settled(&mut self, number: Partition, instance: Instance, fate: Fate) {
        let seat = &mut self.seats[usize::from(number.0)];
        if seat.instance() != Some(instance) {
            return;
        }
        if let Stage::Leading(leading) = &seat.stage
            && !matches!(fate, Fate::Stuck { .. })
        {
            self.hearing.settled(leading.sent, self.clock.monotonic());
        }
        match fate {
            Fate::Stuck { why } => {
                if seat.stuck.as_ref() != Some(&why) {
                    tracing::warn!(partition = number.0, why, "batch not stored yet");
                }
                seat.stuck = Some(why);
            }
            Fate::Abandoned { why } => {
                tracing::warn!(partition = number.0, why, "batch given up: to be decided anew");
                seat.step_down();
                seat.stuck = Some(why);
            }
            Fate::Fenced => {
                tracing::warn!(partition = number.0, "fenced: another leader has moved the cursor");
                seat.fenced += 1;
                seat.step_down();
            }
            Fate::Stored { seq } => {
                self.echo.stored(seq);
                self.stored(number, seq);
            }
            Fate::StoredAlone { seq } => {
                self.echo.stored(seq);
                self.stored_alone(number, seq);
            }
            Fate::Closed { seq } => {
                seat.stuck = None;
                if let Stage::Leading(leading) = &mut seat.stage {
                    leading.closed_at = Some(seq);
                    leading.whole_until = self.clock.monotonic() + WHOLE_FOR;
                    self.log.confirm();
                }
            }
        }
    }

    fn stored(&mut self, number: Partition, seq: u64) {
        let seat = &mut self.seats[usize::from(number.0)];
        seat.stuck = None;
        match &mut seat.stage {
            Stage::TakingOver { stored, .. } => {
                *stored = Some(seq);
                self.log.confirm();
            }
            Stage::Leading(leading) => {
                if let Some(batch) = leading.in_flight.take() {
                    let first = seq.saturating_sub(batch.events.len() as u64);
                    self.echo.folded(&batch, first..=seq);
                    // The task that had it stored has let go of it.
                    let mut batch = Arc::unwrap_or_clone(batch);
                    let replies = std::mem::take(&mut batch.replies);
                    seat.partition.commit(batch, seq);
                    self.desk.reply(replies);
                }
            }
            Stage::Standby | Stage::Surveying { .. } | Stage::Stopped { .. } => {}
        }
    }

    fn stored_alone(&mut self, number: Partition, seq: u64) {
        let seat = &mut self.seats[usize::from(number.0)];
        seat.stuck = None;
        let Stage::Leading(leading) = &mut seat.stage else { return };
        let Some(batch) = leading.in_flight.take() else { return };
        // Of a batch the cursor tells. This one is folded at a sequence that is known only if the log has brought it.
        let known = seat.partition.log_through();
        if seq <= known && !batch.events.iter().all(|planned| is_folded(seat, &planned.event)) {
            seat.stop(format!("the log gave {seq} again, after {known}: it was set back"));
            return;
        }
        self.echo.folded(&batch, seq..=seq);
        seat.partition.commit_alone(Arc::unwrap_or_clone(batch), seq);
    }

    /// Goes on where the log is read to a cursor of this node: begins to lead, or tells what became of a fire.
    pub(crate) fn heed_closed(&mut self) {
        let through = self.log.through;
        for number in 0..self.seats.len() {
            let seat = &mut self.seats[number];
            match &mut seat.stage {
                Stage::TakingOver { instance, hear_through, stored: Some(seq) }
                    if through >= *seq =>
                {
                    let (instance, hear_through) = (*instance, *hear_through);
                    self.begin(number, instance, hear_through);
                }
                Stage::Leading(leading) if leading.closed_at.is_some_and(|seq| through >= seq) => {
                    leading.closed_at = None;
                    let batch = leading.in_flight.take();
                    let Some(batch) = batch else { continue };
                    let stored = batch.events.iter().all(|it| is_folded(seat, &it.event));
                    let partition = batch.cursor.partition.0;
                    tracing::info!(
                        partition,
                        stored,
                        "the log tells what no answer told of a fire"
                    );
                    if stored {
                        decisions::log(&batch);
                        Tally::of(&batch).count(&self.desk.metrics);
                    }
                }
                Stage::TakingOver { .. }
                | Stage::Leading(_)
                | Stage::Standby
                | Stage::Surveying { .. }
                | Stage::Stopped { .. } => {}
            }
        }
    }

    fn begin(&mut self, number: usize, instance: Instance, hear_through: u64) {
        let seat = &mut self.seats[number];
        let Some(cursor) = seat.partition.cursor().filter(|cursor| cursor.holder == instance)
        else {
            seat.step_down(); // The log tells of a newer leader.
            return;
        };
        let (partition, epoch) = (cursor.partition, cursor.epoch.0);
        seat.partition.lead();
        tracing::info!(partition = partition.0, epoch, "leading");
        seat.fires.tell(&self.spans, &self.settings.prefix, partition);
        let through = seat.partition.commands_through();
        seat.partition.saw_commands(through);
        seat.stage = Stage::Leading(Leading {
            instance,
            in_flight: None,
            sent: Duration::ZERO,
            closed_at: None,
            whole_until: Duration::ZERO,
            hear_through,
            leaving: false,
            appends: 0,
            dead: HashSet::new(),
        });
        self.hear_commands_from(through);
    }
}

/// Whether the fold has the fire of a slot.
fn is_folded(seat: &Seat, event: &LogEvent) -> bool {
    let LogEvent::Fired(Fired { job, cause: Cause::Slot(slot), .. }) = event else { return false };
    seat.partition.job(job).is_some_and(|job| job.decided_through >= *slot)
}
