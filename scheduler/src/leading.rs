//! Taking, keeping and leaving partitions, and the turns of those that are led.

use std::sync::Arc;
use std::time::Duration;

use cronstream_bus::{LeaseAnswer, StoredMessage};
use cronstream_core::clock::Verdict as ClockVerdict;
use cronstream_core::lease;
use cronstream_core::turn::{Batch, Now, RunAppend};
use cronstream_schemas::id::{Instance, Partition};
use cronstream_schemas::time::Timestamp;

use crate::Error;
use crate::claims::Outcome;
use crate::input::{Operation, Survey};
use crate::node::Node;
use crate::route;
use crate::seat::{DEAD_IN_FLIGHT_MAX, Looks, Reading, Seat, Stage, new_instance};
use crate::takeover::{self, Verdict};

/// How long after the lease TTL a node waits for its name.
const NAME_PATIENCE: Duration = Duration::from_secs(1);
/// How often the lease bucket is looked for when it does not answer.
const BUCKET_EVERY: Duration = Duration::from_secs(1);
/// How long a candidate waits before it reads the streams' heads again.
const SURVEY_PAUSE: Duration = Duration::from_millis(100);
/// A fold that is ahead of the log is compared this often: a broker's election may hide its end for a while.
const AGAIN_MAX: u32 = 600;
/// A fold that contradicts the log is judged again this often before the partition is stopped.
const DOUBTS_MAX: u32 = 3;

/// Why partitions are given up whose node's clock is wrong.
const CLOCK_SKEW: &str = "clock-skew";

impl Node {
    /// Claims the node's name; one that a live node holds is an error.
    pub(crate) fn claim_name(&mut self) -> Result<(), Error> {
        let key = lease::node_key(&self.options.node);
        if self.stopping {
            if self.seats.iter().all(|seat| !self.claims.holds(&seat.key())) {
                self.claims.give_up(&self.desk, &key, self.moment());
            }
            return Ok(());
        }
        if self.claims.holds(&key) {
            if !std::mem::replace(&mut self.named, true) {
                let (partitions, hold) = (self.seats.len(), self.settings.hold);
                tracing::info!(node = %self.options.node, partitions, hold, "ticker started");
            }
            return Ok(());
        }
        if !self.claims.is_synced() {
            return Ok(());
        }
        let now = self.clock.monotonic();
        let other = self.claims.holder(&key).filter(|(claim, _)| claim.instance != self.instance);
        let Some((_, revision)) = other else {
            self.rival = None;
            self.claims.take(&self.desk, &key, self.instance, self.moment());
            return Ok(());
        };
        match self.rival {
            None => self.rival = Some((now, *revision)),
            Some((_, first)) if first != *revision => {
                return Err(Error::NameTaken(self.options.node.clone()));
            }
            Some((since, _)) if now.saturating_sub(since) > self.claims.ttl + NAME_PATIENCE => {
                self.claims.take(&self.desk, &key, self.instance, self.moment());
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Takes the partitions that are ours and free, leaves those that are not, and regains lost leases.
    pub(crate) fn claim_partitions(&mut self) {
        let moment = self.moment();
        self.note_clock();
        let must_leave = self.must_leave();
        let leaving_for = if self.stopping { "stopping" } else { CLOCK_SKEW };
        let stopped = self.seats.iter().filter(|seat| matches!(seat.stage, Stage::Stopped { .. }));
        self.claims.stopped = stopped.map(|seat| seat.partition.number).collect();
        let candidates = self.claims.candidates();
        let named = self.claims.holds(&lease::node_key(&self.options.node));
        for seat in &mut self.seats {
            let key = seat.key();
            let rank = candidates.rank(seat.partition.number, &self.options.node);
            match seat.instance() {
                Some(instance) => {
                    let leave = rank > 0 || must_leave;
                    if let Stage::Leading(leading) = &mut seat.stage {
                        leading.leaving = leave;
                    }
                    let holds = self.claims.holds(&key);
                    if leave && seat.is_quiet() {
                        let partition = seat.partition.number.0;
                        let reason = if must_leave { leaving_for } else { "another-node" };
                        tracing::info!(partition, rank, reason, "giving the partition up");
                        seat.step_down();
                        self.claims.give_up(&self.desk, &key, moment);
                    } else if !holds && self.claims.is_synced() {
                        let other = self.claims.holder(&key);
                        if other.is_some_and(|(claim, _)| claim.instance != instance) {
                            tracing::warn!(
                                partition = seat.partition.number.0,
                                "lease lost to another node"
                            );
                            seat.step_down();
                        } else {
                            self.claims.take(&self.desk, &key, instance, moment);
                        }
                    }
                }
                None if self.claims.holds(&key) => self.claims.give_up(&self.desk, &key, moment),
                None => {
                    let wanted = moment.ready && named && matches!(seat.stage, Stage::Standby);
                    let free = self.claims.is_synced() && self.claims.holder(&key).is_none();
                    if !(wanted && free) {
                        seat.free_since = None;
                        continue;
                    }
                    let since = *seat.free_since.get_or_insert(moment.monotonic);
                    let waited = moment.monotonic.saturating_sub(since);
                    if waited >= lease::patience(rank, self.claims.ttl) {
                        self.claims.take(&self.desk, &key, new_instance(), moment);
                    }
                }
            }
        }
    }

    /// Tells when the clock is found to be off by more than is allowed, and when it is right again.
    fn note_clock(&mut self) {
        match self.guard.verdict(self.clock.wall(), self.clock.monotonic()) {
            ClockVerdict::Off(offset_ms) => {
                if !std::mem::replace(&mut self.clock_off, true) {
                    let allowed_ms = self.options.max_clock_error.as_millis();
                    let partitions = self.seats.iter().filter(|seat| seat.instance().is_some());
                    tracing::warn!(
                        reason = CLOCK_SKEW,
                        offset_ms,
                        allowed_ms,
                        partitions = partitions.count(),
                        "giving every partition up: the clock is off"
                    );
                }
            }
            ClockVerdict::Good => {
                if std::mem::take(&mut self.clock_off) {
                    tracing::info!(reason = CLOCK_SKEW, "the clock is right again");
                }
            }
            // Neither is known.
            ClockVerdict::Unknown => {}
        }
    }

    pub(crate) fn claimed(
        &mut self,
        key: &str,
        operation: Operation,
        sent: Duration,
        answer: &LeaseAnswer,
    ) {
        let (now, moment) = (self.clock.monotonic(), self.moment());
        let outcome = self.claims.answered(key, (operation, sent), answer, now);
        if outcome == Outcome::Unclear && now.saturating_sub(self.bucket_asked) > BUCKET_EVERY {
            self.bucket_asked = now;
            self.desk.ensure_bucket(self.replicas, self.claims.ttl);
        }
        let seat = self.seats.iter_mut().find(|seat| seat.key() == key);
        // A renewal that was out when the node stepped down is no new claim: it is given up.
        let (Some(seat), Outcome::Won, Operation::Create) = (seat, outcome, operation) else {
            return;
        };
        if let (Stage::Standby, Some(instance)) = (&seat.stage, self.claims.instance(key)) {
            // What was sent under a claim that was left may still be answered: the next term takes another one.
            if seat.left == Some(instance) {
                self.claims.give_up(&self.desk, key, moment);
                return;
            }
            let partition = seat.partition.number;
            seat.stage = Stage::Surveying { instance, survey: None, looks: Looks::default() };
            self.desk.survey(partition, instance, Duration::ZERO);
        }
    }

    pub(crate) fn surveyed(
        &mut self,
        number: Partition,
        instance: Instance,
        found: Option<Box<Survey>>,
    ) {
        let seat = &mut self.seats[usize::from(number.0)];
        let Stage::Surveying { instance: mine, survey, .. } = &mut seat.stage else { return };
        if *mine != instance {
            return;
        }
        if found.is_none() {
            self.desk.survey(number, instance, SURVEY_PAUSE);
            return;
        }
        *survey = found;
        self.log.confirm();
        self.runs.confirm();
    }

    /// Lets go of partitions whose log shows another leader, or what only a later version understands.
    pub(crate) fn heed_the_log(&mut self) {
        for seat in &mut self.seats {
            let Stage::Leading(_) = &seat.stage else { continue };
            if let Some(kind) = seat.partition.unknown() {
                let why = takeover::too_old(kind);
                seat.stop(why);
            } else if !seat.partition.is_leading() {
                tracing::warn!(partition = seat.partition.number.0, "another node leads");
                seat.fenced += 1;
                seat.step_down();
            }
        }
    }

    /// Lets candidates take over whose fold has reached the heads.
    pub(crate) fn advance(&mut self) {
        let now = self.clock.wall();
        for seat in &mut self.seats {
            let number = seat.partition.number;
            let Stage::Surveying { instance, survey: Some(survey), looks } = &mut seat.stage else {
                continue;
            };
            let folded = self.log.through >= survey.log.last_seq
                && self.runs.through >= survey.runs.last_seq;
            if !folded || !self.log_read {
                continue;
            }
            let instance = *instance;
            match takeover::judge(&seat.partition, survey, self.options.max_clock_error) {
                Verdict::Go => {
                    let hear_through = survey.commands.last_seq;
                    let cursor = seat.partition.takeover(now, &self.options.node, instance);
                    let batch = Batch {
                        events: Vec::new(),
                        cursor,
                        cursor_expected: seat.partition.cursor_seq(),
                        replies: Vec::new(),
                        alone: None,
                    };
                    self.desk.commit(instance, &Arc::new(batch));
                    seat.stage = Stage::TakingOver { instance, hear_through, stored: None };
                }
                Verdict::Stop(why) if looks.doubts >= DOUBTS_MAX => seat.stop(why),
                Verdict::Again if looks.again >= AGAIN_MAX => {
                    seat.stop("the log ends before what this node has read of it".into());
                }
                verdict @ (Verdict::Again | Verdict::Stop(_)) => {
                    match verdict {
                        Verdict::Stop(_) => looks.doubts += 1,
                        Verdict::Again | Verdict::Go => looks.again += 1,
                    }
                    if let Stage::Surveying { survey, .. } = &mut seat.stage {
                        *survey = None;
                    }
                    self.desk.survey(number, instance, SURVEY_PAUSE);
                }
            }
        }
    }

    pub(crate) fn appended(
        &mut self,
        number: Partition,
        append: &RunAppend,
        last: Option<&StoredMessage>,
    ) {
        let seat = &mut self.seats[usize::from(number.0)];
        if let Some((key, event)) = last.and_then(|m| route::run(&self.settings.prefix, m)) {
            let (seq, at) = last.map_or((0, 0), |message| (message.seq, message.timestamp_ms));
            seat.partition.read_run(seq, Timestamp::from_millis(at), &key, &event);
        }
        seat.partition.append_done(append.key.shard);
        if let Stage::Leading(leading) = &mut seat.stage {
            leading.appends = leading.appends.saturating_sub(1);
        }
    }

    pub(crate) fn dead_written(&mut self, number: Partition, seq: u64, written: bool) {
        let seat = &mut self.seats[usize::from(number.0)];
        if written {
            seat.partition.dead_written(seq);
        }
        if let Stage::Leading(leading) = &mut seat.stage {
            leading.dead.remove(&seq);
        }
    }

    /// Takes a turn of every partition that may have one; returns when the next is due.
    pub(crate) fn take_turns(&mut self) -> Option<Timestamp> {
        let (wall, monotonic) = (self.clock.wall(), self.clock.monotonic());
        if self.guard.verdict(wall, monotonic) != ClockVerdict::Good {
            return None;
        }
        if self.is_deaf(wall, monotonic) {
            return None;
        }
        let now = Now { wall, limit: self.guard.limit(monotonic) };
        let mut wake_at = None;
        for seat in &mut self.seats {
            let key = seat.key();
            let number = seat.partition.number;
            let Seat { partition, stage: Stage::Leading(leading), reading, .. } = seat else {
                continue;
            };
            let heard = partition.commands_seen() >= leading.hear_through || partition.is_full();
            if leading.leaving || !heard || !self.claims.is_trusted(&key, monotonic) {
                continue;
            }
            let turn = partition.turn(now, &self.settings, leading.in_flight.is_none());
            if let Some(command) = turn.read_log
                && reading.is_none()
            {
                *reading = Some(Reading { command, head: None });
                self.desk.log_head(number, command);
            }
            leading.appends += turn.appends.len();
            for append in turn.appends {
                self.desk.append(number, append, wall);
            }
            if let Some(read) = turn.history {
                self.desk.history(number, read);
            }
            if let Some(mut batch) = turn.batch {
                batch.alone = batch.alone.filter(|_| monotonic >= leading.whole_until);
                let batch = Arc::new(batch);
                self.desk.commit(leading.instance, &batch);
                leading.in_flight = Some(batch);
                leading.sent = monotonic;
            }
            for (seq, dead) in partition.dead() {
                if leading.dead.len() >= DEAD_IN_FLIGHT_MAX {
                    break;
                }
                if leading.dead.insert(seq) {
                    self.desk.dead(number, seq, dead);
                }
            }
            wake_at = [wake_at, turn.wake_at].into_iter().flatten().min();
        }
        wake_at
    }
}
